"""Compile kernels for the simulator: LLVM code to machine code of this computer, with llvmlite.

The simulator makes the LLVM code (csrc/sim/jit), and decides when a kernel is worth compiling. A
thread compiles it, while the interpreter executes the kernel. The results are the same with
compiled code and without it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
from typing import Any

from coalesce._core import LaunchError, sim

# A kernel is compiled when it has taken so long, and is expected to take as long again: about the
# time that the compilation takes.
_SECONDS = 0.25

# The code of a function with more characters is optimized less. Otherwise LLVM would take twice as
# long.
_LONG = 500_000

# Held while LLVM works. A process that forks waits for it: LLVM's own locks would stay locked in
# the child.
_llvm = threading.Lock()
os.register_at_fork(
    before=_llvm.acquire, after_in_parent=_llvm.release, after_in_child=_llvm.release
)


@functools.cache
def enable() -> None:
    """Let the simulator compile kernels, as the environment variable COALESCE_JIT says."""
    wanted = os.environ.get("COALESCE_JIT", "0")
    if wanted not in ("0", "1", "always"):
        raise LaunchError(f"COALESCE_JIT is {wanted!r}; it must be 0, 1 or always")
    if wanted == "0":
        return
    if importlib.util.find_spec("llvmlite") is None:
        raise LaunchError(
            f"COALESCE_JIT={wanted} needs llvmlite: pip install llvmlite, or unset COALESCE_JIT"
        )
    if wanted == "always":
        sim.set_kernel_compiler(compile_now, 0)
    else:
        sim.set_kernel_compiler(_compile_in_thread, _SECONDS)


def compile_now(code: sim.KernelCode) -> None:
    """Compile the functions of a kernel that are needed."""
    while (needed := code.next()) is not None:
        with _llvm:
            address, owner = _machine_code(*needed)
        code.set(address, owner)


def _compile_in_thread(code: sim.KernelCode) -> None:
    def run() -> None:
        try:
            compile_now(code)
        except Exception as error:
            code.fail(f"{type(error).__name__}: {error}")

    try:
        # Python waits for this thread when it exits, since LLVM must not work then.
        threading.Thread(target=run, name="coalesce-compiler").start()
    except RuntimeError as error:  # no more threads, or Python is about to exit
        code.fail(str(error))


def _machine_code(name: str, code: str) -> tuple[int, Any]:
    """Return the address of the function with this name, and the owner of its machine code."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        jit=True,
    )
    module = llvm.parse_assembly(code)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    # Values are vectors already, and the loops of kernels are not worth more code.
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if len(code) < _LONG:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return int(engine.get_function_address(name)), engine
