#include "cudart/host_faults.hpp"

#include <ucontext.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include <unistd.h>

#include "cudart/runtime.hpp"

namespace coalesce::cudart {

namespace {

struct sigaction before;

// Returns the address of the faulting instruction plus 1. The code that finds the source line
// expects an address after the start of the instruction. (For other findings, this address is the
// return address of a call, which is the end of the call instruction.)
void* code_address(const void* context) {
#if defined(__x86_64__)
    const auto* const c = static_cast<const ucontext_t*>(context);
    return reinterpret_cast<void*>(c->uc_mcontext.gregs[REG_RIP] + 1);
#elif defined(__aarch64__)
    const auto* const c = static_cast<const ucontext_t*>(context);
    return reinterpret_cast<void*>(c->uc_mcontext.pc + 1);
#else
    return nullptr;
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
    const auto address = reinterpret_cast<uint64_t>(info->si_addr);
    // The functions called here are not safe in a signal handler. This does not matter, because the
    // process is about to end.
    if (in_arena(address)) {
        Runtime& rt = runtime();
        if (const Allocation* const early = rt.memory.release_unwaited(address)) {
            rt.report.add_mistake("missing wait",
                                  "the host uses " + early->described() +
                                      " while a kernel or a copy may still use it: call "
                                      "cudaDeviceSynchronize() first",
                                  code_address(context));
            return;  // the instruction repeats the access
        }
        const Allocation* const a = rt.memory.find(address);
        const std::string freed = rt.memory.freed_at(address);
        std::string text = "the host used a pointer to device memory: ";
        if (a)
            text += "it is " + std::to_string(address - a->address) + " bytes into " +
                    a->described() +
                    ". Copy the data with cudaMemcpy(), or allocate it with "
                    "cudaMallocManaged()";
        else if (!freed.empty())
            text = "the host used memory that was freed: " + freed;
        else
            text = "the host used an address near device memory that is not in any allocation";
        rt.report.failure = text;
        if (rt.settings.check) rt.report.add_mistake("host access", text, code_address(context));
        rt.waited();
        text = "coalesce: " + text + "\n";
        [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
        if (!rt.settings.report.empty()) rt.report.write(rt.settings.report);
    }
    // Restores the previous handler. After the return, the processor executes the instruction
    // again. The instruction faults again, and then the previous handler is called.
    sigaction(signal, &before, nullptr);
}

}  // namespace

void watch_host_faults() {
    sigaction(SIGSEGV, nullptr, &before);
    if (before.sa_handler != SIG_DFL) return;
    struct sigaction own{};
    own.sa_sigaction = on_fault;
    own.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &own, nullptr);
}

}  // namespace coalesce::cudart
