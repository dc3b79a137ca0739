"""malloc, free, new and delete in kernels."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import coalesce

LISTS = """
struct Node { int value; Node *next; };
extern "C" __global__ void k(int *out, int n) {
    Node *list = nullptr;
    for (int i = 0; i <= threadIdx.x % n; ++i) {
        Node *node = (Node *)malloc(sizeof(Node));
        node->value = i * i;
        node->next = list;
        list = node;
    }
    int sum = 0;
    while (list) {
        Node *next = list->next;
        sum += list->value;
        free(list);
        list = next;
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def run(source: str, *arguments, device="sim", grid=1, block=32):
    coalesce.Kernel(source, "k", device=device)[grid, block](*arguments)


def test_linked_lists_are_allocated_and_freed(device):
    out = np.zeros(3 * 70, np.int32)
    run(LISTS, out, 9, device=device, grid=3, block=70)
    n = np.arange(210) % 70 % 9
    np.testing.assert_array_equal(out, n * (n + 1) * (2 * n + 1) // 6)


def test_launches_in_several_threads_share_the_heap():
    """The kernels allocate and free memory at the same time."""
    kernels = [coalesce.Kernel(LISTS, "k", device="sim") for _ in range(4)]
    n = np.arange(64) % 9
    expected = np.tile(n * (n + 1) * (2 * n + 1) // 6, 4)

    def launches(kernel):
        results = []
        for _ in range(10):
            out = np.zeros(4 * 64, np.int32)
            kernel[4, 64](out, 9)
            results.append(out)
        return results

    with ThreadPoolExecutor(len(kernels)) as pool:
        for results in pool.map(launches, kernels):
            for out in results:
                np.testing.assert_array_equal(out, expected)


def test_new_and_delete(device):
    out = np.zeros(32, np.float32)
    run(
        """
        struct Pair { float a, b; __device__ Pair(float x) : a(x), b(2 * x) {} };
        extern "C" __global__ void k(float *out) {
            Pair *p = new Pair(threadIdx.x);
            float *sums = new float[4];
            for (int i = 0; i < 4; ++i) sums[i] = p->a * i + p->b;
            out[threadIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];
            delete[] sums;
            delete p;
        }""",
        out,
        device=device,
    )
    np.testing.assert_array_equal(out, 14 * np.arange(32))


def test_heap_memory_survives_between_kernels(device):
    source = """
    __device__ int *kept[64];
    extern "C" __global__ void make(int n) {
        int *own = (int *)malloc(n * sizeof(int));
        for (int i = 0; i < n; ++i) own[i] = threadIdx.x + i;
        kept[threadIdx.x] = own;
    }
    extern "C" __global__ void use(int *out, int n) {
        out[threadIdx.x] = kept[63 - threadIdx.x][n - 1];
    }
    extern "C" __global__ void end() { free(kept[threadIdx.x]); }
    """
    make = coalesce.Kernel(source, "make", device=device)
    make[1, 64](10)
    out = np.zeros(64, np.int32)
    make.get_function("use")[1, 64](out, 10)
    make.get_function("end")[1, 64]()
    np.testing.assert_array_equal(out, 63 - np.arange(64) + 9)


def test_a_full_heap_gives_null(device):
    """The heap has 8 MiB."""
    out = np.zeros(12, np.int32)
    run(
        """
        extern "C" __global__ void k(int *got) {
            char *all[12];
            for (int i = 0; i < 12; ++i) {
                all[i] = (char *)malloc(1 << 20);
                got[i] = all[i] != nullptr;
            }
            for (int i = 0; i < 12; ++i) free(all[i]);
            got[11] = malloc(100u << 20) != nullptr;
        }""",
        out,
        device=device,
        block=1,
    )
    assert 5 <= out.sum() <= 8
    assert (np.diff(out) <= 0).all()


@pytest.mark.parametrize("of_ptx", [False, True])
def test_it_is_profiled(of_ptx, monkeypatch):
    if of_ptx:
        monkeypatch.setenv("COALESCE_COUNT_PTX", "1")
    kernel = coalesce.Kernel(LISTS, device="sim")
    out = np.zeros(64, np.int32)
    profile = kernel.profile(1, 64, out, 5)
    assert out[4] == 30
    if not of_ptx:
        assert "malloc" in profile.inexact["smsp__inst_executed.sum"]
        assert kernel.launch(1, 64, out, 5, counts=True).counts.machine_code


def test_reading_past_the_end_is_a_fault():
    with pytest.raises(coalesce.MemoryFault, match="past the end of `memory of malloc`"):
        run(
            """extern "C" __global__ void k(int *out) {
                int *p = (int *)malloc(10 * sizeof(int));
                for (int i = 0; i < 10; ++i) p[i] = i;
                *out = p[*out];
                free(p);
            }""",
            np.full(1, 10, np.int32),
            block=1,
        )


def test_using_freed_memory_is_a_fault():
    source = """extern "C" __global__ void k(int *out) {
        int *p = (int *)malloc(40);
        p[3] = 5;
        free(p);
        *out = p[3];
    }"""
    with pytest.raises(coalesce.MemoryFault, match=r"4 bytes in memory that free\(\) freed"):
        run(source, np.zeros(1, np.int32), block=1)
    findings = coalesce.Kernel(source, device="sim").check(1, 1, np.zeros(1, np.int32))
    assert [f.kind for f in findings] == ["use_after_free"]


TWICE = """extern "C" __global__ void k(int *out) {
    int *p = (int *)malloc(16);
    *out = p != nullptr;
    free(p);
    free(p);
}"""


@pytest.mark.parametrize("counts", [False, True])  # PTX and machine code
def test_freeing_twice(counts):
    kernel = coalesce.Kernel(TWICE, device="sim")
    with pytest.raises(coalesce.LaunchError, match=r"from malloc\(\) is freed twice") as error:
        kernel.launch(1, 1, np.zeros(1, np.int32), counts=counts)
    assert "the 16 bytes were freed before by thread (0, 0, 0)" in str(error.value)
    assert "line 4:   free(p);" in str(error.value)
    (finding,) = kernel.check(1, 1, np.zeros(1, np.int32))
    assert (finding.kind, finding.severity) == ("heap", "error")
    assert finding.lines == (5,)
    assert "line 4" in finding.details[0]


def test_freeing_again_in_a_later_launch():
    source = """
    __device__ int *kept;
    extern "C" __global__ void k(int frees) {
        if (!frees) kept = (int *)malloc(16);
        if (frees) free(kept);
    }"""
    kernel = coalesce.Kernel(source, device="sim")
    for frees in (0, 1):
        kernel[1, 1](frees)
    with pytest.raises(coalesce.LaunchError, match="freed before by an earlier launch"):
        kernel[1, 1](1)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(
    ("argument", "detail"),
    [
        ("(char *)p + 4", "the address is that of memory of malloc + 4 bytes"),
        ("out + 1", "`out` has shape (2,), int32; the address is that of out[1]"),
    ],
)
def test_freeing_what_malloc_did_not_return(argument, detail, counts):
    kernel = coalesce.Kernel(
        TWICE.replace("free(p);\n    free(p);", f"free({argument}); free(p);"), device="sim"
    )
    wrong = r"address that malloc\(\) did not return"
    with pytest.raises(coalesce.LaunchError, match=wrong) as error:
        kernel.launch(1, 1, np.zeros(2, np.int32), counts=counts)
    assert detail in str(error.value)
    (finding,) = kernel.check(1, 1, np.zeros(2, np.int32))
    assert (finding.kind, finding.severity) == ("heap", "error")
    assert detail in str(finding)


def test_freeing_null():
    run(
        'extern "C" __global__ void k(int *x) { free(x - threadIdx.x); }'.replace(
            "x - threadIdx.x", "(void *)(size_t)(blockIdx.x)"
        ),
        np.zeros(1, np.int32),
    )


def test_lost_memory_is_reported():
    source = """
    __device__ int *kept[32];
    extern "C" __global__ void k(int *out, int frees) {
        int *p = (int *)malloc(100);
        p[0] = threadIdx.x;
        out[threadIdx.x] = p[0];
        if (frees == 2) kept[threadIdx.x] = p;
        if (frees == 1) free(p);
    }"""
    kernel, out = coalesce.Kernel(source, device="sim"), np.zeros(32, np.int32)
    assert not kernel.check(1, 32, out, 1)
    assert not kernel.check(1, 32, out, 2)
    (finding,) = kernel.check(1, 32, out, 0)
    assert (finding.kind, finding.severity, finding.count) == ("heap", "warning", 32)
    assert "never freed" in finding.title
    assert "3200 bytes" in str(finding)


def test_a_lost_ring_is_reported():
    """Each element has a pointer to the next one, but no kernel can find any of them."""
    source = """
    struct Node { Node *next; int value; };
    __device__ Node *kept;
    extern "C" __global__ void k(int *out, int keeps) {
        Node *first = new Node{nullptr, 1};
        Node *second = new Node{first, 2};
        first->next = second;
        *out = second->next->value;
        if (keeps) kept = first;
    }"""
    kernel, out = coalesce.Kernel(source, device="sim"), np.zeros(1, np.int32)
    assert not kernel.check(1, 1, out, 1)
    kernel = coalesce.Kernel(source, device="sim")
    findings = kernel.check(1, 1, out, 0)
    assert [(f.kind, f.severity) for f in findings] == [("heap", "warning")] * 2
    assert [f.lines for f in findings] == [(5,), (6,)]


def test_new_memory_holds_nothing():
    source = """extern "C" __global__ void k(int *out) {
        int *p = (int *)malloc(16);
        p[0] = 1;
        *out = p[0] + p[1];
        free(p);
    }"""
    (finding,) = coalesce.Kernel(source, device="sim").check(1, 1, np.zeros(1, np.int32))
    assert finding.kind == "uninitialized"


def test_a_block_is_stepped():
    out = np.zeros(64, np.int32)
    with coalesce.Kernel(LISTS, device="sim").step(1, 64, out, 5) as stepper:
        stepper.finish()
        assert stepper.arrays["out"][4] == 30


@pytest.mark.usefixtures("on_simulator")
@pytest.mark.parametrize("what", ["x", "(void *)8", "(void *)(1ull << 44)", "own + 4", "&here"])
def test_free_of_memory_that_malloc_did_not_return(what):
    source = f"""extern "C" __global__ void k(int *x) {{
        int here = x[0];
        char *own = (char *)malloc(64);
        free({what});
        x[1] = here + (own != nullptr);
    }}"""
    kernel = coalesce.Kernel(source, "k", device="sim")
    with pytest.raises(coalesce.LaunchError, match=r"that malloc\(\) did not return"):
        kernel[1, 1](np.zeros(2, np.int32))
    findings = kernel.check(1, 1, np.zeros(2, np.int32))
    assert any("that malloc() did not return" in f.title for f in findings), str(findings)


@pytest.mark.parametrize("full", [True, False])
def test_a_null_pointer_of_a_full_heap(full):
    source = f"""__global__ void k(int **all) {{
        int *p = {"(int *)malloc(5 << 20)" if full else "all[threadIdx.x]"};
        *p = 1;
        all[threadIdx.x] = p;
        {"free(p);" if full else ""}
    }}"""
    kernel = coalesce.Kernel(source, device="sim")
    for launch in (kernel[1, 2], lambda x: kernel.check(1, 2, x)):
        try:
            text = str(launch(np.zeros(2, np.int64)))
        except coalesce.MemoryFault as fault:
            text = str(fault)
        assert "through a null pointer" in text
        assert ("because the heap of 8388608 bytes was full" in text) == full
