"""`%%cuda` in IPython's shell and in a notebook that a Jupyter kernel executes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coalesce

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

SCALE = """\
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""
TWO = """\
#ifndef SHIFT
#define SHIFT 0
#endif
__device__ int calls;
extern "C" __global__ void add(int *x, int n) { atomicAdd(&calls, 1); x[threadIdx.x] += n + SHIFT; }
extern "C" __global__ void tell(int *out) { *out = calls; }
template <int N> __global__ void fill(int *x) { x[threadIdx.x] = N; }
"""


class Session:
    """An IPython shell with the extension loaded; it keeps the output of its cells."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        config = Config()
        config.HistoryManager.hist_file = ":memory:"
        self.shell = InteractiveShell.instance(config=config)
        self.names: dict[str, Any] = self.shell.user_ns
        self._capsys = capsys

    def run(self, cell: str) -> Any:
        self._capsys.readouterr()
        result = self.shell.run_cell(cell, store_history=True)
        self.error = result.error_in_exec or result.error_before_exec
        self.out, self.err = self._capsys.readouterr()
        return result.result

    def fails(self, cell: str, error: type[BaseException]) -> str:
        """Run a cell that must fail and show only its message; return what is shown."""
        self.run(cell)
        assert isinstance(self.error, error), self.error
        shown = self.out + self.err
        assert "Traceback" not in shown
        assert "run_cell_magic" not in shown
        return shown


@pytest.fixture
def session(
    capsys: pytest.CaptureFixture[str], device: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Session]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("COALESCE_DEVICE", device)
    session = Session(capsys)
    session.run("%load_ext coalesce")
    assert session.error is None
    session.names["np"] = np
    session.names["x"] = np.arange(1000, dtype=np.float32)
    session.names["n"] = 1000
    yield session
    session.run("%unload_ext coalesce")
    session.shell.history_manager.end_session()
    session.shell.history_manager.reset()
    InteractiveShell.clear_instance()


def test_a_cell_is_compiled_and_its_kernels_are_bound(session: Session) -> None:
    assert session.run("%%cuda\n" + TWO) is None
    assert session.out.splitlines() == ["add(int *x, int n)", "tell(int *out)"]
    x, out = np.zeros(4, np.int32), np.zeros(1, np.int32)
    session.names["add"][1, 4](x, 3)
    session.names["tell"][1, 1](out)
    assert x.tolist() == [3] * 4
    assert out[0] == 4, "the kernels of a cell share its variables"


def test_a_launch_uses_the_notebooks_variables(session: Session) -> None:
    session.run(f'%%cuda --entry scale --grid "(n + 255) // 256" --block 256 x 2.0 n\n{SCALE}')
    assert session.error is None
    assert session.out == ""
    np.testing.assert_array_equal(session.names["x"], 2 * np.arange(1000))
    session.run("scale[4, 256](x, 2.0, n)")
    np.testing.assert_array_equal(session.names["x"], 4 * np.arange(1000))


def test_options_and_arguments_in_any_order(session: Session) -> None:
    session.names["y"] = np.zeros((4, 4), np.int32)
    session.run(f"%%cuda y[1] -g 1 np.int32(4) -b 4 -D SHIFT=10 -e add\n{TWO}")
    assert session.error is None
    assert session.names["y"].tolist() == [[0] * 4, [14] * 4, [0] * 4, [0] * 4]
    session.run(f"%%cuda --option -DSHIFT=20 -e add --grid 1,1 --block 2,1,1 y[0] -4\n{TWO}")
    assert session.error is None
    assert session.names["y"][0].tolist() == [16, 16, 0, 0]
    dynamic = (
        'extern "C" __global__ void k(int *o) { extern __shared__ int s[]; s[99] = 7; *o = s[99]; }'
    )
    session.run(f"%%cuda -g 1 -b 1 --shared 4*100 y[3]\n{dynamic}")
    assert session.names["y"][3, 0] == 7


def test_templates_and_names(session: Session) -> None:
    session.names["y"] = np.zeros(4, np.int32)
    session.run(f'%%cuda -e "fill<7>" --name fill7 -g 1 -b 4 y\n{TWO}')
    assert session.error is None
    assert session.names["y"].tolist() == [7] * 4
    session.names["fill7"][1, 2](session.names["y"])
    session.run(f'%%cuda -e "fill<8>"\n{TWO}')
    assert session.out.splitlines()[0] == "fill = fill<8>(int *x)"
    session.names["fill"][1, 1](session.names["y"])
    assert session.names["y"].tolist() == [8, 7, 7, 7]


def test_architectures_and_devices(session: Session) -> None:
    session.run(f"%%cuda --device sim --arch 80 -g 4 -b 256 x 2.0 n\n{SCALE}")
    assert session.error is None
    kernel = session.names["scale"]
    assert kernel.device.kind == "sim"
    assert ".target sm_80" in kernel.ptx


def test_times(session: Session, device: str) -> None:
    session.run(f"%%cuda --time -g 4 -b 256 x 2.0 n\n{SCALE}")
    word = "measured" if device == "cuda" else "modelled"
    assert session.out.startswith("scale: ")
    assert f"ms, {word} on {device}:" in session.out.replace("us,", "ms,")
    np.testing.assert_array_equal(session.names["x"], 2 * np.arange(1000))


def test_profiles_are_the_cells_result(session: Session) -> None:
    result = session.run(f"%%cuda --profile -g 4 -b 256 x 2.0 n\n{SCALE}")
    assert isinstance(result, coalesce.Profile)
    costly = {line.number for line in result.lines() if line.accesses}
    assert costly == {4}, "the cell's lines"
    assert "x[i] *= factor" in session.out
    np.testing.assert_array_equal(session.names["x"], 2 * np.arange(1000))


def test_checks(session: Session) -> None:
    result = session.run(f"%%cuda --check -g 4 -b 256 x 2.0 n\n{SCALE}")
    assert session.error is None
    assert not result
    racy = 'extern "C" __global__ void k(float *x) { *x = threadIdx.x; }'
    findings = session.run(f"%%cuda --check -g 1 -b 64 x\n{racy}")
    assert [finding.kind for finding in findings] == ["race"]


def test_errors_have_the_cells_lines(session: Session) -> None:
    broken = SCALE.replace("factor;", "facto;")
    shown = session.fails("%%cuda\n\n" + broken, coalesce.CompileError)
    assert 'cell(5): error: identifier "facto" is undefined' in shown
    shown = session.fails(
        "\n\n%%cuda\n" + SCALE.replace("factor;", "facto;"), coalesce.CompileError
    )
    assert "cell(6): error" in shown, "IPython drops the empty lines above the magic"


def test_a_broken_cell_leaves_no_kernel_of_its_last_version(session: Session) -> None:
    session.run(f"%%cuda\n{TWO}")
    assert {"add", "tell"} <= set(session.names)
    shown = session.fails("%%cuda\n" + TWO.replace("= calls;", "= BROKEN;"), coalesce.CompileError)
    assert "add, tell: the kernel of the last version of this cell was deleted" in shown
    assert not {"add", "tell"} & set(session.names)
    session.run("scale = 2.0")  # a variable is not a kernel of the cell
    session.fails("%%cuda\n" + SCALE.replace("factor;", "facto;"), coalesce.CompileError)
    assert session.names["scale"] == 2.0


@pytest.mark.usefixtures("on_simulator")
def test_faults_have_the_cells_lines(session: Session) -> None:
    shown = session.fails(f"%%cuda -g 4 -b 256 x 2.0 1024\n{SCALE}", coalesce.MemoryFault)
    assert shown.startswith("\x1b[31mMemoryFault\x1b[0m: read of 4 bytes past the end of `x`")
    assert "kernel scale, line 4:   if (i < n) x[i] *= factor;" in shown


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-g 1 x 2.0 n", "a launch needs both --grid and --block"),
        ("x 2.0 n", "arguments without --grid and --block"),
        ("--profile", "--profile without --grid and --block"),
        ("--nonsense", "unrecognized arguments: --nonsense"),
        ("--grid", "expected one argument"),
        ("-g 1 -b 32 nix 2.0 n", "argument 'nix': NameError: name 'nix' is not defined"),
        ("-g 1/0 -b 32 x 2.0 n", "--grid '1/0': ZeroDivisionError"),
        ("-g 1 -b ( x 2.0 n", "--block '(': SyntaxError"),
        ("-g '1 x", "No closing quotation"),
        ("--name 3d", "--name '3d' is not a name"),
    ],
)
def test_invalid_magic_lines(session: Session, line: str, message: str) -> None:
    shown = session.fails(f"%%cuda {line}\n{SCALE}", ValueError)
    assert message in shown


@pytest.mark.parametrize(
    ("line", "error", "message"),
    [
        ("-g 1 -b 32 x 2.0", TypeError, "takes 3 arguments; got 2"),
        ("-g 1 -b 32 n 2.0 n", TypeError, "`x` (float *) needs an array of float32; got int 1000"),
        ("-g 1 -b 2048 x 2.0 n", coalesce.LaunchError, "CUDA allows at most 1024"),
        ("-g 1.5 -b 32 x 2.0 n", TypeError, "`grid.x` must be an integer"),
        ("-e nope", ValueError, "no kernel 'nope'"),
        ("--device abacus", ValueError, "unknown device 'abacus'"),
    ],
)
def test_mistakes_in_the_launch(
    session: Session, line: str, error: type[Exception], message: str
) -> None:
    assert message in session.fails(f"%%cuda {line}\n{SCALE}", error)


def test_several_kernels_need_an_entry_to_launch(session: Session) -> None:
    shown = session.fails(f"%%cuda -g 1 -b 1 x\n{TWO}", ValueError)
    assert "the cell has 2 kernels; choose one with --entry: add, tell" in shown


def test_a_variable_is_not_overwritten(session: Session) -> None:
    session.run("%%cuda\n" + SCALE.replace("scale", "x"))
    assert "x is a variable, so the kernel x is not bound" in session.err
    assert isinstance(session.names["x"], np.ndarray)
    session.run("%%cuda --name x\n" + SCALE.replace("scale", "x"))
    assert isinstance(session.names["x"], coalesce.Kernel)


def test_warnings_are_shown(session: Session) -> None:
    session.run("%%cuda\n" + SCALE.replace("int i", "int unused; int i"))
    assert "cell(3): warning" in session.err
    assert session.error is None


def test_help(session: Session) -> None:
    for cell in ("%cuda", "%cuda --help", "%%cuda --help\n" + SCALE):
        session.run(cell)
        assert session.out.startswith("usage: %%cuda")
        assert "--grid EXPR" in session.out
    session.run("%unload_ext coalesce")
    session.run("%cuda")
    assert "not found" in session.out + session.err
    session.run("%load_ext coalesce")


def test_a_notebook(tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("COALESCE_DEVICE", device)
    cells = [
        "import numpy as np, coalesce\n%load_ext coalesce\nx = np.ones(100, np.float32)",
        f"%%cuda --grid 1 --block 128 --profile x 3.0 x.size\n{SCALE}",
        "print(x.sum())",
        "%%cuda\n" + SCALE.replace("factor;", "facto;"),
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="facto"):
        nbclient.NotebookClient(notebook, kernel_name="python3", timeout=120).execute()
    first, profiled, printed, (deleted, *broken) = (cell.outputs for cell in notebook.cells)
    assert first == []
    assert "x[i] *= factor" in profiled[0]["data"]["text/html"]
    assert printed[0]["text"] == "300.0\n"
    assert deleted["text"].startswith("scale: the kernel of the last version")
    assert broken[0]["output_type"] == "error"
    assert broken[0]["ename"] == "CompileError"
    assert "cell(4): error" in broken[0]["evalue"]
    assert not any("Traceback" in line for line in broken[0]["traceback"])
