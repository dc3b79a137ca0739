"""Profiles and comparisons as text, HTML and plain data."""
