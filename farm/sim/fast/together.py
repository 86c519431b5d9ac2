"""Runs of one farm with several loads, measured as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.sim.fast.job_arrays import Load
from farm.sim.fast.play import Algorithms, Played, play


class Together(NamedTuple):
    """Finished runs as one, whose builders are numbered on from run to run."""

    played: Played
    #: how many builders each run made
    made: list[int]
    #: the last event of each, farm time
    last_at: list[float]


def play_together(
    whole: Load,
    loads: Sequence[Load],
    pools: Sequence[PoolSpec],
    rules: SchedulingRules,
    algorithms: Algorithms,
    ends_at: float,
) -> Together | None:
    """Run loads, pieces of a whole, each on a separate farm as ``play`` does.

    None: one of them reaches a state that only the reference covers, or leaves a job open.
    """
    farms = []
    for load in loads:
        played = play(load, pools, rules, algorithms, ends_at=ends_at)
        if played is None or played.farm.counts["ended"][0] < len(load.columns):
            return None
        farms.append(played.farm)
    sizes = [len(load.columns) for load in loads]
    made = [int(farm.counts["made"][0]) for farm in farms]
    first_job, first_builder = np.cumsum([0, *sizes[:-1]]), np.cumsum([0, *made[:-1]])
    whole.columns["builder"] += np.repeat(first_builder, sizes).astype(np.int32)
    void = [farm.void[: farm.counts["void"][0]] for farm in farms]
    of_void, voids = np.repeat(np.arange(len(farms)), list(map(len, void))), np.concatenate(void)
    voids["job"] += first_job[of_void].astype(np.int32)
    voids["builder"] += first_builder[of_void].astype(np.int32)
    counts = farms[0].counts.copy()
    for name in ("ended", "made", "void", "events"):
        counts[name] = sum(int(farm.counts[name][0]) for farm in farms)
    ended = np.concatenate([farm.ended[: len(farm.jobs)] for farm in farms])
    farm = farms[0]._replace(
        jobs=whole.columns,
        ended=ended + np.repeat(first_job, sizes).astype(np.int32),
        builders=np.concatenate(
            [farm.builders[:number] for farm, number in zip(farms, made, strict=True)]
        ),
        void=voids,
        counts=counts,
    )
    last_at = [float(farm.instants["last_event"][0]) for farm in farms]
    return Together(Played(farm, whole, pools, rules), made, last_at)
