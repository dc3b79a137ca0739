#include "cudart/state/runtime.hpp"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>

#include "cudart/report/signals.hpp"
#include "cudart/state/api.hpp"
#include "sim/run/device_heap.hpp"

namespace coalesce::cudart {

namespace {

std::string setting(const char* name, const char* otherwise = "") {
    const char* const value = std::getenv(name);
    return value ? value : otherwise;
}

Settings settings_of_environment() {
    return {setting("COALESCE_PROGRAM_GPU", "h200"),
            setting("COALESCE_PROGRAM_CODE"),
            setting("COALESCE_PROGRAM_REPORT"),
            setting("COALESCE_PROGRAM_KEEP"),
            setting("COALESCE_PROGRAM_LAUNCHES", "first"),
            setting("COALESCE_PROGRAM_CHECK") != "",
            setting("COALESCE_PROGRAM_CHECK") == "strict",
            setting("COALESCE_PROGRAM_HELPER"),
            std::strtoull(setting("COALESCE_PROGRAM_LIMIT", "0").c_str(), nullptr, 10)};
}

const model::Gpu& gpu_named(const std::string& name) {
    if (const model::Gpu* const gpu = model::find_gpu(name)) return *gpu;
    std::fprintf(stderr, "coalesce: there is no simulated GPU `%s`; the H200 is used\n",
                 name.c_str());
    return *model::find_gpu("h200");
}

bool is_program() { return setting("COALESCE_PROGRAM_CODE") != ""; }

bool made = false;

// Runs at the end of the process, after main() and the destructors of static objects.
__attribute__((destructor)) void finish() {
    if (!made) return;
    Runtime& rt = runtime();
    rt.order.guard(false);
    rt.waited();
    if (rt.settings.check) {
        report_unchecked_error();
        // After a fault, cudaFree() fails, too.
        for (const auto& [address, a] : rt.memory.all())
            if (!rt.fault && a.number && a.kind != Kind::registered && !a.stays)
                rt.report.add_mistake("leak", a.described() + " were not freed", a.caller);
    }
    write_report();
}

__attribute__((constructor)) void start() {
    reserve_arena();
    end_with_parent();
    // Otherwise Python has loaded the library into its own process (coalesce.numba).
    if (is_program()) watch_signals();
}

}  // namespace

Runtime::Runtime() : settings(settings_of_environment()), gpu(gpu_named(settings.gpu)) {
    if (settings.check || !is_program()) memory.keep_undefined();
    made = true;
    // The report is that of this process. A child that uses CUDA has no report.
    pthread_atfork(nullptr, nullptr, [] { made = false; });
}

void write_report() {
    if (!made) return;
    const Runtime& rt = runtime();
    if (!rt.settings.report.empty()) rt.report.write(rt.settings.report);
}

Runtime& runtime() {
    static auto* const one = new Runtime;
    return *one;
}

uint64_t Runtime::gpu_bytes() const {
    // The memory of each GPU in GB, from the documents that model/gpu.cpp cites.
    struct {
        std::string_view name;
        uint64_t gb;
    } constexpr sizes[] = {{"h200", 141}, {"h100", 80}, {"a100", 80},    {"v100", 16},
                           {"t4", 16},    {"l4", 24},   {"rtx3090", 24}, {"rtx4090", 24}};
    for (const auto& size : sizes)
        if (size.name == gpu.name) return size.gb * 1'000'000'000;
    return uint64_t{16} << 30;
}

std::string Runtime::place_of(void* address) const {
    const auto [object, offset] = object_of(address);
    if (object.empty()) return "";
    // The parent process replaces this address in the report by the file and the line, if the
    // program was compiled with debug information.
    char text[32];
    std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(offset));
    return settings.check ? " <" + object + text + ">" : "";
}

void Runtime::waited() {
    if (!printed.empty()) {
        std::fwrite(printed.data(), 1, printed.size(), stdout);
        std::fflush(stdout);
        printed.clear();
    }
}

std::map<int, size_t> default_limits() {
    return {{Limit::stack_size, sim::default_stack},
            {Limit::printf_buffer, 8448 << 10},  // of an H200
            {Limit::malloc_heap, sim::device_heap_bytes},
            {Limit::pending_launches, 2048},
            {Limit::l2_fetch_granularity, 64},
            {Limit::persisting_l2, 0}};
}

void Runtime::reset() {
    order.host_waits_for_all();
    contexts.reset_primary();
    limits = default_limits();
    heap_used = false;
    sim::DeviceHeap::get().clear();
    sim::DeviceHeap::get().set_limit(limits[Limit::malloc_heap]);
    fault = cudaSuccess;
    fault_returned = false;
}

void print_once(const std::string& text) {
    if (!runtime().said.insert(text).second) return;
    std::fflush(stdout);
    std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace coalesce::cudart
