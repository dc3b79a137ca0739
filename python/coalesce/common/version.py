"""The package's version, as text."""

__version__ = "0.1.0"
