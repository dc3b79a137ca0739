from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from coalesce.launch.launch import Launch

class Buffer:
    def __init__(
        self,
        array: np.ndarray[Any, Any],
        name: str,
        writable: bool,
        undefined: np.ndarray[Any, np.dtype[np.bool_]] | None = None,
        offset: int = 0,
        texture: bytes | None = None,
        view_bytes: int | None = None,
    ) -> None: ...

class Memory:
    def __init__(
        self,
        shape: Sequence[int],
        item_bytes: int,
        type: str,  # noqa: A002
        address: int = 0,
        host: int = 0,
    ) -> None: ...
    @property
    def address(self) -> int: ...
    def bytes(self) -> np.ndarray[Any, np.dtype[np.uint8]]: ...

class Counts:
    @property
    def instructions(self) -> int: ...
    @property
    def thread_instructions(self) -> int: ...
    @property
    def global_load_requests(self) -> int: ...
    @property
    def global_load_sectors(self) -> int: ...
    @property
    def global_store_requests(self) -> int: ...
    @property
    def global_store_sectors(self) -> int: ...
    @property
    def shared_load_requests(self) -> int: ...
    @property
    def shared_load_wavefronts(self) -> int: ...
    @property
    def shared_store_requests(self) -> int: ...
    @property
    def shared_store_wavefronts(self) -> int: ...
    @property
    def kernel(self) -> str: ...
    @property
    def machine_code(self) -> bool: ...
    @property
    def not_counted(self) -> str: ...
    @property
    def not_modelled(self) -> str: ...
    @property
    def source_file(self) -> int: ...
    @property
    def files(self) -> dict[int, str]: ...
    def flops(self) -> dict[str, float]: ...
    def metrics(self) -> dict[str, float]: ...
    def table(self) -> dict[str, np.ndarray[Any, Any]]: ...
    def __add__(self, other: Counts) -> Counts: ...
    def __eq__(self, other: object) -> bool: ...

class LaunchResult:
    @property
    def counts(self) -> Counts | None: ...
    @property
    def modelled_ms(self) -> float | None: ...
    @property
    def model(self) -> dict[str, Any] | None: ...
    @property
    def host_ms(self) -> float: ...
    @property
    def events(self) -> dict[str, np.ndarray[Any, Any]] | None: ...
    @property
    def omitted(self) -> int: ...
    @property
    def memory(self) -> list[tuple[str, str, int, int, int]]: ...
    @property
    def findings(self) -> tuple[list[dict[str, Any]], int] | None: ...

class Recording:
    def __init__(
        self,
        *,
        blocks: Sequence[int] | np.ndarray[Any, Any] | None = None,
        warps: Sequence[int] | None = None,
        lines: Sequence[int] | None = None,
        limit: int | None = None,
        exemplars: int = 0,
        exemplars_per_warp: int = 1,
    ) -> None: ...

class Stepping:
    @property
    def warps(self) -> int: ...
    @property
    def ended(self) -> bool: ...
    @property
    def warp(self) -> int: ...
    @property
    def barriers(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def memory(self) -> list[tuple[str, str, int, int, int]]: ...
    @property
    def files(self) -> dict[int, str]: ...
    @property
    def source_file(self) -> int: ...
    def listing(
        self,
    ) -> list[
        tuple[
            str,
            str,
            int,
            int,
            int,
            int,
            int,
            int,
            list[tuple[str, int]],
            str,
            int,
            int,
            bool,
            list[int],
        ]
    ]: ...
    def position(
        self, warp: int
    ) -> tuple[Literal["ready", "barrier", "lanes", "ended"], int, int]: ...
    def step(self, warp: int | None = None) -> tuple[int, int, int] | None: ...
    def run(
        self,
        instructions: Sequence[int],
        warp: int | None = None,
        barrier: bool = False,
        off_lines: int | None = None,
    ) -> bool: ...
    def registers(self, warp: int) -> list[tuple[str, str, int, bytes, bool]]: ...
    def local(
        self, warp: int, index: int
    ) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, np.dtype[np.bool_]]]: ...
    def shared(
        self,
    ) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, np.dtype[np.bool_]]]: ...
    def take_events(self) -> tuple[dict[str, np.ndarray[Any, Any]], int]: ...
    def take_output(self) -> str: ...

class SimulatedModule:
    def __init__(
        self,
        ptx: str,
        source: str = "",
        listing: Callable[[], str] | None = None,
        functions: Mapping[str, int] = {},
        filename: str = "",
        member_accesses: Sequence[tuple[str, str]] = (),
    ) -> None: ...
    @property
    def entries(self) -> list[str]: ...
    def parameters(self, entry: str) -> list[tuple[str, int, int, bool]]: ...
    def variables(self) -> list[tuple[str, str, str, int, int]]: ...
    def read_variable(self, name: str) -> bytes: ...
    def write_variable(self, name: str, value: bytes) -> None: ...
    def launch(
        self,
        entry: str,
        launch: Launch,
        arguments: Sequence[
            Buffer | bytes | tuple[int, bytes] | tuple[bytes, list[tuple[int, int]]]
        ],
        counts: bool = False,
        instruction_limit: int = 0,
        workers: int = 0,
        blocks: Sequence[int] | np.ndarray[Any, Any] | None = None,
        exemplars: int = 0,
        record: Recording | None = None,
        progress: Callable[[int, int], object] | None = None,
        check: Mapping[str, tuple[Sequence[int], int, str]] | None = None,
        gpu: str = "h200",
        registers: int = 0,
        caches: bool = False,
        first_rounds: int = 0,
        accel_sim: str = "",
        outside_reads: bool = False,
    ) -> LaunchResult: ...
    def step(
        self,
        entry: str,
        launch: Launch,
        arguments: Sequence[
            Buffer | bytes | tuple[int, bytes] | tuple[bytes, list[tuple[int, int]]]
        ],
        number: int,
        instruction_limit: int = 0,
        most_events: int = 100_000,
        gpu: str = "h200",
        registers: int = 0,
    ) -> Stepping: ...
    def compiled(self, entry: str) -> list[str]: ...
    def exchanges(self, entry: str) -> list[int]: ...
    def spaces_ordered_by_atomics(self, entry: str) -> list[str]: ...
    def why_ptx(self, entry: str) -> str: ...
    def no_counts(self, entry: str, of_ptx: bool = False) -> Counts: ...

SWIZZLE_128: int
SPACES: tuple[str, ...]
KINDS: tuple[str, ...]

def instruction_set() -> str: ...
def texture_object(
    extent: Sequence[int],
    dimensions: int,
    layers: int,
    layered: bool,
    cube: bool,
    linear_memory: bool,
    surface: bool,
    kind: str,
    channels: int,
    bits: int,
    modes: Sequence[int],
    linear_filter: bool,
    normalized_coordinates: bool,
    normalized_read: bool,
    border: Sequence[float],
    levels: int = 1,
    linear_between_levels: bool = False,
    level_bias: float = 0.0,
) -> bytes: ...

class KernelCode:
    def next(self) -> tuple[str, str] | None: ...
    def set(self, address: int, owner: object) -> None: ...
    def fail(self, reason: str) -> None: ...

def set_kernel_compiler(
    start: Callable[[KernelCode], object] | None, seconds: float = 0
) -> None: ...
def tensor_map(
    address: int,
    element: str,
    extents: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    steps: Sequence[int],
    swizzle: int = 0,
    nan: bool = False,
) -> bytes: ...
def element_name(
    name: str, shape: Sequence[int], item_bytes: int, offset: int, variable: bool
) -> str: ...
def extents_in_memory(declared: Sequence[int], item_bytes: int, size: int) -> list[int]: ...
