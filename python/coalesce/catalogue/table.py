"""The table of operations. It has the arguments of each operation, and the function that runs it.

The package uses this table to run, measure, profile, trace or check an operation. In all of these
cases, it calls the same function, with different options for `Run` (see `catalogue/run.py`). For
example, a profile passes its own `launcher`, a function that is called for each launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coalesce import catalogue
from coalesce.catalogue import access, products
from coalesce.catalogue.run import Launcher, Run
from coalesce.common import require
from coalesce.common.words import plural


@dataclass(frozen=True)
class Operation:
    """An operation, such as matmul.

    Attributes
    ----------
    name : str
        The name, such as ``"matmul"``.
    arrays : tuple of str
        The names of the operands, such as ``("a", "b")``.
    function : callable
        The function that runs the operation: ``function(*arrays, **options, **how)``. `how` says
        where and how to run it, for example on which device. The function returns a pair: the
        result, and a `Run` with a record of each launch.
    options : tuple of str
        The names of the options, without `out` and without the option that chooses a variant.
    choice : str
        The name of the option that chooses a variant: ``"variant"`` or ``"pattern"``.
    """

    name: str
    arrays: tuple[str, ...]
    function: Callable[..., tuple[Any, Run]]
    options: tuple[str, ...] = ()
    choice: str = "variant"

    def run(self, arrays: Sequence[Any], options: Mapping[str, Any], **how: Any) -> tuple[Any, Run]:
        """Run the operation. Return a pair: the result, and a `Run` with a record of each launch.

        `how` has arguments for the constructor of `Run`.

        Raises
        ------
        TypeError
            The number of arrays is wrong, or the operation does not have one of the options.
        """
        if len(arrays) != len(self.arrays):
            got = plural(len(arrays), "array")
            raise TypeError(f"{self.name}() takes {self.operands}; got {got}")
        for option in options:
            if option not in (self.choice, "out", *self.options):
                known = ", ".join(map(require.quoted, (self.choice, *self.options, "out")))
                raise TypeError(
                    f"{self.name}() has no option {require.quoted(option)}; its options are {known}"
                )
        return self.function(*arrays, **options, **how)

    def launch_with(
        self,
        launcher: Launcher,
        arrays: Sequence[Any],
        options: Mapping[str, Any],
        device: Any,
        purpose: str,
    ) -> None:
        """Run the operation, but pass each launch to `launcher` instead of launching the kernel.

        `purpose` is a verb for error messages, such as "profile".

        Raises
        ------
        ValueError
            There is nothing to launch, because an array is empty.
        """
        _, run = self.run(arrays, options, device=device, launcher=launcher)
        if not run.records:
            raise no_launch_error(purpose, self.name, map(np.shape, arrays))

    @property
    def operands(self) -> str:
        """The operands, as words for error messages: "2 arrays, `a` and `b`"."""
        count = len(self.arrays)
        names = " and ".join(map(require.quoted, self.arrays))
        return f"{count} array{'s' * (count > 1)}, {names}"

    def takes(self, variant: str, option: str) -> bool:
        """Return whether a variant has an option of the operation, such as "tile"."""
        if self.name == "access":
            return option in access.OPTIONS[variant]
        if option == "shared":
            return variant == "block_per_row"
        if option != "tile":
            return True
        return not catalogue.is_best(variant) and bool(catalogue.find(self.name, variant).tiles)

    def check_options(self, variants: Iterable[str], options: Iterable[str]) -> None:
        """Raise ValueError for an option that no variant in `variants` has."""
        names = list(variants)
        for option in options:
            if not any(self.takes(name, option) for name in names):
                raise ValueError(
                    f"none of the variants {', '.join(names)} has the option `{option}`"
                )


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("matmul", ("a", "b"), products.run_matmul, ("alpha", "beta", "c", "tile")),
        Operation("transpose", ("a",), products.run_transpose),
        Operation("row_sums", ("a",), products.run_row_sums, ("shared",)),
        Operation("column_sums", ("a",), products.run_column_sums),
        Operation(
            "access",
            ("x",),
            access.run_access,
            tuple(dict.fromkeys(o for options in access.OPTIONS.values() for o in options)),
            choice="pattern",
        ),
    )
}


def operation(name: str) -> Operation:
    """Return the operation with this name. If there is none, raise TypeError or ValueError."""
    catalogue.check_operation(name)
    return OPERATIONS[name]


def title_of(name: str, variant: str) -> str:
    """Return the title of an operation in reports, such as "matmul, variant tiled"."""
    choice = OPERATIONS[name].choice if name in OPERATIONS else "variant"
    return f"{name}, {choice} {variant}"


def no_launch_error(purpose: str, name: str, shapes: Iterable[Any]) -> ValueError:
    """Return the ValueError for an operation that launches no kernel, because an array is empty.

    `name` is the operation. `purpose` is a verb for the message, such as "profile". `shapes` are
    the shapes of the arrays.
    """
    return ValueError(
        f"there is nothing to {purpose}: {name} launches no kernel for arrays of shape "
        f"{', '.join(map(str, shapes))}, because an array is empty"
    )
