"""What reports show of files and text that others wrote: only given files, and no control codes."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from whole_programs import NEEDS_COMPILERS
from whole_programs import coalesce as command

import coalesce
from coalesce._core import printable
from coalesce.common import source_files

PTX = """
.version 8.0
.target sm_80
.address_size 64
.file 1 "{}"
.visible .entry k(.param .u64 p) {{
    .reg .u64 %r<3>;
    ld.param.u64 %r1, [p];
    .loc 1 1 0
    st.global.u64 [%r1+{}], %r1;
    ret;
}}
"""
SECRET = "a secret line"


def reports(kernel: coalesce.Kernel, offset: int) -> str:
    """Return the texts of a launch, a check, a profile and a step of the kernel above."""
    texts = [str(kernel.check(1, 1, np.zeros(8, np.uint64)))]
    if offset >= 64:
        with pytest.raises(coalesce.MemoryFault) as fault:
            kernel[1, 1](np.zeros(8, np.uint64))
        texts.append(str(fault.value))
    else:
        texts.append(str(kernel.profile(1, 1, np.zeros(8, np.uint64))))
        with kernel.step(1, 1, np.zeros(8, np.uint64)) as step:
            texts += [now.text for now in step]
    return "\n".join(texts)


@pytest.mark.parametrize("offset", [0, 999_999])
@pytest.mark.parametrize("kind", ["file", "link", "pipe", "device", "large", "folder", "missing"])
@pytest.mark.parametrize("given", [False, True])
def test_ptx_shows_only_files_that_the_user_gave(
    kind: str, offset: int, given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_folder, other = tmp_path / "given", tmp_path / "other"
    for folder in (given_folder, other):
        folder.mkdir()
    file = (given_folder if given else other) / "source.cu"
    if kind == "link":
        (other / "secret").write_text(SECRET)
        file.symlink_to(other / "secret")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "folder":
        file.mkdir()
    elif kind != "missing":
        file.write_text(SECRET)
    if kind == "large":
        monkeypatch.setattr(source_files, "_MOST_BYTES", len(SECRET) - 1)
    ptx = given_folder / "k.ptx"
    ptx.write_text(PTX.format(file, offset))
    text = reports(coalesce.Kernel(ptx, device="sim", instruction_limit=1000), offset)
    assert (SECRET in text) == (given and kind == "file")
    assert SECRET not in reports(coalesce.Kernel(ptx.read_text(), device="sim"), offset)
    options = (f"-I{given_folder}",)
    text = reports(coalesce.Kernel(ptx.read_text(), options=options, device="sim"), offset)
    assert (SECRET in text) == (given and kind == "file")


def test_ptx_of_python_shows_the_code_of_this_process() -> None:
    text = reports(coalesce.Kernel(PTX.format(__file__, 0), device="sim"), 0)
    assert "What reports show of files" in text


# Characters that change what a terminal shows, and how reports show them.
ODD = {
    "\x1b[31m": r"\x1b[31m",
    "\x07": r"\x07",
    "\x08": r"\x08",
    "\x7f": r"\x7f",
    "\x9b1m": r"\x9b1m",
    "\u202e": r"\u202e",
    "\u2066": r"\u2066",
    "\u200f": r"\u200f",
    "\u061c": r"\u061c",
    "\u2028": r"\u2028",
}
KEPT = "é © À 中 \u2014 😀\t\u0600"
COMMENT = f"// {''.join(ODD)} {KEPT}"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def test_every_character() -> None:
    for number in (*range(0x3100), *range(0x1F600, 0x1F610)):
        character = chr(number)
        shown = printable(f"a{character}b")
        if CONTROL.match(character):
            escape = f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"
            assert shown == f"a{escape}b"
        else:
            assert shown == f"a{character}b"
    assert printable("a\r\nb\r") == "a\r\nb\\x0d"


def assert_harmless(text: str) -> None:
    assert not CONTROL.search(text)
    for shown in ODD.values():
        assert shown in text


def test_reports_of_kernels() -> None:
    body = f'extern "C" __global__ void k(int *x, int n) {{\n    x[n] = 1;  {COMMENT}\n}}\n'
    kernel = coalesce.Kernel(body, device="sim")
    assert_harmless(str(kernel.check(1, 1, np.zeros(8, np.int32), 9)))
    assert_harmless(str(kernel.profile(1, 1, np.zeros(8, np.int32), 0)))
    with pytest.raises(coalesce.MemoryFault) as fault:
        kernel[1, 1](np.zeros(8, np.int32), 9)
    assert_harmless(str(fault.value))
    assert KEPT in str(fault.value)
    with kernel.step(1, 1, np.zeros(8, np.int32), 0) as step:
        assert_harmless("".join(now.text for now in step))
    with pytest.raises(coalesce.CompileError) as error:
        coalesce.Kernel(body.replace("1;", "nothing;"), device="sim")
    assert not CONTROL.search(str(error.value))


@NEEDS_COMPILERS
def test_reports_of_programs(tmp_path: Path) -> None:
    source = tmp_path / "main.cu"
    text = (
        f"__global__ void k(int *x, int n) {{\n    x[n] = 1;  {COMMENT}\n}}\n"
        "int main(int n, char **) {\n    int *x;\n    cudaMalloc(&x, 64);\n"
        f"    k<<<1, 1>>>(x, n == 1 ? 0 : 16);\n    return cudaDeviceSynchronize();\n}}\n"
    )
    source.write_text(text)
    for words in ((), ("--profile",), ("--check",), ("--", "1"), ("--check", "--", "1")):
        done = command("run", source, *words)
        assert not CONTROL.search(done.stdout + done.stderr)
        if words not in ((), ("--check",)):
            assert_harmless(done.stdout + done.stderr)
    source.write_text(text.replace("x[n] = 1", "x[n] = nothing"))
    done = command("run", source)
    assert done.returncode == 1
    assert not CONTROL.search(done.stdout + done.stderr)
