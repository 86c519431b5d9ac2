"""The first sentence on a run: how long jobs wait, for what, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from farm.columns import Flags, Floats, time_within
from farm.core.model import Platform
from farm.results.figures.time_axis import WallClock, instant
from farm.results.formatting import after_caveat, spoken_in, spoken_number, spoken_span, spoken_unit
from farm.results.money import Currency, is_money, readable_monthly
from farm.results.summary.costs import CostPart
from farm.results.summary.lateness import MAX_SHARE, Lateness
from farm.results.summary.summary import Summary
from farm.results.table.job_table import JobTable
from farm.scenario import Pool, Scenario
from farm.units import format_time, many

GRAINS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 14400.0, 86400.0)
"""Lengths of the intervals of time by which it is said when jobs waited, seconds."""
MOST_INTERVALS = 12
DAY = 86400.0
FEW_DAYS = 3
"""From as many days on, waits may be told by the hour of the day."""
MOST_HOURS = 8
"""More hours of each day than this are most of the time."""
BY_RUN_TIME, FOREKNOWN = ("sjf", "ljf"), ("declared", "oracle")
"""Beginnings of policies that go by run times, and the estimators that say the recorded ones."""
FULL = 0.8
"""Share of slots that run a job while others wait, from which builders are what is missing."""
BOOTS = 1.25
"""Waits within this factor of the boot time of builders that come and go are those boots."""
SHORT, OF_SERVICE = 300.0, 0.1
"""Waits below both of these, seconds and a share of the mean service time, are no shortage."""
WORTH = 0.1
"""Share of all time waited, from which a platform may be what the farm is short of."""
QUEUE, MOST = 0.1, 0.8
"""With this share of its longest a queue is there; for this share of the time, most of it."""


class Remedy(NamedTuple):
    """A change that shortens the waits of a run, on top of those before it, as simulated."""

    #: the pool that it is of; None: another policy
    pool: str | None
    #: the key of the pool, such as builders or provisioner.max; or policy
    key: str
    before: object
    after: object
    #: the pool of the jobs whose wait is told; None: all jobs, whose wait it shortens
    waits_of: str | None
    #: their p95 wait before and after, seconds
    wait_before: float
    wait: float
    #: how much longer builders are there for it, all together, seconds
    builder_time: float
    #: what that costs in a month, in the currency of the scenario's prices, if it has any
    per_month: float
    currency: Currency
    #: the run-time estimates that another policy relies on; empty: on none
    relies_on: str = ""


class Advice(NamedTuple):
    """What shortens the waits of a run."""

    #: the best change first; none: they were not searched, since that takes too long
    remedies: tuple[Remedy, ...]
    #: the scenario of a command that finds them, as it is typed: a file, and options
    farm: str = ""
    #: whose builders are short
    pool: Pool | None = None


def answer_of_run(
    summary: Summary,
    jobs_of_run: Callable[[], JobTable],
    scenario: Scenario | None,
    advice: Advice | None = None,
) -> str:
    """Return the first sentence on a run: its p95 wait, what is short, and when.

    The jobs are only looked at if something is. Without the scenario, as of a version that knows
    other keys, it says nothing of builders. ``advice``: what would help; the shortage that is named
    is then the one that its first remedy is for.
    """
    counts, wait = summary.jobs, summary.waiting_time
    if not counts.submitted:
        return "no job was submitted"
    ended = [f"{counts.lost:,} of {many(counts.submitted, 'job')} never ended"] * bool(counts.lost)
    ended += [f"{many(counts.failed, 'job')} failed"] * bool(counts.failed)
    if wait.p95 is None or wait.max is None:
        return "; ".join(["no job started", *ended])
    text = f"p95 wait {spoken_span(wait.p95)}"
    if not wait.max:
        text = "no job waited"
    elif not is_short(summary):
        text = text if wait.p95 else "fewer than one in twenty jobs waited"
        text += ": there are enough builders"
    elif scenario and (shortages := shortages_of(jobs_of_run(), summary, scenario)):
        shortage = _first_for(advice, shortages)
        waits = wait.p95
        if shortage.wait is not None and spoken_span(shortage.wait) != spoken_span(wait.p95):
            waits = shortage.wait
            text += f", for {_name(shortage)} {spoken_span(waits)}"
        boots = [pool.boot_time for pool in shortage.pools if pool.provisioner or pool.uses]
        if any(boot / BOOTS <= waits <= BOOTS * boot for boot in boots):
            text += f": {_builders(shortage)} take as long to boot"
        else:
            text += f": {_why(shortage)}{_when(shortage)}"
        if advice is not None:
            where = "in simulation, " if summary.world == "live" and advice.remedies else ""
            advised = _advised(advice, wait.p95, several_pools=len(scenario.pools) > 1)
            text += f"; {where}{advised}"
    answer = "; ".join([*_lateness(summary, scenario), text, *ended])
    if scenario is None or scenario.twin is None:
        return answer
    if scenario.scheduling.runtime_estimates in FOREKNOWN:
        answer += known_run_times([scenario.scheduling.policy])
    return after_caveat(scenario.twin.caveat, answer)


def known_run_times(policies: Sequence[str]) -> str:
    """Return that policies of a twin go by recorded run times; empty: none does.

    Of a real farm's jobs these are known only after they have run.
    """
    names = [name for name in policies if name.startswith(BY_RUN_TIME)]
    if not names:
        return ""
    return (
        f"; {' and '.join(names)}: by the recorded run times, which no scheduler knows beforehand, "
        "unless scheduling.runtime_estimates says otherwise"
    )


def _lateness(summary: Summary, scenario: Scenario | None) -> list[str]:
    """Return that the machine was too late for the run's speed; empty: it was not."""
    late = summary.lateness
    if not isinstance(late, Lateness) or not late.matters:
        return []
    speed = ""
    if scenario is not None:
        slower = float(f"{scenario.live.speed * MAX_SHARE / late.share:.2g}")
        speed = f" (about {slower:g})"
    late_by = f"{spoken_span(late.mean_time)} a job, {late.share:.0%} of what jobs take"
    return [
        f"this machine was late by {late_by}, and jobs waited longer for it: lower --speed{speed}"
    ]


def is_short(summary: Summary) -> bool:
    """Return whether waits, of all jobs or of a platform's, are worth a word on builders."""
    return _waits_long(summary) or any(map(_waits_long, summary.platforms.values()))


def _waits_long(of: Summary | CostPart) -> bool:
    p95, response = of.waiting_time.p95 or 0.0, of.response_time.mean
    service = max(0.0, (response or 0.0) - (of.waiting_time.mean or 0.0))
    return p95 >= SHORT or p95 >= OF_SERVICE * service > 0.0


class Shortage(NamedTuple):
    """The jobs that have to wait longest, and what they waited for."""

    platform: str
    #: their p95 wait, seconds; None: it is not known
    wait: float | None
    #: the pools that run such jobs, and whether the scenario has others
    pools: Sequence[Pool]
    others: bool
    #: share of the slots that ran a job while these waited; None: their number varies
    full: float | None
    #: start and end of what they waited in; None: most of the time
    span: tuple[float, float] | None
    #: the span is of each day, on the farm's clock
    daily: bool = False
    #: of the farm, if its scenario goes by one
    clock: WallClock | None = None


def shortages_of(jobs: JobTable, summary: Summary, scenario: Scenario) -> list[Shortage]:
    """Return which jobs waited, for which pools, and when: the longest p95 wait first.

    One for each platform with at least ``WORTH`` of all time waited: a platform of many jobs may
    have the longest sum while another's wait far longer, and one with hardly any waiting is not
    what matters. Empty: no job waited.
    """
    window, arrived_at = summary.window, jobs.arrived_at
    counts = (window.start <= arrived_at) & (arrived_at < window.end)
    began = np.where(np.isnan(jobs["started_at_s"]), jobs["finished_at_s"], jobs["started_at_s"])
    waits_since = jobs.waits_since
    waited = np.where(counts, np.nan_to_num(began - waits_since), 0.0).clip(0.0)
    names, platform_of_job = np.unique(jobs["platform"], return_inverse=True)
    sums = np.bincount(platform_of_job, waited, len(names))
    if not sums.any():
        return []
    waits = [_p95_of(summary, str(name)) for name in names]
    is_worth = sums >= WORTH * sums.sum()
    longest_first = sorted(
        np.flatnonzero(is_worth).tolist(), key=lambda n: (waits[n], sums[n]), reverse=True
    )
    first_arrival = min(0.0, float(arrived_at[counts].min()))
    whole_time = float(np.nan_to_num(jobs["finished_at_s"][counts]).max()) - first_arrival
    shortages = []
    for number in longest_first:
        has_waited = (platform_of_job == number) & (waited > 0.0)
        shortages.append(
            _shortage(
                jobs,
                scenario,
                platform=str(names[number]),
                wait=None if np.isinf(waits[number]) else waits[number],
                starts=waits_since[has_waited],
                ends=began[has_waited],
                whole_time=whole_time,
            )
        )
    return shortages


def _shortage(
    jobs: JobTable,
    scenario: Scenario,
    *,
    platform: str,
    wait: float | None,
    starts: Floats,
    ends: Floats,
    whole_time: float,
) -> Shortage:
    """Return what the jobs of a platform waited for, and when.

    When: most of the time, if a queue was there for ``MOST`` of it; else the shortest span, in
    intervals of a readable length, that has half of the time waited; of several days the hours of
    the day, if these are few.

    Args:
        jobs: all jobs of the run.
        scenario: of the run.
        platform: of the jobs that waited.
        wait: their p95 wait, seconds.
        starts: when the wait of each began.
        ends: when it ended.
        whole_time: from the run's begin to the last finish, seconds.
    """
    pools = [pool for pool in scenario.pools if _runs(pool, platform)]
    span, daily = None, False
    if _time_of_queue(starts, ends) < MOST * whole_time:
        span, daily = _span(starts, ends, scenario.time_of_week)
    return Shortage(
        platform=platform,
        wait=wait,
        pools=pools,
        others=len(scenario.pools) > len(pools),
        full=_full(jobs, pools, starts, ends),
        span=span,
        daily=daily,
        clock=WallClock.of(scenario.starts) if scenario.goes_by_the_week else None,
    )


def _first_for(advice: Advice | None, shortages: Sequence[Shortage]) -> Shortage:
    """Return the shortage that the first remedy is for; else that of the longest wait."""
    pool = advice.remedies[0].pool if advice is not None and advice.remedies else None
    for shortage in shortages:
        if pool in {short.name for short in shortage.pools}:
            return shortage
    return shortages[0]


def _p95_of(summary: Summary, platform: str) -> float:
    """Return a platform's p95 wait; infinity: none of its jobs started, or it is not told."""
    part = summary.platforms.get(platform)
    found = None if part is None else part.waiting_time.p95
    return np.inf if found is None else found


def _time_of_queue(starts: Floats, ends: Floats) -> float:
    """Return how long at least ``QUEUE`` of the longest queue was there, seconds."""
    grid = np.sort(np.concatenate([starts, ends]))
    waiting = _level(starts, ends, grid)
    return float(np.diff(grid)[waiting >= max(1.0, QUEUE * waiting.max())].sum())


def _runs(pool: Pool, platform: str) -> bool:
    """Return whether a pool runs jobs for a platform as a table names it."""
    try:
        return pool.platform.can_run(Platform.parse(platform))
    except ValueError:  # of a table that was made elsewhere
        return False


def _full(jobs: JobTable, pools: Sequence[Pool], starts: Floats, ends: Floats) -> float | None:
    """Return the share of the pools' slots that were busy, weighted by those who waited."""
    if any(pool.provisioner or pool.uses or pool.losses or pool.failure_rate for pool in pools):
        return None
    platforms: list[str] = jobs["platform"].tolist()
    there = {name: any(_runs(pool, name) for pool in pools) for name in set(platforms)}
    ran: Flags = np.array([there[name] for name in platforms]) & ~np.isnan(jobs["started_at_s"])
    # a slot is held from the dispatch on, also while it goes over to another invocation
    begun, over = jobs["dispatched_at_s"][ran], jobs["finished_at_s"][ran]
    over = np.where(np.isnan(over), np.inf, over)
    grid = np.sort(np.concatenate([starts, ends, begun, over[np.isfinite(over)]]))
    lengths = np.diff(grid)
    waiting, running = _level(starts, ends, grid), _level(begun, over, grid)
    slots = sum((pool.builders or 0) * pool.slots for pool in pools)
    whole = float((waiting * lengths).sum())
    return float((waiting * running * lengths).sum()) / (whole * slots) if whole * slots else None


def _level(starts: Floats, ends: Floats, grid: Floats) -> Floats:
    """Return how many spans hold each interval of a grid that has all their ends."""
    begun = np.searchsorted(np.sort(starts), grid[:-1], side="right")
    over = np.searchsorted(np.sort(ends), grid[:-1], side="right")
    return np.asarray(begun - over, dtype=np.float64)


def _span(starts: Floats, ends: Floats, midnight: float) -> tuple[tuple[float, float] | None, bool]:
    """Return when half of the time was waited, and whether that is by the hour of the day."""
    first, last = min(0.0, float(starts.min())), float(ends.max())
    grain = next((g for g in GRAINS if last - first <= MOST_INTERVALS * g), GRAINS[-1])
    edges = np.arange(np.floor(first / grain), np.ceil(last / grain) + 1) * grain
    times = time_within(starts, ends, edges)
    low, high = _shortest_half(times)
    if high - low <= len(times) / 2:
        return (float(edges[low]), float(edges[high])), False
    if last - first < FEW_DAYS * DAY:
        return None, False
    hours = np.arange(np.floor(first / 3600.0), np.ceil(last / 3600.0) + 1) * 3600.0
    of_day = ((hours[:-1] + midnight) // 3600.0).astype(np.int64) % 24
    by_hour = np.bincount(of_day, time_within(starts, ends, hours), 24)
    low, high = _shortest_half(np.concatenate([by_hour, by_hour]), by_hour.sum() / 2)
    few = high - low <= MOST_HOURS
    return ((low % 24 * 3600.0, high % 24 * 3600.0) if few else None), few


def _shortest_half(times: Floats, half: float | None = None) -> tuple[int, int]:
    """Return the shortest run of intervals that has half of the sum: of several the fullest."""
    sums = np.concatenate([[0.0], np.cumsum(times)])
    half = float(sums[-1]) / 2 if half is None else half
    ends = np.searchsorted(sums, sums + half * (1 - 1e-9), side="left")
    found = [
        (int(end) - low, -float(sums[end] - sums[low]), low, int(end))
        for low, end in enumerate(ends.tolist())
        if end < len(sums)
    ]
    _, _, low, high = min(found)
    return low, high


def _builders(one: Shortage) -> str:
    """Return the builders that the jobs need, by their pool if the scenario has others."""
    if not one.others:
        return "builders"
    name = _name(one)
    return f"builders for {name}" if name == one.platform else f"{name} builders"


def _name(one: Shortage) -> str:
    """Return the pool of the jobs; if it is none or several, their platform."""
    return one.pools[0].name if len(one.pools) == 1 else one.platform


def _why(one: Shortage) -> str:
    if not one.pools:
        return f"no pool runs jobs for {one.platform}"
    what = _builders(one)
    if one.full is None:
        return f"too few {what} were there"
    if one.full < FULL:
        return f"jobs wait though {1 - one.full:.0%} of the {what} are free"
    return f"the farm is short of {what}"


def _when(one: Shortage) -> str:
    if one.span is None:
        return " most of the time"
    if one.daily:
        clock = [f"{round(at / 3600):02d}:00" for at in one.span]
        return f" between {clock[0]} and {clock[1]} of the day"
    if one.clock is None and not one.span[0]:
        return f" in the first {format_time(one.span[1])}"
    # the span has whole minutes or is short, but the clock may begin within one
    off = 0.0 if one.clock is None or one.span[1] - one.span[0] < 60.0 else one.clock.shows % 60.0
    start, end = (instant(at - off, one.clock, dated=True) for at in one.span)
    day, _, _ = start.rpartition(" ")
    return f" between {start} and {end.removeprefix(f'{day} ' if day else '')}"


def _advised(advice: Advice, wait: float, *, several_pools: bool) -> str:
    """Return what helps, or the command that finds it; ``wait``: the p95 wait of the run (s)."""
    if not advice.remedies:
        return f"{command_of(advice, wait)} finds how many more it takes"
    first, *others = advice.remedies
    change = _change(first, several_pools=several_pools)
    cost = _cost(first)
    if not others:
        whose = "" if first.waits_of is None else f" for {first.waits_of}"
        return f"with {change} it is {spoken_span(first.wait)}{whose} ({cost})"
    texts = [f"first {change} ({_waits_in_words(first)}, {cost})"]
    waits_of = first.waits_of
    for remedy in others:
        waits = f"→ {spoken_span(remedy.wait)}"
        if remedy.waits_of != waits_of:
            waits = _waits_in_words(remedy)
        waits_of = remedy.waits_of
        change = _change(remedy, several_pools=several_pools)
        texts.append(f"then {change} ({waits}, {_cost(remedy)})")
    return ", ".join(texts)


def _waits_in_words(remedy: Remedy) -> str:
    """Return whose p95 wait a remedy changes, and how: ``p95 26 → 8.3 min``."""
    whose = "" if remedy.waits_of is None else f"{remedy.waits_of} "
    return f"{whose}p95 {_from_to(remedy.wait_before, remedy.wait)}"


def command_of(advice: Advice, wait: float) -> str:
    """Return the command that finds with how many builders the p95 wait is half of this (s)."""
    objective = f"{wait / 120:.0f}m" if wait >= 240 else f"{wait / 2:.3g}s"
    farm = f" {advice.farm}" if advice.farm else ""
    command = f"farm plan{farm} --slo 'p95(waiting_time) < {objective}'"
    provisioner = None if advice.pool is None else advice.pool.provisioner
    if advice.pool is None or provisioner is None:
        return command
    most = provisioner.max
    limits = f"{most},{most + (most + 1) // 2},{2 * most}"
    return f"{command} --vary pools.{advice.pool.name}.provisioner.max={limits}"


def _change(remedy: Remedy, *, several_pools: bool) -> str:
    """Return a change in words."""
    if remedy.pool is None:
        run_times = {"oracle": "true", "declared": "declared"}.get(remedy.relies_on, "learned")
        relies = f", which relies on {run_times} run times" if remedy.relies_on else ""
        return f"policy {remedy.after}{relies}"
    pool = f"{remedy.pool} " if several_pools else ""
    before, after = remedy.before, remedy.after
    if remedy.key == "builders" and isinstance(before, int) and isinstance(after, int):
        more = after - before
        return f"{spoken_number(more)} more {pool}{'builder' if more == 1 else 'builders'}"
    name = remedy.key.rpartition(".")[2]
    if name in ("boot_time", "idle_timeout", "interval"):
        before, after = (format_time(float(str(value))) for value in (before, after))
    return f"{pool}{name}={after} instead of {before}"


def _from_to(before: float, after: float) -> str:
    """Return a change of a span, with one unit if both have the same: ``26 → 8.3 min``."""
    unit, length = spoken_unit(before)
    unit_before = "" if spoken_unit(after)[0] == unit else f" {unit}"
    return f"{spoken_in(before, length)}{unit_before} → {spoken_span(after)}"


def _cost(remedy: Remedy) -> str:
    """Return what a remedy costs: the time of builders, or money if they have prices."""
    if remedy.pool is None:
        return "at no cost"
    if is_money(remedy.currency):
        return readable_monthly(remedy.per_month, remedy.currency, signed=True)
    hours = remedy.builder_time / 3600.0
    return f"{hours:+,.1f} builder-hours" if hours >= 0.05 else "the same builder-hours"
