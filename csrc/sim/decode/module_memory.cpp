// Chooses the addresses of a module's variables, and the offsets of a kernel's parameters.
#include "sim/decode/module_memory.hpp"

#include <algorithm>
#include <cstring>

#include "errors.hpp"
#include "round_up.hpp"
#include "sim/program/program.hpp"
#include "sim/ptx_analysis/symbols.hpp"

namespace coalesce::sim {

namespace {

constexpr uint64_t max_variable_bytes = uint64_t{1} << 30;
// The limit on the parameters of a kernel, from compute capability 7.0 on (CUDA C++ Programming
// Guide, "Kernel parameters").
constexpr uint64_t max_parameter_bytes = 32764;

}  // namespace

std::shared_ptr<ModuleMemory> lay_out_memory(const ptx::Module& module) {
    return lay_out_memory_at(module, module_base);
}

std::shared_ptr<ModuleMemory> lay_out_memory_at(const ptx::Module& module, uint64_t base) {
    auto memory = std::make_shared<ModuleMemory>();
    uint64_t next = base, total = 0;
    std::vector<const ptx::Variable*> variables;
    const auto add = [&](const ptx::Variable& v) {
        if (v.space != ptx::Space::global && v.space != ptx::Space::constant) return;
        if (v.external) return;
        total += v.bytes();
        if (v.bytes() > max_variable_bytes || total > max_variable_bytes)
            throw LaunchError("the __device__ variables are too large: with `" + v.name +
                              "`, they take " + std::to_string(total >> 20) +
                              " MiB; the simulator supports at most " +
                              std::to_string(max_variable_bytes >> 20) + " MiB. Pass `" + v.name +
                              "` to the kernel as an array instead");
        const uint64_t address = round_up(next, std::max<uint64_t>(256, v.alignment));
        if (!memory->address_of.emplace(v.name, address).second)
            throw UnsupportedInstruction("two variables have the name " + v.name);
        memory->items.push_back(
            {v.name, address, std::vector<std::byte>(v.bytes()), v.space == ptx::Space::global});
        variables.push_back(&v);
        next = address + v.bytes() + 4096;
    };
    for (const ptx::Variable& v : module.variables) add(v);
    for (const ptx::Function& f : module.functions) {
        for (const ptx::Variable& v : f.variables) add(v);
    }
    // This loop comes after the first one because an initial value may contain the address of any
    // variable.
    for (size_t i = 0; i < variables.size(); ++i) {
        const size_t width = ptx::size_of(variables[i]->type);
        size_t at = 0;
        for (const ptx::Initializer& value : variables[i]->initial) {
            uint64_t bits = value.bits;
            if (!value.symbol.empty()) {
                const auto variable = memory->address_of.find(std::string(value.symbol));
                if (variable != memory->address_of.end()) {
                    bits += variable->second;
                } else {
                    const uint64_t function = function_address(module, value.symbol);
                    if (function == 0) {
                        throw UnsupportedInstruction("the initial value of " + variables[i]->name +
                                                     " refers to " + std::string(value.symbol) +
                                                     ", which is not defined in this module");
                    }
                    bits += function;
                }
            }
            auto& bytes = memory->items[i].bytes;
            if (at + width > bytes.size()) break;
            std::memcpy(&bytes[at], &bits, width);
            at += width;
        }
    }
    return memory;
}

void ModuleMemory::map_into(AddressSpace& memory) {
    for (Item& item : items) {
        Buffer buffer;
        buffer.name = item.name;
        buffer.address = item.address;
        buffer.bytes = item.bytes.size();
        buffer.host = item.bytes.data();
        buffer.writable = item.writable;
        memory.add_at(std::move(buffer));
    }
}

std::vector<ParameterInfo> lay_out_parameters(const ptx::Function& entry, uint32_t& total_bytes) {
    std::vector<ParameterInfo> parameters;
    uint64_t offset = 0;
    for (const ptx::Parameter& p : entry.parameters) {
        const uint32_t alignment = std::max({1u, p.alignment, ptx::size_of(p.type)});
        offset = round_up(first_parameter + offset, alignment) - first_parameter;
        parameters.push_back(
            {p.name, p.type, uint32_t(offset), uint32_t(p.bytes()), alignment, p.pointer});
        offset += p.bytes();
    }
    if (offset > max_parameter_bytes)
        throw LaunchError(entry.name + ": the parameters take " + std::to_string(offset) +
                          " bytes; the parameters of a kernel can take at most " +
                          std::to_string(max_parameter_bytes));
    total_bytes = uint32_t(offset);
    return parameters;
}

}  // namespace coalesce::sim
