"""Connects Numba with the simulator. This happens once, when `coalesce.numba` is imported."""

from __future__ import annotations

import ctypes
import functools
import os
import warnings
from collections.abc import Callable
from typing import Any

from coalesce.arrays import devices
from coalesce.common.errors import DeviceUnavailable
from coalesce.compile import runtime_library


def _load(gpu: str) -> ctypes.CDLL:
    """Load the simulated driver into this process. `gpu` is the name of its GPU, such as "h200".

    Numba calls NVIDIA's driver through the package cuda-bindings, which loads ``libcuda.so.1``.
    A library with this name is loaded already after this call. It has the state of the GPU:
    contexts, streams, events, memory.
    """
    os.environ["COALESCE_PROGRAM_GPU"] = gpu  # the library reads it at the first call
    return ctypes.CDLL(str(runtime_library.library("libcuda.so")))


def _simulate(gpu: str) -> None:
    """Give Numba a simulated GPU."""
    library = _load(gpu)
    from numba.cuda import codegen, dispatcher
    from numba.cuda.cudadrv.driver import driver

    from coalesce.numba import device_memory, images, launches, modules, shared_names, tensors

    if not driver.is_available:  # it was imported before, and found no driver then
        driver.__init__()
    if not driver.is_available:
        raise DeviceUnavailable(
            "Numba cannot use the simulated GPU. Import coalesce.numba before any module that "
            f"uses a GPU. Numba says: {driver.initialization_error}"
        )
    memory = device_memory.DeviceMemory(library, f"sim:{gpu}")

    def launch(
        self: Any, args: Any, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0
    ) -> None:
        launches.launch(self, args, griddim, blockdim, stream, sharedmem, memory)

    call = dispatcher.CUDADispatcher.call

    def call_with_arrays(self: Any, args: Any, *launch_config: Any) -> None:
        with tensors.as_arrays(args) as arrays:
            call(self, arrays, *launch_config)

    add_overload = dispatcher.CUDADispatcher.add_overload

    def add_named_overload(self: Any, kernel: Any, argtypes: Any) -> None:
        kernel.py_func = self.py_func  # a kernel from Numba's cache has no function, and no names
        kernel.coalesce_options = self.targetoptions
        add_overload(self, kernel, argtypes)

    dispatcher.CUDADispatcher.call = call_with_arrays
    dispatcher.CUDADispatcher.add_overload = add_named_overload
    dispatcher._Kernel.launch = launch
    dispatcher._Kernel.regs_per_thread = property(modules.registers)
    dispatcher.compile_cuda = _with_lines(dispatcher.compile_cuda)
    codegen.CUDACodeLibrary.get_cufunc = images.get_cufunc
    shared_names.install()


def _with_lines(compile_cuda: Callable[..., Any]) -> Callable[..., Any]:
    """Let the compiler note the Python line of each instruction."""
    from numba.cuda.core.errors import NumbaDebugInfoWarning, NumbaError

    @functools.wraps(compile_cuda)
    def compiled(*arguments: Any, **options: Any) -> Any:
        if options.get("debug") or options.get("lineinfo"):
            return compile_cuda(*arguments, **options)
        with warnings.catch_warnings():  # the user did not ask for the lines
            warnings.simplefilter("ignore", NumbaDebugInfoWarning)
            try:
                return compile_cuda(*arguments, **{**options, "lineinfo": True})
            except NumbaError:
                raise
            except Exception:  # Numba cannot describe some types, such as tuples of empty tuples
                return compile_cuda(*arguments, **options)

    return compiled


def _set_up() -> tuple[Any, bool]:
    """Return ``numba.cuda``, and whether its GPU is simulated."""
    device = devices.resolve()
    try:
        import numba_cuda  # noqa: F401
    except ImportError:
        raise ModuleNotFoundError(
            "coalesce.numba needs the package numba-cuda, which is not installed. Install it: "
            "pip install 'numba-cuda[cu13]'",
            name="numba_cuda",
        ) from None
    if device.kind == "sim":
        devices.gpu_status()  # look for a real driver before the simulated one is loaded
        _simulate(device.name.partition(":")[2])
    from numba import cuda
    from numba.cuda.dispatcher import CUDADispatcher

    from coalesce.numba import analyses

    analyses.add_methods(CUDADispatcher)
    return cuda, device.kind == "sim"


cuda, simulated = _set_up()
