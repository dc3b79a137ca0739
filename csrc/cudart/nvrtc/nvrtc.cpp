// NVRTC for programs that compile kernels at run time: a library that passes all calls on to
// NVIDIA's libnvrtc, with two differences.
//
// nvrtcGetCUBIN() returns a fat binary with PTX beside the machine code, because the simulator
// needs the PTX. Line information is always compiled in, for messages and profiles. It does not
// change the machine code.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cudart/binary/fatbin.hpp"

namespace coalesce::cudart {

namespace {

using Program = void*;
constexpr int internal_error = 11;  // NVRTC_ERROR_INTERNAL_ERROR

// Returns the function of NVIDIA's library, or null.
void* nvidia_function(const char* name) {
    static void* const library = [] {
        const char* const path = std::getenv("COALESCE_PROGRAM_NVRTC");
        void* const opened = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
        if (!opened)
            std::fprintf(stderr, "coalesce: the program uses NVRTC, which is not installed%s%s\n",
                         path ? ": " : "", path ? dlerror() : "");
        return opened;
    }();
    return library ? dlsym(library, name) : nullptr;
}

template <class... P>
int call(const char* name, P... arguments) {
    using Function = int (*)(P...);
    const auto function = reinterpret_cast<Function>(nvidia_function(name));
    return function ? function(arguments...) : internal_error;
}

struct State {
    std::mutex mutex;
    std::map<Program, std::string> containers;  // what nvrtcGetCUBIN() returns
};
State& state() {
    static auto* const one = new State;
    return *one;
}

// Returns the PTX and the machine code of a program as a fat binary, or the error of NVRTC.
int container(Program program, std::string*& result) {
    const auto fetch = [&](const char* size_of, const char* get, std::string& to) {
        size_t bytes = 0;
        if (const int error = call(size_of, program, &bytes)) return error;
        to.resize(bytes);
        return bytes ? call(get, program, to.data()) : 0;
    };
    const std::lock_guard guard(state().mutex);
    std::string& known = state().containers[program];
    result = &known;
    if (!known.empty()) return 0;
    std::string ptx, cubin;
    if (const int error = fetch("nvrtcGetCUBINSize", "nvrtcGetCUBIN", cubin)) return error;
    if (cubin.empty()) return 0;  // compiled for a virtual architecture
    if (const int error = fetch("nvrtcGetPTXSize", "nvrtcGetPTX", ptx)) return error;
    ptx.resize(std::strlen(ptx.c_str()));
    known = container_of(ptx, cubin, arch_of(ptx));
    return 0;
}

void forget(Program program) {
    const std::lock_guard guard(state().mutex);
    state().containers.erase(program);
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nvrtcCompileProgram(Program program, int count, const char* const* options) {
    forget(program);
    std::vector<const char*> own(options, options + (options ? count : 0));
    bool lines = false;
    for (const std::string_view option : own)
        lines = lines || option == "-G" || option == "--device-debug" || option == "-lineinfo" ||
                option == "--generate-line-info";
    if (!lines) own.push_back("-lineinfo");
    return call("nvrtcCompileProgram", program, int(own.size()), own.data());
}
EXPORT int nvrtcGetCUBINSize(Program program, size_t* bytes) {
    std::string* made = nullptr;
    const int error = container(program, made);
    if (error || !bytes) return call("nvrtcGetCUBINSize", program, bytes);
    *bytes = made->size();
    return 0;
}
EXPORT int nvrtcGetCUBIN(Program program, char* cubin) {
    std::string* made = nullptr;
    const int error = container(program, made);
    if (error || !cubin || made->empty()) return call("nvrtcGetCUBIN", program, cubin);
    std::memcpy(cubin, made->data(), made->size());
    return 0;
}
EXPORT int nvrtcDestroyProgram(Program* program) {
    if (program) forget(*program);
    return call("nvrtcDestroyProgram", program);
}
EXPORT const char* nvrtcGetErrorString(int error) {
    using Function = const char* (*)(int);
    const auto function = reinterpret_cast<Function>(nvidia_function("nvrtcGetErrorString"));
    return function ? function(error) : "NVRTC is not installed";
}
EXPORT int nvrtcCreateProgram(Program* program, const char* source, const char* name, int count,
                              const char* const* headers, const char* const* names) {
    return call("nvrtcCreateProgram", program, source, name, count, headers, names);
}
EXPORT int nvrtcGetLoweredName(Program program, const char* expression, const char** name) {
    return call("nvrtcGetLoweredName", program, expression, name);
}
EXPORT int nvrtcInstallBundledHeaders(const char* folder, unsigned flags, const char** log) {
    return call("nvrtcInstallBundledHeaders", folder, flags, log);
}
EXPORT int nvrtcSetPCHHeapSize(size_t bytes) { return call("nvrtcSetPCHHeapSize", bytes); }
EXPORT int nvrtcSetFlowCallback(Program program, void* callback, void* data) {
    return call("nvrtcSetFlowCallback", program, callback, data);
}

#define PASS_ON_1(name) \
    EXPORT int name(void* a) { return call(#name, a); }
#define PASS_ON_2(name) \
    EXPORT int name(void* a, void* b) { return call(#name, a, b); }
PASS_ON_1(nvrtcGetNumSupportedArchs)
PASS_ON_1(nvrtcGetSupportedArchs)
PASS_ON_1(nvrtcGetPCHHeapSize)
PASS_ON_1(nvrtcGetPCHCreateStatus)
PASS_ON_2(nvrtcVersion)
PASS_ON_2(nvrtcGetPTXSize)
PASS_ON_2(nvrtcGetPTX)
PASS_ON_2(nvrtcGetLTOIRSize)
PASS_ON_2(nvrtcGetLTOIR)
PASS_ON_2(nvrtcGetOptiXIRSize)
PASS_ON_2(nvrtcGetOptiXIR)
PASS_ON_2(nvrtcGetTileIRSize)
PASS_ON_2(nvrtcGetTileIR)
PASS_ON_2(nvrtcGetProgramLogSize)
PASS_ON_2(nvrtcGetProgramLog)
PASS_ON_2(nvrtcAddNameExpression)
PASS_ON_2(nvrtcGetPCHHeapSizeRequired)
PASS_ON_2(nvrtcGetBundledHeadersInfo)
PASS_ON_2(nvrtcRemoveBundledHeaders)

}  // namespace coalesce::cudart
