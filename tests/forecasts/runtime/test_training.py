"""Seeding from a finished run gives what the run itself had learned."""

from farm.core.events import (
    BuilderJoined,
    BuilderLost,
    Event,
    JobFinished,
    JobsSubmitted,
    JobStarted,
)
from farm.core.model import Builder, Job
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.training import learn_from

ONE = Builder(id="one", pool="p", index=0, speed=2.0)
JOB = Job(id="j", service_time=1.0, kind="unit")

EVENTS: list[Event] = [
    BuilderJoined(0.0, ONE),
    JobsSubmitted(1.0, (JOB,)),
    JobStarted(5.0, "j", 1, "one"),
    JobFinished(25.0, "j", 1, "one", "succeeded"),
]


def test_a_finished_run_is_learned_again() -> None:
    """From the start on the builder to the end, brought to speed 1."""
    estimator = make_estimator("last-3")
    assert learn_from(estimator, EVENTS) == 1
    assert estimator.estimate(JOB) == 40.0


def test_reports_of_void_attempts_teach_nothing() -> None:
    """The scheduler did not accept the late reports of a lost builder either."""
    late = [*EVENTS[:3], BuilderLost(10.0, "one"), EVENTS[3]]
    assert learn_from(make_estimator("last-3"), late) == 0


def test_repeated_and_unknown_reports_teach_nothing() -> None:
    """Each attempt counts once, and only if its beginning and its job are known."""
    odd: list[Event] = [
        *EVENTS,
        EVENTS[3],
        JobFinished(30.0, "x", 1, "one", "succeeded"),
        JobStarted(31.0, "j", 2, "one"),
        JobFinished(32.0, "j", 2, "one", "cancelled"),
    ]
    assert learn_from(make_estimator("last-3"), odd) == 1
