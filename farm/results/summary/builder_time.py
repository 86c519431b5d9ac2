"""How builders spent their time, within a window of the run."""

from __future__ import annotations

import msgspec
import numpy as np

from farm.columns import Floats, Numbers
from farm.core.fields import json_name
from farm.results.summary.run_phase import Window
from farm.results.table.builder_columns import Builders
from farm.results.table.runs import Runs


class BuilderCounts(msgspec.Struct, frozen=True, rename=json_name):
    """Counts of builders in the window, and the maximum number present.

    A builder is over-provisioned if it joined in the window and never ran a job.
    """

    requested: int
    joined: int
    retired: int
    lost: int
    max_running: int
    over_provisioned: int
    over_provisioned_time: float


class BuilderTimes(msgspec.Struct, frozen=True):
    """Seconds in the window, over all builders of each run."""

    #: builders present (joined and not left)
    present: list[float]
    #: slots present: the same, each builder times its slots
    slots: list[float]
    #: slots that held a job, from its dispatch to its end
    busy: list[float]


def builder_counts(runs: Runs, window: Window) -> list[BuilderCounts]:
    """Count what happened to the builders of each run in the window."""
    records = runs.records
    builders, run = records.builders, runs.of_builder[records.builders.builder.codes]
    ran = np.zeros(len(records.pool_of), np.bool_)
    ran[records.attempts.builder.codes] = True
    joined, gone = window.holds(builders.joined_at), window.holds(builders.gone_at)
    idle = joined & ~ran[builders.builder.codes]
    there = present(builders, window, runs.last_at[run])
    columns = (
        runs.counted(run[window.holds(builders.requested_at)]),
        runs.counted(run[joined]),
        runs.counted(run[builders.end.where("retired") & gone]),
        runs.counted(run[builders.end.where("lost") & gone]),
        _most_present(runs, run, window),
        runs.counted(run[idle]),
        runs.total(run[idle], there[idle]).tolist(),
    )
    return [BuilderCounts(*row) for row in zip(*columns, strict=True)]


def builder_times(runs: Runs, window: Window) -> BuilderTimes:
    """Sum up the time of each run's builders in the window."""
    builders, held = runs.records.builders, runs.records.attempts
    run = runs.of_builder[builders.builder.codes]
    there = present(builders, window, runs.last_at[run])
    busy = window.overlap(held.dispatched_at, held.ended_at)
    return BuilderTimes(
        present=runs.total(run, there).tolist(),
        slots=runs.total(run, there * builders.slots).tolist(),
        busy=runs.total(runs.of_builder[held.builder.codes], busy).tolist(),
    )


def present(builders: Builders, window: Window, last_at: Floats) -> Floats:
    """Return how long each builder was present, seconds; ``last_at``: until when its run lasted."""
    gone_at = np.where(np.isnan(builders.gone_at), last_at, builders.gone_at)
    there = window.overlap(builders.joined_at, gone_at)
    return np.where(np.isnan(builders.joined_at), 0.0, there)


def _most_present(runs: Runs, run: Numbers, window: Window) -> list[int]:
    """Return the maximum number of builders present; leaving precedes joining at an instant."""
    builders = runs.records.builders
    gone_at = np.where(np.isnan(builders.gone_at), np.inf, builders.gone_at)
    some = (builders.joined_at < window.end) & (gone_at > window.start)
    joined_at, gone_at = np.maximum(builders.joined_at[some], window.start), gone_at[some]
    at, of = np.concatenate((gone_at, joined_at)), np.tile(run[some], 2)
    order = np.lexsort((at, of))
    # all who joined leave in the end, and the next run begins with none
    there = np.cumsum(np.repeat((-1, 1), len(joined_at))[order])
    most = np.zeros(len(runs.seeds), np.int64)
    np.maximum.at(most, of[order], there)
    return most.tolist()
