#include "analysis/trace/accel_sim.hpp"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "errors.hpp"

namespace coalesce::analysis {

namespace {

constexpr std::string_view zero_register = "R255";
constexpr size_t most_sources = 4;  // MAX_SRC of Accel-Sim's parser
constexpr uint32_t instruction_bytes = 16;

// Returns what std::printf would print for numbers.
template <class... Numbers>
std::string printed(const char* format, Numbers... numbers) {
    char text[160];
    std::snprintf(text, sizeof text, format, (unsigned long long)numbers...);
    return text;
}

// Returns the register at the start of an operand as Accel-Sim writes it, or an empty text.
std::string register_in(std::string_view operand) {
    operand.remove_prefix(std::min(operand.find_first_not_of("-~|!"), operand.size()));
    if (!operand.starts_with('R')) return {};
    if (operand.starts_with("RZ")) return std::string(zero_register);
    const size_t digits = operand.find_first_not_of("0123456789", 1);
    return digits == 1 ? std::string{} : std::string(operand.substr(0, digits));
}

// The operands of an instruction: its registers, whether one of them is an address in memory, and
// the last immediate.
struct Operands {
    std::string destination;
    std::vector<std::string> sources;
    bool memory = false;
    uint64_t immediate = 0;
};

Operands operands_of(std::string_view text) {
    Operands result;
    if (text.starts_with('@')) text.remove_prefix(std::min(text.find(' ') + 1, text.size()));
    text.remove_prefix(std::min(text.find(' '), text.size()));
    for (size_t number = 0; !text.empty(); ++number) {
        std::string_view one = text.substr(0, text.find(','));
        text.remove_prefix(std::min(one.size() + 1, text.size()));
        one.remove_prefix(std::min(one.find_first_not_of(' '), one.size()));
        std::string name;
        if (one.starts_with('[') || one.starts_with("desc[")) {
            result.memory = true;
            name = register_in(one.substr(one.rfind('[') + 1));
        } else if (one.starts_with("0x")) {
            result.immediate = std::strtoull(std::string(one).c_str(), nullptr, 16);
        } else {
            name = register_in(one);
            if (number == 0) {
                result.destination = std::exchange(name, {});
            }
        }
        if (!name.empty() && result.sources.size() < most_sources) result.sources.push_back(name);
    }
    return result;
}

// Returns the bytes per lane by Accel-Sim's rule: the first number among the modifiers, in bits.
uint32_t width_of(std::string_view opcode) {
    while (!opcode.empty()) {
        std::string_view part = opcode.substr(0, opcode.find('.'));
        opcode.remove_prefix(std::min(part.size() + 1, opcode.size()));
        if (part.starts_with('U')) part.remove_prefix(1);
        if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos)
            return uint32_t(std::strtoul(std::string(part).c_str(), nullptr, 10)) / 8;
    }
    return 4;
}

// Returns the addresses of the active lanes: "1 base stride" for neighbouring lanes with a constant
// stride, "0 address..." for others.
std::string addresses_of(const sim::MemoryEvent& e) {
    const int first = std::countr_zero(e.mask), lanes = std::popcount(e.mask);
    if (lanes > 1 && std::popcount(e.mask >> first) == std::countr_one(e.mask >> first)) {
        const auto stride = int64_t(e.address(first + 1) - e.address(first));
        bool constant = stride == int32_t(stride);
        for (int lane = first + 1; lane < first + lanes && constant; ++lane)
            constant = int64_t(e.address(lane) - e.address(lane - 1)) == stride;
        if (constant) return printed("1 0x%llx %lld ", e.address(first), stride);
    }
    std::string list = "0 ";
    sim::for_each_lane(e.mask, [&](int lane) { list += printed("0x%llx ", e.address(lane)); });
    return list;
}

}  // namespace

AccelSimTrace::AccelSimTrace(const sim::Program& program, const sim::GridRun& launch,
                             uint32_t registers, uint32_t architecture, const std::string& path)
    : program_(program),
      forms_(program.instructions.size()),
      guarded_(program.instructions.size()),
      file_(path) {
    if (!program.machine)
        throw LaunchError("a trace for Accel-Sim needs machine code, but " + program.kernel +
                          " is executed as PTX");
    if (!file_) throw LaunchError("cannot write " + path);
    for (uint32_t at = 0; at < program.machine->op_of.size(); ++at) {
        const uint32_t op = program.machine->op_of[at];
        if (op < program.ops.size())
            forms_[program.ops[op].pc].offset = printed("%04llx ", at * instruction_bytes);
    }
    for (const sim::Op& op : program.ops)
        if (op.starts_guarded) forms_[op.pc].guarded = true;
    for (size_t pc = 0; pc < forms_.size(); ++pc) {
        const sim::InstructionInfo& info = program.instructions[pc];
        const Operands operands = operands_of(info.text);
        Form& form = forms_[pc];
        form.memory = operands.memory;
        form.middle = operands.destination.empty() ? "0 " : "1 " + operands.destination + " ";
        form.middle += info.opcode + " " + std::to_string(operands.sources.size()) + " ";
        for (const std::string& source : operands.sources) form.middle += source + " ";
        if (info.opcode.find("GMMA") != std::string::npos)  // whether it ends a group of products
            form.middle += info.text.find("gsb") != std::string::npos ? "1 " : "0 ";
        form.middle += std::to_string(form.memory ? width_of(info.opcode) : 0) + " ";
        form.end = std::to_string(operands.immediate) + " \n";
    }
    const auto extents = [](const Dim3& d) { return printed("(%llu,%llu,%llu)", d.x, d.y, d.z); };
    file_ << "-kernel name = " << program.kernel
          << "\n-kernel id = 1\n-grid dim = " << extents(launch.grid)
          << "\n-block dim = " << extents(launch.block)
          << "\n-shmem = " << program.shared_bytes + launch.shared_bytes
          << "\n-nregs = " << registers << "\n-binary version = " << architecture
          << "\n-cuda stream id = 0\n-shmem base_addr = "
          << printed("0x%016llx", sim::shared_window)
          << "\n-local mem base_addr = " << printed("0x%016llx", sim::local_window)
          << "\n-nvbit version = none: simulated\n-accelsim tracer version = 5\n"
             "-enable lineinfo = 0\n\n#traces format = PC mask dest_num [reg_dests] opcode src_num "
             "[reg_srcs] mem_width [adrrescompress?] [mem_addresses] immediate\n";
}

void AccelSimTrace::start(sim::Block& block) {
    for (sim::Warp& w : block.warps) {
        w.global_repetitions = w.shared_repetitions = nullptr;
        w.guarded_lanes = guarded_.data();
    }
    blocks_[&block].resize(block.warp_count);
}

void AccelSimTrace::segment(const sim::Warp& w, uint32_t op, sim::LaneMask mask) {
    write_pending();
    running_ = &w;
    for (const uint32_t end = program_.segment_end[op]; op < end; ++op) {
        if (!program_.ops[op].starts) continue;
        pending_.push_back({program_.ops[op].pc, mask, {}});
        guarded_[program_.ops[op].pc] = 0;
    }
}

void AccelSimTrace::access(const sim::Warp&, const sim::MemoryEvent& e) {
    for (Pending& p : pending_) {
        if (p.pc != e.pc || !p.addresses.empty()) continue;
        p.mask = e.mask;
        p.addresses = addresses_of(e);
        return;
    }
    // An asynchronous copy has a second event, for shared memory. Accel-Sim leaves it out, too.
}

void AccelSimTrace::copied(const sim::Warp&, const sim::CopyEvent&) {
    throw LaunchError("traces for Accel-Sim do not have copies by the copy engine (TMA), which " +
                      program_.kernel + " executes");
}

void AccelSimTrace::write_pending() {
    for (Pending& p : pending_) {
        const Form& form = forms_[p.pc];
        if (form.guarded && p.addresses.empty() && guarded_[p.pc] == 0) p.mask = 0;
        if (form.memory && p.addresses.empty()) {
            if (p.mask)
                throw LaunchError("the addresses of " + program_.instructions[p.pc].opcode +
                                  " in " + program_.kernel +
                                  " are not known; traces for Accel-Sim need them");
            p.addresses = "0 ";
        }
        Lines& lines = blocks_.at(running_->block)[running_->index];
        lines.text += form.offset + printed("%08llx ", p.mask) + form.middle;
        if (form.memory) lines.text += p.addresses;
        lines.text += form.end;
        ++lines.count;
    }
    pending_.clear();
}

void AccelSimTrace::finish(const sim::Block& block) {
    write_pending();
    const Dim3& at = block.index;
    file_ << printed("\n#BEGIN_TB\n\nthread block = %llu,%llu,%llu\n", at.x, at.y, at.z);
    if (block.cluster) {
        const Dim3& size = block.launch->cluster;
        file_ << printed(
            "cluster id = %llu,%llu,%llu\ncluster cta = %llu,%llu,%llu\ncluster rank = %llu\n",
            at.x / size.x, at.y / size.y, at.z / size.z, at.x % size.x, at.y % size.y,
            at.z % size.z, block.rank);
    }
    const std::vector<Lines>& warps = blocks_.at(&block);
    for (size_t n = 0; n < warps.size(); ++n)
        file_ << printed("\nwarp = %llu\ninsts = %llu\n", n, warps[n].count) << warps[n].text;
    file_ << "\n#END_TB\n";
    blocks_.erase(&block);
}

void AccelSimTrace::close() {
    file_.close();
    if (!file_) throw LaunchError("the trace for Accel-Sim could not be written completely");
}

}  // namespace coalesce::analysis
