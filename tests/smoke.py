"""Tests a wheel on a machine that did not build it: import, run, count, compare with NumPy.

The script needs only the wheel's own dependencies. cibuildwheel and docs/releasing.md run it.
"""

import numpy as np

import coalesce


def main() -> None:
    """Run one product and one profile on the simulator."""
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    c = coalesce.matmul(a, a.T, variant="tiled", device="sim")
    if not np.allclose(c, a @ a.T):
        raise SystemExit("matmul is wrong on this machine")
    profile = coalesce.profile("matmul", a, a.T, variant="naive", device="sim")
    if profile.metrics()["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] <= 0:
        raise SystemExit("profile counted nothing on this machine")
    print(f"coalesce {coalesce.__version__} works: simulator, compiler and counting")


if __name__ == "__main__":
    main()
