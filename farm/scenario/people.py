"""People who answer verdicts: who repeat what failed, and who push again."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from farm.scenario.distributions import Distribution
from farm.scenario.quantities import Positive, Share, Text
from farm.scenario.section import Section
from farm.scenario.times_of_week import Period, minutes_of_week

MAX_USERS: Final = 100_000
"""Users of a source: each of them has random numbers of their own from the beginning on."""


def _checked(text: str) -> str:
    minutes_of_week(text)
    return text


TimesOfWeek = Annotated[
    tuple[Annotated[Text, AfterValidator(_checked)], ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
]
"""``mon-fri 08:00-18:00``, cron's fields as ranges, or a list of such."""


class People(Section):
    """How long people think, and when they are there."""

    think_time: Distribution
    """Time from a verdict, the end of all jobs of a run, to what they submit then."""
    hours: TimesOfWeek = ()
    """When they are there, such as `mon-fri 08:00-18:00`, or cron's fields as ranges; a list: at
    any of them. Think times pass only then. Absent: always."""

    @field_validator("think_time")
    @classmethod
    def _one_distribution(cls, think_time: Distribution) -> Distribution:
        if think_time.by_kind is not None:
            raise ValueError("found by_kind; allowed: one distribution")
        return think_time

    @property
    def presence(self) -> Period:
        """The times at which they are there."""
        if not self.hours:
            return Period()
        return Period(frozenset().union(*map(minutes_of_week, self.hours)))


class Reruns(People):
    """Who repeats a run of which a job failed, when, and how that ends."""

    think_time: Distribution = Distribution.model_construct(constant=0.0)
    """Time from the end of the last job of a run to its repeat. Absent: at once."""
    probability: Share = 1.0
    """Probability that a failed run is repeated, drawn at each failure."""
    at_most: Positive = 3
    """How often a run is repeated at most."""
    what: Literal["failed", "run"] = "failed"
    """What is repeated: the jobs that failed, with those that were skipped or cancelled because of
    them; or all jobs of the run."""
    flaky: Share = 1.0
    """Share of the failing jobs that are flaky; the others fail in every repeat."""
    passes: Share = 1.0
    """Probability that a repeat of a flaky job succeeds."""


class Users(People):
    """A closed workload: users who each wait for a verdict before the next push."""

    count: Annotated[Positive, Field(le=MAX_USERS)]
    """How many there are, 100,000 at most."""
