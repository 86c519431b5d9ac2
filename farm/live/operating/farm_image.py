"""The whole farm in one value: what a fork of it, or an estimate of its queue, is made from."""

from __future__ import annotations

from typing import Any

import msgspec

from farm.core.snapshot import FarmSnapshot
from farm.live.wire.pool_report import LostBuilder

FORMAT = 1


class FarmImage(msgspec.Struct, frozen=True, kw_only=True):
    """A farm at one moment: how it stands, what it is to be, what has been learned.

    ``farm snapshot`` writes it as JSON, and the commands that estimate read it back.
    """

    format: int = FORMAT
    snapshot: FarmSnapshot
    #: the scenario as it was resolved, as plain values
    scenario: dict[str, Any]
    #: what the runtime estimator dumped; None: it is not one of ours
    statistics: dict[str, Any] | None = None
    #: builders that were lost of late, the newest last
    lost: tuple[LostBuilder, ...] = ()
