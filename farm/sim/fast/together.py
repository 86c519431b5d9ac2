"""Runs of one farm with several loads, measured as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from farm.results.table.runs import Runs
from farm.sim.fast.job_arrays import Load
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array
from farm.sim.fast.play import Played, farms_after
from farm.sim.fast.run_records import records
from farm.sim.setting import Setting


def play_together(
    whole: Load, loads: Sequence[Load], setting: Setting, seeds: Sequence[int]
) -> Runs | None:
    """Run loads, pieces of a whole, each on a separate farm as ``play`` does.

    Their builders are numbered on from run to run.
    None: one of them reaches a state that only the reference covers, or leaves a job open.
    """
    ended, builders, voids, counted, last_at = [], [], [], [], []
    farms = farms_after(loads, setting)
    for load, farm in zip(loads, farms, strict=True):
        if farm is None or farm.counts["ended"][0] < len(load.columns):
            return None
        last = farm
        ended.append(farm.ended[: len(load.columns)].copy())
        # as bytes: NumPy compares all fields of what it concatenates
        counted.append(farm.counts.tobytes())
        builders.append(farm.builders[: farm.counts["made"][0]].tobytes())
        voids.append(farm.void[: farm.counts["void"][0]].tobytes())
        last_at.append(float(farm.instants["last_event"][0]))
    sizes, every = [len(load.columns) for load in loads], _records(counted, layout.COUNTS)
    made, void = every["made"], _records(voids, layout.VOID_ATTEMPT)
    first_job, first_builder = np.cumsum([0, *sizes[:-1]]), np.cumsum([0, *made[:-1]])
    whole.columns["builder"] += np.repeat(first_builder, sizes).astype(np.int32)
    of_void = np.repeat(np.arange(len(loads)), every["void"])
    void["job"] += first_job[of_void].astype(np.int32)
    void["builder"] += first_builder[of_void].astype(np.int32)
    counts = every[:1].copy()
    for name in ("ended", "made", "void", "events"):
        counts[name] = every[name].sum()
    farm = last._replace(
        jobs=whole.columns,
        ended=np.concatenate(ended) + np.repeat(first_job, sizes).astype(np.int32),
        builders=_records(builders, layout.BUILDER),
        void=void,
        counts=counts,
    )
    found = records(Played(farm, whole, setting.pools, setting.rules))
    of_builder = np.append(np.repeat(np.arange(len(loads)), made), 0)
    return Runs(found, seeds, np.array(last_at), of_builder)


def _records(parts: Sequence[bytes], dtype: np.dtype[np.void]) -> Array:
    return np.frombuffer(bytearray().join(parts), dtype)
