#include "cudart/binary/jit.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

std::string content_of(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& file, const std::string& content) {
    std::ofstream(file, std::ios::binary) << content;
}

// Returns the environment without the folder of this package's libraries, because Python must not
// load them.
std::vector<std::string> environment_of_helper(const std::string& folder) {
    constexpr std::string_view path = "LD_LIBRARY_PATH=";
    std::vector<std::string> variables;
    for (char** variable = environ; *variable; ++variable) {
        std::string text = *variable;
        const std::string first = std::string(path) + folder;
        if (text == first) continue;
        if (text.starts_with(first + ":")) text.erase(path.size(), folder.size() + 1);
        variables.push_back(text);
    }
    return variables;
}

uint32_t gpu_arch() {
    const model::Gpu& gpu = runtime().gpu;
    return gpu.major * 10 + gpu.minor;
}

bool run(std::vector<std::string> words) {
    std::vector<std::string> variables = environment_of_helper(runtime().settings.code);
    std::vector<char*> arguments, environment;
    for (std::string& word : words) arguments.push_back(word.data());
    for (std::string& variable : variables) environment.push_back(variable.data());
    arguments.push_back(nullptr);
    environment.push_back(nullptr);
    pid_t child = 0;
    if (posix_spawn(&child, arguments[0], nullptr, nullptr, arguments.data(), environment.data()) !=
        0)
        return false;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status == 0;
}

}  // namespace

void complete(Code& code, const std::vector<std::string>& options, std::string& log) {
    const Settings& settings = runtime().settings;
    if (settings.helper.empty() || settings.code.empty() || code.ptx.empty()) return;
    for (const std::string& option : options) code.key += option;
    const std::string base = settings.code + "/" + code.key;
    struct stat status{};
    if (stat((base + ".code").c_str(), &status) != 0) {
        write(base + ".ptx", code.ptx);
        write(base + ".cubin", code.cubin);
        std::vector<std::string> words{settings.helper, settings.code + "/helper.py", base,
                                       std::to_string(gpu_arch())};
        words.insert(words.end(), options.begin(), options.end());
        if (!run(words))
            write(base + ".code", "reason Python could not read the code that was loaded\n\n");
    }
    log = content_of(base + ".log");
    const std::string wrong = content_of(base + ".error");
    if (!wrong.empty()) throw BadImage(cudaErrorInvalidPtx, "ptxas refuses the PTX: " + wrong);
    if (!code.cubin.empty()) return;
    code.cubin = content_of(base + ".cubin");
    code.arch = gpu_arch();
}

}  // namespace coalesce::cudart
