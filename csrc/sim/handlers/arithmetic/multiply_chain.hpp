// Executes a chain of multiply-adds of loaded words as one operation, which is faster. Only plain
// runs (runs without observers) do this.
//
// METHOD
// The core of every matrix product is a sequence of
//    ld.f32 x, [..];  ld.f32 y, [..];  fma.rn.f32 sum, x, y, sum;
// with a few additions in between that compute addresses. A chain is executed in two steps. First,
// the additions in between are executed in order, and the addresses of the loads are converted to
// host addresses. Then all products are added, while the sum stays in registers of the host.
// Without a chain, the sum would be stored and loaded again for each product.
//
// The result is the same, because nothing in a chain writes memory, and no other instruction reads
// the intermediate sums (Decoder::find_chains). If a load is a fault, or its addresses have no
// constant stride, the rest of the chain is executed op by op.
#pragma once

#include <cstring>
#include <new>
#include <type_traits>

#if defined(__FMA__)
#include <immintrin.h>
#endif

#include "sim/handlers/memory/memory_words.hpp"
#include "sim/memory/floats.hpp"

namespace coalesce::sim::COALESCE_ISA {

// Floats is a vector register of the host. `count` is the number of neighbouring lanes that it
// holds.
#if defined(__AVX512F__)
struct Floats {
    static constexpr int count = 16;
    __m512 value;
    static Floats load(const void* at) { return {_mm512_loadu_ps(at)}; }
    static Floats all(float x) { return {_mm512_set1_ps(x)}; }
    void store(float* at) const { _mm512_storeu_ps(at, value); }
    void add(Floats x, Floats y) { value = _mm512_fmadd_ps(x.value, y.value, value); }
};
#elif defined(__FMA__)
struct Floats {
    static constexpr int count = 8;
    __m256 value;
    static Floats load(const void* at) { return {_mm256_loadu_ps(static_cast<const float*>(at))}; }
    static Floats all(float x) { return {_mm256_set1_ps(x)}; }
    void store(float* at) const { _mm256_storeu_ps(at, value); }
    void add(Floats x, Floats y) { value = _mm256_fmadd_ps(x.value, y.value, value); }
};
#else
struct Floats {
    static constexpr int count = 4;
    float value[count];
    static Floats load(const void* at) {
        Floats f;
        std::memcpy(f.value, at, sizeof f.value);
        return f;
    }
    static Floats all(float x) { return {{x, x, x, x}}; }
    void store(float* at) const { std::memcpy(at, value, sizeof value); }
    void add(Floats x, Floats y) {
        for (int i = 0; i < count; ++i)
            value[i] = fused_multiply_add::of(x.value[i], y.value[i], value[i]);
    }
};
#endif

// Returns the words that neighbouring lanes read, starting with `lane`. `host` is the address for
// lane 0. For the frequent strides 0 (all lanes read the same word) and 4 bytes, `stride` is a
// compile-time constant.
template <class Stride>
inline Floats words_of(const std::byte* host, Stride stride, int lane) {
    if constexpr (std::is_same_v<Stride, std::integral_constant<int64_t, 0>>) {
        float word;
        std::memcpy(&word, host, 4);
        return Floats::all(word);
    } else if constexpr (std::is_same_v<Stride, std::integral_constant<int64_t, 4>>) {
        return Floats::load(host + 4 * lane);
    } else {
        float words[Floats::count];
        for (int i = 0; i < Floats::count; ++i)
            std::memcpy(words + i, host + (lane + i) * stride, 4);
        return Floats::load(words);
    }
}

// The two loaded factors of one product.
struct Factors {
    const std::byte *x, *y;  // the addresses of the two factors for lane 0
};
// Memory for the factors of a chain. It is not initialized, which saves time.
struct FactorsOfChain {
    alignas(Factors) std::byte memory[longest_chain * sizeof(Factors)];
    Factors* begin() { return reinterpret_cast<Factors*>(memory); }
};

// Adds x0 * y0 to the sum, then x1 * y1, and so on. Each multiply-add is fused: it is rounded once,
// after the addition.
template <class X, class Y>
inline void add_products_at(float* sum, const Factors* begin, const Factors* end, X x, Y y) {
    for (int lane = 0; lane < warp_size; lane += Floats::count) {
        Floats part = Floats::load(sum + lane);
        for (const Factors* f = begin; f != end; ++f)
            part.add(words_of(f->x, x, lane), words_of(f->y, y, lane));
        part.store(sum + lane);
    }
}

inline void add_products(float* sum, const Factors* begin, const Factors* end, int64_t x,
                         int64_t y) {
    constexpr std::integral_constant<int64_t, 0> same;
    constexpr std::integral_constant<int64_t, 4> next;
    if (x == 0 && y == 4) return add_products_at(sum, begin, end, same, next);
    if (x == 4 && y == 0) return add_products_at(sum, begin, end, next, same);
    if (x == 4 && y == 4) return add_products_at(sum, begin, end, next, next);
    if (x == 0) return add_products_at(sum, begin, end, same, y);
    if (y == 0) return add_products_at(sum, begin, end, x, same);
    add_products_at(sum, begin, end, x, y);
}

// Finds the words that the loads of a chain read. A chain has two finders: one for the first load
// of each product, and one for the second. A load often has the same address register as the load
// before, with another offset. Then the words are found without reading the address register again.
struct FactorFinder {
    Words words;
    int64_t offset = 0;  // the offset of the previous load

    bool find(Warp& w, const Op& load) {
        const MemoryOperand& at = load.memory();
        const int64_t by = at.offset - offset;
        offset = at.offset;
        const bool within =
            by < 0 ? 0 - uint64_t(by) <= words.before : uint64_t(by) <= words.behind;
        if (at.same_address && words.host && within && !(by & 3)) {
            words.host += by;
            words.before += uint64_t(by);
            words.behind -= uint64_t(by);
            return true;
        }
        using enum ptx::Space;
        words = at.form == AddressForm::narrow
                    ? find_words<Watch::nothing, shared, Access::load, 1>(w, load)
                    : find_words<Watch::nothing, global, Access::load, 1>(w, load);
        return words.host;
    }
};

inline void multiply_chain(Warp& w, const Op& op) {
    const Op *const end = &op + op.length, *at = &op;
    if (w.mask == all_lanes) [[likely]] {
        alignas(64) float sum[warp_size];
        std::memcpy(sum, w.lanes<const float>((&op)[2].operand[3]), sizeof sum);
        FactorsOfChain factors;
        // The range of factors that have not been added yet.
        Factors *first = factors.begin(), *last = first;
        int64_t strides[2] = {};  // the strides of x and y for these factors
        FactorFinder x, y;
        const Op* product = nullptr;  // the last product whose loads were resolved
        while (at != end) {
            if (!at->loads_factor) {
                at->run(w, *at);
                ++at;
                continue;
            }
            if (!x.find(w, at[0]) || !y.find(w, at[1])) [[unlikely]]
                break;
            if (x.words.stride != strides[0] || y.words.stride != strides[1]) {
                add_products(sum, first, last, strides[0], strides[1]);
                first = last;
                strides[0] = x.words.stride, strides[1] = y.words.stride;
            }
            if (!at[0].memory().read_once)
                move_words<Access::load, 1>(w.lanes<uint32_t>(at[0].operand[0]), x.words.host,
                                            x.words.stride);
            if (!at[1].memory().read_once)
                move_words<Access::load, 1>(w.lanes<uint32_t>(at[1].operand[0]), y.words.host,
                                            y.words.stride);
            new (last++) Factors{x.words.host, y.words.host};
            product = at + 2;
            at += 3;
        }
        if (product) {
            add_products(sum, first, last, strides[0], strides[1]);
            float* const d = w.lanes<float>(product->operand[0]);
            for (int i = 0; i < warp_size; ++i) d[i] = canonical(sum[i]);
        }
    }
    for (; at != end; ++at) {
        const Handler run = at == &op ? op.inner : at->run;
        run(w, *at);
    }
}

}  // namespace coalesce::sim::COALESCE_ISA
