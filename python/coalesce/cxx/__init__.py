"""Reading CUDA C++ and PTX text: declarations, kernel signatures, variables."""
