"""The examples about scheduling: the results that examples/README.md describes.

In both worlds where a live builder measures or is told what decides: its speed, its load, the bus.
Numbers of live runs are compared loosely: on a busy machine everything takes longer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import msgspec
import pytest

from farm.assembly import run_info
from farm.core.commands import Command, EndJob, StartJob
from farm.core.events import Event
from farm.core.model import Cause
from farm.results.summary.summary import Summary, summarise
from farm.results.table.recorder import Recorder
from farm.scenario import load_scenario
from tests.worlds import both

EXAMPLES = Path(__file__).parents[2] / "examples"
LIVE = (pytest.mark.live, pytest.mark.timed)
BOTH = pytest.mark.parametrize("world", ["simulated", pytest.param("live", marks=LIVE)])


class Seen(msgspec.Struct):
    """The results of a run."""

    summary: Summary
    ends: list[EndJob]
    #: in the order of dispatch
    starts: list[StartJob]
    #: the maximum number of heavy jobs on each builder at once
    most_heavy: dict[str, int]


def play(name: str, *sets: str, world: str = "simulated") -> Seen:
    """Run an example in one of the worlds, at its own speed."""
    scenario = load_scenario(EXAMPLES / f"{name}.yaml", sets)
    recorder = Recorder()
    starts: list[StartJob] = []
    heavy: dict[str, set[str]] = defaultdict(set)
    most: dict[str, int] = defaultdict(int)

    def observe(event: Event, commands: Sequence[Command]) -> None:
        recorder(event, commands)
        for command in commands:
            if isinstance(command, EndJob) and command.job.heavy and command.builder:
                heavy[command.builder].discard(command.job.id)
        for command in commands:
            if isinstance(command, StartJob):
                starts.append(command)
                if command.job.heavy:
                    heavy[command.builder].add(command.job.id)
                    most[command.builder] = max(most[command.builder], len(heavy[command.builder]))

    both.play(world, scenario, observe)
    records = recorder.records()
    info = run_info(scenario, world, "test")
    summary = summarise(records, info, 0.0)
    assert summary.jobs.lost == 0
    return Seen(summary, recorder.ends, starts, dict(most))


def waits(seen: Seen, wanted: str) -> float:
    """Return the mean waiting time of the jobs with this id prefix."""
    return fmean(
        end.started_at - (end.job.arrived_at or 0.0)
        for end in seen.ends
        if end.started_at is not None and end.job.id.startswith(wanted)
    )


def test_thesis_single_matrix() -> None:
    """Longest first, and the makespan that the model predicts."""
    seen = play("thesis-single-matrix")
    times = [start.job.service_time for start in seen.starts]
    assert times == sorted(times, reverse=True)
    assert 83 < seen.summary.makespan < 85
    assert seen.summary.jobs.succeeded == 100


def test_thesis_single_matrix_shortest_first() -> None:
    """Shortest first has the better response time and the worse makespan."""
    ljf = play("thesis-single-matrix").summary
    sjf = play("thesis-single-matrix", "scheduling.policy=sjf").summary
    assert sjf.makespan > 1.15 * ljf.makespan
    assert sjf.response_time.mean < 0.27 * ljf.response_time.mean


def test_thesis_consecutive_matrices() -> None:
    """With ageing early commits do not wait for the long jobs of later ones."""
    seen = play("thesis-consecutive-matrices")
    commits = [str(start.job.matrix) for start in seen.starts]
    assert commits == sorted(commits)
    assert seen.summary.matrix_response_time.count == 5
    plain = play("thesis-consecutive-matrices", "scheduling.policy=ljf").summary
    assert plain.matrix_response_time.mean > 180
    assert seen.summary.matrix_response_time.mean < 120
    assert plain.makespan == pytest.approx(seen.summary.makespan, rel=0.05)


def test_fair_share_two_teams() -> None:
    """The calm team hardly waits; in one queue it would, and the work ends at the same time."""
    fair = play("fair-share-two-teams")
    assert waits(fair, "calm") < 3
    assert waits(fair, "loud") > 90
    queue = play("fair-share-two-teams", "scheduling.fair_share=[]")
    assert waits(queue, "calm") > 90
    assert queue.summary.makespan == pytest.approx(fair.summary.makespan, rel=0.03)


def switches(seen: Seen) -> int:
    """Count how often a builder ran a job of another image than before."""
    images: dict[str, list[str]] = defaultdict(list)
    for start in seen.starts:
        images[start.builder].append(start.job.attributes["image"])
    return sum(a != b for row in images.values() for a, b in pairwise(row))


def test_sticky_images() -> None:
    """A builder stays with its image up to the limit if that delays no other turn."""
    sticky = play("sticky-images")
    assert switches(sticky) < 12
    assert sticky.summary.makespan < 120
    plain = play("sticky-images", "scheduling.stickiness=[]")
    assert switches(plain) > 60
    assert plain.summary.makespan > 200


@BOTH
def test_heterogeneous(world: str) -> None:
    """Most jobs run on the fast builders, and the slowest ones are twice as fast as otherwise."""
    seen = play("heterogeneous", world=world)
    slow = sum(start.builder.startswith("slow") for start in seen.starts)
    assert slow < len(seen.starts) / (5 if world == "simulated" else 2)
    plain = play("heterogeneous", "scheduling.balancer=jenkins")
    assert sum(start.builder.startswith("slow") for start in plain.starts) > len(plain.starts) / 4
    if world == "simulated":
        assert plain.summary.response_time.p95 > 1.9 * seen.summary.response_time.p95


@BOTH
def test_memory_bus(world: str) -> None:
    """The bus is a separate resource."""
    seen = play("memory-bus", world=world).summary
    assert seen.response_time.mean > 10
    free = play("memory-bus", "pools.linux.contention.memory=[1]").summary
    assert free.response_time.mean < 5.5


def test_fail_fast() -> None:
    """The first failure of a commit ends it, at once; the summary says what that saved."""
    seen = play("fail-fast")
    failed_at: dict[str | None, float] = {}
    for end in seen.ends:
        if end.outcome == "failed":
            failed_at.setdefault(end.job.matrix, end.finished_at)
    cancelled = [end for end in seen.ends if end.outcome == "cancelled"]
    assert cancelled
    for end in cancelled:
        assert end.cause is Cause.FAIL_FAST
        assert end.finished_at == failed_at[end.job.matrix]
    summary = seen.summary
    assert summary.first_failure_time.count == len(failed_at) >= 5
    assert summary.first_failure_time.mean < 7
    assert summary.saved_time > 600


@BOTH
def test_heavy_light(world: str) -> None:
    """Builders report; two heavy jobs are the limit; light jobs are dispatched."""
    seen = play("heavy-light", world=world)
    assert max(seen.most_heavy.values()) == 2
    assert waits(seen, "light") < (1 if world == "simulated" else 30)
    assert seen.summary.jobs.succeeded == 144
    plain = play("heavy-light", "scheduling.balancer=jenkins")
    assert waits(plain, "light") > 60
