"""Reads CUDA C++ and PTX. Finds the parameters of kernels, the variables and the host code.

PTX is the assembly language that CUDA C++ is compiled to.
"""
