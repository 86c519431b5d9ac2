"""The thesis's golden runs through Progress alone, by a list scheduler of a dozen lines.

The case files have the form of ``tests/conformance/cases/thesis.json``; FARM_CASES names a folder
with more of them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from farm.core.contention.laws import THESIS_TABLE
from farm.core.contention.progress import ContentionLaw, Progress

FOLDERS = [Path(__file__).parents[2] / "conformance" / "cases"]
if "FARM_CASES" in os.environ:
    FOLDERS.append(Path(os.environ["FARM_CASES"]))
FILES = [path for folder in FOLDERS for path in sorted(folder.glob("*thesis*.json"))]
LAWS = {"event_none": ContentionLaw(), "event_thesis": ContentionLaw(THESIS_TABLE)}


def ordered(run: dict[str, Any], policy: str) -> list[int]:
    """Return the run's job numbers in a policy's order; the sorts are stable."""
    jobs, matrix = run["jobs"], run["matrix"]
    numbers = range(len(jobs))
    return {
        "LJF": lambda: sorted(numbers, key=lambda i: -jobs[i]),
        "SJF": lambda: sorted(numbers, key=lambda i: jobs[i]),
        "RANDOM": lambda: list(run["random_permutation"]),
        "FIFO": lambda: list(numbers),
        "LJF_AGING": lambda: sorted(numbers, key=lambda i: (matrix[i], -jobs[i])),
        "SJF_AGING": lambda: sorted(numbers, key=lambda i: (matrix[i], jobs[i])),
    }[policy]()


def schedule(
    run: dict[str, Any], order: list[int], slots: int, law: ContentionLaw
) -> dict[int, float]:
    """Run the jobs on two nodes; return when each ended.

    A job goes to the node with the highest slots ÷ (0.5 + busy), the lowest index on a tie, into
    its first free slot.
    """
    nodes: list[Progress[int]] = [Progress(law), Progress(law)]
    free = [list(range(slots)) for _ in nodes]
    slot_of: dict[int, int] = {}
    queue, ended, now = list(reversed(order)), {}, 0.0
    while True:
        while queue and any(free):
            node = max(
                range(2), key=lambda n: (slots / (0.5 + len(nodes[n])), -n) if free[n] else (0, 0)
            )
            job = queue.pop()
            slot_of[job] = free[node].pop(0)
            heavy = bool(run["heavy"][job])
            nodes[node].start(now, job, run["jobs"][job], heavy=heavy, slot=slot_of[job])
        coming = [(*finish, n) for n in range(2) if (finish := nodes[n].next_finish())]
        if not coming:
            return ended
        now, job, node = min(coming, key=lambda finish: (finish[0], finish[2]))
        nodes[node].stop(now, job)
        ended[job] = now
        free[node] = sorted([*free[node], slot_of[job]])


def cases() -> list[Any]:
    """Name every golden run, engine and policy of the case files."""
    return [
        pytest.param(run, engine, policy, id=f"{path.stem}-{run['run']}-{engine}-{policy}")
        for path in FILES
        for run in json.loads(path.read_text()).get("golden_runs", ())
        for engine in LAWS
        for policy in run["results"].get(engine, {})
    ]


@pytest.mark.skipif(
    not FILES, reason="no thesis case files in tests/conformance/cases or FARM_CASES"
)
@pytest.mark.parametrize(("run", "engine", "policy"), cases())
def test_golden_run(run: dict[str, Any], engine: str, policy: str) -> None:
    """Protects the exact law: makespan and both mean response times, by slots."""
    for slots, expected in run["results"][engine][policy].items():
        ended = schedule(run, ordered(run, policy), int(slots), LAWS[engine])
        last: dict[int, float] = {}
        for job, at in ended.items():
            last[run["matrix"][job]] = max(at, last.get(run["matrix"][job], 0.0))
        found = [max(ended.values()), fmean(ended.values()), fmean(last.values())]
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), f"{slots} slots"
