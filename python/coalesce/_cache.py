"""Compiled kernels on disk: in ``COALESCE_CACHE_DIR``, or ``coalesce`` in the user's cache folder.

An entry is a file named after the hash of everything that went into it, with a digest of its
contents. It is written to a temporary file and renamed, so a reader sees all of it or nothing. The
cache only ever saves time: an entry that cannot be read or does not match its digest is as good as
none, and a folder that cannot be written is not an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

SCHEMA = 1  # counts up when what an entry holds, or how sources are compiled, changes
MOST_BYTES = 256 * 2**20
_MAGIC = b"coalesce kernel\n"


def folder() -> Path:
    """Return the cache's folder, which need not exist."""
    if given := os.environ.get("COALESCE_CACHE_DIR"):
        return Path(given).expanduser()
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "coalesce"
    if sys.platform == "darwin":
        return Path("~/Library/Caches/coalesce").expanduser()
    return Path("~/.cache/coalesce").expanduser()


def key_of(*parts: Any) -> str:
    """Return the name of the entry that these parts determine."""
    from coalesce import _headers

    text = json.dumps([SCHEMA, _headers.PRELUDE, _headers.STANDARD, *parts])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def load(key: str) -> tuple[str, bytes | None, dict[str, Any]] | None:
    """Return an entry's PTX, cubin and notes; None where there is no good one."""
    try:
        path = folder() / f"{key}.bin"
        content = path.read_bytes()
        magic_and_digest = len(_MAGIC) + 32
        body = content[magic_and_digest:]
        if content[:magic_and_digest] != _MAGIC + hashlib.sha256(body).digest():
            return None
        line, _, rest = body.partition(b"\n")
        notes = json.loads(line)
        size = notes["ptx_bytes"]
        with contextlib.suppress(OSError):
            os.utime(path)  # the time of use, which decides what is dropped first
        return rest[:size].decode(), rest[size:] or None, notes
    except (OSError, ValueError, KeyError, RuntimeError):
        return None


def store(key: str, ptx: str, cubin: bytes | None, notes: dict[str, Any]) -> None:
    """Write an entry, if that is possible."""
    text = ptx.encode()
    line = json.dumps({**notes, "ptx_bytes": len(text)}).encode()
    body = line + b"\n" + text + (cubin or b"")
    content = _MAGIC + hashlib.sha256(body).digest() + body
    try:
        place = folder()
        place.mkdir(parents=True, exist_ok=True)
        _make_room(place, len(content))
        handle, temporary = tempfile.mkstemp(dir=place, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(temporary).replace(place / f"{key}.bin")
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except (OSError, RuntimeError):
        return


def _make_room(place: Path, needed: int) -> None:
    """Drop the entries that were not used for longest, until `needed` bytes more fit."""
    entries = []
    for path in place.glob("*.bin"):
        with contextlib.suppress(OSError):
            status = path.stat()
            entries.append((status.st_mtime, status.st_size, path))
    total = needed + sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            total -= size
