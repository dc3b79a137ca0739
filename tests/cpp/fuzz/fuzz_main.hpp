// The code that the fuzz targets share. A fuzz target is a program that tries many random texts, to
// find crashes. The main loop here tries generated texts until a number of texts or a time is
// reached. Other functions check error messages.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <random>
#include <string>

#include "errors.hpp"

namespace coalesce::fuzz {

inline void check(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "fuzz: %s\n", what);
    std::abort();
}

// Ends the process with an error if the object exists for longer than `seconds`. So a text that
// makes the simulator wait for ever is found, even if this wait uses no processor time.
class Watchdog {
  public:
    explicit Watchdog(unsigned seconds) {
        std::signal(SIGALRM, [](int) {
            static constexpr char text[] = "fuzz: a text that does not end\n";
            (void)!write(STDERR_FILENO, text, sizeof text - 1);
            std::abort();
        });
        alarm(seconds);
    }
    ~Watchdog() { alarm(0); }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
};

inline void check_message(const Error& error) {
    for (const char* c = error.what(); *c; ++c)
        check((*c >= ' ' && *c <= '~') || *c == '\n' || *c == '\t', "an unprintable message");
}

// The command line is: program [iterations | SECONDSs] [seed] [...]. `make` makes text number n,
// and `run` tries this text. A text may use ten seconds of processor time, and `patience` seconds
// of elapsed time. The second limit is higher, because other processes may slow this process down.
inline int main(const char* name, const char* last_file, int argc, char** argv,
                const std::function<std::string(std::mt19937&, long)>& make,
                const std::function<void(const std::string&)>& run,
                const std::function<void()>& finish, unsigned patience = 120) {
    using Clock = std::chrono::steady_clock;
    const std::string amount = argc > 1 ? argv[1] : "20000";
    const bool timed = amount.ends_with('s');
    const long most = timed ? INT64_MAX : std::atol(amount.c_str());
    const auto start = Clock::now(), end = start + std::chrono::seconds(std::atol(amount.c_str()));
    const auto seed = uint32_t(argc > 2 ? std::atol(argv[2]) : 1);
    const char* const last = std::getenv(last_file);
    double slowest = 0;
    long n = 0;
    for (; n < most && (!timed || Clock::now() < end); ++n) {
        std::mt19937 random(seed ^ uint32_t(uint64_t(n) * 2654435761u));
        const std::string text = make(random, n);
        if (last != nullptr) std::ofstream(last, std::ios::binary) << text;
        // Measures processor time, because other processes may delay this one.
        const std::clock_t before = std::clock();
        {
            const Watchdog watchdog(patience);
            run(text);
        }
        slowest = std::max(slowest, double(std::clock() - before) / CLOCKS_PER_SEC);
        check(slowest < 10, "a text that takes more than ten seconds");
    }
    finish();
    std::printf(
        "%s: %ld texts of seed %u in %.0f s, no crash, no hang, no wrong result; the "
        "slowest took %.2f s\n",
        name, n, seed, std::chrono::duration<double>(Clock::now() - start).count(), slowest);
    return 0;
}

}  // namespace coalesce::fuzz
