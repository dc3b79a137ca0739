// A parsed PTX module: functions, variables and instructions, with all names resolved.
//
// METHOD
// The parser keeps an instruction as PTX writes it: an opcode ("ld"), its modifiers in order
// ("global", "nc", "v4", "f32"), a guard and operands. It does not know which combinations exist.
// csrc/sim defines what instructions do. Therefore any instruction of any PTX ISA can be parsed. An
// unknown instruction is reported with its source line, and not as a syntax error. Names are
// resolved here: a register is an index into Function::registers, a label an index into
// Function::body.
//
// All string_views point into Module::text, which the module owns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace coalesce::ptx {

// A fundamental type, as in ".f32". Instructions may also have b128, packed types and narrow
// formats as modifiers. csrc/sim knows some of these.
enum class Type : uint8_t {
    none,
    pred,
    b8,
    b16,
    b32,
    b64,
    b128,
    u8,
    u16,
    u32,
    u64,
    s8,
    s16,
    s32,
    s64,
    f16,
    f16x2,
    bf16,
    bf16x2,
    f32,
    f64,
};

[[nodiscard]] uint32_t size_of(Type type);  // Returns the size in bytes. It is 0 for none and pred.
[[nodiscard]] bool is_signed(Type type);    // true for s8 to s64
[[nodiscard]] std::string_view name_of(Type type);  // returns a name such as "f32"
[[nodiscard]] bool is_float(Type type);             // true for f32 and f64
// Returns the type of an integer of 1, 2, 4 or 8 bytes.
[[nodiscard]] Type unsigned_type(uint32_t bytes);
[[nodiscard]] Type signed_type(uint32_t bytes);
// Returns Type::f32 for "f32", and Type::none if there is no such type.
[[nodiscard]] Type type_named(std::string_view name);

// The state spaces of PTX.
enum class Space : uint8_t { generic, reg, param, local, shared, global, constant };

struct Position {  // A position in the PTX text. Both numbers start at 1.
    uint32_t line = 0;
    uint32_t column = 0;
};

// A position in the CUDA source, from a .loc directive. Line 0 means that it is not known.
struct SourceLine {
    uint32_t file = 0;  // a key of Module::files
    uint32_t line = 0;
    uint32_t column = 0;
    bool operator==(const SourceLine&) const = default;
};

struct Register {
    std::string name;  // the name is "%r12", or "v.x" for a component of a vector register
    Type type = Type::none;
};

// An operand of an instruction.
struct Operand {
    // The comment of each kind has an example, and in parentheses the members of Operand that are
    // used for it.
    enum class Kind : uint8_t {
        reg,      // %r1 (reg)
        integer,  // 12, -1 or 0x7f (bits: 64 bits in two's complement)
        f32,      // 0f3F800000 (bits: the 32 bits of the float)
        f64,      // 0d3FF0... or 1.5 (bits: the 64 bits of the double)
        // A variable, parameter, function, branch-target list or call prototype (name).
        symbol,
        special,  // %tid.x or %laneid (name, with the '%' and the suffix)
        label,    // $L__BB0_2 (target: an index into Function::body)
        // [base+offset] (offset; the base is in `reg` or in `name`). In [123], there is no base. In
        // [map, {x, y}], the coordinates are in `elements`.
        address,
        vector,  // {a, b, c, d} (elements)
        pair,    // a|p, as in shfl and setp (two elements)
        list,    // (a, b) of a call (elements)
        sink,    // _ stands for a result that is not used
    };
    Kind kind = Kind::sink;
    bool negated = false;  // true for a source such as !%p1
    int32_t reg = -1;
    uint32_t target = 0;
    uint64_t bits = 0;
    int64_t offset = 0;  // the offset of an address, or of symbol+offset (mov.u64 %rd1, name+16)
    // For a symbol or an address: the index in Function::variables. It is -1 if the body does not
    // declare the name. The name alone is not enough, because several scopes may declare the same
    // name.
    int32_t variable = -1;
    std::string_view name;
    std::vector<Operand> elements;
};

// An instruction as PTX writes it.
struct Instruction {
    std::string_view opcode;  // Examples: "ld", "fma", "bar"
    // Modifiers without their dots: {"global", "nc", "v4", "f32"}.
    std::vector<std::string_view> modifiers;
    int32_t guard = -1;          // the predicate register of @%p1, or -1
    bool guard_negated = false;  // true for @!%p1
    std::vector<Operand> operands;
    Position position;
    SourceLine source;
    // The line that the author of the kernel wrote. Code of another file, such as a header, may
    // have been inlined. Then this is the line in the function's own file at which the code was
    // inlined. Otherwise this is `source`.
    SourceLine written;
    std::string_view text;  // the whole statement, from the guard to the character before the ';'
    [[nodiscard]] bool has(std::string_view modifier) const {
        return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
    }
    // The parser knows only branches and calls by name, because their operands have a special
    // syntax.
    [[nodiscard]] bool is_call() const { return opcode == "call"; }
};

// One value of an initializer: a number, or the address of a symbol (a string, a table of
// functions). `bits` has the number in the form of an element (1 in an .f32 is 0x3F800000). An
// integer is not yet truncated to the size of the element. Values that the text omits are zeros
// here. Omitted values at the end have no entry.
struct Initializer {
    uint64_t bits = 0;
    // If it is empty, `bits` is the value. Otherwise, `bits` is an offset from the symbol.
    std::string_view symbol;
    bool generic = false;  // true for generic(symbol)
};

// A variable in any state space.
struct Variable {
    std::string name;
    Space space = Space::global;
    Type type = Type::b8;
    uint32_t alignment = 1;
    // The number of elements of `type`: the product of the dimensions. It is 0 for name[].
    uint64_t count = 1;
    // True for .extern. Dynamic shared memory is declared as .extern .shared name[].
    bool external = false;
    std::vector<Initializer> initial;
    [[nodiscard]] uint64_t bytes() const { return count * size_of(type); }
};

// A parameter of a function. `pointer` is true if it is marked .ptr.
struct Parameter : Variable {
    bool pointer = false;
    Space pointee = Space::generic;
};

// A kernel (.entry) or another function (.func).
struct Function {
    std::string name;
    bool entry = false;  // true for .entry, and false for .func
    // The function is declared without a body: vprintf, __assertfail, malloc.
    bool external = false;
    std::vector<Parameter> parameters;
    std::vector<Parameter> results;
    std::vector<Register> registers;
    // The .local, .shared and call-site .param variables of the body.
    std::vector<Variable> variables;
    std::vector<Instruction> body;
    // The lists of .branchtargets.
    std::map<std::string, std::vector<uint32_t>, std::less<>> branch_targets;
    // For each .callprototype: its result, if it has one.
    std::map<std::string, Parameter, std::less<>> prototypes;
    // The numbers of each directive by its name. For example, "maxntid" has {256, 1, 1}.
    std::map<std::string, std::vector<uint32_t>, std::less<>> directives;
    SourceLine source;
};

struct Module {
    std::unique_ptr<const std::string> text;
    uint32_t version_major = 0;
    uint32_t version_minor = 0;
    std::string target;  // for example, "sm_90"
    uint32_t address_size = 64;
    std::vector<Variable> variables;  // the variables of module scope: .global, .const, .shared
    std::vector<Function> functions;
    std::map<uint32_t, std::string> files;  // the names from .file directives
    // The names from .alias directives. find_function follows them.
    std::map<std::string, std::string, std::less<>> aliases;
    // The addresses of functions in the machine code that was assembled from this text. The map is
    // empty if they are not known.
    std::map<std::string, uint64_t, std::less<>> function_addresses;

    [[nodiscard]] const Function* find_function(std::string_view name) const;
    [[nodiscard]] const Variable* find_variable(std::string_view name) const;
};

// Parses PTX text (ISA 6.0 to 9.x). Throws PtxError with line and column.
[[nodiscard]] Module parse(std::string text);

}  // namespace coalesce::ptx
