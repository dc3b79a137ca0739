"""More kernels of tests/kernels/unseen_*.cu: texts, integers, pictures, science, statistics."""

from __future__ import annotations

import base64
import hashlib

import numpy as np
import pytest
from unseen_runs import LAUNCHES, close, equal, run

pytestmark = pytest.mark.usefixtures("on_simulator")


# ---- texts, bits, integers ----


def test_alignments() -> None:
    (query, targets, *_), (_, _, score, *_), _ = run("smith_waterman")
    table = np.zeros((150, 101, 121), np.int64)
    pairs = np.where(query[:100, None] == targets[: 150 * 120].reshape(150, 1, 120), 3, -2)
    for i in range(100):
        for j in range(120):
            around = table[:, i, j] + pairs[:, i, j], table[:, i, j + 1] - 4, table[:, i + 1, j] - 4
            table[:, i + 1, j + 1] = np.maximum(np.maximum.reduce(around), 0)
    equal(score, table.max((1, 2)))
    (a, b, *_), (_, _, distance, *_), _ = run("edit_distance")
    a, b = a[: 3000 * 24].reshape(3000, 24), b[: 3000 * 24].reshape(3000, 24)
    table = np.zeros((25, 25, 3000), np.int64)
    table[:, 0] = table[0] = np.arange(25)[:, None]
    for i in range(24):
        for j in range(24):
            other = np.minimum(table[i, j + 1], table[i + 1, j]) + 1
            table[i + 1, j + 1] = np.minimum(table[i, j] + (a[:, i] != b[:, j]), other)
    equal(distance, table[-1, -1])


def test_texts() -> None:
    (text, *_), (_, _, places, total), _ = run("find_pattern")
    whole = text.tobytes()
    wanted = [whole[i : i + 7] == b"GATTACA" for i in range(len(whole))]
    equal(places, wanted)
    equal(total, [sum(wanted)])
    (table, *_), (_, _, _, fields, longest), _ = run("csv_fields")
    split = [line.split('"') for line in table.tobytes().decode().splitlines()]
    lines = [["x" * len(part) if i % 2 else part for i, part in enumerate(p)] for p in split]
    parts = ["".join(line).split(",") for line in lines]
    equal(fields, [len(line) for line in parts])
    equal(longest, [max(len(field) for field in line) for line in parts])
    (raw, *_), (_, coded, _), _ = run("base64")
    assert coded.tobytes() == base64.b64encode(raw.tobytes())
    (text, *_), (_, _, length), _ = run("utf8_length")
    equal(length, [(text.view(np.uint8) >> 6 != 2).sum()])


def test_bits() -> None:
    (x, *_), (_, heads, runs, n), _ = run("run_heads")
    first = np.concatenate([[True], x[1:] != x[:-1]])
    equal(np.unpackbits(heads.view(np.uint8), bitorder="little"), first)
    equal(runs, np.add.reduceat(first, np.arange(0, n, 256), dtype=np.int64))
    (symbols, codes, *_), (_, _, _, packed, _), _ = run("pack_codes")
    bits = [format(code & 0xFFFFFF, f"0{code >> 24}b") for code in codes.tolist()]
    text = "".join(bits[symbol] for symbol in symbols.tolist())
    ours = "".join(format(word, "032b") for word in packed.tolist())
    assert ours[: len(text)] == text
    hashes = {}
    for name in ("bloom_add", "bloom_query"):
        keys, size = LAUNCHES[name].arguments[0], 2_000_003
        hashes = []
        for k in range(4):
            h = np.full(keys.size, 2166136261 ^ k, np.uint64)
            for b in range(4):
                h = (h ^ (keys >> (8 * b) & 255)) * np.uint64(16777619) % np.uint64(1 << 32)
            hashes.append(h % np.uint64(size))
        (_, words, *_), given, _ = run(name)
        if name == "bloom_add":
            wanted = np.zeros(words.size * 32, np.uint8)
            wanted[np.concatenate(hashes)] = 1
            equal(np.unpackbits(given[1].view(np.uint8), bitorder="little"), wanted)
        else:
            held = np.unpackbits(words.view(np.uint8), bitorder="little")
            equal(given[2], np.all([held[h] for h in hashes], 0))
    (words, *_), (_, result, *_), _ = run("transpose_bits")
    unpacked = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(6400, 96 * 32)
    equal(np.unpackbits(result.view(np.uint8), bitorder="little"), unpacked.T)


def test_whole_numbers() -> None:
    (first, n, *_), (_, _, steps, longest), _ = run("collatz")
    values, wanted = np.arange(first, first + n, dtype=np.int64), np.zeros(n, np.int64)
    while np.any(values > 1):
        wanted += values > 1
        stepped = np.where(values % 2 == 1, 3 * values + 1, values // 2)
        values = np.where(values > 1, stepped, 1)
    equal(steps, wanted)
    equal(longest, [wanted.max()])
    *_, total = run("sieve")[1]
    prime = np.ones(110 * 4096, bool)
    prime[:2] = False
    for p in range(2, 700):
        prime[p * p :: p] = False
    equal(total, [prime.sum()])
    (a, b, *_), (_, _, sums, carries, n), _ = run("big_add")
    for i in range(0, n, 7):
        one, other = (int.from_bytes(x[32 * i : 32 * i + 32].tobytes(), "little") for x in (a, b))
        result = int.from_bytes(sums[32 * i : 32 * i + 32].tobytes(), "little")
        assert result + (int(carries[i]) << 1024) == one + other
    (base, exponent, _, m, _), (_, _, out, *_), _ = run("mod_pow")
    equal(out, [pow(b, e, int(m)) for b, e in zip(base.tolist(), exponent.tolist(), strict=True)])
    equal(run("queens")[1][1].sum(), 352)


def test_sudokus() -> None:
    (puzzle, _), (cells, rounds), _ = run("sudoku_singles")
    cells = cells.reshape(-1, 9, 9)
    kept = puzzle > 0
    equal(cells.ravel()[kept.ravel()], puzzle[kept])
    solved = cells[(cells > 0).all((1, 2))]
    assert len(solved) > 100
    assert np.all(np.sort(solved, 1) == np.arange(1, 10)[:, None])
    assert np.all(np.sort(solved, 2) == np.arange(1, 10))
    assert rounds.min() >= 1


def test_sha256() -> None:
    (messages, *_), (_, digests, n), _ = run("sha256")
    parts = messages.tobytes()
    wanted = b"".join(hashlib.sha256(parts[32 * i : 32 * i + 32]).digest() for i in range(n))
    assert digests.tobytes()[: len(wanted)] == wanted


# ---- pictures ----


def test_filters() -> None:
    (pixels, sw, sh, _, dw, dh), (_, _, _, out, *_), _ = run("resize_bilinear")
    source = pixels[: sw * sh * 3].reshape(sh, sw, 3).astype(np.float64)
    fx = np.maximum((np.arange(dw) + 0.5) * sw / dw - 0.5, 0)
    fy = np.maximum((np.arange(dh) + 0.5) * sh / dh - 0.5, 0)
    x0, y0 = fx.astype(int), fy.astype(int)
    x1, y1 = np.minimum(x0 + 1, sw - 1), np.minimum(y0 + 1, sh - 1)
    ax, ay = (fx - x0)[None, :, None], (fy - y0)[:, None, None]
    top = (1 - ax) * source[y0][:, x0] + ax * source[y0][:, x1]
    bottom = (1 - ax) * source[y1][:, x0] + ax * source[y1][:, x1]
    off = np.abs(out.reshape(dh, dw, 3) - ((1 - ay) * top + ay * bottom))
    assert off.max() <= 0.51
    (pixels, *_), (_, out, *_), _ = run("sobel")
    p = np.pad(pixels[:800_000].reshape(800, 1000).astype(np.int64), 1, "edge")
    across, down = p[:, 2:] - p[:, :-2], p[2:] - p[:-2]
    gx = across[:-2] + 2 * across[1:-1] + across[2:]
    gy = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
    equal(out, np.minimum(np.sqrt(gx * gx + gy * gy).astype(int), 255))
    (pixels, *_), (_, out, *_), _ = run("median_3x3")
    p = pixels[: 1216 * 800].reshape(800, 1216)[:, :1201]
    windows = np.lib.stride_tricks.sliding_window_view(p, (3, 3)).reshape(798, 1199, 9)
    equal(out[: 1216 * 800].reshape(800, 1216)[1:799, 1:1200], np.partition(windows, 4, 2)[..., 4])


def test_histograms_and_transforms() -> None:
    (pixels, *_), (_, bins, _), _ = run("histogram_warps")
    rgb = pixels[:2_400_000].reshape(-1, 4)[:, :3].astype(np.int64)
    luma = rgb @ [77, 150, 29] >> 8
    equal(bins, np.bincount(luma // 4, minlength=64))
    (x, *_), (_, y, _), _ = run("dct8x8")
    k, i = np.arange(8)[:, None], np.arange(8)
    basis = np.cos((2 * i + 1) * k * np.pi / 16) * np.where(k == 0, np.sqrt(1 / 8), 0.5)
    parts = (x - 0.5).reshape(80, 8, 128, 8).transpose(0, 2, 1, 3)
    close(y, (basis @ parts @ basis.T).transpose(0, 2, 1, 3))


def test_meshes() -> None:
    (vertices, faces, *_), (_, _, normals, _), _ = run("face_normals")
    a, b, c = (vertices[faces.reshape(-1, 3)[:, i]].astype(np.float64) for i in range(3))
    wanted = np.cross(b - a, c - a)
    length = np.linalg.norm(wanted, axis=1, keepdims=True)
    good = length[:, 0] > 1e-3  # in the other triangles two corners are the same
    close(normals.reshape(-1, 3)[good], (wanted / np.maximum(length, 1e-9))[good], 1e-3)
    (vertices, _, first, second, _), (_, out, *_), _ = run("skin_vertices")
    one, other = (np.frombuffer(m, np.float32).reshape(3, 4) for m in (first, second))
    position, weight = vertices[:, :3], vertices[:, 6:]
    moved = weight * (position @ one[:, :3].T + one[:, 3])
    moved += (1 - weight) * (position @ other[:, :3].T + other[:, 3])
    close(out, np.hstack([moved, vertices[:, 3:]]))
    (volume, *_), (_, cases, active, *_), _ = run("classify_cubes")
    above = (volume > 900).astype(np.int64)
    wanted = sum(
        above[z : 89 + z, y : 100 + y, x : 129 + x] << (4 * z + 2 * y + x)
        for z in range(2)
        for y in range(2)
        for x in range(2)
    )
    equal(cases, wanted)
    equal(active, [np.sum((wanted != 0) & (wanted != 255))])


def test_games() -> None:
    (sprites, walls, _), (moved, *_), _ = run("move_sprites")
    s = sprites.view(np.uint32).astype(np.int64)
    x, y, direction, alive = s & 1023, s >> 10 & 1023, s >> 20 & 3, s >> 22 & 1
    health = s >> 23
    to_x = x + np.array([1, 0, -1, 0])[direction]
    to_y = y + np.array([0, 1, 0, -1])[direction]
    outside = (to_x < 0) | (to_y < 0) | (to_x > 255) | (to_y > 255)
    walled = walls[np.clip(to_y, 0, 255) * 256 + np.clip(to_x, 0, 255)] > 0
    hit = outside | walled
    left = np.maximum(health - 3, 0)
    turned = x | y << 10 | (direction + 1) % 4 << 20 | (left > 0).astype(int) << 22 | left << 23
    stepped = to_x | to_y << 10 | direction << 20 | alive << 22 | health << 23
    equal(moved.view(np.uint32), np.where(alive == 0, s, np.where(hit, turned, stepped)))
    image = run("trace")[1][0].reshape(360, 640, 4)
    assert np.all(image[..., 3] == 255)
    assert len(np.unique(image[..., 0])) > 50
    assert image[:60].mean() > image[300:].mean()  # the sky is brighter than the ground


# ---- science ----


def test_fields() -> None:
    (v, *_), (_, out, *_), _ = run("divergence")
    v = v.reshape(60, 90, 120, 3).astype(np.float64)
    wanted = np.zeros((60, 90, 120))
    inner = (slice(1, -1),) * 3
    for axis in range(3):
        difference = np.roll(v[..., axis], -1, 2 - axis) - np.roll(v[..., axis], 1, 2 - axis)
        wanted[inner] += 0.5 * difference[inner]
    close(out, wanted)
    (u, f, *_), (_, _, new, residual, *_), _ = run("jacobi_tile")
    wanted = (u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] - f[1:-1, 1:-1]) / 4
    close(new[1:-1, 1:-1], wanted)
    close(residual, ((wanted - u[1:-1, 1:-1]).astype(np.float64) ** 2).sum())
    (u, f, *_), (new, *_), _ = run("gauss_seidel")
    wanted = u.copy()
    average = (u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] - f[1:-1, 1:-1]) / 4
    odd = np.add.outer(np.arange(1, 699), np.arange(1, 999)) % 2 == 1
    wanted[1:-1, 1:-1] = np.where(odd, average, u[1:-1, 1:-1])
    close(new, wanted, 1e-12)
    (now, old, velocity, *_), (_, new, *_), _ = run("wave_3d")
    padded = np.pad(now.astype(np.float64), ((0, 0), (2, 2), (2, 2)))
    weights = -5 / 2, 4 / 3, -1 / 12
    laplacian = 3 * weights[0] * padded
    for axis in range(3):
        for r in (1, 2):
            shifted = np.roll(padded, r, axis) + np.roll(padded, -r, axis)
            laplacian += weights[r] * shifted
    wanted = (2 * now - old + velocity * laplacian[:, 2:-2, 2:-2])[2:-2]
    close(new[2:-2], wanted)


def test_fluids() -> None:
    (f, _, solid, nx, ny), (_, out, *_), _ = run("lattice_boltzmann")
    cx, cy = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1]), np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
    weight = np.array([16, 4, 4, 4, 4, 1, 1, 1, 1]) / 36
    f, solid = f.reshape(9, ny, nx).astype(np.float64), solid.reshape(ny, nx)
    f = np.stack([np.roll(f[q], (cy[q], cx[q]), (0, 1)) for q in range(9)])
    rho = f.sum(0)
    ux, uy = np.tensordot(cx, f, 1) / rho, np.tensordot(cy, f, 1) / rho
    wanted = np.empty_like(f)
    opposite = [0, 3, 4, 1, 2, 7, 8, 5, 6]
    for q in range(9):
        cu = 3 * (cx[q] * ux + cy[q] * uy)
        still = weight[q] * rho * (1 + cu + cu * cu / 2 - 1.5 * (ux * ux + uy * uy))
        wanted[q] = np.where(solid, f[opposite[q]], f[q] + 0.6 * (still - f[q]))
    close(out, wanted)
    (velocity, density, _, w, h, dt), (_, _, out, *_), _ = run("advect")
    v, d = velocity.reshape(h, w, 2).astype(np.float64), density.reshape(h, w).astype(np.float64)
    y, x = np.mgrid[:h, :w]
    sx = np.clip(x - dt * (v[..., 0] - 0.5), 0, w - 1.001)
    sy = np.clip(y - dt * (v[..., 1] - 0.5), 0, h - 1.001)
    ix, iy = sx.astype(int), sy.astype(int)
    tx, ty = sx - ix, sy - iy
    top = d[iy, ix] * (1 - tx) + d[iy, ix + 1] * tx
    close(out, top * (1 - ty) + (d[iy + 1, ix] * (1 - tx) + d[iy + 1, ix + 1] * tx) * ty)


def test_particles() -> None:
    (p, neighbours, few, _, n, box, cutoff2), (_, _, _, force, *_), _ = run("lennard_jones")
    p = p[:, :3].astype(np.float64)
    apart = p[:, None] - p[neighbours.reshape(24, n).T]
    apart -= box * np.rint(apart / box)
    r2 = (apart**2).sum(2)
    used = (np.arange(24) < few[:, None]) & (r2 < cutoff2) & (r2 > 0)
    inverse = 1 / np.where(used, r2, 1) ** 3
    strength = np.where(used, 24 * inverse * (2 * inverse - 1) / np.where(used, r2, 1), 0)
    wanted = (apart * strength[..., None]).sum(1)
    scale = np.maximum(np.abs(apart * strength[..., None]).sum(1), 1)
    close(force / scale, wanted / scale, 2e-3)
    (particles, charge, *_), (_, _, grid, *_), _ = run("deposit_charge")
    close(grid.sum(), charge.sum(dtype=np.float64))
    at = particles * np.float32(127)
    low = at.astype(int)
    f = (at - low).astype(np.float64)
    wanted = np.zeros((128, 128))
    for dy in range(2):
        for dx in range(2):
            share = np.abs(1 - dx - f[:, 0]) * np.abs(1 - dy - f[:, 1])
            np.add.at(wanted, (low[:, 1] + dy, low[:, 0] + dx), charge * share)
    close(grid, wanted)


def pcg(v: np.ndarray) -> np.ndarray:
    """Return the output of the kernels' random number generator for 32-bit words."""
    mask = np.uint64(0xFFFFFFFF)
    state = (v.astype(np.uint64) * np.uint64(747796405) + np.uint64(2891336453)) & mask
    shifted = (state >> ((state >> np.uint64(28)) + np.uint64(4))) ^ state
    word = shifted * np.uint64(277803737) & mask
    return word >> np.uint64(22) ^ word


def test_chance() -> None:
    (spins, others, rows, half, *_), (new, *_), _ = run("ising")
    s, o = spins.reshape(rows, half).astype(np.int64), others.reshape(rows, half).astype(np.int64)
    odd = (np.arange(rows) & 1 == 1)[:, None]
    side = np.where(odd, np.roll(o, 1, 1), np.roll(o, -1, 1))
    total = np.roll(o, 1, 0) + np.roll(o, -1, 0) + o + side
    chance = pcg(np.arange(rows * half) + 9).reshape(rows, half) / 2**32
    accept = np.exp(-0.6 * total * s)
    sure = np.abs(chance - accept) > 1e-5
    equal(new.reshape(rows, half)[sure], np.where(chance < accept, -s, s)[sure])
    (maze, size, n, steps, *_), (*_, end, escaped), _ = run("random_walk")
    state, mask = pcg(np.arange(n)), np.uint64(0xFFFFFFFF)
    x, y = np.full(n, size // 2), np.full(n, size // 2)
    inside = np.ones(n, bool)
    for _ in range(steps):
        state = state ^ (state << np.uint64(13) & mask)
        state = state ^ state >> np.uint64(17)
        state = state ^ (state << np.uint64(5) & mask)
        way = (state & np.uint64(3)).astype(int)
        nx, ny = x + (way == 0) - (way == 1), y + (way == 2) - (way == 3)
        inside &= (nx >= 0) & (ny >= 0) & (nx < size) & (ny < size)
        free = inside & (maze[np.clip(ny, 0, size - 1) * size + np.clip(nx, 0, size - 1)] > 50)
        x, y = np.where(free, nx, x), np.where(free, ny, y)
    equal(end, np.stack([x, y], 1))
    equal(escaped, [n - inside.sum()])
    normal = run("philox_normal")[1][0].astype(np.float64)
    assert abs(normal.mean()) < 0.01
    assert abs(normal.std() - 1) < 0.01


def test_prices() -> None:
    payoff = run("asian_option")[1][0][0] / 80_000
    assert 2 < payoff < 6  # a call option on a year's mean price, slightly out of the money
    (strike, _, s0, up, p, discount), (_, price, *_), _ = run("binomial_put")
    steps = 127
    k = strike.astype(np.float64)[:, None]
    level = lambda n: np.float64(s0) * np.float64(up) ** (2 * np.arange(n + 1) - n)  # noqa: E731
    value = np.maximum(k - level(steps), 0)
    for n in range(steps - 1, -1, -1):
        hold = discount * (p * value[:, 1:] + (1 - p) * value[:, :-1])
        value = np.maximum(hold, k - level(n))
    close(price, value[:, 0], 1e-3)


def test_statistics() -> None:
    (x, mean, *_), (_, _, cov, *_), _ = run("covariance")
    close(cov, (x - mean).T @ (x - mean) / 499, 1e-9)
    (x, *_), (_, out, *_), _ = run("short_row_stats")
    close(out, np.stack([x.mean(1), x.max(1)], 1))
    (x, *_), (_, out, *_), _ = run("moving_average")
    close(out, np.convolve(x.astype(np.float64), np.full(25, 1 / 25), "valid"))
    (x, y, weight, *_), (_, _, _, bins, *_), _ = run("histogram_2d")
    at = np.minimum((y * y * 40).astype(int), 39) * 40 + np.minimum((x * 40).astype(int), 39)
    close(bins, np.bincount(at, weight, 1600), 1e-9)
    (points, *_), (_, box, _), _ = run("bounding_box")
    floats = np.where(box >= 0, box, box ^ 0x7FFFFFFF).view(np.float32)
    moved = points - np.float32(0.5)
    equal(floats, np.concatenate([moved.min(0), moved.max(0)]))
    (x, *_), (_, partial, done, total, _), _ = run("sum_in_one")
    close(total, x.sum(dtype=np.float64))
    close(partial.sum(), total[0])
    equal(done, [0])
