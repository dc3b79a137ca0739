"""Building blocks of reports: HTML, the console, tables."""
