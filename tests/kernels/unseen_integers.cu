// Texts, bits and integers: strings, codes, hashes, puzzles. These kernels were not used to find the
// counting rules or to fit the models; see unseen_learning.cu.
typedef unsigned char uint8;
typedef unsigned int uint32;
typedef unsigned long long uint64;

#define GID (threadIdx.x + blockIdx.x * blockDim.x)

// ---- texts ----

// One block per pair. Thread j computes column j. The table is filled along its antidiagonals.
extern "C" __global__ void smith_waterman(const char* query, const char* targets, int* score, int qlen,
                                          int tlen) {
    __shared__ int diag[3][129];
    __shared__ int best;
    const char* target = targets + blockIdx.x * tlen;
    int j = threadIdx.x + 1;
    diag[0][j] = diag[1][j] = diag[2][j] = 0;
    if (threadIdx.x == 0) diag[0][0] = diag[1][0] = diag[2][0] = best = 0;
    __syncthreads();
    char q = query[j - 1];
    int top = 0;
    for (int d = 0; d < qlen + tlen - 1; d++) {
        int *cur = diag[d % 3], *prev = diag[(d + 2) % 3], *prev2 = diag[(d + 1) % 3];
        int i = d - (j - 1);
        int h = 0;
        if (i >= 0 && i < tlen) {
            int match = i == 0 ? 0 : prev2[j - 1];
            match += q == target[i] ? 3 : -2;
            int up = (i == 0 ? 0 : prev[j]) - 4;
            int left = prev[j - 1] - 4;
            h = max(max(0, match), max(up, left));
        }
        cur[j] = h;
        top = max(top, h);
        __syncthreads();
    }
    atomicMax(&best, top);
    __syncthreads();
    if (j == 1) score[blockIdx.x] = best;
}

extern "C" __global__ void edit_distance(const uint8* a, const uint8* b, int* distance, int pairs, int length) {
    int p = GID;
    if (p >= pairs) return;
    uint8 row[40];
    for (int j = 0; j <= length; j++) row[j] = j;
    for (int i = 0; i < length; i++) {
        uint8 diagonal = i, ch = a[p * length + i];
        row[0] = i + 1;
        for (int j = 0; j < length; j++) {
            uint8 cost = diagonal + (ch != b[p * length + j]);
            diagonal = row[j + 1];
            row[j + 1] = min(min(row[j], row[j + 1]) + 1, (int)cost);
        }
    }
    distance[p] = row[length];
}

__constant__ char PATTERN[] = "GATTACA";

extern "C" __global__ void find_pattern(const char* text, int n, int* positions, int* total) {
    int i = GID;
    if (i > n - 7) return;
    int k = 0;
    while (k < 7 && text[i + k] == PATTERN[k]) k++;
    positions[i] = k == 7;
    if (k == 7) atomicAdd(total, 1);
}

// Finds the comma-separated fields of each line. Quoted fields may contain commas.
extern "C" __global__ void csv_fields(const char* text, const int* line_start, int lines, int* fields,
                                      int* longest) {
    int l = GID;
    if (l >= lines) return;
    int count = 1, width = 0, widest = 0;
    bool quoted = false;
    for (int p = line_start[l]; text[p] != '\n'; p++) {
        switch (text[p]) {
            case '"':
                quoted = !quoted;
                break;
            case ',':
                if (!quoted) {
                    count++;
                    widest = max(widest, width);
                    width = 0;
                    break;
                }
            default:
                width++;
        }
    }
    fields[l] = count;
    longest[l] = max(widest, width);
}

__constant__ char ALPHABET[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

extern "C" __global__ void base64(const uint8* in, char4* out, int groups) {
    int i = GID;
    if (i >= groups) return;
    uint32 v = in[3 * i] << 16 | in[3 * i + 1] << 8 | in[3 * i + 2];
    out[i] = make_char4(ALPHABET[v >> 18], ALPHABET[v >> 12 & 63], ALPHABET[v >> 6 & 63], ALPHABET[v & 63]);
}

// Counts UTF-8 characters: every byte that does not continue a character.
extern "C" __global__ void utf8_length(const uint4* text, int quads, int* length) {
    int count = 0;
    for (int i = GID; i < quads; i += gridDim.x * blockDim.x) {
        uint4 v = text[i];
        const uint32 words[4] = {v.x, v.y, v.z, v.w};
        for (uint32 w : words) count += 4 - __popc((w >> 7) & ~(w >> 6) & 0x01010101);
    }
    count = __reduce_add_sync(0xffffffff, count);
    __shared__ int total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) atomicAdd(&total, count);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(length, total);
}

// ---- bits ----

extern "C" __global__ void run_heads(const uint8* x, uint32* heads, int* runs, int n) {
    int i = GID;
    bool head = i < n && (i == 0 || x[i] != x[i - 1]);
    uint32 bits = __ballot_sync(~0u, head);
    int in_block = __syncthreads_count(head);
    if ((threadIdx.x & 31) == 0 && i < n) heads[i >> 5] = bits;
    if (threadIdx.x == 0) runs[blockIdx.x] = in_block;
}

// Writes codes of different lengths one after another, as Huffman coders do.
extern "C" __global__ void pack_codes(const uint8* symbols, const uint32* codes, const int* bit_offset,
                                      uint32* out, int n) {
    int i = GID;
    if (i >= n) return;
    uint8 s = symbols[i];
    uint32 entry = codes[s], length = entry >> 24, code = entry & 0xffffff;
    int at = bit_offset[i];
    uint64 wide = (uint64)code << (64 - length - at % 32);
    atomicOr(&out[at / 32], (uint32)(wide >> 32));
    if ((uint32)wide) atomicOr(&out[at / 32 + 1], (uint32)wide);
}

__device__ __forceinline__ uint32 fnv(uint32 key, uint32 seed) {
    uint32 h = 2166136261u ^ seed;
    for (int b = 0; b < 4; b++) h = (h ^ ((key >> (8 * b)) & 255)) * 16777619u;
    return h;
}

extern "C" __global__ void bloom_add(const uint32* keys, uint32* filter, int n, uint32 bits) {
    int i = GID;
    if (i < n)
        for (uint32 k = 0; k < 4; k++) {
            uint32 h = fnv(keys[i], k) % bits;
            atomicOr(filter + h / 32, 1u << (h % 32));
        }
}

extern "C" __global__ void bloom_query(const uint32* keys, const uint32* filter, uint8* maybe, int n,
                                       uint32 bits) {
    int i = GID;
    if (i >= n) return;
    maybe[i] = 0;
    for (uint32 k = 0; k < 4; k++) {
        uint32 h = fnv(keys[i], k) % bits;
        if (!(filter[h / 32] >> (h % 32) & 1)) return;
    }
    maybe[i] = 1;
}

extern "C" __global__ void transpose_bits(const uint32* in, uint32* out, int words_across, int tall) {
    int warp = GID / 32, lane = threadIdx.x % 32;
    int bx = warp % words_across, by = warp / words_across;
    if (by >= tall / 32) return;
    uint32 word = in[(by * 32 + lane) * words_across + bx], mine = 0;
#pragma unroll
    for (int b = 0; b < 32; b++) {
        uint32 column = __ballot_sync(0xffffffff, word >> b & 1);
        if (lane == b) mine = column;
    }
    out[(bx * 32 + lane) * (tall / 32) + by] = mine;
}

// ---- integers ----

extern "C" __global__ void collatz(int first, int n, int* steps, int* longest) {
    int i = GID;
    int count = 0;
    if (i < n) {
        uint64 v = first + i;
        while (v != 1) {
            v = v & 1 ? 3 * v + 1 : v / 2;
            count++;
        }
        steps[i] = count;
    }
    count = __reduce_max_sync(~0u, count);
    if (threadIdx.x % 32 == 0) atomicMax(longest, count);
}

extern "C" __global__ void sieve(const int* primes, int num_primes, int segment, int* count) {
    extern __shared__ uint8 composite[];
    for (int i = threadIdx.x; i < segment; i += blockDim.x) composite[i] = 0;
    __syncthreads();
    int low = blockIdx.x * segment;
    for (int k = threadIdx.x; k < num_primes; k += blockDim.x) {
        int p = primes[k];
        int start = max(p * p, (low + p - 1) / p * p);
        for (int m = start - low; m < segment; m += p) composite[m] = 1;
    }
    __syncthreads();
    int found = 0;
    for (int i = threadIdx.x; i < segment; i += blockDim.x) found += low + i > 1 && !composite[i];
    found = __reduce_add_sync(0xffffffff, found);
    if (threadIdx.x % 32 == 0) atomicAdd(count, found);
}

// A warp adds numbers of 32 limbs and computes all carries at the same time.
extern "C" __global__ void big_add(const uint32* a, const uint32* b, uint32* sum, uint32* carry_out, int n) {
    int number = GID / 32, lane = threadIdx.x % 32;
    if (number >= n) return;
    uint32 x = a[number * 32 + lane], s = x + b[number * 32 + lane];
    uint64 generate = __ballot_sync(~0u, s < x), propagate = __ballot_sync(~0u, s == 0xffffffff);
    uint64 carries = (generate << 1) + propagate ^ propagate;
    sum[number * 32 + lane] = s + (carries >> lane & 1);
    if (lane == 31) carry_out[number] = carries >> 32 & 1;
}

extern "C" __global__ void mod_pow(const uint64* base, const uint32* exponent, uint64* out, uint64 m, int n) {
    int i = GID;
    if (i >= n) return;
    uint64 result = 1, b = base[i] % m;
    for (uint32 e = exponent[i]; e; e >>= 1) {
        if (e & 1) result = result * b % m;
        b = b * b % m;
    }
    out[i] = result;
}

// Counts solutions of the n queens puzzle. Each thread's index gives the columns of the first three queens.
extern "C" __global__ void queens(int n, int* solutions) {
    int t = GID;
    if (t >= n * n * n) return;
    int all = (1 << n) - 1, cols[12], left[12], right[12], free_[12];
    int c = 0, l = 0, r = 0, rest = t;
    for (int row = 0; row < 3; row++, rest /= n) {
        int bit = 1 << (rest % n);
        if ((c | l | r) & bit) {
            solutions[t] = 0;
            return;
        }
        c |= bit, l = (l | bit) << 1, r = (r | bit) >> 1;
    }
    int depth = 0, found = 0;
    cols[0] = c, left[0] = l, right[0] = r, free_[0] = all & ~(c | l | r);
    while (depth >= 0) {
        if (!free_[depth]) {
            depth--;
            continue;
        }
        int bit = free_[depth] & -free_[depth];
        free_[depth] ^= bit;
        if (depth == n - 4) {
            found++;
            continue;
        }
        cols[depth + 1] = cols[depth] | bit;
        left[depth + 1] = (left[depth] | bit) << 1;
        right[depth + 1] = (right[depth] | bit) >> 1;
        depth++;
        free_[depth] = all & ~(cols[depth] | left[depth] | right[depth]);
    }
    solutions[t] = found;
}

// Fills in cells that have only one candidate, until there are none. One block of 9 x 9 threads per puzzle.
extern "C" __global__ void sudoku_singles(uint8* cells, int* rounds) {
    __shared__ uint32 in_row[9], in_column[9], in_box[9];
    int x = threadIdx.x, y = threadIdx.y, box = y / 3 * 3 + x / 3;
    uint8* cell = &cells[blockIdx.x * 81 + y * 9 + x];
    int digit = *cell, round = 0;
    if (y == 0) in_row[x] = in_column[x] = in_box[x] = 0;
    __syncthreads();
    if (digit) {
        atomicOr(&in_row[y], 1u << digit);
        atomicOr(&in_column[x], 1u << digit);
        atomicOr(&in_box[box], 1u << digit);
    }
    bool again = true;
    while (again) {
        __syncthreads();
        uint32 candidates = 0x3fe & ~(in_row[y] | in_column[x] | in_box[box]);
        bool single = digit == 0 && __popc(candidates) == 1;
        again = __syncthreads_or(single);
        if (single) {
            digit = __ffs(candidates) - 1;
            atomicOr(&in_row[y], candidates);
            atomicOr(&in_column[x], candidates);
            atomicOr(&in_box[box], candidates);
        }
        round++;
    }
    *cell = digit;
    if (x == 0 && y == 0) rounds[blockIdx.x] = round;
}

__constant__ uint32 K256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ inline uint32 rotr(uint32 x, int n) { return (x >> n) | (x << (32 - n)); }

// Computes digests of padded messages of 32 bytes.
extern "C" __global__ void sha256(const uint32* messages, uint32* digests, int n) {
    int i = GID;
    if (i >= n) return;
    uint32 w[64];
    for (int t = 0; t < 8; t++) w[t] = __byte_perm(messages[i * 8 + t], 0, 0x0123);
    w[8] = 0x80000000;
    for (int t = 9; t < 15; t++) w[t] = 0;
    w[15] = 256;
    for (int t = 16; t < 64; t++) {
        uint32 s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
        uint32 s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    uint32 h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint32 a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], k = h[7];
    for (int t = 0; t < 64; t++) {
        uint32 S1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25), ch = (e & f) ^ (~e & g);
        uint32 t1 = k + S1 + ch + K256[t] + w[t];
        uint32 S0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22), maj = (a & b) ^ (a & c) ^ (b & c);
        k = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + S0 + maj;
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e, h[5] += f, h[6] += g, h[7] += k;
    for (int t = 0; t < 8; t++) digests[i * 8 + t] = __byte_perm(h[t], 0, 0x0123);
}
