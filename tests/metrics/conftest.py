"""What the tests of the metrics share: a farm whose events the test plays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from farm.core.commands import RequestBuilder
from farm.core.events import BuilderJoined, Event, FarmOpened
from farm.core.model import Builder, Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.path_keys import PathExtractor
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.working_state import BuilderRequest
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.metrics.farm_metrics import FarmMetrics
from farm.metrics.series import HistogramValue

AMD64 = Platform("amd64", True)
#: options of the metrics, and the scheduler's pools; others are rules
METRICS = ("in_steps", "monotonic", "pools", "specs", "stays")


class Play:
    """A scheduler with metrics; events are handled one by one."""

    def __init__(self, rules: SchedulingRules, specs: Sequence[PoolSpec] = (), **more: Any) -> None:
        self.scheduler = Scheduler(rules, make_estimator("oracle"), specs)
        self.metrics = FarmMetrics(self.scheduler, **more)

    def tell(self, *events: Event) -> None:
        for event in events:
            self.metrics.observe(event, self.scheduler.handle(event))

    def request(self, at: float, name: str, pool: str = "linux") -> None:
        builder = Builder(id=name, pool=pool, index=0)
        self.scheduler.pool(pool).requested[name] = BuilderRequest(builder, at)
        self.metrics.observe(FarmOpened(at), [RequestBuilder(builder)])

    def join(self, at: float, name: str, *, slots: int = 1, pool: str = "linux") -> None:
        builder = Builder(
            id=name, pool=pool, index=len(self.scheduler.builders), processors=("amd64",),
            slots=slots,
        )  # fmt: skip
        self.request(at, name, pool)
        self.tell(BuilderJoined(at, builder))

    def value(self, name: str, *labels: str) -> object:
        """Return a metric's value; of a histogram, how many observations and their sum."""
        found = self.metrics.readings()[name].get(labels)
        if isinstance(found, HistogramValue):
            return sum(found.counts), found.total
        return found

    def values(self, name: str, *lasts: str, pool: str = "") -> list[object]:
        """Return a metric's values by its last label."""
        return [self.value(name, *[pool] * bool(pool), last) for last in lasts]


@pytest.fixture
def play() -> Callable[..., Play]:
    """Make a farm; ``fair_share`` names its keys; more rules, or options of the metrics."""

    def make(fair_share: tuple[str, ...] = (), **more: Any) -> Play:
        options = {name: more.pop(name) for name in METRICS if name in more}
        rules = SchedulingRules(**more)
        if fair_share:
            rules = SchedulingRules(
                path=PathExtractor(fair_share), make_queue=FairShareQueue, **more
            )
        return Play(rules, **options)

    return make


@pytest.fixture
def job() -> Callable[..., Job]:
    """Make a job, by default for amd64."""

    def make(name: str, service_time: float = 10.0, **more: Any) -> Job:
        return Job(id=name, service_time=service_time, **{"platform": AMD64, **more})

    return make
