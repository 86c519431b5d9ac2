"""The fairness index: whether each party got the slots that it was entitled to.

How long jobs wait does not tell: who submits two hundred jobs at once waits longer than who submits
one, and rightly. What is compared is slot time. At each instant the slots that run jobs of a
platform are divided by weight among the parties that have jobs there, waiting or running, and none
is entitled to more slots than it has jobs (max-min fairness). What a party got over what it was
entitled to is 1 if it had its share, and smaller if others held it. The index is Jain's, of these
ratios.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from farm.columns import Flags, Floats, Numbers, distinct
from farm.core.queues.fair_share.path_keys import attributes_of_key
from farm.results.table.job_columns import Jobs
from farm.results.table.recorder import RunRecords

FAIR_SHARE = "scheduling.fair_share: "
"""How a warning on a key of fair share begins."""
MAX_STEPS = 256
"""Equal steps into which a run's time is divided; within one, numbers of jobs are averaged."""
MIN_STEPS = 64
"""As many steps there are, however many the parties."""
MAX_CELLS = 1 << 20
"""Steps, times parties and platforms: with more of these the steps are longer."""
CELLS_AT_ONCE = 1 << 15
"""About as many of these, of several short runs, are measured together."""
FIRST_STEP = 2.0**-10
"""Length of a step at first (s); it is doubled until the run's time fits."""
DIGITS = 6
"""Decimals of the index: sums over pieces of a run differ from those over the whole in later ones.
"""


class SlotShares:
    """The slots that parties had, and their open jobs, over the time of a run, or of several.

    ``weights``: of parties, where it is not 1. Jobs may be given in pieces, in any order. Several
    runs have steps of one length, as the longest of them needs.
    """

    def __init__(self, weights: Mapping[str, float], runs: int = 1) -> None:
        self._weights = weights
        self._runs = runs
        self._step = FIRST_STEP
        #: the row of each platform, party and run
        self._rows: dict[tuple[str | None, str, int], int] = {}
        #: of each row and step the change in the number of open jobs, and of slots held
        self._changes = np.zeros((2, 0, MAX_STEPS))
        #: of each row and step, the changes times what is left of the step after them
        self._areas = np.zeros((2, 0, MAX_STEPS))

    def take(
        self, jobs: Jobs, party: Numbers, names: Sequence[str], run: Numbers | None = None
    ) -> None:
        """Take jobs; ``party``: the number of each one's name, and the empty name is no party.

        A job is open from arrival to end, and holds a slot during its last attempt. One that was
        served by another's execution counts as neither. ``run``: that of each job, from 0 on.
        """
        some = are_charged(jobs, party, names)
        if not some.any():
            return
        finished_at = jobs.finished_at[some]
        dispatched_at = jobs.dispatched_at[some]
        last_end = float(finished_at.max())
        while last_end >= self._step * self._steps:
            self._double()
        row = self._rows_of(
            jobs.platform.codes[some],
            jobs.platform.values,
            party[some],
            names,
            np.zeros(len(finished_at), np.int64) if run is None else run[some],
        )

        ran = ~np.isnan(dispatched_at)
        opened, held = 0, 1
        self._add(opened, row, jobs.arrived_at[some], 1)
        self._add(opened, row, finished_at, -1)
        self._add(held, row[ran], dispatched_at[ran], 1)
        self._add(held, row[ran], finished_at[ran], -1)

    def index(self) -> float:
        """Return Jain's index of what the parties got over what they were entitled to.

        There is one run.
        """
        [index] = self.indices()
        return index

    def indices(self) -> list[float]:
        """Return the index of each run; with fewer than two parties it is 1."""
        parties = _numbered(name for _, name, _ in self._rows)
        if len(parties) < 2:
            return [1.0] * self._runs
        before = np.cumsum(self._changes, axis=2) - self._changes
        open_jobs, slots = np.maximum(before + self._areas / self._step, 0.0)
        open_jobs = np.maximum(open_jobs, slots)
        # the last row is of parties that have no jobs
        nothing = np.zeros((1, self._steps))
        open_jobs = np.concatenate((open_jobs, nothing))
        slots = np.concatenate((slots, nothing))
        got = np.zeros((len(parties), self._runs))
        entitled = np.zeros_like(got)
        for platform in dict.fromkeys(platform for platform, _, _ in self._rows):
            there = {key: row for key, row in self._rows.items() if key[0] == platform}
            names = _numbered(name for _, name, _ in there)
            rows = np.full((len(names), self._runs), -1)
            for (_, name, run), row in there.items():
                rows[names[name], run] = row
            weights = np.array([self._weights.get(name, 1.0) for name in names])
            wanted = open_jobs[rows].reshape(len(names), -1)
            had = slots[rows]
            shares = max_min_shares(wanted, weights, had.sum(axis=0).reshape(-1))
            places = [parties[name] for name in names]
            got[places] += had.sum(axis=2)
            entitled[places] += shares.reshape(had.shape).sum(axis=2)
        indices = []
        for had_times, shares_of_run in zip(got.T.tolist(), entitled.T.tolist(), strict=True):
            times = zip(had_times, shares_of_run, strict=True)
            ratios = [had_time / share for had_time, share in times if share > 0]
            indices.append(round(jain_index(ratios), DIGITS))
        return indices

    def _rows_of(
        self,
        platform: Numbers,
        platforms: Sequence[str | None],
        party: Numbers,
        names: Sequence[str],
        run: Numbers,
    ) -> Numbers:
        """Return the row of each job; new ones are added."""
        code = (platform * len(names) + party) * self._runs + run
        codes, _, number = distinct(code)
        rows = []
        for pair, of_run in (divmod(one, self._runs) for one in codes.tolist()):
            place, of = divmod(pair, len(names))
            key = (platforms[place] if place >= 0 else None, names[of], of_run)
            rows.append(self._rows.setdefault(key, len(self._rows)))
        missing = len(self._rows) - self._changes.shape[1]
        if missing:
            more = np.zeros((2, missing, self._steps))
            self._changes = np.concatenate((self._changes, more), axis=1)
            self._areas = np.concatenate((self._areas, more), axis=1)
        while len(self._rows) * self._steps > MAX_CELLS and self._steps > MIN_STEPS:
            self._join_steps()
        return np.asarray(np.array(rows, np.int64)[number], np.int64)

    @property
    def _steps(self) -> int:
        return int(self._changes.shape[2])

    def _double(self) -> None:
        """Let as many steps last twice as long."""
        if not self._rows:  # nothing to be moved yet
            self._step *= 2
            return
        self._join_steps()
        more = np.zeros_like(self._changes)
        self._changes = np.concatenate((self._changes, more), axis=2)
        self._areas = np.concatenate((self._areas, more), axis=2)

    def _join_steps(self) -> None:
        """Make one step of two; what changed in the first lasts through the second."""
        first, second = self._changes[:, :, ::2], self._changes[:, :, 1::2]
        self._areas = self._areas[:, :, ::2] + first * self._step + self._areas[:, :, 1::2]
        self._changes = first + second
        self._step *= 2

    def _add(self, what: int, row: Numbers, at: Floats, sign: int) -> None:
        step = np.clip(at / self._step, 0, self._steps - 1).astype(np.int64)
        cell = row * self._steps + step
        left = np.minimum((step + 1) * self._step - at, self._step)
        shape = self._changes.shape[1:]
        count = self._changes[what].size
        self._changes[what] += sign * np.bincount(cell, minlength=count).reshape(shape)
        self._areas[what] += sign * np.bincount(cell, left, count).reshape(shape)


def are_charged(jobs: Jobs, party: Numbers, names: Sequence[str]) -> Flags:
    """Return which jobs count: those of a party, unless another job's execution served them."""
    is_party = np.array([bool(name) for name in names], np.bool_)
    charged: Flags = is_party[party] & ~jobs.shared
    return charged


def indices_of_runs(
    jobs: Jobs,
    run: Numbers,
    runs: int,
    party: Numbers,
    names: Sequence[str],
    weights: Mapping[str, float],
) -> list[float]:
    """Return the index of each of several runs, whose jobs stand in one table.

    Those with steps of one length are measured together: a sweep has hundreds of short runs. None
    has other steps than it would have alone.

    Args:
        jobs: of all runs.
        run: that of each job, from 0 on.
        runs: how many there are.
        party, names, weights: as for ``SlotShares``.
    """
    if runs == 1:
        alone = SlotShares(weights)
        alone.take(jobs, party, names)
        return alone.indices()
    some = are_charged(jobs, party, names)
    last_end = np.zeros(runs)
    np.maximum.at(last_end, run[some], jobs.finished_at[some])
    step = np.full(runs, FIRST_STEP)
    while (is_longer := last_end >= step * MAX_STEPS).any():
        step[is_longer] *= 2
    rows_of_run = (1 + len(jobs.platform.values)) * len(names)
    at_once = max(1, CELLS_AT_ONCE // (MAX_STEPS * rows_of_run))
    indices = np.ones(runs)
    for length in sorted({*step.tolist()}):
        same = np.flatnonzero(step == length)
        for begin in range(0, len(same), at_once):
            together = same[begin : begin + at_once]
            place = np.full(runs, -1)
            place[together] = np.arange(len(together))
            theirs = place[run] >= 0
            shares = SlotShares(weights, len(together))
            shares.take(jobs.taken(theirs), party[theirs], names, place[run[theirs]])
            indices[together] = shares.indices()
    return [float(index) for index in indices]


def _numbered(names: Iterable[str]) -> dict[str, int]:
    """Return the number of each name, in order of first appearance."""
    return {name: number for number, name in enumerate(dict.fromkeys(names))}


def max_min_shares(wanted: Floats, weights: Floats, available: Floats) -> Floats:
    """Divide what is available by weights; no party gets more than wanted, others get the rest.

    ``wanted``: a row for each party, a column for each division; ``available``: of each division,
    at most what is wanted in it.
    """
    level = wanted / weights[:, None]
    order = np.argsort(level, axis=0)
    satisfied = np.take_along_axis(wanted, order, axis=0)
    weight = weights[order]
    before = np.cumsum(satisfied, axis=0) - satisfied
    weight_left = np.cumsum(weight[::-1], axis=0)[::-1]
    # the parties are satisfied in order of level; until the last that is, this rises
    highest = ((available - before) / weight_left).max(axis=0)
    shares: Floats = np.minimum(wanted, weights[:, None] * np.maximum(highest, 0.0))
    return shares


def jain_index(shares: Sequence[float]) -> float:
    """Return Jain's fairness index (Σx)² ÷ (n·Σx²): 1 is even, 1/n is everything for one.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness", DEC TR-301 (1984). It is 1.0
    for no shares, for one share, and if all are zero.
    """
    squares = sum(share * share for share in shares)
    if not shares or squares == 0.0:
        return 1.0
    total = sum(shares)
    return total * total / (len(shares) * squares)


def unused_fair_share_keys(names: Sequence[str], records: RunRecords) -> list[str]:
    """Return a warning for each key of fair share that no job of a run has.

    All jobs then share one invocation at that level: the farm runs as if it had no such key, and no
    figure shows it.
    """
    tables = [jobs for jobs in (records.jobs, records.lost) if len(jobs)]
    if not names or not tables:
        return []
    attributes = {
        attribute
        for jobs in tables
        for values in jobs.attributes.values
        for attribute, value in values.items()
        if value
    }
    is_known = {
        "kind": any(any(jobs.kind) for jobs in tables),
        "matrix": any(any(jobs.matrix.values) for jobs in tables),
    }
    has = f"jobs have {', '.join(sorted(attributes))}" if attributes else "jobs have no attribute"
    warnings = []
    for name in names:
        wanted = attributes_of_key(name)
        is_used = is_known.get(name, True) if not wanted else not attributes.isdisjoint(wanted)
        if not is_used:
            warnings.append(
                f"{FAIR_SHARE}no job has {name}, so all share one invocation there; {has}"
            )
    return warnings
