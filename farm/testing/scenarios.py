"""Small scenarios, to be varied in a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Given = Mapping[str, Any] | Sequence[Mapping[str, Any]]
#: what a source of jobs may be called in a scenario
SOURCES = {"arrivals", "matrices", "trace", "generator"}


def small_scenario(pool: Given = (), load: Given = (), **sections: Any) -> dict[str, Any]:
    """Return a scenario of one builder and one job of a second, with these changes.

    ``pool``: keys of the pool (called ``p``, for amd64), or of several pools. ``load``: keys of the
    jobs' ``arrivals``, or of several sources; a source of another kind is named in it.
    ``sections``: more keys of the scenario; with ``phases`` jobs arrive until these end.

    >>> found = farm.testing.small_scenario({"builders": 2}, {"count": 9, "every": "1m"}, seed=3)
    >>> farm.testing.simulated(found).summary["jobs"]["submitted"]
    9
    """
    limit = {} if "phases" in sections else {"count": 1}
    return {
        "pools": [_pool(one) for one in _each(pool)],
        "workload": [_source(one, limit) for one in _each(load)],
        **sections,
    }


def _each(given: Given) -> Sequence[Mapping[str, Any]]:
    return [given] if isinstance(given, Mapping) else given or [{}]


def _pool(given: Mapping[str, Any]) -> dict[str, Any]:
    size = {} if given.get("provisioner") else {"builders": 1}
    return {"name": "p", "platform": {"processor": "amd64"}, **size, **given}


def _source(given: Mapping[str, Any], limit: Mapping[str, int]) -> dict[str, Any]:
    if SOURCES & given.keys():
        return dict(given)
    every = {} if "poisson" in given else {"every": "1s"}
    limit = {} if "duration" in given else limit
    return {"arrivals": {**every, **limit, "service_time": "1s", **given}}
