"""What operators set of a live farm: rules, sizes of pools, and which jobs are urgent."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from farm.app.long_running.farm_place import check_fair_share
from farm.core.errors import InputError, ServerError, did_you_mean, nearest, not_among
from farm.core.events import PoolSize, PriorityChanged, SchedulingChanged
from farm.core.model import LEAST_LEVEL, MAX_LEVEL
from farm.core.policies import POLICIES
from farm.core.rules import Choices
from farm.live.operating.client import FarmClient
from farm.live.wire.messages import UNSTAMPED
from farm.live.wire.pool_report import PoolReport
from farm.live.wire.report_checks import MAX_BUILDERS

#: real seconds until the scheduler goes by what was sent, and between two looks
TIMEOUT, INTERVAL = 20.0, 0.1


def choose(client: FarmClient, wanted: SchedulingChanged) -> Choices:
    """Change rules and sizes of a farm; return what it goes by after the change.

    Raises ServerError if its scheduler does not answer in time.
    """
    goal = client.status().choices.changed(wanted)
    client.send(wanted)
    deadline = time.monotonic() + TIMEOUT
    while (found := client.status().choices) != goal:
        if time.monotonic() > deadline:
            raise ServerError(
                f"the farm has not changed after {TIMEOUT:g}s: its scheduler is busy or down, or "
                f"{goal.policy} is not the module:function of its scenario"
            )
        time.sleep(INTERVAL)
    return found


POOL_KEY = re.compile(r"pools\.(?P<pool>.+?)\.(?P<of>builders|provisioner\.(?:min|max))")
OF_POOLS = ("builders", "provisioner.min", "provisioner.max")
OF_RULES = ("scheduling.policy", "scheduling.aging_factor", "scheduling.weights.PATH")
ALLOWED = ", ".join([*(f"pools.NAME.{one}" for one in OF_POOLS), *OF_RULES])

#: what is set of jobs
OF_JOBS = ("urgency", "score", "priority", "level")


class ChangedKey(msgspec.Struct, frozen=True):
    """One key of a farm, and its value before and after."""

    key: str
    before: str
    after: str


def settings_of(client: FarmClient) -> dict[str, str]:
    """Return the keys of a live farm that can be set, with their present values."""
    choices = client.status().choices
    found = {
        "scheduling.policy": choices.policy,
        "scheduling.aging_factor": f"{choices.aging_factor:g}",
    }
    found |= {f"scheduling.weights.{path}": f"{one:g}" for path, one in choices.weights.items()}
    for name, report in sorted(client.pools().items()):
        found |= {_key(name, of): str(value) for of, value in _sizes(report).items()}
    return found


def asked_of(assignments: Sequence[str]) -> dict[str, str]:
    """Return the value of each key in ``KEY=VALUE``, as ``pools.linux.builders=20``.

    Raises InputError for what no farm could be asked.
    """
    asked = {}
    for text in assignments:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not value:
            raise InputError(f"found {text!r:.100}; allowed: KEY=VALUE, of which KEY is {ALLOWED}")
        key = "scheduling.policy" if key == "policy" else key  # as in --set
        if not POOL_KEY.fullmatch(key):
            _with_rule(SchedulingChanged(UNSTAMPED), key, value)
        elif not value.isdecimal() or int(value) > MAX_BUILDERS:
            allowed = f"a whole number from 0 to {MAX_BUILDERS:,}"
            raise InputError(f"{key}: found {value!r:.40}; allowed: {allowed}")
        asked[key] = value
    return asked


def set_all(client: FarmClient, asked: dict[str, str]) -> list[ChangedKey]:
    """Set keys of a live farm (``asked_of``), all or none; return them once it goes by them.

    Raises InputError for a key that this farm has not; ServerError if the scheduler does not
    answer in time.
    """
    before, pools = settings_of(client), client.pools()
    wanted = SchedulingChanged(UNSTAMPED)
    for key, value in asked.items():
        if match := POOL_KEY.fullmatch(key):
            wanted = _with_size(wanted, match["pool"], match["of"], int(value), pools)
        else:
            wanted = _with_rule(wanted, key, value)
    if wanted.weights:
        check_fair_share(client, "scheduling.weights")
    for name in wanted.pools or {}:
        _check_limits(name, wanted, pools[name])
    choose(client, wanted)
    return [ChangedKey(key, before.get(key, "1"), value) for key, value in asked.items()]


def urgency_of(assignments: Sequence[str]) -> PriorityChanged:
    """Return what ``urgency=5``, ``score=10`` and ``priority=-100`` ask; raises InputError."""
    found: dict[str, Any] = {}
    for text in assignments:
        key, _, value = text.partition("=")
        if key == "score":
            found["score"] = _number(key, value, math.isfinite, "a finite number")
        elif key in OF_JOBS:
            allowed = f"a whole number, from {LEAST_LEVEL} to {MAX_LEVEL}"
            number = _number(key, value, _is_level, allowed)
            found["priority" if key == "priority" else "level"] = int(number)
        else:
            raise InputError(f"of jobs: {not_among(key, OF_JOBS)}")
    if not assignments:
        raise InputError("found nothing to change of the jobs; allowed: urgency=N")
    return PriorityChanged(UNSTAMPED, "", **found)


def _key(pool: str, of: str) -> str:
    return f"pools.{pool}.builders" if of == "builders" else f"pools.{pool}.provisioner.{of}"


def _sizes(report: PoolReport) -> dict[str, int]:
    if not report.provisioned:
        return {} if report.desired is None else {"builders": report.desired}
    limits = {"min": report.least, "max": report.most}
    return {of: number for of, number in limits.items() if number is not None}


def _with_size(
    wanted: SchedulingChanged, pool: str, of: str, value: int, pools: dict[str, PoolReport]
) -> SchedulingChanged:
    if pool not in pools:
        raise InputError(f"pools.{pool}: {not_among(pool, sorted(pools))}")
    of = of.removeprefix("provisioner.")
    if of not in (known := _sizes(pools[pool])):
        keys = " and ".join(_key(pool, one) for one in known)
        raise InputError(f"{_key(pool, of)}: found a pool of another kind; allowed: {keys}")
    sizes = dict(wanted.pools or {})
    sizes[pool] = msgspec.structs.replace(sizes.get(pool, PoolSize()), **{of: value})
    return msgspec.structs.replace(wanted, pools=sizes)


def _check_limits(pool: str, wanted: SchedulingChanged, report: PoolReport) -> None:
    size = (wanted.pools or {})[pool]
    least = report.least if size.min is None else size.min
    most = report.most if size.max is None else size.max
    if report.provisioned and most is not None and least > most:
        where = _key(pool, "max" if size.max is not None else "min")
        raise InputError(
            f"{where}: found a min of {least} and a max of {most}; allowed: min <= max"
        )


def _with_rule(wanted: SchedulingChanged, key: str, value: str) -> SchedulingChanged:
    if key == "scheduling.policy":
        if value not in POLICIES and ":" not in value:
            raise InputError(
                f"found policy {value!r:.60}; {did_you_mean(value, POLICIES)}allowed: "
                f"{', '.join(POLICIES)}, or the module:function of its scenario"
            )
        return msgspec.structs.replace(wanted, policy=value)
    if key == "scheduling.aging_factor":
        factor = _number(key, value, lambda one: 0 <= one < 1e9, "a number from 0, below 1e9")
        return msgspec.structs.replace(wanted, aging_factor=factor)
    path = key.removeprefix("scheduling.weights.")
    if path == key or not path:
        if key in OF_JOBS:
            raise InputError(f"found {key}, which jobs have; allowed: with --job ID or --where")
        pool = re.match(r"pools\.(.+?)\.", key)
        near = nearest(key.removeprefix(pool[0]), OF_POOLS) if pool else None
        hint = did_you_mean(key, ("policy", *OF_RULES[:2]))
        hint = f"did you mean {pool[0]}{near}? " if pool and near else hint
        raise InputError(f"found the key {key!r:.100}; {hint}allowed: {ALLOWED}")
    weight = _number(key, value, lambda one: 0 < one < 1e9, "a number above 0, below 1e9")
    return msgspec.structs.replace(wanted, weights={**(wanted.weights or {}), path: weight})


def _is_level(number: float) -> bool:
    return number.is_integer() and LEAST_LEVEL <= number <= MAX_LEVEL


def _number(key: str, text: str, is_good: Callable[[float], bool], allowed: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not is_good(number):
        raise InputError(f"{key}: found {text!r:.40}; allowed: {allowed}")
    return number
