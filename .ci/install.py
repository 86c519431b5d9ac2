"""install.py NUMBER ARGUMENTS…: pip install, saying every few seconds how far it is.

NUMBER of packages are needed, about; pip itself says how many once it has them all.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time

EVERY = 2.5
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off",
       "-c", "constraints.txt")  # fmt: skip


def main(number: int, arguments: list[str]) -> int:
    """Run pip; return its exit status. What it wrote is shown if that is not 0."""
    command = [sys.executable, *PIP, *arguments]
    pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines: list[str] = []
    over = threading.Event()
    threading.Thread(target=say, args=(number, lines, over), daemon=True).start()
    lines.extend(pip.stdout or ())
    over.set()
    if status := pip.wait():
        sys.stderr.writelines(lines)
    return status


def say(number: int, lines: list[str], over: threading.Event) -> None:
    """Say how many packages are fetched, and that they are being installed."""
    began = time.monotonic()
    while not over.wait(EVERY):
        spent = time.monotonic() - began
        found = sum(line.startswith("Collecting ") for line in lines)
        known = sum(line.startswith("Requirement already") for line in lines)
        if any(re.match("Installing collected", line) for line in lines):
            text = f"installing {found} packages, {spent:.0f} s so far"
        else:
            share = min(1.0, (found + known) / number)
            left = f", about {spent * (4 / 3 / share - 1):.0f}s left" if share else ""
            some = max(found, number - known)
            text = f"fetching packages: {found} of some {some}, {0.75 * share:.0%}{left}"
        sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
