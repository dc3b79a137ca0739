"""The example of docs/reliability.md, a launch in a separate process, runs as printed there."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "reliability.md"
SOURCE = """
source = '''
extern "C" __global__ void scale(float *x, float factor, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] *= factor;
}'''
"""
FAULT = """
    try:
        isolated(kernel, 1, 32, np.ones(8, np.float32), 2.0, 99)
    except coalesce.MemoryFault as error:
        print("fault:", str(error).splitlines()[0])
    x, *_ = isolated(kernel, 1, 32, x, 2.0, 8)
    print(x)
"""


def test_the_example_runs_and_survives_a_fault(tmp_path: Path, device: str) -> None:
    (example,) = re.findall(r"```python\n(.*?isolated.*?)```", PAGE.read_text(), re.DOTALL)
    script = tmp_path / "example.py"
    made = example.replace("Kernel(source)", f"Kernel(source, device={device!r})")
    assert made != example
    script.write_text(SOURCE + made + (FAULT if device == "sim" else "    print(x)\n"))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    if device == "sim":
        assert done.stdout.splitlines() == [
            "fault: read of 4 bytes past the end of `x`",
            "[4. 4. 4. 4. 4. 4. 4. 4.]",
        ]
    else:
        assert done.stdout.splitlines() == ["[2. 2. 2. 2. 2. 2. 2. 2.]"]
