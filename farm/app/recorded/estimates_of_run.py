"""How right the dispatch estimates of a recorded run were."""

from __future__ import annotations

from pathlib import Path

from farm.app.recorded.played_again import load_run
from farm.core.errors import InputError
from farm.records.bundle import is_bundle
from farm.results.estimate_scores import Score, score


def scores_of(run: Path) -> list[Score]:
    """Return how right the dispatch estimates of a run were, and two that need no model, last.

    Raises InputError if it has none.
    """
    if is_bundle(run):
        raise InputError(
            f"{run}: found a bundle of records, which has no dispatch estimates; allowed: a run, "
            "or a bundle with --run-times ESTIMATOR"
        )
    scores = score(load_run(run, unfinished=True).entries(), naive=True)
    if not scores:
        raise InputError(
            f"{run}: no estimates were made in this run; enable them, for example with "
            "--set 'estimates.rules=[launchpad, rollout]'"
        )
    return scores
