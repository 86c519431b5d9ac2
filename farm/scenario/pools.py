"""``pools``: groups of equal builders that are sized together."""

from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    ModelWrapValidatorHandler,
    SerializerFunctionWrapHandler,
    Tag,
    field_validator,
    model_serializer,
    model_validator,
)

from farm.core.contention import laws
from farm.core.model import Platform
from farm.core.queues.fair_share.path_keys import flaw_of_key
from farm.emulation.client_estimate import flaw_of_labels
from farm.scenario.distributions import Distribution
from farm.scenario.presets import PRESETS, pool_with_preset
from farm.scenario.provisioner import ProvisionerSettings
from farm.scenario.quantities import (
    Count,
    Duration,
    FileName,
    Flag,
    Name,
    NonNegative,
    Number,
    Positive,
    PositiveNumber,
    Rate,
    Share,
    Text,
)
from farm.scenario.section import Section
from farm.units import format_rate


def _short_processor(schema: dict[str, Any]) -> None:
    schema["properties"]["processor"] = {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "description": "Short for a list of one in `processors`.",
    }


class PoolPlatform(Section):
    """The processors and virtualization of the pool's builders."""

    model_config = ConfigDict(json_schema_extra=_short_processor)

    processors: tuple[Text, ...] = ()
    """Processors of one builder; `processor: amd64` is short for a list of one. Empty: only jobs
    that need no particular processor run here."""
    virtualized: Flag = True
    """Whether the builders are virtual."""

    @model_validator(mode="wrap")
    @classmethod
    def _one_processor(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, dict) and "processor" in data:
            if "processors" in data:
                raise ValueError("found processor and processors together; allowed: one of them")
            name = data["processor"]
            data = {key: value for key, value in data.items() if key != "processor"}
            if name is not None:
                data["processors"] = [name]
        return handler(data)

    def can_run(self, platform: Platform) -> bool:
        """Return whether a job of this platform may run on these builders."""
        return platform.runs_on(self.processors, virtualized=self.virtualized)

    def __str__(self) -> str:
        kind = "virtual" if self.virtualized else "native"
        return f"{'+'.join(self.processors) or 'any'}/{kind}"


class LinearSlowdown(Section):
    """Slowdown 1 + slope * (heavy jobs - threshold), never below 1."""

    threshold: NonNegative
    """Heavy jobs that do not slow each other down."""
    slope: NonNegative
    """Slowdown added by each heavy job beyond the threshold."""

    @property
    def law(self) -> laws.LinearSlowdown:
        """The law of this line, for the core."""
        return laws.LinearSlowdown(self.threshold, self.slope)


class ThreadSlowdown(Section):
    """Slowdown (threads of all running jobs) ÷ cores, never below 1."""

    cores: PositiveNumber
    """Processor cores of a builder."""
    heavy_threads: Count = 0
    """A heavy job counts for at least this many threads."""


def _never_falling(table: tuple[float, ...]) -> tuple[float, ...]:
    if not table:
        raise ValueError("found an empty table; allowed: factors for 0, 1, 2, … heavy jobs")
    for low, high in pairwise((1.0, *table)):
        if high < low:
            raise ValueError(f"found {high:g} after {low:g}; allowed: from 1 on, never falling")
    return table


def _thesis_table(given: object) -> object:
    return laws.THESIS_TABLE.factors if given == "thesis" else given


SlowdownTable = Annotated[tuple[Number, ...], AfterValidator(_never_falling)]
"""Factors for 0, 1, 2, … heavy jobs: from 1 up, never falling; continued by the last step."""

MemoryLaw = Annotated[
    Annotated[SlowdownTable, Tag("table")] | Annotated[LinearSlowdown, Tag("line")],
    Discriminator(lambda given: "line" if isinstance(given, dict | LinearSlowdown) else "table"),
]


CPU_LAWS = ("slowdown", "linear", "threads", "calibration")


class Contention(Section):
    """How jobs on one builder slow each other down: a running job advances at 1 ÷ slowdown."""

    slowdown: Annotated[SlowdownTable, BeforeValidator(_thesis_table)] | None = None
    """CPU slowdown for 0, 1, 2, … heavy jobs; beyond its end continued by the last step.
    `thesis` is short for [1, 1, 1.4, 1.8, 2.2]."""
    linear: LinearSlowdown | None = None
    """CPU slowdown as a straight line."""
    threads: ThreadSlowdown | None = None
    """CPU slowdown by threads against cores."""
    memory: MemoryLaw | None = None
    """Slowdown of the memory bus by memory-heavy jobs: a table, or threshold and slope."""
    calibration: FileName | None = Field(default=None, exclude=True)
    """A file of `farm admin calibrate`, relative to the scenario, with the law that it measured."""
    combine: Literal["product", "max"] = "product"
    """Whether the slowdowns of the two resources are multiplied, or the larger one counts."""

    @model_validator(mode="after")
    def _one_cpu_law(self) -> Self:
        laws = [key for key in CPU_LAWS if getattr(self, key) is not None]
        if len(laws) > 1:
            raise ValueError(
                f"found {' and '.join(laws)} together; allowed: one of {', '.join(CPU_LAWS)}"
            )
        if not laws and self.memory is None:
            raise ValueError(f"found nothing; allowed: one of {', '.join(CPU_LAWS)}, and memory")
        return self

    @property
    def law(self) -> laws.ContentionLaw:
        """The law described by this section (a calibration file has been read before)."""
        return laws.ContentionLaw(self._cpu_law(), self._memory_law(), self.combine)

    def _cpu_law(self) -> laws.ResourceLaw | None:
        if self.slowdown is not None:
            return laws.SlowdownTable(self.slowdown)
        if self.threads is not None:
            return laws.ThreadSlowdown(self.threads.cores, self.threads.heavy_threads)
        return None if self.linear is None else self.linear.law

    def _memory_law(self) -> laws.SlowdownTable | laws.LinearSlowdown | None:
        if isinstance(self.memory, LinearSlowdown):
            return self.memory.law
        return None if self.memory is None else laws.SlowdownTable(self.memory)


#: losses of a builder per second: one that lives no longer runs nothing, and its successors, each
#: of them played, keep a simulation from ever ending
MAX_LOSS_RATE = 1.0


def _bounded_losses(rate: float) -> float:
    if rate > MAX_LOSS_RATE:
        found = format_rate(rate)
        raise ValueError(f"found {found}; allowed: up to {format_rate(MAX_LOSS_RATE)}")
    return rate


class Losses(Section):
    """Builders that are lost without notice, with the jobs that run on them."""

    rate: Annotated[Rate, AfterValidator(_bounded_losses)] | None = None
    """Losses per builder and time, such as `0.1/h`; up to `1/s`."""
    at: tuple[Duration, ...] = ()
    """Instants at which the pool loses its oldest builder."""


class Signals(Section):
    """Distortions of what a provisioner observes of the queue and of busy builders."""

    delay: Duration = 0.0
    """Delay of its observations."""
    wrong: Share = 0.0
    """Share of its observations in which no job is waiting or running."""
    kills: Flag = False
    """Stopped builders are not drained: their running jobs are lost."""


class Pool(Section):
    """The builders of one kind."""

    one_of = ("builders", "provisioner")
    name: Name
    """Unique among the pools."""
    platform: PoolPlatform = PoolPlatform.model_construct()
    """The platform of its builders."""
    slots: Positive = 1
    """Number of jobs that one builder runs concurrently."""
    cores: Positive | None = None
    """Processors that the burning jobs of one live builder may use; absent: all of its host's."""
    builders: Positive | None = None
    """A fixed number of builders, present from the start; or:"""
    provisioner: ProvisionerSettings | None = None
    """An algorithm that sizes the pool."""
    boot_time: Duration = 0.0
    """Time from request to joining."""
    boot_delay: Distribution | None = None
    """Distribution of an addition to the boot time, drawn for each builder."""
    idle_timeout: Duration | None = None
    """A builder that is idle for this long is retired (provisioned pools); absent: never."""
    uses: Annotated[Positive, Field(le=10**9)] | None = None
    """Attempts that a builder takes in its life, failed ones included; then it is retired. 1: a new
    builder for each job, as ephemeral runners; absent: any number."""
    pickup_time: Duration = 0.0
    """Time from a job's dispatch until it starts; the slot is held."""
    switch_times: dict[Text, Duration] = Field(default_factory=dict)
    """By fair-share key, `{image: 2m}`: how much later a job starts if its slot's last job had
    another value of it; of several the longest. The slot is held."""
    inter_job_time: Duration = 0.0
    """Cleaning time of a slot after each job."""
    shutdown_time: Duration = 0.0
    """Time from the command to retire until the builder has left."""
    speed: PositiveNumber = 1.0
    """Service time = the job's ÷ speed."""
    failure_rate: Share = 0.0
    """Share of builders that boot but never take a job."""
    losses: Losses | None = None
    """Losses of builders; absent: none."""
    signals: Signals | None = None
    """Distortions of what its provisioner observes; absent: none."""
    contention: Contention | None = None
    """How co-scheduled jobs slow each other down; absent: they do not."""
    price: NonNegative = 1.0
    """Price of a builder-hour, from the builder's request until it has left."""
    billing_unit: Duration = 0.0
    """Billing unit: builders are billed in whole units, at least one; 0: exactly."""
    behaviour: Text | None = None
    """`module:name` of your own behaviour, a class or a function; absent: as described here."""
    labels: dict[Text, Text] = Field(default_factory=dict)
    """Labels of the builders; `availability`, `anonymous` and `claimed_speed` have a meaning for
    run-time estimates by `boinc`."""

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, data: object) -> object:
        return pool_with_preset(data) if isinstance(data, dict) else data

    @model_serializer(mode="wrap")
    def _with_what_is_absent(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Return the keys, and of those that a preset would fill in again also the absent ones."""
        preset = self.provisioner and self.provisioner.preset
        dumped: dict[str, object] = dump(self)
        filled = PRESETS[preset].pool if preset else ()
        return {**dumped, **{key: None for key in filled if key not in dumped}}

    @field_validator("slots", "builders", mode="before")
    @classmethod
    def _some_slots(cls, value: object) -> object:
        if value == 0 and value is not False:
            raise ValueError("found 0: a pool with no slots can run nothing; allowed: 1 or more")
        return value

    @field_validator("labels")
    @classmethod
    def _known_labels(cls, labels: dict[str, str]) -> dict[str, str]:
        if (flaw := flaw_of_labels(labels)) is not None:
            raise ValueError(flaw)
        return labels

    @field_validator("switch_times")
    @classmethod
    def _known_switch_keys(cls, times: dict[str, float]) -> dict[str, float]:
        for name in times:
            if (flaw := flaw_of_key(name)) is not None:
                raise ValueError(flaw)
        return times

    @field_validator("boot_delay")
    @classmethod
    def _one_distribution(cls, delay: Distribution | None) -> Distribution | None:
        if delay is not None and delay.by_kind is not None:
            raise ValueError("found by_kind: a builder has no kind; allowed: any other form")
        return delay

    @property
    def times_to_switch(self) -> dict[str, float]:
        """The switch times that are not zero."""
        return {key: time for key, time in self.switch_times.items() if time > 0}

    @property
    def job_platform(self) -> Platform:
        """The platform of a job for this pool (its first processor)."""
        processors = self.platform.processors
        return Platform(processors[0] if processors else None, self.platform.virtualized)
