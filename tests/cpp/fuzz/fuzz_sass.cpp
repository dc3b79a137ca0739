// Fuzz target for machine code. Whatever the text is, the reader, the lifter and a launch must not
// crash, hang or use up the memory. A kernel that runs must have the same result with and without
// counting.
//
//  fuzz_sass [iterations | SECONDSs] [seed]
// Listings are made from the instructions in fuzz_corpus/machine.txt. Some registers, constants,
// modifiers and targets are replaced. In some listings, bytes are changed, too. Before a listing is
// tried, it is written to a file. The environment variable FUZZ_SASS_LAST is the name of this file.
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/counts/counts.hpp"
#include "analysis/launch.hpp"
#include "fuzz/fuzz_main.hpp"
#include "ptx/module.hpp"
#include "sass/lift.hpp"
#include "sim/program/launch.hpp"
#include "sim/program/program.hpp"

namespace {

using namespace coalesce;

constexpr const char* ptx_text =
    ".version 8.5\n.target sm_90\n.address_size 64\n.global .align 8 .b8 gv[64];\n"
    ".const .align 8 .b8 cv[64];\n.visible .entry k(.param .u64 in, .param .u64 out)\n"
    "{\n .shared .align 16 .b8 sv[512];\n ret;\n}\n";

class Maker {
  public:
    Maker(std::mt19937& random, const std::vector<std::string>& corpus)
        : random_(random), corpus_(corpus) {}

    std::string listing() {
        std::string text =
            ".section .nv.constant3,\"a\",@progbits\n.nv.constant3:\n        .byte 0x01, 0x02, "
            "0x03, 0x04, 0x05, 0x06, 0x07, 0x08\n"
            "//--------------------- .text.k ----------------------------\n.text.k:\n";
        uint32_t at = 0;
        const auto add = [&](const std::string& instruction) {
            char offset[32];
            std::snprintf(offset, sizeof offset, "        /*%04x*/  ", at);
            at += 16;
            text += offset + instruction + " ;\n";
        };
        for (const char* start :
             {"S2R R20, SR_TID.X", "LDC.64 R22, c[0x0][0x210]", "LDC.64 R24, c[0x0][0x218]",
              "IMAD.WIDE.U32 R22, R20, 0x10, R22", "IMAD.WIDE.U32 R24, R20, 0x10, R24",
              "IMAD.SHL.U32 R21, R20, 0x4, RZ", "LDG.E.128 R4, desc[UR4][R22.64]",
              "IMAD.MOV.U32 R2, RZ, RZ, R20", "ISETP.GT.AND P1, PT, R20, 0x7, PT",
              "ISETP.EQ.AND P2, PT, R4, 0x7, PT", "CS2R R0, SRZ"})
            add(start);
        const size_t count = 1 + below(14);
        const size_t wrong = below(4) ? 10 + below(100) : 0;
        for (size_t n = 0; n < count; ++n) {
            if (n == count / 3) text += ".L_x_0:\n";
            if (n == 2 * count / 3) text += ".L_x_1:\n";
            add(changed(corpus_[below(corpus_.size())], wrong));
        }
        for (const char* end : {"STG.E.64 desc[UR4][R24.64], R0", "SEL R0, RZ, 0x1, !P0",
                                "STG.E desc[UR4][R24.64+0x8], R0", "EXIT"})
            add(end);
        text += ".L_x_2:\n";
        if (below(8) == 0) {
            for (size_t edits = 1 + below(4); edits > 0; --edits)
                text[below(text.size())] = char(random_());
        }
        return text;
    }

  private:
    size_t below(size_t n) { return random_() % n; }

    // Returns the instruction with some words replaced. With probability 1 / `wrong`, a word is
    // replaced by a word of any kind (never if `wrong` is 0). Of the other words, one in four is
    // replaced by a word of the same kind. One in twelve instructions also gets a guard.
    std::string changed(const std::string& instruction, size_t wrong) {
        std::string text;
        size_t at = 0;
        const auto is_word = [](char c) {
            return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
        };
        while (at < instruction.size()) {
            size_t end = at;
            while (end < instruction.size() && is_word(instruction[end])) ++end;
            if (end == at) {
                text += instruction[at++];
                continue;
            }
            const std::string word = instruction.substr(at, end - at);
            text += wrong && below(wrong) == 0 ? any() : below(4) ? word : like(word);
            at = end;
        }
        if (below(12) == 0)
            text = "@" + std::string(below(2) ? "!" : "") + predicate() + " " + text;
        return text;
    }

    std::string predicate() { return below(6) ? "P" + std::to_string(below(7)) : "PT"; }

    std::string like(const std::string& word) {
        const bool digits = word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1]));
        if (word[0] == 'R' && digits) return "R" + std::to_string(2 * below(13));
        if (word.starts_with("UR")) return "UR" + std::to_string(2 * below(6));
        if (word[0] == 'P' && digits) return predicate();
        if (word.starts_with("0x")) {
            static constexpr std::string_view values[] = {"0x0",  "0x1",  "0x4",  "0x8",   "0x10",
                                                          "0x1f", "0x20", "0xff", "0x210", "0x400"};
            return std::string(values[below(std::size(values))]);
        }
        return word;
    }

    std::string any() {
        static constexpr std::string_view words[] = {"RZ",         "R0",
                                                     "R1",         "R3",
                                                     "R252",       "R255",
                                                     "R256",       "URZ",
                                                     "UR4",        "UR63",
                                                     "UP1",        "PT",
                                                     "P6",         "P7",
                                                     "B0",         "B15",
                                                     "B16",        "SR_TID",
                                                     "0x7fffffff", "0xffffffff",
                                                     "0x80000000", "0xfffffffffffffffc",
                                                     "0x1fc",      "0x3ff",
                                                     "64",         "128",
                                                     "E",          "U8",
                                                     "S16",        "U32",
                                                     "F64",        "F16x2",
                                                     "X",          "HI",
                                                     "WIDE",       "X4",
                                                     "X8",         "AND",
                                                     "OR",         "reuse",
                                                     "H0_H0",      "B3",
                                                     "0x9",        "-0x10",
                                                     "-0x1",       "+INF",
                                                     "1.5",        "QNAN",
                                                     "L_x_0",      "L_x_2",
                                                     "L_x_9",      "k",
                                                     "CC",         ""};
        return std::string(words[below(std::size(words))]);
    }

    std::mt19937& random_;
    const std::vector<std::string>& corpus_;
};

long ran = 0;  // number of kernels that ran to their end

// Runs a kernel. Returns the memory afterwards, or nothing if the kernel did not run to its end.
std::vector<std::byte> run_kernel(const sass::Listing& listing, bool counted) {
    const ptx::Module module = ptx::parse(ptx_text);
    analysis::LaunchRequest request;
    request.counts = counted;
    request.gpu = coalesce::model::find_gpu("h200");
    const sim::Engine& engine = sim::engine(analysis::watch_for(analysis::purpose_of(request)));
    const auto memory = sim::lay_out_memory(module);
    const sim::Program program =
        sass::lift(listing, module, *module.find_function("k"), memory, engine);
    std::vector<std::byte> data(2048);
    for (size_t i = 0; i < data.size(); ++i) data[i] = std::byte(i * 7 >> 3);
    sim::AddressSpace space;
    program.memory->map_into(space);
    sim::Buffer in, out;
    in.name = "in", out.name = "out";
    in.bytes = out.bytes = data.size() / 2;
    in.host = data.data(), out.host = data.data() + data.size() / 2;
    const uint64_t addresses[] = {space.add(in), space.add(out)};
    sim::GridRun& launch = request.launch;
    launch.grid = {2, 1, 1};
    launch.block = {40, 1, 1};
    launch.shared_bytes = 256;
    launch.workers = 1;
    launch.instruction_limit = 500;
    launch.parameters.resize(sizeof addresses);
    std::memcpy(launch.parameters.data(), addresses, sizeof addresses);
    analysis::prepare(program, request);
    (void)analysis::launch(program, request, space, analysis::counted_code(program));
    for (const sim::ModuleMemory::Item& item : memory->items)
        data.insert(data.end(), item.bytes.begin(), item.bytes.end());
    return data;
}

void run(const std::string& text) {
    const bool has_clock =
        text.find("CLOCK") != std::string::npos || text.find("TIMER") != std::string::npos;
    std::vector<std::byte> plain;
    for (const bool counted : {false, true}) {
        try {
            const std::vector<std::byte> left = run_kernel(sass::read(text), counted);
            ran += !counted;
            if (!counted) plain = left;
            fuzz::check(plain.empty() || has_clock || plain == left,
                        "another result than a plain run's");
        } catch (const Error& error) {
            fuzz::check_message(error);
            fuzz::check(plain.empty() || counted, "refused only sometimes");
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<std::string> corpus;
    std::ifstream file(COALESCE_FUZZ_CORPUS "/machine.txt");
    for (std::string line; std::getline(file, line);) corpus.push_back(line);
    return fuzz::main(
        "fuzz_sass", "FUZZ_SASS_LAST", argc, argv,
        [&](std::mt19937& random, long) { return Maker(random, corpus).listing(); }, run,
        [] { std::printf("fuzz_sass: %ld kernels ran to their end\n", ran); });
}
