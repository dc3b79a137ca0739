"""Loads the code of Numba's kernels into the simulated driver, which needs PTX."""

from __future__ import annotations

from typing import Any

from numba.cuda.cudadrv import devices, driver

from coalesce.numba.linking import linked_ptx


def get_cufunc(library: Any) -> Any:
    """Return Numba's object for a loaded kernel. It replaces ``CUDACodeLibrary.get_cufunc``.

    Numba asks this object for attributes, such as the number of registers. It is not launched.
    """
    if library._entry_name is None:
        raise RuntimeError("a device function cannot be launched; it has no kernel")
    context = devices.get_context()
    number = context.device.id
    function = library._cufunc_cache.get(number)
    if function is None:
        ptx, _ = linked_ptx(library)
        module = context.create_module_image(
            driver.ObjectCode.from_ptx(ptx.encode()),
            library._setup_functions,
            library._teardown_functions,
        )
        function = library._cufunc_cache[number] = module.get_function(library._entry_name)
    return function
