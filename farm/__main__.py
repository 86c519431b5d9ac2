"""The command ``farm``, also ``python -m farm``; Ctrl-C is handled before anything is imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line ``farm``; if interrupted during imports, end silently."""
    if sys.platform == "win32":
        sys.stderr.write("error: the farm runs on Linux and macOS; on Windows use WSL\n")
        sys.exit(2)
    try:
        from farm.cli.main import main as run  # noqa: PLC0415 - imports that Ctrl-C may interrupt
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
