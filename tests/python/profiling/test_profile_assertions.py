"""Assertions about profiles: which ones pass or fail, and what a failure prints."""

import os
import subprocess
import sys

import numpy as np
import pytest

import coalesce


@pytest.fixture(scope="module")
def naive():
    a = np.ones((64, 64), np.float32)
    return coalesce.profile("matmul", a, a, variant="naive")


@pytest.fixture(scope="module")
def tiled():
    return coalesce.profile("transpose", np.ones((64, 64), np.float32), variant="tiled")


@pytest.fixture(scope="module")
def padded():
    return coalesce.profile("transpose", np.ones((64, 64), np.float32), variant="padded")


def line_with(profile, text):
    (line,) = [x.number for x in profile.lines() if x.accesses and text in x.source]
    return line


def test_true_assertions_pass(naive, padded):
    padded.assert_sectors_per_request(load=4.0, store=4)
    padded.assert_coalesced()
    padded.assert_bytes_used(1)
    padded.assert_no_bank_conflicts()
    naive.assert_sectors_per_request(load=16.5, store=32)
    naive.assert_no_bank_conflicts()  # the kernel has no shared memory
    assert padded.bank_conflicts == 0


def test_sectors_per_request(naive):
    line = line_with(naive, "sum +=")
    with pytest.raises(AssertionError) as failure:
        naive.assert_sectors_per_request(load=4.0)
    message = str(failure.value)
    assert message.startswith("global loads take 16.5 sectors per request; at most 4 are allowed")
    assert f"line {line}: sum += a[INDEX(row) * K + k] * b[INDEX(k) * N + col];" in message
    assert "32 sectors, needs 4" in message
    assert "1 sector," not in message  # the message does not blame b
    assert "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdef" in message  # each lane reads its own sector
    with pytest.raises(AssertionError):
        naive.assert_sectors_per_request(load=4.0, line=line)
    with pytest.raises(AssertionError, match="global stores take 32"):
        naive.assert_sectors_per_request(load=17, store=4)


def test_coalesced(naive):
    with pytest.raises(AssertionError, match=r"sectors more than needed(.|\n)*line \d+: out\[i\]"):
        naive.assert_coalesced()
    with pytest.raises(AssertionError) as failure:
        naive.assert_coalesced(line=line_with(naive, "out[i]"))
    assert "sum +=" not in str(failure.value)


def test_bytes_used(naive):
    with pytest.raises(AssertionError, match="of the bytes of the touched sectors are used"):
        naive.assert_bytes_used(0.5)


def test_bank_conflicts(tiled):
    assert tiled.bank_conflicts == 31 * 2 * 64
    with pytest.raises(AssertionError, match=r"cost 3,968 wavefronts(.|\n)*32-way bank conflict"):
        tiled.assert_no_bank_conflicts()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p.assert_sectors_per_request(), "needs `load`, `store` or both"),
        (
            lambda p: p.assert_sectors_per_request(load=4, line=1),
            "load access at line 1;",
        ),
        (lambda p: p.assert_coalesced(line=9999), "at line 9999"),
    ],
)
def test_assertions_that_cannot_be_decided_fail(padded, call, message):
    with pytest.raises(ValueError, match=message):
        call(padded)


def test_limits_are_numbers(padded):
    padded.assert_sectors_per_request(load=np.float32(4))
    with pytest.raises(TypeError, match="`load` must be a real number; got str '4'"):
        padded.assert_sectors_per_request(load="4")


def test_a_plain_assert_is_explained_by_pytest(tmp_path):
    test = tmp_path / "test_transpose.py"
    test.write_text(
        "import coalesce, numpy as np\n"
        "def test_conflicts():\n"
        "    a = np.ones((64, 64), np.float32)\n"
        "    p = coalesce.profile('transpose', a, variant='tiled')\n"
        "    assert p.bank_conflicts == 0\n"
        "def test_lines():\n"
        "    p = coalesce.profile('transpose', np.ones((64, 64), np.float32), variant='tiled')\n"
        "    p.assert_no_bank_conflicts()\n"
        "def test_typo():\n"
        "    p = coalesce.profile('transpose', np.ones((64, 64), np.float32), variant='tiled')\n"
        "    p.assert_no_bank_conflicts(line=1)\n"
    )
    plugin = "coalesce._pytest_plugin"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-vv",
            "-p",
            "no:cacheprovider",
            "-p",
            plugin,
            "-o",
            "addopts=",
            str(test),
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        # a developer's environment may or may not have installed the plugin
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
    assert done.returncode == 1
    assert "3968 == 0" in done.stdout
    assert "32-way bank conflict" in done.stdout
    assert "= tile[tx][ty + j]" in done.stdout
    assert "wavefront 31" in done.stdout  # the picture of the wavefronts
    assert "bank conflicts cost 3,968 wavefronts" in done.stdout
    assert "the kernel has no shared access at line 1" in done.stdout
    # the report shows the failing line of the test, not the package's code
    assert "_assertions.py" not in done.stdout
