#include "cuda/nvrtc.hpp"

#include "cuda/library.hpp"
#include "errors.hpp"
#include "printable.hpp"

namespace coalesce::cuda {

struct ProgramRecord;
using Program = ProgramRecord*;

struct NvrtcFunctions {
    explicit NvrtcFunctions(const std::string& path) : library(path) {}

    Library library;
    int (*version)(int*, int*) = nullptr;
    int (*architecture_count)(int*) = nullptr;
    int (*architectures)(int*) = nullptr;
    const char* (*error_string)(int) = nullptr;
    int (*create)(Program*, const char*, const char*, int, const char* const*,
                  const char* const*) = nullptr;
    int (*destroy)(Program*) = nullptr;
    int (*compile)(Program, int, const char* const*) = nullptr;
    int (*log_size)(Program, size_t*) = nullptr;
    int (*log)(Program, char*) = nullptr;
    int (*ptx_size)(Program, size_t*) = nullptr;
    int (*ptx)(Program, char*) = nullptr;
    int (*cubin_size)(Program, size_t*) = nullptr;
    int (*cubin)(Program, char*) = nullptr;
    int (*add_expression)(Program, const char*) = nullptr;
    int (*lowered_name)(Program, const char*, const char**) = nullptr;

    void check(int result, const char* what) const {
        if (result != 0)
            throw CompileError(std::string("NVRTC: ") + what + ": " + error_string(result));
    }

    // Fetches a text or a binary. NVRTC first returns its size, and then copies the data.
    std::string fetch(Program program, int (*size_of)(Program, size_t*),
                      int (*copy)(Program, char*), const char* what) const {
        size_t size = 0;
        check(size_of(program, &size), what);
        std::string bytes(size, '\0');
        if (size > 0) check(copy(program, bytes.data()), what);
        return bytes;
    }
};

namespace {

void drop_terminator(std::string& text) {
    while (!text.empty() && text.back() == '\0') text.pop_back();
}

struct ProgramOwner {
    const NvrtcFunctions& nvrtc;
    Program program = nullptr;
    ~ProgramOwner() {
        if (program != nullptr) nvrtc.destroy(&program);
    }
};

}  // namespace

Nvrtc::Nvrtc(const std::string& path) : functions_(std::make_unique<NvrtcFunctions>(path)) {
    NvrtcFunctions& f = *functions_;
    if (!f.library.ok())
        throw CompileError("cannot open the CUDA compiler NVRTC: " + f.library.error());
    const bool complete = f.library.find("nvrtcVersion", f.version) &&
                          f.library.find("nvrtcGetNumSupportedArchs", f.architecture_count) &&
                          f.library.find("nvrtcGetSupportedArchs", f.architectures) &&
                          f.library.find("nvrtcGetErrorString", f.error_string) &&
                          f.library.find("nvrtcCreateProgram", f.create) &&
                          f.library.find("nvrtcDestroyProgram", f.destroy) &&
                          f.library.find("nvrtcCompileProgram", f.compile) &&
                          f.library.find("nvrtcGetProgramLogSize", f.log_size) &&
                          f.library.find("nvrtcGetProgramLog", f.log) &&
                          f.library.find("nvrtcGetPTXSize", f.ptx_size) &&
                          f.library.find("nvrtcGetPTX", f.ptx) &&
                          f.library.find("nvrtcGetCUBINSize", f.cubin_size) &&
                          f.library.find("nvrtcGetCUBIN", f.cubin) &&
                          f.library.find("nvrtcAddNameExpression", f.add_expression) &&
                          f.library.find("nvrtcGetLoweredName", f.lowered_name);
    if (!complete)
        throw CompileError(path +
                           " does not have all functions of NVRTC; coalesce needs NVRTC of CUDA "
                           "11.3 or newer");
    f.check(f.version(&version_.first, &version_.second), "nvrtcVersion");
}

Nvrtc::~Nvrtc() = default;

std::vector<int> Nvrtc::architectures() const {
    int count = 0;
    functions_->check(functions_->architecture_count(&count), "nvrtcGetNumSupportedArchs");
    std::vector<int> result(static_cast<size_t>(count));
    functions_->check(functions_->architectures(result.data()), "nvrtcGetSupportedArchs");
    return result;
}

Compilation Nvrtc::compile(const std::string& source, const std::string& name,
                           const std::vector<std::string>& options,
                           const std::vector<std::pair<std::string, std::string>>& headers,
                           const std::vector<std::string>& expressions) const {
    const NvrtcFunctions& f = *functions_;
    std::vector<const char*> header_names, header_texts, option_texts;
    for (const auto& [header, text] : headers) {
        header_names.push_back(header.c_str());
        header_texts.push_back(text.c_str());
    }
    for (const std::string& option : options) option_texts.push_back(option.c_str());

    ProgramOwner owner{f};
    f.check(f.create(&owner.program, source.c_str(), name.c_str(), static_cast<int>(headers.size()),
                     header_texts.data(), header_names.data()),
            "nvrtcCreateProgram");
    for (const std::string& expression : expressions)
        f.check(f.add_expression(owner.program, expression.c_str()), expression.c_str());
    const int result =
        f.compile(owner.program, static_cast<int>(option_texts.size()), option_texts.data());

    Compilation compilation;
    compilation.log = f.fetch(owner.program, f.log_size, f.log, "nvrtcGetProgramLog");
    drop_terminator(compilation.log);
    compilation.log = printable(compilation.log);
    if (result != 0)
        throw CompileError(compilation.log.empty() ? f.error_string(result) : compilation.log);
    compilation.ptx = f.fetch(owner.program, f.ptx_size, f.ptx, "nvrtcGetPTX");
    drop_terminator(compilation.ptx);
    compilation.cubin = f.fetch(owner.program, f.cubin_size, f.cubin, "nvrtcGetCUBIN");
    for (const std::string& expression : expressions) {
        const char* lowered = nullptr;
        f.check(f.lowered_name(owner.program, expression.c_str(), &lowered), expression.c_str());
        compilation.lowered.emplace_back(lowered);
    }
    return compilation;
}

}  // namespace coalesce::cuda
