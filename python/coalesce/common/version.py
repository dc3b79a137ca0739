"""The version of this package, as a string."""

__version__ = "0.1.0"
