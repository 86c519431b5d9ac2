"""Other rules for a farm that is up: sent, and awaited until the farm goes by them."""

from __future__ import annotations

import time

from farm.app.long_running.farm_place import check_fair_share
from farm.core.errors import InputError, ServerError, did_you_mean
from farm.core.events import SchedulingChanged
from farm.core.policies import POLICIES
from farm.core.rules import Choices
from farm.live.operating.client import FarmClient
from farm.live.wire.messages import UNSTAMPED

#: real seconds until the scheduler goes by what was sent, and between two looks
TIMEOUT, INTERVAL = 20.0, 0.1


def choose(
    client: FarmClient,
    policy: str | None = None,
    aging_factor: float | None = None,
    weights: dict[str, float] | None = None,
) -> Choices:
    """Change the rules of a farm (None: as it is); return its rules after the change.

    Raises InputError for a policy that it does not know, or weights of a farm without fair share;
    ServerError if its scheduler does not answer in time.
    """
    if policy is not None and policy not in POLICIES and ":" not in policy:
        raise InputError(
            f"found policy {policy!r:.60}; {did_you_mean(policy, POLICIES)}allowed: "
            f"{', '.join(POLICIES)}, or the module:function of its scenario"
        )
    if weights:
        check_fair_share(client, "--weight")
    wanted = SchedulingChanged(UNSTAMPED, policy, aging_factor, weights)
    goal = client.status().choices.changed(wanted)
    client.send(wanted)
    deadline = time.monotonic() + TIMEOUT
    while (found := client.status().choices) != goal:
        if time.monotonic() > deadline:
            raise ServerError(
                f"the farm still goes by {found.policy} after {TIMEOUT:g}s: its scheduler is busy "
                f"or down, or {goal.policy} is not the module:function of its scenario"
            )
        time.sleep(INTERVAL)
    return found
