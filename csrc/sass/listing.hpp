// Reads a cubin's machine code from the output of nvdisasm (-gp -hex): functions, instructions and
// constant banks.
//
// METHOD
// The reader keeps an instruction as it is printed: an opcode ("LDG"), its modifiers in order ("E",
// "128"), a guard and operands, with labels resolved to instructions. As with PTX, the reader does
// not know what an instruction does; the lifter does (lift.hpp). A code section is one Code. It
// also contains the functions that the kernel calls, which follow the kernel and are called by
// address.
//
// With `-gp`, a comment before each group of instructions names their line of the PTX. The PTX has
// line information and the origins of addresses. So this one number provides source lines and array
// names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace coalesce::sass {

inline constexpr uint32_t instruction_bytes = 16;  // compute capability 7.0 and later

struct Operand {
    enum class Kind : uint8_t {
        reg,        // R12, UR4 (uniform); number, -1 for RZ and URZ
        predicate,  // P0, UP1 (uniform); number, -1 for PT and UPT
        integer,    // 0x10, -0x1              bits (two's complement, 64 bits)
        real,       // 0.5, +INF, -QNAN        value
        bank,       // c[0x0][0x210], c[0x3][R4+0x10]: number (the bank), offset, base, uniform_base
        address,    // [R4.64+UR5+0x10]        base, uniform_base, offset
        special,    // SR_TID.X, SRZ           text
        label,      // `(.L_x_0)               target
        barrier,    // B0                      number
        other,      // PR, SB0, {...}          text
    };
    Kind kind = Kind::other;
    bool uniform = false;       // reg, predicate: of the uniform register file
    bool negated = false;       // -R1, !P0
    bool inverted = false;      // ~R1
    bool absolute = false;      // |R1|
    bool wide = false;          // R2.64; address: the base has 64 bits
    bool wide_uniform = false;  // address: the uniform base has 64 bits
    int32_t number = -1;
    int32_t base = -1;          // -1: none
    int32_t uniform_base = -1;  // -1: none
    uint32_t scale = 1;         // address: [R4.X4]
    uint32_t target = 0;        // an index into Code::instructions, or its size
    uint64_t bits = 0;
    int64_t offset = 0;
    double value = 0;
    std::string_view part;  // text after a register's dot: "H0_H0", "B1"; otherwise empty
    std::string_view text;
};

struct Instruction {
    std::string_view opcode;                  // "LDG"
    std::vector<std::string_view> modifiers;  // {"E", "128", "CONSTANT"}
    Operand guard;                            // Kind::predicate, or Kind::other if there is none
    std::vector<Operand> operands;
    uint64_t encoding = 0;  // its upper 8 bytes; 0: not printed
    uint64_t lower = 0;     // its lower 8 bytes; the upper half of these is the immediate operand
    uint32_t offset = 0;    // in the code section
    uint32_t ptx_line = 0;  // 0: unknown
    std::string_view text;  // the whole instruction, from the guard up to the ';' (excluded)
    [[nodiscard]] bool has(std::string_view modifier) const;
};

struct Code {
    std::string name;  // the name of the kernel
    std::vector<Instruction> instructions;
    std::map<std::string, uint32_t, std::less<>> functions;  // by label: "$k$_Z1ff"
};

// A word of a constant bank that holds the address of a symbol.
struct SymbolWord {
    uint32_t offset = 0;
    std::string symbol;
    int64_t by = 0;
};

// A variable in a constant bank.
struct BankVariable {
    std::string name;
    uint32_t offset = 0;
};

struct Bank {
    std::vector<uint8_t> bytes;
    std::vector<SymbolWord> symbols;
    std::vector<BankVariable> variables;
};

struct Listing {
    std::unique_ptr<const std::string> text;
    std::map<std::string, Code, std::less<>> codes;
    std::map<std::string, Bank, std::less<>> banks;  // "3", "4"; for a kernel "2.name", "0.name"
    // By kernel, including reserved bytes.
    std::map<std::string, uint32_t, std::less<>> shared_bytes;
};

// Reads nvdisasm's text. Sections without code or constants are skipped. If the text does not have
// the expected form, throws UnsupportedInstruction with the line.
[[nodiscard]] Listing read(std::string text);

// Reads a single operand, for tests. Labels are not resolved.
[[nodiscard]] Operand read_operand(std::string_view text);

}  // namespace coalesce::sass
