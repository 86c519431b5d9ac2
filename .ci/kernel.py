"""Compile the loop of simulations, and say every few seconds that it goes on."""

from __future__ import annotations

from farm.sim.fast.kernel.build import build
from farm.terminal.output import progress

if __name__ == "__main__":
    with progress("compiling the loop of simulations, for a minute or two"):
        build()
