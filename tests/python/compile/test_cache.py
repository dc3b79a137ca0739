"""The disk cache of compiled kernels: entries, the size limit and foreign files. Needs no GPU."""

import os
import stat
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from coalesce import cli
from coalesce.compile import cache as compile_cache
from coalesce.compile import cache_folder, nvrtc
from coalesce.compile.nvrtc import compile_cuda

SOURCE = 'extern "C" __global__ void k(float *x) { x[0] = 1; }'
KEYS = [f"{i:064x}" for i in range(200)]


@pytest.fixture(autouse=True)
def chosen_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that the user chooses for the cache."""
    monkeypatch.setenv("COALESCE_CACHE_DIR", str(tmp_path / "chosen"))
    monkeypatch.setattr(nvrtc, "_remembered", {})
    monkeypatch.setattr(cache_folder, "_warned", set())
    return tmp_path / "chosen"


@pytest.fixture
def kernels_folder(chosen_folder: Path) -> Path:
    """Return the folder that the cache makes inside the chosen folder."""
    return chosen_folder / "coalesce-kernels"


def store(key: str, size: int = 0) -> None:
    compile_cache.store(key, "p" * size, b"cubin", {"log": "", "lowered": {}})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"coalesce.tally"}


def test_a_stored_entry_is_loaded(kernels_folder: Path) -> None:
    compile_cache.store(KEYS[1], "text", b"cubin", {"log": "a", "lowered": {"f<int>": "_Z1fIiEvv"}})
    ptx, cubin, notes = compile_cache.load(KEYS[1]) or pytest.fail("not stored")
    assert (ptx, cubin, notes["log"]) == ("text", b"cubin", "a")
    assert notes["lowered"] == {"f<int>": "_Z1fIiEvv"}
    compile_cache.store(KEYS[2], "text", None, {})
    assert (compile_cache.load(KEYS[2]) or pytest.fail("not stored"))[1] is None
    assert compile_cache.load(KEYS[3]) is None
    assert names(kernels_folder) == {f"{KEYS[1]}.kernel", f"{KEYS[2]}.kernel"}
    assert stat.S_IMODE(kernels_folder.stat().st_mode) == 0o700


def test_a_key_is_the_same_in_every_process() -> None:
    shown = set()
    for seed in "123":  # the seeds give sets different orders
        ask = "from coalesce.compile import cache; print(cache.key_of('a', 1))"
        done = subprocess.run(
            [sys.executable, "-c", ask],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        shown.add(done.stdout)
    assert shown == {compile_cache.key_of("a", 1) + "\n"}


def test_the_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kernels_folder: Path) -> None:
    assert cache_folder.place() == kernels_folder
    monkeypatch.delenv("COALESCE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder.place() == tmp_path / "coalesce" / "coalesce-kernels"


def test_relative_paths_make_no_folder_in_the_current_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("COALESCE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder.place() == tmp_path / ".cache" / "coalesce" / "coalesce-kernels"
    monkeypatch.setenv("HOME", "home")
    assert cache_folder.place().is_absolute()


def test_a_folder_that_cannot_be_created_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("COALESCE_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert compile_cuda(SOURCE).ptx


def with_a_flipped_bit(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda content: content[:-1],
    "header only": lambda content: content[:15],
    "version only": lambda content: content[:24],
    "longer": lambda content: content + b"\0",
    "other": lambda _: b"x" * 1000,
    "first byte": lambda content: with_a_flipped_bit(content, 0),
    "version": lambda content: with_a_flipped_bit(content, 22),
    "digest": lambda content: with_a_flipped_bit(content, 30),
    "notes": lambda content: with_a_flipped_bit(content, 60),
    "machine code": lambda content: with_a_flipped_bit(content, len(content) - 10),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_compiled_again(kernels_folder: Path, damage: str) -> None:
    first = compile_cuda(SOURCE)
    (entry,) = kernels_folder.glob("*.kernel")
    content = entry.read_bytes()
    entry.write_bytes(DAMAGES[damage](content))
    assert compile_cache.load(entry.stem) is None
    nvrtc._remembered.clear()
    assert compile_cuda(SOURCE) == first
    assert entry.read_bytes() == content, "and is written again"


def test_an_entry_with_another_name_is_ignored(kernels_folder: Path) -> None:
    store(KEYS[0])
    (kernels_folder / f"{KEYS[0]}.kernel").rename(kernels_folder / f"{KEYS[1]}.kernel")
    assert compile_cache.load(KEYS[1]) is None


@pytest.mark.parametrize("version", [b"kernel 1\n", b"kernel 99\n"])
def test_an_entry_of_another_version_is_not_read_but_counted(
    kernels_folder: Path, version: bytes
) -> None:
    store(KEYS[0])
    path = kernels_folder / f"{KEYS[0]}.kernel"
    path.write_bytes(path.read_bytes().replace(b"kernel 2\n", version))
    assert compile_cache.load(KEYS[0]) is None
    assert cache_folder.usage().entries == 1


# --- the limit ------------------------------------------------------------------------------------


def test_entries_that_were_not_used_for_longest_are_evicted(
    kernels_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_folder, "MOST_BYTES", 64 << 10)
    for i, key in enumerate(KEYS[:100]):
        store(key, 1000)
        os.utime(kernels_folder / f"{key}.kernel", (i + 1, i + 1))
        assert compile_cache.load(KEYS[0]) is not None, "each use makes the oldest entry the newest"
    usage = cache_folder.usage()
    assert usage.bytes <= usage.limit
    assert usage.bytes > usage.limit // 2
    left = [key for key in KEYS[1:100] if (kernels_folder / f"{key}.kernel").exists()]
    assert left == KEYS[100 - len(left) : 100]


def test_an_eviction_deletes_nothing_of_the_users(
    chosen_folder: Path, kernels_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_folder, "MOST_BYTES", 16 << 10)
    kernels_folder.mkdir(parents=True, mode=0o700)
    users = [
        *(chosen_folder / name for name in ("weights.bin", f"{KEYS[0]}.bin", f"{KEYS[0]}.kernel")),
        *(
            kernels_folder / name
            for name in ("weights.bin", f"{KEYS[150]}.bin", ".0.tmp", "a.kernel")
        ),
        # The name is that of an entry, but the file has no entry's header.
        kernels_folder / f"{KEYS[151]}.kernel",
        kernels_folder / f".{'0' * 32}.tmp",
    ]
    for path in users:
        path.write_bytes(b"weights" * 3000)
        os.utime(path, (1, 1))
    outside = chosen_folder / "outside.bin"
    outside.write_bytes(cache_folder.HEADER + b"x" * 100_000)
    (kernels_folder / f"{KEYS[152]}.kernel").symlink_to(outside)
    for key in KEYS[:100]:
        store(key, 1000)
    assert 0 < cache_folder.usage().bytes <= 16 << 10
    assert cli.main(["cache", "--clear"]) == 0
    assert cache_folder.usage().entries == 0
    for path in users:
        assert path.read_bytes() == b"weights" * 3000
    assert outside.stat().st_size > 100_000
    assert (kernels_folder / f"{KEYS[152]}.kernel").is_symlink()


@pytest.mark.parametrize("tally", ["a user's file", "a folder", "a FIFO", "a link"])
def test_the_limit_holds_without_the_tally(
    kernels_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: str
) -> None:
    monkeypatch.setattr(cache_folder, "MOST_BYTES", 16 << 10)
    kernels_folder.mkdir(parents=True, mode=0o700)
    place, other = kernels_folder / "coalesce.tally", tmp_path / "other"
    other.write_text("mine")
    make: dict[str, Callable[[], object]] = {
        "a user's file": lambda: place.write_text("mine"),
        "a folder": place.mkdir,
        "a FIFO": lambda: os.mkfifo(place),
        "a link": lambda: place.symlink_to(other),
    }
    make[tally]()
    for key in KEYS[:40]:
        store(key, 1000)
    assert 0 < cache_folder.usage().bytes <= 16 << 10
    assert other.read_text() == "mine"
    if tally == "a user's file":
        assert place.read_text() == "mine"


def test_the_folder_is_scanned_rarely(
    kernels_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_folder, "MOST_BYTES", 1 << 20)
    scans, scandir = [], os.scandir

    def counted(folder: int) -> object:
        scans.append(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", counted)
    for key in KEYS:
        store(key, 500)
    assert len(list(kernels_folder.glob("*.kernel"))) == 200
    # An eviction reads the folder twice, for entries and for temporary files. It runs once per 128
    # KiB of new entries.
    assert len(scans) <= 4


def test_temporary_files_of_killed_processes_are_deleted(kernels_folder: Path) -> None:
    store(KEYS[0])
    old, new = kernels_folder / f".{'1' * 32}.tmp", kernels_folder / f".{'2' * 32}.tmp"
    for path in (old, new):
        path.write_bytes(cache_folder.HEADER + b"kernel 2\nhalf")
    os.utime(old, (time.time() - 7200,) * 2)
    cache_folder.clear()
    assert names(kernels_folder) == {new.name}


# --- places that are not safe ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["FIFO", "folder", "link", "dangling link", "device"])
def test_an_entry_that_is_no_regular_file_is_skipped(
    kernels_folder: Path, tmp_path: Path, kind: str
) -> None:
    compile_cuda(SOURCE)
    (entry,) = kernels_folder.glob("*.kernel")
    outside = tmp_path / "outside"
    entry.rename(outside)
    make: dict[str, Callable[[], object]] = {
        "FIFO": lambda: os.mkfifo(entry),
        "folder": entry.mkdir,
        "link": lambda: entry.symlink_to(outside),
        "dangling link": lambda: entry.symlink_to(tmp_path / "nowhere"),
        "device": lambda: entry.symlink_to("/dev/zero"),
    }
    make[kind]()
    assert compile_cache.load(entry.stem) is None
    assert cache_folder.usage().entries == 0
    nvrtc._remembered.clear()
    content = outside.read_bytes()
    assert compile_cuda(SOURCE).ptx
    assert outside.read_bytes() == content


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_used(
    kernels_folder: Path, mode: int, capsys: pytest.CaptureFixture[str]
) -> None:
    store(KEYS[0])
    kernels_folder.chmod(mode)
    with pytest.warns(RuntimeWarning, match="other users can write to it; .* chmod go-w"):
        assert compile_cache.load(KEYS[0]) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store(KEYS[1])  # The warning is shown only once.
    assert names(kernels_folder) == {f"{KEYS[0]}.kernel"}
    assert cli.main(["cache", "--clear"]) == 1
    assert "other users can write to it" in capsys.readouterr().err
    assert names(kernels_folder) == {f"{KEYS[0]}.kernel"}
    kernels_folder.chmod(0o700)
    assert compile_cache.load(KEYS[0]) is not None


def test_a_folder_of_another_user_is_not_used(
    kernels_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(KEYS[0])
    monkeypatch.setattr(os, "geteuid", lambda: kernels_folder.stat().st_uid + 1)
    with pytest.warns(RuntimeWarning, match="belongs to another user; set COALESCE_CACHE_DIR"):
        assert compile_cache.load(KEYS[0]) is None


# --- the command ----------------------------------------------------------------------------------


def test_the_command_shows_and_clears(
    kernels_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["cache"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"folder   {kernels_folder}",
        "entries  0",
        "size     0.0 MiB",
        "limit    256 MiB",
    ]
    assert not kernels_folder.exists(), "showing makes no folder"
    for key in KEYS[:3]:
        store(key, 2**20)
    assert cli.main(["cache"]) == 0
    assert "entries  3\nsize     3.0 MiB\n" in capsys.readouterr().out
    assert cli.main(["cache", "--clear"]) == 0
    assert "deleted 3 entries, 3.0 MiB" in capsys.readouterr().out
    assert not list(kernels_folder.glob("*.kernel"))
