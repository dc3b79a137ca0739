// A parsed PTX module: functions, variables and instructions, with all names resolved.
//
// METHOD
// The parser keeps an instruction as PTX writes it: an opcode ("ld"), its modifiers in order
// ("global", "nc", "v4", "f32"), a guard and operands. It does not know which combinations exist.
// csrc/sim defines what instructions do. Therefore any instruction of any PTX ISA can be parsed,
// and an unknown one is reported with its source line and not as a syntax error. Names are resolved
// here: a register is an index into Function::registers, a label an index into Function::body.
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

// A fundamental type, as in ".f32". Instructions may also have b128, packed and narrow formats as
// modifiers; csrc/sim knows some of these.
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

[[nodiscard]] uint32_t size_of(Type type);          // bytes; 0 for none and pred
[[nodiscard]] bool is_signed(Type type);            // s8 to s64
[[nodiscard]] std::string_view name_of(Type type);  // "f32"
// "f32" -> Type::f32; Type::none if there is no such type
[[nodiscard]] Type type_named(std::string_view name);

enum class Space : uint8_t { generic, reg, param, local, shared, global, constant };

struct Position {  // in the PTX text; both start at 1
    uint32_t line = 0;
    uint32_t column = 0;
};

struct SourceLine {     // in the CUDA source, from a .loc directive; line 0: unknown
    uint32_t file = 0;  // key of Module::files
    uint32_t line = 0;
    uint32_t column = 0;
    bool operator==(const SourceLine&) const = default;
};

struct Register {
    std::string name;  // "%r12"; "v.x" for a component of a vector register
    Type type = Type::none;
};

struct Operand {
    enum class Kind : uint8_t {
        reg,      // %r1                      reg
        integer,  // 12, -1, 0x7f             bits (two's complement, 64 bits)
        f32,      // 0f3F800000               bits (the float's 32 bits)
        f64,      // 0d3FF0..., 1.5           bits (the double's 64 bits)
        symbol,   // variable, parameter, function, branch-target list, call prototype: name
        special,  // %tid.x, %laneid          name, with the '%' and the suffix
        label,    // $L__BB0_2                target (an index into Function::body)
        address,  // [base+offset]            base in reg (or -1) or name; offset. [123]: offset
                  // only; [map, {x, y}]            what follows the base in elements
        vector,   // {a, b, c, d}             elements
        pair,     // a|p (shfl, setp, ...)    elements (two)
        list,     // (a, b) of a call         elements
        sink,     // _ (the result is not used)
    };
    Kind kind = Kind::sink;
    bool negated = false;  // !%p1 as a source
    int32_t reg = -1;
    uint32_t target = 0;
    uint64_t bits = 0;
    int64_t offset = 0;     // for an address, and for symbol+offset (mov.u64 %rd1, name+16)
    int32_t variable = -1;  // symbol, address: the name's index in Function::variables, or -1
                            // if it is not declared in the body (scopes may reuse a name)
    std::string_view name;
    std::vector<Operand> elements;
};

struct Instruction {
    std::string_view opcode;                  // "ld", "fma", "bar"
    std::vector<std::string_view> modifiers;  // without dots: {"global", "nc", "v4", "f32"}
    int32_t guard = -1;                       // predicate register of @%p1, or -1
    bool guard_negated = false;               // @!%p1
    std::vector<Operand> operands;
    Position position;
    SourceLine source;
    // The line that the author of the kernel wrote. If the code was inlined from another file, such
    // as a header, this is the line in the function's own file into which it was inlined. Otherwise
    // it equals `source`.
    SourceLine written;
    std::string_view text;  // the whole statement, from the guard up to the ';' (excluded)
    [[nodiscard]] bool has(std::string_view modifier) const {
        return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
    }
};

// One value of an initializer: bytes, or the address of a symbol (a string, a table of functions).
// The bits are those of an element (1 in an .f32 is 0x3F800000). Integers must be truncated to the
// size of the element. Values that the text omits are zeros here, except those at the end, which
// have no entry.
struct Initializer {
    uint64_t bits = 0;
    std::string_view symbol;  // if empty, bits holds the value; otherwise bits is an offset
    bool generic = false;     // generic(symbol)
};

struct Variable {
    std::string name;
    Space space = Space::global;
    Type type = Type::b8;
    uint32_t alignment = 1;
    uint64_t count = 1;     // elements of `type`: the product of the dimensions; 0 for name[]
    bool external = false;  // .extern (dynamic shared memory is .extern .shared name[])
    std::vector<Initializer> initial;
    [[nodiscard]] uint64_t bytes() const { return count * size_of(type); }
};

// A parameter of a function. `pointer`: it is marked .ptr.
struct Parameter : Variable {
    bool pointer = false;
    Space pointee = Space::generic;
};

struct Function {
    std::string name;
    bool entry = false;     // .entry, not .func
    bool external = false;  // declared without a body: vprintf, __assertfail, malloc
    std::vector<Parameter> parameters;
    std::vector<Parameter> results;
    std::vector<Register> registers;
    std::vector<Variable> variables;  // .local, .shared and call-site .param of the body
    std::vector<Instruction> body;
    std::map<std::string, std::vector<uint32_t>, std::less<>> branch_targets;  // .branchtargets
    // .callprototype: its result, if it has one
    std::map<std::string, Parameter, std::less<>> prototypes;
    std::map<std::string, std::vector<uint32_t>, std::less<>> directives;  // "maxntid" -> {256,1,1}
    SourceLine source;
};

struct Module {
    std::unique_ptr<const std::string> text;
    uint32_t version_major = 0;
    uint32_t version_minor = 0;
    std::string target;  // "sm_90"
    uint32_t address_size = 64;
    std::vector<Variable> variables;  // module scope: .global, .const, .shared
    std::vector<Function> functions;
    std::map<uint32_t, std::string> files;                    // .file
    std::map<std::string, std::string, std::less<>> aliases;  // .alias; find_function follows them
    // Addresses of functions in the machine code assembled from this text. If empty, they are
    // unknown.
    std::map<std::string, uint64_t, std::less<>> function_addresses;

    [[nodiscard]] const Function* find_function(std::string_view name) const;
    [[nodiscard]] const Variable* find_variable(std::string_view name) const;
};

// Parses PTX text (ISA 6.0 to 9.x). Throws PtxError with line and column.
[[nodiscard]] Module parse(std::string text);

// The module as text with one line for each declaration and instruction, for tests.
[[nodiscard]] std::string dump(const Module& module);

}  // namespace coalesce::ptx
