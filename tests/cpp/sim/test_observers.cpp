// Tests the interface of observers: which observers can be compiled, and which events they get, in
// which order.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/fixture.hpp"

namespace coalesce::sim {
namespace {

struct Good {
    static constexpr Hooks hooks = Hook::segment | Hook::complete;
    void segment(const Warp&, uint32_t, LaneMask) {}
    void complete(const Block&, uint32_t) {}
};
static_assert(Observer<Good>);

struct Misspelt {
    static constexpr Hooks hooks = Hook::segment;
    void segments(const Warp&, uint32_t, LaneMask) {}
};
static_assert(!Observer<Misspelt>);

struct OtherParameters {
    static constexpr Hooks hooks = Hook::segment;
    void segment(const Warp&) {}
};
static_assert(!Observer<OtherParameters>);

struct NotListed {
    static constexpr Hooks hooks = Hook::complete;
    void segment(const Warp&, uint32_t, LaneMask) {}
    void complete(const Block&, uint32_t) {}
};
static_assert(!Observer<NotListed>);

struct NoList {
    void complete(const Block&, uint32_t) {}
};
static_assert(!Observer<NoList>);

static_assert(watch_of<NoObserver> == Watch::nothing);
static_assert(watch_of<Good> == Watch::nothing);

// Records the events that it gets.
struct Log {
    static constexpr Hooks hooks =
        Hook::start | Hook::finish | Hook::access | Hook::fence | Hook::arrive | Hook::complete;
    std::vector<std::string>& lines;
    std::string name;
    void add(const std::string& what) { lines.push_back(name + what); }
    void start(Block& b) { add("start " + std::to_string(b.linear)); }
    void finish(const Block& b) { add("finish " + std::to_string(b.linear)); }
    void access(const Warp& w, const MemoryEvent& e) {
        add(std::string(e.access == Access::store ? "store" : "load") + " of warp " +
            std::to_string(w.index));
    }
    void fence(const Warp&, const Op&) { add("fence"); }
    void arrive(const Warp& w, const Op&, uint32_t) { add("arrive " + std::to_string(w.index)); }
    void complete(const Block&, uint32_t n) { add("complete " + std::to_string(n)); }
};
static_assert(Observer<Log> && watch_of<Log> == Watch::accesses);

struct Segments {
    static constexpr Hooks hooks = Hook::segment;
    int count = 0;
    void segment(const Warp&, uint32_t, LaneMask) { ++count; }
};
using Both = Observers<Log, Segments, Log>;
static_assert(Observer<Both> && watch_of<Both> == Watch::accesses);
static_assert(Observer<Observers<>> && watch_of<Observers<>> == Watch::nothing);

TEST(Observers, GetTheirEventsInOrder) {
    const ptx::Module module = ptx::parse(R"(.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .b64 %p; .reg .b32 %r;
 ld.param.u64 %p, [out];
 ld.global.u32 %r, [%p];
 bar.sync 0;
 membar.gl;
 st.global.u32 [%p], %r;
 ret;
}
)");
    const Program program =
        decode(module, *module.find_function("k"), lay_out_memory(module), engine(watch_of<Both>));
    std::vector<std::byte> data(4);
    AddressSpace space;
    Buffer buffer;
    buffer.name = "out";
    buffer.bytes = data.size();
    buffer.host = data.data();
    const uint64_t address = space.add(buffer);
    GridRun launch;
    launch.block = {64, 1, 1};
    launch.workers = 1;
    launch.parameters.resize(program.parameter_bytes);
    std::memcpy(launch.parameters.data(), &address, sizeof address);

    std::vector<std::string> lines;
    Log first{lines, "1: "}, second{lines, "2: "};
    Segments segments;
    Both both(first, segments, second);
    Both* const observers[] = {&both};
    run_grid<Both>(program, launch, space, observers);

    std::vector<std::string> expected;
    for (const char* what :
         {"start 0", "load of warp 0", "arrive 0", "load of warp 1", "arrive 1", "complete 0",
          "fence", "store of warp 1", "fence", "store of warp 0", "finish 0"}) {
        expected.push_back(std::string("1: ") + what);
        expected.push_back(std::string("2: ") + what);
    }
    EXPECT_EQ(lines, expected);
    // Two warps have three segments each: to the barrier, to the point of reconvergence, and to the
    // end.
    EXPECT_EQ(segments.count, 6);
}

}  // namespace
}  // namespace coalesce::sim
