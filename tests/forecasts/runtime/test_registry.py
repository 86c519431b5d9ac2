"""The registry, the options, and what every estimator must answer."""

import json

import pytest

from farm.core.errors import InputError, StateError
from farm.core.model import Builder, Job
from farm.forecasts.runtime.estimator_registry import ESTIMATORS, make_estimator
from farm.forecasts.runtime.interface import EstimatorOptions, JobProgress
from farm.scenario import load_scenario

FAST = Builder(id="b-1", pool="linux", index=0, speed=2.0)
JOB = Job(id="j", service_time=100.0, declared_time=80.0, kind="kernel")


def test_all_promised_names_are_known() -> None:
    """The names that a scenario may use are a promise."""
    promised = "boinc boinc-2010 boinc-dcf declared last-3 launchpad learned oracle"
    assert " ".join(sorted(ESTIMATORS)) == promised


def test_an_unknown_name_gets_a_suggestion() -> None:
    """A typing error gets one message that says what was meant."""
    with pytest.raises(InputError, match=r"'last3'.*did you mean last-3"):
        make_estimator("last3")
    with pytest.raises(InputError, match="allowed: boinc, boinc-2010"):
        make_estimator("crystal-ball")


@pytest.mark.parametrize(
    "wrong",
    [{"default_time": -1.0}, {"overdue_time": float("nan")}, {"size_rate": 0.0}, {"host": "rack"}],
)
def test_meaningless_options_are_refused(wrong: dict[str, object]) -> None:
    """An option is checked when it is given, not when an estimate goes wrong."""
    ((key, value),) = wrong.items()
    with pytest.raises(InputError, match=f"runtime_options.{key}: found"):
        load_scenario("quickstart", changes={f"scheduling.runtime_options.{key}": value})


@pytest.mark.parametrize(
    ("name", "waiting", "dispatched"),
    [
        ("oracle", 100.0, 50.0),
        ("declared", 80.0, 40.0),
        ("last-3", 80.0, 40.0),
        ("launchpad", 300.0, 150.0),
        ("boinc", 80.0, 40.0),
        ("boinc-2010", 80.0, 40.0),
        ("boinc-dcf", 80.0, 40.0),
    ],
)
def test_without_a_history(name: str, waiting: float, dispatched: float) -> None:
    """Kind-level while waiting, for the builder once one is known; each has its own fallback."""
    estimator = make_estimator(name)
    assert estimator.estimate(JOB) == pytest.approx(waiting)
    assert estimator.estimate(JOB, FAST) == pytest.approx(dispatched)


@pytest.mark.parametrize("name", ["declared", "last-3", "boinc", "boinc-dcf"])
def test_a_job_without_any_information_gets_the_default(name: str) -> None:
    """Nothing declared and no history is no reason to fail."""
    estimator = make_estimator(name, EstimatorOptions(default_time=33.0))
    job = Job(id="j", service_time=1.0)
    assert estimator.estimate(job) == pytest.approx(33.0)
    assert estimator.estimate(job, FAST) == pytest.approx(16.5)


@pytest.mark.parametrize("name", ["oracle", "declared", "last-3", "launchpad"])
def test_a_running_job_has_the_rest_of_its_estimate(name: str) -> None:
    """The rest shrinks with time; an overdue job is given two minutes; progress overrides."""
    estimator = make_estimator(name)
    total = estimator.estimate(JOB, FAST)
    assert estimator.remaining(JOB, FAST, 10.0) == pytest.approx(total - 10.0)
    assert estimator.remaining(JOB, FAST, total) == 120.0
    assert estimator.remaining(JOB, FAST, 1e6) == 120.0
    assert estimator.remaining(JOB, FAST, 30.0, JobProgress(0.25, 30.0)) == pytest.approx(90.0)
    assert estimator.remaining(JOB, FAST, 40.0, JobProgress(0.25, 30.0)) == pytest.approx(80.0)
    assert estimator.remaining(JOB, FAST, 500.0, JobProgress(0.25, 30.0)) == 0.0


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_another_estimators_statistics_are_refused(name: str) -> None:
    """Statistics of one rule are not silently read by another."""
    with pytest.raises(StateError, match="'tea-leaves'"):
        make_estimator(name).load({"estimator": "tea-leaves"})


@pytest.mark.parametrize(
    ("name", "state", "message"),
    [
        ("last-3", {"runs": {"k": "soon"}}, "runs"),
        ("launchpad", {"runs": {"k": [1.0]}}, "runs"),
        ("boinc", {"hosts": {"b": {"k": {"pfc": 7}}}}, "pfc"),
        ("boinc", {"versions": {"k": {"pfc": {"n": -1.0}}}}, r"versions\.k\.pfc\.n: found -1"),
        ("boinc", {"versions": {"k": {"pfc": {"avg": float("nan")}}}}, "avg: found nan"),
    ],
)
def test_garbled_statistics_are_refused(name: str, state: dict[str, object], message: str) -> None:
    """A damaged file gets one message with the key, not a traceback later."""
    with pytest.raises(StateError, match=message):
        make_estimator(name).load({"estimator": name, **state})


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_estimators_that_do_not_learn_declare_it(name: str) -> None:
    """The scheduler skips learn() where ``learns`` is False, so nothing may be lost by that."""
    estimator = make_estimator(name)
    before = json.dumps(estimator.dump())
    estimator.learn(JOB, FAST, 10.0, "succeeded")
    assert (json.dumps(estimator.dump()) != before) is estimator.learns
