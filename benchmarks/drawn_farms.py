"""Farms drawn at random from what users have, and how much of each a twin finds.

A farm has one to three pools, each with jobs of its own: of a fixed number of builders, of one job
each, or sized by an algorithm with options drawn. The aims are those of a useful twin; where the
records cannot carry a number (few runners ended for want of work, a pool that never was full),
nothing is said of it.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import farm
from farm.units import parse_time
from farm_twin.importing import load_records
from farm_twin.sources import export_attempts
from farm_twin.twins.twin import PoolTwin, Twin, twin_of

FORMATS = ("github", "gitlab", "buildkite", "taskcluster", "jenkins", "slurm")
COLUMNS = {
    "id": "job_id", "submitted": "submitted_at_s", "started": "started_at_s",
    "finished": "finished_at_s", "runner": "builder", "platform": "platform",
    "kind": "kind", "result": "outcome", "user": "invocation",
}  # fmt: skip
PLATFORMS = ("linux", "arm", "mac")
KINDS = (
    "fixed",
    "fixed",
    "fixed",
    "one job",
    "taskcluster",
    "target-wait",
    "keda",
    "gitlab",
    "arc",
    "buildkite",
    "jenkins",
    "buildbarn",
    "predictive",
)
ORDERS = ("fifo",) * 6 + ("sjf", "ljf", "fair share", "fair share")
AIMS = {"mean": 0.05, "p95": 0.10, "per job": 0.03}
IDLE = 5.0
NEAR = 0.15
ELASTIC = (
    "taskcluster", "target-wait", "keda", "gitlab", "arc", "buildkite", "jenkins", "buildbarn",
    "predictive",
)  # fmt: skip
LEAVING = ("taskcluster", "target-wait", "jenkins")
RARE: dict[str, list[dict[str, Any]]] = {
    "taskcluster": [{"scaling_ratio": 0.5}, {"scaling_ratio": 0.8}, {"interval": 30}],
    "target-wait": [{"hold": 120}, {"interval": 30}],
    "keda": [{"stabilization_window": 60}, {"cooldown": 900}, {"scale_up_builders": 1}],
    "jenkins": [{"margin": 0.3}, {"initial_delay": 10}, {"interval": 30}],
    "predictive": [{"headroom": 1.25}],
}
"""Options that users rarely change; some of the farms have one."""


class Drawn(NamedTuple):
    """A farm's scenario, and the format of its log."""

    scenario: dict[str, Any]
    format: str


def drawn(seed: int, number: int) -> Drawn:
    """Draw a farm."""
    draw = random.Random(f"{seed} {number}")
    order = draw.choice(ORDERS)
    pools, workload = [], []
    for platform in PLATFORMS[: draw.choices((1, 2, 3), (6, 3, 1))[0]]:
        pool, jobs = _pool(draw, platform)
        pools.append(pool)
        workload.append({"arrivals": jobs})
    scheduling: dict[str, Any] = {"policy": order}
    if order == "fair share":
        weights = {"ada": draw.choice((1, 2, 3)), "bob": 1}
        scheduling = {"fair_share": ["user"], "weights": weights}
    scenario = {
        "name": f"drawn-{seed}-{number}",
        "seed": draw.randrange(10**6),
        "pools": pools,
        "workload": workload,
        "scheduling": scheduling,
    }
    return Drawn(scenario, draw.choice(FORMATS))


def _pool(draw: random.Random, platform: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a pool, and its jobs."""
    kind = draw.choice(KINDS)
    pool: dict[str, Any] = {"name": f"hidden-{platform}", "platform": {"processor": platform}}
    most = round(math.exp(draw.uniform(math.log(2 if kind in ELASTIC else 1), math.log(40))))
    most = max(2, most) if kind in ELASTIC else most
    slots, between = 1, 0.0
    boot = round(math.exp(draw.uniform(math.log(20), math.log(300))))
    slowed = 1.0
    if kind not in ("one job", "arc"):
        slots = draw.choice((1, 2, 3, 4) if kind == "fixed" else (1, 1, 2))
        if draw.random() < 0.5:
            pool["pickup_time"] = draw.randint(1, 8)
        if draw.random() < 0.5:
            pool["inter_job_time"] = draw.randint(2, 30)
        between = pool.get("pickup_time", 0) + pool.get("inter_job_time", 0)
    pool["slots"] = slots
    if kind == "fixed" and slots > 1 and draw.random() < 0.4:
        pool["contention"] = {"slowdown": [1, 1, *(1 + 0.2 * n for n in range(1, slots))]}
        slowed = 1 + 0.1 * (slots - 1)
    if kind == "fixed":
        pool["builders"] = most
    elif kind == "one job":
        pool |= {"builders": most, "uses": 1, "boot_time": boot}
        between = boot
    else:
        pool["boot_time"] = boot
        pool["provisioner"] = sizing = {"algorithm": kind, "max": most}
        if draw.random() < 0.4:
            sizing["min"] = min(most, draw.randint(1, 3))
        sizing |= _options(draw, kind, slots)
        if kind in LEAVING or sizing.get("disable_scale_in"):
            pool["idle_timeout"] = draw.randint(120, 1200)
        if kind == "arc":
            pool["uses"] = 1
            between = boot
    count = round(math.exp(draw.uniform(math.log(1000), math.log(4000))))
    median, sigma = draw.uniform(60, 600), draw.uniform(0.3, 1.0)
    takes = median * math.exp(sigma**2 / 2) * slowed + between
    rate = draw.uniform(0.5, 1.2) * most * slots / takes
    low = draw.uniform(0.2, 1.0)
    jobs = {
        "poisson": {"rate": f"{3600 * rate:.3f}/h"},
        "daily_cycle": draw.choice(([low, 2 - low] * 12, [low] * 8 + [2 - low] * 8 + [low] * 8)),
        "count": count,
        "service_time": {"lognormal": {"median": round(median, 1), "sigma": round(sigma, 2)}},
        "kind": {"unit": 3, "build": 1, "lint": 2},
        "heavy": {"probability": 0.4},
        "platform": {"processor": platform},
        "attributes": {"user": {"ada": 3, "bob": 1}},
        "invocation": ["user"],
    }
    return pool, jobs


def _options(draw: random.Random, kind: str, slots: int) -> dict[str, Any]:
    """Draw what an algorithm has of its own."""
    rare = draw.choice(RARE[kind]) if kind in RARE and draw.random() < 0.4 else {}
    if kind == "target-wait":
        return {"objective": draw.randint(60, 900), **rare}
    if kind == "keda":
        counted = draw.choice(({"length": "waiting+running"}, {"trigger": "github-runner"}))
        return {**counted, "list_length": slots, **rare}
    if kind == "gitlab":
        idle = draw.choice((0, 0, 2, 4))
        return {
            "idle_count": idle,
            "idle_time": draw.choice((60, 300, 900)),
            **({"preemptive_mode": draw.choice((True, False))} if idle else {}),
            **({"max_booting": draw.choice((2, 5))} if draw.random() < 0.3 else {}),
        }
    if kind == "buildkite":
        return draw.choice(({}, {"disable_scale_in": True}, {"instance_buffer": 2}))
    if kind == "buildbarn":
        return {"window": draw.choice((1800, 3600, 7200, 14400))}
    return rare


class Miss(NamedTuple):
    """What was to be found, and what was."""

    key: str
    truth: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.key} {_short(self.found)} for {_short(self.truth)}"


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def blind(one: Drawn, folder: Path, play: Callable[..., object] = farm.simulate) -> Twin:
    """Run a farm, export its log in a source's format, and return the twin of that alone."""
    out = folder / one.scenario["name"]
    play(one.scenario, out=out)
    attempts = load_records([out / "jobs.csv"], "csv", COLUMNS).attempts
    log = out.with_suffix(".json")
    export_attempts(one.format, attempts, log)
    return twin_of(load_records([log]), "records")


def twins(one: Drawn, folder: Path) -> Iterator[tuple[dict[str, Any], PoolTwin | None]]:
    """Yield each pool of a farm, which is written beside its log, with its twin."""
    made = blind(one, folder)
    name = one.scenario["name"]
    (folder / f"{name}.scenario.json").write_text(json.dumps(one.scenario, indent=1))
    for pool in one.scenario["pools"]:
        wanted = pool["platform"]["processor"]
        yield pool, next((p for p in made.pools if any(wanted in n for n in p.platforms)), None)


def misses(one: Drawn, pool: dict[str, Any], found: PoolTwin) -> Iterator[Miss]:
    """Yield which aims were missed: of the waits, and of the farm."""
    yield from _wait_misses(found, pool)
    sizing, document = pool.get("provisioner", {}), found.document
    own = document.get("provisioner", {})
    most = pool.get("builders", sizing.get("max"))
    saturated = found.shape.saturated >= 0.02 and found.check is not None and found.check.loaded
    if found.shape.slots != pool["slots"] and saturated:
        yield Miss("slots", pool["slots"], found.shape.slots)
    if saturated and document.get("builders", own.get("max", own.get("capacity"))) != most:
        yield Miss("runners", most, document.get("builders", own.get("max")))
    between = float(pool.get("pickup_time", 0) + pool.get("inter_job_time", 0))
    off = abs(found.shape.turnaround - between) > max(1.0, 0.1 * between)
    if off and found.shape.turnarounds and not found.shape.ephemeral:
        yield Miss("turnaround", between, found.shape.turnaround)
    algorithm = sizing.get("algorithm", "fixed")
    if found.algorithm != algorithm:
        yield Miss("algorithm", algorithm, found.algorithm)
    else:
        yield from _option_misses(pool, document)
    wanted, order = map(_order, (one.scenario["scheduling"], found.scheduling))
    if saturated and wanted != order:
        yield Miss("order", wanted, order)


def _order(scheduling: Mapping[str, Any]) -> str:
    """Return the order of jobs in a few words."""
    teams = scheduling.get("fair_share")
    if not teams:
        return str(scheduling.get("policy", "fifo"))
    weights = scheduling.get("weights", {})
    return f"share {weights.get('ada', 1) / weights.get('bob', 1):g}:1 by {teams[0]}"


def _wait_misses(found: PoolTwin, pool: dict[str, Any]) -> Iterator[Miss]:
    check = found.check
    if check is None:
        yield Miss("check", "one", None)
        return
    if not check.loaded:
        if abs(check.simulated_mean - check.recorded_mean) > max(
            IDLE, AIMS["mean"] * check.recorded_mean
        ):
            yield Miss("idle mean", check.recorded_mean, check.simulated_mean)
        return
    is_keda = pool.get("provisioner", {}).get("algorithm") == "keda"
    errors = {
        "mean": check.mean_error.value,
        "p95": check.p95_error.value,
        "per job": check.error_per_job.value / check.recorded_mean,
    }
    for key, error in errors.items():
        most = 0.10 if is_keda else AIMS[key]
        if abs(error) > most:
            yield Miss(key, f"≤ {most:.0%}", f"{error:+.1%}")


def _option_misses(pool: dict[str, Any], document: dict[str, Any]) -> Iterator[Miss]:
    truth = {**pool, **pool.get("provisioner", {})}
    found = {**document, **document.get("provisioner", {})}
    for key in ("boot_time", "idle_timeout", "objective"):
        if key in truth and key in found:
            wanted = float(truth[key])
            value = float(parse_time(found[key]))
            if abs(value / wanted - 1) > NEAR:
                yield Miss(key, wanted, value)
        elif key in truth:
            yield Miss(key, truth[key], None)
    for key in ("min", "idle_count", "idle_time"):
        wanted, value = truth.get(key, 0), found.get(key, 0)
        if wanted != value:
            yield Miss(key, wanted, value)
