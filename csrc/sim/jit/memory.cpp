// Loads and stores.
//
// METHOD
// Each instruction that accesses global memory remembers the buffer that it accessed last
// (CompiledSite), so an address needs only a comparison with its bounds. If all lanes are active
// and their addresses have a constant stride, one check is enough for all lanes, and for all
// accesses of the block with this base address.
#include <algorithm>
#include <cstddef>

#include "sim/jit/translator.hpp"

namespace coalesce::sim::jit {

struct Translator::Access {
    uint32_t at;
    const Op& op;
    Elements x;
    bool stores, shared;
    int bytes;  // of all elements of a lane
    int64_t offset = 0;
    Value address = {};
    std::string mask = {};  // "" for all lanes
    [[nodiscard]] LaneType address_type() const { return {false, uint8_t(shared ? 32 : 64)}; }
    [[nodiscard]] LaneType in_memory() const { return {false, x.bits}; }
    [[nodiscard]] LaneType in_register() const { return {false, x.register_bits}; }
    // True if one check is enough.
    [[nodiscard]] bool regular() const { return mask.empty() && address.form != Form::lanes; }
};

// The address of a member of the CompiledSite of an op.
std::string Translator::site(uint32_t at, size_t member) {
    const std::string sites = field("ptr", offsetof(CompiledContext, sites));
    return e_("getelementptr i8, ptr " + sites + ", i64 " +
              num(int64_t(at * sizeof(CompiledSite) + member)));
}

// Sets result n of a load. The value has the type that the memory has.
void Translator::emit_result(const Access& a, int n, const std::string& v, Form form) {
    Value r;
    r.form = form;
    e_.wide = form == Form::lanes;
    r.bits = a.x.bits < a.x.register_bits
                 ? e_.cast(a.x.is_signed ? "sext" : "zext", a.in_memory(), a.in_register(), v)
                 : v;
    write(a.op, a.op.operand[n], r);
}

void Translator::emit_parameter(const Op& op) {
    const Access a{0, op, *meanings_.elements(op.mover), false, false, 0};
    const std::string p = field("ptr", offsetof(CompiledContext, parameters));
    for (int n = 0; n < a.x.count; ++n) {
        if (op.operand[n] == no_operand) continue;
        const std::string q = e_("getelementptr i8, ptr " + p + ", i64 " +
                                 num(op.memory().offset + n * (a.x.bits / 8)));
        emit_result(a, n, e_("load " + Writer::scalar(a.in_memory()) + ", ptr " + q + ", align 1"),
                    Form::uniform);
    }
}

void Translator::emit_memory(uint32_t at, const Meaning& m) {
    const Op& op = program_.ops[at];
    Access a{
        at, op, *meanings_.elements(op.mover), m.kind == Kind::store, m.shared, op.memory().bytes};
    a.offset = wrap(uint64_t(int64_t(op.memory().offset)), m.shared ? 32 : 64);
    a.address = read(op.operand[5], a.address_type().bits);
    a.mask = access_mask(op);
    move(a, a.regular() ? check_group(a) : check_lanes(a));
}

// Checks the addresses of all lanes, which have a constant stride, for all accesses of the block
// with this base. Returns the host address of lane 0.
std::string Translator::check_group(const Access& a) {
    const int64_t stride = a.address.stride, offset = a.offset, bytes = a.bytes;
    const int64_t rest = ((offset % bytes) + bytes) % bytes;
    Group& g = groups_[{a.shared, a.stores, a.address.id, stride, uint32_t(bytes), rest}];
    const bool known = g.low <= offset && offset + bytes <= g.high;
    g.low = std::min(g.low, offset);
    g.high = std::max(g.high, offset + bytes);
    if (g.host.empty() || !known) {
        const int64_t rise = 31 * (stride < 0 ? -stride : stride);
        const int64_t span = rise + (g.high - g.low);
        e_.wide = false;
        // The address of lane 0 for the first byte, and the lowest address of all lanes.
        std::string zero = e_.binary("add", a.address_type(), a.address.bits,
                                     num(wrap(uint64_t(g.low), a.address_type().bits)));
        if (a.shared) zero = e_.cast("zext", i32, i64, zero);
        const std::string low = stride < 0 ? e_("sub i64 " + zero + ", " + num(rise)) : zero;
        const std::string part = e_("and i64 " + zero + ", " + num(bytes - 1));
        const std::string aligned = stride % bytes ? "false" : e_("icmp eq i64 " + part + ", 0");
        const auto within = [&](const std::string& from, const std::string& size) {
            const std::string room = e_("sub i64 " + size + ", " + num(span));
            const std::string fits = e_("icmp uge i64 " + size + ", " + num(span));
            const std::string inside =
                e_("icmp ule i64 " + e_("sub i64 " + low + ", " + from) + ", " + room);
            return e_("and i1 " + fits + ", " + inside);
        };
        if (a.shared) {
            const std::string good =
                within("0", field("i64", offsetof(CompiledContext, shared_bytes)));
            leave(e_("and i1 " + aligned + ", " + good), a.at, e_.new_label("k"));
            g.host = e_("getelementptr i8, ptr %shared, i64 " + zero);
        } else {
            leave(aligned, a.at, e_.new_label("a"));
            const std::string address = site(a.at, offsetof(CompiledSite, address));
            const std::string size = site(a.at, offsetof(CompiledSite, bytes));
            const std::string good =
                within(e_("load i64, ptr " + address), e_("load i64, ptr " + size));
            const std::string hit = e_.new_label("h"), miss = e_.new_label("n");
            e_.line("br i1 " + good + ", label %" + hit + ", label %" + miss);
            e_.label(miss);
            const std::string find = field("ptr", offsetof(CompiledContext, find));
            leave(e_("call zeroext i1 " + find + "(ptr %c, i32 " + num(a.at) + ", i64 " + low +
                     ", i64 " + num(span) + ")"),
                  a.at, hit + "x");
            e_.line("br label %" + hit);
            e_.label(hit);
            const std::string host =
                e_("load ptr, ptr " + site(a.at, offsetof(CompiledSite, host)));
            const std::string from = e_("load i64, ptr " + address);
            g.host = e_("getelementptr i8, ptr " + host + ", i64 " +
                        e_("sub i64 " + zero + ", " + from));
        }
    }
    return offset == g.low ? g.host
                           : e_("getelementptr i8, ptr " + g.host + ", i64 " + num(offset - g.low));
}

// Checks the addresses of the active lanes. Returns their host addresses.
std::string Translator::check_lanes(const Access& a) {
    const LaneType t = a.address_type();
    const std::string bytes = num(a.bytes);
    e_.wide = true;
    const std::string address =
        e_.binary("add", t, lanes_of(a.address, t.bits), e_.c(a.offset, t.bits));
    const auto site_word = [&](size_t member) { return e_("load i64, ptr " + site(a.at, member)); };
    std::string size = a.shared ? field("i64", offsetof(CompiledContext, shared_bytes))
                                : site_word(offsetof(CompiledSite, bytes));
    std::string distance = address;
    if (a.shared)
        size = e_("trunc i64 " + size + " to i32");
    else
        distance =
            e_.binary("sub", t, address, splat(site_word(offsetof(CompiledSite, address)), i64));
    const std::string type = Writer::scalar(t);
    const std::string room = e_("call " + type + " @llvm.usub.sat." + type + "(" + type + " " +
                                size + ", " + type + " " + bytes + ")");
    std::string bad = e_.compare("ugt", t, distance, splat(room, t));
    if (a.bytes > 1) {
        const std::string part = e_.binary("and", t, address, e_.c(a.bytes - 1, t.bits));
        bad = e_("or <32 x i1> " + bad + ", " + e_.compare("ne", t, part, e_.c(0, t.bits)));
    }
    std::string outside = e_("bitcast <32 x i1> " + bad + " to i32");
    if (!a.mask.empty()) outside = e_("and i32 " + outside + ", " + a.mask);
    std::string good = e_("and i1 " + e_("icmp uge " + type + " " + size + ", " + bytes) + ", " +
                          e_("icmp eq i32 " + outside + ", 0"));
    if (!a.mask.empty()) good = e_("or i1 " + good + ", " + e_("icmp eq i32 " + a.mask + ", 0"));
    if (a.shared) {
        leave(good, a.at, e_.new_label("k"));
        return e_("getelementptr i8, ptr %shared, <32 x i32> " + address);
    }
    const std::string hit = e_.new_label("h"), miss = e_.new_label("n");
    e_.line("br i1 " + good + ", label %" + hit + ", label %" + miss);
    e_.label(miss);
    const std::string to = field("ptr", offsetof(CompiledContext, addresses));
    e_.line("store <32 x i64> " + address + ", ptr " + to + ", align 64");
    const std::string find = field("ptr", offsetof(CompiledContext, find_lanes));
    leave(e_("call zeroext i1 " + find + "(ptr %c, i32 " + num(a.at) + ", i32 " +
             (a.mask.empty() ? "-1" : a.mask) + ")"),
          a.at, hit + "x");
    e_.line("br label %" + hit);
    e_.label(hit);
    const std::string host = site_word(offsetof(CompiledSite, host));
    const std::string by =
        e_("sub i64 " + host + ", " + site_word(offsetof(CompiledSite, address)));
    e_.wide = true;
    return e_("inttoptr <32 x i64> " + e_.binary("add", i64, address, splat(by, i64)) +
              " to <32 x ptr>");
}

// Moves the elements. `host` is the host address of lane 0 if the access is regular. Otherwise it
// has the addresses of all lanes.
void Translator::move(const Access& a, const std::string& host) {
    const int each = a.x.bits / 8;
    const int64_t stride = a.address.stride;
    const std::string one = Writer::scalar(a.in_memory()), all = "<32 x " + one + ">";
    const bool uniform = a.regular() && a.address.form == Form::uniform;
    const bool row = a.address.form == Form::affine && stride == a.bytes && a.x.count == 1;
    if (a.regular() && stride == a.bytes && !row && !a.stores) {
        // The elements of all lanes are adjacent.
        const std::string whole = "<" + num(warp_size * a.x.count) + " x " + one + ">";
        const std::string v = e_("load " + whole + ", ptr " + host + ", align " + num(each));
        for (int n = 0; n < a.x.count; ++n) {
            std::string order;
            for (int i = 0; i < warp_size; ++i)
                order += (i ? ", i32 " : "i32 ") + num(i * a.x.count + n);
            if (a.op.operand[n] != no_operand)
                emit_result(a, n,
                            e_("shufflevector " + whole + " " + v + ", " + whole +
                               " poison, <32 x i32> <" + order + ">"),
                            Form::lanes);
        }
        return;
    }
    std::string p = host;
    if (row && !a.regular()) p = e_("extractelement <32 x ptr> " + host + ", i64 0");
    if (!row && !uniform && a.regular())
        p = e_("getelementptr i8, ptr " + host + ", <32 x i64> " +
               lanes_of({Form::affine, stride, "0"}, 64));
    const bool scattered = !row && !uniform;
    const std::string pointer = scattered ? "<32 x ptr> " : "ptr ";
    const std::string active = a.mask.empty() ? "splat (i1 true)" : bools_of(a.mask);
    const std::string suffix = ".v32" + one + (scattered ? ".v32p0(" : ".p0(");
    const std::string align = ", i32 " + num(each) + ", <32 x i1> " + active;
    for (int n = 0; n < a.x.count; ++n) {
        if (a.op.operand[n] == no_operand) continue;
        const std::string q =
            pointer + (n ? e_("getelementptr i8, " + pointer + p + ", i64 " + num(n * each)) : p);
        if (!a.stores) {
            const std::string v =
                uniform ? e_("load " + one + ", " + q + ", align " + num(each))
                        : e_("call " + all + " @llvm.masked." + (scattered ? "gather" : "load") +
                             suffix + q + align + ", " + all + " zeroinitializer)");
            emit_result(a, n, v, uniform ? Form::uniform : Form::lanes);
            continue;
        }
        std::string v = lanes_of(read(a.op.operand[n], a.x.register_bits), a.x.register_bits);
        e_.wide = true;
        if (a.x.bits < a.x.register_bits) v = e_.cast("trunc", a.in_register(), a.in_memory(), v);
        if (uniform)  // the last lane stores last
            e_.line("store " + one + " " + e_("extractelement " + all + " " + v + ", i64 31") +
                    ", " + q + ", align " + num(each));
        else
            e_.line(std::string("call void @llvm.masked.") + (scattered ? "scatter" : "store") +
                    suffix + all + " " + v + ", " + q + align + ")");
    }
}

}  // namespace coalesce::sim::jit
