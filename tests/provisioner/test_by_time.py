"""Options by the time of the week, as the schedules of four autoscalers."""

from __future__ import annotations

from typing import Any

import pytest

import farm
from farm.assembly import pool_specs
from farm.core.errors import FarmError
from farm.core.pools.algorithm import PoolSnapshot
from farm.scenario import Scenario
from farm.testing import small_scenario
from provisioner.algorithms.sizing import EARLY
from provisioner.from_scenario import algorithms_of
from provisioner.reconciler import Keeping, decide
from tests.provisioner.test_reconciler import report

HOUR, DAY = 3600.0, 86400.0
TIMES = {"mon": 0, "tue": 1, "wed": 2, "thu": 3, "fri": 4, "sat": 5, "sun": 6}


def scenario(starts: str = "mon 00:00", **provisioner: Any) -> Scenario:
    """Return a scenario with one provisioned pool, of at most 50 builders without a preset."""
    limits = {} if "preset" in provisioner else {"max": 50}
    pool = {"slots": 5, "provisioner": {**limits, **provisioner}}
    return farm.load_scenario(small_scenario(pool, starts=starts))


def wanted(loaded: Scenario, time: str, **counts: int) -> int:
    """Return the builders that the pool should have at a time of the first week, or later."""
    day, clock, *weeks = time.split()
    hour, minute = map(int, clock.split(":"))
    at = TIMES[day] * DAY + hour * HOUR + minute * 60 + len(weeks) * 7 * DAY - loaded.starts
    algorithm = algorithms_of(loaded)["p"]
    snapshot = PoolSnapshot(pool="p", at=at, starts=loaded.starts, slots=5, **counts)
    plan, _ = algorithm.plan(snapshot, algorithm.start())
    return plan.desired


GITLAB = {
    "algorithm": "gitlab",
    "by_time": [
        {"when": "* * * * *", "idle_count": 5, "idle_time": "20m"},
        {"when": ["* 8-17 * * mon-fri"], "timezone": "+01:00", "idle_count": 40},
        {"when": ["* * * * sat,sun"], "idle_count": 0},
        {"when": ["* 12 * * sun"], "idle_count": 10, "preemptive_mode": False},
    ],
}
STACK = {
    "preset": "elastic-ci-stack",
    "by_time": [{"when": "mon-fri 08:00-18:00", "min": 4, "max": 20}],
}
TERRAFORM = {
    "algorithm": "arc",
    "by_time": [{"when": "* 9-17 * * 1-5", "timezone": "-05:00", "min": 3}],
}
ARC = {
    "algorithm": "arc",
    "min": 2,
    "by_time": [
        {"when": "sat 00:00 - mon 00:00", "min": 0},
        {"start": "8d", "end": "9d", "min": 7},
    ],
}


ROWS: list[tuple[dict[str, Any], str, dict[str, int], int]] = [
    # the last policy whose period it is, with its own keys only; idle counts are jobs
    (GITLAB, "mon 06:59", {}, 1),
    (GITLAB, "mon 07:00", {}, 8),
    (GITLAB, "mon 16:59", {}, 8),
    (GITLAB, "mon 17:00", {}, 1),
    (GITLAB, "sat 12:00", {"waiting_jobs": 6}, 2),
    (GITLAB, "sun 12:59", {"waiting_jobs": 6}, 4),
    (GITLAB, "tue 12:00", {"waiting_jobs": 6}, 8),
    # ScaleUpSchedule 0 8 * * MON-FRI with ScaleUpMinSize 4, ScaleDownSchedule 0 18 * * *
    (STACK, "fri 07:59", {}, 0),
    (STACK, "fri 08:00", {}, 4),
    (STACK, "fri 17:59", {"waiting_jobs": 500}, 20),
    (STACK, "fri 18:00", {"waiting_jobs": 500}, 10),
    (STACK, "sun 09:00", {}, 0),
    # idle_config cron * * 9-17 * * 1-5, in New York
    (TERRAFORM, "mon 13:59", {}, 0),
    (TERRAFORM, "mon 14:00", {"busy": 2, "running_jobs": 10}, 5),
    (TERRAFORM, "mon 23:00", {"busy": 2, "running_jobs": 10}, 2),
    # a weekly override, and one of a single day
    (ARC, "fri 23:59", {}, 2),
    (ARC, "sat 00:00", {}, 0),
    (ARC, "mon 00:00 later", {}, 2),
    (ARC, "tue 12:00 later", {}, 7),
    (ARC, "wed 00:00 later", {}, 2),
]


@pytest.mark.parametrize(("given", "time", "counts", "expected"), ROWS)
def test_schedules(given: dict[str, Any], time: str, counts: dict[str, int], expected: int) -> None:
    """Protects each system's schedule, at the first and the last minute of its periods."""
    assert wanted(scenario(**given), time, **counts) == expected


@pytest.mark.parametrize(
    ("given", "time", "counts", "expected"), [row for row in ROWS if row[0] is not ARC]
)
def test_a_farm_that_does_not_begin_on_monday(
    given: dict[str, Any], time: str, counts: dict[str, int], expected: int
) -> None:
    """Protects the same schedules where farm time 0 is another time of the week."""
    assert wanted(scenario("mon 05:30", **given), time, **counts) == expected


def test_the_pool_begins_with_the_minimum_of_its_first_minute() -> None:
    """Protects the start, and the most builders that the scheduler allows at any time."""
    for starts, initial in (("mon 07:00", 0), ("mon 09:00", 4)):
        [spec] = pool_specs(scenario(starts, **STACK))
        assert (spec.builders, spec.max) == (initial, 20)


def test_manual_follows_the_same_clock() -> None:
    """Protects hours of the day when farm time 0 is not midnight."""
    loaded = scenario("mon 05:30", algorithm="manual", capacity={0: 1, 8: 2})
    assert [wanted(loaded, time) for time in ("mon 07:59", "mon 08:00", "tue 00:00")] == [1, 2, 1]


def test_a_run_grows_and_shrinks_at_the_boundary() -> None:
    """Protects the instants: the first tick of the period, in a run without any event there."""
    sizing = {"algorithm": "fixed", "builders": 1, "max": 9, "interval": "7s"}
    sizing["by_time"] = [{"when": "08:00-18:00", "builders": 3}]
    load = {"every": "1h", "count": 2}
    scenario = small_scenario({"provisioner": sizing}, load, phases={"run": "1d"})
    found = farm.simulate(scenario, keep_events=True)
    plans = [e for e in found.events if e["event"] == "pool-planned"]
    assert [(e["at_s"], e["desired"]) for e in plans] == [(7.0, 1), (28805.0, 3), (64806.0, 1)]


def test_a_provisioner_keeps_its_memory_when_times_are_added() -> None:
    """Protects windows and cooldowns of a farm whose scenario gets or loses its times."""
    times = [{"when": "sun", "list_length": 1}]
    plain, timed = (
        algorithms_of(scenario(algorithm="keda", **more))["p"] for more in ({}, {"by_time": times})
    )
    keeping, _ = decide(plain, Keeping(), report(waiting_jobs=30), 0)
    heard = report(at=15, waiting_jobs=30, heard=1)
    assert decide(timed, keeping, heard, 0) == decide(plain, keeping, heard, 0)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"idle_cout": 5}, r"by_time\.0\.idle_cout: gitlab has no such option; did you mean idle_"),
        ({"idle_count": -5}, r"by_time\.0\.idle_count: found -5"),
        ({"idle_time": "soon"}, r"by_time\.0\.idle_time: found 'soon'; allowed: seconds"),
        ({"interval": "1s"}, r"by_time\.0\.interval: it is the same at all times"),
        ({"first_plan": "1s"}, r"by_time\.0\.first_plan: it is the same at all times"),
        ({"min": 51}, r"provisioner: found by_time\.0: max 50 below min 51"),
        ({"when": "8-18"}, r"by_time\.0\.when\.0: found '8-18'; allowed: days, times"),
        ({"timezone": "Europe/Berlin"}, r"by_time\.0\.timezone: found 'Europe/Berlin'; allowed: "),
        ({"start": "2d", "end": "1d"}, r"by_time\.0: found end 86400 with start 172800"),
    ],
)
def test_mistakes(given: dict[str, Any], said: str) -> None:
    """Protects users: one message with the entry, before the run."""
    with pytest.raises(FarmError, match=said):
        algorithms_of(scenario(algorithm="gitlab", by_time=[given]))


def test_a_function_has_limits_by_time_only() -> None:
    """Protects users' functions: min and max hold for them too, options do not exist."""
    times = [{"when": "sat,sun", "min": 2, "max": 3}]
    loaded = scenario(algorithm="arc", by_time=times)
    sized = algorithms_of(loaded, {"p": lambda _: 9})["p"]
    for at, desired in ((0.0, 9), (5 * DAY, 3)):
        plan, _ = sized.plan(PoolSnapshot(pool="p", at=at), sized.start())
        assert plan.desired == desired


def test_a_plan_names_the_times_for_which_its_limits_are():
    """And is sent when these begin, though the size may stay: `farm pools` shows what holds."""
    loaded = scenario(
        starts="mon 07:00",
        algorithm="taskcluster",
        min=4,
        interval="1h",
        by_time=[{"when": "mon-fri 08:00-18:00", "min": 4, "max": 20}, {"end": "30m", "max": 9}],
    )
    algorithm = algorithms_of(loaded)["p"]
    keeping, sent = decide(algorithm, Keeping(), report(at=0.0, starts=loaded.starts), 0)
    assert (sent.most, sent.why) == (9, "0 jobs beyond 0 idle slots; minimum 4 (until 30m)")
    seen = report(at=HOUR, heard=1, joined="abcd", starts=loaded.starts)
    keeping, sent = decide(algorithm, keeping, seen, 0)
    assert (sent.start, sent.most, sent.period) == (0, 20, "mon-fri 08:00-18:00")
    assert sent.why.endswith("; minimum 4 (mon-fri 08:00-18:00)")
    seen = report(at=2 * HOUR, heard=2, joined="abcd", starts=loaded.starts)
    assert decide(algorithm, keeping, seen, 0)[1] is None


def test_no_plan_is_left_out_at_the_edge_of_the_next_period() -> None:
    """Protects a period that begins while another still holds: the nearest edge counts."""
    times = [{"start": "1h", "end": "10h", "min": 1}, {"start": "2h", "end": "3h", "min": 2}]
    algorithm = algorithms_of(
        scenario(algorithm="fixed", builders=1, interval="60s", by_time=times)
    )
    until = {
        at: algorithm["p"].stays_until(PoolSnapshot(pool="p", at=at), algorithm["p"].start())
        for at in (0.0, 1.5 * HOUR, 4 * HOUR)
    }
    edges = {0.0: HOUR, 1.5 * HOUR: 2 * HOUR, 4 * HOUR: 10 * HOUR}
    assert until == {at: edge - 60.0 - EARLY for at, edge in edges.items()}
