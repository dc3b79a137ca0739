#include "cudart/report/snapshots.hpp"

#include <sys/stat.h>

#include <cstdio>
#include <string>

#include "cudart/report/json.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

bool wanted(uint64_t number) {
    const std::string& which = runtime().settings.launches;
    if (which == "all") return true;
    return std::to_string(number) == (which == "first" ? "1" : which);
}

void write(const std::string& file, const void* bytes, size_t size) {
    std::FILE* const out = std::fopen(file.c_str(), "wb");
    if (!out) return;
    if (size) std::fwrite(bytes, 1, size, out);
    std::fclose(out);
}

// Returns the name that the PTX uses for the variable at an address, or "" if there is none.
std::string variable_at(const ModuleRecord& module, uint64_t address) {
    for (const auto& [name, place] : module.memory->address_of)
        if (place == address) return name;
    return "";
}

std::string triple(const Dim& d) {
    return json::list(std::initializer_list<uint32_t>{d.x, d.y, d.z});
}

}  // namespace

void keep_snapshot(const KernelWork& w, uint64_t number) {
    Runtime& rt = runtime();
    if (rt.settings.keep.empty() || !wanted(number)) return;
    static int count = 0;
    const std::string folder = rt.settings.keep + "/" + std::to_string(++count);
    if (mkdir(folder.c_str(), 0700) != 0) return;
    const ModuleRecord& module = *w.function->module;
    const auto buffer = [&](const auto& item) {
        const Allocation& a = item.second;
        const std::string name = std::to_string(a.address);
        write(folder + "/" + name, a.host, a.bytes);
        return json::Object()
            .add("address", a.address)
            .add("bytes", a.bytes)
            .add("name", a.name)
            .add("variable", variable_at(module, a.address))
            .text();
    };
    const std::string buffers = json::list(rt.memory.all(), buffer);
    write(folder + "/module.ptx", module.code.ptx.data(), module.code.ptx.size());
    write(folder + "/module.cubin", module.code.cubin.data(), module.code.cubin.size());
    write(folder + "/parameters", w.parameters.data(), w.parameters.size());
    const std::string text = json::Object()
                                 .add("entry", w.function->entry)
                                 .add("name", w.function->name)
                                 .add("number", number)
                                 .raw("grid", triple(w.grid))
                                 .raw("block", triple(w.block))
                                 .add("shared_bytes", w.shared_bytes)
                                 .add("cooperative", uint32_t(w.cooperative))
                                 .add("arch", module.code.arch)
                                 .add("file", rt.report.kernel(*w.function).file)
                                 .raw("buffers", buffers)
                                 .text();
    write(folder + "/launch.json", text.data(), text.size());
    rt.report.snapshot(folder);
}

}  // namespace coalesce::cudart
