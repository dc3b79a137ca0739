// Splits PTX text into tokens, and writes error messages that point into the text.
//
// METHOD
// The lexer is a cursor over the text. A token is a view of the text. The text is never copied. A
// dot and the word that follows it are one token (".reg", ".L1::evict_last", ".2d"), so that
// opcodes, types and directives are read in the same way. The lexer only finds where a number ends;
// constant.cpp computes its value. `Tokens` adds one token of look-ahead and the error messages. A
// message says what was expected and what was found. It shows the line of the text, with a caret
// (^) below the position.
#pragma once

#include <string>
#include <string_view>

#include "errors.hpp"
#include "ptx/module.hpp"

namespace coalesce::ptx {

// A token: a view of the text.
struct Token {
    enum class Kind : uint8_t {
        end,
        identifier,   // Examples: ld, %r1, $L__BB0_2, _
        dotted,       // Examples: .reg, .L1::evict_last
        number,       // Examples: 12, 0x7fU, 0f3F800000, 1.5e-3
        string,       // Example: "nounroll". The quotes belong to the token.
        punctuation,  // Examples: ; , { } [ ] ( ) < > << ...
        invalid,      // a byte that starts no token, or a string or comment that is not closed
    };
    Kind kind = Kind::end;
    std::string_view text;
    Position position;

    [[nodiscard]] bool is(std::string_view expected) const {
        return text == expected && kind != Kind::string && kind != Kind::end;
    }
    [[nodiscard]] std::string_view word() const { return text.substr(1); }  // without the dot
};

// Splits the text into tokens.
class Lexer {
  public:
    explicit Lexer(std::string_view text) : text_(text) {}
    [[nodiscard]] Token next();
    [[nodiscard]] std::string_view text() const { return text_; }

  private:
    [[nodiscard]] char at(size_t index) const { return index < text_.size() ? text_[index] : '\0'; }
    bool skip_space();  // Also skips comments. Returns false if a comment is not closed.
    size_t end_of_number(size_t i) const;
    size_t end_of_punctuation(size_t i) const;

    std::string_view text_;
    size_t at_ = 0;
    uint32_t line_ = 1;
    size_t line_start_ = 0;
};

// Makes an error with the message "line 12, column 8: <message>", the line of the text, and a
// caret. The message has only printable ASCII characters, even if the text has others.
[[nodiscard]] PtxError error_at(std::string_view text, Position position, std::string_view message);

// Returns the position at which `part` begins. `part` is a view of `text`.
[[nodiscard]] Position position_of(std::string_view text, std::string_view part);

// The tokens for the parser, with one token of look-ahead.
class Tokens {
  public:
    explicit Tokens(std::string_view text);

    [[nodiscard]] const Token& peek() const { return token_; }
    [[nodiscard]] Token second() const;  // returns the token after peek()
    [[nodiscard]] bool at(std::string_view text) const { return token_.is(text); }
    [[nodiscard]] bool at(Token::Kind kind) const { return token_.kind == kind; }
    [[nodiscard]] const char* end_of_last() const { return end_of_last_; }
    [[nodiscard]] std::string_view text() const { return lexer_.text(); }

    Token take();
    bool accept(std::string_view text);
    // `where` completes the message, as in "expected ';' after the instruction, got '}'".
    Token expect(std::string_view text, std::string_view where);
    Token expect(Token::Kind kind, std::string_view what);
    void skip_braces();  // Call it at '{'. It skips to the matching '}' without parsing.

    [[noreturn]] void fail(const Token& token, std::string_view message) const;
    // Throws an error with the message "expected <what>, got ...".
    [[noreturn]] void fail_expected(std::string_view what) const;

  private:
    Lexer lexer_;
    Token token_;
    const char* end_of_last_ = nullptr;
};

}  // namespace coalesce::ptx
