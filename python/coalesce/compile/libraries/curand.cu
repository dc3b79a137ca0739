// A replacement for cuRAND's host library, for whole programs on the simulator. Its kernels call
// cuRAND's device functions, whose source is in cuRAND's headers. So the generators are cuRAND's,
// but the order of the numbers can differ from that of cuRAND's host library.
#include <curand.h>
#include <curand_kernel.h>

#include <cstdio>
#include <mutex>
#include <new>
#include <vector>

struct curandGenerator_st {
    curandRngType_t type;
    bool on_host;  // the output is in host memory
    cudaStream_t stream = nullptr;
    unsigned long long seed = 0, offset = 0;
    unsigned dimensions = 1;
    void* states = nullptr;   // the states of a pseudorandom generator, on the device
    void* vectors = nullptr;  // the direction vectors of a quasirandom generator, on the device
};

namespace {

// A pseudorandom generator has this many sequences. Number i of the output comes from sequence
// i mod 4096, as in the ordering that cuRAND's manual describes for XORWOW.
constexpr int sequences = 4096, threads = 256;
constexpr int per_thread = 8;  // numbers per thread, for quasirandom generators
constexpr unsigned most_dimensions = 20000;

// Sobol' sequences. The direction numbers of the first 20 dimensions are those of S. Joe and
// F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections", 2008 (the set
// D6). For all other dimensions, this file chooses its own direction numbers, because cuRAND's
// headers do not contain the numbers that cuRAND uses.
constexpr int table_dimensions = 20;
constexpr unsigned char direction_numbers[table_dimensions][7] = {
    {1},
    {1, 3},
    {1, 3, 1},
    {1, 1, 1},
    {1, 1, 3, 3},
    {1, 3, 5, 13},
    {1, 1, 5, 5, 17},
    {1, 1, 5, 5, 5},
    {1, 1, 7, 11, 19},
    {1, 1, 5, 1, 1},
    {1, 1, 1, 3, 11},
    {1, 3, 5, 5, 31},
    {1, 3, 3, 9, 7, 49},
    {1, 1, 1, 15, 21, 21},
    {1, 3, 1, 13, 27, 49},
    {1, 1, 1, 15, 7, 5},
    {1, 3, 1, 15, 13, 25},
    {1, 1, 5, 5, 19, 61},
    {1, 3, 7, 11, 23, 15, 103},
    {1, 3, 7, 13, 13, 15, 69},
};

// Polynomials over the field with two elements; bit i is the coefficient of x^i.
unsigned product(unsigned a, unsigned b, unsigned modulus, int degree) {
    unsigned result = 0;
    for (; b; b >>= 1) {
        if (b & 1) result ^= a;
        a <<= 1;
        if (a >> degree) a ^= modulus;
    }
    return result;
}
unsigned power_of_x(unsigned exponent, unsigned modulus, int degree) {
    unsigned result = 1, base = degree == 1 ? 1 : 2;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1) result = product(result, base, modulus, degree);
        base = product(base, base, modulus, degree);
    }
    return result;
}
bool is_primitive(unsigned polynomial, int degree) {
    const unsigned order = (1u << degree) - 1;
    if (power_of_x(order, polynomial, degree) != 1) return false;
    unsigned rest = order;
    for (unsigned prime = 2; prime <= rest; ++prime) {
        if (rest % prime) continue;
        while (rest % prime == 0) rest /= prime;
        if (order != prime && power_of_x(order / prime, polynomial, degree) == 1) return false;
    }
    return true;
}

// Returns the direction vectors of the first dimensions, one dimension after the other.
template <typename Word>
std::vector<Word> direction_vectors(unsigned dimensions) {
    constexpr int bits = 8 * sizeof(Word);
    std::vector<Word> all(size_t(dimensions) * bits);
    for (int j = 0; j < bits; ++j) all[j] = Word(1) << (bits - 1 - j);
    unsigned dimension = 1;
    for (int degree = 1; dimension < dimensions; ++degree) {
        for (unsigned middle = 0; middle < 1u << (degree - 1) && dimension < dimensions; ++middle) {
            const unsigned polynomial = 1u << degree | middle << 1 | 1;
            if (!is_primitive(polynomial, degree)) continue;
            Word* const v = &all[size_t(dimension) * bits];
            unsigned long long random = dimension;
            for (int j = 0; j < bits; ++j) {
                if (j < degree) {
                    random = random * 6364136223846793005ull + 1442695040888963407ull;
                    const Word m = dimension <= table_dimensions
                                       ? direction_numbers[dimension - 1][j]
                                       : (random >> 33 | 1) & ((Word(2) << j) - 1);
                    v[j] = m << (bits - 1 - j);
                    continue;
                }
                v[j] = v[j - degree] ^ v[j - degree] >> degree;
                for (int i = 1; i < degree; ++i)
                    if (polynomial >> (degree - i) & 1) v[j] ^= v[j - i];
            }
            ++dimension;
        }
    }
    return all;
}

// Functions that return the next number of a generator, and change its state.
struct Words {
    template <typename State>
    __device__ unsigned operator()(State* s) const {
        return curand(s);
    }
};
struct LongWords {
    __device__ unsigned long long operator()(curandStateSobol64_t* s) const { return curand(s); }
};
struct Uniform {
    template <typename State>
    __device__ float operator()(State* s) const {
        return curand_uniform(s);
    }
};
struct UniformDouble {
    template <typename State>
    __device__ double operator()(State* s) const {
        return curand_uniform_double(s);
    }
};
struct Normal {
    float mean, deviation;
    template <typename State>
    __device__ float operator()(State* s) const {
        return mean + deviation * curand_normal(s);
    }
};
struct NormalDouble {
    double mean, deviation;
    template <typename State>
    __device__ double operator()(State* s) const {
        return mean + deviation * curand_normal_double(s);
    }
};
struct LogNormal {
    float mean, deviation;
    template <typename State>
    __device__ float operator()(State* s) const {
        return expf(mean + deviation * curand_normal(s));
    }
};
struct LogNormalDouble {
    double mean, deviation;
    template <typename State>
    __device__ double operator()(State* s) const {
        return exp(mean + deviation * curand_normal_double(s));
    }
};
struct Poisson {
    double lambda;
    template <typename State>
    __device__ unsigned operator()(State* s) const {
        return curand_poisson(s, lambda);
    }
};

template <typename State>
__global__ void curand_seed(State* states, unsigned long long seed, unsigned long long offset) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(seed, i, offset / sequences + (i < offset % sequences), &states[i]);
}
template <typename State, typename T, typename Distribution>
__global__ void curand_pseudo(State* states, unsigned long long offset, T* out, size_t count,
                              Distribution distribution) {
    // The first number comes from the sequence after the one that provided the last number.
    const size_t thread = blockIdx.x * blockDim.x + threadIdx.x;
    State state = states[(thread + offset) % sequences];
    for (size_t i = thread; i < count; i += sequences) out[i] = distribution(&state);
    states[(thread + offset) % sequences] = state;
}
template <typename State, typename Word, typename T, typename Distribution>
__global__ void curand_quasi(Word* vectors, unsigned long long offset, T* out, size_t count,
                             Distribution distribution) {
    // The numbers of a dimension are adjacent in the output.
    const size_t first = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * per_thread;
    if (first >= count) return;
    State state;
    curand_init(vectors + blockIdx.y * (8 * sizeof(Word)), offset + first, &state);
    for (size_t i = first; i < count && i < first + per_thread; ++i)
        out[blockIdx.y * count + i] = distribution(&state);
}

bool is_quasi(curandRngType_t type) { return type >= CURAND_RNG_QUASI_DEFAULT; }
bool has_long_words(curandRngType_t type) { return type == CURAND_RNG_QUASI_SOBOL64; }

void forget(curandGenerator_t g) {
    cudaFree(g->states);
    cudaFree(g->vectors);
    g->states = g->vectors = nullptr;
}

template <typename State, typename T, typename Distribution>
curandStatus_t pseudo(curandGenerator_t g, T* out, size_t count, Distribution distribution) {
    const int blocks = sequences / threads;
    if (!g->states) {
        if (cudaMalloc(&g->states, sequences * sizeof(State)) != cudaSuccess)
            return CURAND_STATUS_ALLOCATION_FAILED;
        curand_seed<<<blocks, threads, 0, g->stream>>>(static_cast<State*>(g->states), g->seed,
                                                       g->offset);
    }
    curand_pseudo<<<blocks, threads, 0, g->stream>>>(static_cast<State*>(g->states), g->offset, out,
                                                     count, distribution);
    g->offset += count;
    return CURAND_STATUS_SUCCESS;
}
template <typename State, typename Word, typename T, typename Distribution>
curandStatus_t quasi(curandGenerator_t g, T* out, size_t count, Distribution distribution) {
    if (count % g->dimensions) return CURAND_STATUS_LENGTH_NOT_MULTIPLE;
    if (!g->vectors) {
        const std::vector<Word> vectors = direction_vectors<Word>(g->dimensions);
        const size_t bytes = vectors.size() * sizeof(Word);
        if (cudaMalloc(&g->vectors, bytes) != cudaSuccess) return CURAND_STATUS_ALLOCATION_FAILED;
        cudaMemcpy(g->vectors, vectors.data(), bytes, cudaMemcpyHostToDevice);
    }
    const size_t each = count / g->dimensions, block = size_t(threads) * per_thread;
    const dim3 grid(unsigned((each + block - 1) / block), g->dimensions);
    curand_quasi<State><<<grid, threads, 0, g->stream>>>(static_cast<Word*>(g->vectors), g->offset,
                                                         out, each, distribution);
    g->offset += each;
    return CURAND_STATUS_SUCCESS;
}

template <typename T, typename Distribution>
curandStatus_t on_device(curandGenerator_t g, T* out, size_t count, Distribution distribution) {
    switch (g->type) {
        case CURAND_RNG_PSEUDO_MRG32K3A:
            return pseudo<curandStateMRG32k3a_t>(g, out, count, distribution);
        case CURAND_RNG_PSEUDO_PHILOX4_32_10:
            return pseudo<curandStatePhilox4_32_10_t>(g, out, count, distribution);
        case CURAND_RNG_QUASI_DEFAULT:
        case CURAND_RNG_QUASI_SOBOL32:
            return quasi<curandStateSobol32_t, unsigned>(g, out, count, distribution);
        case CURAND_RNG_QUASI_SOBOL64:
            return quasi<curandStateSobol64_t, unsigned long long>(g, out, count, distribution);
        default:
            return pseudo<curandStateXORWOW_t>(g, out, count, distribution);
    }
}

// Calls `make` with device memory for the numbers. If `out` is on the host, copies them there.
template <typename T, typename Make>
curandStatus_t generate(curandGenerator_t g, T* out, size_t count, Make make) {
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    if (!out || count == 0) return count ? CURAND_STATUS_OUT_OF_RANGE : CURAND_STATUS_SUCCESS;
    T* place = out;
    if (g->on_host && cudaMalloc(&place, count * sizeof(T)) != cudaSuccess)
        return CURAND_STATUS_ALLOCATION_FAILED;
    curandStatus_t status = make(place);
    if (status == CURAND_STATUS_SUCCESS && cudaPeekAtLastError() != cudaSuccess)
        status = CURAND_STATUS_LAUNCH_FAILURE;
    if (g->on_host) {
        const auto error = cudaMemcpy(out, place, count * sizeof(T), cudaMemcpyDeviceToHost);
        if (error != cudaSuccess) status = CURAND_STATUS_LAUNCH_FAILURE;
        cudaFree(place);
    }
    return status;
}
template <typename T, typename Distribution>
curandStatus_t generate_with(curandGenerator_t g, T* out, size_t count, Distribution distribution) {
    return generate(g, out, count,
                    [&](T* place) { return on_device(g, place, count, distribution); });
}

curandStatus_t create(curandGenerator_t* generator, curandRngType_t type, bool on_host) {
    static std::once_flag said;
    std::call_once(said, [] {
        std::fprintf(stderr,
                     "coalesce: simple kernels replace cuRAND's host library; its numbers can have "
                     "another order, and its costs differ\n");
    });
    switch (type) {
        case CURAND_RNG_PSEUDO_DEFAULT:
        case CURAND_RNG_PSEUDO_XORWOW:
        case CURAND_RNG_PSEUDO_MRG32K3A:
        case CURAND_RNG_PSEUDO_PHILOX4_32_10:
        case CURAND_RNG_QUASI_DEFAULT:
        case CURAND_RNG_QUASI_SOBOL32:
        case CURAND_RNG_QUASI_SOBOL64:
            break;
        default:
            std::fprintf(stderr,
                         "coalesce: this generator of cuRAND (type %d) is not simulated; XORWOW, "
                         "MRG32k3a, Philox and Sobol without scrambling are\n",
                         int(type));
            return CURAND_STATUS_TYPE_ERROR;
    }
    *generator = new (std::nothrow) curandGenerator_st{type, on_host};
    return *generator ? CURAND_STATUS_SUCCESS : CURAND_STATUS_ALLOCATION_FAILED;
}

template <typename Word, typename Vectors>
curandStatus_t all_vectors(Vectors** vectors) {
    static std::vector<Word>* const all =
        new std::vector<Word>(direction_vectors<Word>(most_dimensions));
    *vectors = reinterpret_cast<Vectors*>(all->data());
    return CURAND_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

curandStatus_t curandCreateGenerator(curandGenerator_t* generator, curandRngType_t type) {
    return create(generator, type, false);
}
curandStatus_t curandCreateGeneratorHost(curandGenerator_t* generator, curandRngType_t type) {
    return create(generator, type, true);
}
curandStatus_t curandDestroyGenerator(curandGenerator_t g) {
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    forget(g);
    delete g;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGetVersion(int* version) {
    if (!version) return CURAND_STATUS_OUT_OF_RANGE;
    *version = CURAND_VERSION;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetStream(curandGenerator_t g, cudaStream_t stream) {
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    g->stream = stream;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetPseudoRandomGeneratorSeed(curandGenerator_t g, unsigned long long seed) {
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    if (is_quasi(g->type)) return CURAND_STATUS_TYPE_ERROR;
    forget(g);
    g->seed = seed, g->offset = 0;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOffset(curandGenerator_t g, unsigned long long offset) {
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    forget(g);
    g->offset = offset;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandSetGeneratorOrdering(curandGenerator_t g, curandOrdering_t order) {
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    return is_quasi(g->type) == (order == CURAND_ORDERING_QUASI_DEFAULT)
               ? CURAND_STATUS_SUCCESS
               : CURAND_STATUS_OUT_OF_RANGE;
}
curandStatus_t curandSetQuasiRandomGeneratorDimensions(curandGenerator_t g, unsigned dimensions) {
    if (!g) return CURAND_STATUS_NOT_INITIALIZED;
    if (!is_quasi(g->type)) return CURAND_STATUS_TYPE_ERROR;
    if (dimensions < 1 || dimensions > most_dimensions) return CURAND_STATUS_OUT_OF_RANGE;
    forget(g);
    g->dimensions = dimensions, g->offset = 0;
    return CURAND_STATUS_SUCCESS;
}
curandStatus_t curandGenerateSeeds(curandGenerator_t g) {
    return g ? CURAND_STATUS_SUCCESS : CURAND_STATUS_NOT_INITIALIZED;
}

curandStatus_t curandGenerate(curandGenerator_t g, unsigned* out, size_t count) {
    if (g && has_long_words(g->type)) return CURAND_STATUS_TYPE_ERROR;
    return generate_with(g, out, count, Words{});
}
curandStatus_t curandGenerateLongLong(curandGenerator_t g, unsigned long long* out, size_t count) {
    if (g && !has_long_words(g->type)) return CURAND_STATUS_TYPE_ERROR;
    return generate(g, out, count, [&](unsigned long long* place) {
        return quasi<curandStateSobol64_t, unsigned long long>(g, place, count, LongWords{});
    });
}
curandStatus_t curandGenerateUniform(curandGenerator_t g, float* out, size_t count) {
    return generate_with(g, out, count, Uniform{});
}
curandStatus_t curandGenerateUniformDouble(curandGenerator_t g, double* out, size_t count) {
    return generate_with(g, out, count, UniformDouble{});
}
curandStatus_t curandGenerateNormal(curandGenerator_t g, float* out, size_t count, float mean,
                                    float deviation) {
    return generate_with(g, out, count, Normal{mean, deviation});
}
curandStatus_t curandGenerateNormalDouble(curandGenerator_t g, double* out, size_t count,
                                          double mean, double deviation) {
    return generate_with(g, out, count, NormalDouble{mean, deviation});
}
curandStatus_t curandGenerateLogNormal(curandGenerator_t g, float* out, size_t count, float mean,
                                       float deviation) {
    return generate_with(g, out, count, LogNormal{mean, deviation});
}
curandStatus_t curandGenerateLogNormalDouble(curandGenerator_t g, double* out, size_t count,
                                             double mean, double deviation) {
    return generate_with(g, out, count, LogNormalDouble{mean, deviation});
}
curandStatus_t curandGeneratePoisson(curandGenerator_t g, unsigned* out, size_t count,
                                     double lambda) {
    return generate_with(g, out, count, Poisson{lambda});
}

curandStatus_t curandGetDirectionVectors32(curandDirectionVectors32_t* vectors[],
                                           curandDirectionVectorSet_t set) {
    if (set != CURAND_DIRECTION_VECTORS_32_JOEKUO6) return CURAND_STATUS_OUT_OF_RANGE;
    return all_vectors<unsigned>(vectors);
}
curandStatus_t curandGetDirectionVectors64(curandDirectionVectors64_t* vectors[],
                                           curandDirectionVectorSet_t set) {
    if (set != CURAND_DIRECTION_VECTORS_64_JOEKUO6) return CURAND_STATUS_OUT_OF_RANGE;
    return all_vectors<unsigned long long>(vectors);
}

}  // extern "C"
