#include "cudart/report/signals.hpp"

#include <ucontext.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

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

// Whether the instruction that faulted writes. On other processors than x86, this is not known.
bool writes(const void* context) {
#if defined(__x86_64__)
    constexpr greg_t write_bit = 2;
    return static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & write_bit;
#else
    return false;
#endif
}

// Lets the host execute one instruction, or all of them until it continues.
void step([[maybe_unused]] void* context, [[maybe_unused]] bool one) {
#if defined(__x86_64__)
    constexpr greg_t trap_flag = 0x100;
    greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
    flags = one ? flags | trap_flag : flags & ~trap_flag;
#endif
}

// Protects the page of host_accesses() again, after one instruction.
void on_step(int, siginfo_t*, void* context) {
    step(context, false);
    Runtime& rt = runtime();
    const std::unique_lock guard(rt.lock, std::try_to_lock);
    if (guard) rt.order.close_pages();  // otherwise, a call of another thread does it
}

// If the host may use this memory only after a wait, reports the missing wait and returns true. The
// host then repeats the access, and the next access to the page is seen, too. So many accesses of a
// program take long. After 100,000 of them, the page stays open until the next call of the API.
bool is_early(uint64_t address, void* context) {
    Runtime& rt = runtime();
    const std::unique_lock guard(rt.lock, std::try_to_lock);
    if (!guard) return true;  // a call of another thread gives access to the page
    if (!rt.order.host_accesses(address, writes(context), code_address(context))) return false;
    constexpr unsigned most_steps = 100'000;
    static unsigned steps = 0;
    static const bool can_step = [] {
        struct sigaction before{}, own{};
        sigaction(SIGTRAP, nullptr, &before);
        own.sa_sigaction = on_step;
        own.sa_flags = SA_SIGINFO;
        return before.sa_handler == SIG_DFL && sigaction(SIGTRAP, &own, nullptr) == 0;
    }();
    if (can_step && ++steps < most_steps) step(context, true);
    return true;
}

// Reports that the host used device memory.
void report_access(uint64_t address, const void* context) {
    Runtime& rt = runtime();
    const Allocation* const a = rt.memory.find(address);
    const std::string freed = rt.memory.freed_at(address);
    std::string text = "the host used a pointer to device memory: ";
    if (a)
        text += "it is " + std::to_string(address - a->address) + " bytes into " + a->described() +
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
}

volatile sig_atomic_t ending = 0;  // the signal that ends the program

// Ends the program at once, by the same signal.
void end_now(int) {
    std::signal(ending, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, ending);
    pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    raise(ending);
}

void on_signal(int signal, siginfo_t* info, void* context) {
    const auto address = reinterpret_cast<uint64_t>(info->si_addr);
    const bool has_address = signal == SIGSEGV && info->si_code > 0;
    const bool accessed = has_address && in_arena(address);
    if (has_address && Order::may_guard(address) && is_early(address, context))
        return;  // the instruction repeats the access
    // The functions called below are not safe in a signal handler. This does not matter, because
    // the process is about to end. But they may wait for ever, for example for memory, if the
    // signal interrupted malloc(). Then the process ends after some seconds, without a report.
    constexpr unsigned seconds = 5;
    // A second request must not end the process before the report is written. Some senders, such as
    // `timeout`, send a signal to this process and to coalesce, which passes it on.
    const bool is_request = signal == SIGTERM || signal == SIGHUP;
    static std::atomic_flag has_begun;
    const bool is_second = has_begun.test_and_set();
    if (is_second && is_request) return;
    if (!is_request) std::signal(signal, SIG_DFL);
    if (is_second) return;  // a fault while the report is written: the instruction is repeated
    ending = signal;
    std::signal(SIGALRM, end_now);
    alarm(seconds);
    if (accessed) report_access(address, context);
    write_report();
    alarm(0);
    std::signal(signal, SIG_DFL);
    raise(signal);  // it is delivered when this handler returns
}

}  // namespace

void end_with_parent() {
#if defined(__linux__)
    const char* const parent = std::getenv("COALESCE_PROGRAM_PARENT");
    const auto is_parent = [&] { return std::to_string(getppid()) == parent; };
    if (!parent || !is_parent()) return;  // a program that the program has started
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!is_parent()) _exit(128 + SIGKILL);  // it has just ended
#endif
}

void watch_signals() {
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTERM, SIGHUP}) {
        struct sigaction before{}, own{};
        sigaction(signal, nullptr, &before);
        if (before.sa_handler != SIG_DFL) continue;
        own.sa_sigaction = on_signal;
        own.sa_flags = SA_SIGINFO;
        sigaction(signal, &own, nullptr);
    }
}

}  // namespace coalesce::cudart
