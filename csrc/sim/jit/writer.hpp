// Writes LLVM instructions for one value per warp, or for one value per lane.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace coalesce::sim::jit {

// The type of a value in one lane: an integer or a floating-point number.
struct LaneType {
    bool floating = false;
    uint8_t bits = 32;
    bool operator==(const LaneType&) const = default;
};

// Appends instructions to a text. `wide` says whether values have 32 lanes, or only one.
class Writer {
  public:
    bool wide = true;
    std::string* text = nullptr;

    // Appends an instruction with a result, and returns the name of the result.
    std::string operator()(const std::string& instruction) {
        std::string name = "%v" + std::to_string(next_++);
        *text += "  " + name + " = " + instruction + "\n";
        return name;
    }
    void line(const std::string& instruction) { *text += "  " + instruction + "\n"; }
    void label(const std::string& name) { *text += name + ":\n"; }
    std::string new_label(const char* what) { return what + std::to_string(next_++); }

    static std::string scalar(LaneType t) {
        if (!t.floating) return "i" + std::to_string(t.bits);
        return t.bits == 32 ? "float" : "double";
    }
    [[nodiscard]] std::string type(LaneType t) const {
        return wide ? "<32 x " + scalar(t) + ">" : scalar(t);
    }
    [[nodiscard]] std::string i(int bits) const { return type({false, uint8_t(bits)}); }
    [[nodiscard]] std::string f(int bits) const { return type({true, uint8_t(bits)}); }
    [[nodiscard]] std::string bools() const { return wide ? "<32 x i1>" : "i1"; }
    // A constant.
    [[nodiscard]] std::string c(int64_t value, int bits) const {
        const std::string number = std::to_string(value);
        return wide ? "splat (i" + std::to_string(bits) + " " + number + ")" : number;
    }
    // The suffix of an intrinsic, such as ".v32f32".
    [[nodiscard]] std::string suffix(LaneType t) const {
        return (wide ? ".v32" : ".") + std::string(t.floating ? "f" : "i") + std::to_string(t.bits);
    }
    std::string binary(const char* op, LaneType t, const std::string& a, const std::string& b) {
        return (*this)(std::string(op) + " " + type(t) + " " + a + ", " + b);
    }
    std::string cast(const char* op, LaneType from, LaneType to, const std::string& a) {
        return (*this)(std::string(op) + " " + type(from) + " " + a + " to " + type(to));
    }
    std::string choose(const std::string& condition, LaneType t, const std::string& a,
                       const std::string& b) {
        return (*this)("select " + bools() + " " + condition + ", " + type(t) + " " + a + ", " +
                       type(t) + " " + b);
    }
    std::string compare(const char* how, LaneType t, const std::string& a, const std::string& b) {
        return (*this)(std::string(t.floating ? "fcmp " : "icmp ") + how + " " + type(t) + " " + a +
                       ", " + b);
    }
    std::string intrinsic(const char* name, LaneType t, const std::vector<std::string>& operands) {
        std::string s = "call " + type(t) + " @llvm." + name + suffix(t) + "(";
        for (size_t n = 0; n < operands.size(); ++n)
            s += (n ? ", " : "") + type(t) + " " + operands[n];
        return (*this)(s + ")");
    }

  private:
    uint32_t next_ = 0;
};

}  // namespace coalesce::sim::jit
