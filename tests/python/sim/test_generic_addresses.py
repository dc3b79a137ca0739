"""isspacep: kernels ask which state space an address belongs to."""

import numpy as np

import coalesce

SOURCE = """
extern "C" __global__ void ask(const float *x, int *out) {
    __shared__ float s[1];
    float l[2] = {x[0], x[1]};
    const void *places[] = {x, s, &l[threadIdx.x]};
    for (int i = 0; i < 3; ++i)
        out[3 * threadIdx.x + i] = __isGlobal(places[i]) * 4 + __isShared(places[i]) * 2
                                 + __isLocal(places[i]);
}
"""


def test_device_arrays_are_global() -> None:
    kernel = coalesce.Kernel(SOURCE, "ask", device="sim")
    for x in (np.zeros(4, np.float32), coalesce.zeros(4, "float32", device="sim")):
        out = np.zeros(6, np.int32)
        kernel[1, 2](x, out)
        assert out.tolist() == [4, 2, 1] * 2
