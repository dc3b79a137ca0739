"""The scripts that try kernels of public repositories, on a small folder of kernels."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
KERNELS = """
#include "there.h"
__global__ void doubled(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = twice(x[i]);
}
const char *text = R"(__global__ void in_a_string(int *p) { *p = 1; })";
#if 0
__global__ void left_out(int *p) { *p = 1; }
#endif
"""
OTHERS = """
template <int N>
__global__ void picked(float *y, const float *x, const int *places) {
    static_assert(N == 3);
    y[threadIdx.x] = x[places[threadIdx.x] - 1000000];
}
"""
REFUSED = "__global__ void refused(int *p) { *p = nowhere; }"
# A limit of coalesce, not of nvcc, although a header is missing.
LAUNCHING = """
#include "nowhere.h"
__global__ void launching(int *p) { launching<<<1, 1>>>(p); }
"""
ARGUMENTS = {
    "a/b:others.cu:picked": {
        "instance": "picked<3>",
        "grid": 1,
        "block": 8,
        "arguments": {
            "y": "np.zeros(8, 'f4')",
            "x": "np.arange(8, dtype='f4')",
            "places": "np.arange(8, dtype='i4')[::-1] + 1000000",
        },
        "reference": {"y": "x[::-1]"},
    }
}


def _run(script, *arguments):
    command = [sys.executable, str(TOOLS / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_kernels_of_a_folder_are_tried_and_stored(tmp_path):
    folder = tmp_path / "a+b@0"
    (folder / "include").mkdir(parents=True)
    (folder / "include" / "there.h").write_text(
        "inline __device__ float twice(float x) { return 2 * x; }"
    )
    files = {"kernels": KERNELS, "others": OTHERS, "refused": REFUSED, "launching": LAUNCHING}
    for name, text in files.items():
        (folder / f"{name}.cu").write_text(text)
    given, results = tmp_path / "arguments.json", tmp_path / "found.json"
    given.write_text(json.dumps(ARGUMENTS))
    _run("any_repositories.py", folder, "--json", results, "--arguments", given)
    found_there = json.loads(results.read_text())
    outcomes = {
        row["kernel"]: (row["outcome"], row.get("reference"))
        for row in (*found_there["kernels"], *found_there["replaced"])
    }
    nvcc = shutil.which("nvcc") is not None
    assert outcomes == {
        "doubled": ("right", "g++"),
        "picked": ("right", "NumPy"),
        "launching": ("refused", None),
        "refused": ("refused by nvcc, too" if nvcc else "refused", None),
        "left_out": ("absent" if nvcc else "refused", None),
        "in_a_string": ("absent" if nvcc else "refused", None),
    }
    _run(
        "any_stored.py",
        *(folder, "--json", results, "--arguments", given, "--out", tmp_path / "stored"),
    )
    launches = json.loads((tmp_path / "stored" / "launches.json").read_text())
    assert set(launches) == {"a/b:kernels.cu:doubled", "a/b:others.cu:picked"}
    launch = launches["a/b:others.cu:picked"]
    assert launch["exact"]["smsp__inst_executed_op_global_ld.sum"] == 2
    change = (tmp_path / "stored" / launch["arrays"][0]["change"]).read_bytes()
    assert len(change) == 32
