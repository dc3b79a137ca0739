#include "sim/jit/compiled.hpp"

#include <iterator>

#include "sim/run/scheduler.hpp"

namespace coalesce::sim {

namespace {

Block& block_of(const CompiledContext* c) { return *c->warp->block; }

bool call(CompiledContext* c, uint32_t op) {
    try {
        const Op& it = block_of(c).program->ops[op];
        c->warp->mask = c->mask;
        // The head of a chain executes only its own instruction here.
        (it.length > 1 ? it.inner : it.run)(*c->warp, it);
        c->warp->mask = c->warp->current.mask;
        return true;
    } catch (...) {
        c->error = std::current_exception();
        return false;
    }
}

uint64_t special(CompiledContext* c, uint32_t which) {
    return uniform_value(*c->warp, Special(which));
}

bool find(CompiledContext* c, uint32_t op, uint64_t low, uint64_t bytes) {
    const Block& block = block_of(c);
    const InstructionInfo& info = block.program->instructions[block.program->ops[op].pc];
    const Buffer* const b = block.memory->find(low, bytes, block.hints[block.program->ops[op].pc]);
    if (!b || (info.access == Access::store && !b->writable)) return false;
    c->sites[op] = {b->address, b->bytes, b->host, c->sites[op].latest};
    return true;
}

bool find_lanes(CompiledContext* c, uint32_t op, uint32_t mask) {
    const uint64_t bytes = block_of(c).program->ops[op].memory().bytes;
    uint64_t low = UINT64_MAX, high = 0, together = 0;
    for_each_lane(mask, [&](int i) {
        low = std::min(low, c->addresses[i]);
        high = std::max(high, c->addresses[i]);
        together |= c->addresses[i];
    });
    return high - low <= INT64_MAX && !(together & (bytes - 1)) &&
           find(c, op, low, high - low + bytes);
}

// Tells compiled code about the running path.
void enter_path(CompiledContext& c) {
    const Warp& w = *c.warp;
    const JoinReference join = w.current.join;
    c.mask = w.mask;
    c.join = no_op;
    if (join.one >= 0 && !w.joins[size_t(join.one)].explicit_only)
        c.join = w.joins[size_t(join.one)].pc;
    c.alone = w.paths.empty();
}

// Lets the next path of the warp run, if compiled code may execute it and the slice has not ended.
uint32_t next(CompiledContext* c) {
    Warp& w = *c->warp;
    c->path_ended = true;
    if (c->left <= 0 || (!w.running && !next_path(w))) return no_op;
    const Path& p = w.current;
    if (w.mask == all_lanes || p.frame.function != 0 || p.join.list >= 0 || !c->part_entries[p.pc])
        return no_op;
    enter_path(*c);
    c->left -= int64_t(block_of(c).program->segment_end[p.pc] - p.pc);
    return p.pc;
}

uint32_t diverge(CompiledContext* c, uint32_t at, uint32_t taken) {
    Warp& w = *c->warp;
    const Program& program = *w.block->program;
    const uint32_t target = program.ops[at].get<Branch>().target, otherwise = at + 1;
    const uint32_t reconvergence = program.reconvergence[at];
    w.current.pc = at;
    diverge(w, taken, target, otherwise, reconvergence);
    return next(c);
}

uint32_t arrive(CompiledContext* c) {
    Warp& w = *c->warp;
    go_to(w, c->join);
    return next(c);
}

void split(CompiledContext* c, uint32_t branch, uint32_t taken, uint32_t at) {
    Warp& w = *c->warp;
    const Program& program = *w.block->program;
    w.current.pc = branch;
    diverge(w, taken, program.ops[branch].get<Branch>().target, branch + 1,
            program.reconvergence[branch]);
    c->path_ended = true;
    if (next_path(w)) w.current.pc = at;
}

}  // namespace

CompiledRunner::CompiledRunner(const Program& program, const CompiledKernel* kernel)
    : program_(program), kernel_(kernel) {
    context_.call = &call;
    context_.special = &special;
    context_.find = &find;
    context_.find_lanes = &find_lanes;
    context_.diverge = &diverge;
    context_.arrive = &arrive;
    context_.split = &split;
}

bool CompiledRunner::run(Warp& w, int64_t& left) {
    CompiledContext& c = context_;
    if (sites_.empty()) {
        sites_.resize(program_.ops.size());
        c.sites = sites_.data();
        c.part_entries = kernel_->part_entries.data();
    }
    c.path_ended = false;
    Kept& kept = kept_[w.index % std::size(kept_)];
    while (w.running && left > 0) {
        const Path& p = w.current;
        const bool as_left = kept.warp == &w && kept.op == p.pc;
        kept = {};
        if (p.frame.function != 0 || p.join.list >= 0 || w.expected) break;
        const bool whole = w.mask == all_lanes && p.join.one < 0;
        const CompiledFunction run = (whole ? kernel_->whole : kernel_->part).load();
        if (!run && misses_++ % 256 == 0) kernel_->wanted_part += 256;
        if (!run || !(whole ? kernel_->whole_entries : kernel_->part_entries)[p.pc]) break;
        const Block& block = *w.block;
        c.warp = &w;
        c.registers = w.bank[0];
        c.shared = block.shared;
        c.shared_bytes = block.shared_bytes;
        c.parameters = block.launch->parameters.data();
        for (int axis = 0; axis < 3; ++axis)
            c.thread_index[axis] = block.thread_index[axis] + w.index * warp_size;
        c.addresses = w.address;
        enter_path(c);
        c.left = left - int64_t(program_.segment_end[p.pc] - p.pc);
        // Compiled code changes addresses without a note in these strides, which handlers use.
        w.strides.give_up(~uint64_t{0});
        const uint32_t next = run(&c, whole && as_left ? p.pc | registers_kept : p.pc);
        left = c.left;
        if (c.error) std::rethrow_exception(std::exchange(c.error, nullptr));
        if (next == switched_path) continue;
        w.current.pc = next;
        const Op& op = program_.ops[next];
        const bool waits = whole && op.control == Control::barrier && op.operand[0] == no_operand &&
                           op.guard == no_operand;
        if (!waits) break;
        // The warp reaches the barrier, as in warp_runner.hpp.
        kept = {&w, next + 1};
        left -= int64_t(program_.segment_end[next] - next);
        reach_barrier(w, op, next);
        c.path_ended = true;
        if (!w.running && (left <= 0 || !next_path(w))) break;
    }
    return c.path_ended;
}

}  // namespace coalesce::sim
