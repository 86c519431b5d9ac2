"""Runs of loads that are read as they go: only jobs that are open, and the next ones, are held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from farm.core.pools.spec import PoolSpec
from farm.core.rules import Estimator
from farm.results.summary.tally import Tallied, Tally
from farm.sim.fast.job_arrays import JobArrays, batches, load_of
from farm.sim.fast.kernel import layout
from farm.sim.fast.kernel.heaps import Array
from farm.sim.fast.play import (
    PlayedFarm,
    Watch,
    begun,
    in_thread,
    lanes_of,
    looked,
    numbered_kinds,
    served,
)
from farm.sim.fast.run_records import builders_table, jobs_of, names_of
from farm.sim.setting import Setting
from farm.workload.blocks import Block, JobColumns, joined

LEAST = 1 << 16
"""Jobs that are read at a time, unless more are open: so each is handled a few times at most."""
_UNUSED = ("id", "matrix", "action")
"""Fields that neither the loop nor a summary of such a run reads."""


class Reader:
    """Jobs by arrival, read in pieces; those of one instant are in one piece."""

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks
        self._ready: list[Block] = []
        self.over = False

    def read(self, least: int) -> Block:
        """Return some ``least`` jobs, or all that are left; ``over`` then says if it is all."""
        while not self.over:
            count = sum(map(len, self._ready))
            if count > least:
                whole = joined(self._ready)
                arrived = whole.array("arrived_at")
                some = int(np.searchsorted(arrived, arrived[least - 1], "right"))
                if some < count:
                    self._ready = [whole.taken(slice(some, None))]
                    return whole.taken(slice(some))
                self._ready = [whole]
            block = next(self._blocks, None)
            if block is None:
                self.over = True
            else:
                used = {name: one for name, one in block.columns.items() if name not in _UNUSED}
                self._ready.append(Block(used))
        return joined(self._ready)


def play_streamed(
    jobs: Iterator[Block],
    estimator: Estimator,
    setting: Setting,
    tally: Tally,
    *,
    watch: Watch = lambda *_: None,
    least: int = LEAST,
) -> Tallied | None:
    """Run a load, of one job or more; its jobs go to a tally as they end, and are let go.

    None: it reaches a state that only the reference covers. ``why_not`` and ``why_whole`` have
    found nothing against it. While one piece is played in a thread, the last one is summed up and
    the next one drawn.
    """
    reader, pools, rules = Reader(jobs), setting.pools, setting.rules
    here, kept = reader.read(least), np.zeros(0, np.int64)
    load = load_of(rules.policy, estimator, JobColumns.of(here))
    run = begun(load, setting)
    sum_up: Callable[[], None] = _nothing
    while True:
        run.farm.counts["more"] = more = not reader.over
        run.farm.counts["gives_up"] = False  # a tally is of jobs that started
        playing = in_thread(run)
        sum_up()
        following = reader.read(max(least, len(kept) // 2)) if more else None
        halt = looked(playing, run, watch, tally.count)
        farm = run.farm
        sum_up = partial(_sum_up, tally, load, farm, farm.ended[: farm.counts["ended"][0]])
        if halt != layout.READS_ON or following is None:
            break
        kept = np.flatnonzero(farm.jobs["ended"] == 0)
        here = joined([here.taken(kept), following])
        load = load_of(rules.policy, estimator, JobColumns.of(here))
        run.farm = _moved(farm, load, kept, pools)
    if halt != layout.PLAYED or farm.counts["open"][0]:
        return None
    sum_up()
    played = PlayedFarm(farm, load, pools, rules)
    return tally.records(
        builders=builders_table(played, names_of(played)),
        events=int(farm.counts["events"][0]),
        last_at=float(farm.instants["last_event"][0]),
    )


def _nothing() -> None:
    """There is nothing to sum up yet."""


_LIVED = ("dispatched_at", "builder", "slot", "attempts", "losses", "started")
"""What happened to a job that has not ended."""


def _moved(
    farm: layout.Farm, load: JobArrays, kept: Array, pools: Sequence[PoolSpec]
) -> layout.Farm:
    """Return the farm with the jobs of another load: first the ``kept`` ones, which have not ended.

    The others arrive from now on.
    """
    jobs, kinds, count = load.columns, numbered_kinds(pools), len(kept)
    for name in _LIVED:
        jobs[name][:count] = farm.jobs[name][kept]
    number = np.full(len(farm.jobs), -1)
    number[kept] = np.arange(count)
    runs = farm.slots["job"] >= 0
    farm.slots["job"][runs] = number[farm.slots["job"][runs]]
    serves = served(load.platforms, kinds)
    lanes, queue = lanes_of(load, serves, pools, kinds), np.empty(len(jobs), np.int32)
    for lane in farm.lanes[farm.lanes["waiting"] > 0]:
        places = farm.queue[lane["begin"] :][: lane["waiting"]]
        waits = number[farm.in_order[places]]
        to = jobs["lane"][waits[0]]
        lanes["waiting"][to] = len(waits)
        queue[lanes["begin"][to] :][: len(waits)] = jobs["order"][waits]  # a heap, as before
    farm.counts["ended"] = farm.counts["batch_next"] = 0
    return farm._replace(
        jobs=jobs,
        in_order=load.in_order,
        fails=load.fails,
        batches=count + batches(jobs["submitted_at"][count:]),
        lanes=lanes,
        queue=queue,
        serves=serves,
        ended=np.empty(len(jobs), np.int32),
    )


def _sum_up(tally: Tally, load: JobArrays, farm: layout.Farm, ended: Array) -> None:
    """Take the jobs that ended in a piece."""
    if len(ended):
        jobs = jobs_of(load, farm, ended, ())
        tally.take(jobs, farm.builders["pool"][jobs.builder.codes].astype(np.int64))
