"""Runs the command line for ``python -m coalesce``."""

import sys

from coalesce.cli import main

sys.exit(main())
