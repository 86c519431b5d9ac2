"""Queueing policies: which waiting job goes next. All sort keys are here, and the registry.

A policy is a small pure function from a job to its sort key, smallest first::

    def fifo(job: Job, estimate: float, at: float, serial: int) -> Key

``estimate`` is the job's estimated run time (s), ``at`` the instant of its submission (farm time,
s), ``serial`` its place in the order of submission. The key is computed once, when the job is
queued: ageing at one linear rate for all jobs never changes their order, so its key is constant
too. Static priority levels precede every policy, and the serial breaks every tie (``sort_key``), so
neither belongs in a policy. To add a policy: a function here and a line in ``POLICIES``, or your
own function named in the scenario as ``module:function``, or an entry point of the group
``farm.policies``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from farm.core.model import Job

KeyFunction = Callable[[Job, float, float, int], float | tuple[float, ...]]
Key = tuple[float, ...]
"""A sort key of a waiting job, smallest first."""


def sort_key(job: Job, own: float | tuple[float, ...], serial: int) -> Key:
    """Return the sort key of a waiting job: static level, the policy's ``own`` key, serial.

    It is flat, so that keys of any two policies can be compared while one replaces the other.
    """
    return (-job.level, *own, serial) if isinstance(own, tuple) else (-job.level, own, serial)


def fifo(job: Job, estimate: float, at: float, serial: int) -> float:
    """First in, first out: the same key for every job, so that the serial decides."""
    return 0.0


def ljf(job: Job, estimate: float, at: float, serial: int) -> float:
    """Longest job first, by estimated run time."""
    return -estimate


def sjf(job: Job, estimate: float, at: float, serial: int) -> float:
    """Shortest job first, by estimated run time."""
    return estimate


def score(job: Job, estimate: float, at: float, serial: int) -> float:
    """Launchpad's score: the higher score first, then the earlier job."""
    return -job.score


def buildbarn(job: Job, estimate: float, at: float, serial: int) -> tuple[float, float, float]:
    """Buildbarn's own order: priority, then longest expected run time, then age."""
    return (job.priority, -estimate, at)


def ageing(factor: float, sign: float, job: Job, estimate: float, at: float, serial: int) -> float:
    """Longest (``sign`` -1) or shortest job first; waiting makes it look longer, or shorter.

    Jenkins' Priority Sorter weighs ``weight - time in queue x factor``, smallest first (thesis
    4.2.1); the weight is the estimate, negative where the longest goes first. With one rate for all
    jobs the difference of two weights never changes, so ``weight + factor x submitted_at`` is a
    constant key, and nothing need be sorted again.
    """
    return factor * at + sign * estimate


def ageing_by_matrix(sign: float) -> KeyFunction:
    """Return what the thesis's simulation means by ageing: older matrices first, each sorted.

    Matrices go in the order in which they were first seen, however long their jobs are (its
    pseudo-code sorts inside each matrix and concatenates the matrices). A job without a matrix is a
    matrix of its own.
    """
    released: dict[str, int] = {}

    def key(job: Job, estimate: float, at: float, serial: int) -> tuple[float, float]:
        rank = serial if job.matrix is None else released.setdefault(job.matrix, serial)
        return (float(rank), sign * estimate)

    return key


def random_order(seed: int) -> KeyFunction:
    """Return the key function of a seeded shuffle of all jobs.

    The core uses no random generator: the key is a hash of the seed and the job's serial, so the
    same seed gives the same order, and a job keeps its place whatever else arrives.
    """
    start = splitmix64(seed)

    def key(job: Job, estimate: float, at: float, serial: int) -> float:
        return splitmix64(start ^ serial) / 2.0**64

    return key


_MASK = (1 << 64) - 1


def splitmix64(value: int) -> int:
    """Return a well-mixed 64-bit hash of an integer (the finaliser of the SplitMix64 generator)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class PolicyOptions(msgspec.Struct, frozen=True):
    """The options of a policy in a scenario."""

    #: seconds of run time that a second in the queue weighs (the ageing policies)
    aging_factor: float = 10.0
    #: ``linear``, or ``matrix``: each matrix sorted, the matrices in order of release
    aging: str = "linear"
    #: seed of the ``random`` policy
    seed: int = 0


def _aged(sign: float, options: PolicyOptions) -> KeyFunction:
    if options.aging == "matrix":
        return ageing_by_matrix(sign)
    return partial(ageing, options.aging_factor, sign)


POLICIES: dict[str, Callable[[PolicyOptions], KeyFunction]] = {
    "buildbarn": lambda _: buildbarn,
    "fifo": lambda _: fifo,
    "ljf": lambda _: ljf,
    "ljf-aging": partial(_aged, -1.0),
    "random": lambda options: random_order(options.seed),
    "score": lambda _: score,
    "sjf": lambda _: sjf,
    "sjf-aging": partial(_aged, 1.0),
}


def takes_columns(policy: KeyFunction) -> bool:
    """Return whether a key function only calculates: it takes arrays in the place of numbers too.

    Those of the job's fields, of estimates, instants and serials.
    """
    return policy in (buildbarn, fifo, ljf, score, sjf) or getattr(policy, "func", None) is ageing
