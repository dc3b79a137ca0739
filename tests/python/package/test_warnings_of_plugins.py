"""A warning of another pytest plugin does not end a run of these tests."""

import os
import subprocess
import sys
from pathlib import Path

MARKUP = Path(__file__).parents[1] / "cli" / "test_markup.py"


def test_a_plugin_may_warn_while_pytest_starts(tmp_path: Path) -> None:
    (tmp_path / "warning_plugin.py").write_text(
        "import warnings\ndef pytest_configure(config): warnings.warn('a plugin is disabled')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "warning_plugin", MARKUP],
        cwd=MARKUP.parents[3],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
