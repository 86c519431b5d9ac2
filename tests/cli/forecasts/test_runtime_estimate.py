"""``farm admin estimate --run-time``: the number, its rung, how many samples, on which builder."""

import json
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

import farm
from farm.assembly import make_scheduler
from farm.cli.main import app
from farm.core.errors import FarmError
from farm.core.events import BuilderJoined, JobsSubmitted, JobStarted
from farm.core.model import Builder, Job, Platform
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.dispatch.recent_arrivals import ArrivalMemory
from farm.live.operating.answers import FarmImage
from farm.scenario import parse_scenario
from farm.testing import small_scenario

LOAD = {
    "name": "x",
    "every": "1m",
    "count": 12,
    "service_time": "20s",
    "declared": {"factor": 3},
    "platform": {"processor": "amd64"},
    "kind": "unit",
}
FAST = {"name": "fast", "platform": {"processor": "arm64"}, "speed": 2}
RULES = {"runtime_estimates": "boinc", "runtime_options": {"kind_samples": 11}}
SCENARIO = small_scenario([{"name": "slow"}, FAST], LOAD, name="learned", scheduling=RULES)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of twelve jobs on one of two builders."""
    return farm.simulate(SCENARIO).save(tmp_path_factory.mktemp("learned") / "run")


def rows(run: Path, *words: str) -> list[dict]:
    """Return the rows that the command prints as JSON."""
    done = CliRunner().invoke(app, ["admin", "estimate", "--run-time", str(run), *words, "--json"])
    if done.exception is not None:
        raise done.exception
    return [json.loads(line) for line in done.stdout.splitlines()]


def shown(run: Path, *words: str) -> str:
    """Return the table that the command prints."""
    return CliRunner().invoke(app, ["admin", "estimate", "--run-time", str(run), *words]).stdout


def test_each_rung_is_named_with_its_samples(run: Path):
    """Waiting: the kind anywhere; on its own builder: that one's history; elsewhere: the kind."""
    asked = ("--kind", "unit", "--declared", "1m")
    waiting, slow = rows(run, *asked, "--platform", "amd64/virtual")
    assert (waiting["rung"], waiting["samples"]) == ("the kind on all builders", 12)
    assert waiting["estimate_s"] == pytest.approx(20.0)
    assert (slow["builder"], slow["samples"]) == ("slow-1", 12)
    assert slow["rung"] == "the kind on this builder"
    (fast,) = rows(run, *asked, "--platform", "arm64/virtual", "--builder", "fast-1")
    assert (fast["rung"], fast["estimate_s"]) == ("the kind on all builders", pytest.approx(10.0))
    other, _ = rows(run, "--kind", "other", "--declared", "1m")
    assert (other["rung"], other["samples"], other["estimate_s"]) == ("declared time", 0, 60.0)
    nothing, _ = rows(run, "--kind", "other")
    assert (nothing["rung"], nothing["estimate_s"]) == ("default: nothing is known", 300.0)


@pytest.mark.parametrize("started_at", [0.0, 1.0])
def test_a_job_of_a_snapshot_has_run_since_its_start(tmp_path: Path, started_at: float):
    """The instant 0, too, is one at which a job can start."""
    scenario = parse_scenario(SCENARIO)
    scheduler = make_scheduler(scenario)
    slow = Builder(id="slow-1", pool="slow", index=1, processors=("amd64",))
    job = Job(id="a", service_time=100.0, platform=Platform("amd64"))
    for event in (
        BuilderJoined(started_at, slow),
        JobsSubmitted(started_at, (job,)),
        JobStarted(started_at, "a", 1, "slow-1"),
    ):
        scheduler.handle(event)
    plain = scenario.model_dump(mode="json", exclude_none=True)
    image = FarmImage(snapshot=snapshot_of(scheduler, started_at + 90.0), scenario=plain)
    (tmp_path / "image.json").write_bytes(msgspec.json.encode(image))
    (row,) = rows(tmp_path / "image.json", "--job", "a")
    assert row["elapsed_s"] == 90.0


def test_a_live_farm_knows_kinds_whose_jobs_have_all_ended(tmp_path: Path):
    """A hypothetical job has the means of those that came lately; five minutes were assumed."""
    scenario = parse_scenario(SCENARIO)
    scheduler = make_scheduler(scenario)
    slow = Builder(id="slow-1", pool="slow", index=1, processors=("amd64",))
    scheduler.handle(BuilderJoined(0.0, slow))
    came = ArrivalMemory()
    for number in range(12):
        declared = 60.0 + 10.0 * (number % 2)
        job = Job(id=str(number), service_time=9.0, kind="unit", declared_time=declared)
        came.take(float(number), [job])
    image = FarmImage(
        snapshot=snapshot_of(scheduler, 90.0),
        scenario=scenario.model_dump(mode="json", exclude_none=True),
        recent=came.recent(90.0),
    )
    (tmp_path / "image.json").write_bytes(msgspec.json.encode(image))

    waiting, *_ = rows(tmp_path / "image.json", "--kind", "unit")

    # of the first job that came, no more is remembered than when
    assert waiting["declared_s"] == pytest.approx((6 * 70 + 5 * 60) / 11)
    assert "the mean of its 11 jobs there" in shown(tmp_path / "image.json", "--kind", "unit")


def test_how_a_client_treats_it(tmp_path: Path):
    """Bounded by its size, due back by a deadline; an idle builder is sent one anyhow."""
    sized = RULES | {"runtime_options": {"kind_samples": 11, "size_rate": 1}}
    run = farm.simulate(SCENARIO | {"scheduling": sized}).save(tmp_path / "run")
    asked = ("--kind", "unit", "--declared", "1m", "--size", "60", "--platform", "amd64/virtual")
    waiting, slow = rows(run, *asked, "--size-bound", "600", "--deadline", "15s")
    assert waiting["limit_s"] is None
    assert (slow["limit_s"], slow["back_in_s"]) == (pytest.approx(200.0), pytest.approx(20.0))
    assert (slow["late_s"], slow["sent"]) == (pytest.approx(5.0), True)
    (short,) = rows(run, *asked, "--size-bound", "120", "--builder", "slow-1")
    assert short["limit_s"] == 43200.0  # less than two minutes count as a mistake


def test_a_client_that_computes_half_of_the_time(tmp_path: Path):
    """Its estimate is wall-clock time; it is bounded by the time in which it computes."""
    half = {"name": "slow", "labels": {"availability": "0.5"}}
    sized = RULES | {"runtime_options": {"size_rate": 1e9}}
    run = farm.simulate(small_scenario([half, FAST], LOAD, scheduling=sized)).save(tmp_path / "run")
    asked = ("--kind", "new", "--size", "1e10", "--size-bound", "1e12", "--builder", "slow-1")
    (row,) = rows(run, *asked)
    assert (row["estimate_s"], row["limit_s"]) == (pytest.approx(20.0), pytest.approx(1000.0))


def test_replicas_are_done_with_the_last_of_the_soonest(run: Path):
    """On as many builders as there are, each of which is named."""
    asked = ("--kind", "unit", "--declared", "1m", "--replicas")
    assert "1 replicas are done in 20s, on slow-1" in shown(run, *asked, "1")
    last = rows(run, *asked, "1")[-1]
    assert last == {"replicas": 1, "done_in_s": 20.0, "builders": ["slow-1"]}
    with pytest.raises(FarmError, match="--replicas: found 2; allowed: up to 1 builders here"):
        rows(run, *asked, "2")


def test_rungs_are_scored(run: Path):
    """Eleven of twelve jobs were declared thrice too long; then the builder's history held.

    What an estimator came to over all jobs comes first.
    """
    done = CliRunner().invoke(app, ["admin", "score", str(run), "--run-times", "boinc", "--json"])
    found = [(one["rung"], one["jobs"], one["bias_time_s"]) for one in json.loads(done.stdout)]
    assert found == [
        ("all", 12, pytest.approx(440 / 12)),
        ("declared time", 11, 40.0),
        ("the kind on this builder", 1, 0.0),
    ]


def test_rungs_have_no_plot(run: Path, tmp_path: Path):
    """The option is refused, not ignored."""
    asked = ["admin", "score", str(run), "--run-times", "boinc", "--plot", str(tmp_path / "p.svg")]
    with pytest.raises(FarmError, match="--plot: found with --run-times"):
        CliRunner().invoke(app, asked, catch_exceptions=False)


@pytest.mark.parametrize(
    ("name", "rung", "samples"),
    [
        ("last-3", "mean of the kind's last successes", 3),
        ("launchpad", "the kind's newest success", 1),
        ("declared", "declared time", 0),
        ("oracle", "the truth", 0),
        ("boinc-2010", "declared time", 0),
        ("boinc-dcf", "declared time", 0),
    ],
)
def test_any_estimator_learns_from_a_run(run: Path, name: str, rung: str, samples: int):
    """Ladders can be compared on what happened."""
    waiting, *_ = rows(run, "--job", "x-000003", "--estimator", name)
    assert (waiting["rung"], waiting["samples"]) == (rung, samples)


def test_the_table(run: Path):
    """One row for the waiting job, one for builders that are alike."""
    text = shown(run, "--job", "x-000003")
    assert "x-000003 (amd64/virtual) runs " in text
    assert "(waiting)" in text
    assert "the kind on this builder" in text


def test_a_hypothetical_job_is_like_its_kind(run: Path):
    """The kind was declared 60 s and takes 20 s, its truth: a job of it is not one of 300 s."""
    waiting, slow = rows(run, "--kind", "unit", "--platform", "amd64/virtual")
    assert (waiting["declared_s"], waiting["estimate_s"]) == (60.0, pytest.approx(20.0))
    assert slow["estimate_s"] == pytest.approx(20.0)
    text = shown(run, "--kind", "unit")
    assert "(declared 1m: the mean of its 12 jobs there)" in text
    text = shown(run, "--kind", "odd")
    assert "(no size or declared time: 5m is assumed; kinds there: unit)" in text
    waiting, _ = rows(run, "--kind", "unit", "--estimator", "oracle")
    assert waiting["estimate_s"] == 20.0


def test_a_newer_version_of_a_kind_takes_its_records_over(tmp_path: Path):
    """What a builder learned with unit@1 holds for unit@2, which has not run yet."""
    load = [{"arrivals": LOAD | {"kind": "unit@1"}}]
    run = farm.simulate(SCENARIO | {"workload": load}).save(tmp_path / "run")
    asked = ("--kind", "unit@2", "--platform", "amd64/virtual")
    waiting, slow = rows(run, *asked)
    assert (waiting["rung"], waiting["estimate_s"]) == ("declared time", 60.0)
    assert (slow["rung"], slow["samples"]) == ("the kind on this builder", 12)
    assert "(declared 1m: the mean of 12 jobs of unit@1 there)" in shown(run, *asked)


@pytest.mark.parametrize("estimator", ["boinc", "last-3"])
def test_a_running_job_of_a_run_is_asked_about_at_an_instant(run: Path, estimator: str):
    """With what had been learned by then, and the progress that its emulated builder had made."""
    (row,) = rows(run, "--job", "x-000003", "--at", "125s", "--estimator", estimator)
    assert (row["builder"], row["elapsed_s"], row["done"]) == ("slow-1", 5.0, 0.25)
    estimate = {"boinc": 60.0, "last-3": 20.0}[estimator]
    rest = {"boinc": 0.25 * 20.0 + 0.75 * 60.0 - 5.0, "last-3": 15.0}[estimator]
    assert (row["estimate_s"], row["remaining_s"]) == (estimate, pytest.approx(rest))
    assert (row["back_in_s"], row["sent"]) == (row["remaining_s"], None)
    assert "25 % done" in shown(run, "--job", "x-000003", "--at", "125s")


def test_progress_under_contention_is_that_of_the_work(tmp_path: Path):
    """Two heavy jobs on one builder advance at half speed while both run."""
    load = LOAD | {"every": "4s", "count": 2, "heavy": {"probability": 1}}
    made = small_scenario({"slots": 2, "contention": {"slowdown": [1, 1, 2]}}, load)
    run = farm.simulate(made).save(tmp_path / "run")
    (row,) = rows(run, "--job", "x-000001", "--at", "8s")
    assert row["done"] == pytest.approx((4.0 + 4.0 / 2) / 20.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--size", "10"), "--size: found 10; no job there has a size"),
        (("--size", "nan"), "--size: found nan; allowed: a finite number above 0"),
        (("--kind", "odd", "--estimator", "oracle"), "allowed: unit"),
        (("--job", "x-000003", "--at", "1m"), "job 'x-000003' is not known there"),
        (("--job", "unknown"), "job 'unknown' is not known there"),
        (("--builder", "fast-1", "--platform", "amd64/virtual"), "allowed: one that runs amd64"),
        (("--estimator", "tea"), "allowed: boinc"),
        (("--declared", "soon"), "--declared"),
    ],
)
def test_mistakes_are_one_message(run: Path, words: tuple[str, ...], said: str):
    """What was found, and what is allowed."""
    done = CliRunner().invoke(app, ["admin", "estimate", "--run-time", str(run), *words])
    assert isinstance(done.exception, FarmError)
    assert said in str(done.exception)
