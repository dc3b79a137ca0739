"""The headers that the compiler sees in place of headers for host code."""
