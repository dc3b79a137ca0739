"""GpuCalls: binds GPU arrays of several libraries to a plan, in C++.

The libraries are stand-ins. C++ remembers types and functions of a library until the process ends,
so the tests run in a process of their own.
"""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
import types
from types import SimpleNamespace

import numpy as np

import coalesce
from coalesce._core import cuda
from coalesce.arrays.gpu_array import GpuArray


class CupyArray:
    def __init__(self, shape=(4, 6), dtype="float32", strides=None, address=None, ordinal=0):
        CupyArray.made += 1
        address = (1 << 40) + (CupyArray.made << 20) if address is None else address
        self.data = SimpleNamespace(ptr=address, device_id=ordinal)
        self.shape, self.dtype = shape, np.dtype(dtype)
        item = self.dtype.itemsize
        steps = tuple(item * int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        self.strides = strides or steps
        self._c_contiguous = self.strides == steps


class Tensor:
    is_cuda = True

    def __init__(self, shape=(4, 6), dtype="float32", strides=None):
        self.array = CupyArray(shape, dtype, strides and tuple(4 * s for s in strides))
        self.shape, self.dtype = shape, SimpleDtype(dtype)

    def is_contiguous(self):
        return self.array._c_contiguous

    def stride(self):
        return tuple(step // 4 for step in self.array.strides)

    def data_ptr(self):
        return self.array.data.ptr

    def get_device(self):
        return 0

    def new_empty(self, shape):
        return Tensor(shape)


class SimpleDtype:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"


class Foreign:
    def __init__(self, **changed):
        about = dict(
            address=1 << 45, shape=(4, 6), strides=(24, 4), code="f4", ordinal=0, stream=None,
            read_only=False, owner=None,
        )
        self.seen = GpuArray(**{**about, **changed})


CupyArray.made = 0
CupyArray.__module__, CupyArray.__name__ = "cupy", "ndarray"
Tensor.__module__ = "torch"
streams = {"cupy": 0, "torch": 0}
cupy, cupy_cuda, torch = (types.ModuleType(name) for name in ("cupy", "cupy.cuda", "torch._C"))
cupy.ndarray = CupyArray
cupy_cuda.get_current_stream = lambda: SimpleNamespace(ptr=streams["cupy"])
torch._cuda_getCurrentRawStream = lambda ordinal: streams["torch"]
sys.modules.update({"cupy": cupy, "cupy.cuda": cupy_cuda, "torch._C": torch})

made, enqueued = [], []


class Executor:
    def enqueue(self, addresses):
        enqueued.append(addresses)


def make(operation, arrays, options, device):
    if operation == "fails":
        raise ValueError("the message")
    if operation == "unplanned":
        return None
    made.append((operation, dict(options), device))
    return Executor(), (4, 4), np.dtype(np.float32), lambda model: Foreign(address=7 << 40)


calls = cuda.GpuCalls(make, lambda array: getattr(array, "seen", None))


def run(*arrays, operation="matmul", device=None, out=None, c=None, **options):
    return calls.run(operation, arrays, {**options, "c": c, "out": out}, device)


def address(array):
    if isinstance(array, Foreign):
        return array.seen.address
    return (array.array if isinstance(array, Tensor) else array).data.ptr


# The addresses of operands, c and out, in this order, for arrays of each library.
for kind in (CupyArray, Tensor, Foreign):
    a, b, c = (kind() for _ in range(3))
    out = Foreign(address=3 << 45) if kind is Foreign else kind()
    before = len(made)
    for _ in range(3):
        assert run(a, b, c=c, out=out, alpha=1.0) is out
        assert enqueued[-1] == [address(x) for x in (a, b, c, out)]
    assert len(made) == before + (kind is CupyArray)  # the plan does not depend on the library
    result = run(a, b, alpha=1.0)
    assert type(result) is kind
    assert enqueued[-1] == [address(x) for x in (a, b, result)]

# The array c may also be out, but a part of it, or an operand, may not.
a, c = CupyArray(), CupyArray()
assert run(a, c=c, out=c) is c
assert enqueued[-1] == [address(a), address(c), address(c)]
assert run(a, c=c, out=CupyArray(address=c.data.ptr)) is not None
assert run(c, c=c, out=c) is None
assert run(a, c=c, out=CupyArray(address=c.data.ptr + 16)) is None
assert run(a, c=CupyArray(strides=(4, 16), address=c.data.ptr), out=c) is None

# What is in the key: options and their types, device, dtype, layout, alignment, environment.
a = CupyArray()
first = len(made)
keys = [
    dict(alpha=1.0), dict(alpha=2.0), dict(alpha=1), dict(alpha=None), dict(variant="best"),
    dict(variant="bes"), dict(beta=1.0), dict(device="cuda"),
    dict(device=SimpleNamespace(name="cuda:0")), dict(operation="transpose"), dict(c=a), {},
]
for _ in range(2):
    for how in keys:
        assert run(a, **how) is not None
assert len(made) == first + len(keys)
layouts = [
    CupyArray((4, 6), "float64"), CupyArray((6, 4)), CupyArray((24,)), CupyArray(strides=(4, 16)),
    CupyArray(strides=(48, 4)), CupyArray(address=(1 << 40) + 4), CupyArray(address=(1 << 40) + 8),
]
first = len(made)
for _ in range(2):
    for x in layouts:
        assert run(x) is not None
assert len(made) == first + len(layouts)
assert run(Tensor(strides=(1, 4))) is not None  # the layout of an array above
assert len(made) == first + len(layouts)

# Calls that have no plan, and that raise no error here.
first = len(made)
on_stream = Foreign(stream=5)
for arrays, how in [
    ((a, np.ones((4, 6), np.float32)), {}),
    ((np.ones((4, 6), np.float32),), {}),
    (([1.0, 2.0],), {}),
    ((object(),), {}),
    ((CupyArray((2, 3, 4)),), {}),
    ((CupyArray((0, 4)),), {}),
    ((CupyArray(dtype="int32"),), {}),
    ((a, CupyArray(ordinal=1)), {}),
    ((a,), dict(out=a)),
    ((a,), dict(out=CupyArray(address=a.data.ptr + 64))),
    ((a,), dict(out=CupyArray(strides=(4, 16)))),
    ((Foreign(),), dict(out=Foreign(address=1 << 46, read_only=True))),
    ((a,), dict(alpha=True)),
    ((a,), dict(alpha=np.float32(1))),
    ((a,), dict(alpha=1 << 70)),
    ((a,), dict(device=3)),
    ((Foreign(), on_stream), {}),
    ((on_stream,), {}),  # the pool's memory is for the default stream
    ((a, a, a, a, a), {}),
    ((a,), dict(operation="unplanned")),
]:
    assert run(*arrays, **how) is None, (arrays, how)
assert len(made) == first
assert run(on_stream, out=Foreign(stream=5, address=1 << 46)) is not None

# One stream for all arrays.
streams["cupy"] = 99
assert run(a) is not None
assert run(a, Tensor()) is None
assert run(a, Foreign()) is None
streams["torch"] = 99
assert run(a, Tensor()) is not None
streams.update(cupy=1, torch=0)  # the handles 0 and 1 mean the same stream
assert run(a, Tensor(), Foreign()) is not None

try:
    run(a, operation="fails")
except ValueError as error:
    assert str(error) == "the message"
else:
    raise AssertionError

# The oldest plans are dropped.
for number in range(300):
    run(a, alpha=float(number))
first = len(made)
run(a, alpha=299.0)
assert len(made) == first
run(a, alpha=0.0)
assert len(made) == first + 1
calls.clear()
run(a, alpha=299.0)
assert len(made) == first + 2

import os
os.environ["COALESCE_DEVICE"] = "cuda:1"
run(a, alpha=299.0)
assert len(made) == first + 3
print("done")
"""


def test_gpu_arrays_are_bound_to_plans(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.endswith("done\n"), done.stderr
