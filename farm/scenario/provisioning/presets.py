"""Presets: the settings that an autoscaler's distribution comes with, by name.

A preset fills in the keys of a pool and its provisioner that are not given; so a resolved scenario
shows all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


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


def with_preset(pool: Mapping[str, object]) -> Mapping[str, object]:
    """Return a pool of a scenario file with what its preset adds, if it names a known one."""
    given = pool.get("provisioner")
    if not isinstance(given, Mapping):
        return pool
    name = given.get("preset")
    preset = PRESETS.get(name) if isinstance(name, str) else None
    if preset is None:
        return pool
    return {**preset.pool, **pool, "provisioner": {**preset.provisioner, **given}}


def without_preset(pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resolved pool without its preset and the values that it gave, but the algorithm."""
    given = dict(pool["provisioner"])
    preset = PRESETS[given.pop("preset")]
    own = {key: value for key, value in pool.items() if preset.pool.get(key) != value}
    kept = {key: value for key, value in given.items() if preset.provisioner.get(key) != value}
    return {**own, "provisioner": {"algorithm": given["algorithm"], **kept}}
