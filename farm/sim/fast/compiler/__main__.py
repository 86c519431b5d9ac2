"""``python -m farm.sim.fast.compiler``, or ``make kernel``: compile the loop of simulations."""

from __future__ import annotations

import sys

from farm.sim.fast.compiler.building import BuildError, build


def main() -> str | None:
    """Compile it, and print where it is; return what stands in the way, if something does."""
    try:
        print(f"the compiled loop of simulations: {build()}")  # noqa: T201 - printed by make
    except BuildError as error:
        return (
            f"error: the loop of simulations cannot be compiled: {error}. "
            "Everything works without it, simulations ten times as slowly"
        )
    return None


if __name__ == "__main__":
    sys.exit(main())
