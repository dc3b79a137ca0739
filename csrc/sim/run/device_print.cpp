#include "sim/run/device_print.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "errors.hpp"
#include "printable.hpp"
#include "sim/warp/memory.hpp"

namespace coalesce::sim {

namespace {

// Returns the host memory for a generic address that one lane uses, or null.
const std::byte* host_address(const Warp& w, int lane, uint64_t address, uint64_t bytes) {
    const Block& block = *w.block;
    const auto in = [&](const std::byte* start, uint64_t size) {
        return address <= size && bytes <= size - address ? start + address : nullptr;
    };
    if (address - shared_window < window_bytes) {
        address -= shared_window + block.program->reserved_shared;
        return in(block.shared, block.shared_bytes);
    }
    if (address - local_window < window_bytes) {
        address -= local_window;
        const uint64_t size = block.program->local_bytes;
        return in(w.local.data() + uint64_t(lane) * size, size);
    }
    uint16_t hint = UINT16_MAX;
    const Buffer* b = block.memory->find(address, bytes, hint);
    return b ? b->host + (address - b->address) : nullptr;
}

std::optional<std::string> read_string(const Warp& w, int lane, uint64_t address) {
    std::string text;
    for (;; ++address) {
        const std::byte* p = host_address(w, lane, address, 1);
        if (!p || text.size() > 65536) return std::nullopt;
        if (*p == std::byte{0}) return text;
        text += char(*p);
    }
}

// The packed arguments of a printf call. Each argument is aligned to its size. Floats are stored as
// doubles.
class Arguments {
  public:
    Arguments(const Warp& w, int lane, uint64_t address)
        : warp_(w), lane_(lane), address_(address) {}
    uint64_t next(uint64_t bytes) {
        at_ = (at_ + bytes - 1) / bytes * bytes;
        uint64_t value = 0;
        if (const std::byte* p = host_address(warp_, lane_, address_ + at_, bytes))
            std::memcpy(&value, p, bytes);
        at_ += bytes;
        return value;
    }

  private:
    const Warp& warp_;
    int lane_;
    uint64_t address_;
    uint64_t at_ = 0;
};

// Limits the width and the precision of a format specification, such as "%999999d", to 65535. If a
// number is larger, the printed text ends in "[cut]".
std::string bounded(const std::string& spec) {
    std::string result;
    for (size_t i = 0; i < spec.size();) {
        const size_t digits = spec.find_first_not_of("0123456789", i);
        const size_t end = digits == std::string::npos ? spec.size() : digits;
        if (end == i) {
            result += spec[i++];
            continue;
        }
        const size_t first = std::min(spec.find_first_not_of('0', i), end);
        const bool large = end - first > 5 || (end - first == 5 && spec.substr(first, 5) > "65535");
        result += large ? spec.substr(i, first - i) + "65535" : spec.substr(i, end - i);
        i = end;
    }
    return result;
}

template <class T>
void print_one(std::string& out, const std::string& spec, T value) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    const std::string safe = bounded(spec);
    const int n = std::snprintf(nullptr, 0, safe.c_str(), value);
    if (n <= 0 || out.size() > max_printed_by_a_call) return;
    const size_t before = out.size();
    // The additional byte is for the terminating zero of snprintf.
    out.resize(before + size_t(n) + 1);
    std::snprintf(&out[before], size_t(n) + 1, safe.c_str(), value);
#pragma GCC diagnostic pop
    out.pop_back();
    if (safe != spec) out += "[cut]";
}

// Reads an integer argument. `length` describes the length modifier: 1 for "l", 2 for "ll", -1 for
// "h", -2 for "hh", and 0 if there is none.
int64_t integer_argument(Arguments& arguments, int length) {
    if (length > 0) return int64_t(arguments.next(8));
    const int32_t value = int32_t(arguments.next(4));
    return length == 0 ? value : length == -1 ? int16_t(value) : int8_t(value);
}
uint64_t unsigned_argument(Arguments& arguments, int length) {
    if (length > 0) return arguments.next(8);
    const uint32_t value = uint32_t(arguments.next(4));
    return length == 0 ? value : length == -1 ? uint16_t(value) : uint8_t(value);
}

// Formats the text of a printf.
class Formatter {
  public:
    Formatter(const Warp& w, int lane, uint64_t address)
        : w_(w), lane_(lane), arguments_(w, lane, address) {}

    void print(const std::string& format) {
        for (size_t i = 0; i < format.size();) {
            if (format[i] == '%')
                i = print_specification(format, i + 1);
            else
                out += format[i++];
        }
    }

    std::string out;
    int32_t count = 0;  // the number of arguments that were used

  private:
    // Prints the specification that starts at `i`, after the '%'. It has the form
    // %[flags][width][.precision][length]conversion. Returns the position after it.
    size_t print_specification(const std::string& format, size_t i) {
        std::string spec = "%";
        int length = 0;
        while (i < format.size()) {
            const char c = format[i++];
            switch (c) {
                case '%':
                    out += '%';
                    return i;
                case '*':
                    take_star(spec);
                    break;
                case 'l':
                case 'z':
                case 't':
                case 'j':
                    length = 1;
                    break;
                case 'h':
                    --length;
                    break;
                case 'L':
                    break;
                default:
                    if (print_argument(c, spec, length)) {
                        ++count;
                        return i;
                    }
                    spec += c;
            }
        }
        return i;
    }

    // Handles a '*' in a specification ("%*d"): writes the next int argument in its place.
    void take_star(std::string& spec) {
        const int32_t value = int32_t(arguments_.next(4));
        ++count;
        // A negative precision has no effect, as in C.
        if (spec.back() == '.' && value < 0)
            spec.pop_back();
        else
            spec += std::to_string(value);
    }

    // Prints the next argument. Returns false if the letter is not a conversion.
    bool print_argument(char conversion, const std::string& spec, int length) {
        switch (conversion) {
            case 'd':
            case 'i':
                print_one(out, spec + "lld",
                          static_cast<long long>(integer_argument(arguments_, length)));
                return true;
            case 'u':
            case 'x':
            case 'X':
            case 'o':
                print_one(out, spec + "ll" + conversion,
                          static_cast<unsigned long long>(unsigned_argument(arguments_, length)));
                return true;
            case 'c':
                print_one(out, spec + "c", int(arguments_.next(4)));
                return true;
            case 'e':
            case 'E':
            case 'f':
            case 'F':
            case 'g':
            case 'G':
            case 'a':
            case 'A':
                print_one(out, spec + conversion, std::bit_cast<double>(arguments_.next(8)));
                return true;
            case 'p':
                print_one(out, spec + "p", reinterpret_cast<void*>(arguments_.next(8)));
                return true;
            case 's': {
                const uint64_t address = arguments_.next(8);
                const std::string text =
                    address == 0 ? "(null)"
                                 : read_string(w_, lane_, address).value_or("(bad address)");
                print_one(out, spec + "s", text.c_str());
                return true;
            }
            default:
                return false;
        }
    }

    const Warp& w_;
    int lane_;
    Arguments arguments_;
};

}  // namespace

void Printed::add(const std::string& text) {
    const uint64_t room = max_printed - kept_;
    text_.append(text, 0, room);
    kept_ += std::min<uint64_t>(text.size(), room);
    cut_ = cut_ || text.size() > room;
}

std::string Printed::take() {
    std::string text = std::exchange(text_, {});
    if (cut_ && !std::exchange(note_returned_, true))
        text += "\n[coalesce: the kernel printed more than " + std::to_string(max_printed >> 20) +
                " MiB; the rest is left out]\n";
    return text;
}

int32_t device_printf(const Warp& w, int lane, uint64_t format_address, uint64_t argument_address) {
    const std::optional<std::string> format = read_string(w, lane, format_address);
    if (!format) return -1;
    Formatter formatter(w, lane, argument_address);
    formatter.print(*format);
    std::string& out = formatter.out;
    if (out.size() > max_printed_by_a_call) {
        out.resize(max_printed_by_a_call);
        out += "[cut]\n";
    }
    if (w.block->launch->print) w.block->launch->print(out);
    return formatter.count;
}

void throw_assertion(const Warp& w, const Op& op, uint64_t expression_address,
                     uint64_t function_address) {
    const int lane = std::countr_zero(w.current.mask);
    const std::string expression = read_string(w, lane, expression_address).value_or("?");
    const std::string function = read_string(w, lane, function_address).value_or("?");
    std::string message = "assertion failed: " + printable(expression) + "\n  in " +
                          printable(function) + "\n  " + where(*w.block->program, op) + "\n  " +
                          thread_name(w, lane);
    const int others = std::popcount(w.current.mask) - 1;
    if (others > 0)
        message += " and " + std::to_string(others) +
                   (others == 1 ? " other thread" : " other threads") + " of its warp";
    throw KernelFault(Fault::assertion, message);
}

}  // namespace coalesce::sim
