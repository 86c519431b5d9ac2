"""The scenario: plain, frozen data that both worlds run."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from farm.core.model import Platform
from farm.scenario.file.document import document_text
from farm.scenario.pools import Pool
from farm.scenario.presets import System, scenario_with_preset
from farm.scenario.quantities import (
    Duration,
    Flag,
    Number,
    Positive,
    PositiveDuration,
    PositiveNumber,
    RunName,
    Share,
    Text,
    TimeOfWeek,
    Whole,
)
from farm.scenario.scheduling import Estimates, Scheduling
from farm.scenario.section import Mapped, Section, describe_keys
from farm.scenario.times_of_week import WEEK
from farm.scenario.workload import SOURCES, Source


class Phases(Section):
    """The phases of a run; only the run phase is reported."""

    ramp_up: Duration = 0.0
    """Not counted: the farm fills up."""
    run: PositiveDuration
    """The phase that is reported."""
    ramp_down: Duration = 0.0
    """Not counted: arrivals continue, so that the run's last jobs end under load."""
    quiesce: Flag = False
    """No job arrives in the ramp-down, so that the farm comes to rest."""

    @property
    def ends_at(self) -> float:
        """Farm time at which the last phase ends."""
        return self.ramp_up + self.run + self.ramp_down

    @property
    def load_ends_at(self) -> float:
        """Farm time after which no job arrives."""
        return self.ramp_up + self.run if self.quiesce else self.ends_at


WorkloadKind = Literal["open", "closed", "mixed"]
"""Whether arrivals depend on the farm: not, as users wait for verdicts, or some of them."""
NOT_DISTINGUISHABLE: Final = "not distinguishable"
"""What a difference is called that is smaller than the errors of a twin."""


GradeOfPool = Annotated[
    str, Field(strict=True, max_length=1000, pattern=r"^(each job|on average|rough|none)\b")
]
"""How well a pool of a twin waits as recorded; after ``rough`` by how much, after ``none`` why."""


class TwinErrors(Section):
    """How a farm's twin differed from its records, on the half that it was not made from."""

    grade: Literal["sure", "likely", "cannot-tell"] | None = None
    """How sure an answer of it can be, at best; absent: not known."""
    mean: Number | None = None
    """Of the mean wait: simulated ÷ recorded - 1, of all pools together; absent: not checked."""
    p95: Number | None = None
    """The same of the p95 wait, of the loaded pool where it is largest."""
    per_job: Number | None = None
    """Mean of each job's error, either way, as a share of the mean wait; absent: not known."""
    open_loop: Share | None = None
    """Share of the jobs that came soon after another's end, more than by chance, if that matters:
    they are played as they came, although on a faster farm they would come sooner."""
    closed_loop: Share | None = None
    """Share of the recorded jobs that are played as other jobs release them."""
    pools: dict[Text, GradeOfPool] | None = None
    """How well each waits as recorded: `each job`, `on average`, `rough: …` or `none: …`."""

    @property
    def largest(self) -> float:
        """Differences below this share are not distinguishable from the twin's own errors."""
        return max(abs(self.mean or 0.0), abs(self.p95 or 0.0))

    @property
    def caveat(self) -> str:
        """What must be said before any answer of this twin; empty: nothing.

        An answer on a pool that does not wait as recorded, or on jobs that would have come at
        other times, looks like any other.
        """
        caveats = []
        if self.open_loop is not None:
            caveats.append(
                f"not sure, as this twin is open-loop: {self.open_loop:.0%} of the recorded jobs "
                "came soon after another's end, and are played as they came; on a faster farm "
                "they would come sooner, so it would gain less"
            )
        for name, text in (self.pools or {}).items():
            grade, _, why = text.partition(": ")
            if grade == "none":
                caveats.append(f"no twin of pool {name} was found ({why}): do not rely on it")
            elif grade == "rough":
                caveats.append(f"the twin of pool {name} is rough ({why})")
        return "; ".join(caveats)

    def hide(self, base: float, difference: float) -> bool:
        """Return whether a wait's difference from ``base`` is smaller than the errors."""
        return difference != 0 and abs(difference) < self.largest * abs(base)

    def __str__(self) -> str:
        if self.mean is None or self.p95 is None:
            return "this twin's own errors are not known: it could not be checked"
        if max(self.largest, self.per_job or 0.0) < 0.0005:
            return "this twin's own errors are below 0.1 %"
        by_job = "" if self.per_job is None else f", {self.per_job:.1%} of the mean wait per job"
        return (
            f"this twin's own errors: mean wait {self.mean:+.1%}, p95 {self.p95:+.1%}{by_job}; "
            f"differences of waits below {self.largest:.1%} are {NOT_DISTINGUISHABLE}"
        )


class Live(Section):
    """Settings of live runs only."""

    speed: PositiveNumber = 1.0
    """Farm seconds per real second."""
    hosts: Positive = 1
    """Number of Celery processes that run the builders."""
    heartbeat: PositiveDuration = 1.0
    """Real time between heartbeats of the builder hosts that the farm starts."""
    lost_after: PositiveDuration = 5.0
    """Real time of silence after which a builder host is lost, with its builders."""
    max_waiting: Positive = 2_000_000
    """Maximum number of waiting jobs: `farm submit` and the scheduler refuse more. With each full
    kilobyte of its attributes a job counts as one more."""
    max_backlog: Positive = 1_000_000_000
    """Maximum size in bytes of submissions in Redis that the scheduler has not read yet."""

    @model_validator(mode="after")
    def _patient(self) -> Self:
        if self.lost_after < 2 * self.heartbeat:
            raise ValueError(
                f"found lost_after {self.lost_after:g} with heartbeat {self.heartbeat:g}; "
                "allowed: two heartbeats or more"
            )
        return self


class Scenario(Section):
    """A farm, its workload, and its scheduling.

    >>> scenario = farm.load_scenario("quickstart")
    >>> scenario.seed, scenario.scheduling.policy, [pool.builders for pool in scenario.pools]
    (1, 'fifo', [12, 4])
    """

    version: Literal[1] = 1
    """Version of the file's format."""
    name: RunName = "scenario"
    """Name of the run; absent: the file's."""
    description: str = ""
    """For people."""
    like: System | None = None
    """Decide as another system does; stands for keys of `scheduling`, `estimates` and
    provisioners that are not given."""
    seed: Whole = 1
    """Seed of all random draws."""
    starts: TimeOfWeek = 0.0
    """Weekday or date, and time of day, at farm time 0: `wed 14:30`, `2026-03-02 09:00`."""
    phases: Phases | None = None
    """Absent: the run lasts until the last job ends, and everything counts."""
    currency: Annotated[Text, Field(max_length=8)] | None = None
    """Currency of the pools' prices, such as `EUR`: costs are told in it, and by the month. Absent:
    they are in builder-hours, or without a unit if a pool has a price."""
    pools: tuple[Pool, ...]
    """The builders."""
    workload: tuple[Source, ...]
    """The sources of jobs, merged by arrival."""
    scheduling: Scheduling = Scheduling.model_construct()
    """Which job goes next, and to which builder."""
    estimates: Estimates = Estimates.model_construct()
    """Which dispatch-time estimates are made and logged."""
    live: Live = Live.model_construct()
    """Settings of live runs."""
    allow_unrunnable: Flag = False
    """Accept jobs that no pool could ever run (cancelled at the end)."""
    twin: TwinErrors | None = None
    """Of a farm made by `farm twin`: its errors, which are shown beside answers."""

    @model_validator(mode="before")
    @classmethod
    def _as_another_system(cls, given: object) -> object:
        return scenario_with_preset(given) if isinstance(given, dict) else given

    @property
    def remarks(self) -> tuple[str, ...]:
        """What must be known of every answer that this farm gives."""
        if self.twin is None:
            return ()
        return tuple(filter(None, (self.twin.caveat, str(self.twin))))

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
    def unit_of_cost(self) -> str | None:
        """The currency of costs, which may have no name; None: costs are builder-hours."""
        if self.currency is None and all(pool.price == 1.0 for pool in self.pools):
            return None
        return self.currency or ""

    @property
    def ends_at(self) -> float:
        """Farm time until which a run lasts at least: the end of its phases."""
        return self.phases.ends_at if self.phases is not None else 0.0

    @property
    def time_of_week(self) -> float:
        """Seconds since Monday 00:00 at farm time 0."""
        return self.starts % WEEK

    @property
    def goes_by_the_week(self) -> bool:
        """Whether weekdays and times of day mean something: anything in it goes by them."""
        sources = (getattr(source.options, "weekly_cycle", None) for source in self.workload)
        people = (
            who.hours
            for source in self.workload
            for who in (
                getattr(source.options, "users", None),
                getattr(source.options, "reruns", None),
            )
            if who is not None
        )
        periods = (
            one.period.minutes
            for pool in self.pools
            if pool.provisioner is not None
            for one in pool.provisioner.by_time
        )
        return bool(self.starts) or any(sources) or any(people) or any(periods)

    @property
    def workload_kind(self) -> WorkloadKind:
        """Whether jobs come whatever the farm does, after verdicts of users, or both."""
        closed = [getattr(source.options, "users", None) is not None for source in self.workload]
        if not any(closed):
            return "open"
        return "closed" if all(closed) else "mixed"

    @property
    def default_platform(self) -> Platform | None:
        """The only pool's platform, which is the default of jobs; None if pools differ."""
        platforms = {pool.platform for pool in self.pools}
        return self.pools[0].job_platform if len(platforms) == 1 else None

    def pools_for(self, platform: Platform) -> tuple[Pool, ...]:
        """Return the pools whose builders may run a job of this platform."""
        return tuple(pool for pool in self.pools if pool.platform.can_run(platform))

    def to_yaml(self) -> str:
        """Return the scenario as a file that loads into the same scenario (nothing left out)."""
        return document_text(self.model_dump(mode="json", exclude_none=True))


class StandingFarm(Scenario):
    """A farm without a workload: its jobs, if any, come from elsewhere."""

    workload: tuple[Source, ...] = ()

    @field_validator("workload")
    @classmethod
    def _distinct_sources(cls, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        return sources


def scenario_schema() -> dict[str, Any]:
    """Return the JSON Schema of a scenario file (draft 2020-12)."""
    schema = Scenario.model_json_schema(mode="validation")
    describe_keys(schema, Mapped)
    properties = {
        "extends": {
            "type": "string",
            "description": "Another scenario file, relative to this one, as a base.",
        },
        **schema.pop("properties"),
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Farm scenario"}
    return {**head, **{k: v for k, v in schema.items() if k != "title"}, "properties": properties}


def _refuse_duplicates(names: list[str], what: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ValueError(f"found two {what} named {name}; allowed: distinct names")
