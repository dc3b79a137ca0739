#include "sim/decode/matrix_forms.hpp"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <string_view>

namespace coalesce::sim {

using ptx::Space;

bool element_named(std::string_view name, Element& element) {
    using enum Element;
    static constexpr struct {
        std::string_view name;
        Element element;
    } all[] = {{"f16", f16},   {"bf16", bf16}, {"tf32", tf32}, {"f32", f32}, {"f64", f64},
               {"e4m3", e4m3}, {"e5m2", e5m2}, {"s8", s8},     {"u8", u8},   {"s4", s4},
               {"u4", u4},     {"b1", b1},     {"s32", s32}};
    for (const auto& one : all) {
        if (one.name != name) continue;
        element = one.element;
        return true;
    }
    return false;
}

namespace {

// Reads a shape such as "m16n8k16".
bool shape_named(std::string_view text, Shape3& shape) {
    int* const parts[] = {&shape.m, &shape.n, &shape.k};
    for (int i = 0; i < 3; ++i) {
        if (text.empty() || text[0] != "mnk"[i]) return false;
        text.remove_prefix(1);
        const auto [end, error] =
            std::from_chars(text.data(), text.data() + text.size(), *parts[i]);
        if (error != std::errc{}) return false;
        text.remove_prefix(size_t(end - text.data()));
    }
    return text.empty();
}

// Sets how tensor cores add and round products of floating-point numbers (matrix/arithmetic.hpp).
// This depends on the compute capability (`architecture`).
void choose_rounding(Matrices& x, uint32_t architecture, bool of_fragments) {
    const bool fp8 = x.a_type == Element::e4m3 || x.a_type == Element::e5m2;
    x.step = uint8_t(x.k);
    x.fraction_bits = 25;
    if (fp8 && (architecture == 89 || architecture >= 120)) {
        if (architecture >= 120) return;
        x.fraction_bits = x.result_bits = 13;
        x.step = 16;
        return;
    }
    if (fp8) {
        x.arithmetic = Arithmetic::in_halves;
        return;
    }
    const bool tf32 = x.a_type == Element::tf32;
    if (tf32 && of_fragments) x.step = 4;  // ptxas does the same
    if (architecture >= 90) return;
    x.fraction_bits = architecture >= 75 ? 24 : 23;
    x.step = std::min<uint8_t>(x.step, architecture < 75 || tf32 ? 4 : 8);
}

}  // namespace

Form form_of(const ptx::Instruction& in) {
    Form f;
    for (const std::string_view m : in.modifiers) {
        Element element{};
        if (m == "row" || m == "col")
            f.by_rows.push_back(m == "row");
        else if (element_named(m, element))
            f.elements.push_back(element);
        else if (m == "satfinite")
            f.saturates = true;
        else if (m == "and" || m == "xor")
            (m == "and" ? f.and_popc : f.xor_popc) = true;
        else if (m == "global" || m == "shared" || m == "shared::cta")
            f.space = m == "global" ? Space::global : Space::shared;
        else if (m == "a" || m == "b" || m == "c" || m == "d")
            f.operand = m[0];
        else if (m != "sync" && m != "aligned" && m != "popc" && m != "load" && m != "store" &&
                 m != "mma" && m != "rn" && !shape_named(m, f.shape))
            f.known = false;
    }
    return f;
}

bool is_integer(Element e) {
    return e == Element::s8 || e == Element::u8 || e == Element::s4 || e == Element::u4;
}

MatrixKind choose_arithmetic(Matrices& x, const Form& f, uint32_t architecture, bool in_quads,
                             bool of_fragments) {
    if (in_quads) return MatrixKind::in_floats;
    if (x.a_type == Element::f64) return MatrixKind::doubles;
    if (is_integer(x.a_type))
        x.arithmetic = Arithmetic::integers;
    else if (x.a_type == Element::b1)
        x.arithmetic = f.xor_popc ? Arithmetic::bits_xor : Arithmetic::bits_and;
    else
        choose_rounding(x, architecture, of_fragments);
    return MatrixKind::product;
}

uint32_t least_architecture(const Shape3& s, Element a, bool and_popc) {
    switch (a) {
        case Element::f16:
            return s.k == 4 ? 70 : s.k == 8 ? 75 : 80;
        case Element::f64:
            return s.m == 8 ? 80 : 90;
        case Element::e4m3:
        case Element::e5m2:
            return 89;
        case Element::bf16:
        case Element::tf32:
            return 80;
        case Element::b1:
            return s.m == 8 && !and_popc ? 75 : 80;
        default:
            return s.m == 8 ? 75 : 80;
    }
}

bool is_form_of_mma(const Shape3& s, Element a) {
    const auto one_of = [&](std::initializer_list<Shape3> shapes) {
        return std::find(shapes.begin(), shapes.end(), s) != shapes.end();
    };
    switch (a) {
        case Element::f16:
            return one_of({{8, 8, 4}, {16, 8, 8}, {16, 8, 16}});
        case Element::bf16:
            return one_of({{16, 8, 8}, {16, 8, 16}});
        case Element::tf32:
            return one_of({{16, 8, 4}, {16, 8, 8}});
        case Element::f64:
            return one_of({{8, 8, 4}, {16, 8, 4}, {16, 8, 8}, {16, 8, 16}});
        case Element::e4m3:
        case Element::e5m2:
            return one_of({{16, 8, 16}, {16, 8, 32}});
        case Element::s8:
        case Element::u8:
            return one_of({{8, 8, 16}, {16, 8, 16}, {16, 8, 32}});
        case Element::s4:
        case Element::u4:
            return one_of({{8, 8, 32}, {16, 8, 32}, {16, 8, 64}});
        case Element::b1:
            return one_of({{8, 8, 128}, {16, 8, 128}, {16, 8, 256}});
        default:
            return false;
    }
}

bool is_form_of_wmma(const Shape3& s, Element a) {
    const bool of_16 = s == Shape3{16, 16, 16} || s == Shape3{32, 8, 16} || s == Shape3{8, 32, 16};
    switch (a) {
        case Element::f16:
        case Element::bf16:
        case Element::s8:
        case Element::u8:
            return of_16;
        case Element::tf32:
            return s == Shape3{16, 16, 8};
        case Element::f64:
            return s == Shape3{8, 8, 4};
        case Element::s4:
        case Element::u4:
            return s == Shape3{8, 8, 32};
        case Element::b1:
            return s == Shape3{8, 8, 128};
        default:
            return false;
    }
}

size_t fragment_registers(const Shape3& s, char operand, Element e) {
    if (operand == 'c' || operand == 'd')
        return size_t(s.m * s.n / 32) / (e == Element::f16 ? 2 : 1);
    if (e == Element::f16) return 8;
    const int elements = (operand == 'a' ? s.m : s.n) * s.k / 32;
    return size_t(std::max(1, e == Element::f64 ? elements : elements * bits_of(e) / 32));
}

}  // namespace coalesce::sim
