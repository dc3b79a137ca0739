"""Planted faults: accesses outside of arrays, misaligned accesses, and uninitialized reads."""

import numpy as np
import pytest

import coalesce

pytestmark = pytest.mark.usefixtures("on_simulator")


def check(source, grid, block, *arguments, entry="k", **options):
    return coalesce.Kernel(source, entry).check(grid, block, *arguments, **options)


def only(findings, kind, severity="error"):
    assert [(f.kind, f.severity) for f in findings] == [(kind, severity)], str(findings)
    return findings[0]


def test_reads_past_the_end():
    x, out = np.arange(100, dtype=np.float32), np.zeros(128, np.float32)
    source = """extern "C" __global__ void k(const float *x, float *out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        BOUND out[i] = x[i] + 1;
    }"""
    f = only(check(source.replace("BOUND", ""), 2, 64, x, out, 100), "out_of_bounds")
    assert f.title == "read of 4 bytes past the end of `x`"
    assert "x[100], directly past its end" in f.details[0]
    assert f.array == "x"
    assert f.offset == 400
    assert f.lines == (3,)
    assert f.first.thread == (36, 0, 0)
    assert f.first.block == (1, 0, 0)
    assert f.count == 28
    # The other threads continued and wrote the right values.
    np.testing.assert_array_equal(out[:100], x + 1)
    assert not check(source.replace("BOUND", "if (i < n)"), 2, 64, x, out, 100)


def test_every_fault_is_found():
    """The kernel continues after a fault, so one run finds several faults."""
    source = """extern "C" __global__ void k(int *x, const int *fixed, int n) {
        x[-1 - (int)threadIdx.x] = 1;
        x[n + threadIdx.x] = 2;
        *(int *)((char *)x + 2) = 3;
        ((int *)fixed)[threadIdx.x] = 4;
        *(volatile int *)nullptr = 5;
        x[threadIdx.x] = 6;
    }"""
    x, fixed = np.zeros(32, np.int32), np.zeros(32, np.int32)
    fixed.flags.writeable = False
    findings = check(source, 1, 32, x, fixed, 32)
    assert [(f.kind, f.lines, f.count) for f in findings] == [
        ("out_of_bounds", (2,), 32),
        ("out_of_bounds", (3,), 32),
        ("misaligned", (4,), 32),
        ("read_only", (5,), 32),
        ("out_of_bounds", (6,), 32),
    ]
    assert "null pointer" in findings[4].title
    assert (x == 6).all()
    assert (fixed == 0).all()


# Each row has a faulty statement and the kind of its finding.
FAULTS = {
    "an element before the first": ("x[-1 - (int)threadIdx.x] = 1;", "out_of_bounds"),
    "an element past the last": ("x[n + threadIdx.x] = 2;", "out_of_bounds"),
    "an address in the middle of an element": ("*(int *)((char *)x + 2) = 3;", "misaligned"),
    "an array that is const": ("((int *)fixed)[threadIdx.x] = 4;", "read_only"),
    "a null pointer": ("*(volatile int *)nullptr = 5;", "out_of_bounds"),
}
# Two tables of planted faults, and the tests that are parametrized with their names.
TABLES = {"FAULTS": "test_each_fault", "UNINITIALIZED": "test_uninitialized"}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault(name):
    statement, kind = FAULTS[name]
    source = f"""extern "C" __global__ void k(int *x, const int *fixed, int n) {{
        {statement}
    }}"""
    x, fixed = np.zeros(32, np.int32), np.zeros(32, np.int32)
    fixed.flags.writeable = False
    f = only(check(source, 1, 32, x, fixed, 32), kind)
    assert (f.lines, f.count) == ((2,), 32)


def test_shared_memory_out_of_bounds():
    source = """extern "C" __global__ void k(int *out) {
        extern __shared__ int s[];
        s[threadIdx.x] = threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = s[63 - threadIdx.x];
    }"""
    findings = check(source, 1, 64, np.zeros(64, np.int32), shared_bytes=4 * 60)
    assert [(f.kind, f.space, f.count) for f in findings] == [("out_of_bounds", "shared", 4)] * 2
    assert not check(source, 1, 64, np.zeros(64, np.int32), shared_bytes=4 * 64)


def test_from_one_shared_array_into_the_next():
    """The address is inside the block's shared memory, but it belongs to another array."""
    source = """extern "C" __global__ void k(int *out, int past) {
        __shared__ int s[32], t[4][8];
        extern __shared__ int d[];
        int i = threadIdx.x;
        s[i] = t[i / 8][i % 8] = d[i] = i;
        __syncthreads();
        out[i] = s[i + past];
        out[i] += t[(i - 8 * past) / 8][i % 8];
        out[i] += d[i - past];
    }"""
    out = np.zeros(32, np.int32)
    findings = check(source, 1, 32, out, 1, shared_bytes=128)
    assert {f.kind for f in findings} == {"out_of_bounds"}, str(findings)
    assert {(f.array, f.lines[0], f.offset < 0) for f in findings} >= {
        ("s", 7, False),
        ("d", 9, True),
    }
    assert "past the end of `s`" in findings[0].title
    assert "that of s[32], where " in findings[0].details[0]
    assert not check(source, 1, 32, out, 0, shared_bytes=128)


def test_before_the_start_of_shared_memory():
    source = """extern "C" __global__ void k(int *out, int before) {
        __shared__ int s[64];
        s[threadIdx.x] = threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = s[(int)threadIdx.x - before];
    }"""
    f = only(check(source, 1, 64, np.zeros(64, np.int32), 2), "out_of_bounds")
    assert (f.array, f.offset, f.count) == ("s", -8, 2)
    assert f.title == "read of 4 bytes before the start of `s`"
    assert "that of s[-2]" in f.details[0]


def test_arrays_that_share_memory_are_treated_as_one():
    """The arrays are parts of dynamic shared memory, swapped pointers, or aliases."""
    source = """
    __device__ int again(int i) {
        extern __shared__ int named[];
        __syncthreads();
        named[i] = i;
        __syncthreads();
        return named[31 - i];
    }
    extern "C" __global__ void k(int *out, int rounds) {
        extern __shared__ char d[];
        __shared__ int s[32], t[32];
        int *p = s, *q = rounds & 1 ? (int *)d + 32 : t, i = threadIdx.x;
        float *x = (float *)d;
        double *y = (double *)(x + 64);
        x[i] = y[i] = p[i] = i;
        __syncthreads();
        for (int r = 0; r < rounds; ++r) {
            q[31 - i] = p[i];
            __syncthreads();
            int *swap = p;
            p = q;
            q = swap;
        }
        out[i] = p[i] + x[31 - i] + y[31 - i] + again(i);
    }"""
    for rounds in (2, 3):
        findings = check(source, 1, 32, np.zeros(32, np.int32), rounds, shared_bytes=512)
        assert not findings, str(findings)


def test_local_memory_out_of_bounds():
    source = """extern "C" __global__ void k(int *out, int n) {
        int a[4] = {1, 2, 3, 4};
        for (int i = 0; i < n; ++i) a[(i * 3) LIMIT] += i;
        out[threadIdx.x] = a[threadIdx.x % 4];
    }"""
    f = only(check(source.replace("LIMIT", ""), 1, 32, np.zeros(32, np.int32), 3), "out_of_bounds")
    assert f.space == "local"
    assert not check(source.replace("LIMIT", "% 4"), 1, 32, np.zeros(32, np.int32), 3)


UNINITIALIZED = {
    "shared memory": (
        """extern "C" __global__ void k(const float *x, float *out) {
            __shared__ float tile[4][33];
            int i = threadIdx.x;
            if (i < LIMIT) tile[i / 32][i % 32] = x[i];
            __syncthreads();
            out[i] = tile[i / 32][31 - i % 32];
        }""",
        {"shared"},
    ),
    "a local array": (
        """extern "C" __global__ void k(const float *x, float *out) {
            float mine[4];
            int i = threadIdx.x, n = LIMIT / 32;
            for (int j = 0; j < n; ++j) mine[(i + j) % 4] = x[(i + j) % 128];
            out[i] = mine[0] + mine[1] + mine[2] + mine[3];
        }""",
        {"local"},
    ),
    "the local array of a function": (
        """__device__ __noinline__ float sum(const float *x, int i, int n) {
            float mine[4];
            for (int j = 0; j < n; ++j) mine[(i + j) % 4] = x[j];
            return mine[i % 4] + mine[(i + 3) % 4];
        }
        extern "C" __global__ void k(const float *x, float *out) {
            float whole = sum(x, threadIdx.x, 4);
            out[threadIdx.x] = sum(x, threadIdx.x, LIMIT / 32) + whole;
        }""",
        {"local"},
    ),
}


@pytest.mark.parametrize("name", UNINITIALIZED)
def test_uninitialized(name):
    source, spaces = UNINITIALIZED[name]
    x, out = np.ones(128, np.float32), np.zeros(128, np.float32)
    findings = check(source.replace("LIMIT", "96"), 1, 128, x, out)
    assert {f.kind for f in findings} == {"uninitialized"}, str(findings)
    assert {f.space for f in findings} == spaces
    assert not check(source.replace("LIMIT", "128"), 1, 128, x, out)


def test_uninitialized_element_of_a_dynamic_array_with_two_extents():
    # The size of the launch gives the number of rows.
    source = """
        extern __shared__ float tile[][33];
        __global__ void k(float *out) {
            tile[0][threadIdx.x] = 1;
            __syncthreads();
            out[threadIdx.x] = tile[3][threadIdx.x % 8 + 5];
        }"""
    out = np.zeros(16, np.float32)
    f = only(check(source, 1, 16, out, shared_bytes=4 * 33 * 4), "uninitialized")
    assert f.title == "read of tile[3][5] before anything was written to it"
    assert f.index == (3, 5)
    assert f.details == ("`tile` has shape (4, 33), float, in shared memory",)


def test_uninitialized_element_by_its_declaration():
    source = """
        template <int TILE> __global__ void k(float *out) {
            __shared__ float tile[TILE / 2][TILE + 1];
            tile[threadIdx.x % 8][threadIdx.x] = 1;
            __syncthreads();
            out[threadIdx.x] = tile[3][threadIdx.x % 8 + 5];
        }"""
    f = only(check(source, 1, 16, np.zeros(16, np.float32), entry="k<16>"), "uninitialized")
    assert f.title == "read of tile[3][5] before anything was written to it"
    assert f.index == (3, 5)
    assert f.details == ("`tile` has shape (8, 17), float, in shared memory",)


@pytest.mark.parametrize(
    ("declaration", "size"),
    [
        ("struct P { char a; int b; }", 8),
        ("struct P { int a; double b; }", 16),
        ("struct alignas(16) P { float a, b, c; }", 16),
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        "__shared__ P s[32]; __syncthreads();",
        "P *s = scratch;",
        "P s[32]; for (int j = 0; j < 32; ++j) s[j].b = s[j].a = j;",
    ],
)
def test_padding_may_be_copied(declaration, size, place):
    """Copying a structure also copies the padding between its members; that is no fault."""
    source = f"""{declaration};
    extern "C" __global__ void k(P *out, P *scratch, int n) {{
        int i = threadIdx.x;
        {place}
        s[i].a = i;
        s[i].b = 2;
        __syncthreads();
        out[i] = s[i * n & 31];
    }}"""
    if " c;" in declaration:
        source = source.replace("s[i].b =", "s[i].b = s[i].c =").replace(
            "s[j].b", "s[j].c = s[j].b"
        )
    out, scratch = np.zeros(32 * size, np.uint8), np.zeros(32 * size, np.uint8)
    findings = check(source, 1, 32, out, scratch, 3, undefined="scratch")
    assert not findings, str(findings)


def test_partly_uninitialized_reads():
    """A read is a finding even if only a part of its bytes is uninitialized."""
    source = """extern "C" __global__ void k(float *out) {
        __shared__ float2 s[32];
        int i = threadIdx.x;
        s[i].x = i;
        WRITE
        __syncthreads();
        float2 v = s[31 - i];
        out[i] = v.x + v.y;
    }"""
    out = np.zeros(32, np.float32)
    only(check(source.replace("WRITE", ""), 1, 32, out), "uninitialized")
    assert not check(source.replace("WRITE", "s[i].y = 1;"), 1, 32, out)


def test_undefined_global_memory():
    source = """extern "C" __global__ void k(float *out, int n) {
        int i = threadIdx.x;
        if (i < n) out[i] = 0;
        out[i] += i;
    }"""
    out = np.empty(64, np.float32)
    f = only(check(source, 1, 64, out, 40, undefined="out"), "uninitialized")
    assert f.title == "read of out[40] before anything was written to it"
    assert f.count == 24
    assert not check(source, 1, 64, out, 64, undefined=["out"])
    assert not check(source, 1, 64, out, 40)  # All elements of an ndarray count as written.


def test_undefined_is_checked():
    kernel = coalesce.Kernel('extern "C" __global__ void k(float *x, int n) { x[n] = 1; }')
    x = np.zeros(1, np.float32)
    with pytest.raises(ValueError, match=r"`undefined` contains the name 'y', but .* has no such"):
        kernel.check(1, 1, x, 0, undefined=["y"])
    with pytest.raises(ValueError, match=r"contains .n. \(int\), which is not an array"):
        kernel.check(1, 1, x, 0, undefined=["n"])


def test_a_loop_of_faults_ends():
    source = """extern "C" __global__ void k(volatile int *x) {
        while (x[100] == 0) {}
    }"""
    findings = check(source, 1, 32, np.zeros(4, np.int32))
    assert [f.kind for f in findings] == ["out_of_bounds", "stopped"]
    assert "stopped after 1000000 invalid accesses" in findings[1].title


def test_the_error_that_ends_a_kernel_is_the_last_finding():
    source = """#include <cassert>
    extern "C" __global__ void k(int *x) {
        x[threadIdx.x + 1] = 1;
        assert(x[0] != 0);
    }"""
    findings = check(source, 1, 32, np.zeros(32, np.int32))
    assert [f.kind for f in findings] == ["out_of_bounds", "stopped"]
    assert findings[1].title.startswith("assertion failed: x[0] != 0")


BIT_FIELDS = """struct Fields {
    unsigned a : 3; int b : 7; unsigned c : 11; int d : 11; unsigned char e : 3, f : 5;
    unsigned short g : 9; unsigned long long h : 40, i : 24;
};
extern "C" __global__ void k(unsigned *out, int n) {
    int t = threadIdx.x;
    SPACE Fields all[32];
    Fields &s = all[t];
    s.a = t; s.b = n; if (n > t) s.c = t * 3; else s.c = 1;
    s.d = t - n; s.e = n; s.f = t; s.g = n * t;
    s.h = t * 77ull; s.i = n;
    out[t] = s.a + s.b + s.c + s.d + s.e + s.f + s.g + s.h + s.i;
}"""


@pytest.mark.parametrize("options", [(), ("-G",)])
@pytest.mark.parametrize("space", ["", "__shared__"])
def test_the_first_write_of_a_bit_field(space, options):
    """The kernel reads the word of the bit field, whose other bits may be uninitialized."""
    kernel = coalesce.Kernel(BIT_FIELDS.replace("SPACE", space), "k", options, device="sim")
    out = np.zeros(32, np.uint32)
    findings = kernel.check(1, 32, out, 5)
    assert not findings, str(findings)
    assert out.any()


@pytest.mark.parametrize(
    "body",
    [
        "V v; V w = v; out[t] = w.x;",
        "V v; v.c = 1; V w = v; out[t] = w.x + 1;",
        "V v; __shared__ V s[32]; s[t] = v; out[t] = 1;",
        "int n; int m = n; if (m > 3) out[t] = 1;",
        "int a[4]; a[t & 3] = 1; int b[4]; for (int i = 0; i < 4; ++i) b[i] = a[i]; out[t] = b[2];",
    ],
)
def test_debug_code_that_uses_a_copy_of_nothing(body):
    source = f"""struct V {{ char c; int x; }};
    extern "C" __global__ void k(int *out) {{ int t = threadIdx.x; {body} }}"""
    findings = coalesce.Kernel(source, "k", ["-G"]).check(1, 32, np.zeros(32, np.int32))
    assert {f.kind for f in findings} == {"uninitialized"}, str(findings)


@pytest.mark.parametrize("update", ["s.a |= 4", "s.a += 1"])
def test_an_update_of_uninitialized_memory(update):
    source = f"""struct S {{ unsigned a; }};
    extern "C" __global__ void k(unsigned *out) {{
        __shared__ S all[32];
        S &s = all[threadIdx.x];
        {update};
        __syncthreads();
        out[threadIdx.x] = all[threadIdx.x ^ 1].a;
    }}"""
    (finding,) = coalesce.Kernel(source, "k", device="sim").check(1, 32, np.zeros(32, np.uint32))
    assert finding.kind == "uninitialized"


PRODUCT = """extern "C" __global__ void k(const float *a, const float *b, float *c, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    DECLARED
    for (int i = 0; i < n; ++i) UPDATE += a[y * n + i] * b[i * n + x];
    RESULT
}"""


@pytest.mark.parametrize("n", [1, 5, 16])
@pytest.mark.parametrize(
    ("declared", "update", "result"),
    [
        ("float sum;", "sum", "c[y * n + x] = sum;"),
        ("int sum;", "sum", "if (sum > 3) c[y * n + x] = 1;"),
        ("float sum[2];", "sum[1] = a[i], sum[0]", "c[y * n + x] = sum[0];"),
    ],
)
def test_a_local_variable_without_a_value(declared, update, result, n):
    source = PRODUCT.replace("UPDATE", update).replace("RESULT", result)
    arrays = [np.ones((n, n), np.float32) for _ in range(3)]
    f = only(check(source.replace("DECLARED", declared), 1, (n, n), *arrays, n), "uninitialized")
    assert f.title == "the local variable `sum` is used before it has a value"
    assert f.lines == (4,)
    declared = declared.replace(";", " = {};")
    assert not check(source.replace("DECLARED", declared), 1, (n, n), *arrays, n)


DEFINED = [
    "float v; if (i < n) v = x[i]; if (i < n) y[i] = v * 2;",
    "float v; bool ok = i < n; if (ok) v = x[i]; y[i] = ok && v > 0 ? v : 1;",
    """float v, w;
    for (int j = 0; j < n; ++j) { if (j) w += v; else w = 0; v = x[j]; }
    y[i] = w;""",
    """float v[4];
    for (int j = 0; j < n % 5; ++j) v[j] = x[j];
    for (int j = 0; j < n % 5; ++j) y[i] += v[j];""",
    """__shared__ float s[32];
    float v;
    if (i < n) v = x[i];
    s[i] = v;
    __syncthreads();
    if (i < n) y[i] = s[n - 1 - i];""",
]


@pytest.mark.parametrize("body", DEFINED)
@pytest.mark.parametrize("n", [7, 19])
def test_local_variables_with_a_value_where_they_are_used(body, n):
    source = f"""extern "C" __global__ void k(const float *x, float *y, int n) {{
        int i = threadIdx.x;
        {body}
    }}"""
    findings = check(source, 1, 32, np.ones(32, np.float32), np.ones(32, np.float32), n)
    assert not findings, str(findings)


def test_a_maximum_without_a_first_value():
    source = """extern "C" __global__ void k(const float *x, float *y, int n) {
        float most FIRST;
        for (int j = 0; j < n; ++j) most = fmaxf(most, x[j]);
        y[threadIdx.x] = most;
    }"""
    arrays = np.ones(16, np.float32), np.zeros(32, np.float32)
    only(check(source.replace("FIRST", ""), 1, 32, *arrays, 16), "uninitialized")
    assert not check(source.replace("FIRST", "= 0"), 1, 32, *arrays, 16)


def test_the_name_of_a_local_array():
    source = """extern "C" __global__ void k(const int *x, int *y, int n) {
        int counts[8];
        for (int j = 0; j < n; ++j) counts[x[j] % 8]++;
        for (int j = 0; j < 8; ++j) y[j] = counts[j];
    }"""
    findings = check(source, 1, 1, np.arange(16, dtype=np.int32), np.zeros(8, np.int32), 16)
    title = "read of the local array `counts` before anything was written to it"
    assert only(findings, "uninitialized").title == title


def test_a_part_of_a_shared_array_has_its_name():
    """The compiler makes a variable of its own from `l[0]`."""
    source = """__global__ void k(double *p) {
        __shared__ double l[4];
        l[0] += threadIdx.x;
        p[threadIdx.x] = l[0];
    }"""
    findings = coalesce.Kernel(source).check(1, 64, np.zeros(64))
    assert {f.array for f in findings} == {"l"}


COVERED = """extern "C" __global__ void k(float *c, int rows, int cols) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < cols && y < rows) c[y * cols + x] = 1;
}"""


@pytest.mark.parametrize(
    ("grid", "missing", "first"),
    [
        ((2, 3), None, None),
        ((2, 2), 30, "c[16, 0]"),
        ((1, 3), 38, "c[0, 8]"),
        ((1, 2), 62, "c[0, 8]"),
    ],
)
def test_elements_that_are_not_written(grid, missing, first):
    findings = check(COVERED, grid, (8, 8), np.zeros((19, 10), np.float32), 19, 10)
    assert not findings
    notes = [(n.kind, n.severity) for n in findings.notes]
    assert notes == ([] if missing is None else [("coverage", "note")])
    for note in findings.notes:
        assert note.title == f"{missing} of the 190 elements of `c` were not written"
        assert first in note.details[0]
    # The caller may want only a part of the array.
    assert not check(COVERED, grid, (8, 8), np.zeros((25, 10), np.float32), 19, 10).notes


def test_enough_threads_with_wrong_indices():
    source = """extern "C" __global__ void k(float *out, int n) {
        int i = blockIdx.x * gridDim.x + threadIdx.x;
        if (i < n) out[i] = 1;
    }"""
    (note,) = check(source, 4, 64, np.zeros(256, np.float32), 256).notes
    assert note.title == "180 of the 256 elements of `out` were not written"
    assert "enough for all elements: is the index right?" in note.details[1]
    (note,) = check(source, 1, 255, np.zeros(256, np.float32), 256).notes
    assert note.title == "1 of the 256 elements of `out` was not written"


@pytest.mark.parametrize(
    ("store", "grid", "missing"),
    [
        ("out[i] = 1;", 3, 232),
        ("out[i] = 1;", 4, 0),
        ("out[i] = 1;", 1, 0),  # a part that may be meant
        ("if (threadIdx.x == 0) out[blockIdx.x] = 1;", 3, 0),
        ("if (i % 4 < 3) out[i] = 1;", 3, 0),
    ],
)
def test_parts_of_an_array_without_its_size(store, grid, missing):
    source = f"""extern "C" __global__ void k(float *out) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= 1000) return;
        {store}
    }}"""
    notes = check(source, grid, 256, np.zeros(1000, np.float32)).notes
    text = f"{missing} of the 1000 elements of `out` were not written"
    assert [n.title for n in notes] == [text] * (missing > 0)


@pytest.mark.parametrize(
    ("update", "name"),
    [
        ("for (int j = i; j < n; j += 32) { s.sum += x[j]; s.count++; }", "a local variable"),
        ("for (int j = i; j < n; j += 32) s.count += j;", "the local variable `s.count`"),
        ("for (int j = i; j < n; j++) ++s.count;", "the local variable `s.count`"),
    ],
)
def test_the_name_of_a_local_variable_is_certain(update, name):
    source = f"""struct Stats {{ float sum; int count; }};
    extern "C" __global__ void k(float *x, int n) {{
        int i = threadIdx.x;
        Stats s;
        s.sum = 0;
        {update}
        if (s.count > n) x[i] = s.sum;
    }}"""
    f = only(check(source, 1, 32, np.ones(64, np.float32), 64), "uninitialized")
    assert f.title == f"{name} is used before it has a value"


@pytest.mark.parametrize(
    "index",
    [
        "atomicAdd(count, 1)",
        "atomicAdd(&taken, 1)",
        "__shfl_sync(~0u, atomicAdd(count, 1), threadIdx.x)",
        "place[i]",
    ],
)
def test_lists_may_be_longer_than_their_elements(index):
    source = f"""extern "C" __global__ void k(int *list, int *count, const int *place, int n) {{
        __shared__ int taken;
        taken = 0;
        __syncthreads();
        int i = threadIdx.x;
        list[{index}] = i;
    }}"""
    place = np.arange(64, dtype=np.int32)[::-1].copy()
    findings = check(source, 1, 64, np.zeros(96, np.int32), np.zeros(1, np.int32), place, 96)
    assert not findings.notes, str(findings)


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize(
    ("value", "threads", "noted"),
    [("0.1 * i", 96, True), ("0.1 * i", 2, False), ("i", 96, False), ("i / 4.0", 96, False)],
)
def test_sums_that_depend_on_the_order(dtype, value, threads, noted):
    source = f"""extern "C" __global__ void k({dtype} *sum) {{
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        atomicAdd(sum, ({dtype})({value}));
    }}"""
    findings = check(source, 1, threads, np.zeros(1, "f4" if dtype == "float" else "f8"))
    assert not findings
    assert [n.kind for n in findings.notes] == ["rounding"] * noted, str(findings)


@pytest.mark.parametrize("threads", [96, 128, 192, 256])
def test_sums_that_are_not_read(threads):
    source = """extern "C" __global__ void k(const float *x, float *out) {
        __shared__ float s[256];
        int t = threadIdx.x;
        s[t] = x[t];
        __syncthreads();
        for (int half = blockDim.x / 2; half > 0; half /= 2) {
            if (t < half) s[t] += s[t + half];
            __syncthreads();
        }
        if (t == 0) *out = s[0];
    }"""
    findings = check(source, 1, threads, np.ones(256, np.float32), np.zeros(1, np.float32))
    assert not findings
    lost = threads & (threads - 1)
    assert [n.title for n in findings.notes] == ["the sum in `s[2]` was never read"] * (lost > 0)


SHIFT = """extern "C" __global__ void k(const float *R x, float *R y, int n) {
    int i = threadIdx.x;
    y[i] = x[i] + 1;
    __syncthreads();
    float t = x[(i + 1) % n];
    __syncthreads();
    y[i] = t;
}"""


def test_one_array_for_two_restrict_parameters():
    v, w = np.zeros(64, np.float32), np.zeros(64, np.float32)
    restrict = SHIFT.replace("*R", "*__restrict__")
    f = only(check(restrict, 1, 64, v, v, 64), "alias")
    assert f.title == "`x` and `y` are __restrict__, but they point to the same memory"
    assert not check(restrict, 1, 64, v, w, 64)
    assert not check(SHIFT.replace("*R", "*"), 1, 64, v, v, 64)
    in_place = """extern "C" __global__ void k(const float *__restrict__ x, float *__restrict__ y) {
        y[threadIdx.x] = x[threadIdx.x] + 1;
    }"""
    assert not check(in_place, 1, 64, v, v)


@pytest.mark.parametrize("kind", ["float", "short"])
def test_two_dynamic_shared_arrays(kind):
    source = f"""extern __shared__ int first[];
    extern __shared__ {kind} second[];
    extern "C" __global__ void k(int *out, int apart) {{
        int t = threadIdx.x;
        first[t] = t;
        __syncthreads();
        if (apart) {{ out[t] = first[t]; __syncthreads(); }}
        second[t] = 1;
        __syncthreads();
        out[t] += (apart ? 0 : first[t]) + second[t];
    }}"""
    f = only(check(source, 1, 32, np.zeros(32, np.int32), 0, shared_bytes=256), "alias")
    assert (
        f.title == "`second` and `first` are both extern __shared__, so they begin at the same byte"
    )
    assert not check(source, 1, 32, np.zeros(32, np.int32), 1, shared_bytes=256)


@pytest.mark.parametrize(
    ("index", "element", "reason"),
    [
        ("far - 2000000000", "a[-2000000000]", ""),
        ("unsigned(far - 1)", "a[4294967295]", "4294967295 is 2^32 - 1"),
        ("far + 40000000ll", "a[40000000]", ""),
    ],
)
def test_a_far_index(index, element, reason):
    source = f"""extern "C" __global__ void k(float *a, int far) {{ a[{index}] = 1; }}"""
    f = only(check(source, 1, 1, np.zeros(100, np.float32), 0), "out_of_bounds")
    assert f"the address is {element}" in f.details[0]
    assert reason in f.details[0]
    assert "overflowed" not in f.details[0]


def test_a_reference_as_parameter():
    kernel = coalesce.Kernel("__global__ void k(float *a, int &n) { a[0] = n; }")
    with pytest.raises(TypeError, match=r"`n` is a C\+\+ reference"):
        kernel[1, 1](np.zeros(1, np.float32), 3)


def test_an_exchange_does_not_read():
    source = """extern "C" __global__ void k(int *x) { USE atomicExch(x, 1); }"""
    x = np.zeros(1, np.int32)
    assert not check(source.replace("USE", ""), 1, 1, x, undefined="x")
    only(check(source.replace("USE", "x[0] +="), 1, 1, x, undefined="x"), "uninitialized")
    # Other atomics do, even if nobody uses their result.
    for other in ("atomicAdd", "atomicMax", "atomicXor"):
        added = source.replace("USE", "").replace("atomicExch", other)
        only(check(added, 1, 1, x, undefined="x"), "uninitialized")


def test_wrong_arguments_are_named():
    kernel = coalesce.Kernel('extern "C" __global__ void k(int *x) { x[0] = 1; }')
    x = np.zeros(1, np.int32)
    with pytest.raises(TypeError, match="`strict` must be True or False; got str 'yes'"):
        kernel.check(1, 1, x, strict="yes")
    with pytest.raises(ValueError, match="`instruction_limit` must be at least 0; got -1"):
        kernel.check(1, 1, x, instruction_limit=-1)
