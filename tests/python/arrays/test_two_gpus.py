"""Machines with two or more GPUs: memory, threads, streams and faults belong to one GPU.

No test changes a setting of a GPU. A test that may make a GPU unusable for its process runs in a
separate process.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import coalesce

GPUS = [device for device in coalesce.devices() if device.kind == "cuda"]
NAMES = [device.name for device in GPUS[:2]]
if len(GPUS) < 2:
    available = "one GPU" if GPUS else f"no GPU ({coalesce.gpu_status()})"
    pytest.skip(f"needs two GPUs; there is {available}", allow_module_level=True)

SCALE = """
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""
COUNT = """
__device__ int calls;
extern "C" __global__ void count() { atomicAdd(&calls, 1); }
"""
# Keeps a multiprocessor busy for some milliseconds, then writes.
LATE = """
extern "C" __global__ void late(float *x, float value, int n) {
    long long start = clock64();
    while (clock64() - start < 20000000) {}
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}
"""


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_and_its_arrays_are_on_the_chosen_gpu(name: str) -> None:
    x = coalesce.asarray(np.arange(1000, dtype=np.float32), device=name)
    assert x.device == name
    coalesce.Kernel(SCALE, device=name)[4, 256](x, 2.0, 1000)
    np.testing.assert_array_equal(x.get(), 2 * np.arange(1000))
    y = np.ones(1000, np.float32)
    coalesce.Kernel(SCALE, device=name)[4, 256](y, 3.0, 1000)
    assert (y == 3).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_call_without_a_device_follows_its_arrays(name: str) -> None:
    x = coalesce.ones(1000, device=name)
    coalesce.Kernel(SCALE)[4, 256](x, 2.0, 1000)
    assert (x.get() == 2).all()
    a = coalesce.asarray(np.random.default_rng(1).random((65, 33), np.float32), device=name)
    turned = coalesce.transpose(a)
    assert turned.device == name
    np.testing.assert_array_equal(turned.get(), a.get().T)


@pytest.mark.parametrize("operation", ["matmul", "transpose", "row_sums", "column_sums"])
def test_operations_agree_on_both_gpus(operation: str) -> None:
    a = np.random.default_rng(2).random((96, 96), np.float32)
    arrays = (a, a) if operation == "matmul" else (a,)
    results = [getattr(coalesce, operation)(*arrays, device=name) for name in NAMES]
    np.testing.assert_array_equal(*results)


def test_an_array_of_the_other_gpu_is_refused_by_name() -> None:
    x = coalesce.ones(8, device=NAMES[0])
    with pytest.raises(ValueError, match=rf"argument `x`.* is on {NAMES[0]}"):
        coalesce.Kernel(SCALE, device=NAMES[1])[1, 32](x, 2.0, 8)


def test_each_gpu_has_its_own_variables() -> None:
    kernel = coalesce.Kernel(COUNT)
    for times, name in enumerate(NAMES, 1):
        for _ in range(times):
            kernel.launch(2, 32, device=name)
    calls = [int(kernel.globals.on(name)["calls"]) for name in NAMES]
    assert calls == [64, 128]


def test_threads_on_two_gpus() -> None:
    kernels = {name: coalesce.Kernel(SCALE, device=name) for name in NAMES}

    def work(seed: int) -> bool:
        name = NAMES[seed % 2]
        x = coalesce.asarray(np.arange(5000, dtype=np.float32) + seed, device=name)
        y = np.arange(5000, dtype=np.float32) + seed
        for _ in range(10):
            kernels[name][20, 256](x, 2.0, 5000)
            kernels[name][20, 256](y, 2.0, 5000)
        expected = (np.arange(5000, dtype=np.float32) + seed) * 1024
        return bool((x.get() == expected).all() and (y == expected).all())

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(128)))


@pytest.mark.parametrize("name", NAMES)
def test_out_of_memory_says_how_much_and_leaves_both_gpus_usable(name: str) -> None:
    total = GPUS[NAMES.index(name)].memory
    assert total is not None
    with pytest.raises(coalesce.LaunchError, match=rf"out of GPU memory: .*{name}.* MiB free of"):
        coalesce.empty(2 * total // 4, np.float32, name)
    for other in NAMES:
        assert (coalesce.ones(1 << 20, device=other).get() == 1).all()


@pytest.mark.parametrize(("visible", "count"), [("0", 1), ("1", 1), ("1,0", 2), ("", 0), ("-1", 0)])
def test_cuda_visible_devices(visible: str, count: int) -> None:
    code = (
        "import coalesce, numpy as np\n"
        "gpus = [d.name for d in coalesce.devices() if d.kind == 'cuda']\n"
        "print(len(gpus), all(n == f'cuda:{i}' for i, n in enumerate(gpus)))\n"
        "for name in gpus:\n"
        "    assert (coalesce.ones(100, device=name).get() == 1).all()\n"
        "if not gpus:\n"
        "    print(coalesce.gpu_status())\n"
    )
    done = _python(code, CUDA_VISIBLE_DEVICES=visible)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == f"{count} True"
    if count == 0:
        assert f"CUDA_VISIBLE_DEVICES is {visible!r}" in done.stdout


def test_streams_of_torch_on_two_gpus() -> None:
    torch = pytest.importorskip("torch")
    kernel, late = coalesce.Kernel(SCALE), coalesce.Kernel(LATE)
    for _ in range(5):
        tensors = []
        for ordinal in range(2):
            with torch.cuda.device(ordinal), torch.cuda.stream(torch.cuda.Stream(ordinal)):
                x = torch.zeros(4096, device=f"cuda:{ordinal}")
                late[16, 256](x, float(ordinal + 1), 4096)
                x += 1  # runs on the same stream, so after the kernel
                kernel[16, 256](x, 10.0, 4096)
                tensors.append(x)
        for ordinal, x in enumerate(tensors):
            torch.cuda.synchronize(ordinal)
            assert x.get_device() == ordinal
            assert (x.cpu() == 10.0 * (ordinal + 2)).all()


def test_streams_of_cupy_on_two_gpus() -> None:
    cupy = pytest.importorskip("cupy")
    kernel, late = coalesce.Kernel(SCALE), coalesce.Kernel(LATE)
    for _ in range(5):
        arrays = []
        for ordinal in range(2):
            with cupy.cuda.Device(ordinal), cupy.cuda.Stream(non_blocking=True) as stream:
                x = cupy.zeros(4096, cupy.float32)
                late[16, 256](x, float(ordinal + 1), 4096)
                x += 1
                kernel[16, 256](x, 10.0, 4096)
                arrays.append((x, stream))
        for ordinal, (x, stream) in enumerate(arrays):
            stream.synchronize()
            with cupy.cuda.Device(ordinal):
                assert (cupy.asnumpy(x) == 10.0 * (ordinal + 2)).all()


def test_the_current_device_of_torch_does_not_change() -> None:
    torch = pytest.importorskip("torch")
    with torch.cuda.device(1):
        coalesce.Kernel(SCALE, device=NAMES[0])[1, 32](np.ones(8, np.float32), 2.0, 8)
        assert torch.cuda.current_device() == 1
        assert torch.ones(1, device="cuda").get_device() == 1


_FAULT = f"""
import numpy as np, coalesce
good = coalesce.Kernel({SCALE!r}, device="cuda:0")
good[1, 32](np.ones(8, np.float32), 2.0, 8)
stray = coalesce.Kernel('extern "C" __global__ void stray(int *x) {{ x[1ll << 40] = 1; }}',
                        device="cuda:1")
try:
    stray[1, 1](np.zeros(1, np.int32))
except coalesce.LaunchError as error:
    print("fault:", error, flush=True)
x = np.ones(8, np.float32)
try:
    good[1, 32](x, 2.0, 8)
    print("works:", (x == 2).all())
except coalesce.LaunchError as error:
    print("ended:", error)
coalesce.Kernel({SCALE!r}, device="sim")[1, 32](x, 2.0, 8)
print("simulated")
"""


def test_a_fault_on_one_gpu_is_named_on_the_other() -> None:
    """The driver may stop all GPUs of the process. The error names only the GPU with the fault."""
    done = _python(_FAULT)
    assert done.returncode == 0, done.stderr
    fault, _, rest = done.stdout.partition("\n")
    assert fault.startswith("fault: "), done.stdout
    assert "stray" in fault
    assert "cuda:1" in fault
    assert done.stdout.rstrip().endswith("simulated")
    if "works: True" not in rest:
        ended = rest[rest.index("ended: ") :]
        assert "a fault on another GPU" in ended
        assert "stray" in ended
        assert "cuda:1" in ended


def test_a_fault_in_another_process_does_not_affect_this_process() -> None:
    x = coalesce.ones(8, device=NAMES[0])
    assert "fault: " in _python(_FAULT).stdout
    coalesce.Kernel(SCALE)[1, 32](x, 2.0, 8)
    assert (x.get() == 2).all()


def _python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings: dict[str, Any] = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=settings,
        timeout=300,
        check=False,
    )
