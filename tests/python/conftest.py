"""Options and fixtures of every test: which device to run on, random arrays, tolerances."""

import html.parser
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import whole_programs
from hypothesis import settings

import coalesce
from coalesce.compile.binaries import disassembler

# A simulated or first-compiled example takes longer than hypothesis' default deadline.
settings.register_profile("coalesce", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "coalesce"))

# Reports fill this many columns, and pytest-xdist sets it in its workers.
os.environ.pop("COLUMNS", None)
os.unsetenv("COLUMNS")  # readline, which pytest imports, sets it for child processes only

# The background jobs of a shell ignore Ctrl-C. A test that interrupts an endless kernel would then
# never end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    status = coalesce.gpu_status()
    return f"coalesce {coalesce.__version__}, numpy {np.__version__}, GPU: {status}"


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Return the device under test: "sim" or "cuda"."""
    name: str = request.config.getoption("--device")
    if name == "cuda" and not coalesce.gpu_status():
        pytest.skip(f"no GPU: {coalesce.gpu_status()}")
    return name


@pytest.fixture(scope="session")
def loads_ptx(device: str) -> None:
    """Skip the test if the driver of the GPU is too old for the PTX of this NVRTC."""
    if device == "cuda":
        empty = coalesce.Kernel('extern "C" __global__ void empty() {}', device=device)
        try:
            coalesce.Kernel(empty.ptx, "empty", device=device).launch(1, 1)
        except coalesce.CompileError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session")
def on_simulator(device: str) -> str:
    """Skip the test on a GPU, because only the simulator has counts."""
    if device != "sim":
        pytest.skip("counts are the simulator's")
    return device


@pytest.fixture
def random() -> np.random.Generator:
    """Return a random generator that gives the same numbers in every run."""
    return np.random.default_rng(7)


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> type[np.floating]:
    """Return one of the dtypes that every variant accepts."""
    return request.param  # type: ignore[no-any-return]


_C_TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "uint8": "unsigned char",
    "int16": "short",
    "uint16": "unsigned short",
    "int32": "int",
    "uint32": "unsigned",
    "int64": "long long",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
}


class Evaluate:
    """Evaluates CUDA C++ expressions for arrays of operands, one element per thread.

    ``evaluate({"sum": ("int32", "a + b")}, a=a, b=b)["sum"]`` is an array like `a`. Everything is
    computed twice: by full warps, and by warps in which an irregular half of the lanes is active.
    The second run must give the same values and must not write for the inactive lanes. On the
    simulator, the machine code must give the same values, too.
    """

    def __init__(self, device: str) -> None:
        self.device = device

    @staticmethod
    def ptx(result: str, text: str, *operands: str) -> str:
        """An expression of inline PTX: operands are "r:expression", %0 is the result."""
        letter = {1: "r", 2: "h", 4: "r", 8: "l"}[np.dtype(result).itemsize]
        if result.startswith("float"):
            letter = {4: "f", 8: "d"}[np.dtype(result).itemsize]
        inputs = ", ".join(f'"{o.partition(":")[0]}"({o.partition(":")[2]})' for o in operands)
        call = f'asm volatile("{text}" : "={letter}"(r) : {inputs});'
        return f"[&]{{ {_C_TYPES[result]} r; {call} return r; }}()"

    def __call__(
        self,
        results: Mapping[str, tuple[str, str]],
        prelude: str = "",
        options: Sequence[str] = (),
        **inputs: Any,
    ) -> dict[str, np.ndarray]:
        operands = {name: np.ascontiguousarray(value).ravel() for name, value in inputs.items()}
        n = next(iter(operands.values())).size
        assert all(value.size == n for value in operands.values())
        parameters = [f"const {_C_TYPES[v.dtype.name]} *{k}_in" for k, v in operands.items()]
        parameters += [f"{_C_TYPES[t]} *{k}_out" for k, (t, _) in results.items()]
        loads = "".join(
            f"  {_C_TYPES[v.dtype.name]} {k} = {k}_in[thread_];\n" for k, v in operands.items()
        )
        stores = "".join(f"  {k}_out[thread_] = {e};\n" for k, (_, e) in results.items())
        source = (
            f"{prelude}\n"
            f'extern "C" __global__ void evaluate({", ".join(parameters)},\n'
            "    const bool *wanted_, int count_) {\n"
            "  int thread_ = blockIdx.x * blockDim.x + threadIdx.x;\n"
            "  if (thread_ >= count_ || !wanted_[thread_]) return;\n"
            f"{loads}{stores}}}\n"
        )
        kernel = coalesce.Kernel(source, "evaluate", options=options, device=self.device)

        def run(wanted: np.ndarray, launch: Any = kernel.launch) -> list[np.ndarray]:
            out = [np.full(n, 1, t) for t, _ in results.values()]
            launch(-(-n // 128), 128, *operands.values(), *out, wanted, n)
            return out

        everywhere = run(np.ones(n, bool))
        if self.device == "sim":
            counted = run(np.ones(n, bool), kernel.profile)
            for name, whole, other in zip(results, everywhere, counted, strict=True):
                np.testing.assert_array_equal(other, whole, f"{name}, machine code")
        some = np.random.default_rng(3).integers(0, 2, n).astype(bool)
        for name, whole, part in zip(results, everywhere, run(some), strict=True):
            expected = np.where(some, whole, np.ones(1, whole.dtype))
            assert whole.dtype == part.dtype
            np.testing.assert_array_equal(part, expected, f"{name}, half of the lanes")
        return dict(zip(results, everywhere, strict=True))


@pytest.fixture(scope="session")
def evaluate(device: str) -> Evaluate:
    """CUDA C++ expressions for arrays of operands; see `Evaluate`."""
    return Evaluate(device)


# The elements and attributes that JupyterLab's sanitizer keeps in an untrusted notebook
# (packages/apputils/src/sanitizer.ts). Only those that reports use are listed.
_TAGS: dict[str, set[str]] = {
    "div": {
        "class",
        "data-name",
        "data-measured",
        "data-mistakes",
        "data-within",
    },  # The sanitizer drops these; the website uses them.
    "p": set(),
    "ol": set(),
    "li": set(),
    "pre": set(),
    "span": set(),
    "b": set(),
    "code": set(),
    "details": {"open"},
    "summary": set(),
    "table": set(),
    "tbody": set(),
    "thead": set(),
    "tr": set(),
    "td": {"colspan"},
    "th": {"colspan"},
    "img": {"alt", "src", "width", "height"},
    "br": set(),
}
_STYLES = {
    "background-color",
    "border",
    "border-collapse",
    "border-left",
    "border-top",
    "color",
    "font-family",
    "font-size",
    "font-weight",
    "line-height",
    "margin",
    "max-width",
    "opacity",
    "overflow-x",
    "padding",
    "padding-left",
    "text-align",
    "vertical-align",
    "white-space",
    "width",
}


class _Sanitizer(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        for name, value in attributes:
            if name == "style":
                for declaration in filter(None, (value or "").split(";")):
                    assert declaration.partition(":")[0] in _STYLES, declaration
            else:
                assert name in _TAGS[tag], (tag, name)
            if name == "src":
                assert (value or "").startswith("data:image/")
        if tag not in ("img", "br"):
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag


@pytest.fixture(scope="session")
def check_html() -> Callable[[str], None]:
    """Return a function that checks HTML: it is well-formed and survives JupyterLab's sanitizer."""

    def check(text: str) -> None:
        sanitizer = _Sanitizer()
        sanitizer.feed(text)
        assert not sanitizer.stack
        assert not re.search("&lt;/(div|span|t[adhr]|table)&gt;", text), "escaped HTML"

    return check


@pytest.fixture
def machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let counting use the machine code; skip the test if there is no disassembler."""
    monkeypatch.delenv("COALESCE_COUNT_PTX", raising=False)
    try:
        disassembler.nvdisasm()
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def programs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[whole_programs.Part, whole_programs.Program]:
    """Write the programs of this module's tests into as few files as possible."""
    tests = [test for test in request.session.items if test.path == request.path]
    parts = [_part(test) for test in tests if test.get_closest_marker("program")]
    return whole_programs.joined(parts, request.module.HEAD, tmp_path_factory.mktemp("programs"))


@pytest.fixture
def program(
    request: pytest.FixtureRequest, programs: dict[whole_programs.Part, whole_programs.Program]
) -> whole_programs.Program:
    """Return the program that the mark ``program`` describes; see whole_programs.py."""
    return programs[_part(request.node)]


def _part(test: pytest.Item) -> whole_programs.Part:
    mark = test.get_closest_marker("program")
    assert mark is not None, "the test needs the mark program"
    return whole_programs.Part(*mark.args, **mark.kwargs)
