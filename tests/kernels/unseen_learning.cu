// Kernels of neural networks, like those of frameworks, courses and homework. The kernels of unseen_*.cu
// test the counts and the models: they were not used to find the rules or to fit the models.
// unseen_cases.py launches each.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

#define CUDA_KERNEL_LOOP(i, n) \
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#define FULL_MASK 0xffffffff

// ---- convolutional networks ----

extern "C" __global__ void conv2d_nchw(const float* input, const float* weight, const float* bias,
                                       float* output, int c_in, int h, int w, int c_out) {
    int ow = blockIdx.x * blockDim.x + threadIdx.x;
    int oh = blockIdx.y * blockDim.y + threadIdx.y;
    int oc = blockIdx.z % c_out;
    int n = blockIdx.z / c_out;
    if (ow >= w || oh >= h) return;

    float acc = bias[oc];
    for (int ic = 0; ic < c_in; ic++) {
        for (int kh = 0; kh < 3; kh++) {
            for (int kw = 0; kw < 3; kw++) {
                int ih = oh + kh - 1;
                int iw = ow + kw - 1;
                if (ih >= 0 && ih < h && iw >= 0 && iw < w)
                    acc += input[((n * c_in + ic) * h + ih) * w + iw] *
                           weight[((oc * c_in + ic) * 3 + kh) * 3 + kw];
            }
        }
    }
    output[((n * c_out + oc) * h + oh) * w + ow] = fmaxf(acc, 0.0f);
}

extern "C" __global__ void im2col(int n, const float* data_im, int height, int width, int ksize, int pad,
                                  int stride, int height_col, int width_col, float* data_col) {
    CUDA_KERNEL_LOOP(index, n) {
        int w_out = index % width_col;
        int h_out = (index / width_col) % height_col;
        int channel_in = index / width_col / height_col;
        int channel_out = channel_in * ksize * ksize;
        int h_in = h_out * stride - pad;
        int w_in = w_out * stride - pad;
        float* col = data_col + (channel_out * height_col + h_out) * width_col + w_out;
        const float* im = data_im + (channel_in * height + h_in) * width + w_in;
        for (int i = 0; i < ksize; ++i)
            for (int j = 0; j < ksize; ++j) {
                int h = h_in + i, w = w_in + j;
                *col = (h >= 0 && w >= 0 && h < height && w < width) ? im[i * width + j] : 0;
                col += height_col * width_col;
            }
    }
}

template <typename scalar_t>
__global__ void max_pool(const int nthreads, const scalar_t* bottom, const int channels, const int height,
                         const int width, const int pooled_h, const int pooled_w, scalar_t* top,
                         long long* top_mask) {
    CUDA_KERNEL_LOOP(index, nthreads) {
        int pw = index % pooled_w;
        int ph = (index / pooled_w) % pooled_h;
        int c = (index / pooled_w / pooled_h) % channels;
        int n = index / pooled_w / pooled_h / channels;
        int hstart = ph * 2 - 1, wstart = pw * 2 - 1;
        int hend = min(hstart + 3, height), wend = min(wstart + 3, width);
        hstart = max(hstart, 0);
        wstart = max(wstart, 0);
        scalar_t maxval = -1e30;
        int maxidx = hstart * width + wstart;
        const scalar_t* slice = bottom + (n * channels + c) * height * width;
        for (int h = hstart; h < hend; ++h)
            for (int w = wstart; w < wend; ++w)
                if (slice[h * width + w] > maxval) {
                    maxidx = h * width + w;
                    maxval = slice[maxidx];
                }
        top[index] = maxval;
        top_mask[index] = maxidx;
    }
}

// ---- normalization ----

__device__ __forceinline__ float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset >>= 1) val += __shfl_xor_sync(FULL_MASK, val, offset, 32);
    return val;
}

__device__ float blockReduceSum(float val) {
    static __shared__ float shared[32];
    int lane = threadIdx.x & 0x1f;
    int wid = threadIdx.x >> 5;
    val = warpReduceSum(val);
    __syncthreads();
    if (lane == 0) shared[wid] = val;
    __syncthreads();
    val = (threadIdx.x < (blockDim.x >> 5)) ? shared[lane] : 0.0f;
    if (wid == 0) val = warpReduceSum(val);
    if (threadIdx.x == 0) shared[0] = val;
    __syncthreads();
    return shared[0];
}

struct Welford {
    float mean, m2, count;
    __device__ void add(float x) {
        count += 1;
        float delta = x - mean;
        mean += delta / count;
        m2 += delta * (x - mean);
    }
    __device__ void merge(const Welford& o) {
        float total = count + o.count;
        if (total == 0) return;
        float delta = o.mean - mean;
        mean += delta * o.count / total;
        m2 += o.m2 + delta * delta * count * o.count / total;
        count = total;
    }
};

// One block per channel of an NCHW tensor.
extern "C" __global__ void batch_norm_stats(const float* x, float* mean, float* invstd, int N, int C,
                                            int HW) {
    __shared__ Welford stats[8];
    int c = blockIdx.x;
    Welford w = {0, 0, 0};
    for (int n = threadIdx.y; n < N; n += blockDim.y)
        for (int i = threadIdx.x; i < HW; i += blockDim.x) w.add(x[(n * C + c) * HW + i]);
    for (int off = 16; off; off >>= 1) {
        Welford o;
        o.mean = __shfl_down_sync(FULL_MASK, w.mean, off);
        o.m2 = __shfl_down_sync(FULL_MASK, w.m2, off);
        o.count = __shfl_down_sync(FULL_MASK, w.count, off);
        w.merge(o);
    }
    if (threadIdx.x == 0) stats[threadIdx.y] = w;
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        for (int i = 1; i < blockDim.y; i++) w.merge(stats[i]);
        mean[c] = w.mean;
        invstd[c] = rsqrtf(w.m2 / w.count + 1e-5f);
    }
}

template <int COLS>
__global__ void layer_norm_warp(const float4* in, float4* out, const float* __restrict__ gamma,
                                const float* __restrict__ beta, int rows) {
    constexpr int N = COLS / 128;
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float4 v[N];
    float sum = 0, sq = 0;
#pragma unroll
    for (int i = 0; i < N; i++) {
        v[i] = in[row * (COLS / 4) + i * 32 + threadIdx.x];
        sum += v[i].x + v[i].y + v[i].z + v[i].w;
    }
    float mu = warpReduceSum(sum) / COLS;
#pragma unroll
    for (int i = 0; i < N; i++) {
        v[i].x -= mu, v[i].y -= mu, v[i].z -= mu, v[i].w -= mu;
        sq += v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z + v[i].w * v[i].w;
    }
    float rstd = rsqrtf(warpReduceSum(sq) / COLS + 1e-5f);
#pragma unroll
    for (int i = 0; i < N; i++) {
        int c = 4 * (i * 32 + threadIdx.x);
        float4 r;
        r.x = v[i].x * rstd * gamma[c] + beta[c];
        r.y = v[i].y * rstd * gamma[c + 1] + beta[c + 1];
        r.z = v[i].z * rstd * gamma[c + 2] + beta[c + 2];
        r.w = v[i].w * rstd * gamma[c + 3] + beta[c + 3];
        out[row * (COLS / 4) + i * 32 + threadIdx.x] = r;
    }
}

extern "C" __global__ void rms_norm_block(const float* x, const float* weight, float* y, int hidden) {
    const float* row = x + (size_t)blockIdx.x * hidden;
    float ss = 0.0f;
    for (int i = threadIdx.x; i < hidden; i += blockDim.x) ss += row[i] * row[i];
    float scale = rsqrtf(blockReduceSum(ss) / hidden + 1e-6f);
    float total = 0;
    for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
        float v = row[i] * scale * weight[i];
        y[(size_t)blockIdx.x * hidden + i] = v;
        total += fabsf(v);
    }
    total = blockReduceSum(total);
    if (threadIdx.x == 0) y[(size_t)gridDim.x * hidden + blockIdx.x] = total;
}

// ---- transformers ----

extern "C" __global__ void attention_scores(const float* Q, const float* K, float* S, int seq, int d,
                                            float scale) {
    extern __shared__ float q[];
    int head = blockIdx.z, i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    const float* Qh = Q + (head * seq + i) * d;
    for (int k = threadIdx.x; k < d; k += blockDim.x) q[k] = Qh[k];
    __syncthreads();
    if (j >= seq) return;
    float dot = -INFINITY;
    if (j <= i) {
        dot = 0.f;
        const float4* Kh = reinterpret_cast<const float4*>(K + (head * seq + j) * d);
        for (int k = 0; k < d / 4; k++) {
            float4 kv = Kh[k];
            dot += q[4 * k] * kv.x + q[4 * k + 1] * kv.y + q[4 * k + 2] * kv.z + q[4 * k + 3] * kv.w;
        }
        dot *= scale;
    }
    S[(head * seq + i) * seq + j] = dot;
}

// One warp per query and one lane per feature (32). The softmax is computed online.
extern "C" __global__ void attention_online(const float* Q, const float* K, const float* V, float* O,
                                            int seq) {
    int query = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    int head = query / seq, i = query % seq;
    const float* k = K + head * seq * 32;
    const float* v = V + head * seq * 32;
    float q = Q[query * 32 + lane] * 0.17677669f;
    float m = -1e20f, l = 0, acc = 0;
    for (int j = 0; j <= i; j++) {
        float s = warpReduceSum(q * k[j * 32 + lane]);
        float m_new = fmaxf(m, s);
        float corr = __expf(m - m_new), p = __expf(s - m_new);
        l = l * corr + p;
        acc = acc * corr + p * v[j * 32 + lane];
        m = m_new;
    }
    O[query * 32 + lane] = acc / l;
}

extern "C" __global__ void rotary(__half2* x, const int* positions, int heads, int half_dim) {
    int token = blockIdx.x;
    float pos = positions[token];
    for (int t = threadIdx.x; t < heads * half_dim; t += blockDim.x) {
        int f = t % half_dim;
        float freq = exp2f(-13.287712f * f / half_dim);
        float s, c;
        sincosf(pos * freq, &s, &c);
        float2 v = __half22float2(x[token * heads * half_dim + t]);
        x[token * heads * half_dim + t] = __floats2half2_rn(v.x * c - v.y * s, v.x * s + v.y * c);
    }
}

extern "C" __global__ void embedding(const long long* ids, const float* table, float* out, int dim,
                                     long long padding_idx) {
    long long id = ids[blockIdx.x];
    if (id == padding_idx) {
        for (int d = threadIdx.x; d < dim; d += blockDim.x) out[blockIdx.x * dim + d] = 0;
        return;
    }
    for (int d = threadIdx.x; d < dim; d += blockDim.x) out[blockIdx.x * dim + d] = table[id * dim + d];
}

extern "C" __global__ void embedding_backward(const long long* ids, const float* grad, float* table_grad,
                                              int tokens, int dim) {
    int t = blockIdx.x * blockDim.y + threadIdx.y;
    if (t >= tokens) return;
    for (int d = threadIdx.x; d < dim; d += blockDim.x)
        atomicAdd(&table_grad[ids[t] * dim + d], grad[t * dim + d]);
}

// ---- training ----

extern "C" __global__ void cross_entropy(const float* logits, const int* target, float* loss, int classes,
                                         int rows) {
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const float* x = logits + row * classes;
    float mx = -INFINITY;
    for (int i = warp.thread_rank(); i < classes; i += 32) mx = fmaxf(mx, x[i]);
    mx = cg::reduce(warp, mx, cg::greater<float>());
    float sum = 0;
    for (int i = warp.thread_rank(); i < classes; i += 32) sum += expf(x[i] - mx);
    sum = cg::reduce(warp, sum, cg::plus<float>());
    if (warp.thread_rank() == 0) loss[row] = logf(sum) + mx - x[target[row]];
}

__device__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

extern "C" __global__ void lstm_cell(const float* gates, const float* c_prev, float* c_next, float* h_next,
                                     int hidden) {
    int b = blockIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= hidden) return;
    const float* g = gates + b * 4 * hidden;
    float in = sigmoid(g[j]);
    float forget = sigmoid(g[hidden + j] + 1.0f);
    float cell = tanhf(g[2 * hidden + j]);
    float out = sigmoid(g[3 * hidden + j]);
    float c = forget * c_prev[b * hidden + j] + in * cell;
    c_next[b * hidden + j] = c;
    h_next[b * hidden + j] = out * tanhf(c);
}

struct AdamConfig {
    float lr, beta1, beta2, eps, weight_decay;
    int step;
};

extern "C" __global__ void adam_step(float* param, const float* grad, float* exp_avg, float* exp_avg_sq,
                                     AdamConfig cfg, int n) {
    const float bias1 = 1 - powf(cfg.beta1, cfg.step), bias2 = 1 - powf(cfg.beta2, cfg.step);
    CUDA_KERNEL_LOOP(i, n) {
        float p = param[i] * (1 - cfg.lr * cfg.weight_decay), g = grad[i];
        float m = exp_avg[i] = cfg.beta1 * exp_avg[i] + (1 - cfg.beta1) * g;
        float v = exp_avg_sq[i] = cfg.beta2 * exp_avg_sq[i] + (1 - cfg.beta2) * g * g;
        param[i] = p - cfg.lr * (m / bias1) / (sqrtf(v / bias2) + cfg.eps);
    }
}

extern "C" __global__ void bias_gelu(const __nv_bfloat162* x, const __nv_bfloat162* bias,
                                     __nv_bfloat162* y, int rows, int cols2) {
    for (int r = blockIdx.x; r < rows; r += gridDim.x)
        for (int c = threadIdx.x; c < cols2; c += blockDim.x) {
            float2 v = __bfloat1622float2(__hadd2(x[r * cols2 + c], bias[c]));
            v.x = 0.5f * v.x * (1 + tanhf(0.79788456f * (v.x + 0.044715f * v.x * v.x * v.x)));
            v.y = 0.5f * v.y * (1 + tanhf(0.79788456f * (v.y + 0.044715f * v.y * v.y * v.y)));
            y[r * cols2 + c] = __float22bfloat162_rn(v);
        }
}

// Each lane keeps its four largest values. Then the warp selects the largest value four times.
extern "C" __global__ void top4(const float* x, float* values, int* indices, int rows, int cols) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float best[4] = {-1e30f, -1e30f, -1e30f, -1e30f};
    int where[4] = {-1, -1, -1, -1};
    for (int c = threadIdx.x; c < cols; c += 32) {
        float v = x[row * cols + c];
        int at = c;
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (v > best[k]) {
                float tv = best[k];
                best[k] = v, v = tv;
                int ti = where[k];
                where[k] = at, at = ti;
            }
    }
    for (int k = 0; k < 4; k++) {
        float top = best[0];
        for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(FULL_MASK, top, o));
        unsigned owners = __ballot_sync(FULL_MASK, best[0] == top);
        if (threadIdx.x == __ffs(owners) - 1) {
            values[row * 4 + k] = top;
            indices[row * 4 + k] = where[0];
            best[0] = best[1], best[1] = best[2], best[2] = best[3], best[3] = -1e30f;
            where[0] = where[1], where[1] = where[2], where[2] = where[3];
        }
    }
}
