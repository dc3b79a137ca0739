"""Compiles CUDA C++ to PTX and machine code, and keeps the results in a cache on disk."""
