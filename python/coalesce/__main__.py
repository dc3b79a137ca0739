"""``python -m coalesce``: the command line."""

import sys

from coalesce.cli import main

sys.exit(main())
