"""CUDA arrays, textures, surfaces and texture references in whole programs."""

import json
from pathlib import Path

import pytest
from whole_programs import NEEDS_COMPILERS, Program, coalesce

pytestmark = NEEDS_COMPILERS

HEAD = r"""
#include <cstdio>
#include <cstdlib>
#define OK(call) do { cudaError_t e_ = call; if (e_ != cudaSuccess) \
    { printf("%s: %s\n", #call, cudaGetErrorName(e_)); exit(9); } } while (0)
cudaTextureObject_t texture_of(cudaResourceDesc r, bool linear = false, bool normalized = false,
                               cudaTextureReadMode mode = cudaReadModeElementType) {
    cudaTextureDesc d = {};
    for (auto &m : d.addressMode) m = cudaAddressModeClamp;
    d.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    d.normalizedCoords = normalized;
    d.readMode = mode;
    d.maxMipmapLevelClamp = 100;
    cudaTextureObject_t t = 0;
    OK(cudaCreateTextureObject(&t, &r, &d, nullptr));
    return t;
}
cudaResourceDesc of(cudaArray_t a) {
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    return r;
}
__global__ void sample(cudaTextureObject_t t, float *y, float x0, float y0) {
    y[threadIdx.x] = tex2D<float>(t, threadIdx.x + x0, y0);
}
void show(cudaTextureObject_t t, float x0, float y0, int n = 4) {
    float *y, h[32];
    OK(cudaMalloc(&y, sizeof h));
    sample<<<1, n>>>(t, y, x0, y0);
    OK(cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost));
    OK(cudaFree(y));
    for (int i = 0; i < n; ++i) printf("%g ", h[i]);
    printf("\n");
}
"""

ARRAYS = """
    float h[3][4], back[3][4] = {};
    for (int i = 0; i < 12; ++i) h[i / 4][i % 4] = i;
    cudaChannelFormatDesc c = cudaCreateChannelDesc<float>(), d;
    cudaArray_t a, b;
    OK(cudaMallocArray(&a, &c, 4, 3));
    OK(cudaMallocArray(&b, &c, 4, 3, cudaArraySurfaceLoadStore));
    OK(cudaMemcpy2DToArray(a, 0, 0, h, 16, 16, 3, cudaMemcpyHostToDevice));
    cudaTextureObject_t t = texture_of(of(a));
    show(t, 0.5f, 1.5f);                      // 4 5 6 7
    OK(cudaDestroyTextureObject(t));
    t = texture_of(of(a), true);
    show(t, 1.0f, 1.0f, 3);                   // 2.5 3.5 4.5
    OK(cudaDestroyTextureObject(t));
    OK(cudaMemcpy2DArrayToArray(b, 4, 1, a, 0, 0, 12, 2, cudaMemcpyDeviceToDevice));
    OK(cudaMemcpy2DFromArray(back, 16, b, 0, 1, 16, 2, cudaMemcpyDeviceToHost));
    printf("%g %g %g\\n", back[0][1], back[0][3], back[1][1]);  // 0 2 4
    cudaExtent e; unsigned flags;
    OK(cudaArrayGetInfo(&d, &e, &flags, b));
    printf("%d %zu %zu %zu %u\\n", d.x, e.width, e.height, e.depth, flags);  // 32 4 3 0 2
    OK(cudaFreeArray(a));
    // layers, by cudaMemcpy3D
    OK(cudaMalloc3DArray(&a, &c, make_cudaExtent(4, 1, 3), cudaArrayLayered));
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(h, 16, 4, 1);
    p.dstArray = a;
    p.extent = make_cudaExtent(4, 1, 3);
    p.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&p));
    cudaMemcpy3DParms q = {};
    q.srcArray = a; q.srcPos = make_cudaPos(1, 0, 2);
    q.dstPtr = make_cudaPitchedPtr(back, 16, 4, 3);
    q.extent = make_cudaExtent(2, 1, 1);
    q.kind = cudaMemcpyDeviceToHost;
    OK(cudaMemcpy3D(&q));
    printf("%g %g\\n", back[0][0], back[0][1]);  // 9 10
    // rows with gaps, and linear memory
    float *m; size_t pitch;
    OK(cudaMallocPitch(&m, &pitch, 16, 3));
    OK(cudaMemcpy2D(m, pitch, h, 16, 16, 3, cudaMemcpyHostToDevice));
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = m; r.res.pitch2D.desc = c; r.res.pitch2D.width = 4;
    r.res.pitch2D.height = 3; r.res.pitch2D.pitchInBytes = pitch;
    t = texture_of(r);
    show(t, 0.5f, 2.5f);                      // 8 9 10 11
    cudaResourceDesc got; cudaTextureDesc td;
    OK(cudaGetTextureObjectResourceDesc(&got, t));
    OK(cudaGetTextureObjectTextureDesc(&td, t));
    printf("%d %d\\n", got.res.pitch2D.devPtr == m, td.addressMode[0]);  // 1 1
    OK(cudaDestroyTextureObject(t));
    OK(cudaFree(m)); OK(cudaFreeArray(a)); OK(cudaFreeArray(b));
"""
# nvcc compiles these programs with a header of this package.
REFERENCES = "references.cu"


@pytest.mark.program(ARRAYS)
def test_arrays_and_textures(program: Program) -> None:
    done = program.run("--check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "4 5 6 7 ", "2.5 3.5 4.5 ", "0 2 4", "32 4 3 0 2", "9 10", "8 9 10 11 ", "1 1",
    ]  # fmt: skip
    assert "leak" not in done.stderr
    assert "wrong call" not in done.stderr


@pytest.mark.program(
    """
    cudaChannelFormatDesc c = cudaCreateChannelDesc<float>();
    cudaMipmappedArray_t m;
    OK(cudaMallocMipmappedArray(&m, &c, make_cudaExtent(8, 4, 0), 3, cudaArraySurfaceLoadStore));
    for (int level = 0; level < 3; ++level) {
        cudaArray_t a; cudaExtent e;
        OK(cudaGetMipmappedArrayLevel(&a, m, level));
        OK(cudaArrayGetInfo(nullptr, &e, nullptr, a));
        cudaResourceDesc r = of(a);
        cudaSurfaceObject_t s;
        OK(cudaCreateSurfaceObject(&s, &r));
        fill<<<1, dim3(e.width, e.height)>>>(s, 100 * level);
        OK(cudaDestroySurfaceObject(s));
    }
    cudaResourceDesc r = {};
    r.resType = cudaResourceTypeMipmappedArray;
    r.res.mipmap.mipmap = m;
    cudaTextureObject_t t = texture_of(r, false, true);
    float *y, h[4];
    OK(cudaMalloc(&y, 16));
    levels<<<1, 4>>>(t, y);
    OK(cudaMemcpy(h, y, 16, cudaMemcpyDeviceToHost));
    printf("%g %g %g %g\\n", h[0], h[1], h[2], h[3]);
    cudaArray_t none;
    printf("%s\\n", cudaGetErrorName(cudaGetMipmappedArrayLevel(&none, m, 3)));
    OK(cudaDestroyTextureObject(t)); OK(cudaFree(y)); OK(cudaFreeMipmappedArray(m));
    """,
    """
    __global__ void fill(cudaSurfaceObject_t s, float first) {
        surf2Dwrite(first + threadIdx.x + 10 * threadIdx.y, s, threadIdx.x * 4, threadIdx.y);
    }
    __global__ void levels(cudaTextureObject_t t, float *y) {
        y[threadIdx.x] = tex2DLod<float>(t, 0.99f, 0.99f, threadIdx.x);
    }
    """,
)
def test_surfaces_and_mipmapped_arrays(program: Program) -> None:
    done = program.run()
    assert done.stdout == "37 113 201 201\ncudaErrorInvalidValue\n", done.stderr


MISTAKES = [
    ("cudaMemcpy2DToArray(a, 4, 0, h, 16, 16, 3, cudaMemcpyHostToDevice)", "InvalidValue",
     "is not within the array of 16 bytes, 3 rows and 1 slice"),
    ("cudaMemcpy2DToArray(a, 0, 0, h, 8, 16, 3, cudaMemcpyHostToDevice)", "InvalidPitchValue", ""),
    ("cudaMemcpy2DToArray(a, 0, 0, h, 16, 16, 3, cudaMemcpyDeviceToHost)", "InvalidValue",
     "but the destination is device memory"),
    ("cudaMemcpy(a, h, 16, cudaMemcpyHostToDevice)", "InvalidValue", "is a CUDA array"),
    ("cudaFree(a)", "InvalidValue", "does not free"),
    ("(cudaFreeArray(a), cudaFreeArray(a))", "InvalidValue", "was freed"),
    ("cudaMallocArray(&b, &c, 0, 3)", "InvalidValue", "needs a width"),
    ("(c.y = 8, cudaMallocArray(&b, &c, 4))", "InvalidChannelDescriptor", "1, 2 or 4 channels"),
    ("(r = of(a), cudaCreateSurfaceObject(&t, &r))", "InvalidValue", "cudaArraySurfaceLoadStore"),
    ("cudaDestroyTextureObject(12345)", "InvalidValue", "not the handle of a texture object"),
    (("(r.resType = cudaResourceTypeLinear, r.res.linear.devPtr = p, r.res.linear.desc = c, "
      "r.res.linear.sizeInBytes = 100000, cudaCreateTextureObject(&t, &r, &d, nullptr))"),
     "InvalidValue", "past the end"),
    (("(r = of(i), d.filterMode = cudaFilterModeLinear, "
      "cudaCreateTextureObject(&t, &r, &d, nullptr))"), "InvalidFilterSetting", "read as floats"),
    ("(d.sRGB = 1, r = of(u), cudaCreateTextureObject(&t, &r, &d, nullptr))", "NotSupported", ""),
]  # fmt: skip


@pytest.mark.program(
    """
    int n = atoi(getenv("CASE"));
    float h[12] = {}, *p;
    cudaChannelFormatDesc c = cudaCreateChannelDesc<float>(), ci = cudaCreateChannelDesc<int>(),
                          cu = cudaCreateChannelDesc<uchar4>();
    cudaArray_t a, b, i, u;
    cudaTextureObject_t t;
    cudaResourceDesc r = {};
    cudaTextureDesc d = {};
    cudaMalloc(&p, 64);
    cudaMallocArray(&a, &c, 4, 3);
    cudaMallocArray(&i, &ci, 4, 3);
    cudaMallocArray(&u, &cu, 4, 3);
    """
    + "\n".join(
        f'if (n == {n}) printf("%s\\n", cudaGetErrorName({call}));'
        for n, (call, _, _) in enumerate(MISTAKES)
    )
)
def test_mistakes_of_the_host_are_named(program: Program, tmp_path: Path) -> None:
    for n, (call, error, why) in enumerate(MISTAKES):
        report = tmp_path / "r.json"
        done = program.run("--check", "--json", report, environment={"CASE": n})
        assert done.stdout == f"cudaError{error}\n", (call, done.stderr)
        mistakes = [m["text"] for m in json.loads(report.read_text())["host"]]
        assert not why or any(why in text for text in mistakes), (call, mistakes)


@pytest.mark.program(
    """
    cudaChannelFormatDesc c = cudaCreateChannelDesc<float>();
    cudaArray_t a;
    OK(cudaMallocArray(&a, &c, 4, 3));
    cudaTextureObject_t t = texture_of(of(a));
    if (getenv("ARRAY")) OK(cudaFreeArray(a)); else OK(cudaDestroyTextureObject(t));
    float *y;
    OK(cudaMalloc(&y, 16));
    sample<<<1, 4>>>(t, y, 0, 0);
    printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
    """
)
def test_destroyed_objects_and_freed_arrays_are_errors(program: Program) -> None:
    done = program.run()
    assert done.stdout == "cudaErrorLaunchFailure\n"
    assert "no texture or surface object with the handle" in done.stderr
    assert "`t` was destroyed" in done.stderr
    done = program.run(environment={"ARRAY": 1})
    assert done.stdout == "cudaErrorLaunchFailure\n"
    assert "the memory of this texture object was freed" in done.stderr


@pytest.mark.program(
    """
    float h[4] = {5, 6, 7, 8}, *x, *y, back[4];
    uchar4 pixels[4] = {{255, 0, 51, 0}, {0, 0, 0, 255}, {1, 2, 3, 4}, {5, 6, 7, 8}};
    float4 *z, bz[4];
    int grid[2][4] = {{1, 2, 3, 4}, {-1, -2, -3, -4}}, *g, *w, bw[4];
    size_t pitch, offset = 1;
    OK(cudaMalloc(&x, 16)); OK(cudaMalloc(&y, 16)); OK(cudaMalloc(&z, 64)); OK(cudaMalloc(&w, 16));
    OK(cudaMallocPitch(&g, &pitch, 16, 2));
    OK(cudaMemcpy(x, h, 16, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(g, pitch, grid, 16, 16, 2, cudaMemcpyHostToDevice));
    cudaChannelFormatDesc c = cudaCreateChannelDesc<float>();
    OK(cudaBindTexture(&offset, &line, x, &c, 16));
    cudaArray_t a;
    cudaChannelFormatDesc cu = cudaCreateChannelDesc<uchar4>();
    OK(cudaMallocArray(&a, &cu, 4, 1));
    OK(cudaMemcpyToArray(a, 0, 0, pixels, 16, cudaMemcpyHostToDevice));
    picture.filterMode = cudaFilterModeLinear;
    picture.addressMode[0] = cudaAddressModeClamp;
    OK(cudaBindTextureToArray(picture, a));
    OK(cudaBindTexture2D(0, rows, g, cudaCreateChannelDesc<int>(), 4, 2, pitch));
    fetch<<<1, 4>>>(y, z, w);
    OK(cudaMemcpy(back, y, 16, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(bz, z, 64, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(bw, w, 16, cudaMemcpyDeviceToHost));
    printf("%zu %g %g %g %g %d\\n", offset, back[0], back[3], bz[0].x, bz[0].z, bw[2]);
    OK(cudaBindTexture(0, line, x));
    OK(cudaUnbindTexture(line));
    OK(cudaFree(x)); OK(cudaFree(y)); OK(cudaFree(z)); OK(cudaFree(w)); OK(cudaFree(g));
    OK(cudaFreeArray(a));
    fetch<<<1, 4>>>(y, z, w);
    printf("%s\\n", cudaGetErrorName(cudaDeviceSynchronize()));
    """,
    """
    texture<float, 1, cudaReadModeElementType> line;
    static texture<uchar4, cudaTextureType2D, cudaReadModeNormalizedFloat> picture;
    texture<int, 2> rows;
    __global__ void fetch(float *y, float4 *z, int *w) {
        int i = threadIdx.x;
        y[i] = tex1Dfetch(line, i);
        z[i] = tex2D(picture, i + 0.5f, 0.5f);
        w[i] = tex2D(rows, i, 1);
    }
    """,
    REFERENCES,
)
def test_texture_references(program: Program, tmp_path: Path) -> None:
    done = program.run("--json", tmp_path / "r.json")
    assert done.stdout == "0 5 8 1 0.2 -3\ncudaErrorLaunchFailure\n", done.stderr
    assert "there is no texture or surface object with the handle 0x0" in done.stderr
    (kernel,) = json.loads((tmp_path / "r.json").read_text())["kernels"]
    assert kernel["machine_code"]


@pytest.mark.program(ARRAYS)
def test_a_kept_launch_is_profiled_with_its_textures(program: Program) -> None:
    done = program.run("--profile")
    assert done.returncode == 0, done.stderr
    assert "textures and surfaces are executed and not" in " ".join(done.stderr.split()) + (
        " ".join(done.stdout.split())
    )


@pytest.mark.program(
    """
    float *x, *y, h[32];
    cudaMalloc(&x, 128); cudaMalloc(&y, 128);
    cudaMemset(x, 0, 128);
    cudaBindTexture(NULL, zeros, x, 128);
    copy_of_zeros<<<1, 32>>>(y);
    cudaMemcpy(h, y, 128, cudaMemcpyDeviceToHost);
    cudaFree(x); cudaFree(y);
    printf("%g %s\\n", h[31], cudaGetErrorName(cudaGetLastError()));
    """,
    """
    texture<float> zeros;
    __global__ void copy_of_zeros(float *y) { y[threadIdx.x] = tex1Dfetch(zeros, threadIdx.x); }
    """,
    REFERENCES,
)
@pytest.mark.parametrize("flag", ["", "--check"])
def test_programs_with_references_have_no_leaks(program: Program, flag: str) -> None:
    done = program.run(*([flag] if flag else []))
    assert done.stdout == "0 cudaSuccess\n", done.stderr
    assert "leak" not in done.stderr


@pytest.mark.program(
    """
    float *x, *y, h[4] = {1, 2, 3, 4};
    cudaMalloc(&x, 16); cudaMalloc(&y, 16);
    cudaMemcpy(x, h, 16, cudaMemcpyHostToDevice);
    size_t offset;
    printf("%d %d %d\\n", t.channelDesc.x, t.channelDesc.f, u.channelDesc.w);
    printf("%d\\n", cudaBindTexture(&offset, &t, x, &t.channelDesc, 16));
    k<<<1, 4>>>(y);
    cudaMemcpy(h, y, 16, cudaMemcpyDeviceToHost);
    printf("%g %g\\n", h[0], h[3]);
    """,
    """
    texture<float, 1, cudaReadModeElementType> t;
    texture<uchar4, 2, cudaReadModeNormalizedFloat> u;
    __global__ void k(float *y) { y[threadIdx.x] = tex1Dfetch(t, threadIdx.x); }
    """,
    REFERENCES,
)
def test_references_know_their_channels(program: Program) -> None:
    done = program.run()
    assert done.stdout.splitlines() == ["32 2 8", "0", "1 4"], done.stderr


def test_other_things_may_be_named_texture(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text(
        """
        #include <cstdio>
        struct Scene { int texture; };
        static int twice(int texture) { return 2 * texture; }
        namespace scene {
            extern texture<float, cudaTextureType1D> line; extern texture<float, 1> line;
            __device__ float at(int i) { return tex1Dfetch(line, i); }
            texture<float, cudaTextureType1D> line;
        }
        static texture<int,
                       2> rows, columns;
        #define TEXTURE(type, name) texture<type> name
        TEXTURE(float4, points);
        template <class T> int normalized(const texture<T> &t,
                                          const texture<int, 2> &u) {
            return t.normalized + u.normalized;
        }
        __global__ void copy(float *y) { y[threadIdx.x] = scene::at(threadIdx.x); }
        int main() {
            Scene texture = {3};
            float h[4] = {5, 6, 7, 8}, *x, *y;
            cudaMalloc(&x, 16); cudaMalloc(&y, 16);
            cudaMemcpy(x, h, 16, cudaMemcpyHostToDevice);
            cudaBindTexture(0, scene::line, x, 16);
            copy<<<1, 4>>>(y);
            cudaMemcpy(h, y, 16, cudaMemcpyDeviceToHost);
            printf("%d %g %d", twice(texture.texture), h[3], normalized(points, columns));
            return normalized(points, rows);
        }
        """
    )
    done = coalesce("run", tmp_path / "main.cu")
    assert (done.returncode, done.stdout) == (0, "6 8 0"), done.stderr
