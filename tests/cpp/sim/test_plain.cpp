// Tests plain runs, which have no observers. Plain runs remember the strides of addresses, and
// execute chains of multiply-adds as one operation. Runs that report every access to an observer
// use neither of these two methods. Both kinds of runs must have the same results.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "sim/fixture.hpp"

namespace coalesce::sim {
namespace {

// An observer that ignores the accesses. With this observer, the simulator must report every
// access.
struct Listener {
    static constexpr Hooks hooks = Hook::access;
    void access(const Warp&, const MemoryEvent&) {}
};

constexpr int words = 4096, threads = 64;

struct Outcome {
    std::vector<uint32_t> memory;
    std::string error;
    bool operator==(const Outcome&) const = default;
};

const std::vector<uint32_t>& random_memory() {
    static const std::vector<uint32_t> memory = [] {
        std::vector<uint32_t> filled(words + 8 * threads);
        std::mt19937 random(7);
        for (uint32_t& word : filled) word = 0x3f000000u + random() % (1u << 23);
        return filled;
    }();
    return memory;
}

// Runs k(data, out, one, stride) with 64 threads. `data` points to the middle of its array.
template <class O>
Outcome run_as(const ptx::Module& module) {
    const Program program = decode(module, *module.find_function("k"), lay_out_memory(module),
                                   sim::engine(watch_of<O>));
    Outcome outcome;
    outcome.memory = random_memory();
    Buffer data, out;
    data.name = "data";
    data.bytes = words * 4;
    data.host = reinterpret_cast<std::byte*>(outcome.memory.data());
    out.name = "out";
    out.bytes = 8 * threads * 4;
    out.host = data.host + data.bytes;
    AddressSpace space;
    const uint64_t addresses[] = {space.add(data) + words * 2, space.add(out),
                                  uint64_t{1} | uint64_t{12} << 32};
    GridRun launch;
    launch.block = {threads, 1, 1};
    launch.workers = 1;
    launch.instruction_limit = 20000;
    launch.parameters.resize(program.parameter_bytes);
    std::memcpy(launch.parameters.data(), addresses, launch.parameters.size());
    O nobody;
    const std::vector<O*> observers(worker_count(launch), &nobody);
    try {
        run_grid<O>(program, launch, space, observers);
    } catch (const std::exception& e) {
        outcome.error = e.what();
    }
    return outcome;
}

std::string kernel_of(const std::string& body) {
    std::string text =
        ".version 8.5\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 data, .param .u64 out, .param .u32 one, "
        ".param .u32 stride)\n{\n"
        ".reg .b64 %a<6>, %u<3>, %base, %o; .reg .f32 %f<8>; .reg .b32 %w<4>, %lane, %n, %s, %c;\n"
        ".reg .pred %p; .shared .align 16 .b8 sm[4096];\n"
        "ld.param.u64 %base, [data]; ld.param.u64 %o, [out]; ld.param.u32 %n, [one];\n"
        "ld.param.u32 %s, [stride]; mov.u32 %lane, %tid.x; mad.wide.u32 %o, %lane, 32, %o;\n"
        "mul.wide.u32 %u0, %n, 4; mul.wide.u32 %u1, %s, 1; mul.wide.s32 %u2, %n, -8;\n";
    for (int i = 0; i < 6; ++i)
        text += "mad.wide.u32 %a" + std::to_string(i) + ", %lane, " + std::to_string(4 * (i % 3)) +
                ", %base;\n";
    for (int i = 0; i < 8; ++i) text += "mov.f32 %f" + std::to_string(i) + ", 0f3F800000;\n";
    for (int i = 0; i < 4; ++i)
        text += "mov.u32 %c, sm; mad.lo.u32 %w" + std::to_string(i) + ", %lane, " +
                std::to_string(4 << i) + ", %c; st.shared.f32 [%w" + std::to_string(i) +
                "], %f0;\n";
    text += "bar.sync 0;\n" + body;
    for (int i = 0; i < 8; ++i)
        text += "st.global.f32 [%o+" + std::to_string(4 * i) + "], %f" + std::to_string(i) + ";\n";
    return text + "ret;\n}\n";
}

// Random statements with addresses, loads, products and branches.
class Statements {
  public:
    explicit Statements(unsigned seed) : random_(seed) {}
    std::string some(int most, int depth = 0) {
        std::string text;
        for (int n = 1 + below(most); n > 0; --n) text += statement(depth);
        return text;
    }

  private:
    int below(int n) { return int(random_() % unsigned(n)); }
    std::string a() { return "%a" + std::to_string(below(6)); }
    std::string f() { return "%f" + std::to_string(below(8)); }
    std::string w() { return "%w" + std::to_string(below(4)); }
    std::string steps() { return std::to_string(4 * (below(9) - 4)); }
    std::string load() {
        if (below(3)) return "ld.global.f32 " + f_ + ", [" + a() + "+" + steps() + "];\n";
        return "ld.shared.f32 " + f_ + ", [" + w() + "+" + std::to_string(4 * below(64)) + "];\n";
    }
    std::string load_to(const std::string& target) {
        f_ = target;
        return load();
    }
    std::string product() {
        const std::string x = f(), y = f(), sum = f(), c = f();
        return load_to(x) + load_to(y) + "fma.rn.f32 " + sum + ", " + (below(2) ? x : y) + ", " +
               (below(2) ? x : y) + ", " + c + ";\n";
    }
    // Returns a chain of products in registers of its own. Each product reads the previous sum.
    std::string chain() {
        const std::string l = label();
        const int count = 1 + below(6);
        std::string text = "{ .reg .f32 %x<8>, %y<8>, %z<8>; mov.f32 %z0, " + f() + ";\n";
        for (int i = 0; i < count; ++i) {
            const std::string n = std::to_string(i);
            text += load_to("%x" + n) + load_to("%y" + n) + "fma.rn.f32 %z" +
                    std::to_string(i + 1) + ", " +
                    (below(2) ? "%x" + n + ", %y" : "%y" + n + ", %x") + n + ", %z" + n + ";\n";
            if (!below(3)) text += move();
            if (!below(6)) text += "st.global.f32 [" + a() + "], " + f() + ";\n";
            if (!below(6)) text += "mov.f32 " + f() + ", %x" + n + ";\n";
            if (!below(8)) text += "mov.f32 " + f() + ", %z" + n + ";\n";
        }
        return text + "mov.f32 " + f() + ", %z" + std::to_string(count) + "; }\n";
    }
    std::string move() {
        switch (below(8)) {
            case 0:
                return "mov.u64 " + a() + ", " + a() + ";\n";
            case 1:
                return "sub.s64 " + a() + ", " + a() + ", %u" + std::to_string(below(3)) + ";\n";
            case 2:
            case 3:
                return "add.s64 " + a() + ", " + a() + ", %u" + std::to_string(below(3)) + ";\n";
            case 4:
                return "add.s32 " + w() + ", " + w() + ", " + std::to_string(4 * below(5)) + ";\n";
            case 5:
                return "mad.wide.u32 " + a() + ", %lane, " + std::to_string(4 * below(5)) +
                       ", %base;\n";
            case 6:
                return "mov.u32 " + w() + ", sm;\n";
            default:
                return "add.s64 " + a() + ", " + a() + ", " + steps() + ";\n";
        }
    }
    std::string label() { return "L" + std::to_string(labels_++); }
    std::string statement(int depth) {
        const int kind = below(depth < 2 ? 14 : 11);
        if (kind < 4) return move();
        if (kind < 6) return load_to(f());
        if (kind < 8) return product();
        if (kind < 10) return chain();
        if (kind < 11) return "st.global.f32 [" + a() + "+" + steps() + "], " + f() + ";\n";
        const std::string l = label();
        if (kind == 11) {  // the branch is for some lanes, all lanes or none
            const char* lanes[] = {"5", "32", "64", "0", "31"};
            return "setp.lt.u32 %p, %lane, " + std::string(lanes[below(5)]) + ";\n@%p bra " + l +
                   ";\n" + some(4, depth + 1) + l + ":\n";
        }
        if (kind == 12) {  // the lanes execute equal or different numbers of iterations
            const std::string c = "%c" + l;
            const std::string times =
                below(2) ? "mov.u32 " + c + ", " + std::to_string(1 + below(3)) + ";\n"
                         : "and.b32 " + c + ", %lane, 3;\nadd.u32 " + c + ", " + c + ", 1;\n";
            return "{ .reg .b32 " + c + "; " + times + l + ":\n" + some(5, depth + 1) + "sub.u32 " +
                   c + ", " + c + ", 1;\nsetp.ne.u32 %p, " + c + ", 0;\n@%p bra " + l + "; }\n";
        }
        const char* guards[] = {"7", "32", "64"};
        return "setp.lt.u32 %p, %lane, " + std::string(guards[below(3)]) + ";\n@%p " +
               (below(2) ? move() : load_to(f()));
    }

    std::mt19937 random_;
    std::string f_;
    int labels_ = 0;
};

TEST(PlainRun, EqualsAnObservedRun) {
    int succeeded = 0;
    for (unsigned seed = 0; seed < 1500; ++seed) {
        const std::string text = kernel_of(Statements(seed).some(14));
        const ptx::Module module = ptx::parse(text);
        const Outcome plain = run_as<NoObserver>(module), observed = run_as<Listener>(module);
        ASSERT_EQ(plain.error, observed.error) << "seed " << seed << "\n" << text;
        ASSERT_TRUE(plain == observed) << "seed " << seed << "\n" << text;
        succeeded += plain.error.empty();
    }
    EXPECT_GT(succeeded, 1000);
}

// Tests the rule in sim/ptx_analysis/address_families.hpp. Each kernel would give a wrong result if
// one condition of the rule were missing.
TEST(PlainRun, ForgetsOutdatedStrides) {
    const char* bodies[] = {
        // Only some lanes change the address.
        "ld.global.f32 %f0, [%a1];\nsetp.lt.u32 %p, %lane, 7;\n@%p bra L;\nadd.s64 %a1, %a1, 4;\n"
        "L: ld.global.f32 %f1, [%a1]; ld.global.f32 %f2, [%a1+8];\n",
        // Only some lanes change the address, because of a guard.
        "ld.global.f32 %f0, [%a1];\nsetp.lt.u32 %p, %lane, 7;\n@%p add.s64 %a1, %a1, 4;\n"
        "ld.global.f32 %f1, [%a1]; ld.global.f32 %f2, [%a1+8];\n",
        // A register is copied, and then gets a new value.
        "mov.u64 %a0, %a1; ld.global.f32 %f0, [%a0]; mad.wide.u32 %a1, %lane, 12, %base;\n"
        "ld.global.f32 %f1, [%a1]; ld.global.f32 %f2, [%a0]; bra L;\nL:\n"
        "ld.global.f32 %f3, [%a1]; ld.global.f32 %f4, [%a0];\n",
        // The added value differs between lanes.
        "cvt.u64.u32 %u0, %w2; ld.global.f32 %f0, [%a1]; add.s64 %a1, %a1, %u0;\n"
        "ld.global.f32 %f1, [%a1]; bra L;\nL: ld.global.f32 %f2, [%a1];\n",
        // The addition is in a loop that lanes leave at different times.
        "ld.global.f32 %f0, [%a1]; and.b32 %c, %lane, 3;\nL: add.s64 %a1, %a1, 4;\n"
        "sub.s32 %c, %c, 1; setp.ge.s32 %p, %c, 0;\n@%p bra L;\nld.global.f32 %f1, [%a1];\n",
        // The added value is written at two places.
        "setp.lt.u32 %p, %lane, 9;\nmov.u64 %u1, 4;\n@%p bra L;\nmov.u64 %u1, 8;\nL:\n"
        "ld.global.f32 %f0, [%a1]; add.s64 %a1, %a1, %u1; ld.global.f32 %f1, [%a1];\n",
        // Only some lanes execute the first load from the new addresses, because of a guard.
        "ld.global.f32 %f0, [%a1]; bra L;\nL: mad.wide.u32 %a1, %lane, 12, %base;\n"
        "setp.lt.u32 %p, %lane, 7;\n@%p ld.global.f32 %f1, [%a1];\n"
        "ld.global.f32 %f2, [%a1]; ld.global.f32 %f3, [%a1+8];\n",
        // The load accesses shared memory in some lanes and global memory in others.
        "ld.f32 %f0, [%a1]; bra L;\nL: mad.wide.u32 %a1, %lane, 12, %base; cvt.u64.u32 %u1, %w0;\n"
        "cvta.shared.u64 %u1, %u1; setp.lt.u32 %p, %lane, 7; selp.b64 %a1, %u1, %a1, %p;\n"
        "ld.f32 %f1, [%a1]; ld.f32 %f2, [%a1];\n",
        // A shuffle gives each lane the address of another lane.
        "ld.shared.f32 %f0, [%w2]; shfl.sync.bfly.b32 %w2, %w2, 5, 31, -1;\n"
        "ld.shared.f32 %f1, [%w2];\n",
        // A shuffle gives each lane the address of another lane, first in one half of the warp,
        // then in the other.
        "ld.shared.f32 %f0, [%w2]; and.b32 %c, %lane, 16; shl.b32 %c, 65535, %c;\n"
        "shfl.sync.bfly.b32 %w2, %w2, 5, 31, %c; ld.shared.f32 %f1, [%w2]; bra L;\n"
        "L: ld.shared.f32 %f2, [%w2];\n",
    };
    for (const char* body : bodies) {
        const std::string text = kernel_of(body);
        const ptx::Module module = ptx::parse(text);
        const Outcome plain = run_as<NoObserver>(module), observed = run_as<Listener>(module);
        EXPECT_EQ(plain.error, "") << text;
        EXPECT_TRUE(plain == observed) << text;
    }
}

TEST(PlainRun, AKernelWithoutInstructions) {
    const std::string text =
        ".version 8.5\n.target sm_90\n.address_size 64\n"
        ".visible .entry k(.param .u64 data, .param .u64 out, .param .u32 one, "
        ".param .u32 stride)\n{\n}\n";
    EXPECT_EQ(run_as<NoObserver>(ptx::parse(text)).error, "");
}

TEST(PlainRun, ExecutesChainsAsOne) {
    const std::string text = kernel_of(
        "{ .reg .f32 %x<2>, %y<2>, %z<2>;\n"
        "ld.global.f32 %x0, [%a1]; ld.global.f32 %y0, [%a0]; fma.rn.f32 %z0, %x0, %y0, %f0;\n"
        "add.s64 %a2, %a1, 4;\n"
        "ld.global.f32 %x1, [%a2]; ld.global.f32 %y1, [%a0+4]; fma.rn.f32 %f1, %y1, %x1, %z0; }\n");
    const ptx::Module module = ptx::parse(text);
    const auto chains = [&](Watch watch) {
        const Program program =
            decode(module, *module.find_function("k"), lay_out_memory(module), sim::engine(watch));
        std::vector<int> lengths;
        for (const Op& op : program.ops) {
            if (op.length > 1) lengths.push_back(op.length);
        }
        return lengths;
    };
    EXPECT_EQ(chains(Watch::nothing), std::vector<int>{7});
    EXPECT_EQ(chains(Watch::accesses), std::vector<int>{});
}

}  // namespace
}  // namespace coalesce::sim
