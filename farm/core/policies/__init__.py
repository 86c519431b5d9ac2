"""Queueing policies: which waiting job goes next. One file per policy; the registry is here.

A policy is a small pure function from a job to its sort key, smallest first::

    def key(job: Job, estimate: float, at: float, serial: int) -> Key

``estimate`` is the job's estimated run time (s), ``at`` the instant of its submission (farm time,
s), or of its release if it needs other jobs, ``serial`` its number in the order of submission. The
key is computed once, when the job is queued: ageing at one linear rate for all jobs never changes
their order, so its key is constant too. Static priority levels precede every policy, and the place
in line, which is the order of arrivals and releases, breaks every tie (``sort_key``), so neither
belongs in a policy. To add a policy: one file here and one line in ``POLICIES``, or your
own function named in the scenario as ``module:function``, or an entry point of the group
``farm.policies``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from farm.core.model import Job
from farm.core.policies import (
    ageing,
    buildbarn,
    critical_path,
    fifo,
    ljf,
    random_order,
    score,
    sjf,
)

KeyFunction = Callable[[Job, float, float, int], float | tuple[float, ...]]
Key = tuple[float, ...]
"""A sort key of a waiting job, smallest first."""


def sort_key(job: Job, own: float | tuple[float, ...], place: int) -> Key:
    """Return the sort key of a waiting job: static level, the policy's ``own`` key, its place.

    It is flat, so that keys of any two policies can be compared while one replaces the other.
    """
    return (-job.level, *own, place) if isinstance(own, tuple) else (-job.level, own, place)


class PolicyOptions(msgspec.Struct, frozen=True):
    """The options of a policy in a scenario."""

    #: seconds of run time that a second in the queue weighs (the ageing policies)
    aging_factor: float = ageing.AGING_FACTOR
    #: ``linear``, or ``matrix``: each matrix sorted, the matrices in order of release
    aging: str = "linear"
    #: seed of the ``random`` policy
    seed: int = 0


PolicyFactory = Callable[[PolicyOptions], KeyFunction]

POLICIES: dict[str, PolicyFactory] = {
    "buildbarn": lambda _: buildbarn.key,
    "critical-path": lambda _: critical_path.key,
    "fifo": lambda _: fifo.key,
    "ljf": lambda _: ljf.key,
    "ljf-aging": lambda o: ageing.make(o.aging_factor, o.aging, longest_first=True),
    "random": lambda options: random_order.make(options.seed),
    "score": lambda _: score.key,
    "sjf": lambda _: sjf.key,
    "sjf-aging": lambda o: ageing.make(o.aging_factor, o.aging, longest_first=False),
}


def takes_columns(policy: KeyFunction) -> bool:
    """Return whether a key function only calculates: it takes arrays in the place of numbers too.

    Those of the job's fields, of estimates, instants and serials.
    """
    if getattr(policy, "func", None) is ageing.linear:
        return True
    return policy in (buildbarn.key, critical_path.key, fifo.key, ljf.key, score.key, sjf.key)


def asks_for_path(policy: KeyFunction) -> bool:
    """Return whether a policy is given the length of a job's path as the estimate."""
    return policy is critical_path.key
