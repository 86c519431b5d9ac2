"""``--check``: thresholds on a run, with an exit code for scripts."""

from __future__ import annotations

import json

import pytest

PASSES = "p95(waiting_time) < 5m"
#: two platforms, of which one has no jobs
TWO = """\
pools:
- {name: a, platform: {processor: x}, builders: 1}
- {name: b, platform: {processor: y}, builders: 1}
workload: [{arrivals: {every: 1m, count: 4, service_time: 90s, platform: {processor: x}}}]
"""


@pytest.fixture
def simulated(farm, tmp_path):
    """Simulate two pools with these options; return the exit code, output and errors."""
    (tmp_path / "two.yaml").write_text(TWO)

    def simulate(*options: str) -> tuple[int, str, str]:
        code, out, err = farm("simulate", tmp_path / "two.yaml", "--no-save", *options)
        return code, out, err

    return simulate


def test_a_run_that_misses_a_check_exits_with_one(simulated) -> None:
    """Each check is told with the value; several may be joined, and repeated."""
    code, out, _ = simulated(
        "-q", "--check", f"{PASSES} and max(a.waiting_time) < 1m", "--check", "utilization > 0.1"
    )
    assert code == 1
    assert out.splitlines()[-3:] == [
        "check p95(waiting_time) < 5m: met (1m25s)",
        "check max(a.waiting_time) < 1m: not met (1m30s)",
        "check utilization > 0.1: met (0.5)",
    ]


def test_a_run_that_meets_all_checks_exits_with_zero(simulated) -> None:
    """Any percentile of any metric, of a pool or of a platform by its name."""
    code, out, _ = simulated("-q", "--check", "p99.9(x/virtual.response_time) <= 3m and cost < 9")
    assert (code, out.count(": met (")) == (0, 2)


def test_a_value_that_does_not_exist_meets_nothing(simulated) -> None:
    """A platform without jobs must not pass for one whose jobs start at once."""
    code, out, _ = simulated("-q", "--check", "p95(b.waiting_time) < 5m")
    assert code == 1
    assert out.endswith("check p95(b.waiting_time) < 5m: not met (no value)\n")


def test_each_check_is_a_line_of_json(simulated) -> None:
    """After the summary, for programs."""
    code, out, _ = simulated("--json", "--check", f"{PASSES} and mean(stretch) < 1")
    *_, first, second = out.splitlines()
    assert code == 1
    found = json.loads(first)
    assert (found["check"], found["met"]) == ("p95(waiting_time) < 5m", True)
    assert found["value"] == pytest.approx(85.5)
    assert json.loads(second)["met"] is False


def test_a_figure_may_be_of_a_pool_and_a_limit_from_below(simulated) -> None:
    """As tables name figures; a platform that no pool and no job has is not met either."""
    checks = "a.cost < 9 and jobs lost < 1 and max(waiting_time) >= 1m and max_builders <= 2"
    code, out, _ = simulated("-q", "--check", checks)
    assert (code, out.count(": met (")) == (0, 4)
    code, out, _ = simulated("-q", "--check", "b.jobs_submitted > 0 and max(z/native.stretch) < 9")
    assert code == 1
    assert out.splitlines()[-2:] == [
        "check b.jobs_submitted > 0: not met (0)",
        "check max(z/native.stretch) < 9: not met (no value)",
    ]


@pytest.mark.parametrize(
    ("check", "says"),
    [
        ("a.makespan < 3", "figure of a found 'makespan'; allowed: cost, idle_share"),
        ("p95(foo) < 3", "found metric 'foo'; allowed: STATISTIC("),
        ("fo < 3", "figure found 'fo'; allowed: makespan, builder_time, cost"),
        ("p101(stretch) < 3", "found statistic 'p101'"),
        ("p95(c.stretch) < 3", "pool found 'c'; allowed: a, b, x/virtual, y/virtual"),
        ("cost > dear", "limit of cost: found 'dear'; allowed: a number"),
    ],
)
def test_an_unknown_check_is_refused_before_the_run(simulated, check: str, says: str) -> None:
    """With what is allowed, and exit code 2."""
    code, out, err = simulated("--check", check)
    assert (code, out) == (2, "")
    assert says in " ".join(err.split())
