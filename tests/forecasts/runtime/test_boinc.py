"""The boinc estimators on a build farm: the ladder, what is learned, what is never broken."""

import json
from typing import Any

import pytest

from farm.core.model import Builder, Job
from farm.forecasts.runtime.boinc import Boinc, Boinc2010, BoincDcf, app_of, version_key
from farm.forecasts.runtime.interface import EstimatorOptions, JobProgress

ONE = Builder(id="one", pool="p", index=0)
TWO = Builder(id="two", pool="p", index=1, speed=2.0)


def job(kind: str = "unit", declared: float | None = 100.0, **more: Any) -> Job:
    """Return a job of a kind that is declared to take 100 s."""
    return Job(id="j", service_time=1.0, kind=kind, declared_time=declared, **more)


def taught(estimator: Boinc, builder: Builder, elapsed: float, times: int, **of: Any) -> Boinc:
    """Return the estimator after a number of equal successes."""
    for _ in range(times):
        estimator.learn(job(**of), builder, elapsed, "succeeded")
    return estimator


def test_a_builders_own_history_counts_from_the_eleventh_success() -> None:
    """Ten are not enough (the threshold is strict); other builders are not affected."""
    estimator = taught(Boinc(), ONE, 40.0, 10)
    assert estimator.estimate(job(), ONE) == 100.0
    taught(estimator, ONE, 40.0, 1)
    assert estimator.estimate(job(), ONE) == pytest.approx(40.0)
    assert estimator.estimate(job(), TWO) == 50.0
    assert estimator.estimate(job()) == 100.0


def test_a_kinds_history_counts_from_the_hundred_and_first_success() -> None:
    """Then waiting jobs and builders without a history of their own are estimated by it."""
    estimator = taught(Boinc(), ONE, 40.0, 100)
    assert estimator.estimate(job()) == 100.0
    taught(estimator, ONE, 40.0, 1)
    assert estimator.estimate(job()) == pytest.approx(40.0)
    assert estimator.estimate(job(), TWO) == pytest.approx(20.0)


def test_thresholds_can_be_lowered_for_a_small_farm() -> None:
    """A hundred runs of a kind are out of reach for rare kinds."""
    estimator = taught(Boinc(EstimatorOptions(kind_samples=3, host_samples=1)), ONE, 40.0, 4)
    assert estimator.estimate(job()) == pytest.approx(40.0)


def test_sizes_scale_the_estimate() -> None:
    """The mean is of time per size: a job twice as large is twice as long."""
    estimator = Boinc(EstimatorOptions(size_rate=1000.0))
    taught(estimator, ONE, 30.0, 11, declared=None, size=60_000.0)
    assert estimator.estimate(job(declared=None, size=120_000.0), ONE) == pytest.approx(60.0)
    assert estimator.estimate(job(declared=None, size=5_000.0)) == pytest.approx(5.0)


def test_sizes_of_any_unit_climb_the_ladder() -> None:
    """Sizes in FLOPs teach a kind as sizes in seconds do: the first success settles the unit."""
    work = {"declared": 60.0, "size": 2e10}
    estimator = taught(Boinc(), ONE, 20.0, 110, **work)
    assert estimator.estimate(job(**work)) == pytest.approx(20.0)
    twice = job(declared=60.0, size=4e10)
    assert estimator.estimate(twice) == pytest.approx(40.0)
    again = Boinc()
    again.load(json.loads(json.dumps(estimator.dump())))
    assert again.estimate(twice) == pytest.approx(40.0)


def test_a_declared_time_beside_a_size_is_used() -> None:
    """Before anything is learned the submitter's time holds, on any builder."""
    both = job(declared=10.0, size=7.0)
    assert Boinc().estimate(both) == pytest.approx(10.0)
    assert Boinc().estimate(both, TWO) == pytest.approx(5.0)


def test_a_freak_short_history_is_capped() -> None:
    """Jobs that returned at once do not make the next estimate zero: 250 x 250 at most."""
    estimator = taught(Boinc(), ONE, 0.0, 11)
    assert estimator.estimate(job(), ONE) > 100.0 / (250 * 251)


def test_failures_move_the_streak_and_never_a_time() -> None:
    """Only successes say how long a job takes."""
    estimator = taught(Boinc(), ONE, 40.0, 150)
    before = estimator.estimate(job(), ONE)
    estimator.learn(job(), ONE, 1.0, "failed")
    assert estimator.estimate(job(), ONE) == before
    record = estimator.history.host_record("one", "unit")
    assert record is not None
    assert record.consecutive_valid == 0


def test_a_cancelled_attempt_teaches_nothing() -> None:
    """It ended on request."""
    estimator = Boinc()
    estimator.learn(job(), ONE, 3.0, "cancelled")
    assert estimator.dump() == Boinc().dump()


def test_a_newer_version_takes_the_record_over() -> None:
    """A toolchain upgrade keeps what the builder learned; the older version loses it."""
    estimator = taught(Boinc(), ONE, 40.0, 20, kind="kernel@gcc-13")
    assert estimator.estimate(job("kernel@gcc-14"), ONE) == pytest.approx(40.0)
    assert estimator.estimate(job("kernel@clang-14"), ONE) == 100.0
    assert estimator.estimate(job("kernel"), ONE) == 100.0
    taught(estimator, ONE, 40.0, 1, kind="kernel@gcc-14")
    hosts: Any = estimator.dump()["hosts"]
    assert list(hosts["one"]) == ["kernel@gcc-14"]


@pytest.mark.parametrize(
    ("kind", "app", "plan", "number", "normalised_with"),
    [
        ("unit", "unit", "", (), ""),
        ("k@13", "k", "", (13,), "k"),
        ("k@gcc-13.2", "k", "gcc-", (13, 2), "k"),
        ("k@gcc", "k", "gcc", (), "k"),
        ("@", "", "", (), ""),
    ],
)
def test_names_of_kinds(
    kind: str, app: str, plan: str, number: tuple[int, ...], normalised_with: str
) -> None:
    """Kinds that differ only in the number at the end succeed each other."""
    key = version_key(kind)
    assert (key.app, key.plan_class, key.number) == (app, plan, number)
    assert app_of(kind) == normalised_with


def test_a_pool_can_be_one_host() -> None:
    """Builders that come and go never have ten runs of their own; their pool has."""
    estimator = Boinc(EstimatorOptions(host="pool"))
    for number in range(11):
        builder = Builder(id=f"b-{number}", pool="p", index=number)
        estimator.learn(job(), builder, 40.0, "succeeded")
    assert estimator.estimate(job(), Builder(id="new", pool="p", index=99)) == pytest.approx(40.0)


def test_availability_stretches_what_it_did_not_measure() -> None:
    """A builder available half of the time takes twice as long; measured times stay."""
    half = Builder(id="half", pool="p", index=0, labels={"availability": "0.5"})
    odd = Builder(id="odd", pool="p", index=0, labels={"availability": "often"})
    estimator = Boinc()
    assert estimator.estimate(job(), half) == 200.0
    assert estimator.estimate(job(), odd) == 100.0
    taught(estimator, half, 300.0, 11)
    assert estimator.estimate(job(), half) == pytest.approx(300.0)


def test_an_anonymous_builder_gets_scaled_sizes() -> None:
    """It keeps its own figure, so both sides predict the same time only if sizes are scaled."""
    own = Builder(id="own", pool="p", index=0, speed=4.0, labels={"anonymous": "true"})
    estimator = taught(Boinc(), own, 50.0, 11)
    assert estimator.estimate(job(), own) == pytest.approx(50.0)
    speed = estimator.anonymous(job(), own)
    assert speed.size_scale * 100.0 / speed.client_flops == pytest.approx(50.0)
    assert estimator.history.version("unit") is None, "it says nothing about our own versions"
    # its history is by app, not by version
    assert estimator.estimate(job("unit@2"), own) == pytest.approx(50.0)


def test_a_running_job_without_progress() -> None:
    """An overdue job is given less and less, and never less than zero."""
    estimator = Boinc()
    rests = [estimator.remaining(job(), ONE, elapsed) for elapsed in (0.0, 50.0, 100.0, 400.0)]
    assert rests[0] == 100.0
    assert rests == sorted(rests, reverse=True)
    assert rests[-1] > 0.0
    assert estimator.remaining(job(), ONE, 1e9) == 0.0


def test_a_running_job_with_progress() -> None:
    """Its report counts by the part done; alone once the estimate is exceeded."""
    estimator = Boinc()

    def rest(elapsed: float, done: float, reported: float | None = None) -> float:
        after = elapsed if reported is None else reported
        return estimator.remaining(job(), ONE, elapsed, JobProgress(done, after))

    assert rest(50.0, 0.25) == pytest.approx(0.25 * 200 + 75 - 50)
    assert rest(60.0, 0.25, reported=50.0) == pytest.approx(0.25 * 200 + 75 - 60)
    assert rest(150.0, 0.5) == pytest.approx(150.0)
    assert rest(150.0, 1.0) == 0.0
    assert rest(50.0, 7.0) == estimator.remaining(job(), ONE, 50.0)


def test_kinds_are_normalised_and_the_rule_of_2010_uses_it() -> None:
    """The 2010 rule multiplies the peak by the scale, today's divides it by the average."""
    old, new = Boinc2010(), Boinc()
    for estimator in (old, new):
        taught(estimator, ONE, 50.0, 101, kind="lint")
        taught(estimator, ONE, 200.0, 101, kind="link")
    # base = (0.5 x 101 + 2 x 101) / 202 = 1.25: scales 2.5 and 0.625
    assert old.estimate(job("lint")) == pytest.approx(100 / 2.5)
    assert old.estimate(job("link")) == pytest.approx(100 / 0.625)
    assert new.estimate(job("link")) == pytest.approx(200.0)
    assert old.estimate(job("link"), ONE) == pytest.approx(200.0), "its own history comes first"


def test_hosts_are_forgotten_eventually(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand former builders must not fill the memory."""
    monkeypatch.setattr("farm.forecasts.runtime.boinc.HOSTS_KEPT", 2)
    estimator = Boinc()
    for name in ("a", "b", "a", "c"):
        builder = Builder(id=name, pool="p", index=0)
        estimator.learn(job(), builder, 1.0, "succeeded")
    assert list(estimator.dump()["hosts"]) == ["a", "c"]


def test_the_old_system_has_one_factor_for_all_kinds() -> None:
    """It rises at once and falls by a tenth; what one kind teaches spoils another's estimate."""
    estimator = BoincDcf()
    assert (estimator.estimate(job(), ONE), estimator.estimate(job(), TWO)) == (100.0, 50.0)
    taught(estimator, ONE, 300.0, 1, kind="long")
    assert estimator.estimate(job("short"), ONE) == pytest.approx(300.0)
    taught(estimator, ONE, 100.0, 1, kind="short")
    assert estimator.estimate(job("long"), ONE) == pytest.approx((0.9 * 3 + 0.1) * 100.0)
    assert (estimator.estimate(job()), estimator.estimate(job(), TWO)) == (100.0, 50.0)
    estimator.learn(job(), ONE, 1e6, "failed")
    again = BoincDcf()
    again.load(json.loads(json.dumps(estimator.dump())))
    assert again.estimate(job("long"), ONE) == estimator.estimate(job("long"), ONE)
    basis = again.basis(job("long"), ONE)
    assert (basis.rung, basis.samples) == ("corrected by 2.8", 2)
