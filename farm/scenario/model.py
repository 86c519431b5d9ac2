"""The whole scenario: plain, frozen data that both worlds run."""

from __future__ import annotations

from typing import Any, Literal

import yaml
from pydantic import field_validator, model_validator

from farm.core.model import Platform
from farm.scenario.descriptions import describe
from farm.scenario.pools import Pool
from farm.scenario.quantities import (
    Duration,
    Flag,
    Positive,
    PositiveDuration,
    PositiveNumber,
    RunName,
    Whole,
)
from farm.scenario.scheduling import Estimates, Scheduling
from farm.scenario.section import Mapped, Section
from farm.scenario.workload import SOURCES, Source


class Phases(Section):
    """Only the run phase is reported; the ramps give it a past and a future."""

    ramp_up: Duration = 0.0
    """Not counted: the farm fills up."""
    run: PositiveDuration
    """What is reported."""
    ramp_down: Duration = 0.0
    """Not counted: arrivals go on, so that the run's last jobs end under load; or with"""
    quiesce: Flag = False
    """no job arrives in the ramp-down, so that the farm comes to rest."""

    @property
    def ends_at(self) -> float:
        """Farm time at which the last phase ends."""
        return self.ramp_up + self.run + self.ramp_down

    @property
    def load_ends_at(self) -> float:
        """Farm time from which on no job arrives."""
        return self.ramp_up + self.run if self.quiesce else self.ends_at


class Live(Section):
    """What only a live run needs to know."""

    speed: PositiveNumber = 1.0
    """Farm seconds in a real second."""
    hosts: Positive = 1
    """Celery processes that play the builders."""
    heartbeat: PositiveDuration = 1.0
    """Real time between two signs of life of a builder host that the farm starts."""
    lost_after: PositiveDuration = 5.0
    """Real time of silence after which a builder host is lost, with its builders."""
    max_waiting: Positive = 2_000_000
    """Jobs that may wait: `farm submit` refuses more, and the scheduler takes in none beyond it."""
    max_backlog: Positive = 1_000_000_000
    """Bytes of submissions that may lie in Redis before the scheduler has taken them in."""

    @model_validator(mode="after")
    def _patient(self) -> Live:
        if self.lost_after < 2 * self.heartbeat:
            raise ValueError(
                f"found lost_after {self.lost_after:g} with heartbeat {self.heartbeat:g}; "
                "allowed: two heartbeats or more"
            )
        return self


class Scenario(Section):
    """A farm, what it has to do, and how it decides.

    >>> scenario = farm.load_scenario("quickstart")
    >>> scenario.seed, scenario.scheduling.policy, [pool.builders for pool in scenario.pools]
    (1, 'fifo', [12, 4])
    """

    version: Literal[1] = 1
    """Of this file's form."""
    name: RunName = "scenario"
    """Names the run."""
    description: str = ""
    """For people."""
    seed: Whole = 1
    """Every random draw follows from it."""
    phases: Phases | None = None
    """Absent: until the last job is done, and everything counts."""
    pools: tuple[Pool, ...]
    """The builders."""
    workload: tuple[Source, ...]
    """The jobs: one or several sources, merged."""
    scheduling: Scheduling = Scheduling()
    """Who goes next, and where."""
    estimates: Estimates = Estimates()
    """Which dispatch-time estimates are given and logged."""
    live: Live = Live()
    """Only for `farm run`."""
    allow_unrunnable: Flag = False
    """Jobs that no pool could ever run are taken all the same (they wait for ever)."""

    @field_validator("pools")
    @classmethod
    def _distinct_pools(cls, pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
        if not pools:
            raise ValueError("found no pools; allowed: at least one")
        _refuse_duplicates([pool.name for pool in pools], "pools")
        return pools

    @field_validator("workload")
    @classmethod
    def _distinct_sources(cls, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        if not sources:
            raise ValueError(
                f"found an empty workload; allowed: at least one of {', '.join(SOURCES)}"
            )
        _refuse_duplicates([s.options.name for s in sources if s.options.name], "sources")
        return sources

    @property
    def default_platform(self) -> Platform | None:
        """The platform of jobs that name none: the only pool's; None if pools differ."""
        platforms = {pool.platform for pool in self.pools}
        return self.pools[0].job_platform if len(platforms) == 1 else None

    def pools_for(self, platform: Platform) -> tuple[Pool, ...]:
        """Return the pools whose builders may run a job of this platform."""
        return tuple(pool for pool in self.pools if pool.platform.can_run(platform))

    def to_yaml(self) -> str:
        """Return the scenario as a file that loads into the same scenario (nothing left out)."""
        data = self.model_dump(mode="json", exclude_none=True)
        return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario file (draft 2020-12)."""
    schema = Scenario.model_json_schema(mode="validation")
    describe(schema, Mapped)
    properties = {
        "extends": {
            "type": "string",
            "description": "Another scenario file, relative to this one; this one's keys win.",
        },
        **schema.pop("properties"),
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Farm scenario"}
    return {**head, **{k: v for k, v in schema.items() if k != "title"}, "properties": properties}


def _refuse_duplicates(names: list[str], what: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f"found two {what} named {name}; allowed: distinct names")
