// Text of others in messages: lines of sources, the logs of compilers, names of files.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

namespace coalesce {

// Returns the text without characters that change what a terminal shows of the rest: control
// characters such as ESC, and characters that change the direction of text. Each is replaced by its
// number, such as \x1b or \u202e. Line breaks and tabs stay.
inline std::string printable(std::string_view text) {
    std::string result;
    for (size_t at = 0; at < text.size(); ++at) {
        const auto byte = [&](size_t i) {
            return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
        };
        unsigned code = byte(0);
        size_t bytes = 1;
        if (code == 0xc2 || code == 0xd8)  // the characters of two bytes with a number below 0x640
            code = (code & 0x1f) << 6 | (byte(1) & 0x3f), bytes = 2;
        else if (code == 0xe2)
            code = 0x2000 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), bytes = 3;
        const bool control =
            code < ' ' ? code != '\n' && code != '\t' && !(code == '\r' && byte(1) == '\n')
                       : code >= 0x7f && code < 0xa0;
        const bool direction = code == 0x61c || code == 0x200e || code == 0x200f ||
                               (code >= 0x2028 && code <= 0x202e) ||
                               (code >= 0x2066 && code <= 0x2069);
        // A single byte of 0x80 or more is no character.
        if ((control && (bytes == 2 || code < 0x80)) || direction) {
            char number[8];
            std::snprintf(number, sizeof number, code < 0x100 ? "\\x%02x" : "\\u%04x", code);
            result += number;
            at += bytes - 1;
        } else {
            result += text[at];
        }
    }
    return result;
}

}  // namespace coalesce
