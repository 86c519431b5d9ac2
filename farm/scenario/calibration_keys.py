"""``contention: {calibration: FILE}``: the law that ``farm admin calibrate`` measured.

Loading a scenario replaces the file's name by that law, so the scenario kept by a run does not need
the file.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationError

from farm.core.errors import ScenarioError, not_among
from farm.scenario.file.document import read_document
from farm.scenario.file.problems import describe
from farm.scenario.model import Scenario
from farm.scenario.pools import Pool, SlowdownTable, ThreadSlowdown
from farm.scenario.quantities import Count, NonNegative, Number, PositiveNumber
from farm.scenario.section import Mapped


def _kernel(name: object) -> str:
    if name not in KERNELS:
        raise ValueError(not_among(str(name), KERNELS))
    return str(name)


KERNELS = ("cpu", "memory", "stress_ng")
Kernel = Annotated[str, BeforeValidator(_kernel)]
"""The load of a burning process."""


class Measurement(Mapped):
    """The reference job beside `heavy` heavy jobs: real seconds, one for each repeat."""

    heavy: Count
    median_s: PositiveNumber
    spread_s: tuple[PositiveNumber, PositiveNumber]
    slowdown: PositiveNumber
    times_s: tuple[PositiveNumber, ...]


class Machine(Mapped):
    """The machine of the measurement; 0 and empty text mean unknown."""

    processor: str = ""
    cores: Count = 0
    usable_cores: NonNegative = 0.0
    system: str = ""
    python: str = ""
    busy_with_others: NonNegative = 0.0
    """Processors kept busy by other programs at the time."""


Law = Literal["slowdown", "threads"]
"""The law that a pool takes from a calibration: its table, or threads against measured cores."""


class ExampleError(Mapped):
    """How far a law is off jobs that burnt, heavy and light ones together."""

    law: Law
    error: Number
    """(predicted - measured) ÷ measured, of their mean time."""


class Calibration(Mapped):
    """The file saved by `farm admin calibrate`; a scenario needs only `slowdown`."""

    format: Literal["farm-calibration"] = "farm-calibration"
    version: Literal[1] = 1
    slowdown: SlowdownTable
    """Slowdown by number of heavy jobs, from 1 up, never falling."""
    measured_at: str = ""
    machine: Machine = Machine.model_construct()
    reference: str = ""
    threads: Count = 0
    cores: Count = 0
    """Number of processors used; 0: all."""
    repeats: Count = 0
    work_s: NonNegative = 0.0
    """Work of each thread of a burning reference job, s of an idle core; 0: unknown."""
    rates: dict[Kernel, PositiveNumber] = Field(default_factory=dict)
    """Work per second of one idle core, by kernel."""
    measurements: tuple[Measurement, ...] = ()
    law: Law = "slowdown"
    """What a pool takes; `threads` needs measurements of heavy jobs."""
    example: tuple[ExampleError, ...] = ()
    """What each law is off; empty: not measured."""

    @property
    def contention(self) -> dict[str, object]:
        """The law that a pool takes, as keys of its contention."""
        if self.law == "threads" and (cores := self.measured_cores) is not None:
            return {"threads": ThreadSlowdown(cores=cores, heavy_threads=self.threads)}
        return {"slowdown": self.slowdown}

    @property
    def measured_cores(self) -> float | None:
        """The number of cores shared by the threads of heavy jobs; None: unknown.

        The median of threads ÷ slowdown, over the numbers of heavy jobs that fill the machine; π
        counts as one more thread. Beside a burning reference it is the median of work ÷ time, so
        what a job's start costs, and what cores in company lack of the rates, are counted as well:
        the same job alone has both in part.
        """
        there, others = self.cores or self.machine.usable_cores, int(self.reference == "pi")
        times = {one.heavy: one.median_s for one in self.measurements if self.work_s}
        shares = [
            (heavy * self.threads + others)
            / (times[heavy] / self.work_s if heavy in times else slowdown)
            for heavy, slowdown in enumerate(self.slowdown)
            if self.threads and heavy * self.threads >= there
        ]
        return round(statistics.median(shares), 2) if shares else None


def read_calibration(path: Path) -> Calibration:
    """Read a calibration file, YAML or JSON; raises ScenarioError that names file, line and key."""
    document = read_document(path, hint="; farm admin calibrate -o writes one")
    try:
        return Calibration.model_validate(document)
    except ValidationError as error:
        raise ScenarioError(describe(error, document, str(path))) from None


def with_calibrations_read(scenario: Scenario) -> Scenario:
    """Return the scenario with laws instead of files; raises ScenarioError naming the key."""
    pools = tuple(_with_table(pool, k) for k, pool in enumerate(scenario.pools))
    return scenario if pools == scenario.pools else scenario.model_copy(update={"pools": pools})


def _with_table(pool: Pool, index: int) -> Pool:
    law = pool.contention
    if law is None or law.calibration is None:
        return pool
    try:
        found = read_calibration(Path(law.calibration)).contention
    except ScenarioError as error:
        raise ScenarioError.of(f"pools.{index}.contention.calibration", str(error)) from None
    measured = law.model_copy(update=found | {"calibration": None})
    return pool.model_copy(update={"contention": measured})
