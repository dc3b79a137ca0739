// Generates PTX modules that are nearly valid. Every instruction is one that the simulator
// supports. Most operands have the right type. Some operands have a wrong width, class or state
// space, and some instructions have a wrong number of operands.
//
// METHOD
// A form is the text of an instruction with placeholders. A placeholder is '$' and a letter. It is
// replaced by a random operand of the type that was chosen for `$t`, a random register of a given
// width, or a random address in a state space. So most modules can be decoded and run, and the
// others have one error. All choices come from one random number generator, so a seed always yields
// the same modules.
#pragma once

#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace coalesce {

class PtxGenerator {
  public:
    explicit PtxGenerator(std::mt19937& random) : random_(random) {}

    std::string module() {
        // One module in four has no wrong operand. The other modules have some.
        wrong_ = below(4) ? 8 + below(120) : 0;
        std::string text =
            ".version 8.5\n.target sm_90\n.address_size 64\n"
            ".global .align 16 .b8 gv[256]; .const .align 16 .b8 cv[64] = {1, 2, 3, 4};\n"
            ".shared .align 16 .b8 sv[512]; .extern .shared .align 16 .b8 dyn[];\n"
            ".global .align 8 .u64 table[2] = {f, cv};\n"
            ".func (.param .b32 fr) f(.param .b32 fa, .param .align 8 .b8 fb[16])\n{\n" +
            declarations() + " ld.param.u32 %r1, [fa]; ld.param.u64 %d1, [fb+8];\n";
        in_kernel_ = false;
        text += body(below(6)) + " st.param.b32 [fr], %r1;\n ret;\n}\n";
        in_kernel_ = true;
        text +=
            ".visible .entry k(.param .u64 data, .param .u64 more, .param .u32 n, "
            ".param .align 8 .b8 s[24])\n{\n" +
            declarations() +
            " ld.param.u64 %a0, [data]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;\n"
            " mad.wide.u32 %a1, %r0, 16, %a0; mov.u64 %a2, sv; mov.u64 %a3, lv;\n"
            " shl.b32 %w0, %r0, 2; mul.wide.u32 %d0, %r0, 40503; cvt.rn.f32.u32 %f0, %r0;\n"
            " setp.lt.u32 %p0, %r0, 9; setp.eq.u32 %p1, %r1, 0; and.b32 %w1, %r0, 15;\n"
            " shl.b32 %w1, %w1, 4;\n"
            " mov.b32 %f1, %r1; cvt.u16.u32 %h0, %r0; cvt.rn.f64.u32 %g0, %r0;\n" +
            body(1 + below(24)) +
            " st.global.u32 [%a1], %r1; st.global.u32 [%a1+4], %r2;\n"
            " st.global.f32 [%a1+8], %f1; st.global.u32 [%a1+12], %w1;\n ret;\n}\n";
        return text;
    }

  private:
    struct Form {
        const char* text;
        const char* types;
    };

    static std::string declarations() {
        return " .reg .pred %p<4>; .reg .b8 %b<4>; .reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 "
               "%d<4>;\n .reg .f32 %f<4>; .reg .f64 %g<4>; .reg .b64 %a<4>; .reg .b32 %w<2>; .reg "
               ".v4 .b32 %v;\n .local .align 16 .b8 lv[64];\n";
    }

    size_t below(size_t n) { return random_() % n; }
    bool goes_wrong() { return wrong_ && below(wrong_) == 0; }
    std::string_view pick(const std::vector<std::string_view>& from) {
        return from[below(from.size())];
    }

    std::string body(size_t instructions) {
        std::string text;
        const size_t labels = below(3);
        size_t next = 0;
        const bool loops = below(8) == 0;
        for (size_t i = 0; i < instructions; ++i) {
            if (next < labels && below(4) == 0) text += "L" + std::to_string(next++) + ":\n";
            if (next < labels && below(5) == 0)
                text += " " + guard(true) + "bra L" + std::to_string(next + below(labels - next)) +
                        ";\n";
            if (loops && next > 0 && below(6) == 0)
                text += " " + guard(true) + "bra L" + std::to_string(below(next)) + ";\n";
            const std::string made = instruction();
            text += " " + (made[0] == '{' ? "" : guard(false)) + made + ";\n";
        }
        while (next < labels) text += "L" + std::to_string(next++) + ":\n";
        return text;
    }

    std::string guard(bool mostly) {
        if (below(5) && !mostly) return "";
        return std::string(below(2) ? "@%p" : "@!%p") + std::to_string(below(4)) + " ";
    }

    std::string instruction() {
        static constexpr Form forms[] = {
            {"add.$t $D, $S, $S", "u16 s16 u32 s32 u64 s64 f32 f64 f16 f16x2 bf16 bf16x2 u16x2"},
            {"sub.$t $D, $S, $S", "u16 s16 u32 s32 u64 s64 f32 f64 f16 f16x2 bf16x2"},
            {"add.sat.$t $D, $S, $S", "s32 f32 f16x2"},
            {"add.cc.$t $D, $S, $S", "u32 s32 u64 s64"},
            {"addc.cc.$t $D, $S, $S", "u32 s32 u64 s64"},
            {"subc.$t $D, $S, $S", "u32 s32 u64 s64"},
            {"mul.lo.$t $D, $S, $S", "u16 s16 u32 s32 u64 s64"},
            {"mul.hi.$t $D, $S, $S", "u16 s16 u32 s32 u64 s64"},
            {"mul.wide.$t $W, $S, $S", "u16 s16 u32 s32"},
            {"mul.rn.$t $D, $S, $S", "f32 f64"},
            {"mad.lo.$t $D, $S, $S, $S", "u16 s16 u32 s32 u64 s64"},
            {"mad.wide.$t $W, $S, $S, $X", "u16 s16 u32 s32"},
            {"madc.hi.cc.$t $D, $S, $S, $S", "u32 s32 u64"},
            {"fma.rn.$t $D, $S, $S, $S", "f32 f64 f16 f16x2 bf16 bf16x2"},
            {"fma.rz.$t $D, $S, $S, $S", "f32 f64"},
            {"mad24.lo.$t $D, $S, $S, $S", "u32 s32"},
            {"sad.$t $D, $S, $S, $S", "u16 s16 u32 s32 u64 s64"},
            {"div.$t $D, $S, $S", "u16 s16 u32 s32 u64 s64"},
            {"div.rn.$t $D, $S, $S", "f32 f64"},
            {"rem.$t $D, $S, $S", "u16 s16 u32 s32 u64 s64"},
            {"rcp.rp.$t $D, $S", "f32 f64"},
            {"sqrt.rn.$t $D, $S", "f32 f64"},
            {"rsqrt.approx.$t $D, $S", "f32 f64"},
            {"sin.approx.$t $D, $S", "f32"},
            {"ex2.approx.$t $D, $S", "f32 f16 f16x2"},
            {"abs.$t $D, $S", "s16 s32 s64 f32 f64 f16 f16x2"},
            {"neg.$t $D, $S", "s16 s32 s64 f32 f64 f16 bf16x2"},
            {"min.$t $D, $S, $S", "u16 s16 u32 s32 u64 s64 f32 f64 f16 f16x2 s16x2"},
            {"max.$t $D, $S, $S", "u16 s16 u32 s32 u64 s64 f32 f64 bf16 bf16x2"},
            {"copysign.$t $D, $S, $S", "f32 f64"},
            {"testp.finite.$t $P, $S", "f32 f64"},
            {"popc.$t $R, $S", "b32 b64"},
            {"clz.$t $R, $S", "b32 b64"},
            {"bfind.$t $R, $S", "u32 s32 u64 s64"},
            {"brev.$t $D, $S", "b32 b64"},
            {"fns.b32 $R, $r, $r, $r", "b32"},
            {"bfe.$t $D, $S, $r, $r", "u32 s32 u64 s64"},
            {"bfi.$t $D, $S, $S, $r, $r", "b32 b64"},
            {"szext.clamp.$t $D, $S, $r", "u32 s32"},
            {"bmsk.wrap.b32 $R, $r, $r", "b32"},
            {"and.$t $D, $S, $S", "pred b16 b32 b64"},
            {"xor.$t $D, $S, $S", "pred b16 b32 b64"},
            {"not.$t $D, $S", "pred b16 b32 b64"},
            {"cnot.$t $D, $S", "b16 b32 b64"},
            {"shl.$t $D, $S, $r", "b16 b32 b64"},
            {"shr.$t $D, $S, $r", "b16 b32 b64 u16 s16 u32 s32 u64 s64"},
            {"shf.l.wrap.b32 $R, $r, $r, $r", "b32"},
            {"lop3.b32 $R, $r, $r, $r, $i", "b32"},
            {"prmt.b32 $R, $r, $r, $r", "b32"},
            {"dp4a.s32.u32 $R, $r, $r, $r", "b32"},
            {"vadd4.s32.u32.s32.sat $R, $r, $r, $r", "b32"},
            {"setp.lt.$t $P, $S, $S", "u16 s16 u32 s32 u64 s64 f32 f64"},
            {"setp.ge.and.$t $P|$P, $S, $S, $p", "u16 s32 u64 f32 f64"},
            {"setp.eq.$t $P|$P, $S, $S", "f16x2"},
            {"set.ne.u32.$t $R, $S, $S", "u16 s32 u64 f32 f64"},
            {"selp.$t $D, $S, $S, $p", "b16 b32 b64 f32 f64"},
            {"slct.$t.s32 $D, $S, $S, $r", "b16 b32 b64 f32"},
            {"mov.$t $D, $S", "pred b16 u16 b32 u32 b64 s64 f32 f64"},
            {"mov.b64 $L, {$r, $r}", "b64"},
            {"mov.b64 {$R, $R}, $l", "b64"},
            {"mov.b64 $L, {$h, $h, $h, $h}", "b64"},
            {"mov.b32 $R, {$h, $h}", "b32"},
            {"mov.b32 {$H, $H}, $r", "b32"},
            {"mov.b32 $R, {$b, $b, $b, $b}", "b32"},
            {"mov.b32 {$B, $B, $B, $B}, $r", "b32"},
            {"mov.u32 $R, $s", "u32"},
            {"mov.u64 $L, $m", "u64"},
            {"cvta.global.u64 $L, $l", "u64"},
            {"cvta.to.shared.u64 $L, $l", "u64"},
            {"isspacep.local $P, $l", "u64"},
            {"createpolicy.fractional.L2::evict_last.b64 $L, $S", "f32"},
            {"cvt.$t.u32 $D, $r", "u8 s8 u16 s16 u32 s32 u64 s64"},
            {"cvt.$t.s64 $D, $l", "u8 s8 u16 s16 u32 s32 u64 s64"},
            {"cvt.u32.$t $R, $S", "u8 s8 u16 s16 u32 s32 u64 s64"},
            {"cvt.rn.f32.$t $F, $S", "u8 s16 u32 s64 f64"},
            {"cvt.rzi.$t.f32 $D, $f", "u8 s8 u16 s16 u32 s32 u64 s64 f32"},
            {"cvt.sat.$t.s32 $D, $r", "u8 s8 u16 s16"},
            {"cvt.rn.f16.f32 $H, $f", "f16"},
            {"cvt.f32.f16 $F, $h", "f16"},
            {"cvt.rn.bf16x2.f32 $R, $f, $f", "b32"},
            {"cvt.pack.sat.u8.s32.b32 $R, $r, $r, $r", "b32"},
            {"ld$e.$t $D, $A", "u8 s8 u16 s16 b32 u32 s64 b64 f32 f64"},
            {"ld$e.v2.$t {$D, $D}, $A", "u8 s16 u32 b64 f32 f64"},
            {"ld$e.v4.$t {$D, $D, $D, $D}, $A", "u8 b16 u32 f32"},
            {"ld.global.nc.v4.$t %v, $G", "u32"},
            {"ld.volatile$e.$t $D, $A", "u32 f32"},
            {"st$e.$t $A, $S", "u8 b16 b32 u32 b64 f32 f64"},
            {"st$e.v2.$t $A, {$S, $S}", "u8 b16 u32 b64 f32"},
            {"st$e.v4.$t $A, {$S, $S, $S, $S}", "u8 u16 u32 f32"},
            {"ld.param.$t $D, $K", "u8 u16 u32 u64 f32"},
            {"atom.global.add.$t $D, $G, $S", "u32 s32 u64 f32 f64 f16 f16x2"},
            {"atom$e.exch.$t $D, $A, $S", "b32 b64"},
            {"atom.shared.cas.$t $D, $M, $S, $S", "b16 b32 b64"},
            {"atom.global.max.$t $D, $G, $S", "u32 s32 u64 s64"},
            {"red.global.add.$t $G, $S", "u32 u64 f32"},
            {"red.shared.inc.u32 $M, $r", "u32"},
            {"atom.global.add.v2.f32 {$F, $F}, $G, {$f, $f}", "f32"},
            {"cp.async.ca.shared.global $M, $G, $n", "b32"},
            {"cp.async.cg.shared.global $M, $G, 16, $r", "b32"},
            {"cp.async.commit_group", "b32"},
            {"cp.async.wait_group 0", "b32"},
            {"cp.async.wait_all", "b32"},
            {"membar.gl", "b32"},
            {"fence.acq_rel.gpu", "b32"},
            {"shfl.sync.idx.b32 $R|$P, $r, $r, 31, -1", "b32"},
            {"shfl.sync.down.b32 $F, $f, 1, $r, -1", "b32"},
            {"vote.sync.ballot.b32 $R, $p, -1", "b32"},
            {"vote.sync.all.pred $P, $p, $r", "b32"},
            {"match.any.sync.b64 $R, $l, -1", "b32"},
            {"match.all.sync.b32 $R|$P, $r, -1", "b32"},
            {"redux.sync.add.s32 $R, $r, -1", "b32"},
            {"activemask.b32 $R", "b32"},
            {"elect.sync $R|$P, -1", "b32"},
            {"bar.warp.sync -1", "b32"},
            {"bar.sync $j", "b32"},
            {"bar.arrive $j, 64", "b32"},
            {"bar.red.popc.u32 $R, $j, $p", "b32"},
            {"bar.red.and.pred $P, 0, $p", "b32"},
            {"nanosleep.u32 20", "b32"},
            {"prefetch.global.L2 $G", "b32"},
            {"{ .param .b32 x; .param .align 8 .b8 y[16]; .param .b32 z; st.param.b32 [x$o], $r; "
             "st.param.b64 [y+8$o], $l; call (z), f, (x, y); ld.param.b32 $R, [z$o]; }",
             "b32"},
            {"{ .param .b32 x; .param .align 8 .b8 y[16]; .param .b32 z; .reg .b64 %q; "
             "st.param.b32 [x], $r; ld.global.u64 %q, [table$o]; q: .callprototype (.param .b32 _) "
             "_ (.param .b32 _, .param .align 8 .b8 _[16]); call (z), %q, (x, y), q; "
             "ld.param.b32 $R, [z]; }",
             "b32"},
            {"exit", "b32"},
            {"ret", "b32"},
            {"trap", "b32"},
        };
        const size_t ends = 3;  // the last forms are instructions that end the body
        const size_t n = std::size(forms) - (below(40) ? ends : 0);
        const Form& form = forms[below(n)];
        type_ = word_of(form.types);
        if (goes_wrong()) type_ = word_of("pred b8 b16 b32 b64 u8 s8 u16 s64 f16 f16x2 f32 f64");
        static constexpr std::string_view spaces[] = {"global", "shared", "local",
                                                      "const",  "param",  ""};
        space_ = spaces[below(below(3) ? 2 : 6)];
        const std::string_view opcode = form.text;
        const bool widens = opcode.starts_with("ld") || opcode.starts_with("st$") ||
                            opcode.starts_with("cvt.$t") || opcode.starts_with("cvt.u32.$t");
        wider_ = widens && below(3) == 0 ? (below(2) ? 'r' : 'd') : '\0';
        std::string text;
        for (const char* c = form.text; *c; ++c) {
            if (*c == '$')
                text += operand(*++c);
            else
                text += *c;
        }
        return text;
    }

    std::string_view word_of(std::string_view words) {
        std::vector<std::string_view> list;
        while (!words.empty()) {
            const size_t end = std::min(words.find(' '), words.size());
            list.push_back(words.substr(0, end));
            words.remove_prefix(std::min(end + 1, words.size()));
        }
        return pick(list);
    }

    // Returns the first letter of the names of the registers for a type. `doubled` selects
    // registers of twice the width.
    static char file_of(std::string_view type, bool doubled = false) {
        if (type == "pred") return 'p';
        if (type == "f32") return 'f';
        if (type == "f64") return 'g';
        const bool narrow = type.ends_with("16") || type == "f16" || type == "bf16";
        const bool eight = type == "u8" || type == "s8" || type == "b8";
        if (type.ends_with("64") || (doubled && type.ends_with("32"))) return 'd';
        return (narrow || eight) && !doubled ? 'h' : 'r';
    }

    std::string reg(char file, bool written) {
        if (goes_wrong()) return anything();
        // Most address registers are not overwritten.
        if (file == 'd' && !written && below(6) == 0) file = 'a';
        return std::string("%") + file + std::to_string(below(4));
    }

    std::string source(char file) {
        if (below(6) || file == 'p') return reg(file, false);
        if (file == 'f') return "0f3F800000";
        if (file == 'g') return "0d4000000000000000";
        return number();
    }

    std::string number() {
        static constexpr std::string_view numbers[] = {"0",     "1",    "-1",    "2",          "7",
                                                       "31",    "32",   "64",    "0x80000000", "16",
                                                       "65535", "1000", "0xffff"};
        return std::string(numbers[below(std::size(numbers))]);
    }

    std::string offset(size_t step) {
        static constexpr std::string_view far[] = {"4",
                                                   "-4",
                                                   "64",
                                                   "252",
                                                   "-64",
                                                   "4092",
                                                   "65536",
                                                   "524288",
                                                   "-1",
                                                   "3",
                                                   "16777216",
                                                   "-9223372036854775808",
                                                   "9223372036854775807",
                                                   "4294967292"};
        if (goes_wrong()) return "+" + std::string(far[below(std::size(far))]);
        return below(2) ? "+" + std::to_string(step * below(4)) : "";
    }

    std::string address(std::string_view space) {
        if (goes_wrong()) space = word_of("global shared local const param none");
        const auto in = [&](std::string_view what) {
            return "[" + std::string(what) + offset(16) + "]";
        };
        if (goes_wrong()) return in(anything());
        if (space == "shared") return in(word_of("sv %w0 %w1 %a2 dyn"));
        if (space == "local") return in(word_of("lv %a3"));
        if (space == "const") return in("cv");
        if (space == "param") return in(word_of(in_kernel_ ? "s data n" : "fa fb"));
        return in(word_of("%a1 %a1 %a0 gv"));
    }

    std::string operand(char code) {
        switch (code) {
            case 't':
                return std::string(type_);
            case 'e':
                return space_.empty() ? "" : "." + std::string(space_);
            case 'D':
            case 'S': {
                char file = file_of(type_);
                if (file == 'h' && wider_) file = wider_;
                return code == 'D' ? reg(file, true) : source(file);
            }
            case 'W':
                return reg(file_of(type_, true), true);
            case 'X':
                return source(file_of(type_, true));
            case 'P':
            case 'R':
            case 'F':
            case 'H':
            case 'B':
                return reg(char(code - 'A' + 'a'), true);
            case 'L':
                return reg('d', true);
            case 'l':
                return source('d');
            case 'p':
            case 'r':
            case 'f':
            case 'h':
            case 'b':
                return source(code);
            case 'A':
                return address(space_);
            case 'G':
                return address("global");
            case 'M':
                return address("shared");
            case 'K':
                return address("param");
            case 'i':
                return std::to_string(below(256));
            case 'j':
                return below(8) ? "0" : std::to_string(below(18));
            case 'n':
                return std::string(word_of("4 8 16"));
            case 'o':
                return goes_wrong() ? offset(1) : "";
            case 's':
                return std::string(
                    word_of("%tid.x %tid.y %ntid.x %ctaid.x %laneid %lanemask_lt "
                            "%warpid %total_smem_size %nctaid.x"));
            default:  // 'm' stands for a name whose address is taken
                return std::string(word_of(in_kernel_ ? "gv cv sv lv data f table k dyn"
                                                      : "gv cv sv lv fa f table k dyn"));
        }
    }

    std::string anything() {
        static constexpr std::string_view other[] = {
            "_",      "%tid.x",  "gv",    "sv",     "[%a0]", "{%r0, %r1}", "{%r0, %d1}",
            "%v",     "%v.x",    "1",     "-1",     "1.5",   "0f7F800000", "f",
            "!%p1",   "%r0|%p0", "(%r0)", "L0",     "%a0",   "%w0",        "4294967296",
            "%clock", "WARP_SZ", "n",     "{%h1,1}"};
        if (below(3) == 0) return std::string(other[below(std::size(other))]);
        static constexpr char files[] = {'p', 'b', 'h', 'r', 'd', 'f', 'g'};
        return std::string("%") + files[below(std::size(files))] + std::to_string(below(4));
    }

    std::mt19937& random_;
    size_t wrong_ = 0;  // one of `wrong_` operands is wrong; 0 means none
    std::string_view type_, space_;
    // The first letter of the registers, if the current instruction uses registers that are wider
    // than its type. Otherwise 0.
    char wider_ = 0;
    bool in_kernel_ = true;
};

}  // namespace coalesce
