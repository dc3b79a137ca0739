#include "cudart/report/report.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

#include "cudart/report/json.hpp"
#include "cudart/state/modules.hpp"
#include "cudart/state/runtime.hpp"

namespace coalesce::cudart {

namespace {

// Returns an Actor as JSON. The fields must match those of csrc/bindings/check.cpp, because the
// Python packages expect them.
std::string actor(const analysis::Actor& a, const sim::Program& program) {
    if (a.what.empty()) return "null";
    const sim::InstructionInfo& in = program.instructions[a.pc];
    const auto file = program.files.find(in.source.file);
    const bool own = in.source.file == program.source_file;
    const bool known = own && in.source.line > 0 && in.source.line <= program.source.size();
    return json::Object()
        .add("what", a.what)
        .add("file", file == program.files.end() ? "" : file->second)
        .add("line", in.source.line)
        .add("text", known ? program.source[in.source.line - 1] : "")
        .add("instruction", in.text)
        .raw("thread", json::list(a.thread))
        .raw("block", json::list(a.block))
        .text();
}

std::string finding(const analysis::Finding& f, const sim::Program& program) {
    return json::Object()
        .add("kind", analysis::name_of(f.kind))
        .add("severity", analysis::name_of(f.severity))
        .raw("skipped", f.skipped ? "true" : "false")
        .add("title", f.title)
        .raw("details", json::list(f.details))
        .add("space", f.space)
        .add("array", f.array)
        .raw("index", json::list(f.index))
        .add("offset", f.offset)
        .add("bytes", f.bytes)
        .raw("first", actor(f.first, program))
        .raw("second", actor(f.second, program))
        .add("count", f.count)
        .text();
}

// Returns a text that identifies a kernel. Its name is not enough, because different modules may
// have kernels of the same name. The same code may also be loaded several times.
std::string key_of(const Function& function) {
    return function.module->code.key + " " + function.entry;
}

std::string total(const KernelTotal& k) {
    return json::Object()
        .add("entry", k.entry)
        .add("name", k.name)
        .add("file", k.file)
        .add("line", k.line)
        .add("launches", k.launches)
        .add("blocks", k.blocks)
        .add("launches_counted", k.counted)
        .add("blocks_counted", k.blocks_counted)
        .add("machine_code", k.machine_code)
        .add("why_ptx", k.why_ptx)
        .add("load_requests", k.load_requests)
        .add("load_sectors", k.load_sectors)
        .add("store_requests", k.store_requests)
        .add("store_sectors", k.store_sectors)
        .add("instructions", k.instructions)
        .raw("modelled_ms", k.no_time.empty() ? json::of(k.ms) : "null")
        .add("no_time", k.no_time)
        .text();
}

}  // namespace

std::pair<std::string, uint64_t> object_of(const void* address) {
    Dl_info info{};
    if (!address || !dladdr(address, &info) || !info.dli_fname) return {"", 0};
    // For the main program, dladdr() returns the name by which the program was called.
    std::string file = info.dli_fname;
    char own[4096];
    if (file == program_invocation_name) {
        const ssize_t bytes = readlink("/proc/self/exe", own, sizeof own);
        if (bytes > 0) file.assign(own, size_t(bytes));
    }
    return {file, reinterpret_cast<uint64_t>(address) - reinterpret_cast<uint64_t>(info.dli_fbase)};
}

std::vector<std::string> Report::untimed() const {
    std::vector<std::string> names;
    for (const std::string& key : order_)
        if (!kernels_.at(key).no_time.empty()) names.push_back(kernels_.at(key).name);
    return names;
}

KernelTotal& Report::kernel(const Function& function) {
    const std::string key = key_of(function);
    const auto [known, added] = kernels_.try_emplace(key);
    KernelTotal& k = known->second;
    if (added) {
        order_.push_back(key);
        k.entry = function.entry;
        k.name = function.name;
        const ptx::Module& module = function.module->parsed;
        if (const ptx::Function* const f = module.find_function(function.entry)) {
            // The PTX does not contain the source line at which the kernel begins. So take the line
            // of its first instruction.
            for (const ptx::Instruction& in : f->body) {
                if (in.written.line == 0) continue;
                k.line = in.written.line;
                const auto file = module.files.find(in.written.file);
                if (file != module.files.end()) k.file = file->second;
                break;
            }
        }
    }
    return k;
}

void Report::add(const Function& function, const analysis::Checked& checked,
                 const sim::Program& program) {
    if (checked.findings.empty() && !checked.left_out) return;
    const std::string list =
        json::list(checked.findings, [&](const auto& f) { return finding(f, program); });
    findings_.push_back(json::Object()
                            .add("kernel", function.name)
                            .add("launch", kernel(function).launches)
                            .raw("findings", list)
                            .add("left_out", checked.left_out)
                            .text());
}

void Report::add_race(const Function& function, const analysis::Finding& race,
                      const sim::Program& program) {
    races_.push_back(
        json::Object().add("kernel", function.name).raw("finding", finding(race, program)).text());
}

void Report::add_mistake(const std::string& kind, const std::string& text, void* address) {
    const auto [object, offset] = object_of(address);
    for (HostFinding& known : mistakes_)
        if (known.kind == kind && known.caller == offset && known.object == object) {
            ++known.count;
            return;
        }
    mistakes_.push_back({kind, text, offset, object, 1});
}

void Report::add_outside_reads(const Function& function, const std::string& first, uint64_t count) {
    for (OutsideRead& known : outside_reads_)
        if (known.key == key_of(function)) {
            known.count += count;
            return;
        }
    outside_reads_.push_back({key_of(function), function.name, first, count});
}

void Report::write(const std::string& file) const {
    const auto outside = [](const OutsideRead& r) {
        return json::Object()
            .add("kernel", r.kernel)
            .add("text", r.text)
            .add("count", r.count)
            .text();
    };
    const auto mistake = [](const HostFinding& m) {
        return json::Object()
            .add("kind", m.kind)
            .add("text", m.text)
            .add("object", m.object)
            .add("offset", m.caller)
            .add("count", m.count)
            .text();
    };
    const std::string text =
        json::Object()
            .add("gpu", runtime().gpu.name)
            .raw("kernels",
                 json::list(order_, [&](const auto& e) { return total(kernels_.at(e)); }))
            .raw("checked", json::list(findings_, [](const auto& f) { return f; }))
            .raw("races", json::list(races_, [](const auto& f) { return f; }))
            .raw("host", json::list(mistakes_, mistake))
            .raw("outside_reads", json::list(outside_reads_, outside))
            .raw("missing", json::list(missing_))
            .raw("snapshots", json::list(snapshots_))
            .add("copies_ms", copies_ms)
            .add("failure", failure)
            .add("unusable", unusable)
            .text();
    const std::string made = file + ".part";
    std::FILE* const out = std::fopen(made.c_str(), "w");
    if (!out) return;
    const bool whole = std::fwrite(text.data(), 1, text.size(), out) == text.size();
    if (std::fclose(out) == 0 && whole) std::rename(made.c_str(), file.c_str());
}

}  // namespace coalesce::cudart
