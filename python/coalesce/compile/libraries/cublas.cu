// A replacement for a part of cuBLAS, for whole programs on the simulator. The kernels are simple.
// Their results differ from those of cuBLAS only by rounding, but their costs are quite different.
// Matrices are column-major.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstdio>
#include <mutex>
#include <new>

struct cublasContext {
    cudaStream_t stream = nullptr;
    cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
    cublasMath_t math = CUBLAS_DEFAULT_MATH;
};

namespace {

constexpr int threads = 256, tile = 16;

// A factor, which the caller keeps on the host or on the device.
template <typename T>
struct Factor {
    T value;
    const T* place;
    __device__ T get() const { return place ? *place : value; }
};
template <typename T>
Factor<T> factor(cublasHandle_t h, const T* pointer) {
    if (h->pointers == CUBLAS_POINTER_MODE_DEVICE) return {T(0), pointer};
    return {*pointer, nullptr};
}

// Returns where element i of a vector is. With a negative increment the vector is stored backwards.
__device__ long long at(long long i, int n, int inc) {
    return inc >= 0 ? i * inc : (i - (n - 1)) * inc;
}
// The product of a factor and a value. As in BLAS, the value does not matter if the factor is 0.
template <typename T>
__device__ T scaled(T factor, T value) {
    return factor == T(0) ? T(0) : factor * value;
}
__device__ long long own_index() { return (long long)blockIdx.x * blockDim.x + threadIdx.x; }

template <typename T>
__global__ void cublas_axpy(int n, Factor<T> alpha, const T* x, int incx, T* y, int incy) {
    const long long i = own_index();
    if (i < n) y[at(i, n, incy)] += scaled(alpha.get(), x[at(i, n, incx)]);
}
template <typename T>
__global__ void cublas_scal(int n, Factor<T> alpha, T* x, int incx) {
    const long long i = own_index();
    if (i < n) x[i * incx] *= alpha.get();
}
template <typename T>
__global__ void cublas_copy(int n, const T* x, int incx, T* y, int incy) {
    const long long i = own_index();
    if (i < n) y[at(i, n, incy)] = x[at(i, n, incx)];
}
template <typename T>
__global__ void cublas_swap(int n, T* x, int incx, T* y, int incy) {
    const long long i = own_index();
    if (i >= n) return;
    const T kept = x[at(i, n, incx)];
    x[at(i, n, incx)] = y[at(i, n, incy)];
    y[at(i, n, incy)] = kept;
}

// Each reduction runs in one block, so that the terms are always added in the same order. The sum
// is a double, because the squares of large floats do not fit into a float.
enum class Sum { dot, norm, magnitudes };
__device__ double wide(double value) { return value; }
__device__ double wide(__half value) { return __half2float(value); }
__device__ double wide(__nv_bfloat16 value) { return __bfloat162float(value); }
template <Sum kind, typename T>
__global__ void cublas_sum(int n, const T* x, int incx, const T* y, int incy, T* result) {
    __shared__ double part[threads];
    double sum = 0;
    for (long long i = threadIdx.x; i < n; i += threads) {
        const double a = wide(x[at(i, n, incx)]);
        if (kind == Sum::magnitudes)
            sum += fabs(a);
        else
            sum += a * (kind == Sum::dot ? wide(y[at(i, n, incy)]) : a);
    }
    part[threadIdx.x] = sum;
    for (int half = threads / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *result = T(kind == Sum::norm ? sqrt(part[0]) : part[0]);
}
// The index of the first element with the largest or smallest magnitude, counted from 1.
template <bool largest, typename T>
__global__ void cublas_amax(int n, const T* x, int incx, int* result) {
    __shared__ T value[threads];
    __shared__ int index[threads];
    T best = 0;
    int place = -1;
    for (long long i = threadIdx.x; i < n; i += threads) {
        const T a = x[i * incx] < 0 ? -x[i * incx] : x[i * incx];
        if (place < 0 || (largest ? a > best : a < best)) best = a, place = int(i);
    }
    value[threadIdx.x] = best, index[threadIdx.x] = place;
    __syncthreads();
    if (threadIdx.x) return;
    for (int t = 1; t < threads && t < n; ++t) {
        const bool better = largest ? value[t] > best : value[t] < best;
        if (better || (value[t] == best && index[t] < place)) best = value[t], place = index[t];
    }
    *result = place + 1;
}

template <typename T>
__global__ void cublas_gemv(bool transposed, int m, int n, Factor<T> alpha, const T* a, int lda,
                            const T* x, int incx, Factor<T> beta, T* y, int incy) {
    const T factor = alpha.get();
    const int rows = transposed ? n : m, all = transposed ? m : n;
    const int columns =
        factor == T(0) ? 0 : all;  // as in BLAS: if alpha is 0, a and x are not read
    const long long i = own_index();
    if (i >= rows) return;
    T sum = 0;
    for (long long j = 0; j < columns; ++j)
        sum += a[transposed ? j + i * lda : i + j * lda] * x[at(j, all, incx)];
    T& to = y[at(i, rows, incy)];
    to = factor * sum + scaled(beta.get(), to);
}
template <typename T>
__global__ void cublas_ger(int m, int n, Factor<T> alpha, const T* x, int incx, const T* y,
                           int incy, T* a, int lda) {
    const long long i = own_index(), j = blockIdx.y;
    if (i < m) a[i + j * lda] += scaled(alpha.get(), x[at(i, m, incx)] * y[at(j, n, incy)]);
}
template <typename T>
__global__ void cublas_geam(bool ta, bool tb, int m, int n, Factor<T> alpha, const T* a, int lda,
                            Factor<T> beta, const T* b, int ldb, T* c, int ldc) {
    const long long i = own_index(), j = blockIdx.y;
    if (i >= m) return;
    const T fa = alpha.get(), fb = beta.get();
    const T left = fa == T(0) ? T(0) : fa * a[ta ? j + i * lda : i + j * lda];
    c[i + j * ldc] = left + (fb == T(0) ? T(0) : fb * b[tb ? j + i * ldb : i + j * ldb]);
}

// The matrices of a batch. Either each has its own pointer, or they are `stride` elements apart.
template <typename T>
struct Batch {
    T* first;
    long long stride;
    T* const* each;
    __device__ T* get(int number) const { return each ? each[number] : first + number * stride; }
};
// The products are added up in the type Sum. The factors have the type Scalar.
template <typename In, typename Out, typename Sum, typename Scalar>
__global__ void cublas_gemm(bool ta, bool tb, int m, int n, int k, Factor<Scalar> alpha,
                            Batch<const In> as, int lda, Batch<const In> bs, int ldb,
                            Factor<Scalar> beta, Batch<Out> cs, int ldc) {
    __shared__ Sum left[tile][tile + 1], right[tile][tile + 1];
    const In *const a = as.get(blockIdx.z), *const b = bs.get(blockIdx.z);
    const Sum factor = Sum(alpha.get());
    if (factor == Sum(0)) k = 0;  // as in BLAS: a and b are not read
    const int x = threadIdx.x, y = threadIdx.y;
    const long long row0 = (long long)blockIdx.x * tile, column0 = (long long)blockIdx.y * tile;
    const long long row = row0 + x, column = column0 + y;
    Sum sum = 0;
    for (long long at = 0; at < k; at += tile) {
        // Threads with neighbouring x should read neighbouring elements, which are in the same
        // column of a stored matrix. So x counts the rows of the stored matrix. The rows of `a`
        // have index i, or p if `a` is transposed. The rows of `b` have index q, or j if `b` is
        // transposed.
        const long long i = row0 + (ta ? y : x), p = at + (ta ? x : y);
        left[ta ? y : x][ta ? x : y] =
            i < m && p < k ? Sum(a[ta ? p + i * lda : i + p * lda]) : Sum(0);
        const long long j = column0 + (tb ? x : y), q = at + (tb ? y : x);
        right[tb ? y : x][tb ? x : y] =
            j < n && q < k ? Sum(b[tb ? j + q * ldb : q + j * ldb]) : Sum(0);
        __syncthreads();
        for (int step = 0; step < tile; ++step) sum += left[x][step] * right[step][y];
        __syncthreads();
    }
    if (row >= m || column >= n) return;
    Out& to = cs.get(blockIdx.z)[row + column * ldc];
    to = Out(factor * sum + scaled(Sum(beta.get()), Sum(to)));
}

unsigned blocks_of(long long n, int each) { return unsigned((n + each - 1) / each); }

cublasStatus_t launched() {
    return cudaPeekAtLastError() == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                : CUBLAS_STATUS_EXECUTION_FAILED;
}
cublasStatus_t status_of(cudaError_t error) {
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}

// Calls `kernel` with the address of a value on the device. If `result` is on the host, copies the
// value there.
template <typename T, typename Kernel>
cublasStatus_t to_result(cublasHandle_t h, T* result, Kernel kernel) {
    if (h->pointers == CUBLAS_POINTER_MODE_DEVICE) {
        kernel(result);
        return launched();
    }
    T* place = nullptr;
    if (cudaMalloc(&place, sizeof(T)) != cudaSuccess) return CUBLAS_STATUS_ALLOC_FAILED;
    kernel(place);
    cudaError_t error =
        cudaMemcpyAsync(result, place, sizeof(T), cudaMemcpyDeviceToHost, h->stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(h->stream);
    cudaFree(place);
    return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

template <Sum kind, typename T>
cublasStatus_t sum_of(cublasHandle_t h, int n, const T* x, int incx, const T* y, int incy,
                      T* result) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!result) return CUBLAS_STATUS_INVALID_VALUE;
    // A sum over one vector is 0 if the increment is not positive.
    if (kind != Sum::dot && incx <= 0) n = 0;
    return to_result(h, result, [&](T* place) {
        cublas_sum<kind><<<1, threads, 0, h->stream>>>(n < 0 ? 0 : n, x, incx, y, incy, place);
    });
}
template <bool largest, typename T>
cublasStatus_t index_of(cublasHandle_t h, int n, const T* x, int incx, int* result) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!result) return CUBLAS_STATUS_INVALID_VALUE;
    return to_result(h, result, [&](int* place) {
        cublas_amax<largest>
            <<<1, threads, 0, h->stream>>>(n < 0 || incx <= 0 ? 0 : n, x, incx, place);
    });
}

bool is_operation(cublasOperation_t op) { return op >= CUBLAS_OP_N && op <= CUBLAS_OP_C; }

template <typename In, typename Out, typename Sum, typename Scalar>
cublasStatus_t multiply(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m,
                        int n, int k, const Scalar* alpha, Batch<const In> a, int lda,
                        Batch<const In> b, int ldb, const Scalar* beta, Batch<Out> c, int ldc,
                        int count) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    const bool ta = opa != CUBLAS_OP_N, tb = opb != CUBLAS_OP_N;
    const auto least = [](int rows) { return rows > 1 ? rows : 1; };
    if (!is_operation(opa) || !is_operation(opb) || m < 0 || n < 0 || k < 0 || count < 0 ||
        lda < least(ta ? k : m) || ldb < least(tb ? n : k) || ldc < least(m) || !alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0 || count == 0) return CUBLAS_STATUS_SUCCESS;
    const dim3 grid(blocks_of(m, tile), blocks_of(n, tile), unsigned(count));
    cublas_gemm<In, Out, Sum, Scalar><<<grid, dim3(tile, tile), 0, h->stream>>>(
        ta, tb, m, n, k, factor(h, alpha), a, lda, b, ldb, factor(h, beta), c, ldc);
    return launched();
}

// The three arguments of a matrix, or of several matrices, whose type is known at run time.
struct AnyBatch {
    void* first;
    long long stride;
    void* const* each;
    template <typename T>
    Batch<T> of() const {
        return {static_cast<T*>(first), stride, reinterpret_cast<T* const*>(each)};
    }
};
AnyBatch any(const void* first, long long stride = 0, const void* const* each = nullptr) {
    return {const_cast<void*>(first), stride, const_cast<void* const*>(each)};
}

cublasStatus_t not_simulated(const char* function) {
    std::fprintf(stderr, "coalesce: %s() is not simulated for these types\n", function);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

// cublasGemmEx() and its relatives. The types of the matrices and of the sums are arguments.
cublasStatus_t multiply_any(const char* name, cublasHandle_t h, cublasOperation_t opa,
                            cublasOperation_t opb, int m, int n, int k, const void* alpha,
                            AnyBatch a, cudaDataType type_a, int lda, AnyBatch b,
                            cudaDataType type_b, int ldb, const void* beta, AnyBatch c,
                            cudaDataType type_c, int ldc, int count, cublasComputeType_t compute) {
    const auto with = [&](auto in, auto out, auto sum, auto scalar) {
        using In = decltype(in);
        using Out = decltype(out);
        using Scalar = decltype(scalar);
        return multiply<In, Out, decltype(sum)>(
            h, opa, opb, m, n, k, static_cast<const Scalar*>(alpha), a.of<const In>(), lda,
            b.of<const In>(), ldb, static_cast<const Scalar*>(beta), c.of<Out>(), ldc, count);
    };
    const __half half{};
    const __nv_bfloat16 bfloat{};
    const auto is = [&](cudaDataType in, cudaDataType out) {
        return type_a == in && type_b == in && type_c == out;
    };
    switch (compute) {
        case CUBLAS_COMPUTE_16F:
        case CUBLAS_COMPUTE_16F_PEDANTIC:
            if (is(CUDA_R_16F, CUDA_R_16F)) return with(half, half, 0.0f, half);
            break;
        case CUBLAS_COMPUTE_32F:
        case CUBLAS_COMPUTE_32F_PEDANTIC:
        case CUBLAS_COMPUTE_32F_FAST_16F:
        case CUBLAS_COMPUTE_32F_FAST_16BF:
        case CUBLAS_COMPUTE_32F_FAST_TF32:
            if (is(CUDA_R_16F, CUDA_R_16F)) return with(half, half, 0.0f, 0.0f);
            if (is(CUDA_R_16F, CUDA_R_32F)) return with(half, 0.0f, 0.0f, 0.0f);
            if (is(CUDA_R_16BF, CUDA_R_16BF)) return with(bfloat, bfloat, 0.0f, 0.0f);
            if (is(CUDA_R_16BF, CUDA_R_32F)) return with(bfloat, 0.0f, 0.0f, 0.0f);
            if (is(CUDA_R_8I, CUDA_R_32F)) return with(int8_t{}, 0.0f, 0.0f, 0.0f);
            if (is(CUDA_R_32F, CUDA_R_32F)) return with(0.0f, 0.0f, 0.0f, 0.0f);
            break;
        case CUBLAS_COMPUTE_32I:
        case CUBLAS_COMPUTE_32I_PEDANTIC:
            if (is(CUDA_R_8I, CUDA_R_32I)) return with(int8_t{}, 0, 0, 0);
            break;
        case CUBLAS_COMPUTE_64F:
        case CUBLAS_COMPUTE_64F_PEDANTIC:
            if (is(CUDA_R_64F, CUDA_R_64F)) return with(0.0, 0.0, 0.0, 0.0);
            break;
    }
    return not_simulated(name);
}

cublasStatus_t copy_matrix(int rows, int columns, int bytes, const void* a, int lda, void* b,
                           int ldb, cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
    if (rows < 0 || columns < 0 || bytes <= 0 || lda < rows || ldb < rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    const size_t width = size_t(rows) * bytes, from = size_t(lda) * bytes, to = size_t(ldb) * bytes;
    return status_of(waits ? cudaMemcpy2D(b, to, a, from, width, columns, kind)
                           : cudaMemcpy2DAsync(b, to, a, from, width, columns, kind, stream));
}
cublasStatus_t copy_vector(int n, int bytes, const void* x, int incx, void* y, int incy,
                           cudaMemcpyKind kind, cudaStream_t stream, bool waits) {
    if (n < 0 || bytes <= 0 || incx <= 0 || incy <= 0) return CUBLAS_STATUS_INVALID_VALUE;
    return copy_matrix(1, n, bytes, x, incx, y, incy, kind, stream, waits);
}

// A template for the functions of one element type. Its members have the names of the functions.
#define LAUNCH(kernel, n, ...)                                                \
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                             \
    if ((n) <= 0) return CUBLAS_STATUS_SUCCESS;                               \
    kernel<<<blocks_of(n, threads), threads, 0, h->stream>>>(n, __VA_ARGS__); \
    return launched();

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    static std::once_flag said;
    std::call_once(said, [] {
        std::fprintf(
            stderr,
            "coalesce: simple kernels replace cuBLAS; their costs are not those of cuBLAS\n");
    });
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = new (std::nothrow) cublasContext;
    return *handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t h) {
    if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete h;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
    if (!version) return CUBLAS_STATUS_INVALID_VALUE;
    *version = 130000;
    return CUBLAS_STATUS_SUCCESS;
}

#define ATTRIBUTE(set, get, type, member)               \
    cublasStatus_t set(cublasHandle_t h, type value) {  \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;   \
        h->member = value;                              \
        return CUBLAS_STATUS_SUCCESS;                   \
    }                                                   \
    cublasStatus_t get(cublasHandle_t h, type* value) { \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;   \
        *value = h->member;                             \
        return CUBLAS_STATUS_SUCCESS;                   \
    }
ATTRIBUTE(cublasSetStream_v2, cublasGetStream_v2, cudaStream_t, stream)
ATTRIBUTE(cublasSetPointerMode_v2, cublasGetPointerMode_v2, cublasPointerMode_t, pointers)
ATTRIBUTE(cublasSetMathMode, cublasGetMathMode, cublasMath_t, math)
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void*, size_t) {
    return h ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

const char* cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define NAME(name) \
    case name:     \
        return #name;
        NAME(CUBLAS_STATUS_SUCCESS)
        NAME(CUBLAS_STATUS_NOT_INITIALIZED)
        NAME(CUBLAS_STATUS_ALLOC_FAILED)
        NAME(CUBLAS_STATUS_INVALID_VALUE)
        NAME(CUBLAS_STATUS_ARCH_MISMATCH)
        NAME(CUBLAS_STATUS_MAPPING_ERROR)
        NAME(CUBLAS_STATUS_EXECUTION_FAILED)
        NAME(CUBLAS_STATUS_INTERNAL_ERROR)
        NAME(CUBLAS_STATUS_NOT_SUPPORTED)
        NAME(CUBLAS_STATUS_LICENSE_ERROR)
#undef NAME
    }
    return "unknown status";
}
const char* cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

cublasStatus_t cublasSetVector(int n, int bytes, const void* x, int incx, void* y, int incy) {
    return copy_vector(n, bytes, x, incx, y, incy, cudaMemcpyHostToDevice, nullptr, true);
}
cublasStatus_t cublasGetVector(int n, int bytes, const void* x, int incx, void* y, int incy) {
    return copy_vector(n, bytes, x, incx, y, incy, cudaMemcpyDeviceToHost, nullptr, true);
}
cublasStatus_t cublasSetMatrix(int rows, int columns, int bytes, const void* a, int lda, void* b,
                               int ldb) {
    return copy_matrix(rows, columns, bytes, a, lda, b, ldb, cudaMemcpyHostToDevice, nullptr, true);
}
cublasStatus_t cublasGetMatrix(int rows, int columns, int bytes, const void* a, int lda, void* b,
                               int ldb) {
    return copy_matrix(rows, columns, bytes, a, lda, b, ldb, cudaMemcpyDeviceToHost, nullptr, true);
}
cublasStatus_t cublasSetVectorAsync(int n, int bytes, const void* x, int incx, void* y, int incy,
                                    cudaStream_t s) {
    return copy_vector(n, bytes, x, incx, y, incy, cudaMemcpyHostToDevice, s, false);
}
cublasStatus_t cublasGetVectorAsync(int n, int bytes, const void* x, int incx, void* y, int incy,
                                    cudaStream_t s) {
    return copy_vector(n, bytes, x, incx, y, incy, cudaMemcpyDeviceToHost, s, false);
}
cublasStatus_t cublasSetMatrixAsync(int rows, int columns, int bytes, const void* a, int lda,
                                    void* b, int ldb, cudaStream_t s) {
    return copy_matrix(rows, columns, bytes, a, lda, b, ldb, cudaMemcpyHostToDevice, s, false);
}
cublasStatus_t cublasGetMatrixAsync(int rows, int columns, int bytes, const void* a, int lda,
                                    void* b, int ldb, cudaStream_t s) {
    return copy_matrix(rows, columns, bytes, a, lda, b, ldb, cudaMemcpyDeviceToHost, s, false);
}

#define DEFINE(L, l, T)                                                                            \
    cublasStatus_t cublas##L##axpy_v2(                                                             \
        cublasHandle_t h, int n, const T* alpha, const T* x, int incx, T* y,                       \
        int incy){LAUNCH(cublas_axpy<T>, n, factor(h, alpha), x, incx, y,                          \
                         incy)} cublasStatus_t cublas##L##scal_v2(cublasHandle_t h, int n,         \
                                                                  const T* alpha, T* x, int incx){ \
        LAUNCH(cublas_scal<T>, incx > 0 ? n : 0, factor(h, alpha), x,                              \
               incx)} cublasStatus_t cublas##L##copy_v2(cublasHandle_t h, int n, const T* x,       \
                                                        int incx, T* y, int incy){                 \
        LAUNCH(cublas_copy<T>, n, x, incx, y,                                                      \
               incy)} cublasStatus_t cublas##L##swap_v2(cublasHandle_t h, int n, T* x, int incx,   \
                                                        T* y, int incy){LAUNCH(                    \
        cublas_swap<T>, n, x, incx, y,                                                             \
        incy)} cublasStatus_t cublas##L##dot_v2(cublasHandle_t h, int n, const T* x, int incx,     \
                                                const T* y, int incy, T* result) {                 \
        return sum_of<Sum::dot>(h, n, x, incx, y, incy, result);                                   \
    }                                                                                              \
    cublasStatus_t cublas##L##nrm2_v2(cublasHandle_t h, int n, const T* x, int incx, T* result) {  \
        return sum_of<Sum::norm>(h, n, x, incx, x, incx, result);                                  \
    }                                                                                              \
    cublasStatus_t cublas##L##asum_v2(cublasHandle_t h, int n, const T* x, int incx, T* result) {  \
        return sum_of<Sum::magnitudes>(h, n, x, incx, x, incx, result);                            \
    }                                                                                              \
    cublasStatus_t cublasI##l##amax_v2(cublasHandle_t h, int n, const T* x, int incx,              \
                                       int* result) {                                              \
        return index_of<true>(h, n, x, incx, result);                                              \
    }                                                                                              \
    cublasStatus_t cublasI##l##amin_v2(cublasHandle_t h, int n, const T* x, int incx,              \
                                       int* result) {                                              \
        return index_of<false>(h, n, x, incx, result);                                             \
    }                                                                                              \
    cublasStatus_t cublas##L##gemv_v2(cublasHandle_t h, cublasOperation_t op, int m, int n,        \
                                      const T* alpha, const T* a, int lda, const T* x, int incx,   \
                                      const T* beta, T* y, int incy) {                             \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                              \
        if (!is_operation(op) || m < 0 || n < 0 || lda < m || lda < 1 || !incx || !incy)           \
            return CUBLAS_STATUS_INVALID_VALUE;                                                    \
        const int rows = op == CUBLAS_OP_N ? m : n;                                                \
        if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;                                        \
        cublas_gemv<T><<<blocks_of(rows, threads), threads, 0, h->stream>>>(                       \
            op != CUBLAS_OP_N, m, n, factor(h, alpha), a, lda, x, incx, factor(h, beta), y, incy); \
        return launched();                                                                         \
    }                                                                                              \
    cublasStatus_t cublas##L##ger_v2(cublasHandle_t h, int m, int n, const T* alpha, const T* x,   \
                                     int incx, const T* y, int incy, T* a, int lda) {              \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                              \
        if (m < 0 || n < 0 || lda < m || lda < 1 || !incx || !incy)                                \
            return CUBLAS_STATUS_INVALID_VALUE;                                                    \
        if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;                                        \
        cublas_ger<T><<<dim3(blocks_of(m, threads), n), threads, 0, h->stream>>>(                  \
            m, n, factor(h, alpha), x, incx, y, incy, a, lda);                                     \
        return launched();                                                                         \
    }                                                                                              \
    cublasStatus_t cublas##L##geam(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, \
                                   int m, int n, const T* alpha, const T* a, int lda,              \
                                   const T* beta, const T* b, int ldb, T* c, int ldc) {            \
        if (!h) return CUBLAS_STATUS_NOT_INITIALIZED;                                              \
        if (!is_operation(opa) || !is_operation(opb) || m < 0 || n < 0 || ldc < m)                 \
            return CUBLAS_STATUS_INVALID_VALUE;                                                    \
        if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;                                        \
        cublas_geam<T><<<dim3(blocks_of(m, threads), n), threads, 0, h->stream>>>(                 \
            opa != CUBLAS_OP_N, opb != CUBLAS_OP_N, m, n, factor(h, alpha), a, lda,                \
            factor(h, beta), b, ldb, c, ldc);                                                      \
        return launched();                                                                         \
    }                                                                                              \
    cublasStatus_t cublas##L##gemm_v2(                                                             \
        cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,       \
        const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c, int ldc) {  \
        return multiply<T, T, T>(h, opa, opb, m, n, k, alpha, {a, 0, nullptr}, lda,                \
                                 {b, 0, nullptr}, ldb, beta, {c, 0, nullptr}, ldc, 1);             \
    }                                                                                              \
    cublasStatus_t cublas##L##gemmBatched(                                                         \
        cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,       \
        const T* alpha, const T* const a[], int lda, const T* const b[], int ldb, const T* beta,   \
        T* const c[], int ldc, int count) {                                                        \
        return multiply<T, T, T>(h, opa, opb, m, n, k, alpha, {nullptr, 0, a}, lda,                \
                                 {nullptr, 0, b}, ldb, beta, {nullptr, 0, c}, ldc, count);         \
    }                                                                                              \
    cublasStatus_t cublas##L##gemmStridedBatched(                                                  \
        cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,       \
        const T* alpha, const T* a, int lda, long long stride_a, const T* b, int ldb,              \
        long long stride_b, const T* beta, T* c, int ldc, long long stride_c, int count) {         \
        return multiply<T, T, T>(h, opa, opb, m, n, k, alpha, {a, stride_a, nullptr}, lda,         \
                                 {b, stride_b, nullptr}, ldb, beta, {c, stride_c, nullptr}, ldc,   \
                                 count);                                                           \
    }
DEFINE(S, s, float)
DEFINE(D, d, double)

// The sums are floats. cuBLAS may round them to a half after each addition.
cublasStatus_t cublasHgemm(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m,
                           int n, int k, const __half* alpha, const __half* a, int lda,
                           const __half* b, int ldb, const __half* beta, __half* c, int ldc) {
    return multiply<__half, __half, float>(h, opa, opb, m, n, k, alpha, {a, 0, nullptr}, lda,
                                           {b, 0, nullptr}, ldb, beta, {c, 0, nullptr}, ldc, 1);
}
cublasStatus_t cublasHgemmBatched(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb,
                                  int m, int n, int k, const __half* alpha, const __half* const a[],
                                  int lda, const __half* const b[], int ldb, const __half* beta,
                                  __half* const c[], int ldc, int count) {
    return multiply<__half, __half, float>(h, opa, opb, m, n, k, alpha, {nullptr, 0, a}, lda,
                                           {nullptr, 0, b}, ldb, beta, {nullptr, 0, c}, ldc, count);
}
cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t h, cublasOperation_t opa,
                                         cublasOperation_t opb, int m, int n, int k,
                                         const __half* alpha, const __half* a, int lda,
                                         long long stride_a, const __half* b, int ldb,
                                         long long stride_b, const __half* beta, __half* c, int ldc,
                                         long long stride_c, int count) {
    return multiply<__half, __half, float>(h, opa, opb, m, n, k, alpha, {a, stride_a, nullptr}, lda,
                                           {b, stride_b, nullptr}, ldb, beta,
                                           {c, stride_c, nullptr}, ldc, count);
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m,
                            int n, int k, const void* alpha, const void* a, cudaDataType type_a,
                            int lda, const void* b, cudaDataType type_b, int ldb, const void* beta,
                            void* c, cudaDataType type_c, int ldc, cublasComputeType_t compute,
                            cublasGemmAlgo_t) {
    return multiply_any("cublasGemmEx", h, opa, opb, m, n, k, alpha, any(a), type_a, lda, any(b),
                        type_b, ldb, beta, any(c), type_c, ldc, 1, compute);
}
cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb,
                                   int m, int n, int k, const void* alpha, const void* const a[],
                                   cudaDataType type_a, int lda, const void* const b[],
                                   cudaDataType type_b, int ldb, const void* beta, void* const c[],
                                   cudaDataType type_c, int ldc, int count,
                                   cublasComputeType_t compute, cublasGemmAlgo_t) {
    return multiply_any("cublasGemmBatchedEx", h, opa, opb, m, n, k, alpha, any(nullptr, 0, a),
                        type_a, lda, any(nullptr, 0, b), type_b, ldb, beta, any(nullptr, 0, c),
                        type_c, ldc, count, compute);
}
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType type_a, int lda, long long stride_a,
    const void* b, cudaDataType type_b, int ldb, long long stride_b, const void* beta, void* c,
    cudaDataType type_c, int ldc, long long stride_c, int count, cublasComputeType_t compute,
    cublasGemmAlgo_t) {
    return multiply_any("cublasGemmStridedBatchedEx", h, opa, opb, m, n, k, alpha, any(a, stride_a),
                        type_a, lda, any(b, stride_b), type_b, ldb, beta, any(c, stride_c), type_c,
                        ldc, count, compute);
}
cublasStatus_t cublasSgemmEx(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, int m,
                             int n, int k, const float* alpha, const void* a, cudaDataType type_a,
                             int lda, const void* b, cudaDataType type_b, int ldb,
                             const float* beta, void* c, cudaDataType type_c, int ldc) {
    return multiply_any("cublasSgemmEx", h, opa, opb, m, n, k, alpha, any(a), type_a, lda, any(b),
                        type_b, ldb, beta, any(c), type_c, ldc, 1, CUBLAS_COMPUTE_32F);
}

cublasStatus_t cublasDotEx(cublasHandle_t h, int n, const void* x, cudaDataType type_x, int incx,
                           const void* y, cudaDataType type_y, int incy, void* result,
                           cudaDataType type, cudaDataType sum) {
    const auto with = [&](auto value) {
        using T = decltype(value);
        return sum_of<Sum::dot>(h, n, static_cast<const T*>(x), incx, static_cast<const T*>(y),
                                incy, static_cast<T*>(result));
    };
    if (type_x == type && type_y == type) {
        if (type == CUDA_R_16F && sum == CUDA_R_32F) return with(__half{});
        if (type == CUDA_R_16BF && sum == CUDA_R_32F) return with(__nv_bfloat16{});
        if (type == CUDA_R_32F && sum == CUDA_R_32F) return with(0.0f);
        if (type == CUDA_R_64F && sum == CUDA_R_64F) return with(0.0);
    }
    return not_simulated("cublasDotEx");
}
cublasStatus_t cublasDotcEx(cublasHandle_t h, int n, const void* x, cudaDataType type_x, int incx,
                            const void* y, cudaDataType type_y, int incy, void* result,
                            cudaDataType type, cudaDataType sum) {
    return cublasDotEx(h, n, x, type_x, incx, y, type_y, incy, result, type, sum);
}

}  // extern "C"
