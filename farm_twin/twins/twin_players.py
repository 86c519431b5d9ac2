"""Plays recorded arrivals and run times on a candidate for a pool, or on the whole twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
import numpy as np

from farm.columns import Floats
from farm.core.jobs.needs import need_of
from farm.core.model import Job, Platform
from farm.records.attempt import Attempt
from farm.records.traces.bundle import records_of
from farm.records.traces.trace_records import selected
from farm.scenario import load_scenario
from farm.scenario.file.document import parse_document
from farm.scenario.times_of_week import format_time_of_week
from farm.scenario.workload import TraceOptions
from farm.sim.engines import OneLoad
from farm.workload.blocks import Block, JobColumns
from farm.workload.build import jobs_of_records
from farm_twin.twins.candidates import Candidate
from farm_twin.twins.orders import Places
from farm_twin.twins.pool_shapes import PoolLoad, Shape
from farm_twin.twins.scenario_text import times_of
from farm_twin.twins.timetable import seconds_of_week
from provisioner.from_scenario import algorithms_of

PLATFORM = "x"
ALL = slice(0, None)
SOONER = 1.0
"""Seconds by which a job may arrive sooner or later in a repetition: most records are no finer."""
SHORTEST = 1e-3
"""Seconds that a job takes at least."""
MOST_RETRIES = 100
"""Retries of a job in a twin with losses."""


def retries_of(shapes: Sequence[Shape]) -> dict[str, int]:
    """Return the keys with which jobs are tried again: until they end, if losses are drawn.

    Otherwise as often as records of lost attempts show, for a load whose losses are drawn.
    """
    if any(one.loss_rate for one in shapes):
        return {"retries": MOST_RETRIES, "max_builders_lost": 0}
    if not any(one.tries.lost for one in shapes):
        return {}
    return {"retries": max(one.tries.most_lost for one in shapes), "max_builders_lost": 0}


class Written:
    """Plays the records on the farm as a scenario's text has it: read back, with all its pools."""

    def __init__(self, text: str, ran: list[Attempt]) -> None:
        self._scenario = load_scenario(parse_document(text, "twin"))
        records = selected(records_of(ran, {}), TraceOptions())
        jobs = jobs_of_records(self._scenario, records)
        jobs.hold()
        self._load, self._jobs, self._ids = OneLoad(jobs), jobs.held or Block({}), records.ids or ()
        self._needed = jobs.needed
        self._in_group = {attempt.id for attempt in ran if attempt.group}
        #: by the number of the repetition
        self._waits: dict[int, dict[str, float]] = {}

    def waits(self, load: PoolLoad, number: int = 1) -> Floats:
        """Return the wait of each job of a pool (s), by arrival; nan: it has not started here.

        The first is the scenario as it is written. Others are repetitions of the farm: with other
        draws of what is random, and jobs that come up to ``SOONER`` s sooner or later. A job that a
        newer run cancels here before it starts counts with its recorded wait: it has no other.
        """
        if number not in self._waits:
            scenario = self._scenario.model_copy(update={"seed": number})
            played, order = (self._load, ALL) if number == 1 else self._moved(number)
            waits = played.waits(scenario, algorithms_of(scenario))
            ids = np.array(self._ids)[order].tolist()
            self._waits[number] = dict(zip(ids, waits.tolist(), strict=True))
        found = self._waits[number]
        waits = np.array([found.get(one.id, np.nan) for one in load.attempts])
        if not self.is_closed:
            return waits
        may_be_cancelled = np.array([one.id in self._in_group for one in load.attempts])
        return np.where(np.isnan(waits) & may_be_cancelled, load.waited, waits)

    @property
    def is_closed(self) -> bool:
        """Whether some jobs are released, or cancelled, by others."""
        return bool(self._needed or self._in_group)

    def has(self, number: int) -> bool:
        """Return whether a repetition was played already, for another pool."""
        return number in self._waits

    def _moved(self, number: int) -> tuple[OneLoad, Places]:
        """Return the jobs as they might come another time, and the recorded place of each."""
        arrived = self._jobs.array("arrived_at")
        moved = arrived + np.random.default_rng(number).uniform(-SOONER, SOONER, len(arrived))
        moved = np.maximum(0.0, moved)
        self._with_their_needs(moved)
        order = np.argsort(moved, kind="stable")
        jobs = JobColumns.of(Block({**self._jobs.columns, "arrived_at": moved}).taken(order))
        jobs.needed = self._needed
        return OneLoad(jobs), order

    def _with_their_needs(self, moved: Floats) -> None:
        """Let jobs be submitted with the last of those that they need."""
        if not self._needed:
            return
        ids = self._jobs.column("id").tolist()
        places = {name: place for place, name in enumerate(ids)}
        for place, needs in enumerate(self._jobs.column("needs").tolist()):
            if needs:
                moved[place] = max(moved[places[need_of(text).job]] for text in needs)


class Player:
    """Plays the recorded arrivals and run times of a pool on other pools."""

    def __init__(self, shape: Shape, load: PoolLoad) -> None:
        self._before, self._after = times_of(shape)
        self._shape, self._load = shape, load
        #: by the first job and the one after the last
        self._loads: dict[tuple[int, int | None], OneLoad] = {}

    def _loaded(self, part: slice) -> OneLoad:
        """Return some jobs, made once for all candidates."""
        ends = part.start, part.stop
        if ends not in self._loads:
            self._loads[ends] = OneLoad(list(islice(self._jobs(), *ends)))
        return self._loads[ends]

    def _jobs(self) -> Iterator[Job]:
        load = self._load
        times = zip(load.arrived.tolist(), load.waited.tolist(), load.ran.tolist(), strict=True)
        for number, (one, (arrived, waited, ran)) in enumerate(
            zip(load.attempts, times, strict=True)
        ):
            job = self._job(str(number), arrived, max(SHORTEST, ran), one.traits, one.level)
            # the order of the recorded starts, for a policy by score
            yield msgspec.structs.replace(job, score=-arrived - waited)

    def _job(
        self, name: str, arrived: float | None, ran: float, traits: dict[str, str], level: int
    ) -> Job:
        """Return a job of which only what a queue sees counts."""
        return Job(
            id=name,
            service_time=ran + self._before,
            declared_time=ran,
            arrived_at=arrived,
            platform=Platform(processor=PLATFORM),
            attributes=traits,
            level=level,
        )

    def play(self, candidate: Candidate, part: slice = ALL, seed: int = 1) -> Floats:
        """Return the wait of each of some jobs (s), by arrival, if there were no earlier ones."""
        begins = float(self._load.arrived[part.start])
        return self._waits(candidate, self._loaded(part), seed, begins)

    def play_others(self, candidate: Candidate, jobs: Sequence[Job], seed: int) -> Floats:
        """Return the wait of other jobs (s), by arrival, of which only what a queue sees counts."""
        others = [
            self._job(one.id, one.arrived_at, one.service_time, one.attributes, one.level)
            for one in jobs
        ]
        return self._waits(candidate, OneLoad(others), seed)

    def _waits(
        self, candidate: Candidate, load: OneLoad, seed: int, planned: float = 0.0
    ) -> Floats:
        begins = self._load.begins + self._shape.clock.ahead
        pool = {"name": "p", "platform": {"processor": PLATFORM}, "inter_job_time": self._after}
        pool |= candidate.document(planned)
        document = {
            "seed": seed,
            "starts": format_time_of_week(seconds_of_week(begins)),
            "pools": [pool],
            "workload": [{"arrivals": {"every": 1, "count": 1, "service_time": 1}}],
            "scheduling": {**candidate.scheduling, **retries_of([self._shape])},
        }
        scenario = load_scenario(document)
        waits = load.waits(scenario, algorithms_of(scenario))
        # the slot is held before the start: that time is in the service time here
        return waits + self._before
