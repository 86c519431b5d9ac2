"""The tables of docs/thesis.md: the thesis's model by policy and slots, medians over job sets.

Run ``python benchmarks/thesis_tables.py [--runs N] [--slots 1,2,4,…]``. Four matrices of 25 jobs,
Pareto(1.161), two builders, the 20 longest of 100 heavy; drawn from NumPy's legacy generator with
seed 1161, so that the numbers are the same everywhere.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from statistics import fmean, median

from farm.app.studies.thesis_model import METRICS, POLICY_OF, Plan, job_sets, play
from farm.core.contention.laws import THESIS_TABLE, ContentionLaw
from farm.core.model import Job

NAMES = tuple(POLICY_OF)


def print_tables(sets: Sequence[Sequence[Job]], slots: Sequence[int], slowdown: bool) -> None:
    law = ContentionLaw(THESIS_TABLE) if slowdown else None
    found = {
        (name, count): list(
            zip(*(play(jobs, name, Plan(2, count, law)) for jobs in sets), strict=True)
        )
        for count in slots
        for name in NAMES
    }
    for place, metric in enumerate(METRICS):
        print(f"\n### {metric}, {'with' if slowdown else 'without'} slowdown")
        print("| slots | " + " | ".join(NAMES) + " |")
        print("|---:|" + "---:|" * len(NAMES))
        for count in slots:
            random = found["Random", count][place]
            cells = []
            for name in NAMES:
                values = found[name, count][place]
                pairs = zip(values, random, strict=True)
                ratio = math.exp(fmean(math.log(one / other) for one, other in pairs))
                cells.append(f"{median(values):.1f} ({ratio:.2f})")
            print(f"| {count} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="job sets, at most 1000")
    parser.add_argument("--slots", default="1,2,4,6,8,12,16", help="slots of a builder")
    said = parser.parse_args()
    sets = job_sets(said.runs)
    slots = [int(count) for count in said.slots.split(",")]
    for slowdown in (False, True):
        print_tables(sets, slots, slowdown)


if __name__ == "__main__":
    main()
