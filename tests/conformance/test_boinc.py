"""BOINC's worked numbers, through the library's functions, to a relative 1e-9.

Every case names its ``group``; ``GROUPS`` says which functions answer it. An unknown group, or a
figure that is expected and that we do not give, fails.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

import pytest

from farm.upstream.boinc.claims import Result, claim, clipped, scales
from farm.upstream.boinc.durations import (
    check_deadline,
    delay_bounds,
    running_total,
    time_limit,
)
from farm.upstream.boinc.estimates import (
    LadderRules,
    Resource,
    Usage,
    VersionCandidate,
    anonymous_speed,
    capped,
    climb_ladder,
    compare,
    computing_time,
    generalised_version,
    speed_2010,
    wall_time,
)
from farm.upstream.boinc.records import (
    App,
    AppVersion,
    Average,
    Averaging,
    HostAppVersion,
    Variance,
    ratio,
    updated,
    updated_variance,
)

from .conftest import refuse_unknown

Given = Mapping[str, Any]


def _average(said: Given | None) -> Average:
    return Average(said["n"], said["avg"]) if said else Average()


def _variance(said: Given | None) -> Variance:
    if not said:
        return Variance()
    return Variance(said["n"], said["avg"], said.get("var", 0.0), said.get("q", 0.0))


def _host(given: Given, **more: Any) -> HostAppVersion | None:
    """Build the host's record from a case's statistics; None if there are none."""
    et, pfc = given.get("et"), given.get("hav_pfc")
    if et is None and pfc is None and not more:
        return None
    return HostAppVersion(et=_variance(et), pfc=_average(pfc), **more)


def _version(given: Given, key: str) -> AppVersion | None:
    said = given.get(key)
    return None if said is None else AppVersion(pfc=_average(said))


def _usage(given: Given, projected: str) -> Usage:
    return Usage(
        peak_flops=given["peak"],
        projected_flops=given[projected],
        ncpus=given.get("ncpus", 1.0),
        gpus=given.get("gpu", 0.0),
    )


def average(given: Given) -> dict[str, Any]:
    """Feed runs of equal samples to both kinds of average, which must agree."""
    rule = Averaging(**given["params"])
    plain, variance, cut = _average(given["start"]), _variance(given["start"]), False
    for sample, count in given["samples_run_length"]:
        for _ in range(count):
            plain, cut = updated(plain, sample, rule)
            variance, cut_too = updated_variance(variance, sample, rule)
            assert cut is cut_too
    assert (plain.n, plain.avg) == (variance.n, variance.avg)
    found = {"n": plain.n, "avg": plain.avg, "truncated_last": cut}
    return found | {"var": variance.var, "q": variance.q}


class Either(tuple[Any, ...]):
    """Values of which any will do, because the published formulas leave it open."""

    __slots__ = ()


def flops(given: Given) -> dict[str, Any]:
    """The ladder, then the duration; a case with the host's peak counts may mean either rule."""
    if "hav_pfc" in given and "from_hav_pfc" not in given:
        plain, peak = (flops_by(given, from_peak_counts=rule) for rule in (False, True))
        return {key: Either((plain[key], peak[key])) for key in plain}
    return flops_by(given, from_peak_counts=given.get("from_hav_pfc", False))


def flops_by(given: Given, *, from_peak_counts: bool) -> dict[str, Any]:
    """The ladder by one of the rules."""
    usage = _usage(given, "proj")
    measured = climb_ladder(
        usage,
        given["p_fpops"],
        _host(given),
        _version(given, "avpfc"),
        LadderRules(no_stats=given.get("no_stats", False), from_host_pfc=from_peak_counts),
    )
    speed = capped(measured, usage.projected_flops)
    size = given["rsc_fpops_est"]
    return {
        "source": speed.source,
        "capped": speed.capped,
        "projected_flops": speed.flops,
        "unscaled_s": computing_time(size, speed.flops),
        "estimate_duration_s": wall_time(size, speed.flops, given["available_frac_raw"]),
    }


def flops_of_2010(given: Given) -> dict[str, Any]:
    """The rule of the 2010 text."""
    host = _variance(given["host_history"])
    return {"projected_flops": speed_2010(given["peak_flops"], given["pfc_scale"], host).flops}


def version_selection(given: Given) -> dict[str, Any]:
    """The blend that versions are compared by, and the speed of the winner."""
    samples = given.get("pfc_n")
    host = None
    if samples is not None:
        host = HostAppVersion(
            et=_variance(given.get("et")),
            pfc=Average(samples, given.get("pfc_avg", 1.0)),
            max_jobs_per_day=given.get("max_jobs_per_day", 0),
            consecutive_valid=given.get("consecutive_valid", 0),
        )
    candidate = VersionCandidate(
        usage=_usage(given, "plan"),
        host=host,
        version=_version(given, "avpfc"),
        uniform_draw=given.get("uniform", 0.5),
        normal_draw=given.get("normal", 0.0),
    )
    benchmark = given["p_fpops"]
    compared = compare(candidate, benchmark, random_factor=given.get("random_factor", 0.0))
    final = compared.speed_when_chosen
    return {
        "first_estimate": capped(compared.measured, candidate.usage.projected_flops).flops,
        "compared_flops": compared.rank,
        "final_projected_flops": final.flops,
        "final_capped": final.capped,
    }


def _resource(said: str) -> Resource:
    """Read "nvidia(-3)": by its number, else by its name."""
    name, number = said.lower().replace("amd", "ati"), re.search(r"\(-?(\d+)\)", said)
    known: dict[int, Resource] = dict(enumerate(get_args(Resource), 2))
    found = [
        resource
        for key, resource in known.items()
        if (key == int(number[1]) if number else name.startswith(resource))
    ]
    assert found, f"resource {said!r}; known: {', '.join(known.values())}, (-2) to (-6)"
    return found[0]


def anonymous_platform(given: Given) -> dict[str, Any]:
    """What server and client predict for a host's own version, or the number of its record."""
    if "resource" in given:
        return {
            "app_version_id": generalised_version(given["app_id"], _resource(given["resource"]))
        }
    et = given.get("et")
    speed = anonymous_speed(given["app_info_flops"], given["p_fpops"], _variance(et))
    size, bound = given["rsc_fpops_est"], given["rsc_fpops_bound"]
    sent_size, sent_bound = size * speed.size_scale, bound * speed.size_scale
    return {
        "rsc_fpops_scale": speed.size_scale,
        "projected_flops": speed.flops,
        "sent_rsc_fpops_est": sent_size,
        "sent_rsc_fpops_bound": sent_bound,
        "client_estimate_s": ratio(sent_size, speed.client_flops),
        "server_estimate_s": computing_time(size, speed.flops),
        "client_time_limit_s": time_limit(sent_bound, speed.client_flops),
    }


def pfc_scale(given: Given) -> dict[str, Any]:
    """Normalisation of an app's versions."""
    base, found = scales(
        [
            AppVersion(
                pfc=Average(v["pfc_n"], v["pfc_avg"]),
                resource=v["class"],
                pfc_scale=v.get("pfc_scale", 0),
            )
            for v in given["versions"]
        ]
    )
    return {"min_avg_pfc": "unchanged" if base is None else base, "pfc_scale": found}


def get_pfc(given: Given) -> dict[str, Any]:
    """What a result claims and which statistics it moves."""
    bound = given.get("bound", given.get("rsc_fpops_bound", math.inf))
    result = Result(
        elapsed=given["elapsed"],
        cpu_time=given.get("cpu", 0.0),
        flops=given["flops"],
        size=given["est"],
        size_bound=bound,
        outlier=given.get("outlier", given.get("runtime_outlier", False)),
        anonymous=given.get("anonymous", given.get("anon", False)),
    )
    host = _host(given, consecutive_valid=given.get("cons", 0))
    if given.get("hav_pfc", ...) is None:
        host = None
    version = AppVersion(pfc=_average(given.get("av_pfc")), pfc_scale=given.get("av_scale", 0.0))
    app = App(min_avg_pfc=given.get("min_avg_pfc", 0.0))
    found = claim(result, host, version, app, scale_check=given.get("scale_check", False))
    found = clipped(found, bound, given.get("max_granted_credit", 0.0))
    return {
        "raw_pfc": found.raw_pfc,
        "host_scale": found.host_scale,
        "claimed_pfc": found.pfc,
        "mode": "wu_est" if found.mode == "estimate" else found.mode,
        "credit": found.credit,
        "pfc_sample": found.pfc_sample,
        "updates_pfc": found.updates_pfc,
        "updates_et_and_turnaround": found.updates_et,
        "et_sample": found.et_sample,
    }


def deadline(given: Given) -> dict[str, Any]:
    """Return whether the job is back in time, and which bounds are tried."""
    if "reliable_reduced_delay_bound" in given:
        optimistic, pessimistic = delay_bounds(
            given["delay_bound_s"], given["reliable_reduced_delay_bound"], given["est_duration_s"]
        )
        return {"optimistic_bound_s": optimistic, "pessimistic_bound_s": pessimistic}
    # the size that takes this long at speed 1
    plain = wall_time(given["unscaled_s"], 1.0, given["available_frac"])
    check = check_deadline(
        given["queue_delay_s"],
        plain,
        given["delay_bound_s"],
        hard=given["hard_app"],
        ignore=given.get("ignore_delay_bound", False),
    )
    return {
        "ok": check.ok,
        "est_duration_s": Either((check.duration, plain)),  # a hard app's: with its surcharge
        "est_report_delay_s": check.report_delay,
        "miss_by_s": check.miss,
        "reason": check.skipped,
    }


def client_running_estimate(given: Given) -> dict[str, Any]:
    """The total time of a running job."""
    total = running_total(
        given["elapsed_s"],
        given["static_estimate_s"],
        given["fraction_done"],
        given["elapsed_at_fraction_s"],
        exact=given.get("fraction_done_exact", False),
    )
    return {"estimated_total_s": total}


GROUPS: dict[str, Callable[[Given], dict[str, Any]]] = {
    "average": average,
    "estimate_flops": flops,
    "estimate_flops_2010": flops_of_2010,
    "version_selection": version_selection,
    "anonymous_platform": anonymous_platform,
    "pfc_scale": pfc_scale,
    "get_pfc": get_pfc,
    "deadline": deadline,
    "client_running_estimate": client_running_estimate,
}


class Inputs(dict[str, Any]):
    """A case's inputs, which know what of them has been read."""

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)


def _agrees(found: Any, expected: Any) -> bool:
    if isinstance(found, Either):
        return any(_agrees(value, expected) for value in found)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(_agrees, found, expected))
    if (
        isinstance(expected, bool)
        or isinstance(found, bool)
        or not isinstance(expected, int | float)
    ):
        return bool(found == expected)
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=0.0)


@pytest.mark.conformance("boinc", "cases")
def test_case(case: dict[str, Any]) -> None:
    """Our functions give BOINC's numbers, corner cases included."""
    assert case["group"] in GROUPS, f"unknown group {case['group']}: known are {sorted(GROUPS)}"
    assert case["expect"], "nothing is expected"
    refuse_unknown("case", case, {"group", "inputs", "expect"})
    inputs = Inputs(case["inputs"])
    found = GROUPS[case["group"]](inputs)
    refuse_unknown("inputs", inputs, inputs.read)
    for key, expected in case["expect"].items():
        assert key in found, f"{key} is expected, and we give {sorted(found)}"
        if key == "reason":  # prose: there is one, or there is none
            assert bool(found[key]) == bool(expected)
        else:
            assert _agrees(found[key], expected), f"{key}: {found[key]!r}, not {expected!r}"


@pytest.mark.conformance("boinc")
def test_constants(document: dict[str, Any]) -> None:
    """The constants that the numbers rest on are ours too."""
    from farm.upstream.boinc import claims, estimates, records

    known = {
        # two that the farm has no use for: it renews scales by count, and replicates nothing
        "AV_UPDATE_PERIOD_s": 600,
        "CONS_VALID_UNREPLICATED": 10,
        "MIN_HOST_SAMPLES": records.MIN_HOST_SAMPLES,
        "MIN_VERSION_SAMPLES": claims.MIN_VERSION_SAMPLES,
        "ET_RATIO_LIMIT": estimates.SPEED_RATIO_LIMIT,
        "GPU_CPU_RATIO": estimates.GPU_TO_CPU,
        "DEFAULT_GPU_SCALE": claims.DEFAULT_GPU_SCALE,
        "AVG_CPU_FPOPS": claims.AVERAGE_CPU_FLOPS,
        "COBBLESTONE_SCALE": claims.COBBLESTONE_SCALE,
        "CONS_VALID_RELIABLE": records.CONSECUTIVE_VALID_RELIABLE,
        "CONS_VALID_HOST_SCALE": claims.CONSECUTIVE_VALID_TO_SCALE,
        "FRAC_MIN": estimates.MIN_FRACTION,
        "HOST_SCALE_CAP": claims.HOST_SCALE_CAP,
        "DEFAULT_RSC_FPOPS_EST": estimates.DEFAULT_SIZE,
        "PFC_SANE": list(claims.SANE_PFC),
        "HAV_AVG": _rule(records.HOST_AVERAGING),
        "AV_AVG": _rule(records.VERSION_AVERAGING),
    }
    said = document.get("constants", {})
    refuse_unknown("constants", said, known)
    assert said == {key: known.get(key, said[key]) for key in said}


def _rule(rule: Averaging) -> dict[str, float]:
    return {"threshold": rule.threshold, "weight": rule.weight, "limit": rule.limit}
