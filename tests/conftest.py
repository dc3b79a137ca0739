"""The options of pytest. They are not in tests/python, so that `pytest --device cuda` works.

Before pytest knows its options, it takes ``cuda`` for a path of tests. It then loads only the
conftest.py files in the current directory and in its folders named test*.
"""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Make a warning in a test an error, unless the option -W says otherwise.

    The option ``filterwarnings`` would also do this with warnings of other plugins, while pytest
    starts. Then pytest ends with an internal error.
    """
    chosen = item.config.getoption("pythonwarnings") or []
    item.add_marker(pytest.mark.filterwarnings("error", *chosen), append=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=("sim", "cuda"),
        default="sim",
        help="where to run the kernels: the simulator (default) or a GPU",
    )
