"""Claims of random results beside a second, independent model of BOINC's rules for them."""

import random
from typing import Any

import msgspec

from farm.upstream.boinc.claims import COBBLESTONE_SCALE, Claim, Result, claim, clipped, learned
from farm.upstream.boinc.records import App, AppVersion, Average, HostAppVersion

DRAWS = 20_000
CHOICES: dict[str, tuple[Any, ...]] = {
    "elapsed": (0.0, 9e-7, 1e-6, 4000.0, 3e5),
    "cpu": (0.0, 100.0, 3600.0),
    "flops": (-1.0, 0.0, 1.0, 1e9, 1e9 + 1, 1e10, 1e13),
    "size": (1e4, 1e9, 1e13, 1e17),
    "bound": (1e10, 1e15, float("inf")),
    "most_credit": (0.0, 1e-3, 50.0),
    "outlier": (False, False, False, True),
    "anonymous": (False, True),
    "streak": (0, 9, 10, 11),
    "check": (False, True),
    "host_n": (0.0, 9.0, 10.0, 19.0, 20.0, 500.0),
    "host_avg": (0.0, 0.01, 2.0, 4.0),
    "version_n": (0.0, 99.0, 100.0, 101.0),
    "version_avg": (0.0, 1.0, 50.0),
    "scale": (0.0, 0.5, 1.0),
    "app_avg": (0.0, 2.0),
}


def expected(d: dict[str, Any]) -> tuple[float, str, bool, bool]:
    """Return figure, mode, and whether the mean peak count and the mean time move."""
    elapsed = d["cpu"] if d["elapsed"] < 1e-6 else d["elapsed"]
    unknown_speed = d["flops"] <= 0 or d["flops"] == 1e9
    raw = elapsed * (4.3e9 if unknown_speed else d["flops"])
    trusted = d["streak"] >= 10 or not d["check"]
    comparable = trusted and d["host_n"] >= 10 and d["host_avg"] > 0
    mode = "approx"
    if d["anonymous"] and comparable:
        pfc = raw * (d["app_avg"] / d["host_avg"])
    elif d["anonymous"]:
        pfc = d["size"] * (d["app_avg"] or 1)
    else:
        by_host = 0.0
        if comparable and d["version_n"] >= 100:
            by_host = min(d["version_avg"] / d["host_avg"], 10.0)
        pfc = raw * (d["scale"] or 1) * (by_host or 1)
        if d["scale"] and by_host:
            mode = "normal"
    pfc = min(pfc, d["bound"])
    if d["most_credit"] and pfc * COBBLESTONE_SCALE > d["most_credit"]:
        pfc, mode = d["most_credit"] / COBBLESTONE_SCALE, "invalid"
    counts = not (d["outlier"] or unknown_speed)
    return pfc, mode, counts and 1e-4 <= raw / d["size"] <= 1e4, counts


def claimed(d: dict[str, Any]) -> tuple[Claim, HostAppVersion, AppVersion]:
    """Return the product's claim, and the records after it."""
    given = Result(
        elapsed=d["elapsed"],
        cpu_time=d["cpu"],
        flops=d["flops"],
        size=d["size"],
        size_bound=d["bound"],
        outlier=d["outlier"],
        anonymous=d["anonymous"],
    )
    host = HostAppVersion(pfc=Average(d["host_n"], d["host_avg"]), consecutive_valid=d["streak"])
    version = AppVersion(pfc=Average(d["version_n"], d["version_avg"]), pfc_scale=d["scale"])
    app = App(min_avg_pfc=d["app_avg"])
    found = claim(given, host, version, app, scale_check=d["check"])
    found = clipped(found, given.size_bound, d["most_credit"])
    return found, *learned(given, found, host, version)


def test_random_claims_are_those_of_an_independent_model() -> None:
    """Every branch at its corners: streaks, thresholds, unknown speeds, scales of 0, bounds."""
    dice = random.Random("claims")
    different = []
    for _ in range(DRAWS):
        d = {name: dice.choice(values) for name, values in CHOICES.items()}
        found, host, version = claimed(d)
        pfc, mode, moves_pfc, moves_et = expected(d)
        moved = (host.pfc.n - d["host_n"], host.et.n, host.turnaround.n, len(version.pending))
        steps = (moves_pfc, moves_et, moves_et, moves_pfc and not d["anonymous"])
        same = abs(found.pfc - pfc) <= 1e-12 * abs(pfc) and found.mode == mode
        if not (same and moved == steps):
            different.append((d, msgspec.structs.asdict(found)))
    assert not different, f"{len(different)} of {DRAWS:,}, such as {different[0]}"
