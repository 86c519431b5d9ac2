"""Puts lines together of pieces of a text; compiled."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from farm.sim.fast.kernel.heaps import Array


class Lines(NamedTuple):
    """Lines of several kinds; those of a kind have the same number of pieces."""

    #: the kind of each line
    kinds: Annotated[Array, np.int64]
    # by kind: how many pieces a line has, and the first piece of the next line (written into)
    widths: Annotated[Array, np.int64]
    nexts: Annotated[Array, np.int64]
    # kind by kind and line by line: where each piece begins and ends in the text
    begins: Annotated[Array, np.int64]
    ends: Annotated[Array, np.int64]
    text: Annotated[Array, np.int8]


def put_together(lines: Lines, target: Annotated[Array, np.int8]) -> int:
    """Write the lines one behind the other; return the length of all."""
    place = 0
    for kind in lines.kinds:
        first = lines.nexts[kind]
        last = first + lines.widths[kind]
        for piece in range(first, last):
            for at in range(lines.begins[piece], lines.ends[piece]):
                target[place] = lines.text[at]
                place += 1
        lines.nexts[kind] = last
    return place
