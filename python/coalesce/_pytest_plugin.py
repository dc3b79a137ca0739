"""A pytest plugin: it explains failed tests of counts, and runs tests of Numba on the simulator.

If ``assert p.bank_conflicts == 0`` fails, pytest shows the accesses that cause the bank conflicts.

With the option ``--cuda-simulator``, tests that use ``numba.cuda`` run on the simulator, even if
the machine has a GPU. With ``--cuda-check``, the launches of each test are also checked, and a test
fails if the check finds a mistake.

pytest loads this plugin if coalesce is installed. The plugin imports no other module of the
package unless a test or an option needs it. So it does not slow down other tests.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options ``--cuda-simulator`` and ``--cuda-check``."""
    group = parser.getgroup("coalesce")
    group.addoption(
        "--cuda-simulator",
        action="store_true",
        help="run kernels of numba.cuda on coalesce's simulator",
    )
    group.addoption(
        "--cuda-check",
        action="store_true",
        help="like --cuda-simulator, and a test fails if one of its kernels has a mistake, such as "
        "a race",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Connect Numba with the simulator before a conftest.py can use it."""
    options = early_config.known_args_namespace
    if options.cuda_simulator or options.cuda_check:
        os.environ["COALESCE_DEVICE"] = "sim"
        try:
            import coalesce.numba  # noqa: F401
        except ModuleNotFoundError as error:
            raise pytest.UsageError(f"--cuda-simulator and --cuda-check: {error}") from None


def pytest_configure(config: pytest.Config) -> None:
    """Check the launches of each test, if the option ``--cuda-check`` says so."""
    if config.getoption("cuda_check"):
        from coalesce.numba import pytest_checks

        config.pluginmanager.register(pytest_checks)


def pytest_assertrepr_compare(op: str, left: Any, right: Any) -> list[str] | None:
    """Return the lines that pytest shows if a comparison with a count of a profile fails.

    pytest calls this function for a failed ``assert left op right``, where `op` is an operator such
    as "==". If neither side is a count of a profile, return None. pytest then shows its own
    explanation.
    """
    data = sys.modules.get("coalesce.profiling.data")
    assertions = sys.modules.get("coalesce.profiling.assertions")
    if data is None or assertions is None:  # there is no profile, so neither side is a count of one
        return None
    for value in (left, right):
        # Check the type first. The object may belong to another package, and reading one of its
        # attributes could run that package's code.
        if type(value) is data.Explained and value.accesses:
            try:
                return [f"{int(left)} {op} {int(right)}", *assertions.explanation(value.accesses)]
            except Exception:  # the test's own AssertionError is more important than any error here
                return None
    return None
