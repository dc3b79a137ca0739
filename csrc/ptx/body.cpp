// Parses the body of a function: statements, instructions, operands.
#include <algorithm>
#include <utility>

#include "ptx/constant.hpp"
#include "ptx/parser.hpp"

namespace coalesce::ptx {
namespace {

constexpr size_t deepest_scope = 200;
constexpr int deepest_operand = 8;

bool is_special_register(std::string_view name) {
    constexpr std::string_view names[] = {"%tid",
                                          "%ntid",
                                          "%laneid",
                                          "%warpid",
                                          "%nwarpid",
                                          "%ctaid",
                                          "%nctaid",
                                          "%smid",
                                          "%nsmid",
                                          "%gridid",
                                          "%is_explicit_cluster",
                                          "%clusterid",
                                          "%nclusterid",
                                          "%cluster_ctaid",
                                          "%cluster_nctaid",
                                          "%cluster_ctarank",
                                          "%cluster_nctarank",
                                          "%lanemask_eq",
                                          "%lanemask_le",
                                          "%lanemask_lt",
                                          "%lanemask_ge",
                                          "%lanemask_gt",
                                          "%clock",
                                          "%clock_hi",
                                          "%clock64",
                                          "%globaltimer",
                                          "%globaltimer_lo",
                                          "%globaltimer_hi",
                                          "%total_smem_size",
                                          "%aggr_smem_size",
                                          "%dynamic_smem_size",
                                          "%current_graph_exec"};
    return std::find(std::begin(names), std::end(names), name) != std::end(names) ||
           name.starts_with("%pm") || name.starts_with("%envreg") || name.starts_with("%reserved_");
}

// Returns the number of a vector register's component. Returns -1 if there is no such component.
int component(std::string_view word) {
    constexpr std::string_view names = "xyzwrgba";
    const size_t at = word.size() == 1 ? names.find(word[0]) : std::string_view::npos;
    return at == std::string_view::npos ? -1 : static_cast<int>(at % 4);
}

bool starts_operand(const Token& token) {
    constexpr std::string_view first = "{[(!-+~";
    return token.kind == Token::Kind::identifier || token.kind == Token::Kind::number ||
           (token.text.size() == 1 && first.find(token.text[0]) != std::string_view::npos);
}

std::string name_in_message(std::string_view name) {
    return "'" + std::string(name.substr(0, 200)) + "'";
}

}  // namespace

void Parser::body() {
    const Token open = tokens_.expect("{", "to open the body");
    source_ = written_ = {};
    call_sites_.clear();
    call_targets_.clear();
    symbols_.open();
    bind_parameters(function_->results);
    bind_parameters(function_->parameters);
    for (;;) {
        if (tokens_.at(Token::Kind::end)) tokens_.fail(open, "the function's '{' is not closed");
        if (!tokens_.accept("}")) {
            statement();
            continue;
        }
        const std::vector<Reference> open_references = symbols_.close();
        if (symbols_.depth() == 0) return report_unresolved(open_references);
    }
}

// Adds the parameters to the scope of the body. The scope stores string_views of their names. This
// is safe for two reasons. First, all parameters have been read, so their names stay where they are
// in memory. Second, the scope ends with the body of the function.
void Parser::bind_parameters(const std::vector<Parameter>& parameters) {
    for (const Parameter& parameter : parameters) {
        Binding binding{Binding::Kind::parameter, 0, 1};
        if (parameter.space == Space::reg) {
            binding = {Binding::Kind::reg, static_cast<uint32_t>(function_->registers.size()), 1};
            function_->registers.push_back({parameter.name, parameter.type});
        }
        if (parameter.name != "_") symbols_.bind(parameter.name, binding);
    }
}

void Parser::statement() {
    if (tokens_.accept(";")) return;
    if (tokens_.at("{")) {
        if (symbols_.depth() == deepest_scope) {
            tokens_.fail(tokens_.peek(), "scopes are nested too deeply");
        }
        tokens_.take();
        return symbols_.open();
    }
    if (tokens_.at(Token::Kind::dotted)) return body_directive();
    if (tokens_.at("@")) return instruction();
    if (!tokens_.at(Token::Kind::identifier)) {
        tokens_.fail_expected("an instruction, a label or a directive");
    }
    if (tokens_.second().is(":")) return label();
    instruction();
}

void Parser::label() {
    const Token name = tokens_.take();
    tokens_.take();
    if (tokens_.accept(".branchtargets")) return branch_targets(name);
    if (tokens_.accept(".callprototype")) return prototype(name.text);
    if (tokens_.accept(".calltargets")) {
        call_targets_.insert(name.text);
        do {
            unknown_names_.push_back(
                tokens_.expect(Token::Kind::identifier, "a function's name").text);
        } while (tokens_.accept(","));
        tokens_.expect(";", "after the call targets");
        return;
    }
    if (!symbols_.define_label(name.text, static_cast<uint32_t>(function_->body.size()))) {
        tokens_.fail(name, "the label " + name_in_message(name.text) + " is defined twice");
    }
}

void Parser::branch_targets(const Token& name) {
    std::vector<std::string_view> labels;
    do {
        labels.push_back(tokens_.expect(Token::Kind::identifier, "a label").text);
    } while (tokens_.accept(","));
    tokens_.expect(";", "after the branch targets");
    const auto [list, is_new] = function_->branch_targets.try_emplace(std::string(name.text));
    if (!is_new) {
        tokens_.fail(name,
                     "the branch targets " + name_in_message(name.text) + " are defined twice");
    }
    list->second.resize(labels.size());
    for (size_t i = 0; i < labels.size(); ++i) {
        symbols_.refer({labels[i], nullptr, &list->second[i], true});
    }
}

void Parser::body_directive() {
    if (tokens_.at(".reg")) return registers();
    if (tokens_.at(".loc")) return location();
    if (tokens_.accept(".local")) return body_variables(Space::local);
    if (tokens_.accept(".shared")) return body_variables(Space::shared);
    if (tokens_.accept(".param")) return body_variables(Space::param);
    if (tokens_.accept(".global")) return body_variables(Space::global);
    if (tokens_.accept(".const")) return body_variables(Space::constant);
    if (tokens_.accept(".pragma")) {
        do {
            tokens_.expect(Token::Kind::string, "a string after '.pragma'");
        } while (tokens_.accept(","));
        tokens_.expect(";", "after '.pragma'");
        return;
    }
    tokens_.fail_expected("an instruction, a label or a directive");
}

void Parser::body_variables(Space space) {
    const Declaration head = declaration(space);
    do {
        const Token name = tokens_.peek();
        Variable parsed = variable(head);
        const auto index = static_cast<uint32_t>(function_->variables.size());
        if (!symbols_.bind(name.text, {Binding::Kind::variable, index, 1})) {
            tokens_.fail(name, name_in_message(name.text) + " is declared twice");
        }
        function_->variables.push_back(std::move(parsed));
    } while (tokens_.accept(","));
    tokens_.expect(";", "after the variable");
}

void Parser::instruction() {
    Instruction result;
    const Token first = tokens_.peek();
    result.position = first.position;
    result.source = source_;
    result.written = written_;
    if (tokens_.accept("@")) {
        result.guard_negated = tokens_.accept("!");
        result.guard = guard_register();
    }
    result.opcode = tokens_.expect(Token::Kind::identifier, "an instruction").text;
    opcode_ = result.opcode;
    while (tokens_.at(Token::Kind::dotted)) result.modifiers.push_back(tokens_.take().word());
    const Token target = tokens_.peek();
    if (starts_operand(target)) result.operands = operand_list(";", 0);
    if (opcode_ == "bra" &&
        (result.operands.empty() || result.operands[0].kind != Operand::Kind::symbol)) {
        tokens_.fail(target, "expected a label after 'bra'");
    }
    result.text = {first.text.data(),
                   static_cast<size_t>(tokens_.end_of_last() - first.text.data())};
    tokens_.expect(";", "after the instruction");
    // From here on, the operands do not move in memory, even if `body` grows.
    function_->body.push_back(std::move(result));
    for (Operand& operand : function_->body.back().operands) refer(operand);
}

int32_t Parser::guard_register() {
    const Token token = tokens_.expect(Token::Kind::identifier, "a predicate register after '@'");
    const Binding binding = symbols_.find(token.text);
    if (binding.kind != Binding::Kind::reg || binding.width != 1) {
        tokens_.fail(token, "unknown register " + name_in_message(token.text));
    }
    if (function_->registers[binding.index].type != Type::pred) {
        tokens_.fail(token, name_in_message(token.text) + " is not a predicate register");
    }
    return static_cast<int32_t>(binding.index);
}

// Parses operands up to the token `close`. It does not consume this token.
std::vector<Operand> Parser::operand_list(std::string_view close, int depth) {
    std::vector<Operand> result;
    if (tokens_.at(close)) return result;
    do {
        result.push_back(operand(depth));
    } while (tokens_.accept(","));
    return result;
}

Operand Parser::operand(int depth) {
    if (depth > deepest_operand) tokens_.fail(tokens_.peek(), "operands are nested too deeply");
    if (!starts_operand(tokens_.peek())) tokens_.fail_expected("an operand");
    Operand result;
    if (tokens_.accept("{")) {
        result.kind = Operand::Kind::vector;
        result.elements = operand_list("}", depth + 1);
        tokens_.expect("}", "after the vector's elements");
        return pair(std::move(result));
    }
    if (tokens_.at("[")) return address(depth);
    if (tokens_.at("(") && opcode_ == "call") {
        tokens_.take();
        result.kind = Operand::Kind::list;
        result.elements = operand_list(")", depth + 1);
        tokens_.expect(")", "after the list");
        return result;
    }
    if (tokens_.at("!") && tokens_.second().kind == Token::Kind::identifier) {
        tokens_.take();
        const Token token = tokens_.peek();
        result = name_operand();
        if (result.kind != Operand::Kind::reg) tokens_.fail(token, "'!' needs a register");
        result.negated = true;
    } else if (tokens_.at(Token::Kind::identifier) && !tokens_.at("WARP_SZ")) {
        result = name_operand();
    } else {
        return constant();
    }
    const bool may_pair = result.kind == Operand::Kind::reg || result.kind == Operand::Kind::sink;
    return may_pair ? pair(std::move(result)) : result;
}

// Returns a pair if a second destination follows, as in `%r1|%p1`. Otherwise returns `first`.
Operand Parser::pair(Operand first) {
    if (!tokens_.accept("|")) return first;
    Operand both;
    both.kind = Operand::Kind::pair;
    both.elements.push_back(std::move(first));
    both.elements.push_back(name_operand());
    return both;
}

Operand Parser::constant() {
    const Constant value = constant_expression(tokens_);
    Operand result;
    result.kind = value.kind == Constant::Kind::f32   ? Operand::Kind::f32
                  : value.kind == Constant::Kind::f64 ? Operand::Kind::f64
                                                      : Operand::Kind::integer;
    result.bits = value.bits;
    return result;
}

Operand Parser::name_operand() {
    const Token token = tokens_.expect(Token::Kind::identifier, "a name");
    Operand result;
    if (token.is("_")) return result;
    result.name = token.text;
    result.kind = Operand::Kind::symbol;
    // The operand of bra is always a label, even if a register has the same name.
    if (opcode_ == "bra") return result;
    const Binding binding = symbols_.find(token.text);
    if (binding.kind == Binding::Kind::reg) return register_operand(token, binding);
    if (token.text.starts_with('%')) {
        if (!is_special_register(token.text)) {
            tokens_.fail(token, "unknown register " + name_in_message(token.text));
        }
        result.kind = Operand::Kind::special;
        if (tokens_.at(Token::Kind::dotted)) {
            const Token suffix = tokens_.take();
            if (component(suffix.word()) < 0) {
                tokens_.fail(suffix,
                             "a special register has no component " + name_in_message(suffix.text));
            }
            result.name = {token.text.data(),
                           static_cast<size_t>(tokens_.end_of_last() - token.text.data())};
        }
        return result;
    }
    if (binding.kind == Binding::Kind::variable)
        result.variable = static_cast<int32_t>(binding.index);
    if (tokens_.at("[")) {
        tokens_.fail(tokens_.peek(),
                     "an indexed variable, name[i], is not supported; "
                     "write name+offset in bytes");
    }
    offset(result);
    return result;
}

Operand Parser::register_operand(const Token& token, const Binding& binding) {
    const auto one = [](uint32_t index) {
        Operand result;
        result.kind = Operand::Kind::reg;
        result.reg = static_cast<int32_t>(index);
        return result;
    };
    if (tokens_.at(Token::Kind::dotted)) {
        const Token suffix = tokens_.take();
        const int at = component(suffix.word());
        if (at < 0 || binding.width == 1 || static_cast<uint32_t>(at) >= binding.width) {
            // vadd.u32.u32.u32 %r0, %r1.b0, %r2.h1 selects a byte and a half.
            const std::string_view word = suffix.word();
            const bool selects = word.size() > 1 && (word[0] == 'b' || word[0] == 'h') &&
                                 word.find_first_not_of("01234567", 1) == std::string_view::npos;
            tokens_.fail(suffix,
                         name_in_message(token.text) + " has no component " +
                             name_in_message(suffix.text) +
                             (selects ? "; selecting bytes or halves is not supported" : ""));
        }
        return one(binding.index + at);
    }
    if (binding.width == 1) return one(binding.index);
    Operand vector;
    vector.kind = Operand::Kind::vector;
    for (uint32_t i = 0; i < binding.width; ++i) vector.elements.push_back(one(binding.index + i));
    return vector;
}

void Parser::offset(Operand& operand) {
    uint64_t sum = 0;
    while (tokens_.at("+") || tokens_.at("-")) {
        const bool minus = tokens_.take().is("-");
        const uint64_t term = integer_term(tokens_);
        sum += minus ? 0 - term : term;
    }
    operand.offset = static_cast<int64_t>(sum);
}

// Parses an address: [%rd1], [%rd1+-12], [name+4], [123], or [map, {%r1, %r2}].
Operand Parser::address(int depth) {
    const Token open = tokens_.take();
    Operand result;
    if (tokens_.at(Token::Kind::identifier) && !tokens_.at("WARP_SZ")) {
        result = name_operand();
        if (result.kind == Operand::Kind::reg) {
            offset(result);
        } else if (result.kind != Operand::Kind::symbol) {
            tokens_.fail(open, "an address needs a register, a name or a number");
        }
    } else {
        const Operand number = constant();
        if (number.kind != Operand::Kind::integer) {
            tokens_.fail(open, "an address needs a register, a name or a number");
        }
        result.offset = static_cast<int64_t>(number.bits);
    }
    result.kind = Operand::Kind::address;
    if (tokens_.accept(",")) result.elements = operand_list("]", depth + 1);
    tokens_.expect("]", "after the address");
    return result;
}

// Stores a name that cannot be resolved yet. It may be a label or a name of the module.
void Parser::refer(Operand& operand) {
    for (Operand& element : operand.elements) refer(element);
    const bool named = operand.kind == Operand::Kind::symbol ||
                       (operand.kind == Operand::Kind::address && operand.reg < 0);
    if (!named || operand.name.empty() || operand.variable >= 0) return;
    const bool branch = opcode_ == "bra";
    if (!branch && symbols_.find(operand.name).kind == Binding::Kind::parameter) return;
    const bool may_be_label = operand.kind == Operand::Kind::symbol && opcode_ != "call";
    symbols_.refer({operand.name, may_be_label ? &operand : nullptr, nullptr, branch});
}

void Parser::report_unresolved(const std::vector<Reference>& references) {
    for (const Reference& reference : references) {
        if (reference.only_label) {
            throw error_at(tokens_.text(), position_of(tokens_.text(), reference.name),
                           "unknown label " + name_in_message(reference.name));
        }
        if (function_->branch_targets.contains(reference.name)) continue;
        if (function_->prototypes.contains(reference.name)) continue;
        if (call_targets_.contains(reference.name)) continue;
        unknown_names_.push_back(reference.name);
    }
}

}  // namespace coalesce::ptx
