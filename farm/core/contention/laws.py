"""How much the load on a builder slows its jobs down: the laws, and their form in a scenario.

A law counts load per resource. ``cpu`` looks at the heavy jobs (or at all threads against the
cores), ``memory`` at the memory-heavy jobs, each with a table of its own.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from farm.core.errors import InputError

Combine = Literal["product", "max"]


class Load(msgspec.Struct, frozen=True):
    """What runs on one builder: counts of jobs, and the threads of all of them together."""

    jobs: int = 0
    heavy: int = 0
    memory_heavy: int = 0
    threads: int = 0


class SlowdownTable(msgspec.Struct, frozen=True):
    """A factor for each number of heavy jobs; beyond the table's end its last step goes on.

    ``factors[k]`` is the slowdown with ``k`` heavy jobs: at least 1, never falling.
    """

    factors: tuple[float, ...]

    def slowdown(self, count: int) -> float:
        """Return the factor with ``count`` heavy jobs on the builder."""
        beyond = count - (len(self.factors) - 1)
        if beyond <= 0:
            return self.factors[count]
        step = self.factors[-1] - self.factors[-2] if len(self.factors) > 1 else 0.0
        return self.factors[-1] + beyond * step


class LinearSlowdown(msgspec.Struct, frozen=True):
    """No slowdown up to ``threshold`` heavy jobs, then ``slope`` more for each further one.

    The thesis's measurements are threshold 1, slope 0.4.
    """

    threshold: float
    slope: float

    def slowdown(self, count: int) -> float:
        """Return the factor with ``count`` heavy jobs on the builder."""
        return 1.0 + self.slope * max(0.0, count - self.threshold)


class ThreadSlowdown(msgspec.Struct, frozen=True):
    """Cores shared fairly by all threads of all jobs: max(1, threads ÷ cores).

    Light jobs count too. A heavy job counts for at least ``heavy_threads`` threads (0: for its own
    number only), so that a workload that only marks jobs as heavy needs no thread counts.
    """

    cores: float
    heavy_threads: int = 0

    def slowdown(self, count: int) -> float:
        """Return the factor with ``count`` threads on the builder."""
        return max(1.0, count / self.cores)


ResourceLaw = SlowdownTable | LinearSlowdown | ThreadSlowdown


class ContentionLaw(msgspec.Struct, frozen=True):
    """The slowdown of every job on a builder as a function of the builder's load.

    ``cpu`` looks at the heavy jobs (or at all threads), ``memory`` at the memory-heavy jobs; a
    job may count for both. None: the resource slows nobody. The resources slow every running job,
    heavy or not: all need the processor, and all go over the one bus.

    They are independent, so by default their factors multiply: a job that gets half the processor
    and finds the bus twice as slow while it has it advances at a quarter. (The thesis, §6.4.3,
    names the memory bus as a second resource and leaves the law open.) ``max`` is the other
    usual reading, the worst bottleneck alone.
    """

    cpu: ResourceLaw | None = None
    memory: SlowdownTable | LinearSlowdown | None = None
    combine: Combine = "product"

    def slowdown(self, load: Load) -> float:
        """Return the factor (at least 1) by which every job under this load is slowed."""
        cpu = self.cpu_slowdown(load)
        bus = self.memory.slowdown(load.memory_heavy) if self.memory else 1.0
        return cpu * bus if self.combine == "product" else max(cpu, bus)

    def cpu_slowdown(self, load: Load) -> float:
        """Return the processor's part of the factor."""
        if self.cpu is None:
            return 1.0
        threads = isinstance(self.cpu, ThreadSlowdown)
        return self.cpu.slowdown(load.threads if threads else load.heavy)

    def threads_of(self, threads: int, *, heavy: bool) -> int:
        """Return how many threads a job counts for under this law."""
        if heavy and isinstance(self.cpu, ThreadSlowdown):
            return max(threads, self.cpu.heavy_threads)
        return threads


#: page 16 of the thesis: 1, 1, 1.4, 1.8, 2.2, continued linearly
THESIS_TABLE = SlowdownTable((1.0, 1.0, 1.4, 1.8, 2.2))

NO_CONTENTION = ContentionLaw()


CPU_KEYS = ("slowdown", "linear", "threads")
KEYS = (*CPU_KEYS, "memory", "combine")


def contention_law(
    options: Mapping[str, Any] | None, where: str = "contention"
) -> ContentionLaw | None:
    """Build the law that a scenario's ``contention:`` mapping describes; None for none.

    Keys, each absent or None when not meant: for the processor one of ``slowdown`` (a table such as
    ``[1, 1, 1.4]`` by number of heavy jobs, or the word ``thesis``), ``linear`` (``{threshold: 1,
    slope: 0.4}``) and ``threads`` (``{cores: 8, heavy_threads: 4}``); for the memory bus ``memory``
    (a table, or threshold and slope); ``combine`` (product or max).

    Raises InputError that names the key (after ``where``), what was found and what is allowed.
    """
    if not options:
        return None
    if not isinstance(options, Mapping):
        raise InputError(f"{where}: found {options!r}; expected keys {', '.join(KEYS)}")
    _refuse_unknown(options, KEYS, where)
    combine: Any = options.get("combine") or "product"
    if combine not in ("product", "max"):
        raise InputError(f"{where}.combine: found {combine!r}; allowed: product, max")
    cpu = _cpu_law(options, where)
    memory = _memory_law(options.get("memory"), f"{where}.memory")
    return None if cpu is None and memory is None else ContentionLaw(cpu, memory, combine)


def _cpu_law(options: Mapping[str, Any], where: str) -> ResourceLaw | None:
    given = [key for key in CPU_KEYS if options.get(key) is not None]
    if len(given) > 1:
        raise InputError(f"{where}: found {' and '.join(given)}; expected one of them")
    if not given:
        return None
    value, where = options[given[0]], f"{where}.{given[0]}"
    if given[0] == "slowdown":
        return THESIS_TABLE if value == "thesis" else slowdown_table(value, where)
    return _linear(value, where) if given[0] == "linear" else _threads(value, where)


def _memory_law(given: Any, where: str) -> SlowdownTable | LinearSlowdown | None:
    if given is None:
        return None
    return _linear(given, where) if isinstance(given, Mapping) else slowdown_table(given, where)


def _linear(given: Any, where: str) -> LinearSlowdown:
    values = _mapping(given, ("threshold", "slope"), (), where)
    threshold = _number(values["threshold"], f"{where}.threshold", least=0)
    return LinearSlowdown(threshold, _number(values["slope"], f"{where}.slope", least=0))


def _threads(given: Any, where: str) -> ThreadSlowdown:
    values = _mapping(given, ("cores",), ("heavy_threads",), where)
    cores = _number(values["cores"], f"{where}.cores", above=0)
    heavy = values.get("heavy_threads") or 0
    if isinstance(heavy, bool) or not isinstance(heavy, int) or heavy < 0:
        raise InputError(f"{where}.heavy_threads: found {heavy!r}; expected a whole number from 0")
    return ThreadSlowdown(cores, heavy)


def _mapping(
    given: Any, needed: Sequence[str], optional: Sequence[str], where: str
) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(f"{where}: found {given!r}; expected {{{', '.join(needed)}}}")
    _refuse_unknown(given, (*needed, *optional), where)
    for key in needed:
        if key not in given:
            raise InputError(f"{where}.{key}: missing; expected {{{', '.join(needed)}}}")
    return given


def slowdown_table(given: Any, where: str) -> SlowdownTable:
    """Build a table from its factors; raises InputError that names the entry after ``where``."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InputError(f"{where}: found {given!r}; expected a table such as [1, 1, 1.4]")
    if not given:
        raise InputError(f"{where}: the table is empty; expected factors such as [1, 1, 1.4]")
    factors = [_number(factor, f"{where}[{k}]", least=1) for k, factor in enumerate(given)]
    for k in range(1, len(factors)):
        if factors[k] < factors[k - 1]:
            raise InputError(
                f"{where}[{k}]: found {factors[k]:g} after {factors[k - 1]:g}; more heavy jobs "
                "cannot make a builder faster, so factors must not fall"
            )
    return SlowdownTable(tuple(factors))


def _number(
    given: object, where: str, *, least: float = -math.inf, above: float = -math.inf
) -> float:
    if (
        not isinstance(given, int | float)
        or isinstance(given, bool)
        or not math.isfinite(given)
        or given < least
        or given <= above
    ):
        bound = f"above {above:g}" if above > -math.inf else f"of at least {least:g}"
        raise InputError(f"{where}: found {given!r}; expected a number {bound}")
    return float(given)


def _refuse_unknown(options: Mapping[str, Any], allowed: Sequence[str], where: str) -> None:
    for key in options:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"{where}.{key}: unknown key{hint} (allowed: {', '.join(allowed)})")
