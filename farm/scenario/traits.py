"""The traits of a source's jobs, from a trace or a generator."""

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from pydantic import BeforeValidator, ConfigDict, create_model, field_validator

from farm.core.model import JOB_FIELDS, Platform
from farm.scenario.distributions import Distribution
from farm.scenario.people import Reruns
from farm.scenario.quantities import (
    Flag,
    LevelChoice,
    ModeChoice,
    Name,
    NonNegative,
    NumberChoice,
    Positive,
    PositiveDuration,
    PositiveNumber,
    Share,
    Text,
    TextChoice,
    ThreadChoice,
    choice_for,
    some_weight,
)
from farm.scenario.section import Section, or_plain

S = TypeVar("S", bound=Section)


def _unspecified(given: object) -> object:
    return None if given == "any" else given


class PlatformDemand(Section):
    """The platform that a job needs."""

    processor: Text | None = None
    """Absent: any processor."""
    virtualized: Annotated[
        Flag | None,
        BeforeValidator(_unspecified, json_schema_input_type=bool | Literal["any"] | None),
    ] = None
    """true: virtual builders, false: native ones, `any` or absent: unspecified, which goes to
    virtual ones (Launchpad's null)."""
    weight: NonNegative = 1.0
    """How often, where several platforms are listed."""

    @property
    def platform(self) -> Platform:
        """The demand as a Platform."""
        return Platform(self.processor, self.virtualized)


def platforms_given(data: object) -> object:
    """Return a list of platforms, for a single one or a list."""
    return [data] if isinstance(data, dict) else data


class Heavy(Section):
    """Which jobs are heavy on their builder; `true` is short for `declared: true`."""

    model_config = ConfigDict(json_schema_extra=or_plain("boolean"))
    one_of = ("longest", "threshold", "kind", "probability", "declared")
    short_for = ("declared", (bool,))

    longest: Share | None = None
    """The longest jobs, up to this share."""
    among: Literal["matrix", "batch"] = "matrix"
    """`longest` of each matrix, or of all jobs released at one instant."""
    threshold: PositiveDuration | None = None
    """Jobs at least this long."""
    kind: tuple[Text, ...] | None = None
    """Jobs of these kinds."""
    probability: Share | None = None
    """Probability, drawn for each job."""
    declared: Flag | None = None
    """All jobs, or none."""


class Fails(Section):
    """Which jobs fail; a plain number is short for `probability`."""

    model_config = ConfigDict(json_schema_extra=or_plain("number"))
    one_of = ("probability", "by_kind")
    short_for = ("probability", (int, float))

    probability: Share | None = None
    """Probability for every job."""
    by_kind: dict[Text, Share] | None = None
    """Probability by kind; jobs of other kinds do not fail."""


class Declared(Section):
    """The declared time of jobs: their service time times a factor."""

    factor: Distribution
    """A distribution of plain numbers; 1 is the truth."""


class WorkSize(Section):
    """Work size of a job (for estimators that scale by size): service time * rate * a factor."""

    per_second: PositiveNumber
    """Units of work per second of service time."""
    factor: Distribution | None = None
    """A distribution of plain numbers; absent: exactly 1."""


class Action(Section):
    """How often a job repeats the action of an earlier one, so that both may run only once."""

    reuse: Share
    """Share of jobs that repeat a recent action."""
    window: Positive = 100
    """Number of recent actions from which a repeat is chosen."""


class AttributeSet(Section):
    """Attributes that jobs have together."""

    weight: NonNegative = 1.0
    """How often, relative to the other sets."""
    attributes: dict[Text, Text]
    """The value of each."""


CHOSEN = tuple(
    name
    for name, field in JOB_FIELDS.items()
    if field.kind in (str, int, float)
    and field.default not in (None, msgspec.NODEFAULT)
    and name != "needs_delay"  # only jobs that need others have one
)
"""The fields of a job that are chosen by weights: texts and numbers that every job has."""


def _with_the_rest(traits: type[S]) -> type[S]:
    """Add a key for each field of ``CHOSEN`` that has none here."""
    rest: dict[str, Any] = {
        name: (choice_for(name) | None, None) for name in CHOSEN if name not in traits.model_fields
    }
    if not rest:
        return traits
    return create_model(traits.__name__, __base__=traits, __module__=__name__, **rest)


@_with_the_rest
class Traits(Section):
    """Traits of a source's jobs; absent ones are the trace's, or the defaults of a job."""

    name: Name | None = None
    """Prefix of the jobs' ids, and part of the seed of their random draws. Absent: the trace's
    file name, or the processor, and the position in the list."""
    kind: TextChoice | None = None
    """The kind of work: one, a list, or weights."""
    attributes: dict[Text, TextChoice] | None = None
    """user, team, project, image, …: each one value, a list, or weights."""
    attribute_sets: Annotated[tuple[AttributeSet, ...], some_weight("set")] | None = None
    """Attributes that belong together, as a user and the team: a job has those of one set."""
    invocation: tuple[Text, ...] | None = None
    """The attribute `invocation`, joined by `/` from these attributes (a name that is no
    attribute stands for itself)."""
    level: LevelChoice | None = None
    """Static priority level: higher goes first, above any policy."""
    score: NumberChoice | None = None
    """Higher goes first under the `score` policy."""
    priority: LevelChoice | None = None
    """Fair-share priority: smaller is more urgent, 100 points are a factor of two."""
    declared: Declared | None = None
    """Absent: the declared time is the trace's, else the service time."""
    work_size: WorkSize | None = None
    """Work size for estimators that scale by it."""
    action: Action | None = None
    """Repeated work."""
    fails: Fails | None = None
    """Which jobs fail."""
    reruns: Reruns | None = None
    """Who repeats runs of which a job failed, and when. A run is a matrix, or a job that is in
    none."""
    heavy: Heavy | None = None
    """Which jobs are CPU-heavy."""
    memory_heavy: Heavy | None = None
    """Which jobs are heavy on the memory bus."""
    mode: ModeChoice | None = None
    """How a live builder carries the job out: `timed` lets its service time pass, `stress`,
    `memory` and `mixed` burn what an idle core does in that time, for each thread."""
    threads: ThreadChoice | None = None
    """Number of processes that a burning job keeps busy, and its threads in contention laws."""

    @field_validator("declared", "work_size")
    @classmethod
    def _one_factor(cls, value: Declared | WorkSize | None) -> Declared | WorkSize | None:
        if value is not None and value.factor is not None and value.factor.by_kind is not None:
            raise ValueError("found by_kind in a factor; allowed: one distribution")
        return value
