"""Objectives: their grammar, what they measure, and the quantiles of Student's t."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist

import pytest

from farm.core.commands import EndJob
from farm.core.errors import InputError
from farm.core.events import JobsSubmitted
from farm.core.model import Cause, Job
from farm.results.comparison import significance
from farm.results.comparison.significance import student_quantile
from farm.results.summary.objectives import Term, measured, parse_objective
from farm.results.summary.run_phase import Window
from farm.results.table.recorder import Recorder, RunRecords


def recorded(ends: Iterable[EndJob], *unended: Job) -> RunRecords:
    """Return the records of jobs that ended so, and of others that never ended."""
    recorder = Recorder()
    recorder.ends += ends
    recorder(JobsSubmitted(0.0, unended), [])
    return recorder.records()


def records(*waits: float, service: float = 10.0) -> RunRecords:
    """Return jobs that arrived at 0 and waited this long; infinite: never dispatched."""

    def end(job: Job, wait: float) -> EndJob:
        if math.isfinite(wait):
            return EndJob(job, "succeeded", 1, 0.0, wait + service, started_at=wait)
        return EndJob(job, "cancelled", 1, 0.0, 99.0, cause=Cause.UNRUNNABLE)

    jobs = (Job(id=str(n), service_time=service) for n in range(len(waits)))
    return recorded(map(end, jobs, waits))


def test_terms_are_read() -> None:
    """Statistic, metric, comparison, limit in seconds or as a number; joined by and."""
    assert parse_objective("p95(waiting_time) < 5m and MEAN( stretch ) <= 2.5") == (
        Term("p95", "waiting_time", True, 300.0),
        Term("mean", "stretch", False, 2.5),
    )
    assert parse_objective("p95(wait) < 5m") == parse_objective("p95(waiting_time) < 5m")
    assert parse_objective("max(linux.response) < 1h")[0].name == "max(linux.response_time)"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "allowed: STATISTIC"),
        ("p95 waiting_time < 5m", "allowed: STATISTIC"),
        ("p95(waiting_time) = 5m", "allowed: STATISTIC"),
        ("latency < 5m", "figure found 'latency'; allowed: makespan"),
        ("p101(waiting_time) < 5m", "found statistic 'p101'"),
        ("p95(latency) < 5m", "found metric 'latency'"),
        ("p95(waiting_time) < 5 parsecs", "limit of waiting_time"),
        ("p95(waiting_time) < -5", "limit of waiting_time"),
        ("mean(stretch) < 5m", "limit of stretch"),
        ("max(waiting_time) < 0s", "can never be met"),
        ("p95(waiting_time) < 5m and", "allowed: STATISTIC"),
    ],
)
def test_an_invalid_objective_is_refused(text: str, says: str) -> None:
    """One message that says what was found and what is allowed."""
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        parse_objective(text)


def test_statistics_are_of_the_jobs_that_count() -> None:
    """Percentiles by the one rule; a job that was given up waits forever."""
    (p50,) = parse_objective("p50(waiting_time) < 1")
    (stretch,) = parse_objective("mean(stretch) < 1")
    assert measured(records(0.0, 10.0, 20.0), Window(), p50) == 10.0
    assert measured(records(0.0, 10.0), Window(), p50) == 5.0
    assert measured(records(0.0, 10.0), Window(), stretch) == 1.5
    assert measured(records(0.0, 10.0, math.inf), Window(), p50) == 10.0
    assert measured(records(0.0, math.inf, math.inf), Window(), p50) == math.inf
    assert measured(records(), Window(), p50) is None


def in_matrix(name: str, number: int, cause: Cause = Cause.FINISHED) -> EndJob:
    """Return a job of a matrix that arrived at 0 and ended at 10, without a start if given up."""
    job = Job(id=f"{name}{number}", service_time=10.0, matrix=name)
    if cause is Cause.UNRUNNABLE:
        return EndJob(job, "cancelled", 1, 0.0, 10.0, cause=cause)
    return EndJob(job, "succeeded", 1, 0.0, 10.0, started_at=0.0, cause=cause)


def test_a_matrix_with_a_job_that_was_given_up_takes_forever() -> None:
    """It counts once, however many of its jobs were given up, and not by their quick ends."""
    (p50,) = parse_objective("p50(matrix_response_time) < 1m")
    (longest,) = parse_objective("max(matrix_response_time) < 1m")
    given_up = [in_matrix("a", n, Cause.UNRUNNABLE) for n in range(4)]
    ends = [*given_up, in_matrix("a", 4), in_matrix("b", 0), in_matrix("c", 0)]
    found = recorded(ends)
    assert measured(found, Window(), longest) == math.inf
    assert measured(found, Window(), p50) == 10.0
    assert measured(recorded(given_up), Window(), p50) == math.inf


def test_a_matrix_with_jobs_that_never_ended_counts_once() -> None:
    """Many such jobs of one matrix are one value of infinity; a job without a matrix is none."""
    (p50,) = parse_objective("p50(matrix_response_time) < 1m")
    (longest,) = parse_objective("max(matrix_response_time) < 1m")
    ends = [in_matrix(f"done{n}", 0) for n in range(3)]
    found = recorded(ends, *(in_matrix("lost", n).job for n in range(20)))
    assert measured(found, Window(), longest) == math.inf
    assert measured(found, Window(), p50) == 10.0
    alone = recorded(ends, Job(id="x", service_time=1.0))
    assert measured(alone, Window(), longest) == 10.0


def test_strict_and_weak_limits() -> None:
    """< excludes the limit, <= includes it, infinity never passes."""
    weak, strict = Term("max", "stretch", False, 2.0), Term("max", "stretch", True, 2.0)
    assert weak.is_met_by(2.0)
    assert not strict.is_met_by(2.0)
    assert not weak.is_met_by(math.inf)


@pytest.mark.parametrize("p", [0.5, 0.6, 0.975, 0.9995])
def test_student_quantiles_are_exact(p: float) -> None:
    """One and two degrees of freedom have closed forms; many, almost the normal distribution's."""
    assert student_quantile(p, 1) == pytest.approx(math.tan(math.pi * (p - 0.5)), rel=1e-11)
    two = (2 * p - 1) * math.sqrt(1 / (2 * p * (1 - p)))
    assert student_quantile(p, 2) == pytest.approx(two, rel=1e-11)
    assert student_quantile(p, 1e7) == pytest.approx(NormalDist().inv_cdf(p), rel=1e-6)


@pytest.mark.parametrize(
    ("p", "freedom", "value"),
    [(0.95, 1, 6.3138), (0.95, 9, 1.8331), (0.975, 4, 2.7764), (0.99, 30, 2.4573), (0.5, 3, 0.0)],
)
def test_student_quantiles(p: float, freedom: int, value: float) -> None:
    """Against the printed tables."""
    assert student_quantile(p, freedom) == pytest.approx(value, abs=1e-4)


def test_a_quantile_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep of many settings asks for few, hundreds of times."""
    first = student_quantile(0.9876, 7)
    monkeypatch.setattr(significance, "_student_cdf", lambda *_: pytest.fail("computed again"))
    assert student_quantile(0.9876, 7) == first
