// Is read in place of CUDA's header, and adds the names of older versions of CUDA.
#pragma GCC system_header
#ifndef __CUDA_ARCH__
// The templates of this header call functions of C. Inline them also without optimisation, so that a
// return address in a message is a place in the program.
#define __inline__ __inline__ __attribute__((always_inline))
#endif
#include_next <cuda_runtime.h>
#undef __inline__
#include "cuda12.h"
