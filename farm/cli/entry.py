"""The first module of the command ``farm``: nothing heavy is imported before Ctrl-C is minded."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line ``farm``; interrupted while it is still being read, say nothing."""
    try:
        from farm.cli.main import main as run  # noqa: PLC0415 - half a second in which one may regret
    except KeyboardInterrupt:
        sys.exit(130)
    run()
