"""The study of docs/study-dispatch-estimates.md: Launchpad's formula against rollouts.

    python benchmarks/study_estimates.py TRACES [STUDY …] [--every N] [--figures DIR]

TRACES is the folder with Mozilla's recordings (``*.dat``). Each study simulates a slice of one on
a fixed pool, lets every N-th job be estimated, and prints the scores as Markdown.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from farm.assembly import make_scheduler, run_info
from farm.cli.estimating import Estimating
from farm.cli.line_figure import write_figures
from farm.results.log.reader import read_log
from farm.results.log.writer import EventLogWriter
from farm.results.scoring import Bin, Score, score
from farm.results.summary.records import Recorder
from farm.results.summary.summary import summarise
from farm.scenario import Scenario, parse_scenario
from farm.sim.simulation import Simulation

STUDIES = {
    "mobile": ("mobile-3-b-linux-large.dat", {}, 12),
    "windows": ("gecko-t-t-win10-64.dat", {"window": ["0s", "24h"]}, 130),
}
RUN_TIMES = ["oracle", "declared", "last-3", "boinc"]


def scenario_of(traces: Path, study: str, every: int, rollouts: int) -> Scenario:
    """One pool, first in, first out; submitters are off by a factor of two either way (sigma)."""
    name, options, builders = STUDIES[study]
    trace = {"path": str(traces / name), "declared": {"factor": NOISE}, **options}
    return parse_scenario(
        {
            "name": f"study-{study}",
            "pools": [{"name": "pool", "platform": {"processor": "x"}, "builders": builders}],
            "workload": [{"trace": trace}],
            "scheduling": {"policy": "fifo", "runtime_estimates": "oracle"},
            "estimates": {
                "rules": ["launchpad", "rollout"],
                "run_times": RUN_TIMES,
                "every": every,
                "rollouts": rollouts,
            },
        }
    )


NOISE = {"lognormal": {"median": 1.0, "sigma": 0.7}}


def carry_out(study: str, scenario: Scenario, figures: Path | None) -> None:
    began = time.perf_counter()
    estimating = Estimating(scenario, live=False)
    scheduler = make_scheduler(scenario, estimator=estimating.estimator)
    simulation = Simulation(scenario, scheduler=scheduler, around=estimating.around)
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        with EventLogWriter(path) as log:
            simulation.play([recorder, log])
        scores = score(read_log(path))
    spent = time.perf_counter() - began
    summary = summarise(recorder.records(), run_info(scenario, "simulated", "reference"), 0.0)
    wait = summary.waiting_time
    print(f"\n### {study}: {scenario.workload[0].trace.path.rpartition('/')[2]}\n")
    print(
        f"{summary.jobs.submitted} jobs, {scenario.pools[0].builders} builders, utilization "
        f"{summary.utilization:.0%}; waits: mean {wait.mean:.0f} s, median {wait.p50:.0f} s, "
        f"p95 {wait.p95:.0f} s; {scores[0].scored} jobs scored, {scores[0].at_once} dispatched at "
        f"once; {spent:.0f} s of real time\n"
    )
    tables(scores)
    if figures is not None:
        lines = {"ideal": [(0.0, 0.0), (1.0, 1.0)]}
        lines |= {
            each.name: [(one.level, one.observed) for one in each.calibration]
            for each in scores
            if each.calibration and each.run_times != "oracle"
        }
        axes = ("promised: quantile of the estimate", "kept: share dispatched by then")
        title = f"Calibration of rollouts: {study}"
        write_figures(figures / f"calibration-{study}.svg", [(title, lines, axes)], "--figures")


def tables(scores: list[Score]) -> None:
    print("| estimator | bias | mean abs. error | median | rms | relative | within P90 |")
    print("|---|---|---|---|---|---|---|")
    for each in scores:
        within = "" if each.within_p90 is None else f"{each.within_p90:.0%}"
        print(
            f"| {each.name} | {each.bias_time:+.0f} s | {each.mean_absolute_error_time:.0f} s | "
            f"{each.median_absolute_error_time:.0f} s | {each.root_mean_square_error_time:.0f} s | "
            f"{each.relative_error:.0%} | {within} |"
        )
    for title, field in (("jobs waiting", "by_queue_length"), ("estimated wait", "by_horizon")):
        edges = sorted({(b.low, b.high or 0) for each in scores for b in getattr(each, field)})
        print(f"\nRelative error (bias) by {title}:\n")
        heads = [f"from {low:g}" for low, _ in edges]
        print(f"| estimator | {' | '.join(heads)} |")
        print("|---" * (len(heads) + 1) + "|")
        for each in scores:
            bins = {one.low: one for one in getattr(each, field)}
            cells = [_cell(bins.get(low)) for low, _ in edges]
            print(f"| {each.name} | {' | '.join(cells)} |")
    print("\nCalibration (share dispatched by each quantile):\n")
    print("| estimator | " + " | ".join(f"{n}0 %" for n in range(1, 10)) + " |")
    print("|---" * 10 + "|")
    for each in scores:
        if each.calibration and each.run_times != "oracle":
            print(
                f"| {each.name} | "
                + " | ".join(f"{c.observed:.0%}" for c in each.calibration)
                + " |"
            )


def _cell(one: Bin | None) -> str:
    if one is None or one.relative_error is None:
        return ""
    return f"{one.relative_error:.0%} ({one.bias_time:+.0f} s, n {one.count})"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("traces", type=Path)
    options.add_argument("studies", nargs="*", default=list(STUDIES))
    options.add_argument("--every", type=int, default=5)
    options.add_argument("--rollouts", type=int, default=50)
    options.add_argument("--figures", type=Path)
    chosen = options.parse_args()
    for study in chosen.studies:
        scenario = scenario_of(chosen.traces, study, chosen.every, chosen.rollouts)
        carry_out(study, scenario, chosen.figures)


if __name__ == "__main__":
    main()
