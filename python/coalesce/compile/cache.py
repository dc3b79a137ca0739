"""A cache of compiled kernels on disk.

Each entry of the cache is a file. Its name is a hash of everything that affects the compilation:
the source, the options and so on. The file begins with a digest (another hash) of its name and
contents. If an entry is damaged or cannot be read, the source is compiled again. If the folder of
the cache cannot be written, nothing is stored. These cases are not errors, because the cache only
saves time.

The module `cache_folder` reads and writes the files.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from coalesce.compile import cache_folder
from coalesce.compile.device_headers import headers, standard_library

SCHEMA = 2  # increase this number after a change to the contents of entries or to the compilation
_MAGIC = cache_folder.HEADER + b"kernel %d\n" % SCHEMA


def key_of(*parts: Any) -> str:
    """Return the key of an entry: a hash of `parts`.

    The parts are everything that affects the contents of the entry, such as the source and the
    options. The key also depends on the headers of this package.
    """
    texts = [headers.PRELUDE, headers.STANDARD, standard_library.TEXT]
    # Sort the keys, so that equal parts give the same text in every process.
    text = json.dumps([SCHEMA, *texts, *parts], sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def load(key: str) -> tuple[str, bytes | None, dict[str, Any]] | None:
    """Return the PTX, the cubin and the notes of the entry `key` (see `key_of`).

    The notes are a dict with further results, such as the compiler's warnings. If there is no such
    entry, or if it is damaged, return None.
    """
    content = cache_folder.read(f"{key}.kernel")
    start = len(_MAGIC) + 32
    if content is None or content[:start] != _MAGIC + _digest(key, content[start:]):
        return None
    try:
        line, _, rest = content[start:].partition(b"\n")
        notes = json.loads(line)
        size = notes["ptx_bytes"]
        return rest[:size].decode(), rest[size:] or None, notes
    except (ValueError, LookupError, TypeError, RecursionError):
        return None


def store(key: str, ptx: str, cubin: bytes | None, notes: dict[str, Any]) -> None:
    """Write the entry `key`. It has the PTX, the cubin (machine code) and the notes (see `load`).

    If the entry cannot be written, do nothing.
    """
    text = ptx.encode()
    line = json.dumps({**notes, "ptx_bytes": len(text)}).encode()
    body = line + b"\n" + text + (cubin or b"")
    cache_folder.write(f"{key}.kernel", _MAGIC + _digest(key, body) + body)


def _digest(key: str, body: bytes) -> bytes:
    """Return the digest of an entry. It covers the key, so a renamed entry does not match."""
    return hashlib.sha256(key.encode() + b"\n" + body).digest()
