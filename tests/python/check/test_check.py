"""The result of a check, and the options that request it."""

import json
import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import coalesce
from coalesce.check import Kind

pytestmark = pytest.mark.usefixtures("on_simulator")

RACY = """extern "C" __global__ void shift(float *x) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = x[i];
    x[i] = s[(i + 32) % 64];
}"""


def racy():
    return coalesce.Kernel(RACY).check(1, 64, np.zeros(64, np.float32))


def test_nothing_found():
    kernel = coalesce.Kernel('extern "C" __global__ void one(float *x) { x[threadIdx.x] = 1; }')
    x = np.zeros(32, np.float32)
    findings = kernel.check(1, 32, x)
    assert not findings
    assert len(findings) == 0
    assert str(findings) == repr(findings) == "check of one: nothing found"
    assert (x == 1).all()
    findings.raise_if_any()
    assert findings.to_dict() == {"kernel": "one", "findings": [], "left_out": 0, "notes": []}
    assert "nothing found" in findings._repr_html_()


def test_report():
    findings = racy()
    assert str(findings) == (
        "check of shift: 1 error\n"
        "error: data race on s[32]: a read and a write are not ordered\n"
        "  `s` has shape (64,), float, in shared memory\n"
        "  no __syncthreads() is between the two accesses\n"
        "  read: line 5:   x[i] = s[(i + 32) % 64];\n"
        "    thread (0, 0, 0) in block (0, 0, 0)\n"
        "  write: line 4:   s[i] = x[i];\n"
        "    thread (32, 0, 0) in block (0, 0, 0)\n"
        "  63 more like it"
    )


def test_as_data():
    (f,) = json.loads(json.dumps(racy().to_dict()))["findings"]
    assert (f["kind"], f["severity"], f["array"], f["index"]) == ("race", "error", "s", [32])
    assert f["first"]["line"] == 5
    assert f["second"]["thread"] == [32, 0, 0]
    assert f["count"] == 64


def test_the_kinds_of_findings_match_the_core():
    kinds = Path(__file__).parents[3] / "csrc" / "analysis" / "check" / "finding_kinds.inc"
    of_core = re.findall(r"^COALESCE_FINDING\((\w+)\)", kinds.read_text("utf-8"), re.MULTILINE)
    assert sorted(of_core) == sorted(get_args(Kind))
    explained = re.findall(r"^ +- .*?: ", coalesce.Finding.__doc__, re.MULTILINE)
    assert sorted(re.findall(r'"(\w+)"', "".join(explained))) == sorted(of_core)


def test_as_html():
    html = racy()._repr_html_()
    assert "data race on s[32]" in html
    assert "x[i] = s[(i + 32) % 64];" in html
    assert "<script" not in html


def test_as_an_assertion():
    findings = racy()
    with pytest.raises(coalesce.CheckError, match="data race on s") as caught:
        findings.raise_if_any()
    assert caught.value.findings is findings
    with pytest.raises(AssertionError):
        assert not findings


def test_warnings_can_be_allowed():
    source = RACY.replace("64", "32").replace("+ 32", "+ 16")
    findings = coalesce.Kernel(source).check(1, 32, np.zeros(32, np.float32))
    assert [f.severity for f in findings] == ["warning"]
    assert findings.warnings == tuple(findings)
    assert findings.errors == ()
    findings.raise_if_any(warnings=False)
    with pytest.raises(coalesce.CheckError):
        findings.raise_if_any()


def test_the_same_in_every_run():
    source = """extern "C" __global__ void k(const int *x, int *h) {
        h[x[blockIdx.x * blockDim.x + threadIdx.x] % 7] += 1;
    }"""
    kernel = coalesce.Kernel(source)
    x = np.random.default_rng(1).integers(0, 100, 4096).astype(np.int32)
    reports = {str(kernel.check(32, 128, x, np.zeros(7, np.int32))) for _ in range(3)}
    assert len(reports) == 1


def test_operations(random):
    a = random.random((20, 30), np.float32)
    c, findings = coalesce.matmul(a, a.T, variant="tiled", check=True)
    np.testing.assert_allclose(c, a @ a.T, rtol=1e-5)
    assert not findings
    assert str(findings) == "check of matmul, variant tiled: nothing found"
    with pytest.raises(ValueError, match="check=True and return_timing=True cannot be combined"):
        coalesce.matmul(a, a.T, check=True, return_timing=True)


def test_a_gpu_is_refused():
    """The error says that a check runs on the simulator, also if this machine has no GPU."""
    kernel = coalesce.Kernel(RACY, device="sim")
    x = np.zeros(64, np.float32)
    for device in ("cuda", "cuda:3"):
        with pytest.raises(ValueError, match=f"runs on the simulator; got device='{device}'"):
            kernel.check(1, 64, x, device=device)
        with pytest.raises(ValueError, match="a check runs on the simulator"):
            coalesce.matmul(x[:1, None], x[None, :1], check=True, device=device)


def test_ptx_without_lines():
    """Without line information, a finding names the instruction."""
    ptx = """.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
 .reg .b64 %rd<3>; .reg .b32 %r<3>;
 ld.param.u64 %rd1, [out];
 mov.u32 %r1, %ctaid.x;
 st.global.u32 [%rd1], %r1;
 ret;
}
"""
    (f,) = coalesce.Kernel(ptx, "k").check(3, 32, np.zeros(1, np.int32))[:1]
    assert f.lines == (0, 0)
    assert "st.global.u32 [%rd1], %r1" in str(f)


def test_device_arrays():
    """coalesce.empty remembers between checks which elements were never written."""
    kernel = coalesce.Kernel("""extern "C" __global__ void k(float *x, int from, int to) {
        for (int i = from; i < to; ++i) x[i] += 1;
    }""")
    fill = coalesce.Kernel("""extern "C" __global__ void fill(float *x, int n) {
        for (int i = 0; i < n; ++i) x[i] = 0;
    }""")
    x = coalesce.empty(8, np.float32, device="sim")
    assert not fill.check(1, 1, x, 5)
    assert not kernel.check(1, 1, x, 0, 5)
    (f,) = kernel.check(1, 1, x, 0, 7)
    assert (f.kind, f.index, f.count) == ("uninitialized", (5,), 2)
    assert not kernel.check(1, 1, x, 0, 7)
    with pytest.raises(ValueError, match=r"DeviceArray.*coalesce.empty"):
        kernel.check(1, 1, x, 0, 7, undefined="x")


def test_a_freed_array():
    keep = coalesce.Kernel("""extern "C" __global__ void keep(float *x, float **where) {
        *where = x;
    }""")
    use = coalesce.Kernel("""extern "C" __global__ void use(float **where, float *out) {
        out[0] = (*where)[3];
    }""")
    where, out = np.zeros(1, np.uint64), np.zeros(1, np.float32)
    x = coalesce.zeros(4, np.float32, device="sim")
    assert not keep.check(1, 1, x, where)
    assert not use.check(1, 1, where, out)
    del x
    (f,) = use.check(1, 1, where, out)
    assert f.kind == "use_after_free"
    assert "freed" in f.title
