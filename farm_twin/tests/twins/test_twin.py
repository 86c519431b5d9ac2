"""A twin is found from records alone, and refused where no pool explains the waits."""

from __future__ import annotations

import csv
import heapq
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import numpy as np
import pytest

from farm import simulate
from farm.records.attempt import Attempt
from farm.records.attempt_columns import AttemptColumns
from farm.records.bundle import Bundle
from farm.records.runners import most_at_once
from farm.records.traces.bundle import records_of
from farm_twin.importing import load_records
from farm_twin.sources import export_attempts
from farm_twin.twins.candidates import NO_LIMIT, candidates_of
from farm_twin.twins.flags import OVERTAKEN, flags_of, overtaking
from farm_twin.twins.pool_shapes import PoolLoad, Shape, pools_of
from farm_twin.twins.scenario_text import ONE_POOL
from farm_twin.twins.timetable import changes_of_number
from farm_twin.twins.twin import PoolTwin, Twin, order_of, twin_of, write_twin

COLUMNS = {
    "id": "job_id", "submitted": "submitted_at_s", "started": "started_at_s",
    "finished": "finished_at_s", "runner": "builder", "platform": "platform", "result": "outcome",
    "attempt": "attempts", "team": "invocation",
}  # fmt: skip
HOUR = 3600.0
TEAMS = {"attributes": {"team": {"web": 2, "infra": 1}}, "invocation": ["team"]}
INSTANTS = ("submitted", "started", "finished")
#: two peaks in a day, and peaks one after the other: fewer jobs show as much of a pool
DAY = {"daily_cycle": ([0.2] * 4 + [2.2] * 4) * 2 + [0.2] * 8, "count": 1200}
PEAKS = {"daily_cycle": [0.2, 0.2, 2.2, 2.2] * 6, "count": 600}


def recorded(
    tmp_path: Path, pool: dict[str, Any], load: dict[str, Any] = DAY, **scheduling: Any
) -> Path:
    """Return the jobs.csv of a simulated farm: all that its twin is made from."""
    arrivals = {
        "poisson": {"rate": "60/h"},
        **load,
        "service_time": {"lognormal": {"median": "4m", "sigma": 0.7}},
        **TEAMS,
    }
    scenario = {
        "name": "truth",
        "seed": 4,
        "pools": [{"name": "hidden", "platform": {"processor": "linux"}, **pool}],
        "workload": [{"arrivals": arrivals}],
        "scheduling": scheduling,
    }
    simulate(scenario, out=tmp_path / "truth")
    return tmp_path / "truth" / "jobs.csv"


def twin(path: Path) -> Twin:
    """Return the twin of a table's records."""
    return twin_of(load_records([path], "csv", COLUMNS), "records")


def pool_of(path: Path, columns: dict[str, str] = COLUMNS) -> tuple[Shape, PoolLoad]:
    """Return the only pool of a table, and its jobs."""
    [found] = pools_of(load_records([path], "csv", columns))
    return found


def only(found: Twin) -> PoolTwin:
    """Return the only pool."""
    [one] = found.pools
    return one


def waits_as_recorded(one: PoolTwin, mean: float = 0.05, p95: float = 0.10) -> None:
    """Check the half that was not seen."""
    assert one.check is not None
    assert one.check.loaded
    assert abs(one.check.mean_error.value) <= mean
    assert abs(one.check.p95_error.value) <= p95
    assert one.check.error_per_job.value <= 0.03 * one.check.recorded_mean
    assert one.believable


def is_as_checked(path: Path, made: Twin) -> None:
    """Check that the file, played as it stands, has the waits that were held against the records.

    The jobs of a pool are told by their builders.
    """
    jobs = simulate(path).jobs
    order = np.argsort(np.array(jobs["submitted_at_s"]), kind="stable")
    waits, builders = np.array(jobs["waiting_time_s"])[order], np.array(jobs["builder"])[order]
    for one in made.pools:
        assert one.check is not None
        own = waits[np.char.startswith(builders, f"{one.name}-")][-one.check.jobs :]
        assert own.mean() == pytest.approx(one.check.simulated_mean, rel=1e-12)
        assert np.quantile(own, 0.95) == pytest.approx(one.check.simulated_p95, rel=1e-12)


def test_a_fixed_pool(tmp_path):
    """Slots, runners, and the times before and after a job are exact; waits are the recorded."""
    pool = {"slots": 2, "builders": 3, "inter_job_time": "7s", "pickup_time": "4s"}
    one = only(twin(recorded(tmp_path, pool)))
    assert (one.shape.slots, one.shape.runners) == (2, 3)
    assert one.document["pickup_time"] == pytest.approx(4.0, abs=0.1)
    assert one.document["inter_job_time"] == pytest.approx(7.0, abs=0.1)
    assert one.flags == []
    waits_as_recorded(one, 0.001, 0.001)
    assert one.triangle is not None
    assert one.triangle.off == "nothing"


def test_runners_of_one_job(tmp_path):
    """A fixed number of ephemeral runners shows its boot time in every succession of jobs."""
    one = only(twin(recorded(tmp_path, {"builders": 8, "uses": 1, "boot_time": "50s"})))
    assert one.document["uses"] == 1
    assert one.document["builders"] == 8
    assert one.document["boot_time"] == pytest.approx(50.0, rel=0.15)
    waits_as_recorded(one)


def test_runners_of_one_job_boot_and_pick_up(tmp_path):
    """Jobs that find a runner ready wait for the pick-up alone: they waited for nothing, before."""
    pool = {"builders": 8, "uses": 1, "boot_time": "50s", "pickup_time": "8s"}
    one = only(twin(recorded(tmp_path, pool)))
    assert one.document["pickup_time"] == pytest.approx(8.0, abs=0.5)
    assert one.document["boot_time"] == pytest.approx(50.0, rel=0.05)
    waits_as_recorded(one, 0.005, 0.005)


def test_arrivals_of_one_second_are_in_the_order_of_their_starts(tmp_path):
    """Sources that round have many of them, and in the order of a file others waited: 9 % a job."""
    jobs = [{**job, "submitted": job["submitted"] // 60 * 60} for job in ran(6)[:200]]
    jobs.sort(key=lambda job: job["id"])
    path = table(tmp_path / "log.csv", jobs)
    records = load_records([path], "csv", {name: name for name in jobs[0]})
    [(_, load)] = pools_of(records)
    assert (np.diff(load.arrived + load.waited) >= 0).all()
    played = records_of(records.attempts, {})
    assert played.ids == [attempt.id for attempt in load.attempts]


def test_attempts_are_missing_only_where_none_of_their_kind_is_listed(tmp_path):
    """Re-runs and skipped jobs of GitHub were 54 lost attempts, whose losses were drawn."""
    jobs = ran(6)[:100]
    path = table(tmp_path / "log.csv", jobs)
    records = load_records([path], "csv", {name: name for name in jobs[0]})
    second = [
        msgspec.structs.replace(attempt, attempt=2 if number % 4 else 1)
        for number, attempt in enumerate(records.attempts)
    ]

    def missing(attempts: list[Attempt], source: str = "csv") -> int:
        manifest = msgspec.structs.replace(records.manifest, source=source)
        [(shape, _)] = pools_of(Bundle(manifest, attempts))
        return shape.missing

    assert missing(second) == 75
    assert missing(second, "github") == 0
    listed = msgspec.structs.replace(second[1], id="0", attempt=1, job=second[1].id)
    assert missing([*second, listed]) == 0


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_runners_of_one_job_that_boot_count(tmp_path, policy):
    """A limit of 16 is met with runners that boot: that many jobs never ran at once."""
    sizing = {"algorithm": "arc", "min": 0, "max": 16}
    pool = {"uses": 1, "boot_time": "8m", "pickup_time": "2s", "provisioner": sizing}
    records = load_records([recorded(tmp_path, pool, policy=policy)], "csv", COLUMNS)
    [(shape, _)] = pools_of(records)
    columns = AttemptColumns.of(records.attempts)
    assert most_at_once(columns.started_at, columns.finished_at) < 16
    assert shape.runners == 16
    # of equal ones the first is told: a runner for each job
    sized = (one.algorithm for one in candidates_of(shape) if one.algorithm != "fixed")
    assert next(sized) == "arc"
    # what passes before a job is the boot, as the twin has it, and the pick-up where it is known
    boots = [one + shape.warm_pickup for one in shape.provisioning_delays[:-1]]
    assert all(boot >= 481.9 for boot in boots)


def test_runners_that_came_one_by_one_were_not_always_there(tmp_path):
    """A pool that grew to its maximum and stayed there follows its queue, and is not fixed."""
    growing = {"algorithm": "target-wait", "min": 2, "max": 12, "objective": "15m"}
    pool = {"boot_time": "1m", "idle_timeout": "3h", "provisioner": growing}
    path = recorded(tmp_path, pool, {"poisson": {"rate": "150/h"}, "count": 600})
    shape, _ = pool_of(path)
    assert shape.ever == shape.runners == 12
    assert not shape.is_fixed
    assert {"fixed", "target-wait"} <= {one.algorithm for one in candidates_of(shape)}


def test_runners_that_are_kept_are_stopped_and_replaced_too(tmp_path):
    """That jobs find none when no other runs does not say that none is kept: it may be booting."""
    sizing = {"algorithm": "taskcluster", "min": 1, "max": 6}
    pool = {"boot_time": "171s", "idle_timeout": "60s", "provisioner": sizing}
    path = recorded(tmp_path, pool, {"poisson": {"rate": "20/h"}, "count": 200})
    shape, _ = pool_of(path)
    assert {0, 1} <= {one.options["min"] for one in candidates_of(shape) if "min" in one.options}


def hosted(tmp_path: Path, most: int) -> PoolTwin:
    """Return the twin of hosted runners, from the pages that GitHub answers with."""
    sizing = {"algorithm": "arc", "min": 0, "max": most, "interval": "0.1s"}
    delay = {"lognormal": {"median": "12s", "sigma": 0.6}}
    path = recorded(tmp_path, {"uses": 1, "boot_delay": delay, "provisioner": sizing})
    attempts = [
        # their names are given again
        msgspec.structs.replace(one, hosted=True, runner=f"GitHub Actions {number % 50}")
        for number, one in enumerate(load_records([path], "csv", COLUMNS).attempts)
    ]
    export_attempts("github", attempts, tmp_path / "jobs.json")
    return only(twin_of(load_records([tmp_path / "jobs.json"]), "records"))


@pytest.mark.slow
def test_hosted_runners_are_a_delay(tmp_path):
    """There always is one, after delays as recorded; an idle pool is judged in seconds."""
    one = hosted(tmp_path, 10_000)
    assert one.document["provisioner"]["max"] == NO_LIMIT
    assert one.check is not None
    assert one.check.simulated_mean == pytest.approx(one.check.recorded_mean, abs=3.0)
    assert one.check.simulated_p95 == pytest.approx(one.check.recorded_p95, abs=5.0)
    assert one.believable
    assert one.flags == []


@pytest.mark.slow
def test_the_limit_of_a_plan(tmp_path):
    """Jobs that met as many as ever ran at once waited longer: there are no more runners."""
    one = hosted(tmp_path, 9)
    assert one.document["provisioner"]["max"] == 9
    waits_as_recorded(one)


@pytest.mark.slow
def test_lost_attempts_that_are_not_recorded(tmp_path):
    """They are drawn, with an interval over draws; recorded ones are replayed, and none drawn."""
    path = recorded(tmp_path, {"builders": 6, "losses": {"rate": "0.3/h"}})
    one = only(twin(path))
    assert one.algorithm == "fixed"
    assert 0.15 <= one.shape.loss_rate <= 0.6
    assert one.check is not None
    assert one.check.drawn_mean is not None
    assert one.check.drawn_mean.low < one.check.drawn_mean.high
    assert one.believable
    assert "16 repetitions of the twin: " in one.verdict
    records = load_records([path], "csv", COLUMNS)
    replayed = [
        msgspec.structs.replace(one, attempt=1, result="lost" if number % 20 == 0 else one.result)
        for number, one in enumerate(records.attempts)
    ]
    again = only(twin_of(msgspec.structs.replace(records, attempts=replayed), "records"))
    assert again.shape.loss_rate == 0
    assert "replayed as recorded" in again.verdict


def test_runners_that_were_added(tmp_path):
    """A number that was changed by hand is found, with the instant, and holds as it is written."""
    number = {"capacity": 6, "max": 9, "by_time": [{"start": "12h", "capacity": 9}]}
    path = recorded(tmp_path, {"provisioner": {"algorithm": "manual", **number}})
    made = write_twin(load_records([path], "csv", COLUMNS), None, tmp_path / "mine.yaml")
    one = only(made)
    assert one.algorithm == "manual"
    sizing = one.document["provisioner"]
    assert (sizing["capacity"], sizing["by_time"][0]["capacity"]) == (6, 9)
    waits_as_recorded(one, 0.02, 0.02)
    is_as_checked(tmp_path / "mine.yaml", made)


@pytest.mark.parametrize("weekend", [9, 4])
def test_a_timetable(weekend):
    """Fewer runners at night, and at weekends, are the options of a provisioner by the hour."""
    table = {8: 9, 20: 3}
    number: dict[str, Any] = {"capacity": table, "max": 9}
    if weekend != 9:
        number["by_time"] = [{"when": "sat-sun", "capacity": weekend}]
    arrivals = {"poisson": {"rate": "85/h"}, "count": 12_000, "service_time": "5m"}
    played = simulate(
        {
            "seed": 4,
            "starts": "thu 00:00",
            "pools": [{"name": "hidden", "provisioner": {"algorithm": "manual", **number}}],
            "workload": [{"arrivals": arrivals}],
        }
    ).jobs
    names = ("submitted_at_s", "started_at_s", "finished_at_s")
    found = changes_of_number(np.array([list(played[name]) for name in names], float), slots=1)
    assert found is not None
    assert found["capacity"] == table
    assert ("by_time" in found) == (weekend != 9)


@pytest.mark.slow
def test_the_hours_of_a_timetable_are_those_of_the_records(tmp_path):
    """A farm whose clock is ahead of UTC: what is written is by that clock, and holds by it."""
    number = {"capacity": {8: 9, 20: 3}, "max": 9}
    sized = {"provisioner": {"algorithm": "manual", **number}}
    arrivals = {"poisson": {"rate": "85/h"}, "count": 6000, "service_time": "5m"}
    truth = {"seed": 4, "starts": "thu 00:00", "pools": [{"name": "hidden", **sized}]}
    simulate({**truth, "workload": [{"arrivals": arrivals}]}, out=tmp_path / "run")
    with (tmp_path / "run" / "jobs.csv").open(encoding="utf-8") as file:
        rows = [
            {
                "id": row["job_id"],
                # 1970 began on a Thursday, five hours later there
                **{name: float(row[f"{name}_at_s"]) + 5 * HOUR for name in INSTANTS},
                "runner": row["builder"],
            }
            for row in csv.DictReader(file)
        ]
    log = table(tmp_path / "log.csv", [{"kind": "", **row} for row in rows])
    columns = {name: name for name in rows[0]}
    records = load_records([log], "csv", columns, ZoneInfo("America/Lima"))
    made = write_twin(records, None, tmp_path / "mine.yaml")
    one = only(made)
    assert one.document["provisioner"]["capacity"] == {8: 9, 20: 3}
    assert "starts: thu 00:0" in made.text
    assert "(America/Lima)" in made.text
    waits_as_recorded(one)
    is_as_checked(tmp_path / "mine.yaml", made)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("algorithm", "load", "options", "searched", "order"),
    [
        ("taskcluster", DAY, {}, {"boot_time": 80.0, "idle_timeout": 600.0}, {}),
        ("target-wait", PEAKS, {"objective": "7m", "interval": "15s"}, {"boot_time": 80.0}, {}),
        ("gitlab", DAY, {}, {"boot_time": 80.0}, {}),
        ("jenkins", PEAKS, {}, {"boot_time": 80.0, "idle_timeout": 600.0}, {}),
        ("predictive", PEAKS, {}, {"boot_time": 80.0}, {}),
        # free runners go to teams that ran there last
        (
            "jenkins",
            PEAKS,
            {},
            {"boot_time": 80.0, "idle_timeout": 600.0},
            {"fair_share": ["team"]},
        ),
    ],
)
def test_a_pool_that_follows_its_queue(tmp_path, algorithm, load, options, searched, order):
    """The algorithm is found, and boot time and idle time-out within 15 %."""
    pool = {
        "provisioner": {"algorithm": algorithm, "min": 0, "max": 11, **options},
        "boot_time": "80s",
        **({"idle_timeout": "10m"} if "idle_timeout" in searched else {}),
    }
    one = only(twin(recorded(tmp_path, pool, load, **order)))
    assert one.algorithm == algorithm
    assert one.shape.runners == 11
    for key, value in searched.items():
        assert one.document[key] == pytest.approx(value, rel=0.15)
    waits_as_recorded(one)


def test_records_without_a_label_or_with_rounded_spans(tmp_path):
    """Jenkins: ends are sums of two rounded numbers, and all nodes are one pool."""
    path = recorded(tmp_path, {"builders": 4, "slots": 2})
    export_attempts("jenkins", load_records([path], "csv", COLUMNS).attempts, tmp_path / "j.json")
    made = twin_of(load_records([tmp_path / "j.json"]), "records")
    one = only(made)
    assert (one.shape.slots, one.shape.runners) == (2, 4)
    assert made.remarks == [ONE_POOL]
    assert ONE_POOL in made.text
    waits_as_recorded(one, 0.001, 0.001)


@pytest.mark.slow
def test_an_order_that_a_column_explains(tmp_path):
    """Fair share by a recorded column is found; without it the order is flagged, not fitted."""
    order = {"fair_share": ["team"], "weights": {"infra": 2}}
    path = recorded(tmp_path, {"builders": 7}, **order)
    one = only(twin(path))
    assert one.scheduling == order
    waits_as_recorded(one)
    hidden = only(twin_of(load_records([path]), "records"))
    assert [flag.kind for flag in hidden.flags] == ["hidden order"]
    assert not hidden.believable


# --- what no pool explains -----------------------------------------------------------------------


def ran(
    servers: int,
    *,
    cap: int = 99,
    cap_on_all: int = 99,
    approved: float = 0.0,
    held: float = 0.0,
    stalls: Sequence[tuple[float, float]] = (),
    seed: int = 7,
) -> list[dict[str, Any]]:
    """Return the jobs of four days, first come, first served, with when and where they ran.

    At most ``cap`` jobs named deploy run at once, and ``cap_on_all`` of all; they are held for
    ``approved`` seconds on average before they may start, and one in twelve of all jobs for
    ``held``; nothing starts in ``stalls``.
    """
    draw = random.Random(seed)
    coming: list[tuple[float, int, dict[str, Any]]] = []
    at = 0.0
    while at < 96 * HOUR:
        at += draw.expovariate(45 / HOUR * (0.2 if at / HOUR % 24 < 12 else 1.8))
        kind = draw.choices(["test", "build", "deploy"], [6, 3, 1])[0]
        job: dict[str, Any] = {"id": f"{kind}-{len(coming)}", "kind": kind, "submitted": at}
        job["takes"] = draw.lognormvariate(0, 0.6) * 330
        waits = draw.expovariate(1 / approved) if approved and kind == "deploy" else 0.0
        if held and draw.random() < 1 / 12:
            waits += draw.expovariate(1 / held)
        coming.append((at + waits, len(coming), job))
    heapq.heapify(coming)
    done: list[dict[str, Any]] = []
    waiting: list[dict[str, Any]] = []
    running: dict[str, int] = defaultdict(int)
    free, ends = list(range(servers)), [(end, -1, "") for _, end in stalls]
    heapq.heapify(ends)
    while coming or ends:
        at = min(queue[0][0] for queue in (coming, ends) if queue)
        while ends and ends[0][0] <= at:
            _, runner, kind = heapq.heappop(ends)
            free += [runner] if runner >= 0 else []
            running[kind] -= runner >= 0
        while coming and coming[0][0] <= at:
            waiting.append(heapq.heappop(coming)[2])
        is_down = any(begin <= at < end for begin, end in stalls)
        for job in [] if is_down else list(waiting):
            if sum(running.values()) >= cap_on_all:
                break
            if free and not (job["kind"] == "deploy" and running["deploy"] >= cap):
                waiting.remove(job)
                runner = free.pop(0)
                running[job["kind"]] += 1
                job |= {"started": at, "finished": at + job.pop("takes"), "runner": f"r-{runner}"}
                heapq.heappush(ends, (job["finished"], runner, job["kind"]))
                done.append(job)
    return done


def table(path: Path, jobs: list[dict[str, Any]]) -> Path:
    """Write the jobs as a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "kind", "submitted", "started", "finished", "runner"])
        writer.writeheader()
        writer.writerows(jobs)
    return path


def judged(tmp_path: Path, jobs: list[dict[str, Any]]) -> PoolTwin:
    """Return the twin of the only pool of a table."""
    columns = {name: name for name in jobs[0]}
    path = table(tmp_path / "log.csv", jobs)
    return only(twin_of(load_records([path], "csv", columns), "records"))


@pytest.mark.slow
def test_a_plain_queue_is_believed(tmp_path):
    """Nothing is flagged where jobs only wait for slots."""
    one = judged(tmp_path, ran(6))
    assert one.flags == []
    assert one.believable


@pytest.mark.slow
@pytest.mark.parametrize(
    ("servers", "hidden", "kind", "words"),
    [
        (14, {"cap": 1}, "cap", "a cap of 1 at once on name deploy"),
        # now and then two ran at once, by their rounded times; most of the waiting is for slots
        *(
            (servers, {"cap": 1, "seed": 1}, "cap", f"a cap of 1 at once on name deploy {share}")
            for servers, share in ((14, "explains 77%"), (9, "explains 7%"))
        ),
        (14, {"approved": HOUR}, "gate", "by name deploy alone"),
        (7, {"stalls": [(40 * HOUR, 43 * HOUR)]}, "stall", "jobs waited and none started"),
        (
            14,
            {"stalls": [((4 * n + 13) * HOUR, (4 * n + 13.4) * HOUR) for n in range(20)]},
            "stall",
            "13 times, for 24m23s as a rule, none started although jobs waited",
        ),
        (14, {"held": 2 * HOUR}, "gate", "were held while younger ones of the same labels"),
    ],
)
def test_what_is_no_queue_of_slots_is_refused(tmp_path, servers, hidden, kind, words):
    """Jobs that waited for something else than a runner: it is named, and not fitted."""
    one = judged(tmp_path, ran(servers, **hidden))
    assert [flag.kind for flag in one.flags] == [kind]
    assert words in one.verdict
    assert not one.believable


@pytest.mark.slow
def test_a_cap_on_a_whole_pool_is_played_as_fewer_builders(tmp_path):
    """Seven of fourteen runners ever work at once: so wait the jobs, and it is said."""
    one = judged(tmp_path, ran(14, cap_on_all=7))
    assert [(flag.kind, flag.limit) for flag in one.flags] == [("cap", 7)]
    assert "a cap of 7 at once on the whole pool" in one.verdict
    assert one.believable
    assert one.document["builders"] == 7


@pytest.mark.slow
def test_a_small_cap_is_named_and_the_twin_believed(tmp_path):
    """It explains little of the waiting, but ten jobs or more waited long for nothing else."""
    one = judged(tmp_path, ran(8, cap=1, seed=1))
    assert [(flag.kind, flag.small) for flag in one.flags] == [("cap", True)]
    assert "a cap of 1 at once on name deploy explains" in one.verdict


def test_runners_that_another_load_uses_are_refused(tmp_path):
    """Jobs of others on the same runners are in no record: the runners seem idle."""
    ours = [job for job in ran(6) if int(job["id"].rpartition("-")[2]) % 2]
    one = judged(tmp_path, ours)
    assert [flag.kind for flag in one.flags] == ["idle runners"]
    assert not one.believable


def test_a_pool_that_never_was_full(tmp_path):
    """Its capacity is a lower bound."""
    one = only(twin(recorded(tmp_path, {"builders": 40, "pickup_time": "4s"})))
    assert [flag.kind for flag in one.flags] == ["never saturated"]
    assert "at least that many" in one.verdict


def test_no_autoscaler_is_invented_for_a_pool_that_never_was_full(tmp_path):
    """Each runner's first job waited some seconds, as all do: none was started for it."""
    jobs = ran(30)
    draw = random.Random(2)
    for number, job in enumerate(jobs):
        job["started"] += draw.uniform(2, 9)
        job["finished"] += 9
        job["runner"] = f"r-{number % 30}"
    shape, _ = pool_of(table(tmp_path / "log.csv", jobs), {name: name for name in jobs[0]})
    assert shape.grew > 600
    assert shape.is_fixed


@pytest.mark.parametrize(
    ("pool", "scheduling"),
    [
        ({"builders": 4, "slots": 2}, {}),
        pytest.param(
            {"builders": 7, "inter_job_time": "30s", "pickup_time": "5s"},
            {},
            marks=pytest.mark.slow,
        ),
        ({"builders": 3, "slots": 3, "contention": {"slowdown": [1, 1, 1.2, 1.5]}}, {}),
        pytest.param({"builders": 7}, {"policy": "sjf"}, marks=pytest.mark.slow),
        ({"builders": 7}, {"fair_share": ["team"]}),
        pytest.param({"builders": 9, "uses": 1, "boot_time": "50s"}, {}, marks=pytest.mark.slow),
        ({"boot_time": "80s", "idle_timeout": "9m"}, {"algorithm": "taskcluster", "max": 9}),
        pytest.param(
            {"boot_time": "80s"},
            {"algorithm": "gitlab", "max": 9, "idle_count": 2},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"boot_time": "80s"}, {"algorithm": "buildkite", "max": 9}, marks=pytest.mark.slow
        ),
        ({"boot_time": "80s", "uses": 1}, {"algorithm": "arc", "max": 9, "min": 1}),
    ],
)
def test_plain_farms_are_not_flagged(tmp_path, pool, scheduling):
    """Slots and their times, orders that a column explains, and autoscalers explain all waits."""
    if "algorithm" in scheduling:
        pool, scheduling = {**pool, "provisioner": scheduling}, {}
    path = recorded(tmp_path, pool, **scheduling)
    shape, load = pool_of(path)
    assert list(flags_of(shape, load)) == []
    # what overtakes has an order that is found, and is not called hidden
    assert (overtaking(load, shape) >= OVERTAKEN) == bool(scheduling)
    assert bool(order_of([(shape, load)])) == bool(scheduling)
