"""Line numbers agree with the compiler's, although Python also splits lines at other characters."""

import numpy as np
import pytest

import coalesce
from coalesce.cxx.declarations import bare, lines_of


@pytest.mark.parametrize("ends_no_line", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_line_ends_of_python_only(ends_no_line):
    source = (
        f"// a{ends_no_line}b\n"
        '/* two\n   lines */ extern "C" __global__ void k(const float *x, float *y, int n) {\n'
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    float v = x[i % n] * 2;\n"
        "    y[i] = v;\n"
        "}\n"
    )
    given = (1, 32, np.ones(32, np.float32), np.zeros(64, np.float32), 32)
    kernel = coalesce.Kernel(source, "k", device="sim")
    p = kernel.profile(*given)
    (store,) = [a for a in p.accesses() if a.kind == "store"]
    assert (store.line, store.source.strip()) == (6, "y[i] = v;")
    assert "6 │ y[i] = v;" in p.to_text()
    assert ">y[i] = v;<" in p.to_html().replace("&nbsp;", "")
    stepper = kernel.step(*given)
    assert stepper.run_to(6)
    assert (stepper.line, stepper.text.strip()) == (6, "y[i] = v;")
    assert stepper.variables["v"][0] == 2  # the value of line 5, after a comment of two lines


def test_declarations_keep_their_lines():
    source = "a /* b\n c */ d\n#define E 1 + \\\n  2\nf // \\ g\n"
    text = bare(source)
    assert [line.split() for line in text.split("\n")] == [
        *(["a"], ["d"], ["#define", "E", "1", "+", "2"], [], ["f"], [])
    ]


def test_lines_end_as_on_every_system():
    assert lines_of("a\r\nb\n\nc") == ["a", "b", "", "c"]
    assert lines_of("a\n") == ["a"]


def test_messages_quote_a_line_without_its_end():
    source = 'extern "C" __global__ void k(int *x) {\r\n    x[99] = 1;\r\n}\r\n'
    kernel = coalesce.Kernel(source, "k", device="sim")
    with pytest.raises(coalesce.MemoryFault, match="line 2:   x\\[99\\] = 1;\n"):
        kernel[1, 1](np.zeros(8, np.int32))
