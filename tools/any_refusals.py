"""Compares what coalesce refuses with nvcc: is it a limit of coalesce, or wrong for nvcc, too?"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from coalesce.compile import nvrtc

NOT_VALID = ("refused by nvcc, too", "absent")  # without these, a refusal is a limit of coalesce
_LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"')
_MARKER = re.compile(r'^# \d+ "([^"\n]*)"[^\n]*$', re.MULTILINE)
_MISSING = re.compile(r"fatal error: ([^\s:]+): No such file")


def outcome(path: Path, options: Sequence[str], error: Exception, kernel: str = r"\w+") -> str:
    """Return what an error of coalesce for a file means, according to nvcc.

    - "absent": coalesce finds no such kernel, and nvcc's preprocessor does not leave one, either.
    - "refused by nvcc, too": nvcc reports one of the errors in the message.
    - "refused": everything else, and always if nvcc is not installed. If a header is missing, nvcc
      is asked again with an empty header. An error that only coalesce reports stays its own.

    `kernel` is a pattern for the kernel's name.
    """
    if shutil.which("nvcc") is None:
        return "refused"
    message = str(error)
    if re.search(r"has no (?:kernel|entry)|no kernel", message):
        seen = _own_text(path, _nvcc(path, options, "-E")[1])
        return "refused" if re.search(rf"\bglobal\b[^;{{}}]*\b{kernel}\s*\(", seen) else "absent"
    log, _ = _nvcc(path, options, "-rdc=true", "-ptx")
    return "refused by nvcc, too" if _errors(message) & _errors(log) else "refused"


def _nvcc(path: Path, options: Sequence[str], *how: str) -> tuple[str, str]:
    """Run nvcc; return its messages and what it wrote. Missing headers are empty.

    Headers of PyTorch and HIP are coalesce's own texts, as for coalesce.
    """
    with tempfile.TemporaryDirectory() as place:
        hip = Path(place) / "hip"
        hip.mkdir()
        shutil.copy(Path(nvrtc.__file__).parent / "device_headers" / "hip_runtime.h", hip)
        out = Path(place) / "out"
        command = ["nvcc", *how, "-w", "-arch=sm_90", "-x", "cu", "-o", str(out), *options]
        command += [f"-I{place}", f"-I{path.parent}", str(path)]
        for _ in range(32):
            done = subprocess.run(command, capture_output=True, check=False)
            log = (done.stdout + done.stderr).decode("utf-8", "replace")
            missing = _MISSING.search(log)
            if missing is None or Path(missing[1]).is_absolute() or ".." in missing[1]:
                break
            (Path(place) / missing[1]).parent.mkdir(parents=True, exist_ok=True)
            (Path(place) / missing[1]).touch()
        written = out.read_bytes().decode("utf-8", "replace") if out.is_file() else ""
        return log, written


def _own_text(path: Path, preprocessed: str) -> str:
    """Return the part of nvcc's preprocessed text that is not from headers of the system.

    If nvcc's preprocessor fails, the result is the text of the file itself.
    """
    if not preprocessed:
        return path.read_bytes().decode("latin-1")
    parts = _MARKER.split(preprocessed)
    system = ("/usr/", *nvrtc.include_folders())
    own = [
        text
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
        if not name.startswith(system)
    ]
    return _LITERAL.sub('""', "".join(own))


def _errors(log: str) -> set[str]:
    """Return the texts and the lines of the errors in the log of a compiler."""
    lines = re.findall(r"([\w.-]+\(\d+\)): error", log)
    return {*re.findall(r"error: ([^\n]+)", log), *lines}
