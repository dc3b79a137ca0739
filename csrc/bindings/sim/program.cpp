// The module of a program: its kernels and variables, decoded once for each purpose.
#include <pybind11/stl.h>

#include <chrono>
#include <cstring>
#include <sstream>

#include "analysis/counts/dependence.hpp"
#include "bindings/gil.hpp"
#include "bindings/sim/program.hpp"
#include "errors.hpp"
#include "printable.hpp"
#include "sim/ptx_analysis/contraction.hpp"

namespace py = pybind11;

namespace coalesce::bindings {

using analysis::Counts;
using analysis::Purpose;

SimulatedModule::SimulatedModule(
    std::string ptx, const std::string& source, py::object listing,
    std::map<std::string, uint64_t, std::less<>> functions, std::string filename,
    const std::vector<std::pair<std::string, std::string>>& member_accesses)
    : module_(sim::contracted(ptx::parse(std::move(ptx)))),
      filename_(std::move(filename)),
      make_listing_(std::move(listing)) {
    module_.function_addresses = std::move(functions);
    std::istringstream lines(printable(source));
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with('\r')) line.pop_back();
        source_.push_back(line);
    }
    for (const auto& [array, verb] : member_accesses) member_accesses_.push_back({array, verb});
    memory_ = sim::lay_out_memory(module_);
}

std::vector<std::string> SimulatedModule::entries() const {
    std::vector<std::string> names;
    for (const ptx::Function& f : module_.functions) {
        if (f.entry) names.push_back(f.name);
    }
    return names;
}

py::list SimulatedModule::parameters(const std::string& entry) const {
    uint32_t total = 0;
    py::list list;
    for (const sim::ParameterInfo& p : sim::lay_out_parameters(find(entry), total)) {
        list.append(
            py::make_tuple(std::string(ptx::name_of(p.type)), p.bytes, p.alignment, p.pointer));
    }
    return list;
}

py::list SimulatedModule::variables() const {
    py::list list;
    for (const ptx::Variable& v : module_.variables) {
        if (v.external || !memory_->address_of.contains(v.name)) continue;
        const char* space = v.space == ptx::Space::constant ? "constant" : "global";
        list.append(py::make_tuple(v.name, space, std::string(ptx::name_of(v.type)), v.bytes(),
                                   v.alignment));
    }
    return list;
}

py::bytes SimulatedModule::read_variable(const std::string& name) {
    const std::span<std::byte> bytes = variable(name);
    std::string copy;
    {
        const ReleasedGil no_gil;
        const auto lock = lock_launches();
        copy.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return copy;
}

void SimulatedModule::write_variable(const std::string& name, const std::string& value) {
    const std::span<std::byte> bytes = variable(name);
    if (value.size() != bytes.size())
        throw LaunchError("variable `" + name + "` has " + std::to_string(bytes.size()) +
                          " bytes; got " + std::to_string(value.size()));
    const ReleasedGil no_gil;
    const auto lock = lock_launches();
    std::memcpy(bytes.data(), value.data(), value.size());
}

py::object SimulatedModule::no_counts(const std::string& entry, bool of_ptx) {
    py::object& kept = no_counts_[{entry, of_ptx}];
    if (kept) return kept;
    const sim::Program& program = decoded(entry, of_ptx ? Purpose::trace : Purpose::count);
    Counts counts;
    counts.instructions.resize(program.instructions.size());
    {
        const ReleasedGil no_gil;
        const auto lock = lock_launches();
        counts.code = counted_code(program);
    }
    return kept = py::cast(std::move(counts));
}

std::vector<uint32_t> SimulatedModule::exchanges(const std::string& entry) {
    return analysis::exchanges(decoded(entry, Purpose::trace));
}

std::set<ptx::Space> SimulatedModule::spaces_ordered_by_atomics(const std::string& entry) {
    return analysis::spaces_ordered_by_atomics(decoded(entry, Purpose::trace));
}

std::string SimulatedModule::why_ptx(const std::string& entry) {
    decoded(entry, Purpose::count);
    const auto reason = why_ptx_.find(entry);
    return reason == why_ptx_.end() ? "" : reason->second;
}

std::unique_lock<SimulatedModule::LaunchLock> SimulatedModule::lock_launches() {
    std::unique_lock lock(*running_, std::defer_lock);
    if ((*running_)->is_mine())
        throw LaunchError(
            "a kernel of this module is running in this thread, and a signal handler or the "
            "function `progress` uses the module. Wait until the launch has ended, or use another "
            "`Kernel` object");
    while (!lock.try_lock_for(std::chrono::milliseconds(50))) {
        const HeldGil gil;
        if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
    return lock;
}

std::span<std::byte> SimulatedModule::variable(const std::string& name) {
    for (sim::ModuleMemory::Item& item : memory_->items)
        if (item.name == name) return item.bytes;
    throw LaunchError("there is no variable `" + name + "`");
}

const ptx::Function& SimulatedModule::find(const std::string& entry) const {
    const ptx::Function* f = module_.find_function(entry);
    if (f && f->entry) return *f;
    std::string message = "there is no kernel `" + entry + "`; the module has";
    const char* separator = " ";
    for (const std::string& name : entries()) {
        message += separator + name;
        separator = ", ";
    }
    throw LaunchError(message);
}

const sim::Program& SimulatedModule::decoded(const std::string& entry, Purpose purpose) {
    const std::pair key{entry, purpose};
    const auto known = programs_.find(key);
    if (known != programs_.end()) return known->second;
    const sim::Engine& engine = sim::engine(analysis::watch_for(purpose));
    std::optional<sim::Program> lifted;
    if (purpose == Purpose::count) lifted = lift(entry, engine);
    sim::Program program =
        lifted ? std::move(*lifted) : sim::decode(module_, find(entry), memory_, engine);
    add_source_lines(program);
    return programs_.emplace(key, std::move(program)).first->second;
}

std::shared_ptr<KernelCode> SimulatedModule::code_for(const std::string& entry,
                                                      const analysis::LaunchRequest& request) {
    // A cooperative launch recognises waiting loops by the addresses that the interpreter reads.
    const sim::GridRun& launch = request.launch;
    if (!KernelCode::has_compiler() || analysis::purpose_of(request) != Purpose::run ||
        launch.instruction_limit || launch.cooperative)
        return nullptr;
    const sim::ThreadShape shape = sim::shape_of_block(launch.block);
    std::shared_ptr<KernelCode>& code = compiled_[{entry, shape.number()}];
    if (!code) code = std::make_shared<KernelCode>(decoded(entry, Purpose::run), shape);
    return code;
}

std::vector<std::string> SimulatedModule::compiled(const std::string& entry) const {
    std::vector<std::string> texts;
    for (const auto& [key, code] : compiled_)
        if (key.first == entry) texts.push_back(code->description());
    return texts;
}

void SimulatedModule::add_source_lines(sim::Program& program) const {
    program.source = source_;
    program.member_accesses = member_accesses_;
    const auto file = program.files.find(program.source_file);
    if (filename_.empty() || file == program.files.end() || file->second == filename_) return;
    // The kernel is in a header, so the lines of the source are not the kernel's lines.
    program.source_file = ~uint32_t(0);
    for (const auto& [number, name] : program.files)
        if (name == filename_) program.source_file = number;
}

std::optional<sim::Program> SimulatedModule::lift(const std::string& entry,
                                                  const sim::Engine& engine) {
    const ptx::Function& function = find(entry);
    try {
        if (!machine_ && !make_listing_.is_none()) {
            // make_listing_ is cleared only after the call. During the call, another thread may
            // call this function, or the process may fork, and then make_listing_ is still needed.
            const py::object made = py::object(make_listing_)();
            machine_ = sass::read(made.cast<std::string>());
            make_listing_ = py::none();
        }
        if (!machine_) throw UnsupportedInstruction(no_machine_);
        return sass::lift(*machine_, module_, function, memory_, engine);
    } catch (const UnsupportedInstruction& e) {
        why_ptx_[entry] = e.what();
    } catch (py::error_already_set& e) {
        if (!e.matches(PyExc_LookupError)) throw;
        no_machine_ = py::str(e.value()).cast<std::string>();
        why_ptx_[entry] = no_machine_;
    }
    return std::nullopt;
}

const std::shared_ptr<const analysis::CountedCode>& SimulatedModule::counted_code(
    const sim::Program& program) {
    auto& code = counted_codes_[&program];
    if (!code) code = analysis::counted_code(program);
    return code;
}

}  // namespace coalesce::bindings
