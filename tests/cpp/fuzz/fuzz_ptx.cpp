// Fuzz target for PTX. Whatever the text is, the parser, the control flow, the live ranges, the
// decoder and a launch must not crash, hang or use up the memory. The result must be a program, or
// one of the errors in errors.hpp. A kernel that runs must have the same result in plain, counted
// and checked runs.
//
// With clang it is a libFuzzer target:
//  cmake -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DCOALESCE_FUZZ=ON -DCOALESCE_ISAS=generic
//    -DCOALESCE_SANITIZE=address,undefined -DCOALESCE_PYTHON=OFF
//  cmake --build build/fuzz --target fuzz_ptx
//  build/fuzz/tests/cpp/fuzz_ptx -max_total_time=600 -timeout=25 -rss_limit_mb=2048 corpus
//    tests/cpp/fuzz_corpus
// Without libFuzzer (COALESCE_LIBFUZZER not defined) it has its own main function. One text in
// three is a mutation of a file from the corpus or the command line. The other two are made by
// ptx_generator.hpp, and one of these two is also mutated. The command line is:
//  fuzz_ptx [iterations | SECONDSs] [seed] [file.ptx ...]
// A text depends only on the seed and its number. Before a text is tried, it is written to a file,
// so that it is available after a crash. The environment variable FUZZ_PTX_LAST is the name of this
// file. A text that takes more than ten seconds ends the run.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analysis/check/check.hpp"
#include "analysis/launch.hpp"
#include "analysis/trace/step.hpp"
#include "errors.hpp"
#include "fuzz/fuzz_main.hpp"
#include "fuzz/ptx_generator.hpp"
#include "ptx/module.hpp"
#include "sim/decode/registers.hpp"
#include "sim/program/launch.hpp"
#include "sim/program/program.hpp"
#include "sim/ptx_analysis/contraction.hpp"
#include "sim/ptx_analysis/data_flow.hpp"

namespace {

namespace ptx = coalesce::ptx;
namespace sim = coalesce::sim;

using coalesce::fuzz::check;
using coalesce::fuzz::check_message;

void check_module(const ptx::Module& module) {
    for (const ptx::Function& function : module.functions) {
        const std::vector<sim::Traits> traits = sim::traits_of(function);
        const sim::ControlFlow flow = sim::control_flow(function, traits);
        check(flow.block_of.size() == function.body.size(), "an instruction without a block");
        for (const sim::BasicBlock& block : flow.blocks) {
            check(block.first < block.last && block.last <= function.body.size(), "an empty block");
            check(!block.successors.empty() || block.leaves, "a block that goes nowhere");
        }
        const auto ranges = sim::live_ranges(function, traits, flow);
        check(ranges.size() == function.registers.size(), "a register without a range");
    }
}

namespace analysis = coalesce::analysis;

// Random numbers that depend only on the text. So if a text fails, its launch can be repeated
// exactly.
class Dice {
  public:
    explicit Dice(const std::string& text) : random_(uint32_t(std::hash<std::string>{}(text))) {}
    uint32_t below(uint32_t n) { return uint32_t(random_() % n); }
    uint64_t bits() { return uint64_t{random_()} << 32 | random_(); }

  private:
    std::mt19937 random_;
};

// Returns a launch of a few blocks with a low limit on instructions. Most parameters are addresses
// in the same 4 KB. The others are arbitrary numbers.
sim::GridRun launch_of(const sim::Program& program, Dice& dice, uint64_t address) {
    sim::GridRun launch;
    launch.grid = {2, 1, 1};
    launch.block = {dice.below(2) ? 40u : 1 + dice.below(96), 1 + dice.below(2), 1};
    launch.shared_bytes = dice.below(4) ? 256 : dice.below(5000);
    launch.workers = 1;
    launch.instruction_limit = 500;
    launch.parameters.resize(program.parameter_bytes);
    for (size_t at = 0; at + 8 <= launch.parameters.size(); at += 8) {
        const uint64_t any[] = {address + dice.below(4200), dice.below(100), dice.bits()};
        const uint64_t value = dice.below(8) ? address : any[dice.below(3)];
        std::memcpy(&launch.parameters[at], &value, 8);
    }
    sim::check(launch, sim::Limits{}, program.shared_bytes, program.kernel);
    return launch;
}

// Steps through the first block and calls each function that shows the state of a stepper.
void step_through(const sim::Program& program, const sim::RegisterMap& registers,
                  sim::GridRun launch, sim::AddressSpace& memory, Dice& dice) {
    analysis::Stepper stepper(program, registers, std::move(launch), memory, dice.below(2), 64);
    analysis::Until until;
    until.instructions.resize(program.instructions.size());
    for (size_t i = 0; i < until.instructions.size(); ++i)
        until.instructions[i] = dice.below(4) == 0;
    while (!stepper.ended()) {
        const uint32_t warp = dice.below(stepper.warps());
        switch (dice.below(6)) {
            case 0:
                until.barrier = dice.below(2) != 0;
                until.off_lines.reset();
                (void)stepper.run(until, 20);
                break;
            case 1:
                until.off_lines = warp;
                (void)stepper.run(until, 20);
                break;
            case 2:
                (void)stepper.step(warp);
                break;
            default:
                (void)stepper.step(std::nullopt);
        }
        for (uint32_t n = 0; n < stepper.warps(); ++n) {
            const analysis::Position at = stepper.position(n);
            check(at.pc < program.instructions.size(), "a position outside the program");
            for (const analysis::Stepper::Register& r : stepper.registers(n)) {
                check(r.known != 0, "a register that nobody wrote");
                const size_t bytes = r.place->type == ptx::Type::pred
                                         ? sizeof(sim::LaneMask)
                                         : ptx::size_of(r.place->type) * sim::warp_size;
                std::vector<std::byte> copy(r.bytes, r.bytes + bytes);
            }
        }
        check(stepper.take_events().events.size() <= 64, "more events than were wanted");
    }
}

// The memory after the kernel. It is empty if the kernel did not run to its end.
using Left = std::optional<std::vector<std::byte>>;

Left run_kernel(const ptx::Module& module, const ptx::Function& function, analysis::Purpose how,
                Dice dice) {
    const std::shared_ptr<sim::ModuleMemory> variables = sim::lay_out_memory(module);
    static std::vector<std::byte> data(4096);
    for (size_t i = 0; i < data.size(); ++i) data[i] = std::byte(i * 7 >> 3);
    sim::RegisterMap registers;
    using analysis::Purpose;
    const sim::Engine& engine = sim::engine(analysis::watch_for(how));
    const sim::Program program = sim::decode(module, function, variables, engine, registers);
    if (program.local_bytes > 4096 || program.parameter_bytes > 4096) return std::nullopt;
    sim::AddressSpace memory;
    program.memory->map_into(memory);
    sim::Buffer buffer;
    buffer.name = "data";
    buffer.bytes = data.size();
    buffer.host = data.data();
    const uint64_t address = memory.add(buffer);
    sim::GridRun launch = launch_of(program, dice, address);
    if (how == Purpose::step) {
        step_through(program, registers, std::move(launch), memory, dice);
        return std::nullopt;
    }
    analysis::LaunchRequest request;
    request.launch = std::move(launch);
    request.gpu = coalesce::model::find_gpu("h200");
    request.counts = request.caches = how == Purpose::count;
    if (how == Purpose::check) request.check.emplace();
    analysis::prepare(program, request);
    const analysis::Result result =
        analysis::launch(program, request, memory, analysis::counted_code(program));
    if (result.checked) {
        for (const analysis::Finding& f : result.checked->findings)
            check(!f.title.empty() && f.count > 0, "an empty finding");
        // A checked run skips faulting accesses, so its result may differ.
        if (!result.checked->findings.empty()) return std::nullopt;
    }
    std::vector<std::byte> left = data;
    for (const sim::ModuleMemory::Item& item : variables->items)
        left.insert(left.end(), item.bytes.begin(), item.bytes.end());
    return left;
}

long ran = 0;  // number of kernels that ran to their end

// Decodes every kernel of the module. Runs each kernel on a tiny grid three times: without
// observers (a plain run), with counting, and with the checker.
void run_module(const ptx::Module& module) {
    uint64_t bytes = 0;
    for (const ptx::Variable& v : module.variables) {
        if (v.bytes() > (1u << 20)) return;  // such a variable is allowed, but slow
        bytes += v.bytes();
    }
    if (bytes > (1u << 20)) return;
    const bool has_clock = module.text->find("%clock") != std::string::npos ||
                           module.text->find("%globaltimer") != std::string::npos;
    for (const ptx::Function& function : module.functions) {
        if (!function.entry) continue;
        Left first;
        using analysis::Purpose;
        for (const Purpose how : {Purpose::run, Purpose::count, Purpose::check, Purpose::step}) {
            try {
                const Left left = run_kernel(module, function, how, Dice(*module.text));
                if (!first) first = left;
                check(!left || has_clock || *left == *first, "another result than a plain run's");
                ran += left && how == Purpose::run;
            } catch (const coalesce::Error& error) {
                check_message(error);
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    try {
        const ptx::Module module =
            sim::contracted(ptx::parse(std::string(reinterpret_cast<const char*>(data), size)));
        check_module(module);
        run_module(module);
    } catch (const coalesce::Error& error) {
        check_message(error);
    }
    return 0;
}

#ifndef COALESCE_LIBFUZZER
namespace {

const char* const snippets[] = {"{",
                                "}",
                                "(",
                                ")",
                                "[",
                                "]",
                                "<",
                                ">",
                                ",",
                                ";",
                                ":",
                                "@",
                                "!",
                                "|",
                                "-",
                                "+",
                                "~",
                                "?",
                                "/*",
                                "*/",
                                "//",
                                "\"",
                                "\n",
                                "\\",
                                "%",
                                "%p1",
                                "%r1",
                                "_",
                                "_:",
                                "0x",
                                "0f3F800000",
                                "0d",
                                "1e999",
                                "4000000000",
                                "18446744073709551615",
                                "-9223372036854775808/-1",
                                "1/0",
                                ".reg .b32 %r<1000000>;",
                                ".v4",
                                ".align 16",
                                ".b8 x[99999999999999]",
                                "[2][3]",
                                "= {{1},{2}}",
                                "bra $L1;",
                                "call",
                                "ret;",
                                "bar.sync 0;",
                                ".loc 1 2 3",
                                ".branchtargets",
                                ".callprototype",
                                ".alias",
                                ".extern",
                                ".func f();",
                                ".entry",
                                ".section",
                                ".version 9.9",
                                "$L1:",
                                "%tid.x",
                                "WARP_SZ",
                                "generic(",
                                "%v.x",
                                "\xff"};

std::string mutated(const std::vector<std::string>& corpus, std::mt19937& random) {
    const auto below = [&](size_t n) { return n == 0 ? 0 : random() % n; };
    std::string text = corpus[below(corpus.size())];
    for (size_t edits = 1 + below(6); edits > 0; --edits) {
        const size_t at = below(text.size() + 1), length = below(1 + below(40));
        switch (below(7)) {
            case 0:
                text.erase(at, length);
                break;
            case 1:
                text.insert(at, text.substr(below(text.size() + 1), length));
                break;
            case 2:
                text.insert(at, snippets[below(std::size(snippets))]);
                break;
            case 3:
                text.replace(at, std::min(length, text.size() - at),
                             snippets[below(std::size(snippets))]);
                break;
            case 4:
                if (at < text.size()) text[at] = static_cast<char>(random());
                break;
            case 5:
                text.resize(at);
                break;
            default: {
                const std::string& other = corpus[below(corpus.size())];
                text.insert(at, other.substr(below(other.size() + 1), below(400)));
            }
        }
    }
    return text;
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(COALESCE_FUZZ_CORPUS)) {
        if (entry.path().extension() == ".ptx") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    files.insert(files.end(), argv + std::min(argc, 3), argv + argc);
    std::vector<std::string> corpus;
    for (const std::filesystem::path& path : files) {
        std::ifstream file(path, std::ios::binary);
        corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    for (const std::string& text : corpus) check_module(ptx::parse(text));
    return coalesce::fuzz::main(
        "fuzz_ptx", "FUZZ_PTX_LAST", argc, argv,
        [&](std::mt19937& random, long n) {
            if (n % 3 == 0) return mutated(corpus, random);
            const std::string text = coalesce::PtxGenerator(random).module();
            return n % 3 == 1 ? text : mutated({text}, random);
        },
        [](const std::string& text) {
            LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(text.data()), text.size());
        },
        [] { std::printf("fuzz_ptx: %ld kernels ran to their end\n", ran); });
}
#endif
