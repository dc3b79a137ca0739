// The parser: its state and its grammar, with one method for each rule.
//
// METHOD
// The parser uses recursive descent without backtracking: the first token of a rule always
// determines the rule. For expressions, vector operands and initializers, the methods call
// themselves, up to a limit. For the nested scopes of a body, they count the open scopes and do not
// call themselves. Therefore no text can exhaust the stack. A short text could also request very
// many registers or array elements. Their numbers have limits, too.
//
//  parser.cpp        the module and its functions' headers
//  declarations.cpp  variables, parameters, registers, initializers
//  body.cpp          statements, instructions, operands
#pragma once

#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ptx/lexer.hpp"
#include "ptx/module.hpp"
#include "ptx/symbol_table.hpp"

namespace coalesce::ptx {

class Parser {
  public:
    explicit Parser(Module& module) : module_(module), tokens_(*module.text) {}
    void parse();

  private:
    // The words before a declared name: `.param .u64 .ptr .global .align 8`.
    struct Declaration {
        Space space = Space::global;
        Type type = Type::none;
        uint32_t alignment = 0;  // 0 means the alignment of the type
        uint32_t width = 1;      // the number of elements: 4 for .v4
        bool pointer = false;
        Space pointee = Space::generic;
    };

    // Defined in parser.cpp.
    void top_level();
    void version();
    void target();
    void file();
    void location();
    [[nodiscard]] SourceLine written(SourceLine line) const;
    void alias();
    void linked();  // Parses an optional linkage directive, and then a function or variables
    void module_variables(Space space, bool external);
    void function(bool entry);
    void function_directives(Function& function);
    void prototype(std::string_view name);
    void add_function(Function&& function, const Token& name, bool defined);
    void check_names() const;

    // Defined in declarations.cpp.
    Declaration declaration(Space space);
    Variable variable(const Declaration& declaration);
    void initializer(Variable& variable, const std::vector<uint64_t>& dimensions);
    void nested_initializer(Variable& variable, const std::vector<uint64_t>& dimensions,
                            size_t level);
    Initializer initial_value(Type type);
    std::vector<Parameter> parameters(std::string_view end_of);
    void registers();
    void add_registers(const Declaration& declaration, const Token& name, uint64_t count,
                       bool range);
    void skip_attribute();

    // Defined in body.cpp.
    void body();
    void bind_parameters(const std::vector<Parameter>& parameters);
    void statement();
    void label();
    void branch_targets(const Token& name);
    void body_directive();
    void body_variables(Space space);
    void instruction();
    std::vector<Operand> operand_list(std::string_view close, int depth);
    Operand operand(int depth);
    Operand pair(Operand first);
    Operand name_operand();
    Operand address(int depth);
    Operand constant();
    Operand register_operand(const Token& token, const Binding& binding);
    int32_t guard_register();
    void offset(Operand& operand);
    void refer(Operand& operand);
    void report_unresolved(const std::vector<Reference>& references);

    Module& module_;
    Tokens tokens_;
    // The index in Module::functions of each function.
    std::unordered_map<std::string_view, size_t> functions_;
    // The index in Module::variables of each variable.
    std::unordered_map<std::string_view, size_t> variables_;
    // These names are checked at the end of the module.
    std::vector<std::string_view> unknown_names_;
    uint64_t padding_ = 0;  // the number of zeros that all initializers together omitted

    // The state of the function whose body is being parsed.
    Function* function_ = nullptr;
    SymbolTable symbols_;
    SourceLine source_;
    SourceLine written_;  // see Instruction::written
    // The calls of inlined code. The key is the place of the inlined code: the (file, line, column)
    // of a .loc. The value is the place of the call: the inlined_at of this .loc.
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, SourceLine> call_sites_;
    std::string_view opcode_;
    std::unordered_set<std::string_view> call_targets_;  // the names of .calltargets lists
    uint64_t total_registers_ = 0;
};

}  // namespace coalesce::ptx
