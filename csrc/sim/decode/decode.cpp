// METHOD
// The kernel and the functions that it may call are decoded one after another. Each instruction has
// a row in ops.inc. For most instructions, the row has the name of a function that chooses the
// handler and the types of the operands. Instructions of control flow and memory have no such
// function; the Decoder decodes them itself. If an instruction has no row, or a modifier that no
// function understands, UnsupportedInstruction is thrown. Its message contains the CUDA source
// line.
#include "sim/decode/decode.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "errors.hpp"
#include "sim/decode/outline.hpp"
#include "sim/decode/waiting_reads.hpp"
#include "sim/ptx_analysis/parameter_addresses.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::sim {

using ptx::Operand;
using ptx::Type;

namespace {

// Returns the size of a register's slot in bytes. A slot holds the values of all lanes of a warp. A
// predicate needs one bit per lane, so its slot is one mask.
uint32_t slot_bytes(Type type) {
    return type == Type::pred ? sizeof(LaneMask) : warp_size * std::max(2u, ptx::size_of(type));
}

// Sets the payload so that the handler negates the predicate that it reads (trait::negates).
void negate_predicate(Op& op) {
    if (op.is<VoteOperand>())
        op.get<VoteOperand>().negated = true;
    else
        op.get<ComparisonOperand>().negated = true;
}

}  // namespace

Program decode(const ptx::Module& module, const ptx::Function& entry,
               std::shared_ptr<ModuleMemory> memory, const Engine& engine) {
    return Decoder(module, std::move(memory), engine).decode(entry);
}

Program decode(const ptx::Module& module, const ptx::Function& entry,
               std::shared_ptr<ModuleMemory> memory, const Engine& engine, RegisterMap& registers) {
    return Decoder(module, std::move(memory), engine, &registers).decode(entry);
}

Program Decoder::decode(const ptx::Function& entry) {
    graph_ = call_graph(module_, entry);
    program_ = outline(module_, entry, graph_, std::move(memory_));
    program_.functions.resize(graph_.functions.size());
    for (uint32_t i = 0; i < graph_.functions.size(); ++i) decode_function(i);
    if (engine_.memory.multiply_chain) program_.family_changes.resize(program_.ops.size());
    finish_depth();
    for (const auto& [address, f] : function_addresses(module_)) {
        const uint32_t number = graph_.number_of(f->name);
        if (number != CallGraph::no_function) program_.function_of_address[address] = number;
    }
    find_segments(program_);
    find_spins(program_);
    poison(program_.constants.data(), constant_zones_);
    return std::move(program_);
}

void Decoder::decode_function(uint32_t index) {
    CurrentFunction current;
    const ptx::Function& f = *graph_.functions[index];
    current.function = &f;
    current.traits = traits_of(f);
    current.flow = control_flow(f, current.traits);
    current.ranges = live_ranges(f, current.traits, current.flow);
    current.families = address_families(f, current.traits, current.ranges);
    current_ = &current;
    frame_ = {};
    function_ = index;
    allocate_registers(current);
    lay_out_frame(index);

    if (index == 0) {
        // Lanes that reach the end of the kernel exit at once. They do not wait there to reconverge
        // with the other lanes, because this could be a deadlock. An example is `if (i >= n)
        // return;` before a shuffle with a full mask: the shuffle waits for all lanes that have not
        // exited. It would never continue if the lanes that return were still waiting.
        for (BasicBlock& b : current.flow.blocks) {
            if (b.reconvergence == no_block) continue;
            const uint32_t first = current.flow.blocks[b.reconvergence].first;
            const OpCode code = current.traits[first].code;
            if (f.body[first].guard < 0 && (code == OpCode::ret || code == OpCode::exit))
                b.reconvergence = no_block;
        }
    }
    current.is_reconvergence.assign(current.flow.blocks.size(), false);
    for (const BasicBlock& b : current.flow.blocks) {
        if (b.reconvergence != no_block) current.is_reconvergence[b.reconvergence] = true;
    }
    const uint32_t first = uint32_t(program_.ops.size());
    const uint32_t first_instruction = uint32_t(program_.instructions.size());
    const uint32_t first_table = uint32_t(program_.tables.size());
    current.op_of.resize(f.body.size() + 1);
    for (uint32_t i = 0; i < f.body.size(); ++i) {
        const uint32_t block = current.flow.block_of[i];
        if (current.is_reconvergence[block] && current.flow.blocks[block].first == i && i > 0) {
            append_between(Control::join);
        }
        current.op_of[i] = uint32_t(program_.ops.size());
        decode_instruction(i);
    }
    describe_function(first_instruction);
    // If control reaches the end of a body, the function returns.
    current.op_of[f.body.size()] = uint32_t(program_.ops.size());
    append_between(index == 0 ? Control::exit : Control::ret);

    // Branch targets are still indices of instructions, and reconvergence points are indices of
    // basic blocks. Replace both by indices of ops.
    for (uint32_t i = first; i < program_.ops.size(); ++i) {
        Op& op = program_.ops[i];
        if (op.is<Branch>() && !op.skips_guarded()) {
            uint32_t& target = op.get<Branch>().target;
            target = current.op_of[target];
        }
        uint32_t& point = program_.reconvergence[i];
        if (point == no_op) continue;
        point = point & resolved_op ? point & ~resolved_op
                                    : current.op_of[current.flow.blocks[point].first];
    }
    for (uint32_t t = first_table; t < program_.tables.size(); ++t) {
        for (uint32_t& target : program_.tables[t]) target = current.op_of[target];
    }
    if (index == 0 && engine_.memory.multiply_chain) {
        find_family_changes(current.families, first, first_instruction);
        find_chains(first, first_instruction);
    }
    FunctionInfo& info = program_.functions[index];
    info.name = readable(f.name);
    info.entry = current.op_of[0];
    info.register_bytes = round_up(frame_.bytes, slot_alignment);
    info.red_zones = std::move(frame_.red_zones);
    current_ = nullptr;
}

// Finds the parameter or variable from which the address of each decoded instruction is computed
// (origins.hpp). Also describes the registers if the caller of decode() wants that.
void Decoder::describe_function(uint32_t first_instruction) {
    const ptx::Function& f = *current_->function;
    const auto decoded = std::span(program_.instructions).subspan(first_instruction);
    std::vector<Origin> origins = address_origins(module_, f, current_->traits);
    const std::vector<bool> waits = waiting_reads(f, current_->traits, current_->flow);
    for (size_t i = 0; i < decoded.size(); ++i) {
        decoded[i].waits = waits[i];
        decoded[i].origin = std::move(origins[i]);
        if (function_ != 0) decoded[i].origin.parameter = -1;
    }
    if (function_ == 0) {
        const std::vector<int32_t> in = parameter_addresses(f, current_->traits);
        for (size_t i = 0; i < decoded.size(); ++i) decoded[i].in_parameter = in[i];
    }
    for (const BasicBlock& block : current_->flow.blocks) {
        for (uint32_t i = block.first; i + 1 < block.last; ++i)
            program_.data_flow[first_instruction + i].successors = {first_instruction + i + 1};
        for (const uint32_t next : block.successors)
            program_.data_flow[first_instruction + block.last - 1].successors.push_back(
                first_instruction + current_->flow.blocks[next].first);
    }
    if (registers_)
        registers_->push_back(describe_registers(f, current_->traits, current_->flow,
                                                 current_->slots, first_instruction));
}

// Gives each register a slot, in the order in which the live ranges begin (the linear scan method).
// The live range of a register is the range of instructions in which its value is needed. A slot is
// reused only after the instruction at which the live range of its register ends. So an instruction
// never writes the slot of one of its operands, unless result and operand are the same register.
// If the registers are described, each has a slot of its own, and keeps its value until it is
// written again.
void Decoder::allocate_registers(CurrentFunction& current) {
    const auto& registers = current.function->registers;
    const std::vector<LiveRange>& ranges = current.ranges;
    std::vector<uint32_t> order;
    for (uint32_t r = 0; r < registers.size(); ++r) {
        if (ranges[r].first <= ranges[r].last) order.push_back(r);
    }
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return ranges[a].first < ranges[b].first; });

    // The key is the size of a slot, and the values are the offsets of free slots.
    std::map<uint32_t, std::vector<uint32_t>> free;
    // The key is the last instruction that uses the register, and the value is the register.
    std::multimap<uint32_t, uint32_t> busy;
    current.slots.assign(registers.size(), no_operand);
    uint32_t bytes = 0;
    for (const uint32_t r : order) {
        while (!registers_ && !busy.empty() && busy.begin()->first < ranges[r].first) {
            const uint32_t done = busy.begin()->second;
            free[slot_bytes(registers[done].type)].push_back(current.slots[done] >> 1);
            busy.erase(busy.begin());
        }
        const uint32_t size = slot_bytes(registers[r].type);
        auto& list = free[size];
        if (list.empty() && red_zone_bytes) {
            list.push_back(bytes);
            bytes = place(bytes, size);
        } else if (list.empty()) {
            // Sixteen predicates share a piece of 64 bytes (a cache line). All other registers are
            // aligned for vector loads.
            const uint32_t piece = std::max(size, slot_alignment);
            bytes = round_up(bytes, std::min(piece, 2 * slot_alignment));
            for (uint32_t at = bytes + piece; at > bytes; at -= size) list.push_back(at - size);
            bytes += piece;
        }
        current.slots[r] = list.back() << 1;
        list.pop_back();
        busy.emplace(ranges[r].last, r);
    }
    frame_.bytes = bytes;
}

// Lays out the frame's local memory: .local variables, then the .param space (the arguments and
// results of the function itself, and of its calls).
void Decoder::lay_out_frame(uint32_t index) {
    uint32_t offset = 0;
    const ptx::Function& f = *current_->function;
    const auto grow = [&](uint64_t bytes) {
        if (offset + bytes > max_local_bytes)
            throw LaunchError(program_.kernel + ": " + readable(f.name) + " needs " +
                              std::to_string(offset + bytes) +
                              " bytes of local memory per thread; a thread of a GPU has at most " +
                              std::to_string(max_local_bytes) + " bytes");
        offset += uint32_t(bytes);
    };
    if (index != 0) {
        // The arguments and results of the function come first, in the order of argument_layout().
        std::vector<uint32_t> offsets;
        grow(argument_layout(f, offsets));
        program_.functions[index].argument_bytes = offset;
        size_t n = 0;
        for (const ptx::Parameter& p : f.parameters)
            current_->formals.emplace(p.name, offsets[n++]);
        for (const ptx::Parameter& p : f.results) current_->formals.emplace(p.name, offsets[n++]);
    }
    for (const ptx::Variable& v : f.variables) {
        const bool in_frame = v.space == ptx::Space::local || v.space == ptx::Space::param;
        if (in_frame) offset = round_up(offset, std::max({1u, v.alignment, ptx::size_of(v.type)}));
        current_->variables.push_back(offset);
        if (v.space == ptx::Space::local)
            program_.functions[index].locals.push_back({offset, uint32_t(v.bytes())});
        if (in_frame) grow(std::max<uint64_t>(1, v.bytes()));
    }
    program_.functions[index].local_bytes = round_up(offset, 16);
    if (index == 0) kernel_end_ = offset;
}

void Decoder::decode_instruction(uint32_t at) {
    const ptx::Instruction& in = current_->function->body[at];
    instruction_ = &in;
    InstructionInfo& info = program_.instructions.emplace_back();
    info.text = one_line(in.text);
    info.opcode = full_opcode(in);
    info.traits = current_->traits[at];
    info.ptx_line = in.position.line;
    info.source = in.written;
    info.function = function_;
    program_.data_flow.push_back(data_flow(in, info.traits));
    begin_instruction(uint32_t(program_.instructions.size() - 1));
    if (opcode_ == OpCode::unknown) unsupported(in);
    try {
        if (decode_control(at) || decode_memory(in) || decode_mbarrier(in) ||
            decode_tensor_copy(in) || decode_matrix(in) || decode_warpgroup(in) ||
            decode_texture(in) || decode_lanewise(in))
            return;
    } catch (const std::out_of_range&) {
        malformed("operands are missing");
    }
    unsupported(in);
}

bool Decoder::decode_lanewise(const ptx::Instruction& in) {
    Modifiers modifiers(in);
    const Operation& row = operation(opcode_);
    const Selection selection = engine_.ops->select({opcode_, in.operands}, modifiers);
    if (!selection.run) return false;
    if (!modifiers.empty()) unsupported(in, "the modifier ." + std::string(modifiers.first()));

    Op op;
    op.run = selection.run;
    op.payload() = selection.payload;
    if (selection.synchronizes) op.control = Control::synchronize;

    // A mov with a vector as one operand packs several small registers into a large one, or splits
    // a large register into small ones.
    if (opcode_ == OpCode::mov && in.operands.size() == 2) {
        const Operand &d = in.operands[0], &s = in.operands[1];
        if (d.kind == Operand::Kind::vector || s.kind == Operand::Kind::vector) {
            const bool join = s.kind == Operand::Kind::vector;
            const auto& elements = (join ? s : d).elements;
            if (elements.empty() || elements.size() > 4)
                malformed("a vector must have 2 or 4 elements");
            const uint32_t part = ptx::size_of(selection.types[0]) / uint32_t(elements.size());
            const Type part_type = part == 4 ? Type::b32 : part == 2 ? Type::b16 : Type::b8;
            for (size_t n = 0; n < elements.size(); ++n) {
                op.operand[n + join] =
                    join ? source(elements[n], part_type) : destination(elements[n], part_type);
            }
            op.operand[join ? 0 : 4] =
                join ? destination(d, selection.types[0]) : source(s, selection.types[0]);
            emit(in, op);
            return true;
        }
    }

    // Some instructions may have two destinations, written as a pair (d|p). If such an instruction
    // has only one, the second destination is empty.
    size_t next = 0;
    size_t operand = 0;
    if (selection.destinations == 2 && !in.operands.empty()) {
        const Operand& d = in.operands[0];
        if (d.kind == Operand::Kind::pair && d.elements.size() == 2) {
            op.operand[0] = destination(d.elements.at(0), selection.types[0]);
            op.operand[1] = destination(d.elements.at(1), selection.types[1]);
        } else {
            op.operand[0] = destination(d, selection.types[0]);
        }
        operand = 2;
        next = 1;
    }
    for (; operand < selection.types.size(); ++operand) {
        if (next >= in.operands.size()) malformed("operands are missing");
        const Operand& o = in.operands[next++];
        const Type type = selection.types[operand];
        if (operand < selection.destinations) {
            op.operand[operand] = destination(o, type);
        } else {
            op.operand[operand] = source(o, type);
            if (type == Type::pred && o.negated) {
                if (row.has(trait::negates))
                    negate_predicate(op);
                else
                    op.operand[operand] = negated(op.operand[operand]);
            }
        }
    }
    // Two operands are not registers, and the handler reads them itself: the truth table of lop3,
    // and the special register of a mov.
    const bool with_handler =
        opcode_ == OpCode::lop3 || (opcode_ == OpCode::mov && in.operands.size() == 2 &&
                                    in.operands[1].kind == Operand::Kind::special);
    if (next < in.operands.size() && !selection.types.empty() && !with_handler)
        malformed("it has too many operands");
    resize_operands(in, op, selection);
    return true;
}

// Emits the op of an instruction. The registers of cvt may be wider than its types (PTX ISA,
// "Operand Size Exceeding Instruction-Type Size"). cvt then reads the low bits of the source
// register, and extends the result to the width of the destination register.
void Decoder::resize_operands(const ptx::Instruction& in, Op op, const Selection& selection) {
    Op widen;
    for (size_t n = 0; n < in.operands.size() && n < selection.types.size(); ++n) {
        const uint32_t need = ptx::size_of(selection.types[n]);
        // Operands that are not registers have at least 16 bits per lane.
        uint32_t have = register_bytes(in.operands[n]);
        if (have == 0) have = std::max(2u, need);
        if (!operation(opcode_).has(trait::any_width) || have == need) continue;
        const Locator narrow = scratch();
        if (n < selection.destinations) {
            widen.run = engine_.ops->resize(
                ptx::is_signed(selection.types[n]) ? selection.types[n] : ptx::unsigned_type(need),
                have);
            widen.operand[0] = op.operand[n];
            widen.operand[1] = narrow;
        } else {
            Op cut;
            cut.run = engine_.ops->resize(ptx::unsigned_type(have), need);
            cut.operand[0] = narrow;
            cut.operand[1] = op.operand[n];
            emit(in, cut);
        }
        op.operand[n] = narrow;
    }
    emit(in, op);
    if (widen.run) emit(in, widen);
}

Guard Decoder::guard_of(const ptx::Instruction& in) const {
    if (in.guard < 0) return {};
    return {slot(in.guard, Type::pred), in.guard_negated};
}

// Computes the number of bytes of local memory that a lane needs. A chain of calls needs the bytes
// of all its functions. The chain that needs the most bytes determines the result. If the depth of
// calls is not known (recursion, calls through pointers), the limit of the stack determines it.
void Decoder::finish_depth() {
    std::vector<uint32_t> bytes;
    for (const FunctionInfo& f : program_.functions) bytes.push_back(f.local_bytes);
    program_.recursive = graph_.through_pointers;
    // If a chain of calls is deeper than this, the stack overflows when the kernel runs.
    program_.least_stack = graph_.deepest(bytes, max_local_bytes, program_.recursive);
    program_.local_bytes = program_.least_stack;
    program_.local_end = bytes.size() > 1 ? program_.local_bytes : kernel_end_;
    program_.calls_pointers = graph_.through_pointers;
    limit_stack(program_, default_stack);
}

void limit_stack(Program& p, uint32_t bytes) {
    if (!p.recursive) return;
    const uint32_t least = std::max(p.least_stack, p.calls_pointers ? unknown_depth_stack : 0);
    p.local_bytes = p.local_end = round_up(std::max(least, bytes), 16u);
    if (p.machine) p.functions[0].local_bytes = p.local_bytes;
}

void Decoder::unsupported(const ptx::Instruction& in, const std::string& why) const {
    std::string message = "the simulator cannot execute `" + one_line(in.text) + "`";
    if (!why.empty())
        message += " (" + why + ")";
    else if (in.opcode == "tcgen05")
        message += " (the matrix products that are simulated are mma, wmma and wgmma)";
    message += "\n  kernel " + program_.kernel;
    if (in.written.line) {
        const bool own = in.written.file == program_.source_file;
        const auto file = program_.files.find(in.written.file);
        message += ", line " + std::to_string(in.written.line) + " of " +
                   (own || file == program_.files.end() ? "the CUDA source" : file->second);
    }
    message += "; line " + std::to_string(in.position.line) + " of the PTX";
    throw UnsupportedInstruction(message);
}

}  // namespace coalesce::sim
