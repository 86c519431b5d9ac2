"""What a verdict stands on: what was found in the records, and what was assumed of them."""

from __future__ import annotations

from typing import Literal

import msgspec

Grade = Literal["sure", "likely", "cannot-tell"]
"""How far a verdict can be relied on: nothing that was assumed could reverse it; it holds as far as
the assumptions do; or the records do not say it."""
Effect = Literal["noted", "weakens", "forbids"]
"""What a finding does to a verdict: nothing, it makes it *likely*, or there can be none."""


class Assumption(msgspec.Struct, frozen=True):
    """What the records do not say, and a verdict relies on."""

    #: slots, resolution, arrivals, …
    what: str
    #: as it was assumed
    value: str
    #: the verdict if it is otherwise
    otherwise: str


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a check of the records has found."""

    #: the name of the rule
    rule: str
    #: what was found, as a clause
    text: str
    effect: Effect = "noted"
    #: the platforms that it is about; empty: all
    platforms: tuple[str, ...] = ()
    assumed: Assumption | None = None
    #: the condition on which the verdict is reversed, and which column, call or option settles it;
    #: empty: it cannot be reversed by this
    reversed_if: str = ""
    #: what is added to an answer on another number of slots
    about_slots: str = ""

    def is_about(self, platform: str) -> bool:
        """Return whether this is said of a platform."""
        return not self.platforms or platform in self.platforms
