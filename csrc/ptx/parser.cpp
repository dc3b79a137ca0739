#include "ptx/parser.hpp"

#include <utility>

#include "printable.hpp"
#include "ptx/constant.hpp"

namespace coalesce::ptx {
namespace {

std::string unquoted(std::string_view text) {
    std::string result;
    text = text.substr(1, text.size() - 2);
    for (size_t i = 0; i < text.size(); ++i) {
        const bool escaped =
            text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == '\\' || text[i + 1] == '"');
        result += text[escaped ? ++i : i];
    }
    return result;
}

std::tuple<uint32_t, uint32_t, uint32_t> place(SourceLine line) {
    return {line.file, line.line, line.column};
}

}  // namespace

void Parser::parse() {
    if (!tokens_.at(".version")) {
        tokens_.fail_expected("'.version', with which every PTX text begins");
    }
    while (!tokens_.at(Token::Kind::end)) top_level();
    check_names();
}

void Parser::top_level() {
    if (tokens_.at(".version")) return version();
    if (tokens_.at(".target")) return target();
    if (tokens_.at(".file")) return file();
    if (tokens_.at(".alias")) return alias();
    if (tokens_.at(".loc")) return location();
    if (tokens_.accept(".address_size")) {
        const Token token = tokens_.peek();
        module_.address_size = integer_constant(tokens_, "the address size", 64);
        if (module_.address_size != 32 && module_.address_size != 64) {
            tokens_.fail(token, "the address size is neither 32 nor 64");
        }
    } else if (tokens_.accept(".section")) {
        if (!tokens_.at("{")) tokens_.take();
        if (!tokens_.at("{")) tokens_.fail_expected("'{' after the section's name");
        tokens_.skip_braces();
    } else if (tokens_.accept(".pragma")) {
        do {
            tokens_.expect(Token::Kind::string, "a string after '.pragma'");
        } while (tokens_.accept(","));
        tokens_.expect(";", "after '.pragma'");
    } else if (!tokens_.accept(";")) {
        linked();
    }
}

void Parser::version() {
    tokens_.take();
    const Token token = tokens_.expect(Token::Kind::number, "a version such as 8.0");
    const size_t dot = token.text.find('.');
    const auto part = [&](std::string_view digits) -> uint32_t {
        uint32_t value = 0;
        for (char c : digits) {
            if (c < '0' || c > '9' || value > 1000) tokens_.fail(token, "malformed version");
            value = value * 10 + (c - '0');
        }
        return value;
    };
    if (dot == std::string_view::npos) tokens_.fail(token, "malformed version");
    module_.version_major = part(token.text.substr(0, dot));
    module_.version_minor = part(token.text.substr(dot + 1));
}

void Parser::target() {
    tokens_.take();
    do {
        const Token token = tokens_.expect(Token::Kind::identifier, "a target such as sm_90");
        if (module_.target.empty())
            module_.target = token.text;
        else if (token.text == "debug")
            module_.target += ", debug";
    } while (tokens_.accept(","));
}

void Parser::file() {
    tokens_.take();
    const uint32_t key = integer_constant(tokens_, "the file's number", UINT32_MAX);
    const Token name = tokens_.expect(Token::Kind::string, "the file's name in quotes");
    module_.files[key] = printable(unquoted(name.text));
    while (tokens_.accept(",")) {  // these numbers are the time and the size of the file
        (void)integer_constant(tokens_, "the file's time or size", UINT64_MAX);
    }
}

// Parses a directive such as .loc 1 21 105, function_name $L__info_string0, inlined_at 1 22 8
void Parser::location() {
    tokens_.take();
    const auto number = [&](std::string_view what) {
        return static_cast<uint32_t>(integer_constant(tokens_, what, UINT32_MAX));
    };
    source_.file = number("the file's number");
    source_.line = number("the line");
    source_.column = tokens_.at(Token::Kind::number) ? number("the column") : 0;
    if (function_ && function_->source.line == 0) function_->source = source_;
    while (tokens_.accept(",")) {
        const Token key = tokens_.expect(Token::Kind::identifier, "'function_name'");
        if (key.is("function_name")) {
            if (!tokens_.at(Token::Kind::dotted) && !tokens_.at(Token::Kind::identifier)) {
                tokens_.fail_expected("a label after 'function_name'");
            }
            tokens_.take();
            if (tokens_.accept("+")) (void)integer_term(tokens_);
        } else if (key.is("inlined_at")) {
            SourceLine call;
            call.file = number("the file's number");
            call.line = number("the line");
            call.column = number("the column");
            call_sites_[place(source_)] = call;
        } else {
            tokens_.fail(key, "expected 'function_name' or 'inlined_at'");
        }
    }
    written_ = written(source_);
}

// Follows inlined calls outwards until it reaches the function's own file. The inlined_at of a .loc
// is the place of the call that was inlined. This place may be in inlined code, too. Then an
// earlier .loc describes this place, and has an inlined_at itself (PTX ISA, ".loc").
SourceLine Parser::written(SourceLine line) const {
    if (!function_) return line;
    SourceLine at = line;
    for (size_t depth = 0; depth <= call_sites_.size(); ++depth) {
        if (at.file == function_->source.file) return at;
        const auto call = call_sites_.find(place(at));
        if (call == call_sites_.end()) break;
        at = call->second;
    }
    return line;
}

void Parser::alias() {
    tokens_.take();
    const Token name = tokens_.expect(Token::Kind::identifier, "the alias");
    tokens_.expect(",", "after the alias");
    const Token function = tokens_.expect(Token::Kind::identifier, "the function's name");
    tokens_.expect(";", "after '.alias'");
    module_.aliases[std::string(name.text)] = function.text;
    unknown_names_.push_back(function.text);
}

void Parser::linked() {
    bool external = false;
    for (;;) {
        if (tokens_.at(".extern")) {
            external = true;
        } else if (!tokens_.at(".visible") && !tokens_.at(".weak") && !tokens_.at(".common")) {
            break;
        }
        tokens_.take();
    }
    if (tokens_.accept(".entry")) return function(true);
    if (tokens_.accept(".func")) return function(false);
    if (tokens_.accept(".global") || tokens_.accept(".tex")) {
        return module_variables(Space::global, external);
    }
    if (tokens_.accept(".const")) return module_variables(Space::constant, external);
    if (tokens_.accept(".shared")) return module_variables(Space::shared, external);
    if (tokens_.accept(".local")) return module_variables(Space::local, external);
    tokens_.fail_expected("a function, a variable or a directive");
}

void Parser::module_variables(Space space, bool external) {
    const Declaration head = declaration(space);
    do {
        const Token name = tokens_.peek();
        Variable parsed = variable(head);
        parsed.external = external;
        const auto [known, is_new] = variables_.emplace(name.text, module_.variables.size());
        if (is_new) {
            module_.variables.push_back(std::move(parsed));
        } else if (module_.variables[known->second].external) {
            if (!external) module_.variables[known->second] = std::move(parsed);
        } else if (!external) {
            tokens_.fail(name, "'" + parsed.name + "' is defined twice");
        }
    } while (tokens_.accept(","));
    tokens_.expect(";", "after the variable");
}

void Parser::function(bool entry) {
    Function parsed;
    parsed.entry = entry;
    while (tokens_.at(".attribute")) skip_attribute();
    if (tokens_.accept("(")) parsed.results = parameters("the results");
    const Token name = tokens_.expect(Token::Kind::identifier, "the function's name");
    parsed.name = name.text;
    if (tokens_.accept("(")) parsed.parameters = parameters("the parameters");
    function_directives(parsed);

    const bool defined = !tokens_.accept(";");
    if (defined) {
        if (!tokens_.at("{")) tokens_.fail_expected("'{' or ';' after the function's header");
        function_ = &parsed;
        body();
        function_ = nullptr;
    }
    add_function(std::move(parsed), name, defined);
}

void Parser::add_function(Function&& function, const Token& name, bool defined) {
    function.external = !defined;
    const auto [known, is_new] = functions_.emplace(name.text, module_.functions.size());
    if (is_new) {
        module_.functions.push_back(std::move(function));
    } else if (defined) {
        Function& earlier = module_.functions[known->second];
        if (!earlier.external) tokens_.fail(name, "'" + function.name + "' is defined twice");
        earlier = std::move(function);
    }
}

// Parses directives such as `.maxntid 256, 1, 1`, `.minnctapersm 2` and `.noreturn`. For each
// directive, the numbers after its name are stored, here {256, 1, 1}, {2} and {}.
void Parser::function_directives(Function& function) {
    while (tokens_.at(Token::Kind::dotted)) {
        if (tokens_.at(".attribute")) {
            skip_attribute();
            continue;
        }
        const Token directive = tokens_.take();
        if (directive.is(".pragma")) {
            do {
                tokens_.expect(Token::Kind::string, "a string after '.pragma'");
            } while (tokens_.accept(","));
            tokens_.expect(";", "after '.pragma'");
            continue;
        }
        std::vector<uint32_t>& numbers = function.directives[std::string(directive.word())];
        numbers.clear();
        if (!tokens_.at(Token::Kind::number)) continue;
        do {
            numbers.push_back(integer_constant(tokens_, "the directive's number", UINT32_MAX));
        } while (tokens_.accept(","));
    }
}

// Parses a prototype such as
// prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .b32 _) .noreturn;
void Parser::prototype(std::string_view name) {
    Function parsed;
    if (tokens_.accept("(")) parsed.results = parameters("the results");
    tokens_.expect(Token::Kind::identifier, "'_' in the call prototype");
    if (tokens_.accept("(")) parsed.parameters = parameters("the parameters");
    function_directives(parsed);
    tokens_.expect(";", "after the call prototype");
    Parameter result;
    result.type = Type::none;
    if (!parsed.results.empty()) result = std::move(parsed.results.front());
    function_->prototypes[std::string(name)] = std::move(result);
}

void Parser::check_names() const {
    for (std::string_view name : unknown_names_) {
        if (functions_.contains(name) || variables_.contains(name)) continue;
        if (module_.aliases.contains(name)) continue;
        const std::string text(name.substr(0, 200));
        throw error_at(tokens_.text(), position_of(tokens_.text(), name),
                       "unknown name '" + text + "'");
    }
}

Module parse(std::string text) {
    Module module;
    module.text = std::make_unique<const std::string>(std::move(text));
    Parser(module).parse();
    return module;
}

}  // namespace coalesce::ptx
