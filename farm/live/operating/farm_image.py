"""An image of the whole farm, from which it can be forked and its queue estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from farm.core.rules import Choices
from farm.core.state.snapshot import FarmSnapshot
from farm.forecasts.dispatch.recent_arrivals import RecentArrivals
from farm.forecasts.runtime.interface import Progress
from farm.live.wire.pool_report import LostBuilder

if TYPE_CHECKING:
    from farm.scenario import Scenario

FORMAT = 1


class FarmImage(msgspec.Struct, frozen=True, kw_only=True):
    """A farm at one instant: its snapshot, its scenario, and its estimators' history.

    ``farm status --save`` writes it as JSON, and the commands that estimate read it back.
    """

    format: int = FORMAT
    snapshot: FarmSnapshot
    #: the resolved scenario, as plain values
    scenario: dict[str, Any]
    #: the dump of the runtime estimator; None: a user's own estimator
    statistics: dict[str, Any] | None = None
    #: by job: the progress that its builder reported last
    progress: dict[str, Progress] = {}
    #: recently lost builders, newest last
    lost: tuple[LostBuilder, ...] = ()
    #: what was submitted lately; None: too little to tell a rate, or nothing more is to come
    recent: RecentArrivals | None = None


class ImageName(msgspec.Struct, frozen=True):
    """Answers who asks for an image: where it is kept."""

    image: str


def as_chosen(scenario: Scenario, choices: Choices) -> dict[str, Any]:
    """Return a scenario as plain values, with what operators have chosen since."""
    plain = scenario.model_dump(mode="json", exclude_none=True)
    rules: dict[str, Any] = msgspec.to_builtins(choices)
    sizes = rules.pop("pools")
    plain["scheduling"] |= rules
    for pool in plain["pools"]:
        size = sizes.get(pool["name"], {})
        (pool.get("provisioner") or pool).update(size)
    return plain
