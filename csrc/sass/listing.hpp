// Reads a cubin's machine code from the output of nvdisasm (-gp -hex): functions, instructions and
// constant banks.
//
// METHOD
// The reader keeps an instruction as it is printed: an opcode ("LDG"), its modifiers in order ("E",
// "128"), a guard and operands, with labels resolved to instructions. It also finds the opcode's
// row in the table of operations (sim/ptx_analysis/ops.inc). As with PTX, the reader does not know
// what an instruction does; the lifter does (lift.hpp). Each code section becomes one Code. It
// contains the kernel and, after the kernel, the functions that the kernel calls. A call has the
// position of the called function in this Code.
//
// With `-gp`, a comment before each group of instructions has the number of their PTX line. The PTX
// has line information and the origins of addresses. So this one number provides source lines and
// array names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/ptx_analysis/opcode.hpp"

namespace coalesce::sass {

inline constexpr uint32_t instruction_bytes = 16;  // for compute capability 7.0 and later

// An operand of a machine instruction.
struct Operand {
    // The comment of each kind has an example, and in parentheses the members of Operand that are
    // used for it.
    enum class Kind : uint8_t {
        reg,        // R12, or UR4 of the uniform registers (number: -1 for RZ and URZ)
        predicate,  // P0, or UP1 of the uniform predicates (number: -1 for PT and UPT)
        integer,    // 0x10 or -0x1 (bits: 64 bits in two's complement)
        real,       // 0.5, +INF or -QNAN (value)
        // c[0x0][0x210] or c[0x3][R4+0x10] (number: the bank; offset, base, uniform_base).
        bank,
        address,  // [R4.64+UR5+0x10] (base, uniform_base, offset)
        special,  // SR_TID.X or SRZ (text)
        label,    // `(.L_x_0) (target)
        barrier,  // B0 (number)
        // gdesc[UR4].negA.tnspB: descriptors of matrices in shared memory (uniform_base, part)
        descriptor,
        other,  // PR, SB0 or {...} (text)
    };
    Kind kind = Kind::other;
    bool uniform = false;       // for a register or predicate: it is in the uniform register file
    bool negated = false;       // true for -R1 and !P0
    bool inverted = false;      // true for ~R1
    bool absolute = false;      // true for |R1|
    bool wide = false;          // True for R2.64. For an address: its base register has 64 bits.
    bool wide_uniform = false;  // for an address: its uniform base has 64 bits
    int32_t number = -1;
    int32_t base = -1;          // the base register of an address or bank, or -1
    int32_t uniform_base = -1;  // the uniform base register, or -1
    uint32_t scale = 1;         // for an address such as [R4.X4]: the factor of the base register
    // An index into Code::instructions. The number of instructions stands for the end.
    uint32_t target = 0;
    uint64_t bits = 0;
    int64_t offset = 0;
    double value = 0;
    // The text after a register's dot, such as "H0_H0" or "B1". It is empty if there is none.
    std::string_view part;
    std::string_view text;
};

// A machine instruction as nvdisasm prints it.
struct Instruction {
    std::string_view opcode;  // for example, "LDG"
    sim::OpCode code = sim::OpCode::unknown;
    std::vector<std::string_view> modifiers;  // for example, {"E", "128", "CONSTANT"}
    Operand guard;  // its kind is Kind::predicate, or Kind::other if there is no guard
    std::vector<Operand> operands;
    uint64_t encoding = 0;  // The upper 8 bytes of the encoding. 0 if they are not printed.
    // The lower 8 bytes of the encoding. Their upper half is the immediate operand.
    uint64_t lower = 0;
    uint32_t offset = 0;    // the offset in the code section
    uint32_t ptx_line = 0;  // 0 if the line is not known
    // The whole instruction, from the guard to the character before the ';'.
    std::string_view text;
    [[nodiscard]] bool has(std::string_view modifier) const;
};

// A code section: a kernel, and the functions that it calls.
struct Code {
    std::string name;  // the name of the kernel
    std::vector<Instruction> instructions;
    // The key is the label, such as "$k$_Z1ff".
    std::map<std::string, uint32_t, std::less<>> functions;
};

// A word of a constant bank that holds the address of a symbol.
struct SymbolWord {
    uint32_t offset = 0;
    std::string symbol;
    int64_t by = 0;
};

// A variable that is stored in a constant bank.
struct BankVariable {
    std::string name;
    uint32_t offset = 0;
};

// The contents of a constant bank.
struct Bank {
    std::vector<uint8_t> bytes;
    std::vector<SymbolWord> symbols;
    std::vector<BankVariable> variables;
};

// All that was read from the output of nvdisasm.
struct Listing {
    std::unique_ptr<const std::string> text;
    std::map<std::string, Code, std::less<>> codes;
    // The key is "3" or "4". For the bank of a kernel, it is "2.name" or "0.name".
    std::map<std::string, Bank, std::less<>> banks;
    // The shared memory of each kernel, including the reserved bytes.
    std::map<std::string, uint32_t, std::less<>> shared_bytes;
};

// Reads nvdisasm's text. Sections without code or constants are skipped. If the text does not have
// the expected form, throws UnsupportedInstruction with the line.
[[nodiscard]] Listing read(std::string text);

// Reads a single operand, for tests. Labels are not resolved.
[[nodiscard]] Operand read_operand(std::string_view text);

}  // namespace coalesce::sass
