// Pictures and rendering: filters, transforms, rays, meshes, games. These kernels were not used to find
// the counting rules or to fit the models; see unseen_learning.cu.

// ---- pictures ----

extern "C" __global__ void resize_bilinear(const uchar3* src, int sw, int sh, uchar3* dst, int dw, int dh) {
    const int x = blockDim.x * blockIdx.x + threadIdx.x;
    const int y = blockDim.y * blockIdx.y + threadIdx.y;
    if (x >= dw || y >= dh) return;
    const float fx = fmaxf((x + 0.5f) * sw / dw - 0.5f, 0.f), fy = fmaxf((y + 0.5f) * sh / dh - 0.5f, 0.f);
    const int x0 = (int)fx, y0 = (int)fy, x1 = min(x0 + 1, sw - 1), y1 = min(y0 + 1, sh - 1);
    const float ax = fx - x0, ay = fy - y0;
    const uchar3 p = src[y0 * sw + x0], q = src[y0 * sw + x1], r = src[y1 * sw + x0], s = src[y1 * sw + x1];
    auto mix = [=](float a, float b, float c, float d) -> unsigned char {
        return (1 - ay) * ((1 - ax) * a + ax * b) + ay * ((1 - ax) * c + ax * d) + 0.5f;
    };
    dst[y * dw + x] = make_uchar3(mix(p.x, q.x, r.x, s.x), mix(p.y, q.y, r.y, s.y), mix(p.z, q.z, r.z, s.z));
}

#define TILE_W 30
#define TILE_H 14

extern "C" __global__ void sobel(const unsigned char* in, unsigned char* out, int width, int height) {
    __shared__ unsigned char tile[TILE_H + 2][TILE_W + 2];
    int x = blockIdx.x * TILE_W + threadIdx.x - 1, y = blockIdx.y * TILE_H + threadIdx.y - 1;
    int cx = min(max(x, 0), width - 1), cy = min(max(y, 0), height - 1);
    tile[threadIdx.y][threadIdx.x] = in[cy * width + cx];
    __syncthreads();
    int tx = threadIdx.x, ty = threadIdx.y;
    if (tx >= 1 && tx <= TILE_W && ty >= 1 && ty <= TILE_H && x < width && y < height) {
        int gx = -tile[ty - 1][tx - 1] + tile[ty - 1][tx + 1] - 2 * tile[ty][tx - 1] + 2 * tile[ty][tx + 1] -
                 tile[ty + 1][tx - 1] + tile[ty + 1][tx + 1];
        int gy = -tile[ty - 1][tx - 1] - 2 * tile[ty - 1][tx] - tile[ty - 1][tx + 1] + tile[ty + 1][tx - 1] +
                 2 * tile[ty + 1][tx] + tile[ty + 1][tx + 1];
        int mag = sqrtf(gx * gx + gy * gy);
        out[y * width + x] = mag > 255 ? 255 : mag;
    }
}

__device__ void order(unsigned short& a, unsigned short& b) {
    unsigned short t = min(a, b);
    b = max(a, b);
    a = t;
}

extern "C" __global__ void median_3x3(const unsigned short* in, unsigned short* out, int w, int h, int pitch) {
    int x = threadIdx.x + blockIdx.x * blockDim.x + 1, y = threadIdx.y + blockIdx.y * blockDim.y + 1;
    if (x >= w - 1 || y >= h - 1) return;
    unsigned short v[9];
    int k = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) v[k++] = in[(y + dy) * pitch + x + dx];
    order(v[1], v[2]), order(v[4], v[5]), order(v[7], v[8]), order(v[0], v[1]), order(v[3], v[4]);
    order(v[6], v[7]), order(v[1], v[2]), order(v[4], v[5]), order(v[7], v[8]), order(v[0], v[3]);
    order(v[5], v[8]), order(v[4], v[7]), order(v[3], v[6]), order(v[1], v[4]), order(v[2], v[5]);
    order(v[4], v[7]), order(v[4], v[2]), order(v[6], v[4]), order(v[4], v[2]);
    out[y * pitch + x] = v[4];
}

// Every warp counts in its own bins. Then the block adds up these bins.
extern "C" __global__ void histogram_warps(const uchar4* pixels, unsigned int* bins, int n) {
    __shared__ unsigned int local[6][64];
    for (int i = threadIdx.x; i < 6 * 64; i += blockDim.x) ((unsigned int*)local)[i] = 0;
    __syncthreads();
    unsigned int* mine = local[threadIdx.x / 32];
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        uchar4 p = pixels[i];
        unsigned char luma = (77 * p.x + 150 * p.y + 29 * p.z) >> 8;
        atomicAdd(mine + luma / 4, 1u);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        unsigned int sum = 0;
        for (int w = 0; w < 6; w++) sum += local[w][threadIdx.x];
        if (sum > 0) atomicAdd(&bins[threadIdx.x], sum);
    }
}

// 8 x 8 cosine transforms of four neighbouring blocks of a picture, first along rows, then along columns.
extern "C" __global__ void dct8x8(const float* in, float* out, int width) {
    __shared__ float block[4][8][9];
    const int b = threadIdx.z, x = threadIdx.x, y = threadIdx.y;
    const int at = (blockIdx.y * 8 + y) * width + (blockIdx.x * 4 + b) * 8 + x;
    block[b][y][x] = in[at] - 0.5f;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 8; i++) sum += block[b][y][i] * cospif((2 * i + 1) * x / 16.0f);
    sum *= x == 0 ? 0.35355339f : 0.5f;
    __syncthreads();
    block[b][y][x] = sum;
    __syncthreads();
    sum = 0;
    for (int i = 0; i < 8; i++) sum += block[b][i][x] * cospif((2 * i + 1) * y / 16.0f);
    out[at] = sum * (y == 0 ? 0.35355339f : 0.5f);
}

// ---- rendering ----

struct vec3 {
    float x, y, z;
    __device__ vec3 operator+(vec3 o) const { return {x + o.x, y + o.y, z + o.z}; }
    __device__ vec3 operator-(vec3 o) const { return {x - o.x, y - o.y, z - o.z}; }
    __device__ vec3 operator*(float s) const { return {x * s, y * s, z * s}; }
};
__device__ float dot(vec3 a, vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
__device__ vec3 cross(vec3 a, vec3 b) {
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
__device__ vec3 normalize(vec3 v) { return v * rsqrtf(dot(v, v) + 1e-20f); }

struct Sphere {
    vec3 center;
    float radius, shade;
    bool mirror;
};
__constant__ Sphere SPHERES[5] = {{{0, -100.5f, -1}, 100, 0.5f, false},
                                  {{0, 0, -1}, 0.5f, 0.9f, false},
                                  {{-1, 0, -1}, 0.5f, 1, true},
                                  {{1, 0, -1.2f}, 0.5f, 1, true},
                                  {{0.3f, 0.6f, -0.7f}, 0.2f, 0.3f, false}};

extern "C" __global__ void trace(uchar4* image, int width, int height) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    vec3 origin = {0, 0.2f, 1};
    vec3 dir = normalize({(px - width / 2) / (float)height, (height / 2 - py) / (float)height, -1});
    float light = 1;
    for (int bounce = 0; bounce < 4; bounce++) {
        float nearest = 1e30f;
        int hit = -1;
        for (int s = 0; s < 5; s++) {
            vec3 oc = origin - SPHERES[s].center;
            float b = dot(oc, dir), c = dot(oc, oc) - SPHERES[s].radius * SPHERES[s].radius;
            float d = b * b - c;
            if (d < 0) continue;
            float t = -b - sqrtf(d);
            if (t > 1e-3f && t < nearest) nearest = t, hit = s;
        }
        if (hit < 0) {
            light *= 0.6f + 0.4f * dir.y;
            break;
        }
        origin = origin + dir * nearest;
        vec3 normal = normalize(origin - SPHERES[hit].center);
        light *= SPHERES[hit].shade;
        if (!SPHERES[hit].mirror) {
            light *= fmaxf(dot(normal, normalize({1, 2, 1})), 0.1f);
            break;
        }
        dir = dir - normal * (2 * dot(dir, normal));
    }
    unsigned char v = __saturatef(light) * 255;
    image[py * width + px] = {v, v, v, 255};
}

extern "C" __global__ void face_normals(const vec3* vertices, const int3* faces, vec3* normals, int count) {
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= count) return;
    int3 face = faces[f];
    vec3 a = vertices[face.x];
    normals[f] = normalize(cross(vertices[face.y] - a, vertices[face.z] - a));
}

struct Vertex {
    float position[3], uv[2];
    unsigned int color;
    float weight;
};
struct Matrix {
    float m[3][4];
};

extern "C" __global__ void skin_vertices(const Vertex* in, Vertex* out, Matrix first, Matrix second, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Vertex v = in[i], r = v;
    for (int row = 0; row < 3; row++) {
        float p = first.m[row][3], q = second.m[row][3];
        for (int c = 0; c < 3; c++) p += first.m[row][c] * v.position[c], q += second.m[row][c] * v.position[c];
        r.position[row] = v.weight * p + (1 - v.weight) * q;
    }
    out[i] = r;
}

struct Sprite {
    unsigned x : 10, y : 10, direction : 2, alive : 1, health : 9;
};

extern "C" __global__ void move_sprites(Sprite* sprites, const unsigned char* walls, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Sprite s = sprites[i];
    if (!s.alive) return;
    int x = s.x, y = s.y;
    switch (s.direction) {
        case 0: x++; break;
        case 1: y++; break;
        case 2: x--; break;
        default: y--;
    }
    if (x < 0 || y < 0 || x > 255 || y > 255 || walls[y * 256 + x]) {
        s.direction++;
        s.health -= min(s.health, 3u);
        s.alive = s.health > 0;
    } else {
        s.x = x, s.y = y;
    }
    sprites[i] = s;
}

extern "C" __global__ void classify_cubes(const float* volume, unsigned char* cases, int* active, int nx, int ny,
                                          int nz, float level) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
        z = blockIdx.z * blockDim.z + threadIdx.z;
    bool crossed = false;
    if (x < nx - 1 && y < ny - 1 && z < nz - 1) {
        int index = 0;
        for (int corner = 0; corner < 8; corner++) {
            int at = ((z + (corner >> 2)) * ny + y + (corner >> 1 & 1)) * nx + x + (corner & 1);
            index |= (volume[at] > level) << corner;
        }
        cases[(z * (ny - 1) + y) * (nx - 1) + x] = index;
        crossed = index != 0 && index != 255;
    }
    int count = __syncthreads_count(crossed);
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0 && count) atomicAdd(active, count);
}
