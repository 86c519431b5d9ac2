"""Farms whose truth is known, by the commands that a user types: log, bundle, twin, scenario.

    python -m benchmarks.known_farms --seed 7001 [--only "0;24"] [--folder DIR]

Each is drawn (a fixed pool twice, runners of one job, four autoscalers in turn; three loads, four
orders, failures and losses), simulated, exported as a system would have recorded it, imported, and
made a twin and a first scenario of. Prints a Markdown table of what was missed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import own_farm

#: a twin that is not believable is no error
farm = partial(own_farm.farm, allowed=(0, 1))
KINDS = ("fixed", "fixed", "ephemeral", "taskcluster", "keda", "buildkite", "target-wait")
ORDERS = ("fifo", "priority", "sjf", "share")
FORMATS = ("github", "gitlab", "buildkite", "slurm", "taskcluster", "jenkins")
LOADS = (0.65, 0.85, 1.05)
NEAR = 0.15
LOG = (
    "seed {seed}: farm, order, log | load | mean wait, s | mean | p95 | per job | believed | flags"
    " | missed | init ÷ recorded"
)


def drawn(seed: int, number: int) -> tuple[dict[str, Any], str, str, float]:
    """Return a scenario, its order, the format of its log, and its load."""
    draw = random.Random(f"truth {seed} {number}")
    kind, order, source = KINDS[number % len(KINDS)], draw.choice(ORDERS), draw.choice(FORMATS)
    load, own = LOADS[draw.randrange(3)], kind not in ("fixed", "ephemeral")
    slots = 1 if kind == "ephemeral" else draw.choice((1, 1, 1, 2, 2, 3))
    most, boot = draw.choice((4, 6, 8, 10, 12, 14)), draw.choice((45, 60, 75, 90, 120, 150, 180))
    pool: dict[str, Any] = {"name": "hidden", "platform": {"processor": "linux"}, "slots": slots}
    before = draw.choice((0, 0, 1, 2, 3, 5))
    after = draw.choice((0, 0, 3, 5, 10, 20)) if kind != "ephemeral" else 0
    before = before if kind != "ephemeral" else 0
    pool |= {"pickup_time": before} if before else {}
    pool |= {"inter_job_time": after} if after else {}
    varies = draw.random() < 0.3
    if not own:
        pool["builders"] = most
        pool |= {"uses": 1, "boot_time": boot} if kind == "ephemeral" else {}
    else:
        pool["boot_time"] = boot
        if varies:
            pool["boot_delay"] = {"uniform": {"min": 0, "max": round(boot * 0.3)}}
        pool["provisioner"] = sizing = {
            "algorithm": kind, "min": draw.choice((0, 0, 0, 1, 2)), "max": most,
        }  # fmt: skip
        if kind == "keda":
            if draw.random() < 0.7:
                sizing |= {"length": "waiting+running", "list_length": slots}
            else:
                sizing["list_length"] = draw.choice((1, 2))
        elif kind == "target-wait":
            sizing["objective"] = draw.choice((120, 180, 240, 300, 420, 600))
        elif kind == "buildkite" and draw.random() < 0.5:
            sizing["disable_scale_in"] = True
        if kind in ("taskcluster", "target-wait") or "disable_scale_in" in sizing:
            pool["idle_timeout"] = draw.choice((180, 300, 480, 600, 900))
    median, sigma = draw.choice((150, 240, 360, 480)), draw.choice((0.4, 0.7, 0.9))
    boots = boot if kind == "ephemeral" else 0
    takes = median * math.exp(sigma**2 / 2) + before + after + boots
    count, fails = draw.randint(1100, 2200), draw.choice((0, 0.05, 0.1))
    losses = draw.choice((0, 0, 0.05, 0.1)) if kind != "ephemeral" else 0
    pool |= {"losses": {"rate": f"{losses}/h"}} if losses else {}
    jobs: dict[str, Any] = {
        "poisson": {"rate": f"{3600 * load * most * slots / takes:.3f}/h"},
        "daily_cycle": draw.choice(([0.5, 1.5] * 12, [0.6, 0.6, 1.4, 1.4] * 6)),
        "count": count,
        "service_time": {"lognormal": {"median": median, "sigma": sigma}},
        "kind": {"unit": 3, "build": 1, "lint": 2},
        "heavy": {"probability": 0.4},
        "platform": {"processor": "linux"},
        "attributes": {"user": {"ada": 3, "bob": 2, "eve": 1}},
        "invocation": ["user"],
    }
    jobs |= {"fails": {"probability": fails}} if fails else {}
    scheduling: dict[str, Any] = {"policy": "sjf" if order == "sjf" else "fifo", "retries": 3}
    if order == "share":
        scheduling = {
            "fair_share": ["user"], "weights": {"ada": draw.choice((1, 2, 3))}, "retries": 3,
        }  # fmt: skip
    jobs |= {"level": {0: 3, 1: 1}} if order == "priority" else {}
    scenario = {
        "name": f"known-{seed}-{number}", "seed": draw.randrange(10**6), "pools": [pool],
        "workload": [{"arrivals": jobs}], "scheduling": scheduling,
    }  # fmt: skip
    return scenario, order, source, load


def row(seed: int, number: int, folder: Path) -> Iterator[str]:
    """Yield the cells of a farm."""
    scenario, order, source, load = drawn(seed, number)
    here = folder / f"{seed}-{number}"
    here.mkdir(parents=True)
    (here / "truth.yaml").write_text(json.dumps(scenario))
    farm("simulate", here / "truth.yaml", "--out", here / "run", "-q")
    farm("admin", "export", here / "run", "--format", source, "-o", here / "log", "-q")
    farm("import", source, here / "log", "-o", here / "records", "-q")
    found = json.loads(farm("twin", here / "records", "-o", here / "twin.yaml", "--json"))
    farm("init", here / "records", "-o", here / "init.yaml", "-q")
    first = json.loads(farm("simulate", here / "init.yaml", "--json", "-q"))["waiting_time_s"]
    [pool] = found["pools"]
    check, kind = pool["check"], KINDS[number % len(KINDS)]
    yield f"{number} {kind}, {order}, {source}"
    yield f"{load}"
    yield f"{check['recorded_mean']:.0f}"
    yield f"{check['mean_error']['value']:+.1%}"
    yield f"{check['p95_error']['value']:+.1%}"
    yield f"{check['error_per_job']['value'] / max(1e-9, check['recorded_mean']):.1%}"
    yield "**no**" if not pool["believable"] else "yes" if pool["job_by_job"] else "on average"
    yield ", ".join(flag["kind"] for flag in pool["flags"]) or "-"
    yield "; ".join(misses(scenario, pool)) or "-"
    yield f"{first['mean'] / max(1e-9, pool['triangle']['recorded']['mean']):.2f}"


def misses(scenario: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """Yield which numbers of the farm are not those told."""
    [pool] = scenario["pools"]
    truth = {**pool, **pool.get("provisioner", {})}
    told = {**found["document"], **found["document"].get("provisioner", {})}
    for key in ("slots", "builders", "max", "min", "uses"):
        if truth.get(key, 0) != told.get(key, 0):
            yield f"{key} {told.get(key)} for {truth.get(key)}"
    between = truth.get("pickup_time", 0) + truth.get("inter_job_time", 0)
    if "uses" not in truth and abs(found["shape"]["turnaround"] - between) > max(1, 0.1 * between):
        yield f"turnaround {found['shape']['turnaround']:.1f} for {between}"
    if found["algorithm"] != truth.get("algorithm", "fixed"):
        yield f"**{found['algorithm']}**"
    boot = truth.get("boot_time", 0)
    boot += truth["boot_delay"]["uniform"]["max"] / 2 if "boot_delay" in truth else 0
    truth["boot_time"] = boot
    for key in ("boot_time", "idle_timeout", "objective"):
        wanted = truth.get(key)
        if wanted and abs((told.get(key) or 0) / wanted - 1) > NEAR:
            yield f"{key} {told.get(key)} for {wanted:g}"
    order = scenario["scheduling"]
    for key in ("policy", "fair_share"):
        default = "fifo" if key == "policy" else None
        if order.get(key, default) != found["scheduling"].get(key, default):
            yield f"{key} {found['scheduling'].get(key)}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=7001)
    parser.add_argument("--only", default=";".join(map(str, range(28))))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="known-farms-"))
    print(f"| {LOG.format(seed=options.seed)} |\n|{'---|' * 10}")
    for number in map(int, options.only.split(";")):
        print(f"| {' | '.join(row(options.seed, number, folder))} |", flush=True)
    print(f"\nLoad of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
