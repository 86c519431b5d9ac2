"""What may have sized a pool: a fixed number, or a provisioning algorithm with few parameters.

Parameters start at what the records show: boot times at the waits of runners' first jobs, idle
time-outs at the longest time without work, limits at the numbers of runners, plans a boot time
before the instants at which runners came.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from farm_twin.twins.pool_shapes import Shape
from farm_twin.twins.runner_lives import CLOCKS, Rhythm

Document = Mapping[str, Any]
"""A part of a scenario file."""
ENOUGH = 10
"""Runners whose age at their first start is known, from which that is the boot time."""
ALIKE = 4
"""Runners that came as long after a first job had to wait, from which that is the boot time."""
MOSTLY, RARELY = 0.25, 0.3
"""Share of the provisioning delays that are alike, from which these are the usual ones, and what
share of their number there is just before them, at most."""
INTERVALS = {
    "taskcluster": 1.0, "target-wait": 15.0, "keda": 15.0, "gitlab": 60.0, "buildkite": 10.0,
    "jenkins": 10.0, "buildbarn": 60.0, "predictive": 15.0, "arc": 1.0,
}  # fmt: skip
"""Seconds between two plans, if nothing else is said."""
POLLING, LONG = 30.0, 5.0
"""Seconds between two polls of keda's, and between two plans from which the first one matters."""
SLOWEST = 0.25
"""Share of its usual time between two plans below which an algorithm is not tried."""
NEAR_BOOT = 0.9
"""Share of the time from an end to the next start, where another runner boots for it, that the boot
takes at least."""
SHORTEST = 0.5
"""Seconds that a boot takes at least."""
STOPPING = ("target-wait",)
"""Algorithms that stop runners, too, which have an idle time-out."""
CHOSEN = ("idle_timeout", ".objective", ".window", ".idle_time")
ROUND, NEARLY = (3600.0, 900.0, 300.0, 60.0, 30.0, 10.0), 1.15
"""Times that people choose, the units of these (s), and by which factor they are near a value."""
ONE = 1.05
"""Times the shortest that a parameter can be, up to which its longest is the same."""
WARM = (0, 1, 2, 3, 5)
"""Ephemeral runners that may be kept ready."""
OBJECTIVES = (60.0, 200.0, 600.0)
"""Seconds."""
ROOM, IDLE_TIMES = (1, 2, 4), (60.0, 300.0, 900.0)
"""Jobs for which there may be idle room, and how long idle runners may stay for none (s)."""
LISTED = (1, 2, 3, 5, 10)
"""Waiting jobs for a runner, where running ones do not count."""
WINDOWS = (1200.0, 3600.0, 14400.0)
"""Seconds of demand that may be remembered."""
DIGITS = 3
"""Of what is searched, after the point: of spans milliseconds."""
NO_LIMIT, AT_ONCE = 1_000_000, 0.1
"""Hosted runners at once, and seconds after which there is one for a new job."""
CONSTANT = 1.0
"""Seconds by which delays differ that are one."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which a pool may be sized."""

    algorithm: str
    #: of the pool and of its provisioner, as in a scenario
    pool: Mapping[str, object] = {}
    options: Mapping[str, Any] = {}
    #: parameters that are searched, by key of the pool or (with a dot) of the provisioner
    free: Mapping[str, float] = {}
    #: between what these must be, as the records show
    bounds: Mapping[str, tuple[float, float]] = {}
    #: between what they lie if a longer one would have shown, for one of equal candidates
    likely: Mapping[str, tuple[float, float]] = {}
    scheduling: Document = {}
    #: from the first arrival to the next plan, and between two, s; None: it does not matter
    first_plan: float | None = None
    period: float = 0.0
    #: in which runners came
    rhythm: Rhythm | None = None
    #: whether it plans as often as its algorithm does by itself, and runners come like that
    usual: bool = True

    def document(self, begins: float = 0.0) -> dict[str, object]:
        """Return the pool as a scenario has it; nothing is planned long before ``begins`` (s)."""
        pool, options = dict(self.pool), dict(self.options)
        for key, value in self.free.items():
            if key.startswith("."):
                options[key[1:]] = value
            else:
                pool[key] = value
        if self.planned_at is not None:
            # rounded here, as no plan is at 0
            at = round(self.planned_at, DIGITS) or self.period
            options["first_plan"] = at + begins // self.period * self.period
        if self.algorithm != "fixed":
            pool["provisioner"] = {"algorithm": self.algorithm, **options}
        return {name: readable(value) for name, value in pool.items()}

    @property
    def planned_at(self) -> float | None:
        """The first plan: a boot time before the instants at which runners came, if these show."""
        if self.first_plan is None or self.rhythm is None:
            return self.first_plan
        boot = self.free.get("boot_time", 0.0)
        later = (self.rhythm.at - boot - self.first_plan) % self.rhythm.period
        # a period is one of the rhythm's, or some
        return (self.first_plan + later) % self.period or self.period

    def moved(self, factors: Mapping[str, float]) -> Candidate:
        """Return the candidate with parameters that are longer by these factors, within bounds."""
        free = dict(self.free)
        for name, factor in factors.items():
            least, most = self.bounds.get(name, (0.0, math.inf))
            free[name] = min(most, max(least, free[name] * factor))
        return replace(self, free=free)

    def later(self, share: float) -> Candidate:
        """Return the candidate with its first plan later by a share of its period, within that."""
        known = self.rhythm is not None and self.rhythm.period == self.period
        if self.first_plan is None or known or not share:
            return self
        span = share * self.period
        if self.rhythm is not None:  # only at these instants
            span = round(span / self.rhythm.period) * self.rhythm.period
        # the first arrival may be at farm time 0, and no plan is
        return replace(self, first_plan=(self.first_plan + span) % self.period or self.period)


def readable(value: Any) -> Any:
    """Return a value with its numbers as they are written: what is tried is what is told."""
    if isinstance(value, Mapping):
        return {name: readable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [readable(one) for one in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def candidates_of(shape: Shape) -> Iterator[Candidate]:
    """Yield what may have sized a pool, the simplest first."""
    common: dict[str, object] = {"slots": shape.slots}
    if shape.loss_rate:
        common["losses"] = {"rate": f"{shape.loss_rate:g}/h"}
    if shape.hosted:
        yield delayed(shape)
        return
    if shape.ephemeral:
        common["uses"] = 1
        seen: list[float] = []
        if shape.turnarounds >= ENOUGH:
            seen = [shape.turnaround - shape.warm_pickup]
        # the boot time itself, even if nothing waited in what is played
        for boot in seen or _boots(shape):
            limits = (NEAR_BOOT * boot, boot / NEAR_BOOT) if seen else (0.0, math.inf)
            yield Candidate(
                algorithm="fixed",
                pool={**common, "builders": shape.runners},
                free={"boot_time": max(SHORTEST, boot)},
                bounds={"boot_time": limits},
            )
    else:
        if shape.changes is not None:
            # first: a change in the second half is not in what is played here
            yield Candidate(algorithm="manual", pool=common, options=shape.changes)
        yield Candidate(algorithm="fixed", pool={**common, "builders": shape.runners})
        if shape.is_fixed or shape.is_replaced:
            return
    own = shape.rhythm.period if shape.rhythm is not None else 0.0
    for boot in _boots(shape):
        for algorithm, options, free in _sized(shape):
            if 0.0 < own < SLOWEST * INTERVALS[algorithm]:
                continue
            some = {"min": 0, "max": shape.runners, **options}
            yield _provisioned(shape, algorithm, common, some, {"boot_time": boot, **free})


def _provisioned(
    shape: Shape, algorithm: str, pool: Document, options: dict[str, Any], free: dict[str, float]
) -> Candidate:
    """Return an algorithm with what the records show of its parameters."""
    bounds, likely = {"boot_time": (SHORTEST, math.inf)}, {}
    if (seen := boot_seen(shape)) is not None:
        # it is in all of these, and a wait of up to that time for a plan besides
        least = min(seen[0], seen[1] - _plans_apart(shape) - CLOCKS / 2)
        bounds["boot_time"] = max(SHORTEST, least), seen[1]
    if "idle_timeout" in free:
        leaves = algorithm not in STOPPING
        least, most = shape.idle_times.bounds(options["min"], leaves=leaves)
        bounds["idle_timeout"] = (max(1.0, least), max(1.0, most))
        probable = shape.idle_times.likely(options["min"])
        if not leaves and probable[1] < math.inf:
            likely["idle_timeout"] = probable
        if most <= ONE * least:
            del free["idle_timeout"]
            pool = {**pool, "idle_timeout": next(round_times(least, most), (least + most) / 2)}
    interval, rhythm, usual = INTERVALS[algorithm], shape.rhythm, True
    if rhythm is not None:
        usual = rhythm.period == (interval if interval >= LONG else 0.0)
        if not rhythm.period:  # it does not boot in a constant time, or plans at once
            rhythm = None
        elif not usual:
            interval = options["interval"] = rhythm.period
    period = interval * math.ceil(POLLING / interval) if algorithm == "keda" else interval
    return Candidate(
        algorithm=algorithm,
        pool=pool,
        options=options,
        free=free,
        bounds=bounds,
        likely=likely,
        first_plan=period if period >= LONG else None,
        period=period,
        rhythm=rhythm,
        usual=usual,
    )


def _sized(shape: Shape) -> Iterator[tuple[str, Document, dict[str, float]]]:
    """Yield algorithms with options, and with the parameters that are searched from a value on.

    Those that stop no runner need its idle time-out, which a runner of one job rarely meets.
    """
    if shape.ephemeral:
        for fewest in (number for number in WARM if number <= shape.runners):
            yield "arc", {"min": fewest}, {}
    kept = {0, 1} if shape.ephemeral else {0, 1, min(shape.stayed, shape.runners)}
    for fewest in sorted(kept):
        limits = {"min": fewest}
        outlived, _ = shape.idle_times.bounds(fewest)
        leaving = {} if shape.ephemeral else {"idle_timeout": max(outlived, 1.0)}
        yield "taskcluster", limits, leaving
        for objective in OBJECTIVES:
            yield "target-wait", limits, {**leaving, ".objective": objective}
        counted = {**limits, "length": "waiting+running", "list_length": shape.slots}
        yield "keda", counted, {}
        for length in LISTED:
            yield "keda", {**limits, "list_length": length}, {}
        yield "gitlab", limits, {}
        for time in IDLE_TIMES:
            yield "gitlab", limits, {".idle_time": time}
        yield "jenkins", limits, leaving
        yield "buildkite", limits, {}
        yield "buildkite", {**limits, "disable_scale_in": True}, leaving
        for window in WINDOWS:
            yield "buildbarn", limits, {".window": window}
        yield "predictive", limits, {}
    for room in ROOM:
        for time in IDLE_TIMES:
            for preemptive in (True, False):
                options = {"idle_count": room, "preemptive_mode": preemptive}
                yield "gitlab", options, {".idle_time": time}
        yield "buildkite", {"instance_buffer": room}, {}


RARE: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "taskcluster": {"scaling_ratio": (0.8, 0.5, 0.25)},
    "target-wait": {"hold": (60.0, 900.0), "release": (0.25, 0.9)},
    "keda": {
        "stabilization_window": (1.0, 60.0, 900.0), "cooldown": (60.0, 900.0),
        "polling_interval": (10.0, 60.0), "scale_up_builders": (1, 2), "scale_up_percent": (25.0,),
    },
    "gitlab": {"max_booting": (1, 2, 3, 5), "scale_factor": (0.25, 0.5)},
    "jenkins": {"margin": (0.03, 0.3), "decay": (0.8, 0.95), "initial_delay": (1.0, 300.0)},
    "buildkite": {"out_factor": (0.5,), "out_cooldown": (60.0,), "in_cooldown": (300.0, 900.0)},
    "buildbarn": {"quantile": (0.5, 0.8, 0.99)},
    "predictive": {"headroom": (0.8, 1.3), "ahead": (300.0, 1800.0)},
}  # fmt: skip
"""Options that users rarely change, and other values: shares, spans in seconds, whole numbers."""
SHARES = ("scaling_ratio", "release", "margin", "decay", "quantile")


def round_times(least: float, most: float) -> Iterator[float]:
    """Yield times in a range that people would write, the roundest first (seconds)."""
    known: set[float] = set()
    for unit in ROUND:
        first, last = max(1, math.ceil(least / unit)), math.floor(most / unit)
        found = {unit * n for n in range(first, min(last, first + 1) + 1)} - known
        known |= found
        yield from sorted(found)


def fewer(one: Candidate) -> Iterator[Candidate]:
    """Yield the candidate with fewer runners that are always kept, the fewest first."""
    for number in range(one.options.get("min", 0)):
        yield replace(one, options={**one.options, "min": number})


def rounded(one: Candidate, name: str) -> Iterator[Candidate]:
    """Yield the candidate with rounder values of a time that someone chose, the roundest first."""
    if (found := one.free.get(name)) is None:
        return
    least, most = one.bounds.get(name, (0.0, math.inf))
    near = max(least, found / NEARLY), min(most, found * NEARLY)
    for first, last in ([one.likely[name]] if name in one.likely else []) + [near]:
        for value in round_times(first, last):
            yield one.moved({name: value / found})


def at_defaults(one: Candidate) -> list[str]:
    """Return the options that users rarely change, of those that it does not give."""
    given = {*one.options, *(name.removeprefix(".") for name in one.free)}
    return [name for name in RARE.get(one.algorithm, ()) if name not in given]


def rarely_changed(one: Candidate) -> Iterator[Candidate]:
    """Yield the candidate with one more option at another value than its default."""
    for name in at_defaults(one):
        for value in RARE[one.algorithm][name]:
            if isinstance(value, int):
                yield replace(one, options={**one.options, name: value})
                continue
            bounds = {**one.bounds, f".{name}": (0.0, 1.0)} if name in SHARES else one.bounds
            yield replace(one, free={**one.free, f".{name}": value}, bounds=bounds)


def delayed(shape: Shape) -> Candidate:
    """Return runners that start for each job, after delays as recorded, up to a visible limit."""
    constant = shape.delays[-1] - shape.delays[0] <= CONSTANT
    values = {"empirical": {"values": list(shape.delays)}}
    boot = {"boot_time": shape.delays[0]} if constant else {"boot_delay": values}
    most = shape.runners if shape.limited else NO_LIMIT
    return Candidate(
        algorithm="arc",
        pool={"slots": 1, "uses": 1, **boot},
        options={"min": 0, "max": most, "interval": AT_ONCE},
    )


def _boots(shape: Shape) -> list[float]:
    """Return boot times to begin with: what it took until a runner came, after a job had to wait.

    Where the source says when a runner was requested, it is the usual time until its first start.
    Of runners of one job it may also be the time from an end to the next start.
    """
    if len(shape.ages) >= ENOUGH:
        pickup = shape.warm_pickup if shape.ephemeral else shape.pickup_time
        found = [float(np.median(shape.ages)) - pickup]
    elif (seen := boot_seen(shape)) is not None:
        # the shortest of n delays has a share of 1 / (n + 1) of the time between plans, on average
        count = sum(seen[0] <= one <= seen[1] for one in shape.provisioning_delays)
        found = [seen[0] - _plans_apart(shape) / (2 * count + 2)]
    else:
        found = np.quantile(shape.provisioning_delays or (60.0,), (0.05, 0.3, 0.9)).tolist()
        found[0] -= _plans_apart(shape) / 2
    if shape.ephemeral and shape.turnarounds:
        found = [shape.turnaround - shape.warm_pickup, found[0]]
    return sorted({max(SHORTEST, round(one, 1)) for one in found})


def boot_seen(shape: Shape) -> tuple[float, float] | None:
    """Return between what the provisioning delays lie that are a boot time after the next plan.

    Many are then within a period, and few in the one before: others were planned earlier, for a
    queue that had ended, or later, as the algorithm waits. None: these do not stand out.
    """
    some, width = np.array(shape.provisioning_delays), _plans_apart(shape)
    ends = np.searchsorted(some, some + width)
    within = ends - np.arange(len(some))
    if not len(some) or within.max() < max(ALIKE, MOSTLY * len(some)):
        return None
    first = int(np.argmax(within))
    before = first - np.searchsorted(some, some[first] - width)
    if some[first] < width or before > RARELY * within[first]:
        return None
    return float(some[first]), float(some[ends[first] - 1])


def _plans_apart(shape: Shape) -> float:
    """Return by how much provisioning delays differ for the time until the next plan (s)."""
    return max(CLOCKS, LONG if shape.rhythm is None else shape.rhythm.period)
