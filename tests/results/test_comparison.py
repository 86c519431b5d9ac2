"""Runs side by side: differences, verdicts and agreement, on hand-made runs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from farm.core.commands import EndJob
from farm.core.errors import InputError
from farm.core.events import CancelRequested, JobFinished, JobsSubmitted
from farm.core.model import Job
from farm.results.comparison.compared_values import MetricComparison, PairComparison
from farm.results.comparison.comparison import compare
from farm.results.comparison.comparison_tables import difference_cells, render_comparison
from farm.results.comparison.significance import (
    Interval,
    inverted_share,
    means_of,
    paired_interval,
    resampled_interval,
    welch_interval,
)
from farm.results.run_directory import Run, RunDirectory, load_run
from farm.results.summary.figures import RunInfo
from farm.results.summary.summary import summarise
from farm.results.table.recorder import Recorder


def leave(
    path: Path,
    waits: list[float],
    *,
    world: Any = "simulated",
    prefix: str = "j",
    cancelled: int = 0,
    seed: int = 1,
    service_time: float = 10.0,
    policy: str = "fifo",
    every: float = 10.0,
) -> Run:
    """Write a run in which a job arrives every 10 s, waits this long, and runs 10 s."""
    recorder = Recorder()
    for number, wait in enumerate(waits):
        job = Job(id=f"{prefix}{number}", service_time=service_time)
        at = every * number
        recorder(JobsSubmitted(at, (job,)), [])
        end = EndJob(job, "succeeded", 1, at, at + wait + 10, at + wait, at + wait, "b", 0)
        if number < cancelled:
            end = EndJob(job, "cancelled", 0, at, at + 1)
            recorder(CancelRequested(at + 1, (job.id,)), [end])
        else:
            recorder(JobFinished(end.finished_at, job.id, 1, "b", "succeeded"), [end])
    directory = RunDirectory.create(path, scenario="{}\n", world=world, started="then")
    directory.events_path.touch()
    info = RunInfo(name="x", world=world, engine="general", seed=seed, policy=policy)
    directory.finish(recorder.records(), summarise(recorder.records(), info, 1.0), ended="now")
    return load_run(path)


def pair(one: Run, two: Run) -> PairComparison:
    """Compare two runs with a fixed seed."""
    return compare([one, two]).pairs[0]


def metric(pair: PairComparison, name: str) -> MetricComparison:
    """Return one metric's comparison."""
    return next(m for m in pair.metrics if m.metric == name)


def test_a_run_agrees_with_itself(tmp_path: Path) -> None:
    """No difference may be found where there is none."""
    waits = [float(n % 7) for n in range(40)]
    one, two = leave(tmp_path / "a", waits), leave(tmp_path / "b", waits, world="live")
    found = pair(one, two)
    assert {m.verdict for m in found.metrics} <= {"same", None}
    assert found.jobs is not None
    assert (found.jobs.common, found.jobs.inverted_dispatch_pairs) == (40, 0.0)
    assert found.agreement.mean_response_relative == 0.0
    assert found.agreement.same_outcomes
    assert found.worlds == ("simulated", "live")


def test_shorter_waits_are_better(tmp_path: Path) -> None:
    """Every job waits 4 s less: the difference is certain, and its direction known."""
    one = leave(tmp_path / "a", [5.0] * 40)
    found = pair(one, leave(tmp_path / "b", [1.0] * 40))
    waiting = metric(found, "waiting_time mean")
    assert (waiting.base, waiting.other, waiting.difference) == (5.0, 1.0, -4.0)
    assert waiting.relative == pytest.approx(-0.8)
    assert waiting.verdict == "better"
    assert waiting.interval is not None
    assert waiting.interval.low == pytest.approx(-4.0)
    # without an interval nothing is called better
    longest = metric(found, "waiting_time max")
    assert (longest.interval, longest.verdict) == (None, "shorter")
    assert metric(found, "response_time mean").verdict == "better"
    assert found.jobs is not None
    assert found.jobs.median_response_difference_time == pytest.approx(-4.0)
    assert found.agreement.median_absolute_relative == pytest.approx(4 / 15)


def test_how_much_is_judged_is_told(tmp_path: Path) -> None:
    """Resampling takes most of the time: the share rises through all pairs, to 1."""
    runs = [leave(tmp_path / str(one), [10.0 * one] * 20) for one in range(3)]
    shares: list[float] = []
    compare(runs, on_share=shares.append)
    assert len(shares) > 10
    assert shares == sorted(set(shares))
    assert 0 < shares[0] < 0.5 < shares[-1] == 1


def test_a_difference_within_the_interval_is_noise(tmp_path: Path) -> None:
    """Differences that go both ways say nothing about which run is better."""
    rng = np.random.default_rng(7)
    waits = rng.exponential(20.0, (2, 200)).tolist()
    one, two = (leave(tmp_path / str(n), waits[n]) for n in (0, 1))
    assert metric(pair(one, two), "waiting_time mean").verdict == "noise"


def test_runs_without_common_jobs_are_reported(tmp_path: Path) -> None:
    """Different workloads are compared as samples, never job by job."""
    one = leave(tmp_path / "a", [1.0, 2.0] * 20)
    found = pair(one, leave(tmp_path / "b", [8.0, 9.0] * 20, prefix="k"))
    assert found.jobs is None
    assert "no job in common" in found.note
    waiting = metric(found, "waiting_time mean")
    assert waiting.verdict == "worse"
    assert waiting.interval is not None
    assert waiting.interval.method == "Welch"


def test_a_difference_over_other_jobs_is_not_judged_by_the_common_ones(tmp_path: Path) -> None:
    """The jobs of both wait alike; that more of one run's wait long is its difference all the same.

    A single job more or less leaves the exact comparison of the others.
    """
    waits = [1.0, 2.0] * 20
    one = leave(tmp_path / "a", waits)
    found = pair(one, leave(tmp_path / "b", [*waits, *[60.0, 61.0] * 20]))
    mean, upper = (metric(found, f"waiting_time {name}") for name in ("mean", "p95"))
    assert mean.difference == pytest.approx(29.5)
    assert mean.interval is not None
    assert mean.interval.low <= mean.difference <= mean.interval.high
    assert mean.verdict == "worse"
    assert upper.interval is None
    longer = leave(tmp_path / "c", waits * 5)
    nearly = pair(longer, leave(tmp_path / "d", [*[wait + 1.0 for wait in waits * 5], 2.5]))
    interval = metric(nearly, "waiting_time mean").interval
    assert interval is not None
    assert interval.method != "Welch"


def test_jobs_with_other_outcomes_are_counted(tmp_path: Path) -> None:
    """Agreement includes how jobs ended; a cancelled job has no response time to compare."""
    one = leave(tmp_path / "a", [1.0] * 20)
    found = pair(one, leave(tmp_path / "b", [1.0] * 22, cancelled=3))
    assert found.jobs is not None
    assert (found.jobs.ended_differently, found.jobs.only_other) == (3, 2)
    assert not found.agreement.same_outcomes
    assert metric(found, "jobs cancelled").verdict == "differs"
    assert metric(found, "response_time mean").verdict == "same"


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """The caller seeds the bootstrap."""
    one = leave(tmp_path / "a", [float(n % 5) for n in range(50)])
    two = leave(tmp_path / "b", [float(n % 3) for n in range(50)])
    told = [compare([one, two, one]).to_json() for _ in range(2)]
    assert told[0] == told[1]
    assert len(json.loads(told[0])["pairs"]) == 2


def test_empty_runs_can_be_compared_and_one_run_cannot(tmp_path: Path) -> None:
    """Nothing against nothing is no crash; one run is one clear message."""
    found = pair(one := leave(tmp_path / "a", []), leave(tmp_path / "b", []))
    assert metric(found, "waiting_time mean").verdict is None
    with pytest.raises(InputError, match="two or more"):
        compare([one])


def test_a_comparison_is_readable(tmp_path: Path) -> None:
    """Readers see both numbers, the verdict and the agreement."""
    one = leave(tmp_path / "a", [5.0] * 40)
    console = Console(width=160)
    with console.capture() as shown:
        runs = [one, leave(tmp_path / "b", [1.0] * 40)]
        console.print(render_comparison(compare(runs)))
    text = shown.get()
    assert "better" in text
    assert text.count("from, to:") == 1
    assert "stretch: response time ÷" in text
    assert "40 jobs in common" in text
    assert "agreement: mean response time -26.7 %" in text


def test_how_a_live_run_differs_from_its_simulation_is_said_as_a_direction(tmp_path: Path) -> None:
    """A signed difference of one run from another is read the wrong way round."""
    runs = leave(tmp_path / "a", [10.0] * 40), leave(tmp_path / "b", [11.0] * 40, world="live")
    longer, shorter = (compare(two).answer for two in (runs, runs[::-1]))
    assert longer == f"mean response time is 5.0 % longer in {runs[1].path} than in {runs[0].path}"
    assert "is 4.8 % shorter in" in shorter


@given(st.permutations(list(range(12))))
def test_inverted_pairs_are_counted_exactly(ranks: list[int]) -> None:
    """The bitwise count equals looking at every pair."""
    inverted = sum(x > y for x, y in itertools.combinations(ranks, 2))
    assert inverted_share(np.array(ranks)) == pytest.approx(inverted / 66)
    assert inverted_share(np.array(ranks[:1])) == inverted_share(np.array(ranks[:0])) == 0.0


def test_intervals_have_their_stated_coverage() -> None:
    """Neighbouring jobs are correlated; the interval must not treat them as independent."""
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(200):
        noise = rng.normal(size=600)
        together = np.convolve(noise, np.ones(10), mode="valid")
        interval = paired_interval(together, rng)
        assert interval is not None
        covered += interval.holds_zero
    assert covered >= 170


def test_few_values_are_not_judged() -> None:
    """Ten jobs are the least that an interval is given for."""
    few, many = np.ones(9), np.ones(10)
    assert paired_interval(few, np.random.default_rng(1)) is None
    assert welch_interval(few, many) is None
    certain = welch_interval(many, many * 3)
    assert certain is not None
    assert (certain.low, certain.high) == (2.0, 2.0)


def seeds_of(path: Path, policy: str, waits: list[float]) -> list[Run]:
    """Write a run for each seed, whose jobs all wait this long."""
    return [
        leave(path / f"{policy}{seed}", [wait] * 12, seed=seed, policy=policy)
        for seed, wait in enumerate(waits)
    ]


def test_the_seeds_of_a_setting_are_pooled(tmp_path: Path) -> None:
    """Two settings of four seeds are one pair, and every metric has an interval over the seeds."""
    fifo = seeds_of(tmp_path, "fifo", [10.0, 20.0, 30.0, 40.0])
    sjf = seeds_of(tmp_path, "sjf", [8.0, 17.0, 28.0, 37.0])
    [found] = compare([fifo[0], sjf[0], *fifo[1:], *sjf[1:]]).pairs
    waiting = metric(found, "waiting_time p95")
    assert (waiting.base, waiting.other, waiting.difference) == (25.0, 22.5, -2.5)
    assert waiting.interval is not None
    # differences -2 -3 -2 -3: t(3, 0.975) = 3.1824, standard error 0.57735 / 2
    assert waiting.interval.low == pytest.approx(-2.5 - 3.1824 * 0.288675, abs=1e-3)
    assert (waiting.interval.method, waiting.verdict) == ("paired t over 4 seeds", "better")
    assert found.jobs is not None
    assert found.jobs.common == 48


def test_only_what_is_relevant_is_better(tmp_path: Path) -> None:
    """A certain difference of a tenth is small if a fifth is the least that counts."""
    fifo = seeds_of(tmp_path, "fifo", [10.0, 20.0, 30.0])
    sjf = seeds_of(tmp_path, "sjf", [8.0, 18.0, 28.0])
    verdicts = [
        metric(compare([*fifo, *sjf], relevant=least).pairs[0], "waiting_time mean").verdict
        for least in (0.05, 0.2)
    ]
    assert verdicts == ["better", "small"]


def test_an_interval_does_not_depend_on_the_others(tmp_path: Path) -> None:
    """The same two runs have the same interval whatever stands beside them."""
    rng = np.random.default_rng(5)
    waits = rng.exponential(20.0, (3, 60)).tolist()
    one, two, three = (leave(tmp_path / str(n), waits[n]) for n in range(3))
    alone, beside = compare([one, three]).pairs[0], compare([one, two, three]).pairs[1]
    assert alone == beside


def test_different_jobs_with_the_same_ids_are_distinguished(tmp_path: Path) -> None:
    """Two workloads number their jobs alike: pairing them would be meaningless."""
    one = leave(tmp_path / "a", [1.0] * 20)
    found = pair(one, leave(tmp_path / "b", [1.0] * 20, service_time=30.0))
    assert found.jobs is None
    assert "20 jobs have the same id and are different jobs" in found.note
    waiting = metric(found, "waiting_time mean")
    assert waiting.interval is None or waiting.interval.method == "Welch"


@pytest.mark.parametrize(
    ("difference", "relative", "shown"),
    [
        (5.0, 0.25, ["+25.0 %", "+9.3 %", "+42.9 %"]),
        (-5.0, -0.25, ["-25.0 %", "+12.2 %", "+58.5 %"]),
        (5.0, 50.0, ["51 times", "+382.0 %", "540 times"]),
        (5.0, None, ["5s", "2s", "8s"]),
        (0.0, 0.0, ["0s", "2s", "8s"]),
    ],
)
def test_a_difference_and_its_interval_are_in_one_unit(difference, relative, shown):
    """Shares of the base, all three, or none of them."""
    interval = Interval(2.0, 8.0, "a test")
    assert difference_cells(difference, relative, interval, "s") == shown
    assert difference_cells(difference, relative, None, "s")[1:] == ["", ""]


def test_no_end_of_an_interval_is_below_the_whole():
    """Ratios are on a log scale: a wait falls by 100 % at most."""
    cells = difference_cells(-9.0, -0.9, Interval(-15.0, -3.0, "a test"), "s")
    assert cells == ["-90.0 %", "-97.8 %", "-53.6 %"]


def test_a_quantile_of_one_trace_has_an_interval_by_resampled_days(tmp_path: Path) -> None:
    """Of five days on, days are drawn, the same for both runs; of fewer, blocks of jobs."""
    waits = [float(n % 97) for n in range(7200)]  # one every minute: five days
    one = leave(tmp_path / "a", waits, every=60.0)
    two = leave(tmp_path / "b", [w / 2 for w in waits], every=60.0)
    for name in ("waiting_time p95", "waiting_time mean"):
        found = metric(pair(one, two), name)
        assert found.interval is not None
        assert (found.interval.method, found.verdict) == ("5 resampled days", "better")
        assert found.interval.low <= (found.difference or 0.0) <= found.interval.high
    few = leave(tmp_path / "c", waits[:400]), leave(tmp_path / "d", [w / 2 for w in waits[:400]])
    of_blocks = metric(pair(*few), "waiting_time p95").interval
    assert of_blocks is not None
    assert of_blocks.method == "resampled blocks of 20 successive jobs"


@pytest.mark.parametrize(
    "level", [None, *(pytest.param(level, marks=pytest.mark.slow) for level in (0.5, 0.95))]
)
def test_resampled_intervals_hold_the_truth_as_often_as_they_say(level):
    """Of independent days of a known difference, some 95 % hold it; of so few days, fewer."""

    def values(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        base = rng.exponential(10.0, count)
        return base, base + rng.normal(3.0, 1.0, count)

    base, other = values(999, 400_000)
    true = 3.0 if level is None else np.quantile(other, level) - np.quantile(base, level)
    day, held = np.repeat(np.arange(40), 50), 0
    for seed in range(100):
        found = resampled_interval(*values(seed, 2000), day, level, np.random.default_rng(seed))
        assert found is not None
        held += found.low <= true <= found.high
    assert 88 <= held <= 100


def test_equal_values_have_no_interval():
    """Ten times the same trace is no noise of 7.11e-15: the sum of ten costs is rounded."""
    [mean] = means_of(np.full((1, 10), 76.3))
    assert (mean.value, mean.error) == (76.3, 0.0)
