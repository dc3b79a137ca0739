"""Copies of boxes through tensor maps (TMA): the cases that are recorded on a GPU.

After a copy into shared memory, the kernel copies all of shared memory to the result. So the
recording shows where each element went. For a copy out of shared memory, the changed bits of global
memory are recorded.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matrix_cases import Source

SHARED = 16384  # the bytes of shared memory that are compared
FLAT = 1 << 16  # the bytes of the array in global memory

# CUtensorMapDataType of cuda.h: name, code and size in bytes.
ELEMENTS = {
    "uint8": (0, 1), "uint16": (1, 2), "uint32": (2, 4), "int32": (3, 4), "uint64": (4, 8),
    "int64": (5, 8), "float16": (6, 2), "float32": (7, 4), "float64": (8, 8), "bfloat16": (9, 2),
    "float32_ftz": (10, 4), "tfloat32": (11, 4), "tfloat32_ftz": (12, 4),
}  # fmt: skip


@dataclass(frozen=True)
class Copy:
    """One tensor map and one copy; the innermost dimension comes first, as in the driver's API."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes, for all dimensions except the first
    box: tuple[int, ...]
    at: tuple[int, ...]
    element: str = "uint32"
    steps: tuple[int, ...] = ()  # element strides; () stands for ones
    swizzle: int = 0  # 0: none, 1: 32 bytes, 2: 64 bytes, 3: 128 bytes
    nan: int = 0  # 1: elements outside the array become NaN
    offset: int = 0  # the offset of the box in shared memory
    stores: bool = False

    @property
    def name(self) -> str:
        """Return a unique name."""
        parts = (self.element, self.extents, self.strides, self.box, self.at, self.steps,
                 self.swizzle, self.nan, self.offset, self.stores)  # fmt: skip
        return " ".join(str(part).replace(" ", "") for part in parts)

    @property
    def bytes(self) -> int:
        """Return the number of bytes that the mbarrier waits for."""
        steps = self.steps or (1,) * len(self.box)
        count = [-(-b // s) for b, s in zip(self.box[1:], steps[1:], strict=True)]
        return int(np.prod([self.box[0], *count])) * ELEMENTS[self.element][1]


def cases() -> Iterator[Copy]:
    """Yield the recorded cases: boxes that begin at multiples of 16 bytes, as hardware needs."""
    for case in _boxes():
        item = ELEMENTS[case.element][1]
        first = case.at[0] * item // 16 * 16 // item
        yield replace(case, at=(first, *case.at[1:]))


def _boxes() -> Iterator[Copy]:
    plain = Copy((40, 30), (160,), (16, 8), (4, 3))
    yield plain
    for at in ((-3, -2), (36, 27), (40, 0), (0, 30), (-16, 0), (100, 100), (39, -7)):
        yield replace(plain, at=at)
    for name, (_, item) in ELEMENTS.items():
        wide = Copy((64 // item, 20), (80,), (32 // item, 6), (64 // item - 3, 16), name)
        yield wide
        if "float" in name:
            yield replace(wide, nan=1)
    for name in ("float32", "float32_ftz", "tfloat32", "tfloat32_ftz"):
        yield Copy((256, 64), (1024,), (64, 32), (0, 0), name)
    # Swizzles: whole rows, short rows, and boxes that begin inside a repetition of the pattern.
    for swizzle, span in ((1, 32), (2, 64), (3, 128)):
        for inner in sorted({16, 32, span // 2, span}):
            if inner > span:
                continue
            for offset in (0, 128, 512, 896):
                yield Copy((128, 40), (512,), (inner // 4, 20), (8, 2), swizzle=swizzle,
                           offset=offset)  # fmt: skip
        yield Copy((60, 9, 7), (256, 2560), (span // 4, 5, 3), (50, 6, 5), swizzle=swizzle)
    for offset in (128, 384):
        yield replace(plain, offset=offset)
    yield Copy((200,), (), (64,), (30,), "uint16")
    yield Copy((200,), (), (256,), (-20,), "uint8")
    yield Copy((20, 9, 7), (80, 800), (8, 4, 3), (14, 7, -1))
    yield Copy((20, 5, 4, 3), (80, 400, 1600), (4, 2, 3, 2), (-1, 4, 2, 1))
    yield Copy((12, 5, 4, 3, 3), (48, 240, 960, 2880), (4, 2, 2, 2, 2), (10, -1, 3, 2, 2))
    strides, places = ((1, 2), (1, 3), (2, 2), (1, 8)), ((0, 0), (4, 23), (-2, -3))
    for steps, at in itertools.product(strides, places):
        yield Copy((40, 30), (160,), (16, 12), at, steps=steps)
    stored = Copy((40, 30), (160,), (16, 8), (4, 3), stores=True)
    yield stored
    for at in ((-3, -2), (36, 27), (100, 100)):
        yield replace(stored, at=at)
    for swizzle, span in ((1, 32), (2, 64), (3, 128)):
        yield Copy((128, 40), (512,), (span // 4, 20), (120, 30), swizzle=swizzle, stores=True)
    yield Copy((40, 30), (160,), (16, 12), (4, 3), steps=(1, 3), stores=True)
    for name in ("tfloat32", "float32_ftz", "tfloat32_ftz"):
        yield Copy((256, 64), (1024,), (64, 32), (0, 0), name, stores=True)
    yield Copy((20, 9, 7), (80, 800), (8, 4, 3), (14, 7, -1), stores=True)


def source_of(rank: int) -> str:
    """Return CUDA C++ of kernels `load` and `store` for boxes of this rank."""
    at = ", ".join(f"%{3 + n}" for n in range(rank))
    given = ", ".join(f'"r"(at[{n}])' for n in range(rank))
    return f"""
    struct alignas(64) Map {{ unsigned long long words[16]; }};
    struct At {{ int at[5]; }};
    __device__ unsigned to_shared(const void* p) {{ return unsigned(__cvta_generic_to_shared(p)); }}

    extern "C" __global__ void load(const __grid_constant__ Map map, const unsigned char* data,
                                    unsigned char* out, const int* at, int offset, int bytes) {{
        extern __shared__ __align__(1024) unsigned char box[];
        __shared__ __align__(8) unsigned long long barrier;
        for (int i = threadIdx.x; i < {SHARED}; i += blockDim.x) box[i] = 0xEE;
        if (threadIdx.x == 0) {{
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(to_shared(&barrier)));
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }}
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {{
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                         :: "r"(to_shared(&barrier)), "r"(bytes) : "memory");
            asm volatile(
                "cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
                "[%0], [%1, {{{at}}}], [%2];"
                :: "r"(to_shared(box) + offset), "l"(&map), "r"(to_shared(&barrier)), {given}
                : "memory");
        }}
        unsigned done = 0;  // a wrong number of bytes must not hang
        for (int i = 0; i < 100000 && !done; ++i)
            asm volatile("{{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; "
                         "selp.u32 %0, 1, 0, p; }}"
                         : "=r"(done) : "r"(to_shared(&barrier)) : "memory");
        __syncthreads();
        for (int i = threadIdx.x; i < {SHARED}; i += blockDim.x) out[i] = box[i];
        if (threadIdx.x == 0) out[{SHARED}] = done;
    }}

    extern "C" __global__ void store(const __grid_constant__ Map map, unsigned char* data,
                                     const unsigned char* image, const int* at, int offset) {{
        extern __shared__ __align__(1024) unsigned char box[];
        for (int i = threadIdx.x; i < {SHARED}; i += blockDim.x) box[i] = image[i];
        asm volatile("fence.proxy.async;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {{
            asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group "
                         "[%1, {{{at}}}], [%0];"
                         :: "r"(to_shared(box) + offset), "l"(&map), "n"(0), {given} : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }}
    }}"""


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes of the array and of shared memory; some are special numbers."""
    source = Source(seed)
    special = np.array(
        [0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x80000000, 1, 0x807FFFFF,
         0x00400000, 0x7F7FFFFF, 0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000, 0x7F7FF000],
        "u4",
    )  # fmt: skip
    flat = source.bits(32, FLAT // 4).astype("u4")
    flat[7::29] = special[np.arange(len(flat[7::29])) % len(special)]
    image = source.bits(32, SHARED // 4).astype("u4")
    image[7::29] = special[np.arange(len(image[7::29])) % len(special)]
    return flat.view("u1"), image.view("u1")


def simulated(case: Copy, array: object) -> bytes:
    """Return the simulator's tensor map for a case."""
    from coalesce._core import sim

    steps = case.steps or (1,) * len(case.box)
    return sim.tensor_map(
        array._address, case.element, case.extents, case.strides, case.box, steps, case.swizzle,
        bool(case.nan),
    )  # type: ignore[attr-defined]  # fmt: skip


def run(case: Copy, seed: int, device: str, encode: object, counts: bool = False) -> np.ndarray:
    """Return shared memory and whether the mbarrier completed, or the changed bits.

    With `counts`, the simulator must execute the machine code.
    """
    result, record = launched(case, seed, device, encode, counts)
    assert not counts or record.counts.machine_code
    return result


def launched(
    case: Copy, seed: int, device: str, encode: object, counts: bool = False
) -> tuple[np.ndarray, Any]:
    """Return the result of `run`, and the `LaunchRecord` of the launch."""
    import coalesce

    flat, image = data(seed)
    name = "store" if case.stores else "load"
    kernel = coalesce.Kernel(source_of(len(case.box)), name, device=device, arch="sm_90a")
    array = coalesce.asarray(flat, device=device)
    coordinates = coalesce.asarray(np.array(case.at, np.int32), device=device)
    encoded = encode(case, array)  # type: ignore[operator]
    how = {"shared_bytes": SHARED + 1024, "counts": counts}
    if case.stores:
        given = coalesce.asarray(image, device=device)
        record = kernel.launch(1, 128, encoded, array, given, coordinates, case.offset, **how)
        return np.asarray(array) ^ flat, record
    out = coalesce.asarray(np.zeros(SHARED + 1, np.uint8), device=device)
    record = kernel.launch(1, 128, encoded, array, out, coordinates, case.offset, case.bytes, **how)
    return np.asarray(out), record
