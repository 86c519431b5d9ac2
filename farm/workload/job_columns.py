"""Jobs by arrival as columns, made block by block; a Job exists where one is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from farm.core.model import Job
from farm.workload.columns import Block, joined


class JobColumns:
    """Jobs in blocks by arrival; those that are not held can be read once."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks: Iterator[Block] = (block for block in blocks if len(block))
        #: the jobs that are held
        self.held: Block | None = None

    @classmethod
    def of(cls, held: Block) -> JobColumns:
        """Return these jobs, held."""
        made = cls(())
        made.held = held
        return made

    @classmethod
    def merged(cls, sources: Sequence[JobColumns]) -> JobColumns:
        """Return the jobs of all sources by (arrival, position of the source, serial in it)."""
        return sources[0] if len(sources) == 1 else cls(_merged([one._blocks for one in sources]))

    def before(self, horizon: float) -> JobColumns:
        """Return the jobs that arrive before an instant."""
        return JobColumns(_before(self._blocks, horizon))

    @property
    def is_empty(self) -> bool:
        """Return whether there are none."""
        first = next(self._blocks, None)
        if first is not None:
            self._blocks = chain((first,), self._blocks)
        return first is None

    def hold(self, most: int | None = None) -> bool:
        """Draw ``most`` jobs or some more, None: all; return whether fewer than that are all.

        Those that are held already are the first.
        """
        blocks = [] if self.held is None else [self.held]
        count = len(self)
        while most is None or count < most:
            block = next(self._blocks, None)
            if block is None:
                break
            blocks.append(block)
            count += len(block)
        self.held = joined(blocks) if blocks else None
        return most is None or count < most

    def blocks(self) -> Iterator[Block]:
        """Return the jobs block by block; none are held then."""
        held, self.held = self.held, None
        return chain(() if held is None else (held,), self._blocks)

    def ids(self) -> list[str]:
        """Return the ids of the held jobs."""
        return [] if self.held is None else self.held.column("id").tolist()

    def values(self, begin: int, end: int) -> list[list[Any]]:
        """Return the fields of some held jobs as columns, in the order of a Job's fields."""
        if self.held is None:
            return [[] for _ in Job.__struct_fields__]
        some = self.held.taken(slice(begin, end))
        return [some.values(field) for field in Job.__struct_fields__]

    def __len__(self) -> int:
        return 0 if self.held is None else len(self.held)

    def __getitem__(self, place: int) -> Job:
        if self.held is None:
            raise IndexError(place)
        return next(self.held.taken(slice(place, place + 1)).jobs())

    def __iter__(self) -> Iterator[Job]:
        held = () if self.held is None else (self.held,)
        return (job for block in chain(held, self._blocks) for job in block.jobs())


def _before(blocks: Iterator[Block], horizon: float) -> Iterator[Block]:
    for block in blocks:
        some = int(np.searchsorted(block.array("arrived_at"), horizon))
        if some < len(block):
            yield block.taken(slice(some))
            return
        yield block


def _merged(sources: Sequence[Iterator[Block]]) -> Iterator[Block]:
    """Yield, as sources are read on, what arrives before all that is to come."""
    more = dict(enumerate(sources))
    left: dict[int, Block] = {}
    while more:
        # the source that is known for the shortest time is read on
        least = min(more, key=lambda n: (_ends_at(left[n]) if n in left else -np.inf, n))
        block = next(more[least], None)
        if block is None:
            del more[least]
        else:
            left[least] = joined([left[least], block]) if least in left else block
        if not more:
            break
        if any(n not in left for n in more):
            continue
        known_until = min(_ends_at(left[n]) for n in more)
        ready = []
        for n in sorted(left):
            some = int(np.searchsorted(left[n].array("arrived_at"), known_until))
            if some:
                ready.append(left[n].taken(slice(some)))
                left[n] = left[n].taken(slice(some, None))
        if ready:
            yield _sorted(ready)
    if rest := [left[n] for n in sorted(left) if len(left[n])]:
        yield _sorted(rest)


def _ends_at(block: Block) -> float:
    return float(block.array("arrived_at")[-1])


def _sorted(blocks: Sequence[Block]) -> Block:
    """Return the jobs of blocks by arrival; at one instant, in the order of the blocks."""
    whole = joined(blocks)
    return whole.taken(np.argsort(whole.array("arrived_at"), kind="stable"))
