"""A system whose records can be read: a wing or a user's package has one by an entry point.

The group is ``farm.sources``, the name of the entry is the system's (``farm import NAME``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from farm.records.attempt import Attempt
from farm.records.key_styles import Respelled, as_it_is, has_times, with_times
from farm.records.reading import Reading


class Source(NamedTuple):
    """A system's records: how they are read, and how exact they are."""

    read: Callable[[Reading], Iterable[Attempt]]
    #: whether a JSON object is one of this system's
    knows: Callable[[dict[str, object]], bool]
    write: Callable[[Iterable[Attempt]], Iterable[dict[str, object]]]
    #: of its instants, seconds: shorter waits are no evidence
    resolution: float = 0.001
    #: how long an attempt may be open, seconds: after that, the system has forgotten its end
    longest_open: float = float("inf")
    #: an id is of one attempt alone, also in the files of several servers or projects
    unique_ids: bool = True
    #: how its client libraries write its keys, where that is not as it does itself
    styles: tuple[Respelled, ...] = ()

    def style_of(self, value: dict[str, object]) -> Respelled | None:
        """Return how the keys of an object are to be spelled; None: it is not this system's."""
        if self.knows(value):
            return with_times if self.styles and has_times(value) else as_it_is
        return next((style for style in self.styles if self.knows(style(value))), None)
