"""Indices outside array members of structures that a kernel gets by value.

A check reports such an index if the source has it in a subscript of the member. The tests with
correct kernels are as important: a check must not report any of them.
"""

import numpy as np
import pytest

import coalesce
from coalesce.cxx.member_accesses import MemberAccess, with_tests

pytestmark = pytest.mark.usefixtures("on_simulator")

STRUCTURES = """
struct Inner { short v[2]; int q; };
union Bits { int words[2]; short halves[4]; };
struct S {
    int a[4]; float scale; float m[3][4]; int t[2][2][2]; Inner in[3]; Bits bits; int *p;
    int last[2];
};
"""


def structure(p):
    """Return an S whose member `p` is an array."""
    return {
        "a": np.array([1, 2, 3, 4], np.int32),
        "scale": 0.5,
        "m": np.arange(12, dtype=np.float32).reshape(3, 4),
        "t": np.arange(8, dtype=np.int32).reshape(2, 2, 2),
        "in": [{"v": np.array([1, 2], np.int16), "q": 3}] * 3,
        "bits": {"words": np.array([5, 6], np.int32)},
        "p": p,
        "last": np.array([7, 8], np.int32),
    }


def check(statements, threads=32, parameter="S s", before="", **options):
    source = f"""{STRUCTURES}{before}
extern "C" __global__ void k({parameter}, float *out, int n) {{
int i = threadIdx.x;
{statements}
}}"""
    kernel = coalesce.Kernel(source, "k", **options)
    out, p = np.zeros(64, np.float32), np.arange(64, dtype=np.int32)
    return kernel.check(1, threads, structure(p), out, np.int32(4)), out


# Each row has a faulty statement, and the member, the verb, the first wrong index, the thread with
# this index, and the number of threads with a wrong index.
FAULTS = {
    "a read past the end": ("out[i] = s.a[i];", "s.a[4]", "read", 4, 28),
    "a read before the start": ("out[i] = s.a[i - 2];", "s.a[-2]", "read", 0, 28),
    "an unsigned index": ("out[i] = s.a[threadIdx.x - 1];", "s.a[4294967295]", "read", 0, 28),
    "a constant index": ("if (i < 2) out[i] = s.a[5];", "s.a[5]", "read", 0, 2),
    "a write": ("s.a[i] = i; out[i] = s.a[i & 3];", "s.a[4]", "write", 4, 28),
    "an update": ("s.a[i] += i; out[i] = s.a[i & 3];", "s.a[4]", "write", 4, 28),
    "two dimensions": ("out[i] = s.m[2][i];", "s.m[2, 4]", "read", 4, 28),
    "the first of two dimensions": ("out[i] = s.m[i][3];", "s.m[3, 3]", "read", 3, 29),
    "three dimensions": ("out[i] = s.t[1][1][i];", "s.t[1, 1, 2]", "read", 2, 30),
    "an array of structures": ("out[i] = s.in[i].q;", "s.in[3]", "read", 3, 29),
    "an array in an array of structures": (
        "out[i] = s.in[1].v[i];",
        "s.in[1].v[2]",
        "read",
        2,
        30,
    ),
    "a member of a union": ("out[i] = s.bits.words[i];", "s.bits.words[2]", "read", 2, 30),
    "the last member": ("out[i] = s.last[i];", "s.last[2]", "read", 2, 30),
    "an index from another member": ("out[i] = s.a[s.a[i & 3]];", "s.a[4]", "read", 3, 8),
    "a macro": ("\n#define A(x) s.a[x]\nout[i] = A(i);", "s.a[4]", "read", 4, 28),
    "an argument of a macro": (
        "\n#define SUM(x, y) ((x) + (y))\nout[i] = SUM(s.a[i], 1);",
        "s.a[4]",
        "read",
        4,
        28,
    ),
    "a lambda": ("auto f = [&](int j) { return s.a[j]; }; out[i] = f(i);", "s.a[4]", "read", 4, 28),
    "a loop": ("for (int j = 0; j <= n; ++j) out[i] += s.a[j];", "s.a[4]", "read", 0, 32),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("parameter", ["S s", "const S s", "const __grid_constant__ S s"])
def test_each_fault(name, parameter):
    statement, element, verb, thread, count = FAULTS[name]
    if verb == "write" and parameter != "S s":
        pytest.skip("the parameter is const")
    findings, _ = check(statement, parameter=parameter)
    assert len(findings) == 1, str(findings)
    f = findings[0]
    assert (f.kind, f.severity) == ("out_of_bounds", "error")
    assert f.title == f"{verb} of `{element}`, which is outside the array"
    assert f.array == element[: element.rindex("[")]
    assert f.first.what == verb
    assert f.first.thread == (thread, 0, 0)
    assert f.count == count
    assert f.first.text.strip() == statement.splitlines()[-1].strip()


def test_the_details_have_the_extents():
    findings, _ = check("out[i] = s.a[i];")
    assert findings[0].details == ("`s.a` has 4 elements, in a parameter of the kernel",)
    findings, _ = check("out[i] = s.m[3][i & 3];")
    assert findings[0].details == ("`s.m` has shape (3, 4), in a parameter of the kernel",)


def test_members_of_one_line_are_separate():
    findings, _ = check("out[i] = s.a[i] + s.last[i] + s.a[i + 1];")
    assert [(f.array, f.count) for f in findings] == [("s.a", 28 + 29), ("s.last", 30)]


def test_a_template_is_checked():
    source = """template <class T, int n> struct V { T v[n]; float after[8]; };
    template <class P> __global__ void k(P p, float *out) {
        out[threadIdx.x] = p.v[threadIdx.x];
    }"""
    kernel = coalesce.Kernel(source, "k<V<float, 5>>")
    argument = {"v": np.arange(5, dtype=np.float32), "after": np.zeros(8, np.float32)}
    findings = kernel.check(1, 8, argument, np.zeros(8, np.float32))
    assert [(f.title, f.count) for f in findings] == [
        ("read of `p.v[5]`, which is outside the array", 3)
    ]
    assert not kernel.check(1, 5, argument, np.zeros(8, np.float32))


CORRECT = {
    "all elements": "if (i < 4) out[i] = s.a[i];",
    "a guarded index": "out[i] = i < 4 ? s.a[i] : -1;",
    "an index with an offset": "if (i >= 4 && i < 8) out[i] = s.a[i - 4];",
    "a member after another one": "if (i >= 3 && i < 5) out[i] = s.last[i - 3] + s.m[0][i - 3];",
    "a member from its end": "if (i < 4) out[i] = s.a[3 - i];",
    "unsigned arithmetic": "if (i < 4) out[i] = s.a[threadIdx.x - 5u + 5u];",
    "a loop over all members": """float t = 0;
#pragma unroll
for (int j = 0; j < 4; ++j) t += s.a[j] * s.m[j % 3][j];
out[i] = t;""",
    "a row that continues into the next": "if (i < 12) out[i] = s.m[0][i] + s.t[0][0][i & 7];",
    "a row after the last": "if (i < 12) out[i] = s.m[3][i - 12];",
    "another member of a union": "if (i < 4) out[i] = s.bits.halves[i];",
    "a copy of the structure": "S copy = s; out[i] = copy.a[i & 3];",
    "the words of the structure": "if (i < sizeof(S) / 4) out[i] = ((const int *)&s)[i];",
    "the bytes of the structure": "out[i] = reinterpret_cast<const unsigned char *>(&s)[i];",
    "a copy of the bytes": """char bytes[sizeof(S)];
memcpy(bytes, &s, sizeof(S));
out[i] = bytes[i];""",
    "a pointer to a member": "const int *q = s.a; if (i < 5) out[i] = q[i];",
    "a pointer past the end": """const int *end = &s.a[4];
for (const int *q = s.a; q != end; ++q) out[i] += *q;""",
    "the address of an element": "const int *end = &(s.a[n]); out[i] = end - s.a;",
    "a reference to the structure": "const S &r = s; if (i < 4) out[i] = r.a[i];",
    "a pointer that is a member": "out[i] = s.p[i];",
    "a pointer at an index of a member": "out[i] = s.p[s.a[i & 3] + 20];",
    "a wide load": "const int2 w = *(const int2 *)&s.last[0]; out[i] = w.x + w.y;",
    "the address in a structure": "out[i] = &s.in[n - 1].v[2] - s.in[0].v;",
    "a size_t that wraps around": "size_t j = i; if (i < 4) out[i] = s.a[j] + s.m[1][j - 4];",
    "a parameter of a macro": """
#define A(s, i) s.a[i]
struct Long { int n, a[2]; };
out[i] = A((*(const Long *)s.p), i);""",
    "an operand of sizeof": "out[i] = sizeof(s.a[9]);",
    "a branch that is not taken": "if (n < 0) out[i] = s.a[9];",
    "a variable of the same name": "{ struct { int a[64]; } s = {}; out[i] = s.a[i]; }",
    "a pointer of the same name": """{ struct { const int *a; } s = {(const int *)out};
out[i] = s.a[i]; }""",
    "a reference of the same name": """const int *p = s.p - 1;
{ struct Long { int n, a[2]; };
const Long &s = *(const Long *)p; out[i] = s.a[i]; }""",
    "a member of the same name": """struct { struct { int a[64]; } s; } o = {};
out[i] = o.s.a[i] + o . s.a[i];""",
    "an index that is an enumerator": "enum { zero, one }; out[i] = s.a[one] + s.a[zero];",
    "an index that is a char": "char c = i & 3; out[i] = s.a[c] + s.a[(short)c] + s.a[i > 5];",
    "an index with a side effect": """int j = 0;
out[i] = s.a[j++] + s.a[j++] + s.m[j++ - 2][0];
out[i] += j;""",
    "a comma in an index": "out[i] = s.a[(i, 0)] + s.a[min(i, 3)];",
    "a comment in an index": "out[i] = s.a[0 // the first ]\n] + s.a[/* ] */ 1];",
    "a text with brackets": 'if (n < 0) printf("s.a[%d] s.a[9]", s.a[0]); out[i] = 1;',
    "an assertion": "assert(s.a[i & 3] > 0); out[i] = 1;",
    "atomics on the members": """atomicAdd(&out[i], float(s.a[i & 3]));
s.a[i & 3]++;
out[i] += s.a[0];""",
}


@pytest.mark.parametrize("name", CORRECT)
@pytest.mark.parametrize("parameter", ["S s", "const __grid_constant__ S s"])
def test_correct_kernels(name, parameter):
    if "s.a[i & 3]++" in CORRECT[name] and parameter != "S s":
        pytest.skip("the parameter is const")
    findings, out = check(CORRECT[name], parameter=parameter, before="#include <cassert>\n")
    assert not findings, str(findings)
    # The check computes the same results as a launch.
    source = f"""{STRUCTURES}#include <cassert>
extern "C" __global__ void k({parameter}, float *out, int n) {{
int i = threadIdx.x;
{CORRECT[name]}
}}"""
    plain = np.zeros(64, np.float32)
    p = np.arange(64, dtype=np.int32)
    coalesce.Kernel(source, "k")[1, 32](structure(p), plain, np.int32(4))
    np.testing.assert_array_equal(out, plain)


def test_a_longer_array_behind_a_pointer():
    """Programs declare `float v[1]` for an array whose length is known at run time only."""
    source = """struct Long { int n; float v[1]; };
    struct S { Long *p; int a[2]; };
    __global__ void k(S s, float *out) {
        out[threadIdx.x] = s.p->v[threadIdx.x] + s.p[0].v[threadIdx.x] + (*s.p).v[threadIdx.x];
    }"""
    data = np.zeros(33, np.float32)
    kernel = coalesce.Kernel(source, "k")
    argument = {"p": data, "a": np.zeros(2, np.int32)}
    assert not kernel.check(1, 32, argument, np.zeros(32, np.float32))


def test_variables_keep_their_values():
    """The tested program uses the values of the module's variables, and changes them."""
    source = """struct S { int a[4]; };
    __device__ int total = 5;
    __constant__ int by[2] = {10, 0};
    __global__ void k(S s) { atomicAdd(&total, s.a[threadIdx.x] * by[0]); }"""
    kernel = coalesce.Kernel(source, "k")
    argument = {"a": np.arange(4, dtype=np.int32)}
    assert not kernel.check(1, 4, argument)
    assert kernel.globals["total"] == 65
    assert len(kernel.check(1, 5, argument)) == 1
    kernel[1, 4](argument)
    assert kernel.globals["total"] >= 125


def test_a_source_with_host_code():
    source = """#include <cstdio>
struct S { int a[4]; float f[4]; };
__global__ void k(S s, float *out) {
    out[threadIdx.x] = s.a[threadIdx.x];
}
int main() { S s; k<<<1, 8>>>(s, nullptr); printf("%d", s.a[0]); }
"""
    argument = {"a": np.arange(4, dtype=np.int32), "f": np.zeros(4, np.float32)}
    findings = coalesce.Kernel(source, "k").check(1, 8, argument, np.zeros(8, np.float32))
    assert [(f.lines, f.count) for f in findings] == [((4,), 4)]


def test_anonymous_namespaces():
    """Each compilation gives other names to what is in an anonymous namespace."""
    source = """namespace {
    struct S { int a[4]; };
    __device__ int total;
    __global__ void k(S s) { atomicAdd(&total, s.a[threadIdx.x]); }
    }"""
    kernel = coalesce.Kernel(source, "k")
    argument = {"a": np.arange(4, dtype=np.int32)}
    assert not kernel.check(1, 4, argument)
    assert kernel.globals["total"] == 6
    assert [f.array for f in kernel.check(1, 5, argument)] == ["s.a"]


def test_an_old_version_of_cpp_is_not_tested():
    """The tests need C++17. Without them, the check still runs."""
    findings, _ = check("if (i < 8) out[i] = s.a[i];", options=["-std=c++11"])
    assert not findings


def test_text():
    text, accesses = with_tests("x = s.a[i]; s.b.c[2] = s.p->q[3];", ["s"])
    assert accesses == [MemberAccess("s.a", "read"), MemberAccess("s.b.c", "write")]
    assert "s.p->q[3]" in text
    assert with_tests("t.a[i]; ss.a[i]; x.s.a[i]; n::s.a[i]; s.a(i)[0]", ["s"])[1] == []
    spaces = " " * 100
    assert with_tests(f"x.{spaces}s.a[i]; &{spaces}( s.a[i]); addressof (s.a[i])", ["s"])[1] == []
    assert len(with_tests("x && s.a[i]; (s.a[i]); return s.a[i];", ["s"])[1]) == 3
    assert with_tests("s.a[i]", []) == ("s.a[i]", [])


# Accesses that leave the structure or the parameters are errors in every run.


def test_a_launch_reports_an_access_after_the_structure():
    source = """struct S { int a[4]; float scale; };
    __global__ void k(S s, int *out) { out[threadIdx.x] = s.a[threadIdx.x]; }"""
    argument = {"a": np.arange(4, dtype=np.int32), "scale": 1.0}
    kernel = coalesce.Kernel(source, "k")
    kernel[1, 5](argument, np.zeros(8, np.int32))  # inside the structure
    with pytest.raises(coalesce.MemoryFault, match="outside local memory") as error:
        kernel[1, 6](argument, np.zeros(8, np.int32))
    assert "20 bytes of local memory; it has the thread's arrays, and copies of" in str(error.value)
    assert "thread (5, 0, 0)" in str(error.value)


GRID_CONSTANT = """struct S { int a[4]; float scale; };
__global__ void k(const __grid_constant__ S s, const __grid_constant__ S t, int *out, int n) {
    const int *a = AT;
    if (threadIdx.x < n) out[threadIdx.x] = a[threadIdx.x];
}"""


@pytest.mark.parametrize("counted", [False, True])
def test_accesses_after_the_parameters(counted):
    """The PTX and the machine code read the parameters with an index."""
    argument = {"a": np.arange(4, dtype=np.int32), "scale": 1.0}
    kernel = coalesce.Kernel(GRID_CONSTANT.replace("AT", "t.a"), "k")
    run = kernel.profile if counted else kernel.launch
    run(1, 32, argument, argument, np.zeros(32, np.int32), np.int32(5), device="sim")
    with pytest.raises(coalesce.MemoryFault, match="outside the kernel's parameters") as error:
        run(1, 32, argument, argument, np.zeros(32, np.int32), np.int32(32), device="sim")
    assert "and the parameters have 52 bytes" in str(error.value)
    assert "line 4" in str(error.value)
    assert "thread (8, 0, 0) in block (0, 0, 0) and 23 other threads" in str(error.value)


@pytest.mark.parametrize("counted", [False, True])
def test_accesses_before_the_parameters(counted):
    argument = {"a": np.arange(4, dtype=np.int32), "scale": 1.0}
    kernel = coalesce.Kernel(GRID_CONSTANT.replace("AT", "s.a - 1"), "k")
    run = kernel.profile if counted else kernel.launch
    with pytest.raises(coalesce.MemoryFault, match="outside the kernel's parameters") as error:
        run(1, 32, argument, argument, np.zeros(32, np.int32), np.int32(4), device="sim")
    assert "the address is byte -4" in str(error.value)


def test_from_one_parameter_into_the_next():
    """A check reports it, because the address is computed from the first parameter."""
    argument = {"a": np.arange(4, dtype=np.int32), "scale": 1.0}
    kernel = coalesce.Kernel(GRID_CONSTANT.replace("AT", "s.a"), "k")
    out = np.zeros(32, np.int32)
    assert not kernel.check(1, 32, argument, argument, out, np.int32(5))
    findings = kernel.check(1, 32, argument, argument, out, np.int32(8))
    assert [(f.title, f.details, f.count) for f in findings] == [
        (
            "read of 4 bytes past the end of parameter 1 of the kernel",
            ("the parameter has 20 bytes, and the address is byte 20 of it",),
            3,
        )
    ]
    either = GRID_CONSTANT.replace("AT", "n < 6 ? s.a : t.a")
    assert not coalesce.Kernel(either, "k").check(1, 32, argument, argument, out, np.int32(5))
    offset = GRID_CONSTANT.replace("AT", "s.a - n").replace("= a[", "= a[n + ")
    assert not coalesce.Kernel(offset, "k").check(1, 4, argument, argument, out, np.int32(5))


ADDRESSES = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .align 4 .b8 s[20], .param .align 4 .b8 t[20], .param .u64 out,
                  .param .u64 .ptr .global .align 8 pointers, .param .u64 by)
{
    .reg .pred %p;
    .reg .b32 %x, %i;
    .reg .b64 %s, %t, %a, %out, %pointers, %by;
    ld.param.u64 %out, [out];
    ld.param.u64 %pointers, [pointers];
    ld.param.u64 %by, [by];
    mov.b64 %s, s;
    mov.b64 %t, t;
    mov.u32 %i, %tid.x;
    setp.eq.u32 %p, %i, 99;
    STATEMENTS
    st.global.u32 [%out], %x;
    ret;
}
"""
# Each row has PTX that reads an integer from the parameter s, and whether it certainly leaves s.
LEAVES = {
    "an offset": ("add.s64 %a, %s, 20; ld.param.u32 %x, [%a];", True),
    "an offset in the address": ("add.s64 %a, %s, 4; ld.param.u32 %x, [%a+16];", True),
    "a generic address": ("cvta.param.u64 %s, %s; add.s64 %a, %s, 20; ld.u32 %x, [%a];", True),
    "ld.param of a generic address": (
        "cvta.param.u64 %s, %s; add.s64 %a, %s, 20; ld.param.u32 %x, [%a];",
        True,
    ),
    "the last element at a generic address": (
        "cvta.param.u64 %s, %s; add.s64 %a, %s, 16; ld.param.u32 %x, [%a];",
        False,
    ),
    "an index": ("mad.wide.u32 %a, %i, 4, %s; ld.param.u32 %x, [%a+20];", True),
    "the last element": ("add.s64 %a, %s, 16; ld.param.u32 %x, [%a];", False),
    "the address of either": ("selp.b64 %a, %s, %t, %p; ld.param.u32 %x, [%a];", False),
    "an address in either case": (
        "mov.b64 %a, %t; @%p mov.b64 %a, %s; ld.param.u32 %x, [%a];",
        False,
    ),
    "an address from memory": (
        """cvta.param.u64 %s, %s; cvta.param.u64 %t, %t; st.global.u64 [%pointers], %t;
        ld.global.u64 %a, [%pointers]; @%p mov.b64 %a, %s; ld.u32 %x, [%a];""",
        False,
    ),
    "the distance of two addresses": (
        "sub.s64 %a, %t, %s; add.s64 %a, %s, %a; ld.param.u32 %x, [%a];",
        False,
    ),
    "a distance from a parameter": ("add.s64 %a, %s, %by; ld.param.u32 %x, [%a];", False),
}


@pytest.mark.parametrize("name", LEAVES)
def test_addresses_of_parameters_in_ptx(name):
    statements, leaves = LEAVES[name]
    kernel = coalesce.Kernel(ADDRESSES.replace("STATEMENTS", statements), "k")
    structure = np.zeros((), np.dtype([("a", "i4", 5)]))
    out, pointers = np.zeros(1, np.int32), np.zeros(1, np.uint64)
    findings = kernel.check(1, 1, structure[()], structure[()], out, pointers, np.int64(20))
    assert [f.title for f in findings] == (
        ["read of 4 bytes past the end of parameter 1 of the kernel"] if leaves else []
    )
