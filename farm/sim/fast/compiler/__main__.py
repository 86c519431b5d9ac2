"""``python -m farm.sim.fast.compiler``, or ``make kernel``: compile the loop of simulations."""

from __future__ import annotations

import argparse
import sys

from farm.sim.fast.compiler.building import BuildError, build, build_for_all_systems


def main(arguments: list[str] | None = None) -> str | None:
    """Compile it, and print where it is; return what stands in the way, if something does."""
    parser = argparse.ArgumentParser(description="Compile the loop of simulations.")
    parser.add_argument("--fetch", action="store_true", help="fetch a C compiler if there is none")
    parser.add_argument("--all", action="store_true", help="for all systems that a wheel carries")
    options = parser.parse_args(arguments)
    try:
        paths = build_for_all_systems() if options.all else [build(fetch=options.fetch)]
    except BuildError as error:
        return (
            f"warning: the loop of simulations cannot be compiled: {error}\n"
            "Everything works without it, simulations ten times as slowly."
        )
    for path in paths:
        print(f"the compiled loop of simulations: {path}")  # noqa: T201 - printed by make
    return None


if __name__ == "__main__":
    sys.exit(main())
