// Runs several launches at the same time, each with several host threads (workers) and the
// project's own observers. The results must be the same as those of a single launch. Build this
// program with -fsanitize=thread. It then ends with an error if two threads access the same memory
// without ordering.
//  threads [rounds]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "analysis/caches/cache_replay.hpp"
#include "analysis/check/check.hpp"
#include "analysis/counts/counts.hpp"
#include "analysis/launch.hpp"
#include "analysis/trace/step.hpp"
#include "analysis/trace/trace.hpp"
#include "model/gpu.hpp"
#include "model/time.hpp"
#include "ptx/module.hpp"
#include "sim/memory/device_arrays.hpp"
#include "sim/program/launch.hpp"
#include "sim/program/program.hpp"

namespace {

using namespace coalesce;

constexpr uint32_t blocks = 24, threads_per_block = 96;
constexpr uint32_t count = blocks * threads_per_block;

// The kernel adds numbers through shared memory, with a barrier. It also has a function, a loop,
// atomics between blocks, and printf.
constexpr const char* text = R"(
.version 8.5
.target sm_90
.address_size 64
.global .align 4 .u32 total;
.global .align 1 .b8 format[4] = {37, 100, 10, 0};
.shared .align 4 .b8 tile[384];
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.func (.param .b32 r) twice(.param .b32 a)
{
 .reg .b32 %x; ld.param.u32 %x, [a]; add.u32 %x, %x, %x; st.param.b32 [r], %x; ret;
}
.visible .entry k(.param .u64 in, .param .u64 out)
{
 .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %d<8>; .local .align 8 .b8 args[8];
 ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
 mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
 mad.lo.u32 %r4, %r2, %r3, %r1; mul.wide.u32 %d3, %r4, 4;
 add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;
 ld.global.u32 %r5, [%d4];
 shl.b32 %r6, %r1, 2; mov.u32 %r7, tile; add.u32 %r7, %r7, %r6;
 st.shared.u32 [%r7], %r5;
 bar.sync 0;
 xor.b32 %r6, %r6, 4; mov.u32 %r8, tile; add.u32 %r8, %r8, %r6;
 ld.shared.u32 %r9, [%r8];
 { .param .b32 a; .param .b32 r; st.param.b32 [a], %r9; call (r), twice, (a);
   ld.param.b32 %r9, [r]; }
 mov.u32 %r10, 0;
LOOP:
 add.u32 %r9, %r9, %r10; add.u32 %r10, %r10, 1; and.b32 %r11, %r1, 7;
 setp.lt.u32 %p1, %r10, %r11;
 @%p1 bra LOOP;
 st.global.u32 [%d5], %r9;
 red.global.add.u32 [total], 1;
 setp.ne.u32 %p2, %r1, 0;
 @%p2 bra DONE;
 mov.u64 %d6, args; st.local.u32 [%d6], %r2; cvta.local.u64 %d6, %d6;
 { .param .b64 f; .param .b64 a; .param .b32 r; mov.u64 %d7, format; cvta.global.u64 %d7, %d7;
   st.param.b64 [f], %d7; st.param.b64 [a], %d6; call (r), vprintf, (f, a); }
DONE:
 ret;
}
)";

uint32_t expected(uint32_t i) {
    const uint32_t steps = i % threads_per_block & 7, partner = i ^ 1;
    uint32_t value = 2 * (partner * 3);
    for (uint32_t n = 0; n < std::max(1u, steps); ++n) value += n;
    return value;
}

void check(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "threads: %s\n", what);
    std::abort();
}

enum class How : uint8_t { plainly, counted, recorded, replayed, checked, stepped };

// Runs one launch with its own data. All launches share the module's text and the engines.
void launch_once(const ptx::Module& module, How how) {
    const auto variables = sim::lay_out_memory(module);
    const ptx::Function& entry = *module.find_function("k");
    sim::RegisterMap registers;
    analysis::LaunchRequest request;
    request.gpu = model::find_gpu("h200");
    request.registers = 32;
    request.counts = how == How::counted || how == How::replayed;
    request.caches = how == How::replayed;
    if (how == How::recorded) request.record.emplace().limit = 200;
    if (how == How::checked) request.check.emplace();
    const analysis::Purpose purpose =
        how == How::stepped ? analysis::Purpose::step : analysis::purpose_of(request);
    const sim::Engine& engine = sim::engine(analysis::watch_for(purpose));
    const sim::Program program = sim::decode(module, entry, variables, engine, registers);
    std::vector<uint32_t> in(count), out(count);
    for (uint32_t i = 0; i < count; ++i) in[i] = 3 * i;
    sim::AddressSpace memory;
    program.memory->map_into(memory);
    const auto add = [&](const char* name, std::vector<uint32_t>& values) {
        sim::Buffer b;
        b.name = name;
        b.bytes = values.size() * 4;
        b.host = reinterpret_cast<std::byte*>(values.data());
        return memory.add(b);
    };
    const uint64_t addresses[] = {add("in", in), add("out", out)};
    const auto device_array = sim::allocate_array({16}, 4, "float32");
    check(!sim::live_arrays().empty(), "the device array is not there");
    sim::GridRun& launch = request.launch;
    launch.grid = {blocks, 1, 1};
    launch.block = {threads_per_block, 1, 1};
    launch.workers = 4;
    launch.parameters.resize(sizeof addresses);
    std::memcpy(launch.parameters.data(), addresses, sizeof addresses);
    std::atomic<uint32_t> printed{0};
    launch.print = [&](const std::string&) { ++printed; };
    if (how == How::stepped) {
        analysis::Stepper stepper(program, registers, launch, memory, 3, 64);
        while (stepper.step(std::nullopt)) {
        }
        return;
    }
    analysis::prepare(program, request);
    const analysis::Result r =
        analysis::launch(program, request, memory, analysis::counted_code(program));
    check(!request.counting() || r.counts->executed() > 0, "no counts");
    check(!r.trace || r.trace->events.size() == 200, "events are missing");
    check(how != How::replayed || r.caches->counts.l1_loads > 0, "no cache was asked");
    check(!r.checked || r.checked->findings.empty(), "a finding in a correct kernel");
    for (uint32_t i = 0; i < count; ++i) check(out[i] == expected(i), "a wrong result");
    uint32_t total = 0;
    for (const sim::ModuleMemory::Item& item : variables->items) {
        if (item.name == "total") std::memcpy(&total, item.bytes.data(), 4);
    }
    check(total == count, "an atomic was lost");
    check(printed == blocks, "something printed was lost");
}

}  // namespace

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
    const ptx::Module module = ptx::parse(text);
    std::vector<std::thread> launching;
    constexpr How ways[] = {How::plainly,  How::counted, How::recorded,
                            How::replayed, How::checked, How::stepped};
    for (const How how : ways) {
        launching.emplace_back([&, how] {
            for (int n = 0; n < rounds; ++n) launch_once(module, how);
        });
    }
    for (std::thread& t : launching) t.join();
    std::printf("threads: %zu threads, %d launches each, no wrong result\n", std::size(ways),
                rounds);
    return 0;
}
