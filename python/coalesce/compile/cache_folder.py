"""Reads, writes and deletes the files of the cache of compiled kernels.

The files are in a folder with the name `NAME`; `place` returns its path. The total size is limited
to `MOST_BYTES`.

- Safety: the entries contain code that will run. Therefore the folder is used only if no other user
  can write to it. The module opens the folder once. It checks and uses the open folder (a file
  descriptor), not the folder's name. If somebody replaces the folder after the check, this has no
  effect.
- Other files: the module reads, counts and deletes only entries. An entry is a regular file (not a
  link). Its name has the form of a key, and its content begins with `HEADER`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import secrets
import stat
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NAME = "coalesce-kernels"
HEADER = b"coalesce cache "  # every file of the cache begins with this, in every version
MOST_BYTES = 256 * 2**20

_ENTRY = re.compile(r"[0-9a-f]{64}\.kernel")
_TEMPORARY = re.compile(r"\.[0-9a-f]{32}\.tmp")
_STALE_SECONDS = 3600  # an older temporary file is left over from a killed process

# The size of this file shows how much was stored since the cache last deleted entries. After its
# header, the file has one byte for each stored KiB. Processes can append to it without a lock,
# because appending to a file is atomic.
_TALLY = "coalesce.tally"
_TALLY_HEADER = HEADER + b"tally\n"

_OPEN = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # links are refused, FIFOs do not block
_warned: set[str] = set()


class NotPrivateError(OSError):
    """Raised if other users can write to the folder of the cache."""


@dataclass(frozen=True)
class Usage:
    """The disk space that the cache uses.

    Attributes
    ----------
    folder : Path
        The folder that holds the entries.
    entries : int
        The number of entries.
    bytes : int
        The total size of the entries in bytes.
    limit : int
        The largest allowed total size in bytes. To stay below this limit, the cache deletes
        the least recently used entries.
    """

    folder: Path
    entries: int
    bytes: int
    limit: int


def place() -> Path:
    """Return the path of the folder for the entries. The folder may not exist yet."""
    if folder := os.environ.get("COALESCE_CACHE_DIR"):
        return Path(folder).expanduser() / NAME
    # A relative path would be another folder for each current folder. The XDG specification says
    # to ignore it.
    folder = os.environ.get("XDG_CACHE_HOME", "")
    if Path(folder).is_absolute():
        return Path(folder) / "coalesce" / NAME
    home = Path.home()
    if not home.is_absolute():
        with contextlib.suppress(KeyError):  # a user without a name
            home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    if not home.is_absolute():
        raise RuntimeError(f"the home folder {str(home)!r} is not an absolute path; set HOME")
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "coalesce" / NAME


def read(name: str) -> bytes | None:
    """Return the contents of an entry, or None if there is no such entry.

    Also set the modification time of the entry's file to now. For the cache, this is the time of
    the last use.
    """
    with contextlib.suppress(OSError, RuntimeError), _warning(), _folder() as folder:
        handle = os.open(name, os.O_RDONLY | _OPEN, dir_fd=folder)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
                return None
            header = file.read(len(HEADER))
            if header != HEADER:
                return None
            with contextlib.suppress(OSError):
                os.utime(handle)  # the entry with the oldest time of use is deleted first
            return header + file.read()
    return None


def write(name: str, content: bytes) -> None:
    """Write an entry. If it cannot be written, do nothing.

    The content goes to a temporary file first. Then this file gets the name of the entry. So other
    processes never see an entry that is only half written.
    """
    if len(content) > MOST_BYTES // 8:
        return
    with contextlib.suppress(OSError, RuntimeError), _warning(), _folder(create=True) as folder:
        temporary = f".{secrets.token_hex(16)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN
        handle = os.open(temporary, flags, 0o600, dir_fd=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        _count(folder, len(content))


def try_writing() -> None:
    """Write an empty file to the folder and delete it. Raises OSError if that is impossible."""
    with _folder(create=True) as folder:
        name = f".{secrets.token_hex(16)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN
        os.close(os.open(name, flags, 0o600, dir_fd=folder))
        os.unlink(name, dir_fd=folder)


def usage() -> Usage:
    """Return how many entries the cache has, and their total size.

    Raises NotPrivateError if other users can write to the folder.
    """
    entries = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), _folder() as folder:
        entries = _entries(folder)
    return Usage(place(), len(entries), sum(size for _, size, _ in entries), MOST_BYTES)


def clear() -> Usage:
    """Delete all entries. Return how many entries were deleted, and their total size.

    Raises NotPrivateError if other users can write to the folder.
    """
    deleted = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), _folder() as folder:
        for entry in _entries(folder):
            with contextlib.suppress(OSError):
                os.unlink(entry[2], dir_fd=folder)
                deleted.append(entry)
        _delete_stale(folder)
    return Usage(place(), len(deleted), sum(size for _, size, _ in deleted), MOST_BYTES)


@contextlib.contextmanager
def _folder(create: bool = False) -> Iterator[int]:
    """Open the folder and yield its file descriptor. Raises OSError if that is impossible.

    Raises NotPrivateError if the folder belongs to another user or if others can write to it.
    """
    own = place()
    if create:
        own.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            own.mkdir(mode=0o700)
    handle = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(handle)
        reason = ""
        if status.st_uid != os.geteuid():
            reason = "it belongs to another user; set COALESCE_CACHE_DIR to a folder of your own"
        elif status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            reason = (
                "other users can write to it; delete it, or if you trust its files, "
                f"chmod go-w {own}"
            )
        if reason:
            raise NotPrivateError(
                f"the cache of compiled kernels in {own} cannot be used: {reason}"
            )
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _warning() -> Iterator[None]:
    """If the folder is not private, warn that it is not used, once for each folder."""
    try:
        yield
    except NotPrivateError as error:
        if str(error) not in _warned:
            _warned.add(str(error))
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)
        raise


def _entries(folder: int) -> list[tuple[float, int, str]]:
    """Return the time of the last use, the size and the name of every entry."""
    return [file for file in _own_files(folder, _ENTRY) if _begins(folder, file[2], HEADER)]


def _own_files(folder: int, pattern: re.Pattern[str]) -> Iterator[tuple[float, int, str]]:
    with os.scandir(folder) as items:
        for item in items:
            if pattern.fullmatch(item.name):
                with contextlib.suppress(OSError):
                    status = item.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        yield status.st_mtime, status.st_size, item.name


def _begins(folder: int, name: str, header: bytes) -> bool:
    with contextlib.suppress(OSError):
        handle = os.open(name, os.O_RDONLY | _OPEN, dir_fd=folder)
        try:
            return os.read(handle, len(header)) == header
        finally:
            os.close(handle)
    return False


def _count(folder: int, size: int) -> None:
    """Add the size of a new entry to the tally. From time to time, delete ("evict") old entries.

    An eviction takes time, because it looks at every entry. It happens after new entries of an
    eighth of the limit were stored. (With entries of 6 KiB, this is once in 5,000 stores.) Each
    eviction leaves at most seven eighths of the limit. Therefore the entries never exceed the
    limit.
    """
    try:
        handle = os.open(_TALLY, os.O_RDWR | os.O_APPEND | os.O_CREAT | _OPEN, 0o600, dir_fd=folder)
    except OSError:  # the tally cannot be opened, for example because it is a link
        _evict(folder)
        return
    try:
        status = os.fstat(handle)
        ours = stat.S_ISREG(status.st_mode)
        if ours and status.st_size == 0:
            os.write(handle, _TALLY_HEADER)
        elif ours:
            ours = os.pread(handle, len(_TALLY_HEADER), 0) == _TALLY_HEADER
        if ours:
            os.write(handle, b"." * -(-size // 1024))
            stored = os.fstat(handle).st_size - len(_TALLY_HEADER)
            if stored * 1024 < MOST_BYTES // 8:
                return
        _evict(folder)
        if ours:
            os.ftruncate(handle, len(_TALLY_HEADER))
    finally:
        os.close(handle)


def _evict(folder: int) -> None:
    """Delete the least recently used entries, until at most 7/8 of the limit is used."""
    _delete_stale(folder)
    entries = _entries(folder)
    total = sum(size for _, size, _ in entries)
    for _, size, name in sorted(entries):
        if total <= MOST_BYTES - MOST_BYTES // 8:
            return
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
            total -= size


def _delete_stale(folder: int) -> None:
    """Delete temporary files whose processes were killed."""
    for used, size, name in list(_own_files(folder, _TEMPORARY)):
        if used < time.time() - _STALE_SECONDS and (size == 0 or _begins(folder, name, HEADER)):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
