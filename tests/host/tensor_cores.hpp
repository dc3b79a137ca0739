// The matrices of nvcuda::wmma for device_code.hpp. Every lane holds a whole matrix.
#pragma once

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision

template <class T>
struct element {
    using type = T;
};
template <>
struct element<precision::tf32> {
    using type = float;
};

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
    static constexpr int rows = std::is_same_v<Use, matrix_b> ? K : M;
    static constexpr int columns = std::is_same_v<Use, matrix_a> ? K : N;
    static constexpr int num_elements = rows * columns;
    using element_type = typename element<T>::type;
    element_type x[num_elements];
};

template <class F, class T>
void moved(F& f, T* p, unsigned stride, bool by_rows, bool stored) {
    for (int i = 0; i < F::rows; ++i) {
        for (int j = 0; j < F::columns; ++j) {
            auto& own = f.x[i * F::columns + j];
            T& other = p[by_rows ? i * stride + j : j * stride + i];
            if (stored) {
                const_cast<std::remove_const_t<T>&>(other) = own;
            } else {
                own = other;
            }
        }
    }
}
template <class Use, int M, int N, int K, class T, class Layout, class U>
void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const U* p, unsigned stride) {
    moved(f, p, stride, std::is_same_v<Layout, row_major>, false);
}
template <int M, int N, int K, class T, class U>
void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const U* p, unsigned stride,
                      layout_t layout) {
    moved(f, p, stride, layout == mem_row_major, false);
}
template <int M, int N, int K, class T, class U>
void store_matrix_sync(U* p, const fragment<accumulator, M, N, K, T>& f, unsigned stride,
                       layout_t layout) {
    __syncwarp();
    auto copy = f;
    moved(copy, p, stride, layout == mem_row_major, true);
    __syncwarp();
}
template <class F, class T>
void fill_fragment(F& f, T value) {
    for (auto& x : f.x) x = value;
}
template <int M, int N, int K, class A, class LA, class B, class LB, class C, class D>
void mma_sync(fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, A, LA>& a,
              const fragment<matrix_b, M, N, K, B, LB>& b,
              const fragment<accumulator, M, N, K, C>& c) {
    auto result = d;
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < N; ++j) {
            double sum = double(c.x[i * N + j]);
            for (int k = 0; k < K; ++k) {
                sum += double(a.x[i * K + k]) * double(b.x[k * N + j]);
            }
            result.x[i * N + j] = D(sum);
        }
    }
    d = result;
}
inline float __float_to_tf32(float x) { return x; }

}  // namespace nvcuda::wmma
