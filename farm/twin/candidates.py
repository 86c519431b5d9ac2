"""What may have sized a pool: a fixed number, or a provisioning algorithm with few parameters.

Parameters start at what the records show: boot times at the waits of runners' first jobs, idle
time-outs at the longest time without work, limits at the numbers of runners.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from farm.twin.pools import Shape

Document = Mapping[str, Any]
"""A part of a scenario file."""
ENOUGH = 10
"""Runners whose age at their first start is known, from which that is the boot time."""
PERIODS = {
    "target-wait": 15.0, "keda": 30.0, "gitlab": 60.0, "buildkite": 10.0, "jenkins": 10.0,
    "buildbarn": 60.0, "predictive": 15.0,
}  # fmt: skip
"""Seconds between two plans (keda: polls) where they are so long that the first one matters."""
WARM = (0, 1, 2, 3, 5)
"""Ephemeral runners that may be kept ready."""
OBJECTIVES = (60.0, 200.0, 600.0)
"""Seconds."""
ROOM, IDLE_TIMES = (1, 2, 4), (60.0, 300.0, 900.0)
"""Jobs for which there may be idle room, and how long idle runners may stay for none (s)."""
LISTED = 5.0
"""Waiting jobs for a runner, where running ones do not count."""
WINDOWS = (1200.0, 3600.0, 14400.0)
"""Seconds of demand that may be remembered."""
NO_LIMIT, AT_ONCE = 1_000_000, 0.1
"""Hosted runners at once, and seconds after which there is one for a new job."""
CONSTANT = 1.0
"""Seconds by which delays differ that are one."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A way in which a pool may be sized."""

    algorithm: str
    #: of the pool and of its provisioner, as in a scenario
    pool: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    #: parameters that are searched, by key of the pool or (with a dot) of the provisioner
    free: Mapping[str, float] = {}
    #: below what they cannot be, as the records show
    least: Mapping[str, float] = {}
    scheduling: Document = {}
    #: from the first arrival to the next plan, seconds; None: it does not matter
    first_plan: float | None = None

    def document(self, begins: float = 0.0) -> dict[str, Any]:
        """Return the pool as a scenario has it; nothing is planned long before ``begins`` (s)."""
        pool, options = dict(self.pool), dict(self.options)
        for key, found in self.free.items():
            value = max(found, self.least.get(key, 0.0))
            if key.startswith("."):
                options[key[1:]] = value
            else:
                pool[key] = value
        if self.first_plan is not None:
            period = PERIODS[self.algorithm]
            options["first_plan"] = self.first_plan + begins // period * period
        if self.algorithm != "fixed":
            pool["provisioner"] = {"algorithm": self.algorithm, **options}
        return pool

    def later(self, share: float) -> Candidate:
        """Return the candidate with its first plan later by a share of its period, within that."""
        if self.first_plan is None:
            return self
        period = PERIODS[self.algorithm]
        # the first arrival may be at farm time 0, and no plan is
        return replace(self, first_plan=(self.first_plan + share * period) % period or period)


def candidates_of(shape: Shape) -> Iterator[Candidate]:
    """Yield what may have sized a pool, the simplest first."""
    common: dict[str, Any] = {"slots": shape.slots}
    if shape.loss_rate:
        common["losses"] = {"rate": f"{shape.loss_rate:g}/h"}
    if shape.hosted:
        yield delayed(shape)
        return
    if shape.ephemeral:
        common["uses"] = 1
        for boot in _boots(shape):
            fixed = {**common, "builders": shape.runners}
            yield Candidate(algorithm="fixed", pool=fixed, free={"boot_time": boot})
    else:
        if shape.changes is not None:
            # first: a change in the second half is not in what is played here
            yield Candidate(algorithm="manual", pool=common, options=shape.changes)
        yield Candidate(algorithm="fixed", pool={**common, "builders": shape.runners})
        if shape.is_fixed or shape.is_replaced:
            return
    for boot in _boots(shape):
        for algorithm, options, free in _sized(shape):
            yield Candidate(
                algorithm=algorithm,
                pool=common,
                options={"min": 0, "max": shape.runners, **options},
                free={"boot_time": boot, **free},
                least={"idle_timeout": free["idle_timeout"]} if "idle_timeout" in free else {},
                first_plan=PERIODS.get(algorithm),
            )


def _sized(shape: Shape) -> Iterator[tuple[str, dict[str, Any], dict[str, float]]]:
    """Yield algorithms with options, and with the parameters that are searched from a value on.

    Those that stop no runner need its idle time-out, which a runner of one job rarely meets.
    """
    leaving = {} if shape.ephemeral else {"idle_timeout": max(shape.longest_idle, 1.0)}
    kept = {0, 1} if shape.ephemeral else {0, 1, min(shape.stayed, shape.runners)}
    for fewest in sorted(kept):
        limits = {"min": fewest}
        yield "taskcluster", limits, leaving
        for objective in OBJECTIVES:
            yield "target-wait", limits, {**leaving, ".objective": objective}
        counted = {**limits, "length": "waiting+running", "list_length": shape.slots}
        yield "keda", counted, {}
        yield "keda", limits, {".list_length": LISTED}
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
    if shape.ephemeral:
        for fewest in WARM:
            yield "arc", {"min": fewest}, {}


def delayed(shape: Shape) -> Candidate:
    """Return runners that start for each job, after delays as recorded, up to a visible limit."""
    constant = shape.delays[-1] - shape.delays[0] <= CONSTANT
    values = {"empirical": {"values": list(shape.delays)}}
    boot = {"boot_time": shape.delays[0]} if constant else {"boot_delay": values}
    return Candidate(
        algorithm="arc",
        pool={"slots": 1, "uses": 1, **boot},
        options={
            "min": 0, "max": shape.runners if shape.limited else NO_LIMIT, "interval": AT_ONCE,
        },
    )  # fmt: skip


def _boots(shape: Shape) -> list[float]:
    """Return boot times to begin with: the shorter waits of runners' first jobs.

    Where the source says when a runner was requested, it is the usual time until its first start.
    """
    if len(shape.ages) >= ENOUGH:
        return [max(0.5, round(float(np.median(shape.ages)) - shape.pickup_time, 1))]
    waits = np.array(shape.first_waits or (60.0,))
    found = np.quantile(waits, (0.05, 0.3, 0.9)).tolist()
    if shape.ephemeral and shape.turnarounds:
        found = [shape.turnaround, found[0]]
    return sorted({max(0.5, round(one, 1)) for one in found})
