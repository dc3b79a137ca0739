"""The kernels of tests/kernels/unseen_*.cu compute the right results; checks find no fault.

Counters of a wrong kernel would prove nothing. This file has the kernels of neural networks,
matrices and algorithms; test_unseen_science.py has the others.
"""

from __future__ import annotations

import numpy as np
import pytest
from unseen_runs import LAUNCHES, close, equal, run

pytestmark = pytest.mark.usefixtures("on_simulator")

# Lanes write the same value to the same byte, in no defined order.
WARNED = {"sieve"}


@pytest.mark.parametrize("name", LAUNCHES)
def test_correct_kernels_have_no_findings(name: str) -> None:
    findings = run(name, checked=True)[2]
    if name in WARNED:
        assert {finding.severity for finding in findings} == {"warning"}
    else:
        assert not findings, findings


# ---- neural networks ----


def test_conv2d() -> None:
    (x, w, bias, *_), (*_, y, _, _, _, _), _ = run("conv2d_nchw")
    x = np.pad(x.reshape(2, 8, 56, 56), ((0, 0), (0, 0), (1, 1), (1, 1))).astype(np.float64)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", windows, w.reshape(16, 8, 3, 3))
    close(y, np.maximum(wanted + bias[:, None, None], 0))


def test_im2col() -> None:
    (_, x, *_), given, _ = run("im2col")
    x = np.pad(x.reshape(-1, 28, 28), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    equal(given[-1], windows.transpose(0, 3, 4, 1, 2))


def test_max_pool() -> None:
    (_, x, *_), given, _ = run("max_pool<float>")
    x = x.reshape(-1, 56, 56)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2]
    equal(given[-2], windows.max((3, 4)))
    equal(np.take_along_axis(x.reshape(512, -1), given[-1].reshape(512, -1), 1), given[-2])


def test_normalization() -> None:
    (x, *_), (_, mean, invstd, *_), _ = run("batch_norm_stats")
    x = x.reshape(8, 64, 784).astype(np.float64)
    close(mean, x.mean((0, 2)))
    close(invstd, 1 / np.sqrt(x.var((0, 2)) + 1e-5))
    (x, _, gamma, beta, _), (_, y, *_), _ = run("layer_norm_warp<512>")
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    close(y, normal * gamma + beta)
    (x, w, *_), (_, _, y, _), _ = run("rms_norm_block")
    wanted = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6) * w
    close(y, np.concatenate([wanted.ravel(), np.abs(wanted).sum(1)]))


def test_attention() -> None:
    (q, k, *_), (_, _, s, *_), _ = run("attention_scores")
    q, k = q.reshape(8, 150, 64), k.reshape(8, 150, 64)
    close(s, np.where(np.tri(150, dtype=bool), q @ k.transpose(0, 2, 1) / 8, -np.inf))
    (q, k, v, *_), (_, _, _, o, _), _ = run("attention_online")
    q, k, v = (each[: 400 * 32].reshape(4, 100, 32).astype(np.float64) for each in (q, k, v))
    weights = np.where(np.tri(100), np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(32)), 0)
    close(o, weights / weights.sum(2, keepdims=True) @ v)


def test_rotary() -> None:
    (x, positions, *_), (y, *_), _ = run("rotary")
    x = x.reshape(-1, 8, 32, 2).astype(np.float64)
    z = x[..., 0] + 1j * x[..., 1]
    z *= np.exp(1j * positions[:, None, None] * 10_000.0 ** (-np.arange(32) / 32))
    close(y, np.stack([z.real, z.imag], -1), 2e-3)


def test_embedding() -> None:
    (ids, table, _, _, padding), (_, _, out, *_), _ = run("embedding")
    equal(out, np.where((ids == padding)[:, None], 0, table[ids]))
    (ids, gradient, wanted, *_), (_, _, out, *_), _ = run("embedding_backward")
    wanted = wanted.astype(np.float64)
    np.add.at(wanted, ids, gradient)
    close(out, wanted)


def test_training() -> None:
    (x, target, *_), (_, _, loss, *_), _ = run("cross_entropy")
    x = x.astype(np.float64)
    close(loss, np.log(np.exp(x).sum(1)) - x[np.arange(target.size), target])
    (gates, cells, *_), (_, _, c, h, _), _ = run("lstm_cell")
    i, f, g, o = gates.reshape(256, 4, 1000).astype(np.float64).transpose(1, 0, 2)
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    wanted = sigmoid(f + 1) * cells.reshape(256, 1000) + sigmoid(i) * np.tanh(g)
    close(c, wanted)
    close(h, sigmoid(o) * np.tanh(wanted))
    (p, g, m, v, *_), (new, *_), _ = run("adam_step")
    m, v = 0.9 * m.astype(np.float64) + 0.1 * g, 0.999 * v.astype(np.float64) + 0.001 * g * g
    step = (m / (1 - 0.9**7)) / (np.sqrt(v / (1 - 0.999**7)) + 1e-8)
    close(new, p * (1 - 1e-5) - 1e-3 * step)


def test_bias_gelu() -> None:
    (x, bias, *_), (_, _, y, *_), _ = run("bias_gelu")
    floats = lambda bits: (bits.astype(np.uint32) << 16).view(np.float32)  # noqa: E731
    z = (floats(x).reshape(2000, 600) + floats(bias)).astype(np.float64)
    wanted = 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))
    close(floats(y), wanted, 0.02)


def test_top4() -> None:
    (x, *_), (_, values, indices, *_), _ = run("top4")
    equal(values, -np.sort(-x, 1)[:, :4])
    equal(np.take_along_axis(x, indices.reshape(-1, 4), 1), values)


# ---- matrices ----


def test_products() -> None:
    (w, x, scales, *_), (*_, y, _, _), _ = run("int8_matvec")
    dots = w.view(np.int8).reshape(4000, 2048).astype(np.int64) @ x.view(np.int8)
    close(y, dots * scales * 0.125)
    (a, b, *_), (_, _, c, *_), _ = run("half_matmul")
    a, b = a.reshape(200, 150).astype(np.float64), b.reshape(150, 180).astype(np.float64)
    close(c, a @ b, 1e-3)
    (a, b, *_), (_, _, c, *_), _ = run("complex_matmul")
    a, b = a.view(np.complex64).reshape(240, 80), b.view(np.complex64).reshape(80, 200)
    close(c, (a @ b).view(np.float32))
    (*_, a, b, _, old), (*_, c), _ = run("dgemm_tiled<16>")
    wanted = 1.5 * a.reshape(100, 150).T @ b.reshape(130, 100).T
    close(c, wanted.T + 0.5 * old.reshape(130, 150), 1e-12)
    (a, b, *_), (_, _, c, *_), _ = run("sgemm_double_buffered")
    close(c, a @ b)
    (a, x, *_), (_, _, y, _), _ = run("row_dot_async")
    close(y, a @ x)


def test_layouts() -> None:
    (x, *_), (_, y, *_), _ = run("permute")
    equal(y, x.reshape(12, 40, 16, 12, 5).transpose(4, 2, 0, 3, 1))
    (x, *_), (_, y, *_), _ = run("transpose_xyz_zyx")
    equal(y, x.transpose(2, 1, 0))


def test_sparse_products() -> None:
    (_, row, column, values, x, _), (*_, y), _ = run("spmv_coo")
    wanted = np.zeros(x.size)
    np.add.at(wanted, row, values * x[column])
    close(y, wanted, 1e-12)
    (_, first, column, values, x, _), (*_, y), _ = run("spmv_csr_scalar")
    wanted = np.zeros(x.size)
    np.add.at(wanted, np.repeat(np.arange(x.size), np.diff(first)), values * x[column])
    close(y, wanted)


def test_small_systems() -> None:
    (a, b, *_), (_, _, x, _), _ = run("solve_4x4")
    close(x, np.linalg.solve(a.reshape(-1, 4, 4), b.reshape(-1, 4, 1)), 1e-6)
    (a, _), (lower, _), _ = run("cholesky_batched")
    close(np.tril(lower), np.linalg.cholesky(a.astype(np.float64)))
    for name, shape in (("thomas", (50, 3000)), ("cyclic_reduction", (400, 100))):
        (a, b, c, d, *_), given, _ = run(name)
        x = given[5 if name == "thomas" else 4]
        a, b, c, d, x = (each.reshape(shape).astype(np.float64) for each in (a, b, c, d, x))
        axis = 0 if name == "thomas" else 1
        a, b, c, d, x = (np.moveaxis(each, axis, 0) for each in (a, b, c, d, x))
        product = b * x
        product[1:] += a[1:] * x[:-1]
        product[:-1] += c[:-1] * x[1:]
        close(product, d)


# ---- algorithms ----


def test_lists_and_trees() -> None:
    (following, rank, *_), (_, _, after, ranks, _), _ = run("list_rank")
    ends = following < 0
    equal(after, np.where(ends, -1, following[following]))
    equal(ranks, rank + np.where(ends, 0, rank[following]))
    (_, entries, queries, *_), (_, _, _, addresses, *_), _ = run("chained_hash_find")
    last = dict(entries.reshape(-1, 3)[:, :2].view(np.uint32).tolist())
    equal(addresses, [last.get(key, -1) for key in queries.tolist()])
    (tree, _, keys, *_), (_, _, _, values, _), _ = run("tree_find")
    held = set(tree[:, 0].tolist())
    equal(values, [3 * key if key in held else -1 for key in keys.tolist()])
    (ordered, _, keys, *_), (_, _, _, count, _), _ = run("count_equal")
    equal(count, np.searchsorted(ordered, keys, "right") - np.searchsorted(ordered, keys))


def test_sorting() -> None:
    (keys, *_), (_, counts, *_), _ = run("radix_count")
    digits = np.bincount(keys[:-7] >> 4 & 15, minlength=16)
    equal(counts.reshape(16, 1024).sum(1), digits)
    (keys, *_), (_, _, result, *_), _ = run("radix_scatter")
    equal(result, keys[np.argsort(keys >> 8 & 15, kind="stable")])
    (keys,), (result,), _ = run("bitonic_warp")
    equal(result, np.sort(keys.reshape(-1, 32), 1))
    (x, _), (result, _), _ = run("sort_eights")
    equal(result, np.sort(x.reshape(-1, 8), 1))


def test_scans() -> None:
    (_, x, *_), (scan, _, sums, _), _ = run("prescan")
    x = x[: sums.size * 512].reshape(-1, 512)
    inclusive = np.cumsum(x, 1, dtype=np.float64)
    close(scan, inclusive - x)
    close(sums, inclusive[:, -1])
    (keys, values, *_), (_, _, sums, _), _ = run("segmented_sum")
    close(sums, np.bincount(keys, values, sums.size))
    (x, _, _, _, low, high), (_, result, *_), _ = run("keep_between")
    equal(result, x[(x >= low) & (x < high)])


def test_points() -> None:
    (points, centers, *_), (_, _, label, sums, counts, *_), _ = run("kmeans")
    distance = ((points[:, None] - centers) ** 2).sum(2)
    close(np.take_along_axis(distance, label[:, None], 1)[:, 0], distance.min(1))
    close(sums, np.stack([np.bincount(label, points[:, d], 20) for d in range(3)], 1))
    equal(counts, np.bincount(label, minlength=20))
    (points, *_), (_, neighbours, core, *_), _ = run("dbscan_core")
    distance = ((points[:, None] - points) ** 2).sum(2)
    least, most = ((distance < 0.05**2 * (1 + e)).sum(1) for e in (-1e-5, 1e-5))
    assert np.all((least <= neighbours) & (neighbours <= most))
    equal(core, neighbours >= 20)


def test_graphs() -> None:
    (frontier, _, first, edges, distance, _), (*_, result, _), _ = run("expand_frontier")
    reached = np.concatenate([edges[first[v] : first[v + 1]] for v in frontier])
    wanted = distance.copy()
    wanted[reached] = np.minimum(wanted[reached], 3)
    equal(result, wanted)
    (pairs, parent, following, n), (_, _, result, _), _ = run("hook_components")
    roots = np.sort(parent[pairs.reshape(-1, 2)[:n]], 1)
    wanted = following.copy()
    np.minimum.at(wanted, roots[:, 1], roots[:, 0])
    equal(result, wanted)
    (first, sources, degree, rank, *_, n), (*_, following, change, _), _ = run("pagerank")
    target = np.repeat(np.arange(n), np.diff(first))
    wanted = 0.15 / n + 0.85 * np.bincount(target, (rank / degree)[sources], n)
    close(following, wanted)
    close(change, np.abs(wanted - rank).sum())
