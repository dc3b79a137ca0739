#include "cudart/state/memory.hpp"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"
#include "round_up.hpp"

namespace coalesce::cudart {

namespace {

constexpr size_t max_freed = 100'000;

std::string bytes_text(uint64_t n) { return std::to_string(n) + (n == 1 ? " byte" : " bytes"); }

void* map(void* at, uint64_t bytes, int protection) {
    const int fixed = at ? MAP_FIXED : 0;
    void* const got = mmap(at, round_up(bytes, page), protection,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
    if (got == MAP_FAILED) throw Failure{cudaErrorMemoryAllocation};
    return got;
}

}  // namespace

void reserve_arena() {
    // This call may fail, for example because the range is in use or `ulimit -v` limits the
    // process. The result is not tested, because the simulated addresses can be used even then.
    mmap(reinterpret_cast<void*>(arena_base), arena_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
}

std::string Allocation::described() const {
    if (kind == Kind::variable || (kind == Kind::managed && !number))
        return "the variable `" + name + "` of " + bytes_text(bytes);
    // Registered memory has no number.
    return "the " + bytes_text(bytes) + " of " + function + "()" +
           (number ? " number " + std::to_string(number) : "") + runtime().place_of(caller);
}

Allocation& Memory::allocate(uint64_t bytes, Kind kind, unsigned flags) {
    check_room(bytes);
    if (call_waits() && !runtime().settings.strict) runtime().order.separate();
    Allocation a;
    const bool object = kind == Kind::object;
    a.address = place(object ? objects_ : arena_, bytes, 1);
    a.bytes = bytes;
    a.kind = kind;
    a.flags = flags;
    a.function = called();
    a.number = ++count_;
    a.caller = caller();
    a.owner = runtime().contexts.owner();
    a.name = std::string(called()) + " number " + std::to_string(a.number);
    auto* const own = reinterpret_cast<void*>(a.address);
    a.host = static_cast<std::byte*>(map(a.readable_by_host() ? own : nullptr,
                                         std::max<uint64_t>(bytes, 1), PROT_READ | PROT_WRITE));
    if (checked_) {
        a.undefined = std::make_unique<bool[]>(bytes);
        // The host can write to pinned and managed memory without a call of this library. So it is
        // not known which bytes are still uninitialized, and all of them count as initialized.
        std::memset(a.undefined.get(), kind == Kind::device || kind == Kind::array, bytes);
    }
    used_ += bytes;
    changed();
    return allocations_.emplace(a.address, std::move(a)).first->second;
}

void Memory::check_room(uint64_t bytes) const {
    const uint64_t free = total() - std::min(total(), used_);
    if (bytes <= free) return;
    // A program may try smaller sizes until one fits, so only the first failure is reported.
    static bool reported = false;
    if (!std::exchange(reported, true))
        print_once("coalesce: " + std::string(called()) + "() failed: the program requested " +
                   bytes_text(bytes) + ", and " + bytes_text(free) + " of " + bytes_text(total()) +
                   " are free. (The simulated GPU has at most half of this computer's memory.)");
    throw Failure{cudaErrorMemoryAllocation};
}

void Memory::take(uint64_t bytes) {
    check_room(bytes);
    used_ += bytes;
}

Allocation& Memory::add(Allocation a) {
    changed();
    return allocations_.insert_or_assign(a.address, std::move(a)).first->second;
}

void Memory::remove(uint64_t address) {
    if (call_waits()) runtime().order.host_waits_for_all();
    allocations_.erase(address);
    changed();
}

void Memory::free(uint64_t address, bool of_host) {
    const auto entry = allocations_.find(address);
    if (entry == allocations_.end()) {
        const std::string before = freed_at(address);
        Allocation* const inside = find(address);
        throw Failure{
            cudaErrorInvalidValue,
            !before.empty() ? std::string(called()) +
                                  "() was called with memory that was freed before: " + before
            : inside
                ? std::string(called()) + "() was called with a pointer into the middle of " +
                      inside->described()
                : std::string(called()) +
                      "() was called with a pointer to memory that was not allocated with CUDA"};
    }
    Allocation& a = entry->second;
    const bool freed_here =
        of_host ? a.kind == Kind::pinned : a.kind == Kind::device || a.kind == Kind::managed;
    if (!freed_here)
        throw Failure{cudaErrorInvalidValue, std::string(called()) + "() was called with " +
                                                 a.described() + ", which " + called() +
                                                 "() does not free"};
    release(address);
}

void Memory::release(uint64_t address) {
    const auto entry = allocations_.find(address);
    if (entry == allocations_.end()) return;
    const Allocation& a = entry->second;
    if (call_waits() || a.readable_by_host()) runtime().order.host_waits_for_all();
    if (a.readable_by_host())
        map(reinterpret_cast<void*>(a.address), std::max<uint64_t>(a.bytes, 1), PROT_NONE);
    else
        munmap(a.host, round_up(std::max<uint64_t>(a.bytes, 1), page));
    used_ -= a.bytes;
    keep_freed(address, {a.bytes, a.name, a.described()});
    allocations_.erase(entry);
    changed();
}

void Memory::keep_freed(uint64_t address, Freed freed) {
    freed_[address] = std::move(freed);
    if (freed_.size() > max_freed) freed_.erase(freed_.begin());
}

void Memory::free_all(Context owner) {
    std::vector<uint64_t> own;
    for (const auto& [address, a] : allocations_)
        if (a.number && a.kind != Kind::mapped && a.owner == owner) own.push_back(address);
    for (const uint64_t address : own) release(address);
}

uint64_t Memory::place(sim::AddressRange& range, uint64_t bytes, uint64_t alignment) {
    const auto address = range.take(bytes, freed_, alignment);
    if (!address) throw Failure{cudaErrorMemoryAllocation};
    return *address;
}

uint64_t Memory::reserve(uint64_t bytes, uint64_t alignment) {
    return place(arena_, bytes, alignment);
}

void Memory::end_reservation(uint64_t address, uint64_t bytes) {
    keep_freed(address, {bytes, "addresses", "the addresses of cuMemAddressReserve()"});
}

Allocation* Memory::find(uint64_t address) {
    const auto after = allocations_.upper_bound(address);
    if (after == allocations_.begin()) return nullptr;
    Allocation& a = std::prev(after)->second;
    // The address just after the last byte does not belong to the allocation. An allocation of 0
    // bytes is treated as if it had one byte, so that its own address belongs to it.
    return address - a.address < std::max<uint64_t>(a.bytes, 1) ? &a : nullptr;
}

Allocation* Memory::find(const void* pointer) { return find(reinterpret_cast<uint64_t>(pointer)); }

std::map<uint64_t, Memory::Freed>::const_iterator Memory::freed_range(uint64_t address) const {
    const auto after = freed_.upper_bound(address);
    if (after == freed_.begin()) return freed_.end();
    const auto freed = std::prev(after);
    return address - freed->first < std::max<uint64_t>(freed->second.bytes, 1) ? freed
                                                                               : freed_.end();
}

std::string Memory::freed_at(uint64_t address) const {
    const auto freed = freed_range(address);
    return freed == freed_.end() ? "" : freed->second.description;
}

Memory::View Memory::view(const void* pointer, uint64_t bytes, const char* what) {
    const auto address = reinterpret_cast<uint64_t>(pointer);
    if (bytes == 0) return {static_cast<std::byte*>(const_cast<void*>(pointer)), nullptr, 0};
    if (Allocation* const a = find(address)) {
        if (bytes > a->end() - address)
            throw Failure{cudaErrorInvalidValue, std::string(what) + " goes " +
                                                     bytes_text(address + bytes - a->end()) +
                                                     " past the end of " + a->described()};
        return {a->host + (address - a->address), a, address - a->address};
    }
    if (in_arena(address)) {
        const std::string before = freed_at(address);
        throw Failure{
            cudaErrorInvalidValue,
            std::string(what) + (before.empty() ? " is not in any allocation of the device"
                                                : " was freed: " + before)};
    }
    if (!pointer && bytes) throw Failure{cudaErrorInvalidValue, std::string(what) + " is null"};
    return {static_cast<std::byte*>(const_cast<void*>(pointer)), nullptr, 0};
}

void Memory::define(const View& to, uint64_t bytes) {
    if (to.allocation && to.allocation->undefined)
        std::memset(to.allocation->undefined.get() + to.offset, 0, bytes);
}

void Memory::copy_defined(const View& to, const View& from, uint64_t bytes) {
    if (!to.allocation || !to.allocation->undefined) return;
    if (from.allocation && from.allocation->undefined)
        std::memmove(to.allocation->undefined.get() + to.offset,
                     from.allocation->undefined.get() + from.offset, bytes);
    else
        define(to, bytes);
}

void Memory::after_module(uint64_t end) {
    arena_.next = std::max(arena_.next, round_up(end + arena_.gap, arena_.unit));
}

sim::AddressSpace& Memory::address_space(const Names& names) {
    if (!stale_ && names == names_) return space_;
    space_ = {};
    space_.freed_before = [this](uint64_t address) -> std::optional<sim::Buffer> {
        const auto freed = freed_range(address);
        if (freed == freed_.end()) return {};
        sim::Buffer b;
        b.name = freed->second.name;
        b.address = freed->first;
        b.bytes = freed->second.bytes;
        return b;
    };
    for (const auto& [address, a] : allocations_) {
        sim::Buffer b;
        b.name = a.name;
        b.address = address;
        b.bytes = a.bytes;
        b.host = a.host;
        b.writable = a.writable;
        b.undefined = a.undefined.get();
        b.item_bytes = a.item_bytes;
        b.shape = a.shape;
        b.type = a.type;
        b.variable = a.kind == Kind::variable;
        const auto named = names.find(address);
        if (named != names.end()) {
            b.name = named->second.name;
            if (named->second.item_bytes) {
                b.item_bytes = named->second.item_bytes;
                b.shape = {int64_t(a.bytes / b.item_bytes)};
                b.type = named->second.type;
            }
        }
        space_.add_at(std::move(b));
    }
    names_ = names;
    stale_ = false;
    return space_;
}

uint64_t Memory::total() const {
    struct sysinfo machine{};
    sysinfo(&machine);
    return std::min(runtime().gpu_bytes(), uint64_t{machine.totalram} * machine.mem_unit / 2);
}

}  // namespace coalesce::cudart
