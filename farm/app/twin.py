"""Makes a twin: the farm in a bundle as a scenario, and how well it waits as that farm did."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from farm.core.errors import InputError, TraceError, file_access
from farm.core.fields import json_name
from farm.core.model import Job, Platform
from farm.records.bundle import Bundle, write_bundle
from farm.results.formatting import readable_span
from farm.results.table.columns import Floats
from farm.scenario import load_scenario
from farm.sim.one_load import OneLoad
from farm.twin.baseline import Check, HourCheck, by_hour, check
from farm.twin.calibration import Candidate, Fit, Search, candidates_of
from farm.twin.flags import OVERTAKEN, Flag, flags_of, hidden_order, overtaking
from farm.twin.pools import Load, Shape, pools_of
from farm.twin.scenario_text import (
    evidence_of,
    pool_document,
    pool_names,
    scenario_text,
    times_of,
)
from farm.units import many
from provisioner.from_scenario import algorithms_of

EXPLAINED_BY, SMALL = 0.3, 5.0
"""An order is found if it leaves this share of the error per job, or so few seconds."""
EXPLAINED = {"cap", "gate", "idle runners"}
"""Flags that explain why jobs overtake each other."""
ENOUGH = 20
"""Jobs that each half must have."""
PLATFORM = "x"
SHORTEST = 1e-3
"""Seconds that a job takes at least."""
LIKELY_PLAYS, MOST_LOADS = 50, 16
"""Plays of a load, and loads that are kept."""
MOST_CALIBRATED = 10_000
"""Jobs of the first half that are played to find a candidate."""


class PoolTwin(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """A pool of the twin, and what was found of it."""

    name: str
    platforms: tuple[str, ...]
    algorithm: str
    document: dict[str, Any]
    scheduling: dict[str, Any]
    shape: Shape
    evidence: list[str]
    flags: list[Flag]
    #: on the second half of the records; None: there are too few jobs
    check: Check | None
    hours: list[HourCheck]
    #: candidates that were played
    played: int
    believable: bool
    #: in one sentence, why or why not
    verdict: str


class Twin(msgspec.Struct, frozen=True, kw_only=True, rename=json_name):
    """A farm's twin."""

    pools: list[PoolTwin]
    text: str

    @property
    def believable(self) -> bool:
        """Whether every pool waits as the farm did."""
        return all(one.believable for one in self.pools)


def twin_of(bundle: Bundle, path: str, tell: Callable[[str], None] = lambda _: None) -> Twin:
    """Return the twin of a bundle that lies at ``path`` from the scenario's folder.

    ``tell`` is called with what is done next. Raises TraceError if no job ran.
    """
    found = pools_of(bundle)
    if not found:
        raise TraceError(
            "found no job with a start, an end and a time from which it waited; allowed: some"
        )
    _refuse_what_carries_no_twin([load for _, load in found], bundle.manifest.resolution_time)
    pools = []
    for name, (shape, load) in zip(pool_names([one for one, _ in found]), found, strict=True):
        tell(f"pool {name}: {len(load.attempts):,} jobs")
        pools.append(_pool_twin(name, shape, load))
    schedulings = {msgspec.json.encode(one.scheduling): one.scheduling for one in pools}
    # one order for the whole farm: that of the busiest pool
    scheduling = {"policy": "fifo", **next(iter(schedulings.values()))}
    remarks = [f"A twin of the farm whose records are in {path}.", *_verdict_lines(pools)]
    documents = [(one.document, one.evidence) for one in pools]
    text = scenario_text(path, documents, scheduling, remarks, _errors(pools))
    return Twin(pools=pools, text=text)


def _errors(pools: Sequence[PoolTwin]) -> tuple[float, float] | None:
    """Return the errors of the mean wait of all jobs checked, and of the worst pool's p95."""
    checks = [one.check for one in pools if one.check is not None]
    recorded = sum(one.recorded_mean * one.jobs for one in checks)
    if not recorded:
        return None
    simulated = sum(one.simulated_mean * one.jobs for one in checks)
    loaded = [one.p95_error.value for one in checks if one.loaded]
    return simulated / recorded - 1, max(loaded, key=abs, default=0.0)


def _refuse_what_carries_no_twin(loads: Sequence[Load], resolution: float) -> None:
    most = max(len(one.attempts) for one in loads)
    if most < 2 * ENOUGH:
        raise TraceError(
            f"found {many(most, 'job')} of a pool at most; allowed: {2 * ENOUGH} or more, as half "
            "of them are needed to check the twin"
        )
    if all(one.waited.max() <= resolution for one in loads):
        raise TraceError(
            "every wait is zero: either there always was room, or the records do not have the "
            "instant from which a job waited; allowed: records with waits"
        )


def _verdict_lines(pools: Sequence[PoolTwin]) -> Iterator[str]:
    for one in pools:
        yield f"{one.name}: {one.verdict}"


def _pool_twin(name: str, shape: Shape, load: Load) -> PoolTwin:
    middle = _middle(load.arrived)
    lost = sum(one.result == "lost" for one in load.attempts)
    flags = list(flags_of(shape, load, lost, _missing(load)))
    player = Player(shape, load)
    fit, played, order = _fitted(shape, load, player, middle)
    if order is not None and not {one.kind for one in flags} & EXPLAINED:
        flags.append(order)
    candidate = fit.candidate
    found: Check | None = None
    hours: list[HourCheck] = []
    if min(middle, len(load.waited) - middle) >= ENOUGH:
        waits = player.play(candidate)
        found = check(load.waited[middle:], waits[middle:])
        hours = by_hour(load.begins + load.arrived[middle:], load.waited[middle:], waits[middle:])
    believable, verdict = _verdict(found, flags)
    return PoolTwin(
        name=name,
        platforms=shape.platforms,
        algorithm=candidate.algorithm,
        document=pool_document(name, shape, candidate),
        scheduling=dict(candidate.scheduling),
        shape=shape,
        evidence=evidence_of(shape, candidate, f" (best of {played} tried)"),
        flags=flags,
        check=found,
        hours=hours,
        played=played,
        believable=believable,
        verdict=verdict,
    )


def _middle(arrived: Floats) -> int:
    """Return where the second half begins: in time, or in jobs if one half would have too few."""
    place = int(np.searchsorted(arrived, (arrived[0] + arrived[-1]) / 2))
    return place if min(place, len(arrived) - place) >= ENOUGH else len(arrived) // 2


def _missing(load: Load) -> int:
    """Return how many earlier attempts of jobs are not in the records."""
    known = {(one.job or one.id, one.attempt) for one in load.attempts}
    return sum(
        (job, number) not in known
        for job, attempt in list(known)
        for number in range(1, min(attempt, 100))
    )


def _fitted(shape: Shape, load: Load, player: Player, middle: int) -> tuple[Fit, int, Flag | None]:
    """Return the candidate that waits as the first half did, and how many were played.

    The flag is there if jobs were started in an order that no candidate explains.
    """
    half = min(middle if middle >= ENOUGH else len(load.waited), MOST_CALIBRATED)
    recorded = load.waited[:half]
    search = Search(lambda one: player.play(one, half), recorded)
    fit = search.best(candidates_of(shape))[0]
    overtaken = overtaking(load, shape)
    if overtaken < OVERTAKEN:
        return fit, search.played, None
    # later jobs overtake, too: all are played
    again = Search(player.play, recorded)
    before = again.fit(fit.candidate)
    fit = again.ordered(before, load.attempts)
    played = search.played + again.played
    explained = fit.error <= max(EXPLAINED_BY * before.error, SMALL)
    return fit, played, None if explained else hidden_order(overtaken)


def _verdict(found: Check | None, flags: Sequence[Flag]) -> tuple[bool, str]:
    because = "; ".join(one.text for one in flags)
    if found is None:
        return False, f"not believable: too few jobs to check ({ENOUGH} in each half are needed)"
    spans = (found.simulated_mean, found.recorded_mean, found.simulated_p95, found.recorded_p95)
    mean, recorded_mean, p95, recorded_p95 = map(readable_span, spans)
    says = (
        f"mean wait {mean} where {recorded_mean} was recorded, p95 {p95} where {recorded_p95} was"
    )
    blocking = [one for one in flags if one.kind not in ("lost attempts", "never saturated")]
    if found.believable and not blocking:
        return True, says + (f"; {because}" if because else "")
    return False, f"not believable: {because or says}" + (f" ({says})" if because else "")


class Player:
    """Plays the recorded arrivals and run times of a pool on other pools."""

    def __init__(self, shape: Shape, load: Load) -> None:
        self._before, self._after = times_of(shape)
        self._load = load
        #: by phase, and number of jobs (None: all)
        self._loads: dict[tuple[float, int | None], OneLoad] = {}

    def _loaded(self, phase: float, first: int | None) -> OneLoad:
        """Return the first jobs, the first of which arrives at this instant."""
        key = phase, first
        if key not in self._loads:
            self._loads[key] = OneLoad(list(islice(self._jobs(phase), first)), LIKELY_PLAYS)
            if len(self._loads) > MOST_LOADS:
                self._loads.pop(next(iter(self._loads)))
        return self._loads[key]

    def _jobs(self, phase: float) -> Iterator[Job]:
        load = self._load
        times = zip((load.arrived + phase).tolist(), load.ran.tolist(), strict=True)
        for number, (one, (arrived, ran)) in enumerate(zip(load.attempts, times, strict=True)):
            yield Job(
                id=str(number),
                service_time=max(SHORTEST, ran) + self._before,
                declared_time=max(SHORTEST, ran),
                platform=Platform(processor=PLATFORM),
                arrived_at=arrived,
                attributes=_attributes(one.attributes, one.user, one.matrix),
            )

    def play(self, candidate: Candidate, first: int | None = None) -> Floats:
        """Return the wait of each of the first jobs (s), by arrival."""
        document = {
            "pools": [
                {
                    "name": "p",
                    "platform": {"processor": PLATFORM},
                    "inter_job_time": self._after,
                    **candidate.document(),
                }
            ],
            "workload": [{"arrivals": {"every": 1, "count": 1, "service_time": 1}}],
            "scheduling": dict(candidate.scheduling),
        }
        scenario = load_scenario(document)
        waits = self._loaded(candidate.phase, first).waits(scenario, algorithms_of(scenario))
        # the slot is held before the start: that time is in the service time here
        return waits + self._before


def _attributes(own: Mapping[str, str], user: str, matrix: str) -> dict[str, str]:
    more = {"user": user, "matrix": matrix}
    return {**own, **{name: value for name, value in more.items() if value}}


def write_twin(
    bundle: Bundle, source: Path | None, out: Path, tell: Callable[[str], None] = lambda _: None
) -> Twin:
    """Make the twin of a bundle and write its scenario, if any pool is believable.

    Without the bundle's ``source`` (a directory), it is written beside ``out``. Raises InputError
    where ``out`` exists.
    """
    if out.exists():
        raise InputError(f"{out}: exists already; allowed: a new file")
    place = source or out.with_suffix(".records")
    if source is None and place.exists():
        raise InputError(f"{place}: exists already, and the records would be kept there")
    twin = twin_of(bundle, os.path.relpath(place, out.parent), tell)
    if not any(one.believable for one in twin.pools):
        return twin
    if source is None:
        write_bundle(place, bundle)
    with file_access(out):
        out.write_text(twin.text, encoding="utf-8")
    return twin


__all__ = ["Candidate", "PoolTwin", "Twin", "twin_of", "write_twin"]
