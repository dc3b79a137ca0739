#include "sass/listing.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "errors.hpp"

namespace coalesce::sass {

namespace {

std::string_view trimmed(std::string_view s) {
    constexpr std::string_view blank = " \t\r";
    const size_t first = s.find_first_not_of(blank);
    if (first == std::string_view::npos) return {};
    return s.substr(first, s.find_last_not_of(blank) - first + 1);
}

// Reads "0x1f", "31" or "-0x8". Returns false for anything else.
bool read_integer(std::string_view s, int64_t& value) {
    const bool negative = s.starts_with('-');
    if (negative || s.starts_with('+')) s.remove_prefix(1);
    const bool hex = s.starts_with("0x") || s.starts_with("0X");
    if (hex) s.remove_prefix(2);
    uint64_t bits = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), bits, hex ? 16 : 10);
    if (error != std::errc{} || end != s.data() + s.size() || s.empty()) return false;
    value = int64_t(negative ? 0 - bits : bits);
    return true;
}

bool read_real(std::string_view s, double& value) {
    const bool negative = s.starts_with('-');
    if (negative || s.starts_with('+')) s.remove_prefix(1);
    if (s == "INF") {
        value = std::numeric_limits<double>::infinity();
    } else if (s == "QNAN" || s == "SNAN" || s == "NAN") {
        value = std::numeric_limits<double>::quiet_NaN();
    } else {
        const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
        if (error != std::errc{} || end != s.data() + s.size() || s.empty()) return false;
    }
    if (negative) value = std::copysign(value, -1.0);
    return true;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a register's number, which must be less than `limit`.
bool read_number(std::string_view s, int64_t limit, int32_t& number) {
    int64_t n = 0;
    if (s.empty() || !is_digit(s[0]) || !read_integer(s, n) || n < 0 || n >= limit) return false;
    number = int32_t(n);
    return true;
}

// Reads R12, RZ, UR4, URZ, P0, PT, UP1, UPT or B3, alone or followed by a dot and a part.
bool read_register(std::string_view s, Operand& o) {
    std::string_view name = s.substr(0, s.find('.'));
    std::string_view part = name.size() < s.size() ? s.substr(name.size() + 1) : "";
    Operand parsed = o;
    parsed.uniform = name.starts_with('U');
    if (parsed.uniform) name.remove_prefix(1);
    if (name.size() < 2) return false;
    const char file = name[0];
    const std::string_view number = name.substr(1);
    if (file == 'R' || (file == 'B' && !parsed.uniform)) {
        parsed.kind = file == 'R' ? Operand::Kind::reg : Operand::Kind::barrier;
        if (number != "Z" || file == 'B') {
            const int64_t limit = file == 'B' ? 16 : parsed.uniform ? 64 : 256;
            if (!read_number(number, limit, parsed.number)) return false;
        }
    } else if (file == 'P') {
        parsed.kind = Operand::Kind::predicate;
        if (number != "T") {
            if (!read_number(number, 8, parsed.number)) return false;
        }
    } else {
        return false;
    }
    while (!part.empty()) {
        const std::string_view word = part.substr(0, part.find('.'));
        part = word.size() < part.size() ? part.substr(word.size() + 1) : "";
        if (word == "64")
            parsed.wide = true;
        else if (word != "reuse" && !parsed.part.empty())
            return false;
        else if (word != "reuse")
            parsed.part = word;
    }
    o = parsed;
    return true;
}

// Reads a sum of registers and offsets. It is part of an address, or of the offset of a bank.
bool read_sum(std::string_view s, Operand& o) {
    while (!s.empty()) {
        const size_t plus = s.find('+', 1);
        const std::string_view term = trimmed(s.substr(0, plus));
        s = plus == std::string_view::npos ? "" : s.substr(plus + 1);
        Operand r;
        int64_t by = 0;
        if (read_register(term, r) && r.kind == Operand::Kind::reg) {
            if (r.uniform) {
                if (o.uniform_base >= 0 || !r.part.empty()) return false;
                o.uniform_base = r.number;
                o.wide_uniform = r.wide;
            } else {
                if (o.base >= 0) return false;
                o.base = r.number;
                o.wide = r.wide;
                if (r.part.starts_with('X')) {
                    int64_t scale = 1;
                    if (!read_integer(r.part.substr(1), scale) || r.wide) return false;
                    o.scale = uint32_t(scale);
                } else if (!r.part.empty() && r.part != "U32") {
                    return false;
                }
            }
        } else if (read_integer(term, by)) {
            o.offset += by;
        } else {
            return false;
        }
    }
    return true;
}

// Reads c[0x0][0x210] or cx[UR4][0x10].
bool read_bank(std::string_view s, Operand& o) {
    if (!s.starts_with("c[")) return false;
    const size_t close = s.find("][");
    if (close == std::string_view::npos || !s.ends_with(']')) return false;
    int64_t bank = 0;
    if (!read_integer(s.substr(2, close - 2), bank)) return false;
    o.kind = Operand::Kind::bank;
    o.number = int32_t(bank);
    return read_sum(s.substr(close + 2, s.size() - close - 3), o);
}

Operand operand_of(std::string_view text) {
    Operand o;
    text = trimmed(text);
    o.text = text;
    std::string_view s = text;
    if (s.starts_with("`(") && s.ends_with(')')) {
        o.kind = Operand::Kind::label;
        o.text = s.substr(2, s.size() - 3);
        return o;
    }
    int64_t integer = 0;
    if (read_integer(s, integer) && (s.find("0x") != std::string_view::npos)) {
        o.kind = Operand::Kind::integer;
        o.bits = uint64_t(integer);
        return o;
    }
    if (read_real(s, o.value)) {
        o.kind = Operand::Kind::real;
        o.bits = read_integer(s, integer) ? uint64_t(integer) : 0;
        return o;
    }
    for (bool more = true; more && !s.empty();) {
        more = true;
        if (s[0] == '!' || s[0] == '-')
            o.negated = true;
        else if (s[0] == '~')
            o.inverted = true;
        else
            more = false;
        if (more) s.remove_prefix(1);
    }
    if (s.size() > 2 && s[0] == '|') {
        const size_t close = s.find('|', 1);
        if (close == std::string_view::npos) return o;
        o.absolute = true;
        std::string_view suffix = s.substr(close + 1);
        s = s.substr(1, close - 1);
        if (suffix.starts_with(".reuse")) suffix.remove_prefix(6);
        if (suffix.starts_with('.')) o.part = suffix.substr(1);
        if (o.part.ends_with(".reuse")) o.part.remove_suffix(6);
        if (!suffix.empty() && o.part.empty()) return o;
    }
    constexpr std::string_view matrices = "gdesc[";
    if (s.starts_with(matrices)) {
        const size_t close = s.find(']');
        Operand base;
        if (close == std::string_view::npos ||
            !read_register(s.substr(matrices.size(), close - matrices.size()), base) ||
            base.kind != Operand::Kind::reg || !base.uniform || base.wide || !base.part.empty() ||
            s.size() == close + 2 || (s.size() > close + 1 && s[close + 1] != '.'))
            return o;
        o.kind = Operand::Kind::descriptor;
        o.uniform_base = base.number;
        if (s.size() > close + 1) o.part = s.substr(close + 2);
        return o;
    }
    // desc[...] is a descriptor for the caches. The address follows it.
    if (s.starts_with("desc[")) {
        const size_t close = s.find("][");
        if (close == std::string_view::npos) return o;
        s.remove_prefix(close + 1);
    }
    if (s.starts_with('[') && s.ends_with(']')) {
        Operand address = o;
        address.kind = Operand::Kind::address;
        return read_sum(s.substr(1, s.size() - 2), address) ? address : o;
    }
    Operand bank = o;
    if (read_bank(s, bank)) return bank;
    if (read_register(s, o)) return o;
    if (s.starts_with("SR_") || s == "SRZ") o.kind = Operand::Kind::special;
    return o;
}

// Splits a list at the commas that are outside of brackets.
std::vector<std::string_view> split(std::string_view s) {
    std::vector<std::string_view> parts;
    int depth = 0;
    size_t first = 0;
    for (size_t i = 0; i <= s.size(); ++i) {
        const char c = i < s.size() ? s[i] : ',';
        if (c == '[' || c == '(' || c == '{') ++depth;
        if (c == ']' || c == ')' || c == '}') --depth;
        if (c != ',' || (depth > 0 && i < s.size())) continue;
        const std::string_view part = trimmed(s.substr(first, i - first));
        if (!part.empty()) parts.push_back(part);
        first = i + 1;
    }
    return parts;
}

class Reader {
  public:
    explicit Reader(std::string text) {
        listing_.text = std::make_unique<const std::string>(std::move(text));
    }

    Listing read() {
        std::string_view rest = *listing_.text;
        while (!rest.empty()) {
            const size_t end = rest.find('\n');
            const std::string_view line = rest.substr(0, end);
            rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
            ++line_;
            read_line(line);
        }
        resolve_labels();
        return std::move(listing_);
    }

  private:
    [[noreturn]] void fail(const std::string& why) const {
        throw UnsupportedInstruction("line " + std::to_string(line_) +
                                     " of the machine code's listing: " + one_line(why));
    }

    void read_line(std::string_view line) {
        if (line.starts_with("//--------------------- ")) {
            const std::string_view name = line.substr(24);
            enter(name.substr(0, name.find(' ')));
        } else if (code_) {
            read_code_line(trimmed(line));
        } else if (bank_) {
            read_bank_line(trimmed(line));
        } else if (shared_ && line.find(".zero") != std::string_view::npos) {
            int64_t bytes = 0;
            const std::string_view number = trimmed(line.substr(line.find(".zero") + 5));
            if (read_integer(number, bytes)) *shared_ += uint32_t(bytes);
        }
    }

    void enter(std::string_view section) {
        code_ = nullptr;
        bank_ = nullptr;
        shared_ = nullptr;
        constexpr std::string_view text = ".text.", bank = ".nv.constant", shared = ".nv.shared.";
        if (section.starts_with(text)) {
            const std::string name(section.substr(text.size()));
            code_ = &listing_.codes[name];
            code_->name = name;
            labels_ = &labels_of_[name];
            ptx_line_ = 0;
        } else if (section.starts_with(bank)) {
            bank_ = &listing_.banks[std::string(section.substr(bank.size()))];
        } else if (section.starts_with(shared)) {
            shared_ = &listing_.shared_bytes[std::string(section.substr(shared.size()))];
        }
    }

    void read_code_line(std::string_view line) {
        if (line.starts_with("//## File")) {
            constexpr std::string_view ptx = "\".nv_debug_ptx_txt";
            const size_t number = line.find(", line ");
            int64_t n = 0;
            if (line.find(ptx) == std::string_view::npos || number == std::string_view::npos)
                return;
            const std::string_view digits = line.substr(number + 7);
            if (read_integer(digits.substr(0, digits.find(' ')), n)) ptx_line_ = uint32_t(n);
        } else if (line.starts_with("/* 0x")) {
            read_encoding(line);
        } else if (line.starts_with("/*")) {
            read_instruction(line);
        } else if (line.ends_with(':') && !line.starts_with(".text.")) {
            const std::string_view label = line.substr(0, line.size() - 1);
            const auto at = uint32_t(code_->instructions.size());
            labels_->emplace(label, at);
            if (!label.starts_with('.')) code_->functions.emplace(label, at);
        } else if (line.ends_with(':')) {
            labels_->emplace(line.substr(6, line.size() - 7), uint32_t(code_->instructions.size()));
        }
    }

    void read_instruction(std::string_view line) {
        Instruction in;
        const size_t close = line.find("*/");
        if (close == std::string_view::npos) fail("an offset is not closed");
        const auto [end, error] =
            std::from_chars(line.data() + 2, line.data() + close, in.offset, 16);
        if (error != std::errc{} || end != line.data() + close) fail("an offset is not a number");
        line = trimmed(line.substr(close + 2));
        const size_t semicolon = line.find(';');
        // The line has data between the instructions.
        if (semicolon == std::string_view::npos) return;
        const std::string_view rest = line.substr(semicolon);
        line = trimmed(line.substr(0, semicolon));
        in.text = line;
        if (line.starts_with('@')) {
            const size_t space = line.find(' ');
            in.guard = operand_of(line.substr(1, space - 1));
            line = space == std::string_view::npos ? "" : trimmed(line.substr(space));
        }
        const size_t space = line.find(' ');
        std::string_view name = line.substr(0, space);
        const std::string_view operands =
            space == std::string_view::npos ? "" : line.substr(space + 1);
        in.opcode = name.substr(0, name.find('.'));
        in.code = sim::opcode_named(in.opcode);
        while (name.find('.') != std::string_view::npos) {
            name = name.substr(name.find('.') + 1);
            in.modifiers.push_back(name.substr(0, name.find('.')));
        }
        for (const std::string_view part : split(operands)) {
            // A blank may separate an operand from more text, as after R4 and R14 in these
            // instructions:
            //
            // BRX R4 -0x190 (*"BRANCH_TARGETS .L_x_1"*)
            //
            // RET.REL.NODEC R14 `(f)
            const size_t gap = part.find(' ');
            if (gap == std::string_view::npos) {
                in.operands.push_back(operand_of(part));
                continue;
            }
            for (std::string_view left = part; !left.empty();) {
                if (left.starts_with("(*")) break;
                const size_t to = left.find(' ');
                in.operands.push_back(operand_of(left.substr(0, to)));
                left = to == std::string_view::npos ? "" : trimmed(left.substr(to));
            }
        }
        const size_t encoding = rest.find("/* 0x");
        if (encoding != std::string_view::npos)
            std::from_chars(rest.data() + encoding + 5, rest.data() + rest.size(), in.lower, 16);
        in.ptx_line = ptx_line_;
        if (in.offset != code_->instructions.size() * instruction_bytes)
            fail("instructions are not " + std::to_string(instruction_bytes) + " bytes apart");
        code_->instructions.push_back(std::move(in));
    }

    // Reads the upper half of the encoding of the previous instruction. (nvdisasm prints the lower
    // half on the line of the instruction, and the upper half on the next line.)
    void read_encoding(std::string_view line) {
        constexpr size_t digits = 16;
        line = line.substr(std::string_view("/* 0x").size());
        if (code_->instructions.empty() || line.size() < digits) return;
        std::from_chars(line.data(), line.data() + digits, code_->instructions.back().encoding, 16);
    }

    void read_bank_line(std::string_view line) {
        if (line.ends_with(':') && !line.starts_with('.')) {
            bank_->variables.push_back(
                {std::string(line.substr(0, line.size() - 1)), uint32_t(bank_->bytes.size())});
            return;
        }
        if (line.starts_with("/*")) {
            const size_t close = line.find("*/");
            if (close == std::string_view::npos) return;
            uint32_t offset = 0;
            std::from_chars(line.data() + 2, line.data() + close, offset, 16);
            bank_->bytes.resize(offset);
            line = trimmed(line.substr(close + 2));
        }
        const size_t space = line.find_first_of(" \t");
        const std::string_view directive = line.substr(0, space);
        if (space == std::string_view::npos) return;
        const std::string_view values = line.substr(space + 1);
        const size_t width = directive == ".byte"    ? 1
                             : directive == ".short" ? 2
                             : directive == ".word"  ? 4
                             : directive == ".dword" ? 8
                                                     : 0;
        if (directive == ".zero") {
            int64_t n = 0;
            if (read_integer(trimmed(values), n))
                bank_->bytes.resize(bank_->bytes.size() + size_t(n));
        }
        if (width == 0) return;
        for (const std::string_view value : split(values)) {
            int64_t bits = 0;
            if (!read_integer(value, bits)) bank_->symbols.push_back(symbol(value));
            for (size_t i = 0; i < width; ++i)
                bank_->bytes.push_back(uint8_t(uint64_t(bits) >> (8 * i)));
        }
    }

    // Reads "state", "(table + 8)" or ".L_x_3@srel".
    SymbolWord symbol(std::string_view value) const {
        SymbolWord word;
        word.offset = uint32_t(bank_->bytes.size());
        if (value.starts_with('(') && value.ends_with(')'))
            value = value.substr(1, value.size() - 2);
        const size_t plus = value.find(" + ");
        if (plus != std::string_view::npos &&
            !read_integer(trimmed(value.substr(plus + 3)), word.by))
            word.by = 0;
        word.symbol = std::string(trimmed(value.substr(0, plus)));
        return word;
    }

    void resolve_labels() {
        for (auto& [name, code] : listing_.codes) {
            const auto& labels = labels_of_[name];
            for (Instruction& in : code.instructions) {
                for (Operand& o : in.operands) {
                    if (o.kind != Operand::Kind::label) continue;
                    const auto entry = labels.find(o.text);
                    if (entry != labels.end())
                        o.target = entry->second;
                    else
                        o.kind = Operand::Kind::other;  // the label is in another section
                }
            }
            // The words of a jump table are labels, too.
            const auto bank = listing_.banks.find("2." + name);
            if (bank == listing_.banks.end()) continue;
            for (const SymbolWord& word : bank->second.symbols) {
                const std::string_view label =
                    std::string_view(word.symbol).substr(0, word.symbol.find('@'));
                const auto entry = labels.find(label);
                if (entry == labels.end()) continue;
                const uint64_t offset = uint64_t{entry->second} * instruction_bytes;
                for (size_t i = 0; i < 4 && word.offset + i < bank->second.bytes.size(); ++i)
                    bank->second.bytes[word.offset + i] = uint8_t(offset >> (8 * i));
            }
        }
    }

    Listing listing_;
    uint32_t line_ = 0;
    uint32_t ptx_line_ = 0;
    Code* code_ = nullptr;
    Bank* bank_ = nullptr;
    uint32_t* shared_ = nullptr;
    using Labels = std::map<std::string_view, uint32_t>;
    std::map<std::string, Labels> labels_of_;  // the key is the section
    Labels* labels_ = nullptr;
};

}  // namespace

bool Instruction::has(std::string_view modifier) const {
    return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

Listing read(std::string text) { return Reader(std::move(text)).read(); }

Operand read_operand(std::string_view text) { return operand_of(text); }

}  // namespace coalesce::sass
