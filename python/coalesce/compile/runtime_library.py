"""The libraries with which this package replaces NVIDIA's libraries.

A CUDA program loads this package's ``libcudart.so`` in place of NVIDIA's. See csrc/cudart. This
package also replaces parts of libraries whose source is not public, such as cuBLAS.
"""

from __future__ import annotations

from pathlib import Path

from coalesce import _core

LIBRARY = "libcudart.so.13"  # programs load the runtime by this name
# The names by which programs link to this package's libraries and load them.
NAMES = {
    "libcudart.so": "libcudart.so",
    LIBRARY: "libcudart.so",
    "libcuda.so": "libcudart.so",  # one library has both APIs, so that they share one GPU
    "libcuda.so.1": "libcudart.so",
    "libnvrtc.so": "libnvrtc.so",
    "libnvrtc.so.13": "libnvrtc.so",
}
LIBRARIES = Path(__file__).with_name("libraries")  # replacements for closed libraries
# Libraries whose code is closed and needs a GPU, by the beginnings of their names.
CLOSED = {
    "cublas": "cuBLAS",
    "cufft": "cuFFT",
    "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "curand": "cuRAND's host library",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "npp": "NPP",
    "nvjpeg": "nvJPEG",
    "cutensor": "cuTENSOR",
}
# For some of these libraries, a file of this package replaces a part of their functions.
REPLACED = {"cublas": LIBRARIES / "cublas.cu", "curand": LIBRARIES / "curand.cu"}


def library(name: str = "libcudart.so") -> Path:
    """Return the path of this package's replacement for NVIDIA's library `name`."""
    return Path(_core.__file__).with_name(name)


def link_libraries(folder: Path) -> None:
    """Put links to this package's libraries into a folder.

    The links have the names of NVIDIA's libraries. Therefore programs load this package's libraries
    in place of NVIDIA's.
    """
    for name, own in NAMES.items():
        (folder / name).symlink_to(library(own))
