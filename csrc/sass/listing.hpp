// A cubin's machine code as nvdisasm prints it (-gp -hex): functions, instructions and constant
// banks.
//
// METHOD
// The reader keeps an instruction the way it is printed: an opcode ("LDG"), its modifiers in order
// ("E", "128"), a guard and operands, with labels resolved to instructions. As with PTX, what an
// instruction means is the business of the lifter (lift.hpp). Everything of one code section is one
// Code, since functions that a kernel calls are printed behind it and called by address.
//
// `-gp` writes a comment before the instructions that come of a line of the PTX. The compiler's PTX
// has its own line information and names what an access refers to, so that this one number brings
// source lines and array names with it.
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
    std::string_view part;  // what follows a register's dot: "H0_H0", "B1"; else empty
    std::string_view text;
};

struct Instruction {
    std::string_view opcode;                  // "LDG"
    std::vector<std::string_view> modifiers;  // {"E", "128", "CONSTANT"}
    Operand guard;                            // Kind::predicate, or Kind::other if there is none
    std::vector<Operand> operands;
    uint64_t encoding = 0;  // its upper 8 bytes; 0: not printed
    uint64_t lower = 0;     // and its lower ones: an immediate operand is their upper half
    uint32_t offset = 0;    // in its code section
    uint32_t ptx_line = 0;  // 0: unknown
    std::string_view text;  // the whole instruction, guard to before ';'
    [[nodiscard]] bool has(std::string_view modifier) const;
};

struct Code {
    std::string name;  // of the kernel
    std::vector<Instruction> instructions;
    std::map<std::string, uint32_t, std::less<>> functions;  // by label: "$k$_Z1ff"
};

// A word of a constant bank that holds a symbol's address.
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
    std::map<std::string, Bank, std::less<>> banks;  // "3", "4"; of a kernel "2.name", "0.name"
    std::map<std::string, uint32_t, std::less<>> shared_bytes;  // by kernel, reserved ones included
};

// Reads nvdisasm's text. Sections that are no code and no constants are skipped. Throws
// UnsupportedInstruction with the line where the text is not what is described here.
[[nodiscard]] Listing read(std::string text);

// An operand by itself, for tests; labels are not resolved.
[[nodiscard]] Operand read_operand(std::string_view text);

}  // namespace coalesce::sass
