// Branches, places where compiled code is entered and left, and whole functions.
#include <cstddef>
#include <utility>

#include "sim/jit/translator.hpp"

namespace coalesce::sim::jit {

namespace {

// LLVM needs about 3 seconds for a function with so many characters. Compiled code stores all
// registers wherever it may be left, so the code of a long kernel without loops would be much
// longer.
constexpr size_t most_text = 2'000'000;

}  // namespace

// ---------------------------------------------------------------------------- leaving

void Translator::store_registers(const Slots& live) {
    if (whole_) {
        for (const uint32_t slot : live)
            if (written_.contains(slot) && !known_now(slot).clean)
                store_home(slot, read_slot(slot));
    } else {
        for (const uint32_t slot : changed_)
            store_variable(slot, in_part(slot), blended(slot, values_.at(slot)));
    }
}

void Translator::finish(const std::string& next) {
    e_.line("store i32 " + next + ", ptr %at");
    e_.line("br label %leave");
}

void Translator::emit_leave(uint32_t at, bool counted) {
    const auto values = values_;
    const uint32_t id = next_id_;
    Slots live = live_[at];
    if (!predicate_.empty()) {
        const Slots& others = block_at(program_.reconvergence[skip_]).in;
        live.insert(others.begin(), others.end());
    }
    store_registers(live);
    if (counted) {
        // The interpreter counts the ops from here to the end of the segment again.
        const std::string left = e_("load i64, ptr %left");
        e_.line("store i64 " + e_("add i64 " + left + ", " + num(length(at))) + ", ptr %left");
    }
    if (!predicate_.empty()) {
        const std::string f = field("ptr", offsetof(CompiledContext, split));
        e_.line("call void " + f + "(ptr %c, i32 " + num(skip_) + ", i32 " + skipping_ + ", i32 " +
                num(at) + ")");
    }
    finish(num(predicate_.empty() ? int32_t(at) : int32_t(switched_path)));
    values_ = values;
    next_id_ = id;
}

void Translator::leave(const std::string& condition, uint32_t at, const std::string& go_on) {
    const std::string out = e_.new_label("x");
    e_.line("br i1 " + condition + ", label %" + go_on + ", label %" + out);
    std::string* const text = std::exchange(e_.text, &cold_);
    e_.label(out);
    emit_leave(at);
    e_.text = text;
    e_.label(go_on);
}

void Translator::begin_segment(uint32_t to) {
    const std::string left = e_("load i64, ptr %left");
    const std::string more = e_.new_label("m"), out = e_.new_label("o");
    e_.line("br i1 " + e_("icmp sgt i64 " + left + ", 0") + ", label %" + more + ", label %" + out);
    std::string* const text = std::exchange(e_.text, &cold_);
    e_.label(out);
    emit_leave(to, false);
    e_.text = text;
    e_.label(more);
    e_.line("store i64 " + e_("sub i64 " + left + ", " + num(length(to))) + ", ptr %left");
}

void Translator::emit_diverge(uint32_t branch, const std::string& taken, const char* go_on) {
    const std::string left = e_("load i64, ptr %left");
    e_.line("store i64 " + left + ", ptr " + field_address(offsetof(CompiledContext, left)));
    const std::string f = field("ptr", offsetof(CompiledContext, diverge));
    const std::string next =
        e_("call i32 " + f + "(ptr %c, i32 " + num(branch) + ", i32 " + taken + ")");
    e_.line("store i32 " + next + ", ptr %at");
    e_.line(std::string("br label %") + go_on);
}

// ---------------------------------------------------------------------------- branches

void Translator::learn(BasicBlock& b, uint32_t slot, const Known& k) {
    Known& known = b.known[slot];
    Known both = known.form == Form::unset ? k : known;
    if (known.form != Form::unset && k.form != Form::unset) {
        both.raw = known.raw && k.raw;
        both.clean = known.clean && k.clean;
        if (known.form != k.form || known.stride != k.stride)
            both.form = Form::lanes, both.stride = 0;
    }
    if (both == known) return;
    known = both;
    b.stale = true;
}

void Translator::reach(BasicBlock& b) {
    if (!std::exchange(b.reached, true)) b.stale = true;
}

void Translator::edge(uint32_t to, bool falls_through) {
    const auto values = values_;
    const auto changed = changed_;
    BasicBlock& target = block_at(to);
    if (whole_) {
        if (!falls_through) begin_segment(to);
        for (const uint32_t slot : target.in) {
            learn(target, slot, known_now(slot));
            const Known& known = target.known[slot];
            const bool same = !changed_.contains(slot) && block_->known[slot].same_form(known);
            if (!same) store_variable(slot, known, read_slot(slot));
        }
        reach(target);
    } else {
        // All registers are stored, because another path may run next.
        store_registers({});
        changed_.clear();
        if (!falls_through) {
            const std::string go = e_.new_label("g");
            const std::string join = e_("load i32, ptr %join");
            e_.line("br i1 " + e_("icmp eq i32 " + join + ", " + num(to)) +
                    ", label %arrive, label %" + go);
            e_.label(go);
            begin_segment(to);
        }
    }
    e_.line("br label %b" + num(to));
    values_ = values;
    changed_ = changed;
}

bool Translator::emit_control(uint32_t at) {
    const Op& op = program_.ops[at];
    if (op.control == Control::none) return false;
    if (op.control == Control::join) return edge(at + 1, false), true;
    if (op.control != Control::branch) {
        if (!emit_exchange(at)) emit_leave(at);
        return true;
    }
    const Branch& to = op.get<Branch>();
    if (to.spins || to.target >= end_ || (op.guard != no_operand && at + 1 >= end_))
        return emit_leave(at), true;
    if (op.guard == no_operand) return edge(to.target, false), true;
    const Value p = read(op.guard, 1);
    const std::string yes = e_.new_label("y"), no = e_.new_label("z");
    if (p.form == Form::uniform) {
        e_.line("br i1 " + p.bits + ", label %" + (op.guard_negated ? no : yes) + ", label %" +
                (op.guard_negated ? yes : no));
    } else {
        std::string taken = mask_of(p);
        if (op.guard_negated) taken = e_("xor i32 " + taken + ", -1");
        if (!whole_) taken = e_("and i32 " + taken + ", " + mask_);
        const std::string all = whole_ ? "-1" : mask_;
        const std::string mixed = e_.new_label("d"), some = e_.new_label("q");
        e_.line("br i1 " + e_("icmp eq i32 " + taken + ", " + all) + ", label %" + yes +
                ", label %" + some);
        e_.label(some);
        e_.line("br i1 " + e_("icmp eq i32 " + taken + ", 0") + ", label %" + no + ", label %" +
                mixed);
        e_.label(mixed);
        // In `whole`, registers that only some lanes write differ between the lanes afterwards.
        if (whole_ && program_.reconvergence[at] != no_op) {
            const Slots& written = region(at);
            BasicBlock& after = block_at(program_.reconvergence[at]);
            for (const uint32_t slot : after.in)
                if (written.contains(slot)) learn(after, slot, {Form::lanes, 0, true, true});
        }
        const BasicBlock* const skipped = skipped_block(at);
        if (skipped && !whole_) {
            const std::string alone = e_.new_label("l"), others = e_.new_label("i");
            const std::string is = field("i8", offsetof(CompiledContext, alone));
            e_.line("br i1 " + e_("icmp ne i8 " + is + ", 0") + ", label %" + alone + ", label %" +
                    others);
            e_.label(alone);
            emit_skipped(*skipped, at, taken);
            e_.label(others);
        }
        if (skipped && whole_) {
            emit_skipped(*skipped, at, taken);
        } else if (whole_) {
            emit_leave(at);
        } else {
            const auto values = values_;
            store_registers({});
            values_ = values;
            emit_diverge(at, taken, "dispatch");
        }
    }
    e_.label(yes);
    edge(to.target, false);
    e_.label(no);
    edge(at + 1, false);
    return true;
}

void Translator::emit_skipped(const BasicBlock& b, uint32_t branch, const std::string& taken) {
    const auto values = values_;
    const auto changed = changed_;
    const std::string more = e_.new_label("m"), out = e_.new_label("o");
    const std::string left = e_("load i64, ptr %left");
    e_.line("br i1 " + e_("icmp sgt i64 " + left + ", 0") + ", label %" + more + ", label %" + out);
    // The slice ends after the branch.
    std::string* const text = std::exchange(e_.text, &cold_);
    e_.label(out);
    Slots live = b.in;
    const Slots& others = block_at(program_.reconvergence[branch]).in;
    live.insert(others.begin(), others.end());
    store_registers(live);
    emit_diverge(branch, taken, "leave");
    e_.text = text;
    values_ = values;
    e_.label(more);
    e_.line("store i64 " + e_("sub i64 " + left + ", " + num(length(branch + 1))) + ", ptr %left");
    skip_ = branch;
    skipping_ = taken;
    predicate_ = e_("xor i32 " + taken + ", -1");
    if (!whole_) predicate_ = e_("and i32 " + predicate_ + ", " + mask_);
    for (uint32_t i = b.first; i < b.last; ++i)
        if (program_.ops[i].control == Control::none) emit_op(i);
    predicate_.clear();
    e_.line("store i8 1, ptr " + field_address(offsetof(CompiledContext, path_ended)));
    edge(b.last, false);
    values_ = values;
    changed_ = changed;
}

// ---------------------------------------------------------------------------- blocks

void Translator::emit_block(BasicBlock& b, bool dry) {
    const auto emit = [&] {
        block_ = &b;
        values_.clear();
        changed_.clear();
        next_id_ = 0;
        if (!whole_) mask_ = e_("load i32, ptr %mask");
        for (uint32_t i = b.first; i < b.last; ++i) {
            too_long_ = too_long_ || cold_.size() > most_text;
            if (too_long_) return;
            if (i + 1 == b.last && emit_control(i)) return;
            emit_op(i);
        }
        // After an ordinary op, the segment continues in the next block.
        if (b.last >= end_)
            e_.line("unreachable");
        else
            edge(b.last, true);
    };
    // First the accesses of the block are grouped.
    groups_.clear();
    std::string nothing, cold = std::exchange(cold_, "");
    std::string* const text = std::exchange(e_.text, &nothing);
    emit();
    cold_ = std::move(cold);
    e_.text = text;
    if (dry) return;
    for (auto& [_, g] : groups_) g.host.clear();
    e_.label("b" + num(b.first));
    emit();
}

// Loads the registers of a block in which `whole` is entered, and tests what is assumed about them,
// unless they are as `whole` stored them (`kept`).
void Translator::emit_entry(const BasicBlock& b, bool kept) {
    e_.label((kept ? "r" : "e") + num(b.first));
    std::string wrong;
    for (const uint32_t slot : b.in) {
        const auto it = b.known.find(slot);
        const Known k =
            it == b.known.end() || it->second.form == Form::unset ? Known{Form::lanes} : it->second;
        const int bits = slots_.at(slot);
        if (k.form == Form::lanes) {
            store_variable(slot, k, load_home(slot));
            continue;
        }
        // The value of lane 0, and whether the other lanes fit to it.
        const std::string p = e_("getelementptr i8, ptr %registers, i64 " + num(slot));
        Value one{k.form, k.stride, e_("load i" + num(bits == 1 ? 32 : bits) + ", ptr " + p)};
        const std::string mask = one.bits;
        if (bits == 1) one.bits = e_("trunc i32 " + mask + " to i1");
        store_variable(slot, k, one);
        if (kept) continue;
        std::string differs;
        if (bits == 1) {
            differs = e_("xor i32 " + mask + ", " + mask_of(one));
        } else {
            e_.wide = true;
            differs =
                e_.compare("ne", {false, uint8_t(bits)}, load_home(slot).bits, lanes_of(one, bits));
            differs = e_("bitcast <32 x i1> " + differs + " to i32");
        }
        wrong = wrong.empty() ? differs : e_("or i32 " + wrong + ", " + differs);
    }
    if (!wrong.empty()) {
        const std::string out = e_.new_label("f"), go = e_.new_label("g");
        e_.line("br i1 " + e_("icmp ne i32 " + wrong + ", 0") + ", label %" + out + ", label %" +
                go);
        e_.label(out);
        const std::string left = e_("load i64, ptr %left");
        e_.line("store i64 " + e_("add i64 " + left + ", " + num(length(b.first))) + ", ptr %left");
        finish(num(b.first));
        e_.label(go);
    }
    e_.line("br label %b" + num(b.first));
}

// ---------------------------------------------------------------------------- functions

// Finds what is known about the registers at the start of each block.
void Translator::find_known() {
    const auto assume = [&](BasicBlock& b) {
        for (const uint32_t slot : b.in)
            learn(b, slot, whole_ ? Known{Form::lanes, 0, false, true} : in_part(slot));
        reach(b);
    };
    for (BasicBlock& b : blocks_) b.known.clear(), b.reached = b.stale = false;
    if (!whole_) {
        for (BasicBlock& b : blocks_) assume(b);
        return;
    }
    assume(blocks_[0]);
    const auto next = [&]() -> BasicBlock* {
        for (BasicBlock& b : blocks_)
            if (b.reached && b.stale) return &b;
        for (BasicBlock& b : blocks_) {
            if (!b.whole_entry || b.reached) continue;
            assume(b);
            return &b;
        }
        return nullptr;
    };
    while (BasicBlock* const b = next()) {
        b->stale = false;
        emit_block(*b, true);
        if (too_long_) return;
        // Control ops that the interpreter executes go on in the next block.
        const Op& op = program_.ops[b->last - 1];
        const bool spins = op.control == Control::branch && op.get<Branch>().spins;
        if (!spins && (op.control == Control::none || op.control == Control::branch ||
                       op.control == Control::join))
            continue;
        for (const uint32_t n : b->next) {
            for (const uint32_t slot : blocks_[n].in) {
                Known k = known_now(slot);
                for (int d = 0; d < 2; ++d)
                    if (!spins && op.operand[d] == slot << 1) k = {Form::lanes};
                k.raw = false;
                k.clean = true;
                learn(blocks_[n], slot, k);
            }
            reach(blocks_[n]);
        }
    }
}

// Returns the start of the function, which allocates the variables and jumps to a block.
std::string Translator::function_head() {
    std::string head = "define i32 @" + std::string(whole_ ? "whole" : "part") +
                       "(ptr noalias %c, i32 %pc) nounwind {\nentry:\n";
    e_.text = &head;
    std::set<std::string> made;
    const auto make = [&](uint32_t slot, const Known& k) {
        if (made.insert(variable(slot, k)).second)
            e_.line(variable(slot, k) + " = alloca " + variable_type(slot, k));
    };
    for (const BasicBlock& b : blocks_)
        for (const auto& [slot, known] : b.known)
            make(slot, known.form == Form::unset ? Known{Form::lanes} : known);
    if (!whole_)
        for (const auto& [slot, bits] : slots_) make(slot, in_part(slot));
    e_.line("%left = alloca i64");
    for (const char* name : {"%at", "%mask", "%join"}) e_.line(std::string(name) + " = alloca i32");
    e_.line("%registers = load ptr, ptr " + field_address(offsetof(CompiledContext, registers)));
    e_.line("%shared = load ptr, ptr " + field_address(offsetof(CompiledContext, shared)));
    std::string entries, targets;
    const auto target = [](std::string& list, uint32_t value, const char* kind, uint32_t block) {
        list += " i32 " + num(int32_t(value)) + ", label %" + kind + num(block);
    };
    for (const BasicBlock& b : blocks_) {
        target(targets, b.first, "b", b.first);
        if (whole_ && b.whole_entry) target(entries, b.first, "e", b.first);
        if (whole_ && b.after_barrier) target(entries, b.first | registers_kept, "r", b.first);
    }
    const auto load_path = [&] {
        e_.line("store i64 " + field("i64", offsetof(CompiledContext, left)) + ", ptr %left");
        e_.line("store i32 " + field("i32", offsetof(CompiledContext, mask)) + ", ptr %mask");
        e_.line("store i32 " + field("i32", offsetof(CompiledContext, join)) + ", ptr %join");
    };
    if (whole_) {
        load_path();
        e_.line("switch i32 %pc, label %never [" + entries + " ]");
        e_.label("never");
        e_.line("unreachable");
        e_.label("leave");
    } else {
        for (const auto& [slot, bits] : slots_)
            store_variable(slot, in_part(slot), load_home(slot));
        e_.line("store i32 %pc, ptr %at");
        e_.line("br label %dispatch");
        e_.label("arrive");
        const std::string left = e_("load i64, ptr %left");
        e_.line("store i64 " + left + ", ptr " + field_address(offsetof(CompiledContext, left)));
        const std::string f = field("ptr", offsetof(CompiledContext, arrive));
        e_.line("store i32 " + e_("call i32 " + f + "(ptr %c)") + ", ptr %at");
        e_.line("br label %dispatch");
        e_.label("dispatch");
        load_path();
        e_.line("switch i32 " + e_("load i32, ptr %at") + ", label %leave [" + targets + " ]");
        e_.label("leave");
        for (const uint32_t slot : written_) store_home(slot, load_variable(slot, in_part(slot)));
    }
    e_.line("store i64 " + e_("load i64, ptr %left") + ", ptr " +
            field_address(offsetof(CompiledContext, left)));
    e_.line("ret i32 " + e_("load i32, ptr %at"));
    return head;
}

void Translator::emit_function(bool whole, std::string& out) {
    whole_ = whole;
    e_ = {};
    find_known();
    e_ = {};
    body_.clear();
    cold_.clear();
    e_.text = &body_;
    for (BasicBlock& b : blocks_) {
        if (whole_ && b.whole_entry) emit_entry(b, false);
        if (whole_ && b.after_barrier) emit_entry(b, true);
        if (b.reached) emit_block(b, false);
        if (too_long_) return;
    }
    if (body_.size() > most_text) return;
    out = function_head() + body_ + cold_ + "}\n";
    // LLVM 22 has another form of these functions. It converts this one, if it is declared.
    for (const int bits : {8, 16, 32, 64}) {
        const std::string v = "<32 x i" + num(bits) + ">", of = ".v32i" + num(bits);
        const char* const rest = ", i32, <32 x i1>";
        out += "declare " + v + " @llvm.masked.load" + of + ".p0(ptr" + rest + ", " + v + ")\n" +
               "declare " + v + " @llvm.masked.gather" + of + ".v32p0(<32 x ptr>" + rest + ", " +
               v + ")\n" + "declare void @llvm.masked.store" + of + ".p0(" + v + ", ptr" + rest +
               ")\n" + "declare void @llvm.masked.scatter" + of + ".v32p0(" + v + ", <32 x ptr>" +
               rest + ")\n";
    }
}

}  // namespace coalesce::sim::jit
