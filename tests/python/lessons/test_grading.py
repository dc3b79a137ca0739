"""`coalesce grade` checks files of students, and does not trust them."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from coalesce import cli, lessons
from coalesce.lessons import grading

pytestmark = pytest.mark.usefixtures("on_simulator")

BRIGHTEN = lessons.exercise("brighten")
SOLUTIONS = Path(grading.__file__).parent / "sources" / "solutions"
FILE = SOLUTIONS / "lesson_8" / "brighten.cu"
HEAD = (
    "__global__ void brighten(const float* image, float* out, int rows, int cols, float gain) {\n"
)


def graded(tmp_path, source, name="brighten", **options):
    file = tmp_path / "submission.cu"
    file.write_text(source)
    (grade,) = grading.grade(file, names=[name], **options)["exercises"]
    return grade


def notebook(*cells):
    made = [{"cell_type": "code", "source": cell, "outputs": [], "metadata": {}} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def test_solutions_and_starting_points(tmp_path):
    """The file of a whole lesson: each exercise is found by the name of its kernel."""
    of_lesson = [one for one in lessons.exercises() if one.lesson == 8]
    for kind, solved in (("solution", 3), ("source", 0)):
        file = tmp_path / f"{kind}.ipynb"
        file.write_text(notebook("1 / 0", *(f"%%cuda\n{getattr(e, kind)}" for e in of_lesson)))
        result = grading.grade(file)
        assert (result["solved"], result["of"]) == (solved, 3), result
    assert [each["stage"] for each in result["exercises"]] == ["counts"] * 3


def test_the_last_cell_with_the_kernel_counts(tmp_path):
    """As if the cells had run in order. A kernel in a comment is none."""
    file = tmp_path / "submission.ipynb"
    comment = "".join(f"// {line}\n" for line in BRIGHTEN.source.splitlines())
    for last, stage in ((BRIGHTEN.source, "counts"), (BRIGHTEN.solution, "solved")):
        first = BRIGHTEN.solution if stage == "counts" else BRIGHTEN.source
        after = f"%%cuda\n{comment}__global__ void other() {{}}"
        file.write_text(notebook(f"%%cuda\n{first}", f"\n%%cuda -D X=1\n{last}", after))
        (grade,) = grading.grade(file)["exercises"]
        assert grade["stage"] == stage


@pytest.mark.parametrize("seed", [1, 2**31])
def test_a_solution_passes_with_any_numbers(seed):
    with grading._exercises.seeded(seed):
        assert [one.name for one in lessons.exercises() if not one.check(one.solution)] == []


def test_a_submission_that_is_no_file_is_named(tmp_path):
    """To read from a pipe would take forever."""
    pipe = tmp_path / "pipe.cu"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        assert grading.grade(path)["error"] == "a submission must be a file"


def test_a_wrong_task_is_refused_before_it_is_blamed_on_a_student():
    x, out = np.ones(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match=r"`expected` must have the shape of `out`, \(4,\)"):
        lessons.Case(1, 4, (x, out), out, x[:2])
    with pytest.raises(ValueError, match="`out` must be one of `arguments`"):
        lessons.Case(1, 4, (x, out.copy()), out, x)

    def four(_):
        "A case."
        return lessons.Case(1, 4, (x, out), out, x)

    with pytest.raises(TypeError, match="`limits"):
        lessons.task(four, {"smsp__inst_executed.sum": "9"})


INCLUDES = {
    "quotes": f'#include "{FILE}"',
    "angles": f"#include <{FILE}>",
    "digraph": f'%:include "{FILE}"',
    "joined lines": f'#inc\\\nlude "{FILE}"',
    "macro": f'#define F "{FILE}"\n#include F',
    "comment": f'# /* x */ include "{FILE}"',
    "comment after": f'#include/**/"{FILE}"',
    "next": f'#include_next "{FILE}"',
    "raw string": f'const char* s = R"(/*)"; \n#include "{FILE}"\n//*/',
    "up": f"#include <cuda/../../../../../../../../../..{FILE}>",
    "beside cuda": f'#include <cuda_fp16.h>\n#include "{FILE}"',
}


@pytest.mark.parametrize("source", INCLUDES.values(), ids=INCLUDES.keys())
def test_a_solution_cannot_be_included(tmp_path, source):
    grade = graded(tmp_path, f"{source}\n#if 0\n{HEAD}}}\n#endif\n")
    assert (grade["solved"], grade["stage"]) == (False, "source")
    assert "only headers of CUDA can be included" in grade["text"]


def test_headers_of_cuda_can_be_included(tmp_path):
    headers = "#include <cuda_fp16.h>\n # include <cooperative_groups/reduce.h>\n"
    assert graded(tmp_path, headers + BRIGHTEN.solution)["solved"]


_INDEX = "int i = blockIdx.x * 256 + threadIdx.x; if (i >= rows * cols) return;\n"
_STRIDED = (
    "int r = i % rows, c = i / rows; float v = gain * image[r * cols + c]; out[r * cols + c] = v;"
)
DISHONEST = {
    "prints JSON": (
        'printf("{\\"solved\\": true, \\"stage\\": \\"solved\\", \\"text\\": \\"\\"}\\n");'
        + _INDEX
        + _STRIDED,
        "counts",
    ),
    "loops": ("for (volatile int i = 0; i >= 0;) i = 0;", "time"),
    "waits": ("for (;;) __nanosleep(1000000);", "time"),
    "exits": ('asm volatile("exit;");', "result"),
    "traps": ("__trap();", "check"),
    "reads past its arrays": ("out[0] = image[1 << 20];", "check"),
    "much memory": ("volatile char much[1 << 30]; much[threadIdx.x] = 1;", "source"),
}


@pytest.mark.parametrize(("body", "stage"), DISHONEST.values(), ids=DISHONEST.keys())
def test_a_dishonest_kernel_gets_nothing(tmp_path, body, stage):
    grade = graded(tmp_path, f"#include <cstdio>\n{HEAD}{body}\n}}\n", seconds=1)
    assert (grade["solved"], grade["stage"]) == (False, stage), grade


KEPT = """
__device__ float kept[1 << 20];
__device__ int kept_elements;
__global__ void smooth(const float* x, float* out, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    if (kept_elements == n) { out[i] = kept[i]; return; }
    float sum = 0;
    for (int j = -8; j <= 8; ++j) sum += x[min(max(i + j, 0), n - 1)];
    out[i] = kept[i] = sum / 17;
    if (i == n - 1) kept_elements = n;
}
"""


def test_accesses_that_no_limit_counts(tmp_path):
    """Copies and atomics are no loads and stores, and padding cannot be hidden in a macro."""
    copies = """
#include <cuda_pipeline.h>
__global__ void mirror(const float* image, float* out, int rows, int cols) {
    __shared__ float s[256];
    int t = threadIdx.y * 16 + threadIdx.x;
    int col = blockIdx.y * 16 + threadIdx.y, row = blockIdx.x * 16 + threadIdx.x;
    if (row >= rows || col >= cols) return;
    __pipeline_memcpy_async(&s[t], &image[row * cols + cols - 1 - col], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    atomicExch(&out[row * cols + col], s[t]);
}
"""
    grade = graded(tmp_path, copies, "mirror")
    assert grade["text"].count("do not count this kind of access") == 2
    padded = lessons.exercise("swizzle").solution.replace("float tile[32][32];", "TILE")
    padded = f"#define TILE float tile[32][33];\n{padded}"
    assert "4,224 bytes; at most 4,096" in graded(tmp_path, padded, "swizzle")["text"]


def test_a_kernel_cannot_keep_the_result_of_the_run_before(tmp_path):
    grade = graded(tmp_path, KEPT, "smooth")
    assert not grade["solved"]


BOMBS = {
    "templates": "template<int n> struct S { S<n + 1> next; }; S<0> s;",
    "macros": "".join(f"#define A{n + 1} A{n} A{n} A{n} A{n}\n" for n in range(20))
    + "#define A0 +1\nint x = 0 A20;\n",
    "constexpr": "constexpr int f(int n) { return n < 2 ? 1 : f(n - 1) + f(n - 2); }"
    " __device__ int x[f(40)];",
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_source_that_keeps_the_compiler_busy(tmp_path, bomb):
    assert not graded(tmp_path, f"{bomb}\n{HEAD}}}\n", seconds=1)["solved"]


def test_python_in_a_notebook_is_not_executed(tmp_path):
    """A notebook that fetches the solution, changes the grader, or ends early."""
    mark = tmp_path / "mark"
    file = tmp_path / "submission.ipynb"
    file.write_text(
        notebook(
            f"open({str(mark)!r}, 'w')",
            "from coalesce import lessons, Kernel\nlessons.Exercise.check = lambda *_: True",
            "brighten = Kernel(lessons.exercise('brighten').solution, 'brighten')",
            f"%%cuda\n{BRIGHTEN.source}",
            "import os\nos._exit(0)",
            f"%%cuda --option -I{FILE.parent}\n#include <brighten.cu>\n",
        )
    )
    (grade,) = grading.grade(file)["exercises"]
    assert (grade["exercise"], grade["stage"]) == ("brighten", "counts")
    assert not mark.exists()


def test_modules_beside_a_submission_are_not_imported(tmp_path, monkeypatch):
    for name in ("numpy", "resource", "coalesce"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    assert graded(tmp_path, BRIGHTEN.solution)["solved"]


PAGE = Path(__file__).parents[3] / "docs" / "teaching.md"
TASKS = PAGE.read_text(encoding="utf-8").split("```python")[1].partition("```")[0]
TRIPLE = """
__global__ void triple(const float* x, float* out, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) out[i] = x[i] + x[i] + x[i];
}
"""


@pytest.mark.parametrize(
    ("source", "stage", "text"),
    [
        (TRIPLE, "solved", "256 requests of 4 sectors"),
        (TRIPLE.replace("+ x[i] +", "+"), "result", "out[0] is"),
        (TRIPLE.replace("= x[i]", "= x[n - 1 - i] - x[n - 1 - i] + x[i]"), "counts", "is 2,048;"),
        (TRIPLE.replace("i < n", "i <= n"), "check", "past the end of `x`"),
        (TRIPLE.replace(", int n", "").replace("i < n", "i < 0"), "source", "for 3 arguments"),
        ("", "missing", "no kernel of this name"),
    ],
)  # fmt: skip
def test_tasks_of_a_teacher(tmp_path, source, stage, text):
    tasks = tmp_path / "tasks.py"
    tasks.write_text(TASKS)
    grade = graded(tmp_path, source, "triple", tasks=tasks)
    assert grade["stage"] == stage, grade
    assert text in grade["text"]


@pytest.mark.parametrize(
    ("metric", "stage", "text"),
    [
        ("smsp__inst_executed_op_shared_ld.sum", "solved", ""),  # there are none
        ("gld_efficiency", "task", "nvprof's name"),
    ],
)
def test_limits_of_tasks_are_metrics(tmp_path, metric, stage, text):
    tasks = tmp_path / "tasks.py"
    tasks.write_text(TASKS.replace("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", metric))
    grade = graded(tmp_path, TRIPLE, "triple", tasks=tasks)
    assert grade["stage"] == stage
    assert text in grade["text"]


def test_the_command(tmp_path, capsys):
    file, data = tmp_path / "[bold]submission.cu", tmp_path / "grades.json"
    file.write_text(lessons.exercise("copy_four").solution)
    command = ["grade", str(file), "--lesson", "1", "--json", str(data), "--seed", "5"]
    assert cli.main(command) == 1
    out = capsys.readouterr().out
    assert f"{file}: 1 of 2 solved" in " ".join(out.split())
    assert "pair_means  missing  the file has no kernel of this name" in out
    (result,) = json.loads(data.read_text())
    assert (result["solved"], result["of"], result["seed"]) == (1, 2, 5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.py", "", "a submission must be a .cu file or a notebook"),
        ("a.ipynb", "[1", "is no notebook of version 4"),
        ("a.ipynb", '{"cells": [3]}', "is no notebook of version 4"),
        ("a.ipynb", "[" * 100_000, "is no notebook of version 4"),
        ("a.cu", "int x;", "there is no kernel of an exercise"),
        ("a.cu", None, "No such file"),
    ],
)
def test_files_that_are_no_submissions(tmp_path, capsys, name, content, message):
    """The other files are graded all the same."""
    if content is not None:
        (tmp_path / name).write_text(content)
    right = tmp_path / "right.cu"
    right.write_text(BRIGHTEN.solution)
    assert cli.main(["grade", str(tmp_path / name), str(right)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert message in out
    assert "right.cu: 1 of 1 solved" in out


def test_mistakes_in_a_file_of_tasks(tmp_path, capsys):
    (tmp_path / "tasks.py").write_text("tasks = 3")
    command = ["grade", "a.cu", "--tasks", str(tmp_path / "tasks.py")]
    assert cli.main(command) == 1
    assert "must define a list `tasks`" in capsys.readouterr().err
    with pytest.raises(TypeError, match=r"must return a lessons\.Case; it returned NoneType"):
        lessons.task({}.get, {})
    with pytest.raises(TypeError, match="must be a function that returns a Case; got int 3"):
        lessons.task(3, {})
