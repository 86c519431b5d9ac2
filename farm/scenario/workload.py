"""``workload``: the sources of jobs, merged by arrival."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self, get_args

from pydantic import BeforeValidator, ValidationInfo, field_validator, model_validator

from farm.core.jobs.needs import flaw_of_needs, need_of
from farm.core.model import Job
from farm.scenario.distributions import Distribution
from farm.scenario.people import Users
from farm.scenario.quantities import (
    Duration,
    FileName,
    Name,
    NonNegative,
    Positive,
    PositiveDuration,
    PositiveNumber,
    Rate,
    Text,
    TextChoice,
    WholeChoice,
    some_weight,
)
from farm.scenario.section import Section
from farm.scenario.traits import PlatformDemand, Traits, platforms_given

Platforms = Annotated[
    tuple[PlatformDemand, ...],
    BeforeValidator(platforms_given, json_schema_input_type=PlatformDemand | list[PlatformDemand]),
    some_weight("platform"),
]


class TraceOptions(Traits):
    """What to take from a trace, and how to read it."""

    jobs: Positive | None = None
    """Only the first N jobs (of the window)."""
    window: tuple[Duration, Duration] | None = None
    """Only arrivals in [from, to) of the trace's own time, moved so that `from` is 0."""
    time_scale: PositiveNumber = 1.0
    """Factor of arrival times; service times are not changed."""
    platform: PlatformDemand | None = None
    """The platform of all jobs. Absent: the trace's platforms, else the only pool's."""
    parallel: Literal["one", "split", "refuse"] | None = None
    """Jobs of several processors (swf, batsim) take `one` slot each (this is the default), are
    `split` into a job for each, in a matrix, or the trace is refused."""
    fields: dict[Text, Text] | None = None
    """Which field of swf, or column of a foreign csv, becomes which part of the job."""

    @field_validator("window")
    @classmethod
    def _ordered(cls, window: tuple[float, float] | None) -> tuple[float, float] | None:
        if window is not None and window[1] <= window[0]:
            raise ValueError(f"found {window[0]:g}s to {window[1]:g}s; allowed: from before to")
        return window


class Trace(TraceOptions):
    """Recorded jobs."""

    path: FileName
    """Relative to the scenario file."""
    format: Text | None = None
    """`firefox-ci` (.dat), `swf` (.swf, .swf.gz), `csv` (.csv), `batsim` (.json), `taskcluster`
    (datastore.json), `bundle` (a directory); absent: by the name."""
    origin: Text | None = None
    """Where to get the file, for the message if it is missing."""


class Poisson(Section):
    """Arrivals independent of each other."""

    rate: Rate
    """Mean number of arrivals per time."""


class Releases(Traits):
    """When a generator releases jobs, and their traits."""

    poisson: Poisson | None = None
    """At random, at a mean rate; or:"""
    every: Duration | None = None
    """At a fixed interval, starting at `start`; or:"""
    users: Users | None = None
    """By users, each of whom thinks, pushes, and waits for the verdict: a closed workload."""
    start: Duration = 0.0
    """Instant of the start."""
    count: Positive | None = None
    """Maximum number of releases, of all users together."""
    duration: PositiveDuration | None = None
    """No release at `start` + this or later. Absent, with `phases`: until the last phase ends."""
    daily_cycle: tuple[NonNegative, ...] | None = None
    """24 factors by which the rate is multiplied, one for each hour of the day."""
    weekly_cycle: tuple[NonNegative, ...] | None = None
    """168 factors instead, one for each hour of the week from Monday 00:00."""
    cycle_start: Duration | None = None
    """Time of day, or of the week, at farm time 0 (9h is nine in the morning). Absent: that of the
    scenario's `starts`."""
    service_time: Distribution
    """Distribution of the jobs' service times."""
    platform: Platforms | None = None
    """One platform, or a list with weights. Absent: the only pool's."""
    group: TextChoice | None = None
    """The group: `deploy`, `deploy:3`, `main:latest` or `main:cancel`; one, a list, or
    weights. The jobs of a matrix have one together."""

    @field_validator("daily_cycle", "weekly_cycle")
    @classmethod
    def _a_whole_cycle(
        cls, factors: tuple[float, ...] | None, info: ValidationInfo
    ) -> tuple[float, ...] | None:
        hours = 24 if info.field_name == "daily_cycle" else 168
        if factors is not None and (len(factors) != hours or sum(factors) <= 0):
            raise ValueError(
                f"found {len(factors)} factors with sum {sum(factors):g}; "
                f"allowed: {hours}, not all of them 0"
            )
        return factors

    @property
    def cycle(self) -> tuple[float, ...] | None:
        """The factors of the hours, of days or of weeks; None: the rate is constant."""
        return self.weekly_cycle or self.daily_cycle

    @property
    def kinds(self) -> Mapping[str, float]:
        """The kinds of the jobs that have the common service time, with weights."""
        return self.kind or {"job": 1.0}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.weekly_cycle and self.daily_cycle:
            raise ValueError("found weekly_cycle beside daily_cycle; allowed: one of them")
        by = self.only_one_of("poisson", "every", "users")
        if by == "users" and self.cycle is not None:
            raise ValueError("found a cycle beside users; allowed: users.hours")
        if by == "every" and self.every == 0 and not self.count:
            raise ValueError("found every 0 without count: it would never end; allowed: a count")
        if self.service_time.by_kind is not None:
            missing = sorted(set(self.kinds) - set(self.service_time.by_kind))
            if missing:
                raise ValueError(
                    f"found no service_time.by_kind for {', '.join(missing)}; "
                    "allowed: one for each kind"
                )
        return self


class Arrivals(Releases):
    """Jobs that arrive one by one."""

    @model_validator(mode="after")
    def _no_longest(self) -> Self:
        for key in ("heavy", "memory_heavy"):
            rule = getattr(self, key)
            if rule is not None and rule.longest is not None:
                raise ValueError(
                    f"found {key}.longest for jobs that arrive one by one; "
                    "allowed here: threshold, kind, probability, declared"
                )
        return self


class NamedJob(Section):
    """A job of every matrix, or several that are alike."""

    name: Name
    """Its id is that of the matrix, this name and, of several, a number from 1."""
    count: Positive = 1
    """How many there are."""
    needs: tuple[Text, ...] = ()
    """Other jobs of the matrix that must have succeeded before, by name: `build`; or have ended,
    `build:ended`; or failed, `build:failed`. Of several, all."""
    needs_delay: Duration = 0.0
    """Time from the end of the last of them."""
    kind: Text | None = None
    """Its kind. Absent: its name."""
    service_time: Distribution | None = None
    """Its service time. Absent: the matrices'."""
    platform: PlatformDemand | None = None
    """Its platform. Absent: the matrices'."""
    group: Text | None = None
    """Its group. Absent: the matrices'."""

    @property
    def its_kind(self) -> str:
        """Its kind."""
        return self.kind or self.name

    @property
    def places(self) -> list[str]:
        """The ends of the ids of all that are alike."""
        if self.count == 1:
            return [self.name]
        return [f"{self.name}-{number}" for number in range(1, self.count + 1)]


class Matrices(Releases):
    """Jobs released together, as by one commit."""

    size: WholeChoice | None = None
    """Jobs in a matrix: one number, a list, or weights; or:"""
    jobs: tuple[NamedJob, ...] | None = None
    """The jobs of every matrix by name, which may need each other."""
    jobs_apart: Duration = 0.0
    """Time between the jobs of a matrix, which arrive one by one; 0: together."""

    @field_validator("size")
    @classmethod
    def _some_jobs(cls, sizes: dict[int, float] | None) -> dict[int, float] | None:
        if sizes is not None and min(sizes) < 1:
            raise ValueError(f"found {min(sizes)}; allowed: 1 or more jobs in a matrix")
        return sizes

    @property
    def sizes(self) -> Mapping[int, float]:
        """The numbers of jobs in a matrix, with weights."""
        return self.size or {sum(job.count for job in self.jobs or ()): 1.0}

    @property
    def kinds(self) -> Mapping[str, float]:
        """The kinds of the jobs that have the common service time, with weights."""
        if self.jobs is None:
            return super().kinds
        return dict.fromkeys((job.its_kind for job in self.jobs if job.service_time is None), 1.0)

    @model_validator(mode="after")
    def _sound_jobs(self) -> Self:
        if self.jobs_apart and (self.users is not None or self.reruns is not None):
            raise ValueError(
                "found jobs_apart beside users or reruns; allowed: jobs that arrive together"
            )
        if self.only_one_of("size", "jobs") == "size" or self.jobs is None:
            return self
        if not self.jobs:
            raise ValueError("jobs: found none; allowed: one or more")
        if self.kind is not None:
            raise ValueError("found kind beside jobs; allowed: a kind of each of the jobs")
        if self.jobs_apart:
            raise ValueError("found jobs_apart beside jobs; allowed: jobs that arrive together")
        places = [place for job in self.jobs for place in job.places]
        if repeated := next((one for one in places if places.count(one) > 1), None):
            raise ValueError(f"jobs: found {repeated} twice; allowed: distinct names")
        if (flaw := flaw_of_needs(self.together())) is not None:
            raise ValueError(f"jobs: {flaw.job.id}: {flaw.why}")
        return self

    def together(self) -> list[Job]:
        """Return the named jobs with their needs; all that matters of them later is drawn."""
        named = {job.name: job.places for job in self.jobs or ()}
        made = []
        for job in self.jobs or ():
            needs = tuple(
                f"{place}{text[len(name) :]}"
                for text in job.needs
                for name in [need_of(text).job]
                for place in named.get(name, [name])
            )
            made += [Job(id=place, service_time=0.0, needs=needs) for place in job.places]
        return made


class Generator(Section):
    """Jobs made by your own function."""

    name: Name | None = None
    """Prefix of job ids if there are several sources."""
    function: Text
    """`module:function`, called with a random.Random, which yields `farm.Job`s by arrival."""


Sort = Literal["trace", "matrices", "arrivals", "generator"]
SOURCES: tuple[Sort, ...] = get_args(Sort)


class Source(Section):
    """One source of jobs: a trace, matrices, arrivals, or your own generator."""

    one_of = SOURCES
    trace: Trace | None = None
    matrices: Matrices | None = None
    arrivals: Arrivals | None = None
    generator: Generator | None = None

    @property
    def sort(self) -> Sort:
        """The kind of source."""
        return next(sort for sort in SOURCES if getattr(self, sort) is not None)

    @property
    def options(self) -> Trace | Matrices | Arrivals | Generator:
        """The options of the source."""
        given = (self.trace, self.matrices, self.arrivals, self.generator)
        return next(options for options in given if options is not None)
