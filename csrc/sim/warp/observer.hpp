// The interface between the simulator and its observers. An observer is an analysis, such as the
// profiler or the checker, that receives events while a kernel runs.
//
// METHOD
// The simulator announces events, such as a memory access or a barrier. An observer is a class that
// has a function for each event that it needs, and a list of these events (`hooks`):
//
//    class Barriers {
//      public:
//        static constexpr sim::Hooks hooks = sim::Hook::complete;
//        void complete(const sim::Block&, uint32_t) { ++count_; }
//        ...
//    };
//    static_assert(sim::Observer<Barriers>);
//
// The list and the functions must agree. It is a compile-time error if a function is missing, is
// not listed, has a misspelt name or wrong parameters. The loop that runs a grid (worker.hpp) is
// compiled for each type of observer. So an event for which no observer has a function costs
// nothing. Memory accesses are different: their handlers are compiled once for all observers, and
// announce events through a table of functions (Announcements).
//
// Several observers are combined into one, an Observers<A, B, C>. Each host thread of a launch has
// its own observers, so no event needs a lock.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <tuple>

#include "sim/warp/memory.hpp"
#include "sim/warp/warp.hpp"

namespace coalesce::sim {

// A mistake that the running code detects itself: free() is used wrongly, or an index is outside an
// array member.
struct Misuse {
    std::string message;
    // For an index outside a member: the member, such as "s.a", and "read" or "write". For free(),
    // the array is empty, and the verb is "free", or empty if the memory was freed before.
    std::string array, verb;
};

// The events. Each comment shows the function that handles the event.
enum class Hook : uint16_t {
    // void start(Block&): a block is about to start.
    start = 1 << 0,
    // void finish(const Block&): all threads of the block have left the kernel.
    finish = 1 << 1,
    // void segment(const Warp&, uint32_t op, LaneMask): a path (lanes that execute together) is
    // about to execute the operations from number `op` up to, but not including, number
    // Program::segment_end[op].
    segment = 1 << 2,
    // void diverged(const Warp&, const Op&): lanes that executed together diverge: some take the
    // branch, the others do not.
    diverged = 1 << 3,
    // void call(const Warp&): the running path has entered a function.
    call = 1 << 4,
    // void access(const Warp&, const MemoryEvent&): a memory instruction is about to move its data.
    // If an observer sets Warp::global_repetitions or shared_repetitions, some accesses have no
    // such event (repetition.hpp).
    access = 1 << 5,
    // void fault(const Warp&, const Op&, Access, ptx::Space, Fault, LaneMask, const uint64_t*): the
    // lanes of the LaneMask make an access that is not allowed. If an observer listens, these lanes
    // do not access memory, and the kernel continues. Otherwise the kernel ends with a MemoryFault.
    // An observer with this event also gets an `access` event when the code accesses a .local
    // variable of the running function through its name.
    fault = 1 << 6,
    // void async_complete(const Warp&, const AsyncCopy&, LaneMask): asynchronous copies that the
    // lanes of the LaneMask issued are complete.
    async_complete = 1 << 7,
    // void fence(const Warp&, const Op&): a fence of memory is executed.
    fence = 1 << 8,
    // void synchronized(const Warp&, const Op&): the lanes of warp.mask have reconverged. They are
    // about to execute a shfl, vote, match or bar.warp.sync.
    synchronized = 1 << 9,
    // void arrive(const Warp&, const Op&, uint32_t barrier): the running path reaches a barrier of
    // the block, or arrives at the barrier of the cluster (cluster_barrier). warp.hpp defines the
    // numbers of barriers.
    arrive = 1 << 10,
    // void complete(const Block&, uint32_t barrier): a barrier of the block opens, because all
    // threads have arrived.
    complete = 1 << 11,
    // void misuse(const Warp&, const Op&, int lane, const Misuse&): free() is used wrongly, or an
    // index is outside a member. If an observer listens, the kernel continues. Otherwise the kernel
    // ends with an error.
    misuse = 1 << 12,
    // void copied(const Warp&, const CopyEvent&): the copy engine is about to copy data between
    // global and shared memory. Not announced to observers that listen to faults: for them, the
    // parts of the copy are `access` events.
    copied = 1 << 13,
    // void repeated(const Warp&, const Op&, Access, int64_t stride, uint64_t first): a full warp is
    // about to access words in global memory, and the access repeats another one (repetition.hpp).
    // So there is no `access` event. `first` is the address of lane 0, and `stride` the distance in
    // bytes from each lane's address to the next.
    repeated = 1 << 14,
};

// A set of events.
class Hooks {
  public:
    constexpr Hooks() = default;
    // NOLINT: the conversion from Hook is implicit on purpose, because an event is a set with one
    // element.
    constexpr Hooks(Hook hook) : bits_(uint16_t(hook)) {}
    [[nodiscard]] constexpr bool has(Hook hook) const { return (bits_ & uint16_t(hook)) != 0; }
    friend constexpr Hooks operator|(Hooks a, Hooks b) {
        a.bits_ |= b.bits_;
        return a;
    }

  private:
    uint16_t bits_ = 0;
};
constexpr Hooks operator|(Hook a, Hook b) { return Hooks(a) | Hooks(b); }

// True if the list and the functions agree for one event.
template <class O, Hook hook>
constexpr bool agrees() {
    using enum Hook;
    constexpr bool listens_to = [] {
        if constexpr (hook == start) return requires(O& o, Block& b) { o.start(b); };
        if constexpr (hook == finish) return requires(O& o, const Block& b) { o.finish(b); };
        if constexpr (hook == segment)
            return requires(O& o, const Warp& w) { o.segment(w, uint32_t{}, LaneMask{}); };
        if constexpr (hook == diverged)
            return requires(O& o, const Warp& w, const Op& op) { o.diverged(w, op); };
        if constexpr (hook == call) return requires(O& o, const Warp& w) { o.call(w); };
        if constexpr (hook == access)
            return requires(O& o, const Warp& w, const MemoryEvent& e) { o.access(w, e); };
        if constexpr (hook == fault)
            return requires(O& o, const Warp& w, const Op& op, const uint64_t* addresses) {
                o.fault(w, op, Access{}, ptx::Space{}, Fault{}, LaneMask{}, addresses);
            };
        if constexpr (hook == async_complete)
            return requires(O& o, const Warp& w, const AsyncCopy& c) {
                o.async_complete(w, c, LaneMask{});
            };
        if constexpr (hook == fence)
            return requires(O& o, const Warp& w, const Op& op) { o.fence(w, op); };
        if constexpr (hook == synchronized)
            return requires(O& o, const Warp& w, const Op& op) { o.synchronized(w, op); };
        if constexpr (hook == arrive)
            return requires(O& o, const Warp& w, const Op& op) { o.arrive(w, op, uint32_t{}); };
        if constexpr (hook == complete)
            return requires(O& o, const Block& b) { o.complete(b, uint32_t{}); };
        if constexpr (hook == misuse)
            return requires(O& o, const Warp& w, const Op& op) {
                o.misuse(w, op, int{}, Misuse{});
            };
        if constexpr (hook == copied)
            return requires(O& o, const Warp& w, const CopyEvent& e) { o.copied(w, e); };
        if constexpr (hook == repeated)
            return requires(O& o, const Warp& w, const Op& op) {
                o.repeated(w, op, Access{}, int64_t{}, uint64_t{});
            };
    }();
    return O::hooks.has(hook) == listens_to;
}

template <class O>
concept Observer =
    std::same_as<decltype(O::hooks), const Hooks> && agrees<O, Hook::start>() &&
    agrees<O, Hook::finish>() && agrees<O, Hook::segment>() && agrees<O, Hook::diverged>() &&
    agrees<O, Hook::call>() && agrees<O, Hook::access>() && agrees<O, Hook::fault>() &&
    agrees<O, Hook::async_complete>() && agrees<O, Hook::fence>() &&
    agrees<O, Hook::synchronized>() && agrees<O, Hook::arrive>() && agrees<O, Hook::complete>() &&
    agrees<O, Hook::misuse>() && agrees<O, Hook::copied>() && agrees<O, Hook::repeated>();

// An observer that receives no events. A run with this observer is called a plain run.
struct NoObserver {
    static constexpr Hooks hooks = {};
};
static_assert(Observer<NoObserver>);

// Combines several observers. Each event goes to all observers that listen to it, in the order of
// the list.
template <Observer... Parts>
class Observers {
  public:
    static constexpr Hooks hooks = (Hooks{} | ... | Parts::hooks);

    explicit Observers(Parts&... parts) : parts_(parts...) {}

    void start(Block& b)
        requires(hooks.has(Hook::start))
    {
        each<Hook::start>([&](auto& part) { part.start(b); });
    }
    void finish(const Block& b)
        requires(hooks.has(Hook::finish))
    {
        each<Hook::finish>([&](auto& part) { part.finish(b); });
    }
    void segment(const Warp& w, uint32_t op, LaneMask mask)
        requires(hooks.has(Hook::segment))
    {
        each<Hook::segment>([&](auto& part) { part.segment(w, op, mask); });
    }
    void diverged(const Warp& w, const Op& op)
        requires(hooks.has(Hook::diverged))
    {
        each<Hook::diverged>([&](auto& part) { part.diverged(w, op); });
    }
    void call(const Warp& w)
        requires(hooks.has(Hook::call))
    {
        each<Hook::call>([&](auto& part) { part.call(w); });
    }
    void access(const Warp& w, const MemoryEvent& e)
        requires(hooks.has(Hook::access))
    {
        each<Hook::access>([&](auto& part) { part.access(w, e); });
    }
    void fault(const Warp& w, const Op& op, Access access, ptx::Space space, Fault fault,
               LaneMask lanes, const uint64_t* addresses)
        requires(hooks.has(Hook::fault))
    {
        each<Hook::fault>(
            [&](auto& part) { part.fault(w, op, access, space, fault, lanes, addresses); });
    }
    void async_complete(const Warp& w, const AsyncCopy& copy, LaneMask lanes)
        requires(hooks.has(Hook::async_complete))
    {
        each<Hook::async_complete>([&](auto& part) { part.async_complete(w, copy, lanes); });
    }
    void fence(const Warp& w, const Op& op)
        requires(hooks.has(Hook::fence))
    {
        each<Hook::fence>([&](auto& part) { part.fence(w, op); });
    }
    void synchronized(const Warp& w, const Op& op)
        requires(hooks.has(Hook::synchronized))
    {
        each<Hook::synchronized>([&](auto& part) { part.synchronized(w, op); });
    }
    void arrive(const Warp& w, const Op& op, uint32_t barrier)
        requires(hooks.has(Hook::arrive))
    {
        each<Hook::arrive>([&](auto& part) { part.arrive(w, op, barrier); });
    }
    void complete(const Block& b, uint32_t barrier)
        requires(hooks.has(Hook::complete))
    {
        each<Hook::complete>([&](auto& part) { part.complete(b, barrier); });
    }
    void copied(const Warp& w, const CopyEvent& e)
        requires(hooks.has(Hook::copied))
    {
        each<Hook::copied>([&](auto& part) { part.copied(w, e); });
    }
    void repeated(const Warp& w, const Op& op, Access access, int64_t stride, uint64_t first)
        requires(hooks.has(Hook::repeated))
    {
        each<Hook::repeated>([&](auto& part) { part.repeated(w, op, access, stride, first); });
    }

  private:
    template <Hook hook, class F>
    void each(F&& tell) {
        const auto one = [&]<class Part>(Part& part) {
            if constexpr (Part::hooks.has(hook)) tell(part);
        };
        std::apply([&](Parts&... parts) { (one(parts), ...); }, parts_);
    }

    std::tuple<Parts&...> parts_;
};

// The functions by which memory instructions announce events to the observer (Block::observer).
struct Announcements {
    void (*access)(void*, const Warp&, const MemoryEvent&);
    void (*fault)(void*, const Warp&, const Op&, Access, ptx::Space, Fault, LaneMask,
                  const uint64_t*);
    void (*async_complete)(void*, const Warp&, const AsyncCopy&, LaneMask);
    void (*fence)(void*, const Warp&, const Op&);
    bool (*misuse)(void*, const Warp&, const Op&, int lane, const Misuse&);
    void (*copied)(void*, const Warp&, const CopyEvent&);
    void (*repeated)(void*, const Warp&, const Op&, Access, int64_t stride, uint64_t first);
};

template <Observer O>
inline constexpr Announcements announcements_to = {
    [](void* o, const Warp& w, const MemoryEvent& e) {
        if constexpr (O::hooks.has(Hook::access)) static_cast<O*>(o)->access(w, e);
    },
    [](void* o, const Warp& w, const Op& op, Access access, ptx::Space space, Fault fault,
       LaneMask lanes, const uint64_t* addresses) {
        if constexpr (O::hooks.has(Hook::fault))
            static_cast<O*>(o)->fault(w, op, access, space, fault, lanes, addresses);
    },
    [](void* o, const Warp& w, const AsyncCopy& copy, LaneMask lanes) {
        if constexpr (O::hooks.has(Hook::async_complete))
            static_cast<O*>(o)->async_complete(w, copy, lanes);
    },
    [](void* o, const Warp& w, const Op& op) {
        if constexpr (O::hooks.has(Hook::fence)) static_cast<O*>(o)->fence(w, op);
    },
    [](void* o, const Warp& w, const Op& op, int lane, const Misuse& wrong) {
        if constexpr (O::hooks.has(Hook::misuse)) static_cast<O*>(o)->misuse(w, op, lane, wrong);
        return O::hooks.has(Hook::misuse);
    },
    [](void* o, const Warp& w, const CopyEvent& e) {
        if constexpr (O::hooks.has(Hook::copied)) static_cast<O*>(o)->copied(w, e);
    },
    [](void* o, const Warp& w, const Op& op, Access access, int64_t stride, uint64_t first) {
        if constexpr (O::hooks.has(Hook::repeated))
            static_cast<O*>(o)->repeated(w, op, access, stride, first);
    },
};

}  // namespace coalesce::sim
