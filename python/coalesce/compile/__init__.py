"""From CUDA C++ to PTX and machine code: NVRTC in a worker process, the cache on disk, nvdisasm."""
