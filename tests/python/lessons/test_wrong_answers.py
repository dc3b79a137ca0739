"""Wrong answers to the exercises: each is refused, and the message names the mistake."""

import pytest

from coalesce import lessons
from coalesce.lessons import _exercises, _findings, _mistakes, _wrong_results

pytestmark = pytest.mark.usefixtures("on_simulator")


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setenv("COALESCE_DEVICE", "sim")


# A solution, a student's change to it, the stage at which the check stops, and the message.
WRONG = [
    ("add_arrays", "if (i < n) ", "", "check", "At the edge some threads have no element."),
    ("add_arrays", "blockIdx.x * blockDim.x + ", "", "check", "Several blocks compute the same"),
    ("add_arrays", "+ b[i]", "- b[i]", "result", "These are the differences."),
    ("add_arrays", "out[i] =", "out[i] +=", "result", "The kernel adds to what is in out"),
    (
        "distances",
        "    if (col >= n) return;\n",
        "",
        "check",
        "Which index of a thread is too large",
    ),
    ("add_arrays", "out[i] =", "out[i - 1] =", "check", "This index is negative."),
    ("add_arrays", "out[i] =", "out[0] =", "check", "Which variable tells a thread its block?"),
    ("add_arrays", "a[i] +", "a[i] / 0 +", "result", "1,000 elements are infinite."),
    ("add_arrays", "a[i] + b[i]", "(int)(a[i] + b[i])", "result", "The fractions are missing."),
    ("pair_means", "out[i] =", "out[i + 1] =", "check", "x has 2 * n elements, and out has n."),
    ("pair_means", "blockIdx.x * 256 + ", "", "check", "Several threads write the same element."),
    ("pad", "    __syncthreads();", "    ", "check", "What makes it wait?"),
    ("pad", "sums[t] =", "sums[0] =", "check", "Several threads write the same element."),
    ("tiled", "if (row < n && col < n) ", "", "check", "Several threads write the same element."),
    ("tiled", "= sum;", "= 0;", "result", "All elements are 0, as the tiles are beyond the edge."),
    ("transpose", "= tile[tx][ty]", "= 0", "result", "All elements are 0. Does the kernel store"),
    ("transpose", "    __syncthreads();", "    if (tx) return;", "check", "A thread reads what"),
    ("prefix", "if (i < n) out", "out", "check", "The index is too large for this thread."),
    (
        "row_means",
        "out[row] =",
        "out[0] =",
        "check",
        "Several lanes write the same element of out.",
    ),
    ("barriers", "] = sum;", "] = sum + 1;", "result", "Each element is 1 too large."),
    ("barriers", "] = sum;", "] = 2 * sum;", "result", "Each element is 2 times the right value."),
    ("which_warp", "(y * width + x) / 32", "x / 32", "result", "You divided x alone"),
    ("distances", "row < n", "true", "check", "Which index of a thread is too large"),
    ("distances", "+ 8 * r", "+ r", "check", "how far apart are the rows of a thread?"),
    ("distances", "fabsf(x[row] - own)", "x[row] - own", "result", "Distances are not negative"),
    ("distances", "r < 8", "r < 1", "result", "Only the first 8 of each 64 rows are computed."),
    ("distances", "- own)", "- y[col])", "counts", "2 load requests per store; at most 1.25"),
    ("votes", "> most", ">= most", "result", "take the smallest. When may `best` change?"),
    ("votes", "= best;\n}", "= most;\n}", "result", "The number itself is wanted."),
    ("votes", "j < 16", "j < 15", "result", "Only 15 of the 16 rows are counted."),
    (
        "count_positive",
        "&& i < n) counts",
        "&& i <= n) counts",
        "check",
        "At the edge some threads have no",
    ),
    ("count_positive", "x[i] > 0", "x[i] >= 0", "result", "Zeros are counted, too."),
    ("warp_sums", "&& i < n) out", "&& i <= n) out", "check", "At the edge some threads have no"),
    ("votes", "j < 16", "j < 17", "check", "ballots has 16 rows of n elements"),
    ("votes", "[k] += ballot == k", "[ballot] += k == 0", "counts", "uses local memory"),
    ("pad", "= 65", "= 72", "counts", "6.16 passes of L1 each"),
    ("pad", "= 65", "= 81", "check", "How long may a row be, if 64 rows must fit?"),
    ("pad", "= 65", "= 49", "check", "Rows of `room` overlap."),
    ("pad", "t * length + col", "col * length + t", "result", "These are the sums of the columns."),
    ("prefix", "__syncthreads();\n        part", "part", "check", "another thread changes"),
    ("prefix", "s < 256", "s < 128", "result", "Each sum has at most 128 elements."),
    ("prefix", "= part[t]", "= part[t] - x[i]", "result", "The element itself is missing"),
    ("prefix", "t >= s ? part[t - s] : 0", "part[t - s]", "check", "exists only for t >= s"),
    ("polar", "threadIdx.x < 128", "threadIdx.x % 2", "check", "Two threads write the same"),
    ("polar", "threadIdx.x % 128", "threadIdx.x / 2", "check", "Two threads write the same"),
    ("polar", "cosf(phi[i])", "sinf(phi[i])", "result", "x needs cos, and y needs sin."),
    ("polar", "out[n + i]", "out[i]", "check", "Two threads write the same element."),
    ("polar", "else", "if (false)", "result", "Only x is written."),
    ("count_positive", "i < n && x[i]", "x[min(i, n - 1)]", "result", "A lane without an element"),
    ("count_positive", "> 0)", "<= 0)", "result", "These are the other elements"),
    ("count_positive", "__popc(votes)", "votes", "result", "How many of the bits are 1?"),
    (
        "count_positive",
        "__ballot_sync(0xffffffff, i < n && x[i] > 0)",
        "i < n ? __ballot_sync(0xffffffff, x[i] > 0) : 0",
        "check",
        "Which condition can be a part of the vote instead?",
    ),
    ("count_positive", "0xffffffff", "0xffff", "check", "exactly the lanes that reach"),
    ("warp_sums", "__syncwarp();", "", "check", "after a barrier of the warp."),
    ("warp_sums", "s = 16", "s = 8", "result", "Only 16 of the 32 elements are in each sum."),
    (
        "thread_number",
        "(threadIdx.y + blockDim.y",
        "(threadIdx.y + blockDim.x",
        "result",
        "You multiplied z by the square of the width.",
    ),
    (
        "thread_number",
        "threadIdx.x + blockDim.x *",
        "1 + threadIdx.x + blockDim.x *",
        "result",
        "Your numbers begin at 1.",
    ),
    (
        "thread_number",
        "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)",
        "threadIdx.x + blockDim.x * threadIdx.y",
        "result",
        "All layers have the same numbers:",
    ),
    (
        "thread_number",
        "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)",
        "threadIdx.x + blockDim.x * threadIdx.y + blockDim.y * threadIdx.z",
        "result",
        "A step of z must pass a whole layer.",
    ),
    ("which_warp", "/ 32", "% 32", "result", "This is the lane, the remainder of the division by"),
    ("which_warp", "/ 32", "/ 64", "result", "You divided by 64."),
    ("which_warp", "(y * width + x) / 32", "(x * height + y) / 32", "result", "You let y run"),
    ("which_warp", "(y * width + x) / 32", "(y * width + x) / 8", "result", "You divided by 8,"),
    (
        "which_warp",
        "(y * width + x) / 32",
        "(y * width + x + 31) / 32",
        "result",
        "You rounded up.",
    ),
    ("copy_four", "j * 256", "j * 255", "check", "Two threads copy the same element."),
    ("copy_four", "j < 4", "j < 3", "result", "Only 3 of the four elements of each thread are"),
    ("copy_four", "= x[i]", "= x[i > 0 ? i - 1 : n - 1]", "result", "out[i] is x[i - 1]."),
    ("copy_four", "= x[i]", "= x[n - 1 - i]", "result", "The elements are in reverse order."),
    ("copy_four", "= x[i]", "= 2 * x[i]", "result", "Each element is 2 times the right value."),
    ("copy_four", "if (i < n) ", "", "check", "n is no multiple of 1024, so not every thread has"),
    ("copy_four", "blockIdx.x * 1024", "blockIdx.x * 256", "check", "Two threads copy the same"),
    ("pair_means", ") / 2", ")", "result", "A mean of two is half of the sum."),
    ("pair_means", "pair.y", "pair.x", "result", "Only the first element of each pair is used."),
    (
        "pair_means",
        "float2 pair = ((const float2*)x)[i];",
        "float2 pair = {x[i], x[i + 1]};",
        "result",
        "You paired x[i] with x[i + 1].",
    ),
    ("pair_means", "((const float2*)x)[i]", "((const float2*)x)[2 * i]", "check", "An index of a"),
    ("pair_means", "((const float2*)x)[i]", "*(const float2*)(x + i)", "check", "multiple of 8"),
    (
        "pair_means",
        "if (i >= n) return;\n    float2 pair = ((const float2*)x)[i];",
        "struct { float x, y; } pair = {x[2 * i], x[2 * i + 1]};",
        "check",
        "x has 2 * n elements, and out has n.",
    ),
    (
        "pair_means",
        "if (i >= n) return;\n    float2 pair = ((const float2*)x)[i];",
        "float4 pair = *(const float4*)(x + 2 * i);",
        "check",
        "A vector must begin at a multiple of its own size.",
    ),
    ("barriers", "__syncthreads();", "if (t % 2) __syncthreads();", "check", "inside an `if`"),
    ("row_means", "out[row] =", "out[row] +=", "result", "The kernel adds to what is in out"),
    ("row_means", "float sum = 0", "float sum = NAN", "result", "50 elements are nan"),
    ("thread_number", "[place] =", "[place] +=", "result", "The kernel adds to what is in out"),
    ("grey", "__syncthreads();", "", "check", "A thread reads what another one has stored."),
    ("grey", "j < 3 * 256; j += 256", "j < 256; j += 256", "check", "256 pixels are 768 floats."),
    ("grey", "__shared__ float tile[3 * 256]", "__shared__ float tile[256]", "check", "A pixel is"),
    ("crop", "col < width", "col < cols", "check", "Threads with col >= width write, too, and"),
    ("crop", "row * width + col", "row * cols + col", "check", "Rows of out have `width`"),
    ("crop", "image[row * cols + col]", "image[row * width + col]", "result", "You used the row"),
    ("product", "k < K", "k < 0", "result", "All elements are 0."),
    ("product", "b[k * N + col]", "b[col * K + k]", "result", "You read b by columns, with K"),
    ("product", "k < K", "k < N", "check", "Which index is too large here:"),
    ("product", "if (row >= M || col >= N) return;", "", "check", "Which index is too large here:"),
    ("gram", "out[i * N + j]", "out[j * N + (i + 1) % N]", "result", "out[i, j] is the product of"),
    (
        "gram",
        "x[k * N + i] * x[k * N + j]",
        "x[k * N + j] * x[k * N + j]",
        "result",
        "Both factors come from column j.",
    ),
    ("gram", "k < K", "k < N", "check", "x has K rows and N columns."),
    ("gram", "x[k * N + i]", "x[i * K + k]", "result", "You read x as N rows of K elements"),
    ("gram", "x[k * N + j]", "x[j * K + k]", "result", "You read x as N rows of K elements"),
    ("gram", "x[k * N + i] * x[k * N + j]", "x[i * K + k] * x[j * K + k]", "result", "You read x"),
    ("gram", "x[k * N + i]", "x[k * K + i]", "result", "a step of k passes K elements."),
    ("barriers", "        __syncthreads();\n        for", "        for", "check", "A tile is"),
    (
        "barriers",
        "sum += tile[j];\n        __syncthreads();",
        "sum += tile[j];",
        "check",
        "A tile is stored by all threads and read by all threads.",
    ),
    (
        "barriers",
        "for (int j = 0; j < 256",
        "sum = 0; for (int j = 0; j < 256",
        "result",
        "Only the last 256 elements are in the sum.",
    ),
    (
        "barriers",
        "__syncthreads();\n        for",
        "__syncwarp();\n        for",
        "check",
        "A tile is stored by all threads and read by all threads.",
    ),
    ("tiled", "k < 16", "k < 15", "result", "The last step of each tile is missing in the sums."),
    ("tiled", "k0 < n", "k0 < n - 15", "result", "The last tile is missing in the sums:"),
    (
        "tiled",
        "sum += a_tile[ty][k] * b_tile[k][tx]",
        "sum = a_tile[ty][k] * b_tile[k][tx]",
        "result",
        "Does the sum grow, or is it replaced?",
    ),
    (
        "tiled",
        "sum += a_tile[ty][k] * b_tile[k][tx]",
        "sum += a_tile[ty][k] * b_tile[tx][k]",
        "result",
        "The tile of b is transposed:",
    ),
    (
        "tiled",
        "    float sum = 0;",
        "    if (row >= n || col >= n) return;\n    float sum = 0;",
        "check",
        "This element of the tile was never stored.",
    ),
    (
        "tiled",
        "    float sum = 0;",
        "    if (row >= n || col >= n) return;\n    float sum = 0;",
        "check",
        "Your kernel has a `return` before __syncthreads().",
    ),
    (
        "tiled",
        """    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += 16) {
        a_tile[ty][tx] = row < n && k0 + tx < n ? a[row * n + k0 + tx] : 0;
        b_tile[ty][tx] = k0 + ty < n && col < n ? b[(k0 + ty) * n + col] : 0;""",
        """    if (row >= n || col >= n) return;
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += 16) {
        a_tile[ty][tx] = a[row * n + k0 + tx];
        b_tile[ty][tx] = b[(k0 + ty) * n + col];""",
        "check",
        "must their index meet? Your kernel has a `return` before __syncthreads().",
    ),
    ("corner", "[33]", "[40]", "counts", "2-way bank conflict:"),
    ("corner", "b_tile[32][33]", "b_tile[33][32]", "counts", "neighbouring lanes are 32 words"),
    ("corner", "b_tile[ty][tx] = bcol", "b_tile[tx][ty] = bcol", "result", "The tile of b is"),
    (
        "transpose",
        "out[out_row * rows + out_col]",
        "out[out_row + out_col * cols]",
        "result",
        "The result is the image itself.",
    ),
    ("transpose", "tile[tx][ty]", "tile[ty][tx]", "check", "No thread has stored this element:"),
    ("transpose", "[33]", "[32]", "counts", "neighbouring lanes are 32 words apart"),
    (
        "transpose",
        "out_row = blockIdx.x * 32 + ty, out_col = blockIdx.y * 32 + tx",
        "out_row = blockIdx.y * 32 + ty, out_col = blockIdx.x * 32 + tx",
        "check",
        "No thread has stored this element:",
    ),
    ("transpose", "    __syncthreads();", "", "check", "A thread reads what another one has"),
    ("swizzle", "[ty ^ tx]", "[ty]", "result", "Only one of the two accesses to the tile is"),
    ("swizzle", "tile[32][32]", "tile[32][33]", "counts", "Padding makes the tile larger"),
    ("swizzle", "^ ty]", "+ ty]", "check", "A row of the tile has 32 columns."),
    ("swizzle", "^ ty", "^ (ty / 2)", "result", "The values are right, but in the wrong places."),
    ("mirror", "cols - 1 - col", "col", "result", "This is the image itself."),
    ("mirror", "image[row", "image[(rows - 1 - row)", "result", "The result is upside down:"),
    ("mirror", "cols - 1 - col", "cols - col", "check", "Column 0 of out takes column cols - 1 of"),
    ("mirror", "image[row * cols", "image[row * rows", "result", "You multiplied the row by"),
    ("row_means", "sum / cols", "sum", "result", "These are the sums of the rows."),
    ("row_means", "step = 16", "step = 8", "result", "Only the parts of 16 lanes are in the mean."),
    ("row_means", "col += 32", "col += 1", "result", "With a step of 1, several lanes add the"),
    ("row_means", "if (threadIdx.x == 0) ", "", "check", "Several lanes write the same element of"),
    ("row_means", "sum / cols", "sum / 32", "result", "You divided by 32, the number of lanes."),
    (
        "row_means",
        "sum += __shfl_down_sync(0xffffffff, sum, step)",
        "sum += 0",
        "result",
        "Only the part of lane 0 is in the mean.",
    ),
    ("block_sums", "int s = 128", "int s = 64", "result", "Only the first 128 of 256 elements are"),
    ("block_sums", "if (t < s) ", "", "check", "part has 256 elements."),
    ("block_sums", "s > 0", "s > 1", "result", "Half of the elements are missing:"),
    ("block_sums", "        __syncthreads();\n", "", "check", "A thread adds an element that"),
    ("column_max", "row += 8", "row += 16", "result", "A warp moves on by 16 rows, so rows are"),
    ("column_max", "-INFINITY", "0", "result", "A column with negative elements only has the"),
    ("column_max", "j < 8", "j < 1", "result", "Only 1 of the 8 parts of each column is compared."),
    ("column_max", "    __syncthreads();\n", "", "check", "A thread reads what another one has"),
    (
        "double_all",
        "stride = gridDim.x * blockDim.x",
        "stride = gridDim.x",
        "check",
        "Several threads double the same elements.",
    ),
    (
        "double_all",
        "stride = gridDim.x * blockDim.x",
        "stride = blockDim.x",
        "check",
        "Several threads double the same elements.",
    ),
    ("double_all", "2 * x[i]", "x[i] * x[i]", "result", "Each element is squared."),
    ("untiled", "k < 16", "k < 8", "result", "The second half of each tile is missing in the"),
    (
        "untiled",
        "b[(tile * 16 + k) * n + col]",
        "b[col * n + tile * 16 + k]",
        "result",
        "b is taken as its transpose:",
    ),
    (
        "histogram",
        "    __syncthreads();\n    if (threadIdx.x < 64) at",
        "    at",
        "check",
        "There are 64 bins and 256 threads.",
    ),
    ("histogram", "    if (threadIdx.x < 64) mine[threadIdx.x] = 0;\n", "", "check", "is not 0 at"),
    (
        "histogram",
        "atomicAdd(&mine[values[i]], 1)",
        "mine[values[i]]++",
        "check",
        "Several threads count in the same element.",
    ),
    ("histogram", "    if (threadIdx.x < 64) at", "    at", "check", "There are 64 bins and 256"),
    ("histogram", "i += gridDim.x * 256", "i += 256", "result", "Several blocks count the same"),
    (
        "histogram",
        "i = blockIdx.x * 256 + ",
        "i = ",
        "result",
        "With which i does each block begin",
    ),
    ("histogram", "i < n;", "i <= n;", "check", "At the edge some threads have no element."),
    ("polar", "blockIdx.x * 128 + ", "", "check", "Each block has 128 points of its own"),
    ("register_tile", "t / 16 * 4, col", "t / 16, col", "check", "Two threads compute the same"),
    ("register_tile", "k < 16", "k < 15", "result", "The last step of each tile is missing in the"),
    ("register_tile", "t % 16 * 4;", "t % 16;", "check", "Two threads compute the same element:"),
    (
        "register_tile",
        "row = t / 16 * 4, col = t % 16 * 4",
        "row = t % 16 * 4, col = t / 16 * 4",
        "counts",
        "the lanes of a warp read many rows of a tile at once",
    ),
    ("turned_tile", "[66]", "[65]", "counts", "2-way bank conflict"),
    ("turned_tile", "[66]", "[68]", "counts", "2-way bank conflict"),
    ("turned_tile", "[66]", "[80]", "counts", "bank conflict"),
    ("brighten", "int row = i / cols", "int row = rows - 1 - i / cols", "check", "is negative."),
    ("brighten", "row < rows", "col < cols", "check", "At the edge some threads have no element."),
    ("brighten", "gain * image", "gain + image", "result", "The gain is added."),
    ("rotate", "rows - 1 - from", "from", "result", "The image is transposed, not turned:"),
    ("rotate", "rows - 1 - from", "rows - from", "check", "out has `cols` rows and `rows`"),
    ("rotate", "tile[31 - tx][ty]", "tile[tx][ty]", "check", "No thread has stored this element,"),
    ("smooth", "j < 17", "j < 16", "result", "The last element of the window is missing."),
    ("smooth", "sum / 17", "sum / 16", "result", "You divided by 16."),
    ("smooth", "- 8;", ";", "result", "Your window begins at element i."),
    ("smooth", "j < 256 + 16; j += 256", "j < 256; j += 256", "check", "and 8 at each end, and it"),
    (
        "smooth",
        "x[min(max(first + j, 0), n - 1)]",
        "first + j >= 0 && first + j < n ? x[first + j] : 0",
        "result",
        "You added zeros beyond the ends.",
    ),
]


@pytest.mark.parametrize(("name", "right", "wrong", "stage", "says"), WRONG)
def test_a_wrong_answer_does_not_pass_and_the_mistake_is_named(name, right, wrong, stage, says):
    one = lessons.exercise(name)
    assert right in one.solution
    verdict = one.check(one.solution.replace(right, wrong, 1))
    assert verdict.stage == stage, str(verdict)
    assert says in " ".join(verdict.text.split()), str(verdict)


@pytest.mark.parametrize("seed", [1, 2**31, 12345])
def test_wrong_answers_do_not_pass_with_other_numbers(seed):
    """`coalesce grade` draws new numbers each time. None may hide a mistake."""
    passed = []
    with _exercises.seeded(seed):
        for name, right, wrong, stage, _ in WRONG:
            one = lessons.exercise(name)
            if stage in ("result", "counts") and one.check(one.solution.replace(right, wrong, 1)):
                passed.append((name, right, wrong))
    assert not passed


def test_a_prefix_sum_of_quadratic_work_does_not_pass():
    quadratic = """
__global__ void prefix(const float* x, float* out, int n) {
    __shared__ float part[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    part[t] = i < n ? x[i] : 0;
    __syncthreads();
    float sum = 0;
    for (int j = 0; j <= t; ++j) sum += part[j];
    if (i < n) out[i] = sum;
}"""
    verdict = lessons.exercise("prefix").check(quadratic)
    assert verdict.stage == "counts"
    assert "a warp executes 336 instructions on average; at most 150 are allowed" in verdict.text


def test_each_failure_leads_to_a_later_hint(monkeypatch):
    monkeypatch.setattr(_exercises, "_failures", {})
    one = lessons.exercise("which_warp")
    helps = [one.check(one.source).help for _ in range(3)]
    calls = [".hint(1)", ".hint(2)", ".solution"]
    assert helps == [f"lessons.exercise('which_warp'){call}" for call in calls]
    assert f"Help: {helps[2]}" not in str(one.check(one.solution))
    assert str(one.check(one.source)).endswith(".solution")


@pytest.mark.parametrize("one", lessons.exercises(), ids=lambda one: one.name)
def test_known_mistakes_give_wrong_results_of_the_right_size(one):
    case = one._make(False)
    for sentence, result in _mistakes.results(one.name, case.arguments, case.expected):
        assert result.size == case.expected.size, sentence
        assert not _wrong_results.close(result.ravel(), case.expected.ravel()).all(), sentence


def test_mistakes_belong_to_exercises():
    names = {one.name for one in lessons.exercises()}
    assert set(_mistakes._RESULTS) <= names
    assert set(_findings.FINDINGS) <= names
