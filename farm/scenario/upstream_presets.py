"""``like: jenkins``: the keys with which a farm decides as another system does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

System = Literal["taskcluster", "jenkins", "buildbarn", "launchpad"]

#: Jenkins lets the average of three builds be the estimate, and does not repeat those of a lost
#: agent; bb-deployments' scheduler has these keys, and this time for queues without workers
SCHEDULING: dict[str, dict[str, object]] = {
    "taskcluster": {"compatibility": "taskcluster"},
    "jenkins": {
        "policy": "fifo",
        "balancer": "jenkins",
        "runtime_estimates": "last-3",
        "retries": 0,
    },
    "buildbarn": {
        "policy": "buildbarn",
        "fair_share": ["correlated_invocations_id", "tool_invocation_id"],
        "platform_grace": "15m",
        "compatibility": "buildbarn",
    },
    "launchpad": {"policy": "score", "runtime_estimates": "launchpad", "failures": "launchpad"},
}
ESTIMATES: dict[str, dict[str, object]] = {"launchpad": {"rules": ["launchpad"]}}
#: provisioning algorithms that can count as Taskcluster's simulator does
COUNTING = ("taskcluster", "manual")


def with_preset(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario's keys with those that its ``like`` stands for; what is given stays."""
    system = document.get("like")
    found = dict(document)
    if not isinstance(system, str) or system not in SCHEDULING:
        return found
    for section, keys in (("scheduling", SCHEDULING), ("estimates", ESTIMATES)):
        given = found.get(section)
        if system in keys and (given is None or isinstance(given, Mapping)):
            found[section] = {**keys[system], **(given or {})}
    if system == "taskcluster" and isinstance(found.get("pools"), list | tuple):
        found["pools"] = [_counting(pool) for pool in found["pools"]]
    return found


def _counting(pool: object) -> object:
    """Return a pool whose provisioner counts as Taskcluster's simulator does, if it can."""
    sizing = pool.get("provisioner") if isinstance(pool, Mapping) else None
    if not isinstance(pool, Mapping) or not isinstance(sizing, Mapping):
        return pool
    if sizing.get("algorithm") not in COUNTING or "preset" in sizing:
        return pool
    return {**pool, "provisioner": {"compatibility": "taskcluster", **sizing}}
