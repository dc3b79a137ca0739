"""Reads code that a program loads while it runs: PTX or a fat binary, from a file or from NVRTC.

Python does not know this code before the program runs. So the library in the program writes the
code to a file, and starts this module in another process (``csrc/cudart/binary/jit.hpp``). The
library passes a path, `base`. The names of all files begin with this path:

==============  ====================================================================
``base.ptx``    the PTX, which the library wrote
``base.cubin``  the machine code, which the library wrote; if it is empty, ptxas makes
                machine code from the PTX
``base.code``   the result, which the library reads (``csrc/cudart/binary/code_file.hpp``)
``base.log``    the messages of ptxas
``base.error``  the messages of ptxas if it cannot assemble the PTX
==============  ====================================================================
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from coalesce.common import source_files
from coalesce.compile import cache, nvcc
from coalesce.compile.binaries import executables

_FILE = re.compile(r'^\s*\.file\s+\d+\s+"([^"]+)"', re.MULTILINE)


def main(words: Sequence[str] | None = None) -> None:
    """Read ``base.ptx`` and ``base.cubin``, and write the result and the messages of ptxas.

    The table at the top of this module lists all files. `words` are the arguments of the command
    line: the path `base`, the number of the architecture, such as 90, and options for ptxas.
    """
    base, arch, *options = sys.argv[1:] if words is None else words
    ptx = Path(f"{base}.ptx").read_text("utf-8", "replace")
    machine: bytes | None = _content(f"{base}.cubin")
    reason = ""
    if not machine:
        machine, log, reason = assemble(ptx, int(arch), options)
        Path(f"{base}.log").write_text(log)
        if machine is None and not reason:
            Path(f"{base}.error").write_text(log.strip())
            return
        Path(f"{base}.cubin").write_bytes(machine or b"")
    text = executables.code_file(ptx, machine or None, int(arch), _sources(ptx))
    if reason:
        text = re.sub(r"^reason .*$", f"reason {reason}", text, flags=re.MULTILINE)
    # Rename the file when it is complete, so that nobody reads a part of it.
    part = Path(f"{base}.part")
    part.write_text(text)
    part.rename(f"{base}.code")


def assemble(ptx: str, arch: int, options: Sequence[str]) -> tuple[bytes | None, str, str]:
    """Assemble PTX with ptxas. Return the machine code, the messages of ptxas, and an error.

    `arch` is the number of the architecture, such as 90. `options` are options for ptxas.

    - If ptxas succeeds, the result is (machine code, messages, "").
    - If the PTX has a mistake, the result is (None, messages, ""). The messages describe the
      mistake.
    - If ptxas is missing, or does not support this PTX, the machine code is None. The error says
      why.
    """
    ptxas = nvcc.tool("ptxas")
    if ptxas is None:
        return None, "", "the program loaded PTX, and ptxas, which assembles it, is not installed"
    own = re.search(r"\.target\s+sm_(\d+[af])", ptx)
    name = f"sm_{own[1]}" if own else f"sm_{arch}"
    status = Path(ptxas).stat()
    key = cache.key_of("loaded", ptx, name, list(options), status.st_size, status.st_mtime_ns)
    if (known := cache.load(key)) is not None:
        return known[1], known[0], ""
    with tempfile.TemporaryDirectory(prefix="coalesce-") as folder:
        source, made = Path(folder) / "loaded.ptx", Path(folder) / "loaded.cubin"
        source.write_text(ptx)
        command = [ptxas, f"-arch={name}", "-lineinfo", *options, "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        log = (done.stdout + done.stderr).replace(str(source), "the PTX")
        if done.returncode == 0:
            machine = made.read_bytes()
            cache.store(key, log, machine, {})
            return machine, log, ""
    if re.search(r"Unsupported \.version|is not supported|not defined for option", log):
        return None, log, f"ptxas does not know this PTX: {log.strip().splitlines()[0]}"
    return None, log, ""


def _content(path: str) -> bytes:
    file = Path(path)
    return file.read_bytes() if file.is_file() else b""


def _sources(ptx: str) -> str:
    """Return the text of the source files that the PTX names. It has the names of parameters."""
    return "\n".join(line for name in _FILE.findall(ptx) for line in source_files.lines_of(name))
