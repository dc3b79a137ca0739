"""Reads CUDA C++ and PTX: the parameters of kernels, the variables, and which code is host code.

PTX is the assembly language that CUDA C++ is compiled to.
"""
