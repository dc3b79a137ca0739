// Notes about results that may be incomplete: a part of an array that a launch does not write, and
// partial sums in shared memory that no thread reads.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "analysis/check/state.hpp"

namespace coalesce::analysis {

namespace {

// Returns the integer arguments of a launch that may be extents.
std::vector<uint64_t> extents(const sim::Program& program, const sim::GridRun& launch) {
    constexpr uint64_t most = uint64_t{1} << 40;
    std::vector<uint64_t> values;
    for (const sim::ParameterInfo& p : program.parameters) {
        if (p.pointer || p.type == ptx::Type::f32 || p.type == ptx::Type::f64 ||
            (p.bytes != 4 && p.bytes != 8))
            continue;
        uint64_t value = 0;
        std::memcpy(&value, &launch.parameters[p.offset], p.bytes);
        if (value > 1 && value < most) values.push_back(value);
    }
    return values;
}

// Returns true if `n` is one of the values, or a product of two or three of them.
bool is_product(uint64_t n, const std::vector<uint64_t>& values, int factors = 3) {
    return std::ranges::any_of(values, [&](uint64_t v) {
        return n == v || (factors > 1 && n % v == 0 && is_product(n / v, values, factors - 1));
    });
}

// Returns one entry for each instruction: true if its address may depend on values from memory or
// on results of atomics. Such accesses often write the first elements of a list.
std::vector<bool> places_from_memory(const sim::Program& program) {
    std::set<std::pair<uint32_t, uint32_t>> found;  // a function, and its register
    const auto depends = [&](size_t i, const std::vector<uint32_t>& registers) {
        return std::ranges::any_of(registers, [&](uint32_t r) {
            return found.contains({program.instructions[i].function, r});
        });
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < program.instructions.size(); ++i) {
            const sim::InstructionInfo& in = program.instructions[i];
            const bool from_memory = in.space == ptx::Space::shared ||
                                     in.space == ptx::Space::global ||
                                     in.space == ptx::Space::generic;
            if (!from_memory && !depends(i, program.data_flow[i].reads)) continue;
            for (const uint32_t r : program.data_flow[i].writes)
                changed |= found.emplace(in.function, r).second;
        }
    }
    std::vector<bool> result;
    for (size_t i = 0; i < program.instructions.size(); ++i)
        result.push_back(depends(i, program.data_flow[i].address));
    return result;
}

std::string product(Dim3 a, Dim3 b) {
    std::string text = std::to_string(uint64_t{a.x} * b.x);
    if (uint64_t{a.y} * b.y * a.z * b.z > 1) text += " x " + std::to_string(uint64_t{a.y} * b.y);
    if (uint64_t{a.z} * b.z > 1) text += " x " + std::to_string(uint64_t{a.z} * b.z);
    return text;
}

}  // namespace

// METHOD
// The written granules of an array must begin at its start and have a regular pattern: runs of the
// same length at the same distance, with gaps that the launch neither reads nor writes. These are
// the patterns of a grid with too few blocks in a dimension. A kernel may write only a part of an
// array on purpose. So if the launch has integer arguments, they must give the size of the array.
// Otherwise, most elements must be written. The index must not come from memory: a list or a
// compacted array is often longer than its elements.
void CheckObserver::note_coverage() {
    const std::vector<uint64_t> sizes = extents(program_, launch_);
    std::vector<bool> from_memory;
    for (uint32_t n = 0; n < global_.memory().buffers().size(); ++n) {
        const sim::Buffer& b = global_.memory().buffers()[n];
        const uint64_t granules = b.bytes >> global_bits_;
        if (b.variable || b.parts.size() > 1 || b.has_gaps || granules == 0) continue;
        uint64_t row = UINT64_MAX;
        sim::LaneMask row_written = 0, row_read = 0;  // granules of this row
        const auto state = [&](uint64_t g) {          // 0: not accessed, 1: read, 2: written
            if (g / Row::size != row) {
                row = g / Row::size;
                const Row* const r = global_.find(n, row);
                row_written = !r ? 0 : r->where([](const Cell& c) {
                    return c.write.time || c.is(Cell::has_strong);
                });
                row_read = !r ? 0 : r->where([](const Cell& c) { return c.read[0].time > 0; });
            }
            const int i = int(g % Row::size);
            return sim::has_lane(row_written, i) ? 2 : sim::has_lane(row_read, i) ? 1 : 0;
        };
        const Cell first = global_.cell(n, 0);
        if (first.write.time == 0) continue;
        uint64_t run = 0, period = 0, last = 0, written = 0;
        while (run < granules && state(run) == 2) ++run;
        period = run;
        while (period < granules && state(period) == 0) ++period;
        bool regular = run < granules;
        for (uint64_t g = 0; g < granules && regular; ++g) {
            const int now = state(g), wanted = g % period < run ? 2 : 0;
            written += now == 2;
            if (now == 2) last = g;
            regular = now == wanted || (now == 0 && g > last);
        }
        regular = regular && (last + 1) % period == run % period;
        // The elements of a wide type, such as float4, that fit into the array are all written.
        const uint64_t rest = b.bytes - (granules << global_bits_);
        const auto has_size = [&](uint64_t bytes) {
            return b.bytes % bytes == 0 && is_product(b.bytes / bytes, sizes);
        };
        const bool lacks_rest = run == granules && rest > 0 &&
                                (has_size(1) || has_size(2) || has_size(4) || has_size(8));
        std::string title, advice;
        if (lacks_rest) {
            last = granules - 1;
            title = std::to_string(rest) + " of the " + std::to_string(b.bytes) + " bytes of `" +
                    b.name + (rest == 1 ? "` was" : "` were") + " not written";
            advice = "the kernel writes " + std::to_string(1u << global_bits_) +
                     " bytes at a time: the rest needs code of its own";
        } else {
            const uint64_t item =
                b.item_bytes ? b.item_bytes : program_.instructions[first.write.pc].bytes;
            const uint64_t unit = item >> global_bits_;  // granules per element
            if (!regular || unit == 0 || run % unit || period % unit || granules % unit) continue;
            const uint64_t all = granules / unit, missing = all - written / unit;
            if (written <= unit) continue;
            const uint64_t elements = written / unit, threads = launch_.block.count();
            const bool most = 2 * elements > all;
            const bool meant = sizes.empty() ? most && last + 1 == run : is_product(all, sizes);
            // A thread that adds up many elements writes one, and so does a block.
            const bool one_each = elements == launch_.grid.count() * threads && !most;
            if (!meant || one_each || (threads > 1 && elements == launch_.grid.count())) continue;
            title = std::to_string(missing) + " of the " + std::to_string(all) + " elements of `" +
                    b.name + (missing == 1 ? "` was" : "` were") + " not written";
            const bool enough = launch_.grid.count() * threads >= all;
            advice = "the launch has " + product(launch_.grid, launch_.block) + " threads" +
                     (enough ? ", enough for all elements: is the index right? Several threads may "
                               "write one element"
                             : ": do they cover the array? For n elements, round up the number of "
                               "blocks: (n + block - 1) / block");
        }
        const Stamp end = global_.cell(n, last).write;
        if (from_memory.empty()) from_memory = places_from_memory(program_);
        if (from_memory[first.write.pc] || from_memory[end.pc]) continue;
        Finding f;
        f.kind = FindingKind::coverage;
        f.severity = Severity::note;
        f.count = 1;
        f.space = "global";
        f.array = b.name;
        f.offset = int64_t(run << global_bits_);
        f.title = std::move(title);
        f.details.push_back(sim::describe(b, f.offset) + "; the first of these elements is " +
                            sim::element(b, f.offset));
        f.details.push_back(std::move(advice));
        f.first = actor("write", end, end.lane_at(last % Row::size));
        notes_.add(std::move(f));
    }
}

// METHOD
// A sum by halves adds elements to the first elements of an array, until only the first one is
// left. If the number of threads is no power of two, a half may be rounded down, and the last
// element of the rest is lost. In a correct sum, the last step reads the second element.
void CheckObserver::note_lost_sums(const sim::Block& block) {
    BlockState& b = *static_cast<BlockState*>(block.observed);
    for (uint32_t v = 0; v < shared_variables_.size(); ++v) {
        const sim::Buffer& array = shared_variables_[v];
        const uint64_t begin = array.address >> shared_bits_;
        const uint64_t unit = array.item_bytes >> shared_bits_;  // granules per element
        if (unit == 0 || array.bytes < 4 * uint64_t{array.item_bytes}) continue;
        const auto updated = [&](const Cell& c) {
            return c.write.time && !c.is(Cell::has_strong) && instructions_[c.write.pc].update > 0;
        };
        const Cell total = b.shared.cell(begin), second = b.shared.cell(begin + unit);
        if (!updated(total) || !total.read[0].time || !second.read[0].time) continue;
        for (uint64_t i = 2; i < array.bytes / array.item_bytes; ++i) {
            const Cell c = b.shared.cell(begin + i * unit);
            if (!updated(c) || c.read[0].time || c.write.pc != total.write.pc) continue;
            bool fresh = false;
            Finding* const f =
                notes_.group(FindingKind::coverage, c.write.pc, c.write.pc, (1u << 20) + v, fresh);
            if (!f || !fresh) continue;
            f->severity = Severity::note;
            f->space = "shared";
            f->array = array.name;
            f->offset = int64_t(i * array.item_bytes);
            f->title = "the sum in `" + sim::element(array, f->offset) + "` was never read";
            f->details.push_back(
                "a sum by halves loses elements if its number of threads is no power of two; this "
                "block has " +
                std::to_string(block.threads));
            f->first = actor("write", c.write, c.write.lane_at((begin + i * unit) % Row::size));
        }
    }
}

}  // namespace coalesce::analysis
