// Writes JSON as text, for the report (report.hpp) and for snapshots (snapshots.hpp).
//
// of() converts a value, list() a container, and Object writes an object member by member. Inner
// values are written before the object or list that contains them:
//     json::Object().add("name", name).raw("sizes", json::list(sizes)).text()
#pragma once

#include <cmath>
#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>

namespace coalesce::cudart::json {

inline std::string of(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char code[8];
            std::snprintf(code, sizeof code, "\\u%04x", unsigned(c));
            out += code;
        } else {
            out += c;
        }
    }
    return out + '"';
}
inline std::string of(const std::string& text) { return of(std::string_view(text)); }
inline std::string of(const char* text) { return of(std::string_view(text)); }
inline std::string of(bool value) { return value ? "true" : "false"; }
template <std::integral T>
std::string of(T value) {
    return std::to_string(value);
}
inline std::string of(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", std::isfinite(value) ? value : 0.0);
    return text;
}

// Writes {"name": value, ...}. raw() takes a value that is already JSON.
class Object {
  public:
    template <class T>
    Object& add(const char* name, const T& value) {
        return raw(name, of(value));
    }
    Object& raw(const char* name, const std::string& value) {
        text_ += (text_.empty() ? "" : ", ") + of(name) + ": " + value;
        return *this;
    }
    [[nodiscard]] std::string text() const { return "{" + text_ + "}"; }

  private:
    std::string text_;
};

template <class List, class Make>
std::string list(const List& values, Make&& make) {
    std::string text;
    for (const auto& value : values) text += (text.empty() ? "" : ", ") + make(value);
    return "[" + text + "]";
}
template <class List>
std::string list(const List& values) {
    return list(values, [](const auto& value) { return of(value); });
}

}  // namespace coalesce::cudart::json
