"""coalesce.matmul: every variant compared with NumPy in float64, and its options."""

import functools
from types import SimpleNamespace

import numpy as np
import pytest

import coalesce
from coalesce import catalogue
from coalesce.catalogue import best

VARIANTS = [v.name for v in coalesce.variants("matmul") if not v.hopper]
TENSOR_CORES = {"bf16": 2.0**-8, "tf32": 2.0**-11}  # the rounding error of the operands
HOPPER = [v.name for v in coalesce.variants("matmul") if v.hopper]
SHAPES = [  # M, N, K
    (1, 1, 1),
    (32, 32, 32),
    (64, 32, 96),
    (33, 31, 17),
    (1, 70, 5),
    (70, 1, 5),
    (5, 3, 100),
    (8, 40, 1),
    (0, 4, 3),
    (4, 0, 3),
    (4, 5, 0),
    (0, 0, 0),
]


def operands(random, m, n, k, dtype):
    return random.normal(size=(m, k)).astype(dtype), random.normal(size=(k, n)).astype(dtype)


def assert_product(result, a, b, alpha=1.0, beta=0.0, c=None):
    """Check each element: its error is at most what rounding K products can cause."""
    exact = alpha * (a.astype(np.float64) @ b.astype(np.float64))
    bound = abs(alpha) * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    if beta:
        exact = exact + beta * c.astype(np.float64)
        bound = bound + np.abs(beta * c.astype(np.float64))
    eps = np.finfo(a.dtype).eps
    assert result.shape == exact.shape
    assert result.dtype == a.dtype
    np.testing.assert_array_less(
        np.abs(result - exact), 4 * eps * np.sqrt(a.shape[1] + 1) * bound + 1e-300
    )


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("variant", VARIANTS)
def test_product(variant, shape, dtype, device, random):
    a, b = operands(random, *shape, dtype)
    assert_product(coalesce.matmul(a, b, variant=variant, device=device), a, b)


def test_grids_beyond_65535_blocks_on_y(device, random):
    """The product has more rows of blocks than the y axis of a grid allows."""
    rows = 65536 * 8 + 5
    a = random.integers(-3, 4, (rows, 2)).astype(np.float32)
    b = random.integers(-3, 4, (2, 3)).astype(np.float32)
    for variant in ("naive_2d", "tiled"):
        np.testing.assert_array_equal(
            coalesce.matmul(a, b, variant=variant, tile=8, device=device), a @ b
        )
    np.testing.assert_array_equal(
        coalesce.matmul(b.T, a.T, variant="naive", tile=8, device=device), (a @ b).T
    )


# ---- alpha, beta, c ----


@pytest.mark.parametrize("variant", VARIANTS)
def test_c_is_not_read_when_beta_is_zero(variant, device, random):
    a, b = operands(random, 10, 10, 4, np.float32)
    c = np.full((10, 10), np.nan, np.float32)
    assert_product(coalesce.matmul(a, b, variant=variant, c=c, device=device), a, b)


def test_a_and_b_are_not_read_when_alpha_is_zero(device):
    a = np.full((3, 4), np.nan, np.float32)
    c = np.arange(6, dtype=np.float32).reshape(3, 2)
    result = coalesce.matmul(a, a.T[:, :2], alpha=0, beta=2, c=c, device=device)
    np.testing.assert_array_equal(result, 2 * c)


def test_nan_and_infinity_propagate(device):
    a = np.ones((40, 40), np.float32)
    b = np.ones((40, 40), np.float32)
    a[3, 7], a[5, 0] = np.nan, np.inf
    for variant in VARIANTS:
        result = coalesce.matmul(a, b, variant=variant, device=device)
        assert np.isnan(result[3]).all()
        assert np.isposinf(result[5]).all()
        assert np.isfinite(np.delete(result, [3, 5], axis=0)).all()


# ---- layouts and out ----


def test_out_may_partly_overlap_an_operand(device, random):
    base = random.normal(size=(50, 20)).astype(np.float32)
    a, b, out = base[:20], base[20:40], base[10:30]
    before = a.copy(), b.copy()
    assert_product(coalesce.matmul(a, b, out=out, device=device), *before)


# ---- timing ----


def test_timing(device, random):
    a, b = operands(random, 64, 64, 64, np.float32)
    result, timing = coalesce.matmul(a, b, return_timing=True, device=device)
    assert_product(result, a, b)
    assert timing.kernel_ms > 0
    assert timing.source == ("modelled" if device == "sim" else "measured")
    assert timing.device.startswith(device)
    assert timing.runs >= 1
    assert timing.gflops == pytest.approx(2 * 64**3 / timing.kernel_ms / 1e6)
    assert timing.gbps == pytest.approx(3 * 64 * 64 * 4 / timing.kernel_ms / 1e6)
    assert timing.source in repr(timing)


def test_timing_includes_the_transposition(device, random):
    a, b = operands(random, 64, 64, 64, np.float32)
    _, timing = coalesce.matmul(a, b, variant="transposed_b", return_timing=True, device=device)
    assert [name for name, _ in timing.parts] == ["padded", "transposed_b"]
    assert timing.kernel_ms == pytest.approx(sum(ms for _, ms in timing.parts))
    _, timing = coalesce.matmul(
        a, np.asfortranarray(b), variant="transposed_b", return_timing=True, device=device
    )
    assert [name for name, _ in timing.parts] == ["transposed_b"]


def test_timing_of_nothing(device):
    a = np.empty((0, 3), np.float32)
    _, timing = coalesce.matmul(a, a.T, return_timing=True, device=device)
    assert timing.kernel_ms == timing.gflops == timing.gbps == 0


# ---- errors ----

A = np.ones((2, 3), np.float32)
B = np.ones((3, 4), np.float32)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (
            (A.astype(int), B),
            {},
            TypeError,
            r"`a` has dtype int64; matmul\(\) takes float32 or float64",
        ),
        ((A, B.astype(np.float16)), {}, TypeError, "`b` has dtype float16"),
        (
            (A, B.astype(np.float64)),
            {},
            TypeError,
            "`a` has dtype float32 and `b` has dtype float64",
        ),
        ((A[0], B), {}, ValueError, r"`a` must have 2 dimensions \(M, K\); got shape \(3,\)"),
        ((A, B[None]), {}, ValueError, r"`b` must have 2 dimensions \(K, N\); got shape \(1, "),
        ((A, A), {}, ValueError, r"`a` has shape \(2, 3\) and `b` has shape \(2, 3\)"),
        ((A, B), {"variant": "tield"}, ValueError, "'tield'; did you mean 'tiled'"),
        ((A, B), {"variant": "xyz"}, ValueError, "The known names are naive, naive_2d"),
        ((A, B), {"tile": 12}, ValueError, "`tile` must be one of 8, 16, 32; got 12"),
        ((A, B), {"beta": 1}, ValueError, "`c` is missing: `beta` is 1"),
        (
            (A, B),
            {"c": B},
            ValueError,
            r"`c` has shape \(3, 4\); it .* result, \(M, N\) = \(2, 4\)",
        ),
        (
            (A, B),
            {"c": np.ones((2, 4))},
            TypeError,
            "`a` has dtype float32 and `c` has dtype float64",
        ),
        ((A, B), {"out": B}, ValueError, r"`out` has shape \(3, 4\); .* \(2, 4\)"),
        ((A, B), {"out": np.ones((2, 4))}, TypeError, "`out` has dtype float64"),
        ((A, B), {"out": np.broadcast_to(A[:1, :1], (2, 4))}, ValueError, "`out` is read-only"),
    ],
)
def test_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        coalesce.matmul(*arguments, **{"device": "sim", **options})


@pytest.mark.parametrize("variant", VARIANTS)
def test_wide_indices(variant, device, random, monkeypatch):
    """Matrices that 32-bit indices cannot reach use the kernels with INDEX=size_t."""
    monkeypatch.setattr("coalesce.catalogue.products._MOST_INT", 10)
    a, b = random.random((33, 17), np.float32), random.random((17, 40), np.float32)
    result = coalesce.matmul(a, b, variant=variant, device=device)
    np.testing.assert_allclose(result, a @ b, rtol=1e-5)


# ---- variants that need Hopper, and "best" ----


@pytest.fixture
def hopper(device):
    """Skip the test if there is no GPU of compute capability 9.0 or newer."""
    if device != "cuda" or coalesce.devices()[0].compute_capability < (9, 0):
        pytest.skip("needs a GPU of compute capability 9.0")
    return device


FORMS = best.constants().forms


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.tile}-{form.parts}")
@pytest.mark.parametrize(
    ("shape", "slices"),
    [
        ((33, 70, 1100), 3),
        ((64, 132, 48), 1),
        ((130, 40, 65), 2),
        ((1, 1, 1), 1),
        ((65, 129, 17), 1),
    ],
)
def test_products_of_parts_of_k(form, shape, slices, random, monkeypatch):
    """The groups of a block, the blocks of a cluster, and slices add up to the product."""
    monkeypatch.setattr(best, "division", lambda *_: (form.parts, slices))
    a, b = operands(random, *shape, np.float32)
    c = random.normal(size=shape[:2]).astype(np.float32)
    product = functools.partial(
        coalesce.matmul, a, b, variant="split_k", tile=form.tile, device="sim"
    )
    assert_product(product(c=np.full_like(c, np.nan)), a, b)
    assert_product(product(alpha=-1.5, beta=0.25, c=c), a, b, -1.5, 0.25, c)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.tile}-{form.parts}")
def test_the_model_and_the_launch_agree(form):
    """The model of "best" computes blocks as the geometry of the launch does."""
    entry = catalogue.find("matmul", "split_k")
    assert form.tile in entry.tiles
    rows, cols, cluster, _ = best._tile_of(form.tile, form.parts)
    grid, _, _ = entry.launch(3 * rows, 5 * cols, tile=form.tile, parts=form.parts, slices=2)
    assert grid == (5 * cluster * 2, 3, 1)


@pytest.mark.parametrize("tile", [0, 32, 64, 128])
def test_divisions_of_k_have_work(tile, random):
    """No group of a block has a slice without steps of k, whatever the shape."""
    for m, n, k in np.exp(random.uniform(0, np.log(100_000), (200, 3))).astype(int).tolist():
        time, chosen, parts, slices = best._divided(m, n, k, tile, 132)
        assert time > 0
        assert tile in (0, chosen)
        rows, cols, cluster, stage = best._tile_of(chosen, parts)
        assert slices == 1 or slices * stage * cluster <= k
        (resident,) = {f.resident for f in FORMS if (f.tile, f.parts) == (chosen, parts)}
        blocks = -(-m // rows) * -(-n // cols) * cluster * slices
        assert slices == 1 or blocks <= 2 * resident * 132


def test_the_profile_is_that_of_the_product(random):
    """The profile is not that of the kernel that adds up the slices."""
    a, b = operands(random, 33, 70, 1100, np.float32)
    profile = coalesce.profile("matmul", a, b, variant="split_k", tile=32)
    assert "split_k" in profile.title
    assert [other.kernel for other in profile.preparation] == ["add_slices"]
    assert "The call also ran layout" in str(profile)


HOPPER_SHAPES = [
    *SHAPES,
    (128, 256, 32),
    (257, 300, 77),
    (1000, 1000, 1000),
    (129, 4097, 513),
    (2048, 1024, 640),
    (64, 4096, 1024),
    (64, 64, 8192),
    (33, 70, 2500),
]


@pytest.mark.parametrize("shape", HOPPER_SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize(
    ("variant", "tile"),
    [
        *((name, None) for name in ("tma", "tensor_map", "tf32x3", "dmma")),
        *(("split_k", tile) for tile in (32, 64, 128)),
    ],
)
@pytest.mark.usefixtures("hopper")
def test_product_on_hopper(variant, tile, shape, random):
    dtype = np.dtype(coalesce.variants("matmul")[variant].dtype)
    a, b = operands(random, *shape, dtype)
    c = random.normal(size=shape[:2]).astype(dtype)
    plain = coalesce.matmul(a, b, variant=variant, tile=tile, c=np.full_like(c, np.nan))
    assert_product(plain, a, b)
    scaled = coalesce.matmul(a, b, variant=variant, tile=tile, alpha=-1.5, beta=0.25, c=c)
    assert_product(scaled, a, b, -1.5, 0.25, c)
    again = coalesce.matmul(a, b, variant=variant, tile=tile)
    np.testing.assert_array_equal(plain, again)  # the order of additions is fixed


@pytest.mark.parametrize("shape", HOPPER_SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("variant", TENSOR_CORES)
@pytest.mark.usefixtures("hopper")
def test_rounded_operands_on_hopper(variant, shape, random):
    """The error is that of rounding the operands; the sums have float32 precision."""
    a, b = operands(random, *shape, np.float32)
    c = random.normal(size=shape[:2]).astype(np.float32)
    bound = 2 * TENSOR_CORES[variant] * np.abs(a).astype(float) @ np.abs(b).astype(float)
    result = coalesce.matmul(a, b, variant=variant, c=np.full_like(c, np.nan))
    exact = a.astype(float) @ b.astype(float)
    assert (np.abs(result - exact) <= bound + 1e-6).all()
    if variant == "bf16":
        exact = rounded_to_bfloat16(a).astype(float) @ rounded_to_bfloat16(b).astype(float)
        magnitudes = np.abs(a).astype(float) @ np.abs(b).astype(float)
        assert (np.abs(result - exact) <= 1e-6 * magnitudes + 1e-6).all()
    scaled = coalesce.matmul(a, b, variant=variant, alpha=-1.5, beta=0.25, c=c)
    np.testing.assert_allclose(scaled, -1.5 * result + 0.25 * c, rtol=1e-5, atol=1e-5)


def rounded_to_bfloat16(x):
    """Return float32 values with 8 significant bits, rounded to nearest even."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


@pytest.mark.parametrize("shift", [np.float32(0), np.float32(0.5)])
@pytest.mark.usefixtures("hopper")
def test_tf32x3_is_as_accurate_as_float32(shift, random):
    """tf32x3 has about the error of the float32 variant; tf32 has a far larger one.

    All sums of positive numbers grow. Tensor cores truncate, so their errors all have the same
    sign. This is the worst case.
    """
    a, b = random.random((256, 4096), np.float32), random.random((4096, 512), np.float32)
    a, b = a - shift, b - shift
    exact = a.astype(float) @ b.astype(float)
    error = {
        name: np.linalg.norm(coalesce.matmul(a, b, variant=name) - exact) / np.linalg.norm(exact)
        for name in ("tensor_map", "tf32x3", "tf32")
    }
    assert error["tf32x3"] <= 2.5 * error["tensor_map"]
    assert error["tf32"] > 10 * error["tf32x3"]


@pytest.mark.usefixtures("hopper")
def test_bfloat16_arrays_on_hopper(random):
    torch = pytest.importorskip("torch")
    a, b = (torch.randn(70, 90).bfloat16().cuda() for _ in range(2))
    result = coalesce.matmul(a, b.T.contiguous(), variant="bf16")
    exact = a.double() @ b.T.double()
    assert (result.double() - exact).abs().max() < 1e-4
    assert result.dtype == torch.float32
    out = torch.empty(70, 70, dtype=torch.bfloat16, device="cuda")
    assert coalesce.matmul(a, b.T.contiguous(), variant="bf16", out=out) is out
    assert torch.equal(out, result.bfloat16())
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, y = (random.normal(size=(33, 33)).astype(ml_dtypes.bfloat16) for _ in range(2))
    product = coalesce.matmul(x, y, variant="bf16")
    np.testing.assert_allclose(product, x.astype(float) @ y.astype(float), atol=1e-4)


@pytest.mark.parametrize(
    "shape",
    # The rows of matrices with 1 to 3 columns are shorter than their padding.
    [(1, 1, 1), (128, 256, 32), (257, 300, 77), (5, 3, 200), (33, 1, 2), (40, 2, 3), (9, 3, 1)],
    ids=str,
)
@pytest.mark.parametrize("variant", HOPPER)
def test_rungs_for_hopper_on_the_simulator(variant, shape, random):
    a, b = operands(random, *shape, np.dtype(coalesce.variants("matmul")[variant].dtype or "f4"))
    c = random.normal(size=shape[:2]).astype(a.dtype)
    product = functools.partial(coalesce.matmul, a, b, variant=variant, device="sim")
    plain = product(c=np.full_like(c, np.nan))
    if rounding := TENSOR_CORES.get(variant):
        bound = 2 * rounding * np.abs(a).astype(float) @ np.abs(b).astype(float)
        assert (np.abs(plain - a.astype(float) @ b.astype(float)) <= bound + 1e-6).all()
    else:
        assert_product(plain, a, b)
    np.testing.assert_allclose(
        product(alpha=-1.5, beta=0.25, c=c), -1.5 * plain + 0.25 * c, rtol=1e-5, atol=1e-5
    )
    _, findings = coalesce.matmul(a, b, variant=variant, check=True)
    assert not findings


@pytest.mark.parametrize("variant", ["tensor_map", "tf32"])
def test_tensor_maps_of_device_arrays_and_views(variant, random):
    a, b = operands(random, 70, 90, 64, np.float32)
    wanted = coalesce.matmul(a, b, variant=variant, device="sim")
    on_device = coalesce.to_device(a, "sim"), coalesce.to_device(b, "sim")
    result = coalesce.matmul(*on_device, variant=variant)
    np.testing.assert_array_equal(result.get(), wanted)
    wide = np.zeros((64, 200), np.float32)
    wide[:, 7:97] = b
    result = coalesce.matmul(a, wide[:, 7:97], variant=variant, device="sim")
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("variant", [name for name in HOPPER if name not in TENSOR_CORES])
@pytest.mark.usefixtures("hopper")
def test_operands_that_share_memory_on_hopper(variant, random):
    dtype = coalesce.variants("matmul")[variant].dtype
    base = random.normal(size=70 * 64).astype(dtype)
    a, b = base[: 64 * 64].reshape(64, 64), base[5 : 5 + 64 * 64].reshape(64, 64)
    assert_product(coalesce.matmul(a, b, variant=variant), a, b)
    scaled = coalesce.matmul(a, b, variant=variant, beta=1.0, c=b)
    assert_product(scaled, a, b, 1.0, 1.0, b)
    on_gpu = coalesce.to_device(a), coalesce.to_device(b)
    assert_product(coalesce.matmul(*on_gpu, variant=variant).get(), a, b)


@pytest.mark.parametrize("variant", HOPPER)
def test_hopper_variants_state_their_requirements(variant):
    described = coalesce.variants("matmul")[variant]
    a, b = A.astype(described.dtype), B.astype(described.dtype)
    with pytest.raises(coalesce.DeviceUnavailable, match=r"needs a GPU of compute capability 9\.0"):
        coalesce.matmul(a, b, variant=variant, device="sim:a100")
    wrong = "float64" if described.dtype == "float32" else "float32"
    message = f'takes {described.dtype}; got {wrong}; use variant "best"'
    with pytest.raises(TypeError, match=message):
        coalesce.matmul(A.astype(wrong), B.astype(wrong), variant=variant, device="sim")
    assert "compute capability 9.0" in described.needs
    assert described.dtype in described.needs


@pytest.mark.parametrize("variant", ["tensor_map", "bf16", "tf32", "tf32x3", "dmma"])
def test_tensor_maps_are_for_one_compute_capability(variant):
    """Code for sm_90a runs on no other GPU, not even on a newer one."""
    entry = catalogue.find("matmul", variant)
    dtype = np.dtype(entry.dtype)
    for capability, message in (((9, 0), None), ((10, 0), "9.0; cuda:0 has 10.0"), ((8, 0), "8.0")):
        gpu = SimpleNamespace(kind="cuda", name="cuda:0", compute_capability=capability)
        if message is None:
            catalogue.check_runs(entry, gpu, dtype)
        else:
            with pytest.raises(coalesce.DeviceUnavailable, match=message):
                catalogue.check_runs(entry, gpu, dtype)


def test_bfloat16_is_for_bf16_only():
    bits = np.zeros((4, 4), "V2")  # a GPU array of bfloat16 is described as 2-byte void
    with pytest.raises(TypeError, match=r"`a` has dtype \|V2; matmul\(\) takes float32 or float64"):
        coalesce.matmul(bits, bits, variant="tf32", device="sim")
    result = coalesce.matmul(bits, bits, variant="bf16", device="sim")
    np.testing.assert_array_equal(result, np.zeros((4, 4), np.float32))


@pytest.mark.parametrize("shape", [(3, 5, 40), (256, 512, 40), (130, 264, 8), (4, 3, 0)], ids=str)
def test_bfloat16_result(shape, random):
    """The result is the float32 result rounded to bfloat16: whole tiles, edges, K = 0."""
    a, b = operands(random, *shape, np.float32)
    c = random.normal(size=shape[:2]).astype(np.float32)
    product = functools.partial(coalesce.matmul, a, b, variant="bf16", device="sim")
    for how in ({}, {"alpha": -1.5, "beta": 0.25, "c": c}, {"alpha": 0, "beta": 2.0, "c": c}):
        out = np.full(shape[:2], b"\xff\xff", "V2")
        assert product(out=out, **how) is out
        wanted = rounded_to_bfloat16(product(**how)).view(np.uint32) >> 16
        np.testing.assert_array_equal(out.view(np.uint16), wanted)
    _, findings = coalesce.matmul(a, b, variant="bf16", out=out, check=True)
    assert not findings


def test_bfloat16_result_of_other_memory(random):
    """The result may be a DeviceArray or overlap an operand; no other variant rounds it."""
    a, b = operands(random, 20, 24, 16, np.float32)
    wanted = rounded_to_bfloat16(coalesce.matmul(a, b, variant="bf16", device="sim"))
    bits = rounded_to_bfloat16(a).view(np.uint32) >> 16
    memory = np.zeros((20, 24), np.uint16)
    left = memory.reshape(-1)[: 20 * 16].reshape(20, 16)
    left[...] = bits
    right = (rounded_to_bfloat16(b).view(np.uint32) >> 16).astype(np.uint16)
    out = memory.view("V2")
    coalesce.matmul(left.view("V2"), right.view("V2"), variant="bf16", out=out, device="sim")
    np.testing.assert_array_equal(memory, wanted.view(np.uint32) >> 16)
    with pytest.raises(TypeError, match=r"`out` has dtype \|V2; it must have dtype float32$"):
        coalesce.matmul(a, b, variant="tf32", out=out, device="sim")
    with pytest.raises(TypeError, match=r"must have dtype float32 or bfloat16$"):
        coalesce.matmul(a, b, variant="bf16", out=np.zeros((20, 24)), device="sim")


def test_best_by_compute_capability():
    large = (4096, 4096, 4096)
    chosen = {
        (kind, capability, dtype): best.of_matmul(
            *large,
            np.dtype(dtype),
            SimpleNamespace(kind=kind, compute_capability=capability, multiprocessors=132),
        )[0]
        for kind, capability in (
            ("cuda", (9, 0)),
            ("cuda", (10, 0)),
            ("cuda", (8, 0)),
            ("sim", (9, 0)),
        )
        for dtype in ("float32", "float64")
    }
    assert chosen["cuda", (9, 0), "float32"] in ("tma", "tensor_map")
    assert chosen["cuda", (9, 0), "float64"] == "dmma"
    assert chosen["cuda", (10, 0), "float32"] == "tma"
    others = [
        name for key, name in chosen.items() if key[:2] in (("cuda", (8, 0)), ("sim", (9, 0)))
    ]
    assert set(others) == {"pipelined"}
    assert chosen["cuda", (10, 0), "float64"] == "pipelined"


@pytest.mark.parametrize("shape", [(5, 7, 3), (64, 65, 40), (0, 3, 2), (3, 4, 0)], ids=str)
def test_best(shape, dtype, device, random):
    a, b = operands(random, *shape, dtype)
    assert_product(coalesce.matmul(a, b, variant="best", device=device), a, b)


HOPPER = SimpleNamespace(kind="cuda", compute_capability=(9, 0), multiprocessors=132)


@pytest.mark.parametrize(
    "shape", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (1, 6000, 1)], ids=str
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_best_knows_a_variant_for_extreme_shapes(shape, dtype):
    variant, tile = best.of_matmul(*shape, np.dtype(dtype), HOPPER)
    assert tile in (*coalesce.variants("matmul")[variant].tiles, 0)


def test_tiles_are_smaller_if_multiprocessors_would_have_none():
    chosen = {
        (kernel, n): best.tile(kernel, n, n, n, 132)
        for kernel, n in (
            ("bf16", 64), ("bf16", 1024), ("bf16", 1536), ("bf16", 4096), ("bf16", 8192),
            ("dmma", 512), ("dmma", 1024), ("dmma", 4096), ("tf32", 1024), ("tf32", 4096),
        )
    }  # fmt: skip
    assert {key: tile and (tile.rows, tile.cols) for key, tile in chosen.items()} == {
        ("bf16", 64): (128, 64),
        ("bf16", 1024): (128, 64),
        ("bf16", 1536): (128, 192),
        ("bf16", 4096): (128, 256),
        ("bf16", 8192): (128, 256),
        ("dmma", 512): (64, 64),
        ("dmma", 1024): (128, 64),
        ("dmma", 4096): (128, 128),
        ("tf32", 1024): (64, 128),
        ("tf32", 4096): (256, 128),
    }


def test_best_accepts_no_tile():
    with pytest.raises(ValueError, match="'best' chooses the tile itself; got tile=16"):
        coalesce.matmul(A, B, variant="best", tile=16, device="sim")
