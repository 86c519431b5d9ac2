"""The assumed speed of a job on a host, and the choice of the app version.

The ladder: the host's own history with the version; the version's history on all hosts; the
host's benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from farm.upstream.boinc.averages import Variance, ratio
from farm.upstream.boinc.claims import MIN_VERSION_SAMPLES
from farm.upstream.boinc.records import MIN_HOST_SAMPLES, AppVersion, HostAppVersion

#: a host's history makes it at most this much faster than assumed
SPEED_RATIO_LIMIT = 250.0
GPU_TO_CPU = 10.0

Source = Literal["host_app_version", "app_version", "none"]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a version would use of a host, and its assumed speed there."""

    peak_flops: float
    projected_flops: float
    ncpus: float = 1.0
    gpus: float = 0.0


class LadderRules(msgspec.Struct, frozen=True, kw_only=True):
    """How the ladder is configured."""

    #: more than this many samples of the host's are enough
    host_samples: float = MIN_HOST_SAMPLES
    #: more than this many samples of the version's are enough
    version_samples: float = MIN_VERSION_SAMPLES
    #: use the benchmark alone
    no_stats: bool = False
    #: take the host's speed from its peak flop counts instead of its times
    from_host_pfc: bool = False


DEFAULT_RULES = LadderRules()


class Speed(msgspec.Struct, frozen=True):
    """An assumed speed, its source, and whether the cap cut it."""

    flops: float
    source: Source
    capped: bool = False


def estimate_flops(
    usage: Usage,
    benchmark: float,
    host: HostAppVersion | None,
    version: AppVersion | None,
    rules: LadderRules = DEFAULT_RULES,
) -> Speed:
    """Return the speed of a version on a host; ``benchmark`` is the host's, per processor.

    Only the first rung is capped, relative to the projected speed that comes in. On the last one
    that projected speed is discarded.
    """
    if not rules.no_stats and host is not None and host.et.n > rules.host_samples:
        if rules.from_host_pfc:
            flops = usage.peak_flops / (host.pfc.avg + 1e-18)
        else:
            flops = ratio(1.0, host.et.avg)
        cap = usage.projected_flops * SPEED_RATIO_LIMIT
        return Speed(min(flops, cap), "host_app_version", flops > cap)
    if not rules.no_stats and version is not None and version.pfc.n > rules.version_samples:
        return Speed(ratio(usage.peak_flops, version.pfc.avg), "app_version")
    return Speed(benchmark * (usage.ncpus + GPU_TO_CPU * usage.gpus), "none")


def speed_2010(
    peak: float,
    pfc_scale: float,
    host_history: Variance,
    host_samples: float = MIN_HOST_SAMPLES,
) -> Speed:
    """Return the estimated speed: from the host's history if long enough, else peak x scale.

    "Long enough" means more than ten samples (the page says only "sufficient"); a scale of 0 is
    undefined. No cap and no blend: those came later. Source: BOINC's wiki page, and its code of
    April 2010; the scale was replaced by peak ÷ the version's average in June 2011.
    """
    if host_history.n > host_samples:
        return Speed(ratio(1.0, host_history.avg), "host_app_version")
    return Speed(peak * (pfc_scale or 1.0), "app_version" if pfc_scale else "none")


class VersionCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """A version that could serve a request."""

    usage: Usage
    host: HostAppVersion | None = None
    version: AppVersion | None = None
    #: a draw from the standard normal distribution, made by the caller
    normal_draw: float = 0.0
    #: a uniform draw from 0 to 1: at 0.01 or less a version that never worked is not penalised
    uniform_draw: float = 0.0


class VersionFigures(msgspec.Struct, frozen=True):
    """A version's figures in the selection."""

    #: the ladder's speed
    first: Speed
    #: the plan blended with it: the more samples, the less the plan counts
    flops: float
    #: the random factor, 1 without randomness
    factor: float = 1.0

    @property
    def rank(self) -> float:
        """The figure that is compared, and stored when the version wins."""
        return self.flops * self.factor


def compare(
    candidate: VersionCandidate,
    benchmark: float,
    rules: LadderRules = DEFAULT_RULES,
    random_factor: float = 0.0,
) -> VersionFigures:
    """Return how a version compares; ``random_factor`` 0 means no randomness (BOINC uses 1)."""
    plan, host = candidate.usage.projected_flops, candidate.host
    first = estimate_flops(candidate.usage, benchmark, host, candidate.version, rules)
    flops, n = plan, 1
    if host is not None:
        n = max(int(host.pfc.n), 1)
        if n > 1:
            flops = (first.flops * (n - 1) + plan) / n
        never_worked = host.pfc.n == 0 and host.max_jobs_per_day == 1 and not host.consecutive_valid
        if never_worked and candidate.uniform_draw > 0.01:
            flops *= 0.01
    factor = max(0.1, 1.0 + random_factor * candidate.normal_draw / n)
    return VersionFigures(first, flops, factor)


def speed_when_chosen(
    candidate: VersionCandidate,
    compared: VersionFigures,
    benchmark: float,
    rules: LadderRules = DEFAULT_RULES,
) -> Speed:
    """Return the winner's speed: the ladder once more, capped relative to the compared figure."""
    usage = msgspec.structs.replace(candidate.usage, projected_flops=compared.rank)
    return estimate_flops(usage, benchmark, candidate.host, candidate.version, rules)


def choose(
    candidates: Sequence[VersionCandidate],
    benchmark: float,
    rules: LadderRules = DEFAULT_RULES,
    random_factor: float = 0.0,
) -> tuple[int, Speed] | None:
    """Return position and speed of the version with the largest rank, the first on a tie."""
    best: tuple[int, VersionFigures] | None = None
    for position, candidate in enumerate(candidates):
        compared = compare(candidate, benchmark, rules, random_factor)
        if compared.rank > (best[1].rank if best else 0.0):
            best = position, compared
    if best is None:
        return None
    return best[0], speed_when_chosen(candidates[best[0]], best[1], benchmark, rules)


Resource = Literal["cpu", "nvidia", "ati", "intel", "apple"]

_RESOURCE_NUMBERS: dict[str, int] = {"cpu": 2, "nvidia": 3, "ati": 4, "intel": 5, "apple": 6}


class AnonymousSpeed(msgspec.Struct, frozen=True):
    """The speed assumed by the server, by the client, and the ratio of the two."""

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
    0, and makes it at most 250 times faster than claimed.
    """
    client = claimed_flops or benchmark
    if et is None or et.n <= host_samples or et.avg <= 0 or client <= 0:
        return AnonymousSpeed(client, client)
    flops = min(1.0 / et.avg, client * SPEED_RATIO_LIMIT)
    return AnonymousSpeed(flops, client, client / flops)
