// Prints a module as text that tests can compare. The text shows what the parser understood.
#include <algorithm>
#include <cstdio>
#include <map>

#include "ptx/module.hpp"

namespace coalesce::ptx {
namespace {

std::string hexadecimal(const char* format, uint64_t bits) {
    char text[32];
    std::snprintf(text, sizeof text, format, static_cast<unsigned long long>(bits));
    return text;
}

std::string_view name_of(Space space) {
    constexpr std::string_view names[] = {"generic", "reg",    "param", "local",
                                          "shared",  "global", "const"};
    return names[static_cast<size_t>(space)];
}

std::string with_offset(int64_t offset) {
    return offset == 0 ? "" : (offset > 0 ? "+" : "") + std::to_string(offset);
}

std::string declared(const Variable& variable) {
    std::string text = "." + std::string(name_of(variable.space)) + " ." +
                       std::string(ptx::name_of(variable.type)) + " " + variable.name;
    if (variable.count != 1) text += "[" + std::to_string(variable.count) + "]";
    if (variable.alignment != std::max(1u, size_of(variable.type))) {
        text += " align " + std::to_string(variable.alignment);
    }
    if (variable.external) text += " extern";
    const char* separator = " = ";
    for (const Initializer& value : variable.initial) {
        text += separator;
        separator = ", ";
        if (value.symbol.empty()) {
            text += std::to_string(static_cast<int64_t>(value.bits));
            continue;
        }
        const std::string symbol(value.symbol);
        text += value.generic ? "generic(" + symbol + ")" : symbol;
        text += with_offset(static_cast<int64_t>(value.bits));
    }
    return text;
}

std::string declared(const Parameter& parameter) {
    std::string text = declared(static_cast<const Variable&>(parameter));
    if (parameter.pointer) text += " ptr " + std::string(name_of(parameter.pointee));
    return text;
}

std::string list_of(const std::vector<Parameter>& parameters) {
    std::string text = "(";
    for (const Parameter& parameter : parameters) {
        if (text.size() > 1) text += ", ";
        text += declared(parameter);
    }
    return text + ")";
}

class FunctionDump {
  public:
    explicit FunctionDump(const Function& function) : function_(function) {
        for (const Register& r : function.registers) ++uses_[r.name];
        for (const Variable& v : function.variables) ++uses_[v.name];
    }

    std::string text() const {
        const Function& f = function_;
        std::string result = f.external ? "declare " : "";
        result += f.entry ? "entry " : "func ";
        if (!f.results.empty()) result += list_of(f.results) + " ";
        result += f.name + list_of(f.parameters);
        for (const auto& [name, numbers] : f.directives) {
            result += " " + name;
            for (uint32_t number : numbers) result += " " + std::to_string(number);
        }
        result += "\n" + registers();
        for (size_t i = 0; i < f.variables.size(); ++i) {
            std::string line = declared(f.variables[i]);
            result += "  " + line + tag(f.variables[i].name, i) + "\n";
        }
        for (const auto& [name, targets] : f.branch_targets) {
            result += "  targets " + name;
            for (uint32_t target : targets) result += " ->" + std::to_string(target);
            result += "\n";
        }
        for (const auto& [name, value] : f.prototypes) {
            result += "  prototype " + name;
            if (value.type != Type::none) result += " " + declared(value);
            result += "\n";
        }
        for (size_t i = 0; i < f.body.size(); ++i) {
            result += "  " + std::to_string(i) + ": " + to_text(f.body[i]) + "\n";
        }
        return result;
    }

  private:
    // Registers or variables of different scopes may have the same name. Then each of them gets a
    // number after its name. Returns this number as text, or an empty string.
    std::string tag(const std::string& name, size_t index) const {
        return uses_.at(name) > 1 ? "#" + std::to_string(index) : "";
    }
    std::string register_name(int32_t index) const {
        const std::string& name = function_.registers[index].name;
        return name + tag(name, index);
    }

    std::string registers() const {
        std::string result;
        const std::vector<Register>& all = function_.registers;
        for (size_t i = 0; i < all.size(); ++i) {
            if (i == 0 || all[i].type != all[i - 1].type) {
                if (i > 0) result += "\n";
                result += "  .reg ." + std::string(ptx::name_of(all[i].type));
            }
            result += " " + register_name(static_cast<int32_t>(i));
        }
        return result.empty() ? result : result + "\n";
    }

    std::string join(const std::vector<Operand>& operands, const char* separator) const {
        std::string text;
        for (const Operand& operand : operands) {
            if (&operand != operands.data()) text += separator;
            text += to_text(operand);
        }
        return text;
    }

    std::string to_text(const Operand& operand) const {
        std::string name(operand.name);
        if (operand.variable >= 0) name += tag(name, operand.variable);
        switch (operand.kind) {
            case Operand::Kind::reg:
                return (operand.negated ? "!" : "") + register_name(operand.reg);
            case Operand::Kind::integer:
                return std::to_string(static_cast<int64_t>(operand.bits));
            case Operand::Kind::f32:
                return hexadecimal("0f%08llX", operand.bits);
            case Operand::Kind::f64:
                return hexadecimal("0d%016llX", operand.bits);
            case Operand::Kind::symbol:
                return name + with_offset(operand.offset);
            case Operand::Kind::special:
                return name;
            case Operand::Kind::label:
                return "->" + std::to_string(operand.target);
            case Operand::Kind::vector:
                return "{" + join(operand.elements, ", ") + "}";
            case Operand::Kind::pair:
                return join(operand.elements, "|");
            case Operand::Kind::list:
                return "(" + join(operand.elements, ", ") + ")";
            case Operand::Kind::sink:
                return "_";
            case Operand::Kind::address:
                break;
        }
        if (operand.reg >= 0) name = register_name(operand.reg);
        std::string text = "[";
        text += name.empty() ? std::to_string(operand.offset) : name + with_offset(operand.offset);
        if (!operand.elements.empty()) text += ", " + join(operand.elements, ", ");
        return text + "]";
    }

    std::string to_text(const Instruction& instruction) const {
        std::string text;
        if (instruction.guard >= 0) {
            text += instruction.guard_negated ? "@!" : "@";
            text += register_name(instruction.guard) + " ";
        }
        text += instruction.opcode;
        for (std::string_view modifier : instruction.modifiers) text.append(".").append(modifier);
        if (!instruction.operands.empty()) text += " " + join(instruction.operands, ", ");
        const SourceLine& source = instruction.source;
        if (source.line > 0) {
            text += "  // " + std::to_string(source.file) + ":" + std::to_string(source.line);
        }
        return text;
    }

    const Function& function_;
    std::map<std::string, int> uses_;
};

}  // namespace

std::string dump(const Module& module) {
    std::string text = "version " + std::to_string(module.version_major) + "." +
                       std::to_string(module.version_minor);
    if (!module.target.empty()) text += " target " + module.target;
    text += " address_size " + std::to_string(module.address_size) + "\n";
    for (const auto& [key, name] : module.files) {
        text += "file " + std::to_string(key) + " " + name + "\n";
    }
    for (const Variable& variable : module.variables) text += declared(variable) + "\n";
    for (const auto& [alias, function] : module.aliases) {
        text += "alias " + alias + " " + function + "\n";
    }
    for (const Function& function : module.functions) text += FunctionDump(function).text();
    return text;
}

}  // namespace coalesce::ptx
