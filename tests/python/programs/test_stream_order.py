"""Checks of the order between streams and the host in whole programs. Needs nvcc and g++."""

import json
import os
import random
import re
from pathlib import Path

import pytest
from whole_programs import NEEDS_COMPILERS, Program

pytestmark = NEEDS_COMPILERS

HEAD = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#define OK(call) do { if (int r = call) printf("line %d: %d\n", __LINE__, r), exit(9); } while (0)
__global__ void fill(int *p, int v) { p[threadIdx.x] = v; }
__global__ void add(int *p) { p[threadIdx.x] += 1; }
__global__ void read(const int *p, int *to) { to[threadIdx.x] = p[threadIdx.x]; }
__global__ void count(int *p) { atomicAdd(p, 1); }
__global__ void announce(int *p, volatile int *flag) { *p = 7; __threadfence_system(); *flag = 1; }
__global__ void strided(int *p, int step) { p[threadIdx.x * step] = 1; }
static volatile int sum = 0, called = 0;
__managed__ int variable[64];
alignas(4096) static int pages[3 * 1024];
static void CUDART_CB call(void *) { called = 1; }
"""

BEGIN = r"""
cudaStream_t a, b, x, y; cudaEvent_t e, f; int *d, *g, *m, *h, *q = nullptr; float ms = 0;
OK(cudaStreamCreate(&a)); OK(cudaStreamCreate(&b));
OK(cudaStreamCreateWithFlags(&x, cudaStreamNonBlocking));
OK(cudaStreamCreateWithFlags(&y, cudaStreamNonBlocking));
OK(cudaEventCreate(&e)); OK(cudaEventCreate(&f));
OK(cudaMalloc(&d, 4096)); OK(cudaMalloc(&g, 4096)); OK(cudaMemset(d, 0, 4096));
OK(cudaMemset(g, 0, 4096)); OK(cudaMallocManaged(&m, 8192)); OK(cudaMallocHost(&h, 4096));
memset(m, 0, 8192); memset(h, 0, 4096); OK(cudaDeviceSynchronize());
"""
END = r"""
OK(cudaDeviceSynchronize());
OK(cudaFree(d)); OK(cudaFree(g)); OK(cudaFree(m)); OK(cudaFreeHost(h)); (void)q; (void)ms;
for (auto s : {a, b, x, y}) OK(cudaStreamDestroy(s));
OK(cudaEventDestroy(e)); OK(cudaEventDestroy(f));
"""

A_TO_B = "OK(cudaEventRecord(e, a)); OK(cudaStreamWaitEvent(b, e, 0));"
X_TO_Y = "OK(cudaEventRecord(e, x)); OK(cudaStreamWaitEvent(y, e, 0));"
CAPTURED = """
    cudaGraph_t graph; cudaGraphExec_t run;
    OK(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    OK(cudaEventRecord(e, a)); fill<<<1, 64, 0, a>>>(d, 1); @
    OK(cudaStreamWaitEvent(b, e, 0)); add<<<1, 64, 0, b>>>(d);
    OK(cudaEventRecord(f, b)); OK(cudaStreamWaitEvent(a, f, 0));
    OK(cudaStreamEndCapture(a, &graph)); OK(cudaGraphInstantiate(&run, graph, 0));
    OK(cudaGraphLaunch(run, x)); OK(cudaDeviceSynchronize());
    OK(cudaGraphExecDestroy(run)); OK(cudaGraphDestroy(graph));
"""

# Programs in which `@` stands for the missing call, this call, the kind of the finding, and parts
# of its text.
MISSING = {
    "two kernels": (
        "fill<<<1, 64, 0, a>>>(d, 1); @ add<<<1, 64, 0, b>>>(d);",
        A_TO_B,
        "missing order",
        ["kernel `add`", "in stream 2", "kernel `fill`", "in stream 1", "byte 0 of the 4096 bytes"],
    ),
    "the host could wait": (
        "fill<<<1, 64, 0, a>>>(d, 1); @ read<<<1, 64, 0, b>>>(d, g);",
        "OK(cudaStreamSynchronize(a));",
        "missing order",
        ["kernel `read`", "reads byte 0", "may still write"],
    ),
    "a write after a read": (
        "read<<<1, 64, 0, a>>>(d, g); @ fill<<<1, 64, 0, b>>>(d, 2);",
        A_TO_B,
        "missing order",
        ["writes byte 0", "may still read"],
    ),
    "work in the default stream would order them": (
        "fill<<<1, 64, 0, a>>>(d, 1); @ add<<<1, 64, 0, b>>>(d);",
        "fill<<<1, 1>>>(g, 0);",
        "missing order",
        ["stream 1", "stream 2"],
    ),
    "not if the streams are non-blocking": (
        "fill<<<1, 64, 0, x>>>(d, 1); fill<<<1, 1>>>(g, 0); @ add<<<1, 64, 0, y>>>(d);",
        X_TO_Y,
        "missing order",
        ["stream 3", "stream 4"],
    ),
    "a copy up and a kernel": (
        "OK(cudaMemcpyAsync(d, h, 256, cudaMemcpyHostToDevice, x)); @ add<<<1, 64, 0, y>>>(d);",
        X_TO_Y,
        "missing order",
        ["cudaMemcpyAsync()", "kernel `add`"],
    ),
    "a kernel and a copy down": (
        "add<<<1, 64, 0, x>>>(d); @ OK(cudaMemcpyAsync(h, d, 256, cudaMemcpyDeviceToHost, y));",
        X_TO_Y,
        "missing order",
        ["cudaMemcpyAsync()", "reads"],
    ),
    "a fill and a kernel in a non-blocking stream": (
        "OK(cudaMemset(d, 0, 256)); @ add<<<1, 64, 0, x>>>(d);",
        "OK(cudaStreamSynchronize(0));",
        "missing order",
        ["cudaMemset()", "the default stream"],
    ),
    "an event that is recorded too early": (
        (
            "OK(cudaEventRecord(e, x)); fill<<<1, 64, 0, x>>>(d, 1); @"
            "OK(cudaStreamWaitEvent(y, e, 0)); add<<<1, 64, 0, y>>>(d);"
        ),
        "OK(cudaEventRecord(e, x));",
        "missing order",
        ["kernel `add`"],
    ),
    "the host waits for another stream": (
        "fill<<<1, 64, 0, a>>>(m, 1); OK(cudaStreamSynchronize(b)); @ sum += m[2];",
        "OK(cudaStreamSynchronize(a));",
        "missing wait",
        ["the host reads byte 8 of the 8192 bytes", "kernel `fill`", "in stream 1"],
    ),
    "the host waits for the default stream": (
        "fill<<<1, 64, 0, x>>>(m, 1); OK(cudaStreamSynchronize(0)); @ m[2] = 1;",
        "OK(cudaDeviceSynchronize());",
        "missing wait",
        ["the host writes to byte 8", "stream 3"],
    ),
    "the host overwrites what a copy reads": (
        "OK(cudaMemcpyAsync(d, h, 256, cudaMemcpyHostToDevice, a)); @ ((volatile int *)h)[1] = 1;",
        "OK(cudaStreamSynchronize(a));",
        "missing wait",
        ["writes to byte 4", "cudaMemcpyAsync()", "may still read"],
    ),
    "a query of the event": (
        "fill<<<1, 64, 0, a>>>(m, 1); OK(cudaEventRecord(e, a)); @ sum += m[2];",
        "while (cudaEventQuery(e) == cudaErrorNotReady) {}",
        "missing wait",
        ["kernel `fill`"],
    ),
    "a query of the stream": (
        "fill<<<1, 64, 0, a>>>(m, 1); @ sum += m[2];",
        "while (cudaStreamQuery(a) == cudaErrorNotReady) {}",
        "missing wait",
        ["kernel `fill`"],
    ),
    "the other half of a page": (
        (
            "fill<<<1, 64, 0, a>>>(m, 1); fill<<<1, 64, 0, b>>>(m + 64, 1);"
            "OK(cudaStreamSynchronize(a)); for (int i = 0; i < 64; ++i) sum += m[i];"
            "@ sum += m[70];"
        ),
        "OK(cudaStreamSynchronize(b));",
        "missing wait",
        ["the host reads byte 280", "in stream 2"],
    ),
    "a managed variable": (
        "fill<<<1, 64, 0, a>>>(variable, 1); @ sum += variable[2];",
        "OK(cudaStreamSynchronize(a));",
        "missing wait",
        ["the host reads byte 8 of the variable `variable`", "kernel `fill`"],
    ),
    "registered memory": (
        (
            "OK(cudaHostRegister(pages + 1, 8192, 0)); fill<<<1, 64, 0, a>>>(pages + 1024, 1); @"
            "((volatile int *)pages)[1026] = 2; OK(cudaHostUnregister(pages + 1));"
        ),
        "((volatile int *)pages)[0] = 1; OK(cudaStreamSynchronize(a));",
        "missing wait",
        ["the host writes to byte 4100 of the 8192 bytes of cudaHostRegister()", "kernel `fill`"],
    ),
    "branches of a graph": (CAPTURED, "OK(cudaEventRecord(e, a));", "missing order", ["stream 3"]),
    "a free in the order of another stream": (
        "OK(cudaMallocAsync(&q, 256, x)); fill<<<1, 64, 0, x>>>(q, 1); @ OK(cudaFreeAsync(q, y));",
        X_TO_Y,
        "missing order",
        ["cudaFreeAsync()", "kernel `fill`"],
    ),
    "an allocation in the order of another stream": (
        "OK(cudaMallocAsync(&q, 256, x)); @ fill<<<1, 64, 0, y>>>(q, 1); OK(cudaFreeAsync(q, y));",
        X_TO_Y,
        "missing order",
        ["cudaMallocAsync()", "kernel `fill`"],
    ),
    "the default stream of the thread": (
        "fill<<<1, 64, 0, cudaStreamPerThread>>>(d, 1); @ add<<<1, 64, 0, a>>>(d);",
        "OK(cudaStreamSynchronize(cudaStreamPerThread));",
        "missing order",
        ["the default stream of a host thread"],
    ),
    "the time of an event": (
        (
            "OK(cudaEventRecord(e)); fill<<<1, 64>>>(d, 1); OK(cudaEventRecord(f)); @"
            'if (int r = cudaEventElapsedTime(&ms, e, f)) printf("%d", r);'
        ),
        "OK(cudaEventSynchronize(f));",
        "wrong call",
        ["cudaEventSynchronize()"],
    ),
}

RIGHT = {
    "atomics": "count<<<1, 64, 0, x>>>(d); count<<<1, 64, 0, y>>>(d);",
    "two readers": "read<<<1, 64, 0, x>>>(d, g); read<<<1, 64, 0, y>>>(d, g + 64);",
    "parts of an array": (
        "for (int i = 0; i < 4; ++i) { cudaStream_t s = i % 2 ? x : y;"
        "OK(cudaMemcpyAsync(d + 64 * i, h + 64 * i, 256, cudaMemcpyHostToDevice, s));"
        "add<<<1, 64, 0, s>>>(d + 64 * i);"
        "OK(cudaMemcpyAsync(h + 64 * i, d + 64 * i, 256, cudaMemcpyDeviceToHost, s)); }"
    ),
    "every second element": "strided<<<1, 64, 0, x>>>(d, 2); strided<<<1, 64, 0, y>>>(d + 1, 2);",
    "columns": (
        "OK(cudaMemset2DAsync(d, 64, 1, 32, 8, x)); OK(cudaMemset2DAsync(d + 8, 64, 2, 32, 8, y));"
    ),
    "an order through a third stream": (
        f"fill<<<1, 64, 0, a>>>(d, 1); {A_TO_B}"
        "OK(cudaEventRecord(f, b)); OK(cudaStreamWaitEvent(x, f, 0)); add<<<1, 64, 0, x>>>(d);"
    ),
    "a flag in managed memory": (
        "announce<<<1, 1, 0, a>>>(m, m + 1024); while (!*(volatile int *)(m + 1024)) {}sum += m[0];"
    ),
    "launches of one graph in two streams": (
        CAPTURED.replace("@", "OK(cudaEventRecord(e, a));").replace(
            "OK(cudaGraphLaunch(run, x));",
            "for (auto s : {x, y, x}) OK(cudaGraphLaunch(run, s));",
        )
    ),
    "a capture of the default stream of the thread": (
        "cudaGraph_t graph; cudaGraphExec_t run; cudaStream_t s = cudaStreamPerThread;"
        "OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));"
        "OK(cudaEventRecord(e, s)); OK(cudaStreamWaitEvent(x, e, 0)); fill<<<1, 64, 0, x>>>(d, 1);"
        "OK(cudaEventRecord(f, x)); OK(cudaStreamWaitEvent(s, f, 0)); add<<<1, 64, 0, s>>>(d);"
        "OK(cudaStreamEndCapture(s, &graph)); OK(cudaGraphInstantiate(&run, graph, 0));"
        "OK(cudaGraphLaunch(run, s)); OK(cudaStreamSynchronize(s));"
        "OK(cudaGraphExecDestroy(run)); OK(cudaGraphDestroy(graph));"
    ),
    "memory of a graph": (
        "cudaGraph_t graph; cudaGraphExec_t run;"
        "OK(cudaStreamBeginCapture(x, cudaStreamCaptureModeGlobal));"
        "OK(cudaMallocAsync(&q, 256, x)); fill<<<1, 64, 0, x>>>(q, 1);"
        "read<<<1, 64, 0, x>>>(q, d); OK(cudaFreeAsync(q, x));"
        "OK(cudaStreamEndCapture(x, &graph)); OK(cudaGraphInstantiate(&run, graph, 0));"
        "OK(cudaGraphLaunch(run, x)); OK(cudaGraphLaunch(run, y)); OK(cudaDeviceSynchronize());"
        "OK(cudaGraphExecDestroy(run)); OK(cudaGraphDestroy(graph));"
    ),
    "a function of the host": (
        "fill<<<1, 64, 0, a>>>(m, 1); OK(cudaLaunchHostFunc(a, call, nullptr)); while (!called) {}"
        "sum += m[0];"
    ),
    "an allocation": (
        "fill<<<1, 64, 0, x>>>(d, 1); OK(cudaMalloc(&q, 64)); add<<<1, 64, 0, y>>>(d);"
        "OK(cudaFree(q));"
    ),
    "a copy to memory of the program": (
        "int l[64]; fill<<<1, 64, 0, x>>>(m, 1);"
        "OK(cudaMemcpyAsync(l, m, 256, cudaMemcpyDefault, x)); sum += m[0] + l[0];"
    ),
    "a query that says that the work runs": (
        "fill<<<1, 64, 0, a>>>(d, 1);"
        "if (cudaStreamQuery(a) != cudaErrorNotReady || cudaGetLastError()) return 4;"
        "OK(cudaStreamQuery(a)); OK(cudaStreamQuery(b));"
    ),
}


def body(code: str, call: str = "") -> str:
    return BEGIN + code.replace("@", f"\n{call}\n") + END


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        pytest.param(*row[2:], id=name, marks=pytest.mark.program(body(row[0])))
        for name, row in MISSING.items()
    ],
)
def test_a_missing_order_is_found(program: Program, kind: str, texts: list[str]) -> None:
    done = program.run("--check")
    assert done.returncode == 3, done.stdout + done.stderr
    found = re.findall(r"^host, (.*)", done.stderr, re.MULTILINE)
    assert len(found) == 1, done.stderr
    assert found[0].startswith(f"{kind}: ")
    for text in texts:
        assert text in found[0]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.program(body(code, call)))
        for name, code, call in [
            *((name, row[0], row[1]) for name, row in MISSING.items()),
            *((name, code, "") for name, code in RIGHT.items()),
        ]
    ],
)
def test_an_order_that_is_there_is_seen(program: Program, name: str) -> None:
    done = program.run("--check")
    assert done.returncode == 0, (name, done.stdout, done.stderr)
    strict = program.run("--check", "--strict")
    assert strict.returncode == (3 if name == "an allocation" else 0), (name, strict.stderr)


@pytest.mark.program(BEGIN + "fill<<<1, 64, 0, a>>>(m, 1); sum += m[0];" + END + "return 5;")
def test_the_findings_of_a_program_that_fails_are_written(program: Program, tmp_path: Path) -> None:
    sarif = tmp_path / "found.sarif"
    done = program.run("--check", "--github", "--sarif", sarif)
    assert done.returncode == 5, done.stderr
    (result,) = json.loads(sarif.read_text())["runs"][0]["results"]
    assert result["ruleId"] == "missing wait"
    (location,) = result["locations"]
    file = location["physicalLocation"]["artifactLocation"]["uri"]
    assert Path(file).samefile(program.file)
    assert done.stdout.startswith(f"::error file={file},line=")


@pytest.mark.parametrize("joined", [0, 1])
@pytest.mark.program(
    BEGIN
    + """
    bool joined = atoi(getenv("JOINED"));
    std::thread other([&] { fill<<<1, 64>>>(d, 1); if (joined) OK(cudaStreamSynchronize(0)); });
    other.join();
    add<<<1, 64>>>(d);
    """
    + END,
    file="per_thread.cu",
)
def test_each_host_thread_has_its_default_stream(program: Program, joined: int) -> None:
    words = ("--check", "--option=--default-stream=per-thread")
    done = program.run(*words, environment={"JOINED": joined})
    assert done.returncode == (0 if joined else 3), done.stderr
    assert ("missing order" in done.stderr) == (not joined)
    assert program.run("--check", environment={"JOINED": 0}).returncode == 0


@pytest.mark.parametrize("order", ["none", "mutex", "join", "atomic", "event"])
@pytest.mark.program(
    BEGIN
    + """
    const std::string order = getenv("ORDER");
    std::mutex mutex;
    std::atomic<int> turn = 0;
    auto work = [&](int number, cudaStream_t stream) {
        std::unique_lock<std::mutex> lock(mutex, std::defer_lock);
        if (order == "mutex") lock.lock();
        if (order == "atomic" || order == "event") while (turn != number) {}
        if (order == "event" && number) OK(cudaStreamWaitEvent(stream, e, 0));
        for (int i = 0; i < 3; ++i) {
            add<<<1, 64, 0, stream>>>(d);
            if (order != "event") OK(cudaStreamSynchronize(stream));
        }
        if (order == "event") OK(cudaEventRecord(e, stream));
        turn = number + 1;
    };
    std::thread first(work, 0, x);
    if (order == "join") first.join();
    std::thread second(work, 1, y);
    if (order != "join") first.join();
    second.join();
    """
    + END,
    file="host_threads.cu",
)
def test_host_threads_need_an_order(program: Program, order: str) -> None:
    done = program.run("--check", environment={"ORDER": order})
    assert done.returncode == (3 if order == "none" else 0), done.stderr
    assert ("Two host threads issued them" in done.stderr) == (order == "none")


# Random programs. An operation is four numbers; the program executes them one after the other.
LAUNCH, RECORD, WAIT, SYNCHRONIZE, JOIN, READ = range(6)
STREAMS, EVENTS, PLACES = 5, 3, 3  # stream 0 is the default stream; 3 and 4 are non-blocking


@pytest.mark.parametrize("seed", range(int(os.environ.get("STREAM_ORDER_SEEDS", "12"))))
@pytest.mark.program(
    r"""
    cudaStream_t s[5] = {}; cudaEvent_t e[3]; int *p; OK(cudaMallocManaged(&p, 3 * 4096));
    for (int i = 1; i < 5; ++i) OK(cudaStreamCreateWithFlags(&s[i], i > 2));
    for (auto &event : e) OK(cudaEventCreate(&event));
    OK(cudaDeviceSynchronize());
    for (const char *t = getenv("OPERATIONS"); *t; t += 4) {
        const int what = t[0] - '0', i = t[1] - '0', k = t[2] - '0';
        if (what == 0) fill<<<1, 64, 0, s[i]>>>(p + 1024 * k, 1);
        if (what == 1) OK(cudaEventRecord(e[k], s[i]));
        if (what == 2) OK(cudaStreamWaitEvent(s[i], e[k], 0));
        if (what == 3) OK(cudaStreamSynchronize(s[i]));
        if (what == 4) OK(cudaDeviceSynchronize());
        if (what == 5) sum += p[1024 * k];
    }
    OK(cudaDeviceSynchronize()); OK(cudaFree(p));
    """
)
def test_random_programs(program: Program, seed: int) -> None:
    chance = random.Random(seed)
    operations = []
    for _ in range(14):
        what = chance.choice([LAUNCH, LAUNCH, LAUNCH, RECORD, WAIT, SYNCHRONIZE, READ])
        if chance.random() < 0.05:
            what = JOIN
        last = PLACES if what in (LAUNCH, READ) else EVENTS
        operations.append((what, chance.randrange(STREAMS), chance.randrange(last)))
    text = "".join("".join(map(str, o)) + ";" for o in operations)
    done = program.run("--check", environment={"OPERATIONS": text})
    found = re.findall(r"^host, missing (order|wait): .*? byte (\d+) of", done.stderr, re.MULTILINE)
    wanted = expected(operations)
    assert dict(found) == wanted, (text, done.stderr)
    assert done.returncode == (3 if wanted else 0)


def expected(operations: list[tuple[int, int, int]]) -> dict[str, str]:
    """Return the byte of the first missing order and of the first missing wait.

    This model stores for each operation the set of all operations before it.
    """
    before: dict[int, set[int]] = {}  # for each launch, the launches that have ended at its end
    last: dict[object, set[int]] = {s: set() for s in range(STREAMS)}
    events: dict[int, set[int]] = {}
    host: set[int] = set()
    launched: list[tuple[int, int]] = []
    found: dict[str, str] = {}
    seen: set[int] = set()
    for number, (what, stream, k) in enumerate(operations):
        if what in (LAUNCH, RECORD, WAIT):
            if what == WAIT and k not in events:
                continue  # an event that was not recorded
            start = last[stream] | host
            for other in range(3):
                if (stream == 0) != (other == 0) and stream < 3:
                    start |= last[other]
            if what == WAIT:
                start |= events[k]
            if what == LAUNCH:
                for earlier, place in reversed(launched):
                    if place == k and earlier not in start:
                        found.setdefault("order", str(4096 * k))
                        start |= before[earlier]  # the check continues as if it were ordered
                launched.append((number, k))
                start |= {number}
                before[number] = set(start)
            last[stream] = start
            if what == RECORD:
                events[k] = set(start)
        elif what == SYNCHRONIZE:
            host |= last[stream]
            if stream == 0:
                host |= last[1] | last[2]
        elif what == JOIN:
            host |= {number for number, _ in launched}
        else:
            for earlier, place in launched:
                if place == k and earlier not in host and earlier not in seen:
                    seen.add(earlier)
                    found.setdefault("wait", str(4096 * k))
    return found
