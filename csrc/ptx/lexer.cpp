#include "ptx/lexer.hpp"

#include <algorithm>

namespace coalesce::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

std::string quoted(const Token& token) {
    if (token.kind == Token::Kind::end) return "the end of the text";
    constexpr size_t longest = 40;
    std::string text(token.text.substr(0, longest));
    return "'" + text + (token.text.size() > longest ? "...'" : "'");
}

}  // namespace

bool Lexer::skip_space() {
    auto newline = [&] {
        ++line_;
        line_start_ = at_ + 1;
    };
    while (at_ < text_.size()) {
        const char c = text_[at_];
        if (c == '\n') {
            newline();
            ++at_;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') {
            ++at_;
        } else if (c == '/' && at(at_ + 1) == '/') {
            at_ = std::min(text_.find('\n', at_), text_.size());
        } else if (c == '/' && at(at_ + 1) == '*') {
            const size_t close = text_.find("*/", at_ + 2);
            if (close == std::string_view::npos) return false;
            for (; at_ < close; ++at_) {
                if (text_[at_] == '\n') newline();
            }
            at_ = close + 2;
        } else {
            break;
        }
    }
    return true;
}

size_t Lexer::end_of_number(size_t i) const {
    const char prefix = at(i + 1) | 0x20;
    const bool prefixed =
        at(i) == '0' && (prefix == 'x' || prefix == 'b' || prefix == 'f' || prefix == 'd');
    if (!prefixed) {
        while (is_digit(at(i))) ++i;
        if (at(i) == '.' && !is_letter(at(i + 1)) && at(i + 1) != '_') ++i;
        while (is_digit(at(i))) ++i;
        if ((at(i) | 0x20) == 'e') {
            const size_t sign = at(i + 1) == '+' || at(i + 1) == '-' ? 1 : 0;
            if (is_digit(at(i + 1 + sign))) i += 1 + sign;
        }
    }
    // Letters and digits that directly follow the number do not belong to it. They are added to the
    // token, so that the error message shows them.
    while (is_word(at(i))) ++i;
    return i;
}

size_t Lexer::end_of_punctuation(size_t i) const {
    for (std::string_view two : {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"}) {
        if (text_.substr(i, 2) == two) return i + 2;
    }
    constexpr std::string_view one = ";,{}[]()<>+-*/%&|^~!?:=@";
    return one.find(text_[i]) != std::string_view::npos ? i + 1 : i;
}

Token Lexer::next() {
    const bool closed = skip_space();
    Token token;
    const size_t start = at_;
    token.position = {line_, static_cast<uint32_t>(start - line_start_ + 1)};
    if (start >= text_.size()) {
        token.text = text_.substr(text_.size());
        return token;
    }
    using Kind = Token::Kind;
    const char c = text_[start];
    // A modifier follows a word without a space. In any other position, ".5" is a number.
    const bool after_word = start > 0 && is_word(text_[start - 1]);
    size_t end = start + 1;
    if (!closed) {
        token.kind = Kind::invalid;
        end = text_.size();
    } else if (is_digit(c) || (c == '.' && is_digit(at(end)) && !after_word)) {
        token.kind = Kind::number;
        end = end_of_number(start);
    } else if (is_letter(c) || c == '_' || c == '$' || (c == '%' && is_word(at(end)))) {
        token.kind = Kind::identifier;
        while (is_word(at(end))) ++end;
    } else if (c == '.' && is_word(at(end))) {
        token.kind = Kind::dotted;
        while (is_word(at(end)) || (at(end) == ':' && at(end + 1) == ':' && is_word(at(end + 2)))) {
            end += at(end) == ':' ? 2 : 1;
        }
    } else if (c == '"') {
        while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
            end += text_[end] == '\\' && at(end + 1) != '\n' ? 2 : 1;
        }
        token.kind = at(end) == '"' ? Kind::string : Kind::invalid;
        end = std::min(end + (token.kind == Kind::string ? 1 : 0), text_.size());
    } else {
        end = end_of_punctuation(start);
        token.kind = end > start ? Kind::punctuation : Kind::invalid;
        end = std::max(end, start + 1);
    }
    token.text = text_.substr(start, end - start);
    at_ = end;
    return token;
}

PtxError error_at(std::string_view text, Position position, std::string_view message) {
    size_t start = 0;
    for (uint32_t line = 1; line < position.line && start < text.size(); ++line) {
        start = std::min(text.find('\n', start), text.size() - 1) + 1;
    }
    std::string_view line = text.substr(start, text.find('\n', start) - start);
    if (line.ends_with('\r')) line.remove_suffix(1);
    // A line of a table can have thousands of columns. Only the part around the position is shown.
    size_t caret = std::min<size_t>(position.column - 1, line.size());
    const size_t skipped = caret > 80 ? caret - 60 : 0;
    line = line.substr(skipped, 100);
    caret -= skipped;

    std::string result = "line " + std::to_string(position.line) + ", column " +
                         std::to_string(position.column) + ": " + std::string(message) + "\n";
    result.append("  ").append(line).append("\n  ");
    for (size_t i = 0; i < caret; ++i) result += line[i] == '\t' ? '\t' : ' ';
    result += '^';
    for (char& c : result) {
        if ((c < ' ' && c != '\n' && c != '\t') || c > '~') c = '?';
    }
    return PtxError(result, position.line, position.column);
}

Position position_of(std::string_view text, std::string_view part) {
    const std::string_view before = text.substr(0, part.data() - text.data());
    const size_t line_start = before.rfind('\n') + 1;  // if there is no newline, npos + 1 is 0
    return {static_cast<uint32_t>(1 + std::count(before.begin(), before.end(), '\n')),
            static_cast<uint32_t>(before.size() - line_start + 1)};
}

Tokens::Tokens(std::string_view text) : lexer_(text), end_of_last_(text.data()) { take(); }

Token Tokens::second() const { return Lexer(lexer_).next(); }

Token Tokens::take() {
    const Token taken = token_;
    if (!taken.text.empty()) end_of_last_ = taken.text.data() + taken.text.size();
    token_ = lexer_.next();
    if (token_.kind == Token::Kind::invalid) {
        if (token_.text.starts_with('"')) fail(token_, "the string is not closed");
        if (token_.text.starts_with("/*")) fail(token_, "the comment is not closed");
        fail(token_, "unexpected character " + quoted(token_));
    }
    return taken;
}

bool Tokens::accept(std::string_view text) {
    if (!at(text)) return false;
    take();
    return true;
}

Token Tokens::expect(std::string_view text, std::string_view where) {
    if (!at(text)) fail_expected("'" + std::string(text) + "' " + std::string(where));
    return take();
}

Token Tokens::expect(Token::Kind kind, std::string_view what) {
    if (!at(kind)) fail_expected(what);
    return take();
}

void Tokens::skip_braces() {
    const Token open = token_;
    for (size_t depth = 1; depth > 0;) {
        const Token token = lexer_.next();
        if (token.kind == Token::Kind::end) fail(open, "'{' is not closed");
        if (token.is("{")) ++depth;
        if (token.is("}")) --depth;
    }
    take();
}

void Tokens::fail(const Token& token, std::string_view message) const {
    throw error_at(text(), token.position, message);
}

void Tokens::fail_expected(std::string_view what) const {
    fail(token_, "expected " + std::string(what) + ", got " + quoted(token_));
}

}  // namespace coalesce::ptx
