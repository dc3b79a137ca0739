"""The commands in the README, the documentation and the help texts do what the text says."""

import argparse
import importlib
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import coalesce
from coalesce import cli
from coalesce.benchmarking.calls import WHOLE_CALLS
from coalesce.cli import parser

ROOT = Path(__file__).parents[3]
PAGES = ["README.md", "docs/*.md", "notebooks/*.md"]

# The kernel for the printed commands; the printed file names differ.
KERNEL = """\
__global__ void scale(float* x, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""


def pages() -> Iterator[str]:
    for pattern in PAGES:
        for page in sorted(ROOT.glob(pattern)):
            yield page.read_text(encoding="utf-8")


def helps() -> dict[str, str]:
    """Return the help text of each command."""
    (commands,) = (
        action
        for action in parser.build()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {name: command.format_help() for name, command in commands.choices.items()}


def printed(text: str) -> Iterator[str]:
    """Yield the commands of a text: lines of shell blocks and examples, and inline code."""
    for block in re.findall(r"```(?:sh|text)\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            yield from (part.strip() for part in line.partition("#")[0].split("&&"))
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for code in re.findall(r"`([^`]+)`", prose):
        yield from (part.strip() for part in " ".join(code.split()).split("&&"))
    examples = text.partition("\nexample")[2].splitlines()[1:]
    yield from (line.strip() for line in examples)


def commands(start: str) -> list[str]:
    """Return the printed commands that begin with this word."""
    texts = {c for text in (*pages(), *helps().values()) for c in printed(text)}
    return sorted(c for c in texts if re.match(rf"{start}( |$)", c))


def small(words: list[str]) -> list[str]:
    """Return a printed command with small arrays; the size does not change its message."""
    kernels = any(word.endswith(".cu") for word in words)
    if words[0] in ("demo", "bench", "report", "explain") and not kernels:
        words = [*words, "--size", "32"]  # the last --size is used
    return words


COALESCE = commands("coalesce [a-z]+")


@pytest.mark.usefixtures("on_simulator")
@pytest.mark.parametrize("command", COALESCE)
def test_coalesce(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COALESCE_DEVICE", "sim")
    words = shlex.split(command)[1:]
    if words[0] == "cache":  # may delete the cache; other commands use what was compiled before
        monkeypatch.setenv("COALESCE_CACHE_DIR", str(tmp_path / "cache"))
    for file in (word for word in words if word.endswith(".cu")):
        Path(file).write_text(KERNEL)
    for file in (word for word in words if word.endswith(".csv")):
        x = np.ones(1000, np.float32)
        coalesce.Kernel(KERNEL, "scale").profile(4, 256, x, 2.0, 1000).to_csv(file)
    words = ["scale" if word == "ENTRY" else word for word in words]
    if len(words) == 1 and words[0] in ("run", "exec", "check", "explain", "grade"):
        return  # prose only names the command; the arguments are missing
    if words[0] == "grade":  # tests/python/lessons/test_grading.py runs it with files of students
        assert parser.parse(words).command == "grade"
        return
    program = cli._program(words)
    if program is not None:  # test_programs.py runs some of these if there is a compiler
        assert parser.parse_program(program[0]).command == words[0]
        return
    if words[0] == "bench" and {"--whole-calls", "shapes", *WHOLE_CALLS} & set(words):
        assert cli.main(words) == 1
        assert "can only be timed on a GPU" in capsys.readouterr().err
        return
    assert cli.main(small(words)) == 0
    captured = capsys.readouterr()
    assert captured.out
    assert captured.err == ""


@pytest.mark.usefixtures("on_simulator")
@pytest.mark.parametrize("words", ["demo --size 16", "bench transpose --size 16"])
def test_commands_printed_by_results(words, capsys, monkeypatch):
    monkeypatch.setenv("COALESCE_DEVICE", "sim")
    assert cli.main(words.split()) == 0
    (command,) = re.findall(r"coalesce (explain .*)", capsys.readouterr().out)
    assert command.endswith("--size 16")
    assert cli.main(command.split()) == 0


def test_every_printed_command_is_tested():
    """The list of commands is not empty: an empty list would mean that the pattern is wrong."""
    named = {command.split()[1] for command in COALESCE}
    assert named >= set(cli.COMMANDS)
    assert len(COALESCE) > 12


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_help_fits_a_terminal(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, helps()[command].splitlines())) <= 80


SHARED = ("--variants", "--size", "--dtype", "--device", "--html", "--json")


def test_an_option_is_the_same_in_every_command():
    spellings: dict[str, set[tuple[str, ...]]] = {}
    (of_commands,) = (
        action
        for action in parser.build()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    for name, command in of_commands.choices.items():
        for action in command._actions:
            for option in action.option_strings:
                spellings.setdefault(option, set()).add(tuple(action.option_strings))
        if name in ("bench", "explain", "report"):
            assert {o for a in command._actions for o in a.option_strings} >= set(SHARED)
    assert {option: names for option, names in spellings.items() if len(names) > 1} == {}
    assert spellings["--size"] == {("--size", "-n")}
    assert spellings["--variants"] == {("--variants", "--variant")}


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the checkout")
def test_extras_named_in_pip_commands_exist():
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    installs = commands("pip install")
    assert installs
    for command in installs:
        words = shlex.split(command)[2:]
        assert not any(word.startswith("coalesce-gpu") for word in words), "it is on no index"
        for before, word in zip(["", *words], words, strict=False):
            if before == "--group":
                assert word in project["dependency-groups"]
            extra = re.fullmatch(r"\.\[(\w+)\]", word)
            if extra:
                assert extra[1] in project["project"]["optional-dependencies"]


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the checkout")
@pytest.mark.parametrize("command", commands("pytest"))
def test_pytest_reads_its_options(command):
    """pytest runs in the root folder, where it could take an option's value for a test path."""
    if "--cuda-" in command:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module("numba.cuda.cudaimpl")
        except (ImportError, AttributeError) as error:  # an old Numba may not know NumPy's names
            pytest.skip(f"numba.cuda does not load: {error}")
    editable = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    done = subprocess.run(
        [sys.executable, "-m", *command.split(), *editable, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Other plugins may print warnings, but not ours.
    assert not re.search(r"(site-packages|python)/coalesce/", done.stderr), done.stderr
    assert "where to run the kernels" in done.stdout


@pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the checkout")
@pytest.mark.parametrize("command", commands(r"python3? (?!-)\S+\.py"))
def test_scripts_exist_with_their_options(command):
    script, *words = command.split()[1:]
    text = (ROOT / script).read_text(encoding="utf-8")
    for option in (word for word in words if word.startswith("--")):
        assert f'"{option}"' in text
