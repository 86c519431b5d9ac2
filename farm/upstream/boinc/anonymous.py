"""Hosts that bring their own app versions.

Such a client keeps its own figure of its speed, so the server changes the *sizes* that it sends:
then client (its speed, scaled size) and server (measured speed, true size) foresee the same time.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from farm.upstream.boinc.averages import Variance
from farm.upstream.boinc.claims import MIN_HOST_SAMPLES
from farm.upstream.boinc.flops import SPEED_RATIO_LIMIT

Resource = Literal["cpu", "nvidia", "ati", "intel", "apple"]

_RESOURCE_NUMBERS: dict[str, int] = {"cpu": 2, "nvidia": 3, "ati": 4, "intel": 5, "apple": 6}


class AnonymousSpeed(msgspec.Struct, frozen=True):
    """What the server believes, what the client believes, and the factor between the two."""

    flops: float
    client_flops: float
    size_scale: float = 1.0


def generalised_version(app: int, resource: Resource) -> int:
    """Return the number under which a host's history with an app and a resource is kept."""
    return app * 1_000_000 + _RESOURCE_NUMBERS[resource]


def anonymous_speed(
    claimed_flops: float,
    benchmark: float,
    et: Variance | None,
    host_samples: float = MIN_HOST_SAMPLES,
) -> AnonymousSpeed:
    """Return the speed of a host's own version; no claim (0) means its benchmark.

    Its history counts from more than ``host_samples`` samples on if the mean time per size is not
    0, and makes it at most 250 times faster than it says.
    """
    client = claimed_flops or benchmark
    if et is None or et.n <= host_samples or et.avg <= 0 or client <= 0:
        return AnonymousSpeed(client, client)
    flops = min(1.0 / et.avg, client * SPEED_RATIO_LIMIT)
    return AnonymousSpeed(flops, client, client / flops)
