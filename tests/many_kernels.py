"""Puts kernels into fewer sources, so that compilers and the disassembler start less often.

The disassembler needs half a second to start, and little time for one more kernel. nvcc and large
headers, such as cooperative_groups.h, take from half a second to two seconds. So a source with
several kernels takes much less time than one source for each of them.
"""

import re
from collections.abc import Iterable, Sequence


def together(sources: Iterable[str], entry: str, at_most: int = 16) -> dict[str, tuple[str, str]]:
    """Map each source to a longer source that contains its kernel, and to the kernel's name there.

    Each source defines one kernel with the name `entry` and no other name that a second source may
    define. In the longer source, the kernels have numbers at the end of their names.
    """
    texts = list(dict.fromkeys(sources))
    kernels: dict[str, tuple[str, str]] = {}
    for first in range(0, len(texts), at_most):
        some = texts[first : first + at_most]
        names = [f"{entry}_{number}" for number in range(first, first + len(some))]
        renamed = [
            re.sub(rf"\b{entry}\b", name, text) for name, text in zip(names, some, strict=True)
        ]
        whole = "\n".join(renamed)
        kernels.update((text, (whole, name)) for text, name in zip(some, names, strict=True))
    return kernels


def of_files(files: Iterable[tuple[str, str, str, Sequence[str]]]) -> str:
    """Return a source that contains the kernels of several files.

    Each item of `files` is a file's name, its text, the name of its kernel, and the macros with
    which it is compiled, such as ``"TILE=32"``. In the source, the kernels have numbers at the end
    of their names: the second has ``_1``. So have arrays of dynamic shared memory, which the
    compiler takes for one array if they have one name. Error messages name the file and its line.
    """
    parts = []
    for number, (file, text, entry, macros) in enumerate(files):
        defined = [macro.partition("=")[::2] for macro in macros]
        names = {name for name, _ in defined} | set(
            re.findall(r"^#define (\w+)", text, re.MULTILINE)
        )
        dynamic = re.findall(r"extern __shared__ \w+ (\w+)\[", text)
        # A name after a point is a part of a PTX instruction, such as .tf32.
        own = rf"(?<!\.)\b({'|'.join([entry, *dynamic])})\b"
        text = re.sub(own, rf"\1_{number}", text)
        parts += [
            *(f"#define {name} {value}" for name, value in defined),
            f"namespace file_{number} {{",
            f'#line 1 "{file}"',
            text,
            "}",
            *(f"#undef {name}" for name in sorted(names)),
        ]
    return "\n".join(parts)
