"""admin score, plan, whatif and snapshot files through the command line, and their mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from farm.app.forecasts import what_if
from farm.assembly import make_scheduler
from farm.core.events import BuilderJoined, JobsSubmitted
from farm.core.model import Builder, Job, Platform
from farm.core.state.snapshot import FarmSnapshot, snapshot_of
from farm.forecasts.dispatch.recent_arrivals import ArrivalMemory
from farm.live.operating.answers import FarmImage
from farm.scenario import parse_scenario
from farm.sim.simulation import Simulation
from farm.testing import small_scenario
from provisioner.from_scenario import algorithms_of

SCENARIO = """\
name: small
pools: [{name: linux, platform: {processor: a}, builders: 2}]
workload:
  - arrivals: {platform: {processor: a}, count: 60, poisson: {rate: 0.12/s},
               service_time: {exponential: {mean: 15s}}, kind: [x, y]}
scheduling: {runtime_estimates: last-3}
"""

SIZES = {"algorithm": "taskcluster", "max": 4, "interval": "15s"}
PROVISIONED = small_scenario(
    {
        "name": "linux",
        "boot_time": "30s",
        "failure_rate": 0.6,
        "idle_timeout": "20m",
        "provisioner": SIZES,
    },
    {"every": "0.1s", "count": 60, "service_time": {"uniform": {"min": "20s", "max": "60s"}}},
    scheduling={"runtime_estimates": "oracle"},
)

STATE = {
    "builders": [
        {"name": "b1", "processors": ["i386"], "virtualized": True},
        {"name": "b2", "processors": ["i386"], "virtualized": True},
    ],
    "jobs": [
        {"id": 1, "name": "first", "processor": "i386", "virtualized": True, "score": 9,
         "duration_s": 60, "status": "waiting"},
        {"id": 2, "name": "second", "processor": None, "virtualized": None, "score": 5,
         "duration_s": 60, "status": "waiting"},
        {"id": 3, "name": "other", "processor": "arm", "virtualized": True, "score": 1,
         "duration_s": 60, "status": "waiting"},
        {"id": 4, "name": "r1", "processor": "i386", "virtualized": True, "score": 0,
         "duration_s": 600, "status": "running", "builder": "b1", "elapsed_s": 100},
        {"id": 5, "name": "r2", "processor": "i386", "virtualized": True, "score": 0,
         "duration_s": 700, "status": "running", "builder": "b2", "elapsed_s": 100},
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    """Put a scenario and a state file into the working directory."""
    (tmp_path / "small.yaml").write_text(SCENARIO, encoding="utf-8")
    (tmp_path / "state.json").write_text(json.dumps(STATE), encoding="utf-8")


def test_estimates_of_a_simulated_run_are_scored(farm, tmp_path: Path) -> None:
    """Every estimator has its score, table and curve; jobs.csv has the first."""
    sets = ("--set", "estimates.rules=[launchpad, rollout]", "--set", "estimates.rollouts=20")
    more = ("--set", "estimates.run_times=[oracle, last-3]")
    assert farm("simulate", "small.yaml", "--out", "run", "--quiet", *sets, *more)[0] == 0
    code, out, _ = farm("admin", "score", "run", "--json", "--plot", "figure.svg")
    assert code == 0
    *own, last_waits, throughput = json.loads(out)
    assert (last_waits["rules"], throughput["rules"]) == ("last-waits", "throughput")
    assert own[0]["trust"]
    scores = {(s["rules"], s["run_times"]): s for s in own}
    rules = "launchpad", "rollout"
    assert list(scores) == [(rule, source) for source in ("oracle", "last-3") for rule in rules]
    certain = scores["rollout", "oracle"]
    # run times are known and the order is that of arrival: the rollout is the simulation
    assert certain["mean_absolute_error_time_s"] == pytest.approx(0.0, abs=1e-6)
    assert certain["within_p90"] == 1.0
    assert all(score["given"] == 60 for score in scores.values())
    assert "<svg" in (tmp_path / "figure.svg").read_text()
    code, out, _ = farm("admin", "score", "run")
    assert code == 0
    assert "launchpad + last-3" in out
    rows = (tmp_path / "run" / "jobs.csv").read_text().splitlines()
    assert all(row.rpartition(",")[2] for row in rows[1:])


def test_a_run_without_estimates_has_no_score(farm) -> None:
    """One message that says how to get one."""
    farm("simulate", "small.yaml", "--out", "run", "--quiet")
    code, _, err = farm("admin", "score", "run")
    assert code == 2
    assert "estimates.rules" in err


def test_statistics_of_a_finished_run_seed_the_next(farm, tmp_path: Path) -> None:
    """With --learn-from the first jobs are ordered by the run times of the earlier run."""
    farm("simulate", "small.yaml", "--out", "one", "--quiet")
    farm("simulate", "small.yaml", "--out", "two", "--quiet", "--learn-from", "one")

    def first_estimate(run: str) -> float:
        lines = (tmp_path / run / "events.jsonl").read_text().splitlines()
        ends = [json.loads(line) for line in lines if '"ended":true' in line]
        return float(min(ends, key=lambda end: end["submitted_at_s"])["estimated_time_s"])

    assert first_estimate("one") != first_estimate("two")
    code, _, err = farm("simulate", "small.yaml", "--learn-from", "nowhere")
    assert code == 2
    assert "nowhere" in err


def test_plan_finds_a_size_or_reports_that_there_is_none(farm, tmp_path: Path) -> None:
    """Exit code 0 with the size, 1 if no size suffices, 2 for an unknown objective."""
    words = ("plan", "small.yaml", "--replications", "3", "--quiet")
    code, out, _ = farm(*words, "--slo", "p95(waiting_time) < 1m", "--json", "--plot", "p.html")
    found = json.loads(out)
    assert code == 0
    assert found["best"]["met"]
    assert found["best"]["builders"]["linux"] >= 2
    assert len(found["points"]) >= 3
    assert "<svg" in (tmp_path / "p.html").read_text()
    found = farm(*words, "--slo", "p95(linux.waiting_time) < 1m").out.splitlines()
    assert found[0].startswith("p95(linux.waiting_time) < 1m needs ")
    assert " linux builders (95% confidence" in found[0]
    rows = [line for line in found if line.endswith((" no", " yes", "best"))]
    every = farm(*words, "--slo", "p95(linux.waiting_time) < 1m", "--all").out.splitlines()
    assert (len(rows), len(every)) == (5, len(found) + int(found[-1].split()[0]) - 1)
    code, _, err = farm(*words, "--slo", "p95(linx.waiting_time) < 1m")
    assert (code, "did you mean linux?" in err) == (2, True)
    code, out, _ = farm(*words, "--slo", "p50(response_time) < 1s")
    assert code == 1
    assert "no size can" in out
    for wrong in ("p95(waiting_time)", "p95(queueing) < 5m", "p95(waiting_time) < soon"):
        code, out, err = farm(*words, "--slo", wrong)
        assert (code, out) == (2, "")
        assert "allowed" in err
    for plot, says in (("none/p.html", "cannot be written"), ("p.gif", "ends in .html, .svg")):
        code, _, err = farm("plan", "nowhere.yaml", "--slo", "max(stretch) < 9", "--plot", plot)
        assert (code, says in err) == (2, True)
    code, _, err = farm(*words, "--slo", "max(stretch) < 9", "--price", "windows=3")
    assert code == 2
    assert "--price" in err
    assert "linux" in err


def test_whatif_on_a_state_file(farm) -> None:
    """Certain durations: the queue empties as builders come free, one more takes all at once."""
    code, out, _ = farm("whatif", "state.json", "--json", "--limit", "0")
    assert code == 0
    now = {row["job"]: row["now"]["p50_s"] for row in json.loads(out)["jobs"]}
    assert now == {"first": 500.0, "second": 560.0, "other": None}
    change = ("--set", "pool.i386-virtual.builders=+1")
    code, out, _ = farm("whatif", "state.json", "--json", "--limit", "0", *change)
    then = {row["job"]: row["then"]["p50_s"] for row in json.loads(out)["jobs"]}
    assert then == {"first": 0.0, "second": 60.0, "other": None}
    code, out, _ = farm("whatif", "state.json", *change)
    assert code == 0
    assert out.startswith(
        "With pool.i386-virtual.builders=+1 the 2 waiting jobs wait 30 s on average instead of "
        "8.8 min; the last of them most likely starts in 60 s instead of 9.3 min; "
        "some jobs of arm/virtual never start."
    )
    assert "→" in out


def test_whatif_sizes_provisioned_pools_as_the_farm_would(farm) -> None:
    """The pool grows in both futures; a higher maximum, or a shorter time-out, ends it sooner."""
    scenario = parse_scenario(PROVISIONED)
    found: list[FarmSnapshot] = []
    scheduler = make_scheduler(scenario)

    def watch(event, _):
        if event.at > 20 and not found:
            found.append(snapshot_of(scheduler, event.at))

    Simulation.of(scenario, scheduler=scheduler, algorithms=algorithms_of(scenario)).play([watch])
    plain = scenario.model_dump(mode="json", exclude_none=True)
    image = FarmImage(snapshot=found[0], scenario=plain)
    Path("image.json").write_bytes(msgspec.json.encode(image))
    for change in ("pools.linux.provisioner.max=20", "pools.linux.idle_timeout=5s"):
        words = ("whatif", "image.json", "--json", "--rollouts", "5", "--set", change)
        code, out, err = farm(*words)
        assert (code, err) == (0, "")
        row = json.loads(out)["platforms"][0]
        assert row["then"]["last_p50_s"] < 0.8 * row["now"]["last_p50_s"]
        assert row["waiting"] > 30


def test_whatif_tells_when_blocked_jobs_start(farm) -> None:
    """After what they need, or the job that has their group's place; those skipped are not told.

    The builder that is idle could not run them before. One that no builder runs is not skipped.
    """
    scenario = parse_scenario(small_scenario({"builders": 2}, {"every": "1s", "count": 1,
        "service_time": "1s"}, scheduling={"runtime_estimates": "oracle"}))  # fmt: skip
    own = [
        Job(id="runs", service_time=60.0, group="deploy"),
        Job(id="held", service_time=60.0, group="deploy"),
        Job(id="after", service_time=60.0, needs=("held",)),
        Job(id="skipped", service_time=60.0, needs=("held:failed",)),
        Job(id="as well", service_time=60.0, needs=("skipped",)),
        Job(id="never", service_time=60.0, needs=("held",), platform=Platform("sparc")),
    ]
    scheduler = make_scheduler(scenario)
    for number in range(2):
        builder = Builder(id=f"b{number}", pool="linux", index=number, processors=("amd64",))
        scheduler.handle(BuilderJoined(0.0, builder))
    scheduler.handle(JobsSubmitted(0.0, tuple(own)))
    plain = scenario.model_dump(mode="json", exclude_unset=True)
    image = FarmImage(snapshot=snapshot_of(scheduler, 20.0), scenario=plain)
    Path("image.json").write_bytes(msgspec.json.encode(image))
    told = json.loads(farm("whatif", "image.json", "--json", "--rollouts", "2").out)
    waits = {job["job"]: job["now"]["mean_s"] for job in told["jobs"]}
    assert (waits, told["blocked"]) == ({"held": 40.0, "after": 100.0, "never": None}, 3)
    out = farm("whatif", "image.json", "--rollouts", "2").out
    assert "some jobs of sparc" in out


@pytest.mark.slow
def test_whatif_lets_jobs_arrive_as_lately_where_they_can_overtake(farm, monkeypatch) -> None:
    """Shortest first with what came lately; unless told otherwise, or too many jobs wait."""
    times = {"exponential": {"mean": "20s"}}
    load = {"count": 300, "poisson": {"rate": "0.19/s"}, "service_time": times}
    rules = {"policy": "sjf", "runtime_estimates": "oracle"}
    scenario = parse_scenario(small_scenario({"slots": 4}, load, scheduling=rules))
    found, memory = list[FarmSnapshot](), ArrivalMemory()
    scheduler = make_scheduler(scenario)

    def watch(event, _):
        if event.at > 600 and not found:
            now = snapshot_of(scheduler, event.at)
            found.extend([now] if len(now.waiting) > 5 else [])
        if not found and isinstance(event, JobsSubmitted):
            memory.take(event.at, event.jobs)

    Simulation.of(scenario, scheduler=scheduler).play([watch])
    plain = scenario.model_dump(mode="json", exclude_none=True)
    (now,) = found
    image = FarmImage(snapshot=now, scenario=plain, recent=memory.recent(now.at))
    Path("image.json").write_bytes(msgspec.json.encode(image))

    def told(*words: str) -> tuple[str, float]:
        code, out, _ = farm("whatif", "image.json", "--json", "--rollouts", "20", *words)
        assert code == 0
        answer = json.loads(out)
        return answer["arrivals"], answer["platforms"][0]["now"]["mean_wait_s"]

    (lately, wait), (none, alone) = told(), told("--no-arrivals")
    assert (lately, none, told("--arrivals")[0]) == ("lately", "none", "workload")
    assert wait > 1.2 * alone
    assert told("--set", "scheduling.policy=fifo")[0] == "lately"  # as it is now
    assert "jobs arriving as lately" in farm("whatif", "image.json", "--rollouts", "2")[1]
    # how much the rollouts differ is told, of the difference as well
    fifo = ("whatif", "image.json", "--rollouts", "20", "--set", "scheduling.policy=fifo")
    answer = json.loads(farm(*fifo, "--json").out)
    now_s, then_s = (answer["platforms"][0][when]["mean_wait_s"] for when in ("now", "then"))
    for name, mean in (("mean_wait", now_s), ("change", then_s - now_s)):
        assert answer[name]["p10_s"] < mean < answer[name]["p90_s"]
    assert " of difference in 8 of 10 rollouts); the last" in farm(*fifo).out.replace("\n", " ")
    assert farm("whatif", "image.json").out.count("in 8 of 10 rollouts") == 1
    monkeypatch.setattr(what_if, "MOST_WITH_ARRIVALS", len(now.waiting) - 1)
    assert told() == ("none", alone)
    assert "in 8 of 10" not in farm("whatif", "image.json").out  # all is known


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ((-720.0, -360.0), "6 min to 12 min"),
        ((-60.0, 120.0), "60 s less to 2 min more"),
        ((30.0, 30.2), "30 s"),
    ],
)
def test_a_range_is_told_in_words(ends: tuple[float, float], says: str) -> None:
    """Both directions where the sign is not certain."""
    assert str(what_if.Range(*ends)) == says


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("whatif", "nowhere.json"), "cannot be read"),
        (("whatif", "garbled.json"), "not a snapshot"),
        (("whatif", "other.json"), "format 99"),
        (("whatif", "empty.json"), "no job is waiting"),
        (("whatif", "empty.json", "--set", "pools.nosuch.builders=+3"), "nosuch"),
        (("whatif", "state.json", "--set", "pool.mac.builders=3"), "mac"),
        (("whatif", "state.json", "--set", "scheduling.polcy=sjf"), "polcy"),
        (("whatif", "state.json", "--set", "scheduling.runtime_estimates=guess"), "guess"),
        (("whatif", "crowded.json"), "more running jobs than slots"),
        (("whatif", "state.json", "--arrivals"), "--arrivals: found a state file"),
        (("whatif", "--set", "nope=1"), "--set nope=1: nope: unknown key"),
        (("whatif", "--policy", "sjff"), "did you mean sjf?"),
        (("whatif", "--set", "pools.linux.builders=+3"), "no farm is running here"),
        (("set", "foo=bar"), "found the key 'foo'"),
        (("set", "urgency=5"), "--job"),
        (("set", "policy=sjf"), "no farm is running here"),
        (("admin", "estimate"), "no farm is running here"),
        (("status", "--save", "-"), "no farm is running here"),
    ],
)
def test_mistakes_get_one_message(farm, tmp_path: Path, words, says) -> None:
    """Exit code 2 and one clear message, never a traceback."""
    (tmp_path / "garbled.json").write_text('{"format": 1, "snapshot": {"at": "noon"}}')
    (tmp_path / "other.json").write_text(
        '{"format": 99, "snapshot": {"at": 0, "waiting": [], "running": [], "builders": [], '
        '"pools": [], "serial": 0}, "scenario": {}}'
    )
    (tmp_path / "empty.json").write_text(json.dumps(STATE | {"jobs": []}))
    crowded = [*STATE["jobs"], STATE["jobs"][3] | {"id": 9, "name": "r3"}]
    (tmp_path / "crowded.json").write_text(json.dumps(STATE | {"jobs": crowded}))
    code, out, err = farm(*words)
    assert (code, out) == (2, "")
    assert says in " ".join(err.split())
    assert "Traceback" not in err
