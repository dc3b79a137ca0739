// Decodes branches, calls, returns and barriers, which the scheduler executes.
#include <algorithm>

#include "errors.hpp"
#include "sim/decode/decode.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Type;

namespace {

// Returns the offset of the next argument in the .param space. `at` is the end of the previous
// argument. The function moves `at` to the end of this argument.
uint32_t place_argument(const ptx::Variable& v, uint64_t& at) {
    const uint64_t alignment = std::max({1u, v.alignment, std::min(16u, ptx::size_of(v.type))});
    const uint64_t offset = (at + alignment - 1) / alignment * alignment;
    at = offset + std::max<uint64_t>(1, v.bytes());
    if (at > max_local_bytes)
        throw LaunchError("the arguments of a function need " + std::to_string(at) +
                          " bytes of local memory per thread; a thread of a GPU has at most " +
                          std::to_string(max_local_bytes) + " bytes");
    return uint32_t(offset);
}

}  // namespace

uint32_t Decoder::argument_layout(const ptx::Function& f, std::vector<uint32_t>& offsets) const {
    uint64_t at = 0;
    for (const auto* list : {&f.parameters, &f.results}) {
        for (const ptx::Parameter& p : *list) {
            if (p.space != ptx::Space::param)
                throw UnsupportedInstruction("the function " + f.name + " has the parameter `" +
                                             p.name +
                                             "` in a register; the simulator supports only "
                                             "parameters in the .param space");
            offsets.push_back(place_argument(p, at));
        }
    }
    return uint32_t(at);
}

// Emits a control op. If the op has a guard and is not a branch, a branch is emitted before it. In
// the lanes in which the guard is false, this branch skips the op.
void Decoder::emit_control(const ptx::Instruction& in, Op op, uint32_t block_reconvergence) {
    if (in.guard >= 0) {
        const uint32_t at = uint32_t(program_.ops.size());
        const bool leaves = op.control == Control::exit || op.control == Control::ret;
        Op skip;
        skip.control = Control::branch;
        skip.guard = slot(in.guard, Type::pred);
        skip.guard_negated = !in.guard_negated;
        skip.set(Branch{.target = leaves ? at + 2 : at + 3, .skips_guarded = true});
        append(skip);
        program_.reconvergence.back() = leaves ? block_reconvergence : (at + 3) | resolved_op;
        append(op);
        if (!leaves) {
            Op join;
            join.control = Control::join;
            append(join);
        }
        return;
    }
    append(op);
}

bool Decoder::decode_control(uint32_t at) {
    const ptx::Instruction& in = current_->function->body[at];
    const uint32_t reconvergence = current_->flow.blocks[current_->flow.block_of[at]].reconvergence;
    Op op;
    if (opcode_ == OpCode::bra) {
        op.control = Control::branch;
        op.set(Branch{.target = in.operands.at(0).target});
        if (in.guard >= 0) {
            op.guard = slot(in.guard, Type::pred);
            op.guard_negated = in.guard_negated;
        }
        append(op);
        program_.reconvergence.back() = reconvergence;
        return true;
    }
    if (opcode_ == OpCode::brx) {
        const auto table = current_->function->branch_targets.find(in.operands.at(1).name);
        if (table == current_->function->branch_targets.end()) return false;
        op.control = Control::branch_table;
        op.operand[1] = source(in.operands[0], Type::u32);
        op.set(BranchTable{uint32_t(program_.tables.size())});
        program_.tables.push_back(table->second);
        append(op);
        program_.reconvergence.back() = reconvergence;
        return true;
    }
    if (opcode_ == OpCode::ret || opcode_ == OpCode::exit) {
        op.control = opcode_ == OpCode::exit || function_ == 0 ? Control::exit : Control::ret;
        emit_control(in, op, reconvergence);
        return true;
    }
    if (opcode_ == OpCode::trap) {
        op.run = &throw_trap;
        emit(in, op);
        return true;
    }
    if (opcode_ == OpCode::nanosleep) {
        op.control = Control::yield;
        emit_control(in, op, reconvergence);
        return true;
    }
    if (opcode_ == OpCode::call) {
        decode_call(in);
        return true;
    }
    if (opcode_ == OpCode::barrier_cluster) {
        decode_cluster_barrier(in);
        return true;
    }
    if (opcode_ == OpCode::bar || opcode_ == OpCode::barrier) {
        decode_barrier(in);
        return true;
    }
    return false;
}

void Decoder::decode_call(const ptx::Instruction& in) {
    CallSite site;
    size_t next = callee_operand(in);
    std::vector<Operand> results, arguments;
    if (next > 0) results = in.operands[0].elements;
    const Operand& callee = in.operands.at(next++);
    if (next < in.operands.size() && in.operands[next].kind == Operand::Kind::list) {
        arguments = in.operands[next].elements;
    }

    // The called function determines the layout of the arguments. If the call goes through a
    // function pointer, the function is not known yet. Then the layout is checked when the call is
    // executed.
    uint64_t at = 0;
    const auto copies = [&](const std::vector<Operand>& values, std::vector<CallSite::Copy>& out) {
        for (const Operand& value : values) {
            const ptx::Variable& v = passed(value);
            uint32_t offset = 0;
            find_local(value, offset);
            const uint32_t there = place_argument(v, at);
            out.push_back({offset, there, uint32_t(v.bytes())});
        }
    };
    copies(arguments, site.arguments);
    copies(results, site.results);
    site.argument_bytes = uint32_t(at);

    Op op;
    op.set(Call{uint32_t(program_.calls.size())});
    if (callee.kind == Operand::Kind::reg) {
        op.control = Control::call_indirect;
        op.operand[1] = slot(callee.reg, Type::u64);
    } else {
        op.control = Control::call;
        const std::string_view name = callee.name;
        const ptx::Function* f = module_.find_function(name);
        if (!f || f->external) {
            call_builtin(site, name);
        } else {
            check_call(*f, arguments, results);
            site.function = graph_.number_of(name);
        }
    }
    program_.calls.push_back(std::move(site));
    emit_control(in, op, no_block);
}

// Returns the .param variable of the current function that is an operand of a call. PTX passes
// arguments and results in such variables.
const ptx::Variable& Decoder::passed(const Operand& operand) const {
    const bool variable =
        operand.kind == Operand::Kind::symbol && operand.variable >= 0 && operand.offset == 0;
    if (variable) {
        const ptx::Variable& v = current_->function->variables[size_t(operand.variable)];
        if (v.space == ptx::Space::param) return v;
    }
    unsupported(*instruction_, "an argument that is not a .param variable");
}

void Decoder::check_call(const ptx::Function& f, const std::vector<Operand>& arguments,
                         const std::vector<Operand>& results) const {
    if (f.entry) malformed("`" + f.name + "` is a kernel, which cannot be called");
    const auto check = [&](const char* what, const std::vector<Operand>& operands,
                           const std::vector<ptx::Parameter>& parameters) {
        if (operands.size() != parameters.size())
            malformed("`" + f.name + "` has " + std::to_string(parameters.size()) + " " + what +
                      "s, but the call has " + std::to_string(operands.size()));
        for (size_t n = 0; n < operands.size(); ++n) {
            const ptx::Variable& v = passed(operands[n]);
            const ptx::Parameter& p = parameters[n];
            uint64_t here = 0, there = 0;
            const bool alike = v.bytes() == p.bytes() &&
                               (place_argument(v, here = 1) == place_argument(p, there = 1));
            if (!alike)
                malformed(std::string("the ") + what + " `" + v.name + "` (" +
                          std::to_string(v.bytes()) + " bytes) must have the size and alignment " +
                          "of `" + p.name + "` of `" + f.name + "` (" + std::to_string(p.bytes()) +
                          " bytes)");
        }
    };
    check("argument", arguments, f.parameters);
    check("result", results, f.results);
}

// Decodes a call of a built-in function, such as malloc. On a GPU, the driver provides these
// functions. The simulator has its own. This function checks the sizes of their arguments and
// results.
void Decoder::call_builtin(CallSite& site, std::string_view name) const {
    using enum CallSite::Builtin;
    const auto takes = [&](std::initializer_list<uint32_t> arguments, uint32_t result_bytes) {
        const size_t results = result_bytes ? 1 : 0;
        bool fits = site.arguments.size() == arguments.size() && site.results.size() <= results;
        size_t n = 0;
        for (const uint32_t bytes : arguments) fits = fits && site.arguments[n++].bytes == bytes;
        for (const CallSite::Copy& result : site.results)
            fits = fits && result.bytes == result_bytes;
        if (!fits) malformed("the arguments or results are not those of " + std::string(name));
    };
    if (name == "vprintf") {
        takes({8, 8}, 4);
        site.builtin = vprintf;
    } else if (name == "__assertfail") {
        takes({8, 8, 4, 8, 8}, 0);
        site.builtin = assertfail;
    } else if (name == "malloc" || name == "free") {
        const bool allocates = name == "malloc";
        takes({8}, allocates ? 8 : 0);
        site.builtin = allocates ? CallSite::Builtin::malloc : CallSite::Builtin::free;
    } else if (name == "__coalesce_outside_member") {
        takes({8, 8, 8, 8, 8, 8, 8, 8}, 0);
        site.builtin = outside_member;
    } else {
        unsupported(*instruction_,
                    "a call of " + std::string(name) + ", which has no body in this module");
    }
}

void Decoder::decode_cluster_barrier(const ptx::Instruction& in) {
    Modifiers m(in);
    m.take("cluster");
    Op op;
    if (m.take("arrive"))
        op.control = Control::cluster_arrive;
    else if (m.take("wait"))
        op.control = Control::cluster_wait;
    else
        unsupported(in);
    for (const Modifier word :
         {Modifier("aligned"), Modifier("acquire"), Modifier("release"), Modifier("relaxed")})
        m.take(word);
    if (!m.empty()) unsupported(in, "the modifier ." + std::string(m.first()));
    if (!in.operands.empty()) malformed("it has too many operands");
    emit_control(in, op, no_block);
}

void Decoder::decode_barrier(const ptx::Instruction& in) {
    Modifiers m(in);
    m.take("cta");
    m.take("aligned");
    Op op;
    op.control = Control::barrier;
    size_t next = 0;
    BarrierOperand operand;
    BarrierKind& kind = operand.kind;
    if (m.take("arrive")) {
        kind = BarrierKind::arrive;
    } else if (m.take("red")) {
        const Modifier what = m.take_one({"popc", "and", "or"});
        m.take_type();
        kind = what == "popc"  ? BarrierKind::popc
               : what == "and" ? BarrierKind::all
                               : BarrierKind::any;
        const Type result = kind == BarrierKind::popc ? Type::u32 : Type::pred;
        op.operand[0] = destination(in.operands.at(next++), result);
    } else if (!m.take("sync")) {
        unsupported(in);
    }
    if (!m.empty()) unsupported(in, "the modifier ." + std::string(m.first()));
    const bool reduces = op.operand[0] != no_operand || kind > BarrierKind::arrive;
    op.operand[1] = source(in.operands.at(next++), Type::u32);
    const size_t left = in.operands.size() - next;
    if (left > (reduces ? 1u : 0u)) op.operand[2] = source(in.operands[next++], Type::u32);
    if (reduces) {
        const Operand& p = in.operands.at(next);
        op.operand[3] = source(p, Type::pred);
        operand.negated = p.negated;
    }
    op.set(operand);
    emit_control(in, op, no_block);
}

}  // namespace coalesce::sim
