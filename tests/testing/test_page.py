"""docs/how-to/testing.md: a user's tests, copied from the page and run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/testing.md"


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.timeout(300)
def test_the_pages_tests_pass(tmp_path: Path) -> None:
    """Each block is the file that its first line names; together they are a test suite."""
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert next(name for name, _ in blocks) == "conftest.py"
    assert len(blocks) == 4
    for name, code in blocks:
        (tmp_path / name).write_text(code, "utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(tmp_path),
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout
