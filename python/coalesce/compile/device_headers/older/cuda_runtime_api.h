// Is read in place of CUDA's header, and adds the names of older versions of CUDA.
#pragma GCC system_header
#include_next <cuda_runtime_api.h>
#include "cuda12.h"
