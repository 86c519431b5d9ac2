"""Scenarios drawn at random from all that a file can say: both engines write the same run."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import farm
from farm.sim.engines import Engine

pytestmark = pytest.mark.usefixtures("kernel")

TIMES = [
    5, {"exponential": {"mean": 30}}, {"lognormal": {"median": 20, "sigma": 1}},
    {"uniform": {"min": 1, "max": 60}}, {"empirical": {"values": [1, 5, 5, 80]}},
    {"pareto": {"alpha": 1.3, "scale": 2}, "max": 500},
]  # fmt: skip
LAWS = [
    {"slowdown": [1, 1, 1.4, 1.8]}, {"linear": {"threshold": 1, "slope": 0.4}},
    {"threads": {"cores": 2, "heavy_threads": 2}},
    {"slowdown": [1, 1.3, 1.6], "memory": [1, 1.2], "combine": "max"},
]  # fmt: skip
SIZING: list[dict[str, Any]] = [
    {"algorithm": "taskcluster"}, {"algorithm": "taskcluster", "scaling_ratio": 0.5},
    {"algorithm": "keda"}, {"algorithm": "keda", "length": "waiting+running", "cooldown": 60},
    {"algorithm": "target-wait", "objective": 20, "hold": 120}, {"algorithm": "arc"},
    {"algorithm": "buildkite"}, {"algorithm": "gitlab", "idle_count": 1}, {"algorithm": "jenkins"},
    {"algorithm": "buildbarn"}, {"algorithm": "predictive"},
]  # fmt: skip
POOL = {
    "boot_time": [1, 20], "boot_delay": [{"exponential": {"mean": 5}}], "idle_timeout": [60, 300],
    "uses": [1, 5], "pickup_time": [2], "switch_times": [{"kind": 3, "user": 1}],
    "inter_job_time": [1, 10], "shutdown_time": [5],
    "speed": [0.7, 2], "failure_rate": [0.1], "losses": [{"at": [10, 60]}, {"rate": "5/h"}],
    "contention": LAWS, "price": [3], "billing_unit": [60],
}  # fmt: skip
SOURCE = {
    "start": [5, 30], "kind": [{"unit": 3, "build": 1}], "level": [[0, 0, 1, -1]],
    "score": [[0, 1.5, 3]], "priority": [[0, 100, -100]], "declared": [{"factor": 2}],
    "action": [{"reuse": 0.4}], "fails": [0.1, 0.4], "heavy": [{"probability": 0.4}],
    "memory_heavy": [{"probability": 0.3}], "threads": [[1, 2]],
    "attributes": [{"user": {"ada": 3, "bob": 1}, "team": ["x", "y"]}],
    "platform": [{"processor": "b"}, [{"processor": "a", "weight": 3}, {"processor": "b"}]],
}  # fmt: skip
NAMED = {
    "count": [2, 4], "needs_delay": [1, 30], "service_time": TIMES,
    "platform": [{"processor": "b"}],
}  # fmt: skip
#: rules that the compiled loop does not cover
UNCOVERED = ("fail_fast", "fair_share", "stickiness", "weights")
SCHEDULING = {
    "policy": ["fifo", "random", "ljf", "sjf", "ljf-aging", "sjf-aging", "score", "buildbarn"],
    "aging_factor": [0.5], "aging": ["matrix"], "sort_every": [5, 60],
    "balancer": ["longest-idle", "fastest", "heavy-light"], "fail_fast": [True],
    "runtime_estimates": ["oracle", "learned", "last-3", "launchpad", "boinc", "boinc-2010",
                          "boinc-dcf"],
    "fair_share": [["user"], ["team", "user"]], "retries": [0, 4], "max_builders_lost": [0, 1],
    "platform_grace": [10, 900], "failures": ["launchpad"], "dedup": [False],
}  # fmt: skip


def some(draw: Random, table: dict[str, list[Any]], share: float) -> dict[str, Any]:
    """Draw some of the keys, each with one of its values."""
    return {key: draw.choice(values) for key, values in table.items() if draw.random() < share}


def pool(draw: Random, number: int) -> dict[str, Any]:
    """Draw a pool; the first one runs all jobs."""
    made = {"name": f"p{number}", "slots": draw.randint(1, 4), **some(draw, POOL, 0.2)}
    made["platform"] = {"processors": ["a", "b"] if not number else [draw.choice("ab")]}
    if draw.random() < 0.6:
        return {**made, "builders": draw.randint(1, 4)}
    sizing = {**draw.choice(SIZING), "max": draw.randint(1, 6), **some(draw, {"min": [1]}, 0.3)}
    return {"boot_time": 5, **made, "provisioner": sizing}


def source(draw: Random) -> dict[str, Any]:
    """Draw a source of jobs."""
    made = {"service_time": draw.choice(TIMES), "platform": {"processor": "a"}}
    made |= some(draw, SOURCE, 0.3)
    made |= draw.choice([{"every": draw.choice([1, 20])}, {"poisson": {"rate": "20/m"}}])
    if draw.random() < 0.65:
        return {"arrivals": {**made, "count": draw.randint(3, 40)}}
    sizes = {"size": draw.choice([2, [1, 3, 8]]), **some(draw, {"jobs_apart": [1]}, 0.2)}
    return {"matrices": {**made, **sizes, "count": draw.randint(2, 10)}}


def pipelines(draw: Random) -> dict[str, Any]:
    """Draw a source of jobs that need each other."""
    named: list[dict[str, Any]] = []
    for number in range(draw.randint(2, 6)):
        job: dict[str, Any] = {"name": f"job{number}", **some(draw, NAMED, 0.3)}
        before = [one["name"] for one in named]
        names = draw.sample(before, draw.randint(0, min(2, len(before))))
        job["needs"] = [name + draw.choice(["", "", ":ended", ":failed"]) for name in names]
        named.append(job)
    made = {"service_time": draw.choice(TIMES), "platform": {"processor": "a"}, "jobs": named}
    made |= {"every": draw.choice([1, 20]), "count": draw.randint(2, 10)}
    return {"matrices": made | some(draw, {"fails": [0.1, 0.4]}, 0.6)}


def table(draw: Random, path: Path) -> dict[str, Any]:
    """Draw a trace whose jobs need earlier ones, and write it."""
    rows = ["job_id,submitted_at_s,service_time_s,fails,needs,needs_delay_s"]
    at = 0
    for number in range(draw.randint(5, 40)):
        at += draw.choice([0, 0, 3, 30])
        before = range(max(0, number - 6), number)
        some_before = draw.sample(before, min(len(before), draw.choice([0, 1, 2])))
        needs = [f"j{one}{draw.choice(['', ':ended', ':failed'])}" for one in some_before]
        fails, delay = draw.choice(["", "", "true"]), draw.choice(["", "", 2]) if needs else ""
        rows.append(f"j{number},{at},{draw.randint(0, 60)},{fails},{';'.join(needs)},{delay}")
    path.write_text("\n".join(rows) + "\n")
    return {"trace": {"path": str(path), "platform": {"processor": "a"}}}


def scenario(seed: int) -> dict[str, Any]:
    """Draw a scenario."""
    draw = Random(seed)
    scheduling = some(draw, SCHEDULING, 0.25)
    if {"failures", "sort_every"} <= scheduling.keys():
        # all builders may be out of service, while jobs wait for a week and are sorted
        scheduling["sort_every"] = 3600
    if scheduling.get("balancer") == "heavy-light":
        options = {"hold_at_most": [5, 60], "heavy_first": [True], "overloaded_at": [0.3]}
        scheduling["heavy_light"] = {"room_at": 0.25, **some(draw, options, 0.5)}
    if "fair_share" in scheduling and scheduling.get("balancer") != "fastest":
        levels = len(scheduling["fair_share"])
        scheduling |= some(draw, {"stickiness": [[60] * levels], "weights": [{"x": 2}]}, 0.3)
    phases = {"ramp_up": 10, "run": 60, "ramp_down": 10}
    return {
        "seed": seed,
        "pools": [pool(draw, number) for number in range(draw.randint(1, 3))],
        "workload": [source(draw) for _ in range(draw.randint(1, 2))],
        "scheduling": scheduling,
        **some(draw, {"phases": [phases, {**phases, "quiesce": True}]}, 0.15),
    }


def scenario_with_needs(seed: int, folder: Path) -> dict[str, Any]:
    """Draw a scenario in which jobs need others, by a policy that may go by their paths."""
    draw = Random(seed)
    sources = [pipelines(draw), table(draw, folder / f"{seed}.csv"), source(draw)]
    made = {**scenario(seed), "workload": draw.sample(sources, draw.choice([1, 2]))}
    if made["workload"] == sources[2:]:
        made["workload"] = sources[:1]
    for one in made["pools"]:
        one.pop("switch_times", None)
    scheduling = {key: value for key, value in made["scheduling"].items() if key not in UNCOVERED}
    scheduling |= some(draw, {"policy": ["critical-path"], "balancer": ["jenkins"]}, 0.3)
    scheduling["runtime_estimates"] = "oracle"
    return {**made, "scheduling": scheduling}


def written(document: dict[str, Any], engine: Engine, folder: Path) -> dict[str, object]:
    """Return what a run leaves, without what tells the engine."""
    saved = farm.simulate(document, engine=engine).save(folder)
    summary = json.loads((saved / "summary.json").read_text())
    del summary["engine"], summary["wall_time_s"]
    summary.pop("not_compiled", None)
    names = ("events.jsonl", "jobs.csv")
    return {"summary": summary, **{name: (saved / name).read_bytes() for name in names}}


@pytest.mark.parametrize(
    "seeds",
    [range(15), *(pytest.param(seeds, marks=pytest.mark.slow) for seeds in
                  (range(15, 60), *(range(at, at + 200) for at in range(1000, 2000, 200))))],
    ids=lambda seeds: f"{seeds.start}-",
)  # fmt: skip
def test_both_engines_write_the_same_run(seeds, tmp_path):
    """Protects equality from the file on: the draws, the jobs' names, what lines leave out."""
    for seed in seeds:
        one, other = (written(scenario(seed), engine, tmp_path / f"{seed}-{engine}")
                      for engine in ("auto", "reference"))  # fmt: skip
        assert one == other, f"scenario {seed}"


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 150), marks=pytest.mark.slow)],
                         ids=lambda seeds: f"{seeds.start}-")  # fmt: skip
def test_both_engines_play_the_same_pipelines(seeds, tmp_path):
    """Protects releases, skipped jobs and their causes, delays and paths, from the file on."""
    for seed in seeds:
        document = scenario_with_needs(seed, tmp_path)
        one, other = (written(document, engine, tmp_path / f"{seed}-{engine}")
                      for engine in ("auto", "reference"))  # fmt: skip
        assert one == other, f"scenario {seed}"
