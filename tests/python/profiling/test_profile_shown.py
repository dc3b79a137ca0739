"""The printed forms of a profile: text that fits the width, HTML that survives sanitizers."""

import io
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

import coalesce
from coalesce.render import console

HOSTILE = """\
extern "C" __global__ void k(float* x) {  // <script>alert(1)</script> & "quotes"
    x[threadIdx.x * 4] = 1;  // <b>[bold]no[/bold]</b> <script>alert(2)</script>
}
"""


@pytest.fixture(scope="module")
def profiles():
    a, b = np.ones((2, 64, 64), np.float32)
    reports = [
        coalesce.profile("matmul", a, b, variant=v) for v in ("naive", "tiled_transposed", "tiled")
    ]
    kernel = coalesce.Kernel(HOSTILE, "k", device="sim")
    reports.append(kernel.profile(1, 32, np.zeros(128, np.float32)))
    empty = coalesce.Kernel('extern "C" __global__ void nothing() {}', device="sim")
    reports.append(empty.profile((2, 3, 4), (8, 8)))
    return reports


@pytest.mark.parametrize("width", [80, 100])
def test_text_fits(profiles, width):
    for p in profiles:
        lines = p.to_text(width).splitlines()
        assert max(map(len, lines)) <= width
        assert all(line == line.rstrip() for line in lines)
        assert "\x1b" not in p.to_text(width)


def test_text_of_naive(profiles):
    text = profiles[0].to_text()
    assert text.startswith("matmul, variant naive\ngrid 2 x 2, block 32 x 32: 128 warps")
    assert re.search(r"▲ +\d+ │ sum \+= a\[", text)
    assert re.search(r"█+.? +\d\d% +load a +8,192 x 32 sectors +needs 4  12% used", text)
    assert re.search(r"load b +8,192 x 1 sector +needs 1  broadcast", text)
    assert "modelled" in text


def test_text_is_not_interpreted_as_markup(profiles):
    assert "<b>[bold]no[/bold]</b>" in profiles[3].to_text()


def test_a_kernel_without_memory(profiles):
    text = profiles[4].to_text()
    assert "grid 2 x 3 x 4, block 8 x 8: 48 warps" in text
    assert "No access to global or shared memory." in text
    assert "modelled" in text.lower()
    assert "L1" not in text  # this kernel makes no request to L1


def test_inexact_counts_are_reported():
    """Notes below the table name its inexact counters, and PTX only if the PTX was counted."""
    scattered = """extern "C" __global__ void k(const int* at, float* x) {
        atomicAdd(&x[at[threadIdx.x]], 1.0f);
    }"""
    at = (np.arange(32) // 2 * 2048 + np.arange(32) % 2).astype(np.int32)
    p = coalesce.Kernel(scattered, "k", device="sim").profile(1, 32, at, np.zeros(1 << 16, "f4"))
    assert "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum" in p.inexact
    assert "A GPU may count global memory differently: an atomic accesses" in " ".join(
        str(p).split()
    )
    wide = """extern "C" __global__ void k(float4* x) {
        __shared__ float4 s[32];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        if (threadIdx.x < 20) x[threadIdx.x] = s[threadIdx.x / 7 * 8];
    }"""
    p = coalesce.Kernel(wide, "k", device="sim").profile(1, 32, np.zeros(128, "f4"))
    assert "memory_l1_wavefronts_shared" in p.inexact
    text = " ".join(str(p).split())
    assert "A GPU may count shared memory differently: only some lanes of a warp load" in text
    assert "on the PTX" not in text


def test_color_is_for_terminals(profiles, monkeypatch):
    p = profiles[0]
    assert "\x1b" in p.to_text(color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", p.to_text(color=True)).split() == p.to_text().split()

    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "90")
    for name in ("NO_COLOR", "FORCE_COLOR", "JUPYTER_COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdout", Terminal())
    assert "\x1b" in repr(p)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in repr(p)
    assert max(map(len, repr(p).splitlines())) <= 90
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert str(p) == p.to_text(90)


def test_ascii_text_for_ascii_encodings(profiles, monkeypatch):
    class Latin(io.StringIO):
        encoding = "ascii"

    monkeypatch.setattr("sys.stdout", Latin())
    text = console.shown(profiles[0])
    assert text.isascii()
    assert "?" not in text.replace(": beta == 0 ?", "").replace("== 0 ? alpha", "")
    assert "####" in text


def test_html_survives_sanitizers(profiles, check_html):
    for p in profiles:
        check_html(p._repr_html_())


def test_html_draws_wasteful_accesses(profiles):
    naive, transposed, tiled = (p._repr_html_() for p in profiles[:3])
    assert naive.count("<details") == 3  # two accesses, and the charts
    assert naive.count('<details open="">') == 1
    assert 'alt="32 lanes, 4-byte loads → 32 sectors in 32 lines' in naive
    assert "a 32-way bank conflict" in transposed
    assert "<img" not in tiled.partition("Charts")[0]


def test_html_wraps_source_lines(profiles):
    # A long line that does not wrap would push the numbers of the next lines off the page.
    (cell,) = re.findall(r"<td[^>]*>(?=<b><code[^>]*>(?:&nbsp;)*sum \+=)", profiles[0].to_html())
    assert cell.rindex("white-space:normal") > cell.index("white-space:nowrap")


def test_no_picture_of_local_memory():
    # Local addresses count from the start of each thread's own memory, so lanes have no common
    # base.
    source = """
    __global__ void pick(const int *x, int *y) {
        int a[64];
        for (int k = 0; k < 64; ++k) a[k] = x[k];
        for (int k = 0; k < 64; ++k) a[x[k] & 63] += k;
        y[threadIdx.x] = a[(threadIdx.x * 5) & 63];
    }"""
    kernel = coalesce.Kernel(source, device="sim")
    p = kernel.profile(1, 32, np.ones(64, np.int32), np.ones(32, np.int32))
    local = [a for a in p.accesses() if a.space == "local" and a.excess]
    assert local
    assert all(a.picture() is None for a in local)
    assert "one warp of" not in p.to_html()


def test_a_picture_counts_structures_as_the_array_does():
    source = """
    struct Particle { float x, y, z, mass, charge; };
    __global__ void pull(Particle *p) { p[threadIdx.x].y = 1; }"""
    p = coalesce.Kernel(source, device="sim").profile(1, 32, np.zeros(32, "f4, f4, f4, f4, f4"))
    (store,) = p.accesses()
    svg = store.picture().svg
    assert "p[6] + 8 B" in svg  # the second line of 128 bytes
    assert "p[32]" not in svg


def test_html_escapes(profiles):
    page = profiles[3].to_html()
    assert "<script" not in page
    assert "&lt;script&gt;alert(2)" in page


def test_html_page_stands_alone(profiles, tmp_path):
    path = tmp_path / "page.html"
    assert profiles[0].to_html(path) is None
    page = path.read_text(encoding="utf-8")
    assert page == profiles[0].to_html()
    assert profiles[0]._repr_html_() in page
    assert "http" not in page
    assert "prefers-color-scheme: dark" in page
    assert page.lower().startswith("<!doctype html>")


def test_inexact_counts_are_not_called_exact():
    source = """
    __global__ void first(const float *x, float *y, int n) {  // lanes leave the loop one by one
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        for (int j = 0; j < 100; ++j) {
            if (x[(i * 7 + j) % n] > 0.9f) break;
            y[i] += x[(i + j) % n];
        }
        y[i] *= 2;
    }
    __global__ void lock(int *taken, float *sum) {
        for (bool done = false; !done;)
            if (atomicCAS(taken, 0, 1) == 0) {
                *sum += 1;
                __threadfence();
                atomicExch(taken, 0);
                done = true;
            }
    }
    __global__ void wait(volatile int *flag) {
        if (blockIdx.x == gridDim.x - 1) *flag = 1;
        else while (*flag == 0);
    }
    __global__ void add(double *x) {  // of shared memory: a loop of compare-and-swap
        __shared__ double sum;
        if (threadIdx.x == 0) sum = 0;
        __syncthreads();
        atomicAdd(&sum, x[threadIdx.x]);
        __syncthreads();
        x[threadIdx.x] = sum;
    }"""
    x = np.random.default_rng(0).random(1000).astype(np.float32)
    launches = {
        "first": (
            "global memory differently: lanes diverge",
            4,
            (x, np.zeros(512, np.float32), 1000),
        ),
        "lock": (
            "global memory differently: a loop reads",
            1,
            (np.zeros(1, np.int32), np.zeros(1, np.float32)),
        ),
        "wait": ("global memory differently: a loop reads", 4, (np.zeros(1, np.int32),)),
        "add": ("shared memory differently: the number of iterations", 1, (np.ones(128),)),
    }
    for entry, (reason, grid, arguments) in launches.items():
        p = coalesce.Kernel(source, entry, device="sim").profile(grid, 128, *arguments)
        said = " ".join(p.to_text().split())
        assert "counted and exact, with these exceptions" in said
        assert f"A GPU may count {reason}" in said
        assert "differ" in said.rpartition("differently: ")[2]
        assert "on the PTX" not in said


def test_a_line_repeats_no_sentence():
    kernel = coalesce.Kernel(
        """
        struct Particle { float x, y, z, mass; };
        __global__ void push(Particle *p) { p[threadIdx.x].x += p[threadIdx.x].mass; }""",
        device="sim",
    )
    p = kernel.profile(1, 32, np.zeros(32, "f4, f4, f4, f4"))
    assert len(p.accesses()) == 2
    for shown in (p.to_text(), p._repr_html_()):
        assert " ".join(shown.split()).count("one array per field") == 1
    assert all("one array per field" in access.sentence for access in p.accesses())


def test_the_example_of_a_wasteful_access_is_wasteful():
    # Of rows of 100 bytes, three of eight begin at a sector or share only the sectors they must.
    source = """
    __global__ void rows(const float *in, float *out) {
        out[32 * blockIdx.x + threadIdx.x] = in[25 * blockIdx.x + threadIdx.x];
    }"""
    kernel = coalesce.Kernel(source, device="sim")
    p = kernel.profile(64, 32, np.ones(64 * 25 + 7, np.float32), np.ones(64 * 32, np.float32))
    (load,) = [a for a in p.accesses() if a.kind == "load"]
    assert load.example.wastes
    assert load.pattern.kind == "misaligned"
    assert load.sentence.startswith("In some requests: contiguous, but beginning")


def test_examples_come_from_later_iterations_too():
    # The first iteration is a broadcast. Later iterations waste sectors.
    source = """
    __global__ void multiples(const float *in, float *out, int n, int turns) {
        float sum = 0;
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        #pragma unroll 1
        for (int k = 0; k < turns; ++k) sum += in[i * k % n];
        out[i] = sum;
    }"""
    kernel = coalesce.Kernel(source, device="sim")
    p = kernel.profile(8, 128, np.ones(9999, np.float32), np.ones(1024, np.float32), 9999, 6)
    (load,) = [a for a in p.accesses() if a.kind == "load"]
    assert load.pattern.kind == "stride"
    assert load.sentence.startswith("In some requests: neighbouring lanes are")


def test_a_report_makes_only_examples_with_different_costs(profiles):
    instructions = [i for p in profiles[:3] for a in p.accesses() for i in a.instructions]
    assert sum(len(i.examples.distinct) for i in instructions) < sum(
        len(i.examples) for i in instructions
    )
    for i in instructions:
        costs = [(e.cost, e.wastes, e.split) for e in i.examples]
        assert list(dict.fromkeys(costs)) == list(
            dict.fromkeys((e.cost, e.wastes, e.split) for e in i.examples.distinct)
        )
        assert i.examples.distinct[0] == i.examples[0]
        assert pickle.loads(pickle.dumps(i)) == i


def test_there_is_no_example_without_a_recorded_warp():
    # Only warp 1 loads with a stride. The report looks at the first, the middle and the last warp.
    source = """
    __global__ void one(const float *in, float *out) {
        int warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
        out[32 * warp + lane] = in[warp == 1 ? 32 * lane : lane];
    }"""
    kernel = coalesce.Kernel(source, device="sim")
    p = kernel.profile(1, 256, np.ones(1024, np.float32), np.ones(256, np.float32))
    (load,) = [a for a in p.accesses() if a.kind == "load"]
    assert (load.sectors, load.example) == (7 * 4 + 32, None)
    assert load.sentence == "7.5 sectors per request; 4 would suffice."
    (row,) = [line for line in p.to_text().splitlines() if "load in" in line and "x" in line]
    assert "contiguous" not in row
    assert "one warp of" not in p.to_html()


def test_a_conflict_of_doubles_is_shown():
    source = """
    __global__ void halves(double *out) {
        __shared__ double s[64];
        s[2 * threadIdx.x] = threadIdx.x;
        __syncthreads();
        out[threadIdx.x] = s[threadIdx.x];
    }"""
    p = coalesce.Kernel(source, device="sim").profile(1, 32, np.ones(32))
    (store,) = [a for a in p.accesses() if a.name == "store s"]
    assert (store.wavefronts, store.ideal) == (4, 2)
    assert store.example.wastes
    assert store.example.cost == 4
    assert store.pattern.name == "2-way conflict"


def test_a_bank_conflict_is_shown_by_a_typical_warp():
    source = """
    __global__ void steps(float *out) {
        __shared__ float s[4096];
        for (int step = 1; step <= 32; step *= 2) s[step * threadIdx.x] = step;
        __syncthreads();
        out[threadIdx.x] = s[threadIdx.x];
    }"""
    p = coalesce.Kernel(source, device="sim").profile(1, 32, np.ones(32, np.float32))
    stores = [a for a in p.accesses() if a.name == "store s" and a.excess]
    assert len(stores) == 5
    for store in stores:
        assert store.pattern.name == f"{store.per_request:.0f}-way conflict"


def test_an_atomic_on_one_address_is_explained():
    source = """
    __global__ void total(const int *x, int *sum) {
        __shared__ float s;
        if (threadIdx.x == 0) s = 0;
        __syncthreads();
        atomicAdd(&s, (float)x[threadIdx.x]);
        __syncthreads();
        if (threadIdx.x == 0) *sum = s;
    }"""
    kernel = coalesce.Kernel(source, device="sim")
    p = kernel.profile(1, 64, np.ones(64, np.int32), np.ones(1, np.int32))
    assert "The lanes update the same address, one after the other" in p.to_text()


def test_atomics_on_a_few_addresses_get_the_advice_to_add_up_first():
    source = """
    __global__ void most(const int *x, int *m, int *old) {
        int i = threadIdx.x;
        old[i] = atomicMax(&m[i % 7], x[i]);
    }"""
    kernel = coalesce.Kernel(source, device="sim")
    p = kernel.profile(1, 64, *(np.ones(n, np.int32) for n in (64, 7, 64)))
    (atomic,) = [a for a in p.accesses() if a.kind == "atomic"]
    assert "32 lanes access 7 different addresses of m." in atomic.sentence
    assert "combine their values in the warp or the block first" in atomic.sentence


def test_atomics_at_data_dependent_addresses_get_no_advice_to_pad(random):
    source = """
    __global__ void histogram(const unsigned char *data, unsigned *bins) {
        __shared__ unsigned local[256];
        for (int b = threadIdx.x; b < 256; b += blockDim.x) local[b] = 0;
        __syncthreads();
        atomicAdd(&local[data[blockIdx.x * blockDim.x + threadIdx.x]], 1u);
        __syncthreads();
        for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&bins[b], local[b]);
    }"""
    data = random.integers(0, 256, 1024).astype(np.uint8)
    kernel = coalesce.Kernel(source, device="sim")
    p = kernel.profile(4, 256, data, np.zeros(256, np.uint32))
    (atomic,) = [a for a in p.accesses() if a.name == "atomic local"]
    assert not atomic.pattern.regular
    assert "padding does not help" in atomic.sentence


@pytest.mark.parametrize(
    ("count", "verdict"),
    [
        (20, "Global memory takes 1% more sectors than it needs; all of the excess"),
        (400, "Global memory: 4 sectors per request, nearly as few as possible."),
    ],
)
def test_a_little_waste(count, verdict):
    source = """
    __global__ void mostly(const float *in, float *out, int count) {
        float sum = 0;
        for (int k = 0; k < count; ++k) sum += in[32 * k + threadIdx.x];
        out[threadIdx.x] = sum + in[threadIdx.x + 1];
    }"""
    kernel = coalesce.Kernel(source, device="sim")
    x, out = np.ones(32 * count, np.float32), np.ones(32, np.float32)
    assert verdict in kernel.profile(1, 32, x, out, count).verdict[0]


@pytest.mark.parametrize("width", [80, 100])
def test_large_counts_are_separated(width):
    a = np.ones((64, 64), np.float32)
    p = coalesce.profile("matmul", a, a, variant="tiled")
    (line,) = (line for line in p._lines if any(a.name == "load a" for a in line.accesses))
    huge = [replace(a, requests=1_073_741_824, sectors=4_294_967_296) for a in line.accesses[:1]]
    p._lines = (replace(line, accesses=tuple(huge)),)
    lines = p.to_text(width).splitlines()
    assert max(map(len, lines)) <= width
    (loads,) = [line for line in lines if line.startswith("global load")]
    counts = ["1,073,741,824", "4,294,967,296"]
    assert loads.split()[2:4] == (counts if width == 100 else ["1073741824", "4294967296"])


def test_lanes_that_update_the_same_word_are_not_a_bank_conflict():
    source = """
    __global__ void masks(const int *at, unsigned *out) {
        __shared__ unsigned s[8];
        if (threadIdx.x < 8) s[threadIdx.x] = 0;
        __syncthreads();
        atomicOr(&s[at[threadIdx.x]], 1u << threadIdx.x);
        __syncthreads();
        if (threadIdx.x < 8) out[threadIdx.x] = s[threadIdx.x];
    }"""
    at = (np.arange(32) * 5 % 8).astype(np.int32)
    p = coalesce.Kernel(source, device="sim").profile(1, 32, at, np.zeros(8, np.uint32))
    text = " ".join(p.to_text().replace("│", "").split())
    assert "Shared memory has atomics in which 4 lanes update the same word and takes" in text
    assert "Some lanes of a warp update the same word. Lanes that update the same address" in text
    assert "o bank conflict" not in text


@pytest.mark.parametrize(
    "update",
    [
        "atomicAdd(&s[at[threadIdx.x]], at[threadIdx.x])",
        "atomicAdd(&s[at[threadIdx.x]], 1)",
        "atomicMax(&s[at[threadIdx.x]], at[threadIdx.x])",
        "out[threadIdx.x] = atomicCAS(&s[at[threadIdx.x]], 0, 1)",
        "atomicAdd((float *)&s[at[threadIdx.x]], 1.5f)",
    ],
)
def test_pictures_of_atomics_show_the_counted_wavefronts(update):
    source = f"""
    __global__ void k(const int *at, int *out) {{
        __shared__ int s[64];
        s[threadIdx.x] = 0;
        __syncthreads();
        {update};
        __syncthreads();
        out[threadIdx.x] += s[threadIdx.x];
    }}"""
    at = (np.arange(32) ** 2 % 8).astype(np.int32)
    p = coalesce.Kernel(source, device="sim").profile(1, 32, at, np.zeros(32, np.int32))
    (access,) = [
        a for a in p.accesses() if a.space == "shared" and a.kind in ("atomic", "reduction")
    ]
    examples = access.instructions[0].examples
    if len(examples) == access.requests:
        assert sum(example.cost for example in examples) == access.wavefronts
    else:  # only some iterations of the loop around ATOMS.CAST.SPIN are kept
        assert {example.cost for example in examples} == {access.wavefronts / access.requests}
    for example in examples:
        count = f"→ {example.cost} wavefront{'s' * (example.cost != 1)}, "
        assert count in example.picture().headline


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("x[at[i]] = i", "Sort the stores"),
        ("atomicAdd(&x[at[i]], i)", "Sort the updates"),
        ("x[i] = x[at[i]]", "gather from 32 sectors of x, without a regular step. Sort the ind"),
    ],
)
def test_writes_are_scattered_and_reads_gathered(random, statement, words):
    source = f"""
    __global__ void k(const int *at, int *x) {{
        const int i = threadIdx.x;
        {statement};
    }}"""
    at = random.permutation(4096)[:32].astype(np.int32) * 8
    p = coalesce.Kernel(source, device="sim").profile(1, 32, at, np.zeros(1 << 15, np.int32))
    text = " ".join(p.to_text().replace("│", "").split())
    assert words in text
    if "Sort the ind" not in words:
        assert "The lanes scatter to 32 sectors of x" in text
        assert "gather" not in text


def test_a_narrow_report_keeps_what_the_numbers_mean():
    """At 80 columns the report drops "needs N" before the share of bytes used and the pattern."""
    a = np.ones((64, 64), np.float32)
    text = coalesce.profile("matmul", a, a, variant="naive", device="sim").to_text(80)
    assert "12% used" in text
    assert "broadcast" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("length", "named"), [(512, True), (513, False), (1000, True), (4096, True), (4097, False)]
)
def test_rows_of_one_bank_of_l1_are_named(length: int, named: bool) -> None:
    """Rows of a multiple of 32 words put a column into few banks of L1."""
    source = """extern "C" __global__ void columns(const float* x, float* out, int n) {
        float sum = 0;
        for (int k = 0; k < 32; ++k) sum += x[threadIdx.x * n + k];
        out[threadIdx.x] = sum;
    }"""
    x, out = np.zeros((32, length), np.float32), np.zeros(32, np.float32)
    p = coalesce.Kernel(source, "columns").profile(1, 32, x, out, length, device="sim")
    text = " ".join(str(p).replace("│", " ").split())
    assert (f"With rows of {length + 1:,} elements" in text) == named


@pytest.mark.parametrize("width", [32, 16, 8])
@pytest.mark.parametrize("length", [64, 96, 256])
def test_the_named_passes_of_l1_are_those_of_the_lanes(length: int, width: int) -> None:
    """In a narrow block, the lanes of a warp go down several columns: fewer rows, fewer passes."""
    source = """extern "C" __global__ void columns(const float* x, float* out, int n) {
        int row = threadIdx.x, col = blockIdx.x * blockDim.y + threadIdx.y;
        if (x[row * n + col] < 0) *out = 1;
    }"""
    x, out = np.zeros((width, length), np.float32), np.zeros(1, np.float32)
    blocks, rows = length // (256 // width), 256 // width
    p = coalesce.Kernel(source, "columns").profile(
        blocks, (width, rows), x, out, length, device="sim"
    )
    assert p.modelled is not None
    passes = p.modelled.work["tag_lookups"] / p.modelled.work["requests"]
    named = re.search(
        r"a request takes about (\d+) passes", " ".join(str(p).replace("│", " ").split())
    )
    assert (int(named[1]) if named else None) == (round(passes) if width > 8 else None)


def test_a_narrow_report_wraps_the_launch():
    a = np.ones((96, 96), np.float32)
    long, short = (coalesce.profile("matmul", a, a, variant=v) for v in ("split_k", "naive"))
    assert "of dynamic shared memory" in " ".join(str(long).split())
    for shown in (long, coalesce.compare(long, short)):
        assert max(map(len, shown.to_text(width=80).splitlines())) <= 80
