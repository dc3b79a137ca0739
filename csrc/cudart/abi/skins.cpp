// The exported functions of both APIs, made from the table functions.inc. Each of them passes its
// core function to call().
#include <string>

#include "cudart/state/api.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

// Throws for a function that is not simulated. A message says so (only once).
void refuse() {
    print_once("coalesce: " + std::string(called()) + "() is not simulated");
    runtime().report.missing(called());
    throw Failure{cudaErrorNotSupported};
}

// The name of a function for messages: without a version ("cuMemAlloc_v2" is "cuMemAlloc" in
// programs), and without the underscores of functions that headers call.
template <size_t n>
struct ShownName {
    char text[n]{};
    consteval explicit ShownName(const char (&name)[n]) {
        const size_t skipped = name[0] == '_' ? 2 : 0;
        for (size_t i = skipped; i < n; ++i) text[i - skipped] = name[i];
        const size_t end = n - 1 - skipped;
        if (end > 3 && text[end - 3] == '_' && text[end - 2] == 'v') text[end - 3] = 0;
    }
};

}  // namespace

// The parameters and the arguments of a function with these types: PARAMETERS(int, Stream) is
// `int a1, Stream a2`.
#define EACH_1(one, type, ...) one(type, a1) __VA_OPT__(, EACH_2(one, __VA_ARGS__))
#define EACH_2(one, type, ...) one(type, a2) __VA_OPT__(, EACH_3(one, __VA_ARGS__))
#define EACH_3(one, type, ...) one(type, a3) __VA_OPT__(, EACH_4(one, __VA_ARGS__))
#define EACH_4(one, type, ...) one(type, a4) __VA_OPT__(, EACH_5(one, __VA_ARGS__))
#define EACH_5(one, type, ...) one(type, a5) __VA_OPT__(, EACH_6(one, __VA_ARGS__))
#define EACH_6(one, type, ...) one(type, a6) __VA_OPT__(, EACH_7(one, __VA_ARGS__))
#define EACH_7(one, type, ...) one(type, a7) __VA_OPT__(, EACH_8(one, __VA_ARGS__))
#define EACH_8(one, type, ...) one(type, a8) __VA_OPT__(, EACH_9(one, __VA_ARGS__))
#define EACH_9(one, type, ...) one(type, a9) __VA_OPT__(, EACH_10(one, __VA_ARGS__))
#define EACH_10(one, type, ...) one(type, a10) __VA_OPT__(, EACH_11(one, __VA_ARGS__))
#define EACH_11(one, type, ...) one(type, a11) __VA_OPT__(, EACH_12(one, __VA_ARGS__))
#define EACH_12(one, type) one(type, a12)
#define PARAMETER(type, name) type name
#define ARGUMENT(type, name) name
#define PARAMETERS(...) __VA_OPT__(EACH_1(PARAMETER, __VA_ARGS__))
#define ARGUMENTS(...) __VA_OPT__(EACH_1(ARGUMENT, __VA_ARGS__))

// Defines an exported function. `shown` is its name without the ending of a variant.
#define SKIN(symbol, shown, per_thread, driver, has, core_function, ...)           \
    EXPORTED Error symbol(PARAMETERS(__VA_ARGS__)) {                               \
        using namespace traits;                                                    \
        static constexpr ShownName name(#shown);                                   \
        static constexpr ApiFunction function{name.text, has, driver, per_thread}; \
        return call(function, [&] { core_function(ARGUMENTS(__VA_ARGS__)); });     \
    }
#define SKINS_one(name, ...) SKIN(name, name, false, __VA_ARGS__)
#define SKINS_ptsz(name, ...) \
    SKINS_one(name, __VA_ARGS__) SKIN(name##_ptsz, name, true, __VA_ARGS__)
#define SKINS_ptds(name, driver, has, ...)                        \
    SKINS_one(name, driver, has | in_default_stream, __VA_ARGS__) \
        SKIN(name##_ptds, name, true, driver, has | in_default_stream, __VA_ARGS__)

#define RUNTIME(streams, has, name, ...) \
    SKINS_##streams(name, false, has, core::name __VA_OPT__(, ) __VA_ARGS__)
#define DRIVER(streams, has, name, ...) \
    SKINS_##streams(name, true, has, core::name __VA_OPT__(, ) __VA_ARGS__)
#define BOTH(streams, has, runtime, driver, ...)                                   \
    SKINS_##streams(runtime, false, has, core::runtime __VA_OPT__(, ) __VA_ARGS__) \
        SKINS_##streams(driver, true, has, core::runtime __VA_OPT__(, ) __VA_ARGS__)
// Functions that are not simulated do not use their arguments, so they have no parameters.
#define MISSING(streams, driver, name) SKINS_##streams(name, driver, no_context | no_init, refuse)
#define OLDER(name, newer) EXPORTED decltype(newer) name __attribute__((alias(#newer)));
#include "cudart/abi/functions.inc"

}  // namespace coalesce::cudart
