"""Blind twins: live farms run, their logs are exported without their configuration, twins are made.

    python -m benchmarks.twin [--runs 3] [--simulated] [--only "fixed;keda"] [--folder DIR]
    python -m benchmarks.twin --drawn 20 --seed 1 [--only "3;7"]

Prints a Markdown table: for each farm and load, recorded and simulated waits of the half of the log
that the twin was not made from, and what was found of the farm. Nothing else may run beside live
farms. With ``--drawn`` farms are drawn at random and simulated, and the table has which aims were
missed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import farm
from benchmarks.drawn_farms import Drawn, blind, drawn, misses, twins
from farm_twin.twins.twin import PoolTwin

SPEED = 300
FORMATS = ("gitlab", "buildkite", "github")
MOST_TEXT = 60

COMMON = {"boot_time": "75s", "idle_timeout": "8m"}
FARMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "fixed": ({"slots": 2, "builders": 6, "inter_job_time": "4s"}, {}),
    "fixed, sjf": ({"builders": 12}, {"policy": "sjf"}),
    "contention": (
        {"slots": 4, "builders": 4, "contention": {"slowdown": [1, 1, 1.2, 1.4, 1.6]}},
        {},
    ),
    "fair share": ({"builders": 12}, {"fair_share": ["user"]}),
    "ephemeral": ({"builders": 14, "uses": 1, "boot_time": "40s"}, {}),
}
SIZED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "taskcluster": ({}, COMMON),
    "keda": ({"length": "waiting+running", "list_length": 1}, {"boot_time": "75s"}),
    "target-wait": ({"objective": "4m"}, COMMON),
    "gitlab": (
        {"idle_count": 2, "preemptive_mode": False, "idle_time": "5m"},
        {"boot_time": "75s"},
    ),
    "buildkite": ({"disable_scale_in": True}, COMMON),
    "jenkins": ({}, COMMON),
    "buildbarn": ({"window": "1h"}, {"boot_time": "75s"}),
    "predictive": ({}, {"boot_time": "75s"}),
    "arc": ({"min": 1}, {"boot_time": "40s", "uses": 1}),
}
FARMS |= {
    name: ({"provisioner": {"algorithm": name, "max": 13, **options}, **pool}, {})
    for name, (options, pool) in SIZED.items()
}
LONG = {"predictive": 4}
"""Times as long as the other farms' logs: its second day is not like its first."""


def scenario(name: str, load: int, hours: int) -> dict[str, Any]:
    """Return a farm under one of three loads: every other hour a rush."""
    pool, scheduling = FARMS[name]
    return {
        "name": f"{name.replace(', ', '-').replace(' ', '-')}-{load}",
        "seed": 10 + load,
        "pools": [{"name": "hidden", "platform": {"processor": "linux"}, **pool}],
        "workload": [
            {
                "arrivals": {
                    "poisson": {"rate": f"{110 + 10 * load}/h"},
                    "daily_cycle": [0.5, 1.5] * 12,
                    "duration": f"{hours}h",
                    "service_time": {"lognormal": {"median": "4m", "sigma": 0.7}},
                    "kind": {"unit": 3, "build": 1},
                    "heavy": {"probability": 0.4},
                    "attributes": {"user": {"ada": 3, "bob": 1}},
                    "invocation": ["user"],
                }
            }
        ],
        "scheduling": scheduling,
        "live": {"speed": SPEED},
    }


def row(one: PoolTwin) -> Iterator[str]:
    """Yield the cells of what was found."""
    found = one.check
    if found is not None:
        yield f"{found.jobs}"
        yield f"{found.recorded_mean:.0f} → {found.simulated_mean:.0f} s"
        yield f"{found.mean_error.value:+.1%}"
        yield f"{found.p95_error.value:+.1%}"
        yield f"{found.error_per_job.value / max(1e-9, found.recorded_mean):.1%}"
    document = dict(one.document)
    for key in ("name", "platform"):
        document.pop(key, None)
    document.update(document.pop("provisioner", {}))
    order = dict(one.scheduling)
    yield ", ".join(f"{key} {_cell(value)}" for key, value in {**document, **order}.items())
    yield ", ".join(flag.kind for flag in one.flags) or "-"


def _cell(value: object) -> str:
    text = str(value)
    return text if len(text) < MOST_TEXT else f"{text[:MOST_TEXT]} …"


def blind_rows(options: argparse.Namespace, folder: Path) -> Iterator[list[str]]:
    """Yield the rows of the farms above."""
    yield [
        "farm", "log", "jobs", "mean wait", "mean", "p95", "per job", "found", "flags",
        "played, CPU s",
    ]  # fmt: skip
    for name in (options.only or ";".join(FARMS)).split(";"):
        for load in range(options.runs):
            began = time.process_time()
            document = scenario(name, load, options.hours * LONG.get(name, 1))
            log = Drawn(document, FORMATS[load % len(FORMATS)])
            [one] = blind(log, folder, farm.simulate if options.simulated else farm.run).pools
            took = f"{one.played}, {time.process_time() - began:.0f}"
            yield [f"{name}, load {load}", log.format, *row(one), took]


def drawn_rows(options: argparse.Namespace, folder: Path) -> Iterator[list[str]]:
    """Yield the rows of farms that are drawn."""
    yield [
        "farm", "log", "jobs", "mean wait", "mean", "p95", "per job", "found", "flags", "missed",
        "played, CPU s",
    ]  # fmt: skip
    only = options.only or ";".join(map(str, range(1, options.drawn + 1)))
    for number in map(int, only.split(";")):
        one = drawn(options.seed, number)
        began = time.process_time()
        for pool, found in twins(one, folder):
            truth = pool.get("provisioner", {}).get(
                "algorithm", "one job" if "uses" in pool else "fixed"
            )
            name = f"{number} {truth}"
            if found is None:
                yield [name, one.format, "no pool"]
                continue
            took = time.process_time() - began
            missed = "; ".join(map(str, misses(one, pool, found))) or "-"
            believed = missed if found.believable else f"**not believable**; {missed}"
            yield [name, one.format, *row(found), believed, f"{found.played}, {took:.0f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hours", type=int, default=10)
    parser.add_argument("--simulated", action="store_true")
    parser.add_argument("--drawn", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="farm-twins-"))
    rows = (drawn_rows if options.drawn else blind_rows)(options, folder)
    for number, cells in enumerate(rows):
        made = list(cells)
        print(f"| {' | '.join(made)} |", flush=True)
        if not number:
            print("|" + "---|" * len(made))
    print(f"\nLoad of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
