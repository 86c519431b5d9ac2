"""Presets: keys that one name stands for; those that are given keep their values.

``like: jenkins`` has a farm decide as another system does. A provisioner's ``preset`` has the
settings that an autoscaler's distribution comes with, so a resolved scenario shows all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

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


def scenario_with_preset(document: Mapping[str, Any]) -> dict[str, Any]:
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


class Preset(msgspec.Struct, frozen=True):
    """Values by key, as a scenario file has them."""

    #: of the ``provisioner``, its ``algorithm`` among them
    provisioner: Mapping[str, object]
    #: of the pool
    pool: Mapping[str, object]


PRESETS: Mapping[str, Preset] = {
    # the defaults of the stack's parameters: agents end by themselves, the scaler only scales out
    "elastic-ci-stack": Preset(
        {
            "algorithm": "buildkite",
            "min": 0,
            "max": 10,
            "interval": "10s",
            "out_factor": 1.0,
            "out_cooldown": "5m",
            "in_cooldown": "1h",
            "disable_scale_in": True,
            "instance_buffer": 0,
        },
        {"idle_timeout": "10m"},
    ),
}


def pool_with_preset(pool: Mapping[str, object]) -> Mapping[str, object]:
    """Return a pool of a scenario file with what its preset adds, if it names a known one."""
    given = pool.get("provisioner")
    if not isinstance(given, Mapping):
        return pool
    name = given.get("preset")
    preset = PRESETS.get(name) if isinstance(name, str) else None
    if preset is None:
        return pool
    return {**preset.pool, **pool, "provisioner": {**preset.provisioner, **given}}


def pool_without_preset(pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resolved pool without its preset and the values that it gave, but the algorithm."""
    given = dict(pool["provisioner"])
    preset = PRESETS[given.pop("preset")]
    own = {key: value for key, value in pool.items() if preset.pool.get(key) != value}
    kept = {key: value for key, value in given.items() if preset.provisioner.get(key) != value}
    return {**own, "provisioner": {"algorithm": given["algorithm"], **kept}}
