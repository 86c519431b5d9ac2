"""How often slots went over to another invocation, and what that took: what stickiness saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from farm.columns import Flags, Floats, Numbers, numbered
from farm.core.model import Job
from farm.core.queues.fair_share.path_keys import NO_KEY, PathExtractor
from farm.results.table.job_columns import Jobs


def keys_of_switches(
    fair_share: Sequence[str], switch_times: Mapping[str, Mapping[str, float]]
) -> tuple[str, ...]:
    """Return the keys of which a change counts as a switch; none: nothing is counted.

    They are those for which a pool says what a change takes, or else those of fair share.
    ``switch_times``: by pool.
    """
    timed = dict.fromkeys(key for times in switch_times.values() for key in times)
    return tuple(timed) or tuple(fair_share)


def switches_of(
    jobs: Jobs,
    pool: Sequence[str],
    keys: Sequence[str],
    switch_times: Mapping[str, Mapping[str, float]],
) -> tuple[Flags, Floats]:
    """Return for each job whether its slot went over to it from another invocation, and the time.

    A slot's first job is no switch. What counts are last attempts, as the table has no others.

    Args:
        jobs: all of the run.
        pool: the pool of each builder, by its number.
        keys: of which a change is a switch.
        switch_times: what a change takes, by pool and key (s).
    """
    ran = np.flatnonzero((jobs.builder.codes >= 0) & ~jobs.shared & ~np.isnan(jobs.dispatched_at))
    builder, slot = jobs.builder.codes[ran], jobs.slot[ran]
    by_slot = ran[np.lexsort((jobs.dispatched_at[ran], slot, builder))]
    before, after = by_slot[:-1], by_slot[1:]
    builder, slot = jobs.builder.codes[after], jobs.slot[after]
    same_slot = (jobs.builder.codes[before] == builder) & (jobs.slot[before] == slot)

    is_switch = np.zeros(len(jobs), np.bool_)
    times = np.zeros(len(jobs))
    for key in keys:
        values, _ = values_of(jobs, key)
        differs = same_slot & (values[before] != values[after])
        switched = after[differs]
        is_switch[switched] = True
        time_of = np.array([switch_times.get(name, {}).get(key, 0.0) for name in pool])
        times[switched] = np.maximum(times[switched], time_of[builder[differs]])
    return is_switch, times


def values_of(jobs: Jobs, key: str) -> tuple[Numbers, list[str]]:
    """Return the number of each job's value of a fair-share key, and the values."""
    value_of = PathExtractor((key,))
    if key == "kind":
        return numbered(jobs.kind.tolist())
    if key == "matrix":
        return jobs.matrix.codes, [*jobs.matrix.values, NO_KEY]  # -1 is the last
    if key.startswith("platform"):
        one_each = [value_of(_job(platform=value))[0] for value in jobs.platform.values]
        of, names = numbered(one_each)
        return of[jobs.platform.codes], names
    # jobs without attributes are the last
    one_each = [value_of(_job(attributes=value))[0] for value in (*jobs.attributes.values, {})]
    of, names = numbered(one_each)
    return of[jobs.attributes.codes], names


def _job(**fields: object) -> Job:
    return Job(id="", service_time=0.0, **fields)  # type: ignore[arg-type]
