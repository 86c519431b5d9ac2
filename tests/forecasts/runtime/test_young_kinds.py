"""Kinds with few runs: what all have in common tells how far theirs can be trusted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from farm.core.model import Builder, Job
from farm.core.rules import EndedAttempt
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.forecasts.runtime.survival import Running
from farm.forecasts.runtime.young_kinds import YoungKinds

ONE = Builder(id="b", pool="p", index=1)


def job(kind: str) -> Job:
    """A job of a kind; nothing was declared."""
    return Job(id=kind, kind=kind, service_time=1.0)


def learned(runs: dict[str, list[float]]) -> RuntimeDistribution:
    """Return what last-3 knows: all attempts began at 0, so short ones ended first."""
    distribution = RuntimeDistribution(make_estimator("last-3"))
    for time, kind in sorted((time, kind) for kind, times in runs.items() for time in times):
        ended = EndedAttempt(job(kind), ONE, 0.0, time, "succeeded")
        distribution.learn_attempt(ended)
    return distribution


def drawn(rng: np.random.Generator, runs: int, sigma: float) -> dict[str, list[float]]:
    """Return runs of sixty kinds, whose means differ by a factor of eighteen."""
    return {
        f"k{n}": (100 * 1.05**n * np.exp(sigma * rng.standard_normal(runs))).tolist()
        for n in range(60)
    }


@pytest.mark.parametrize("runs", [2, 3])
def test_first_runs_that_were_short_do_not_make_later_ones_long(runs: int) -> None:
    """All kinds together are told right: pairs of a first and a later run said nine tenths more."""
    ratios = []
    for seed in range(20):
        known = drawn(np.random.default_rng(seed), runs, 0.6)
        distribution = learned(known)
        spreads = [distribution.spread(job(kind)) for kind in known]
        told = sum(
            one.time * math.exp(one.common**2 / 2) * one.factors.mean()
            for one in spreads
            if one is not None
        )
        ratios.append(told / sum(100 * 1.05**n * math.exp(0.18) for n in range(60)))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.06)


def test_a_kind_is_the_surer_the_more_runs_it_has_and_the_less_runs_vary() -> None:
    """A single run is taken for nearer to what all kinds take where runs vary."""
    rng = np.random.default_rng(1)
    for sigma, least, most, nearer in ((0.1, 0.05, 0.15, 0.97), (0.6, 0.35, 0.65, 0.7)):
        known = drawn(rng, 3, sigma)
        known["k59"], known["k58"] = [1_000.0], [1_000.0] * 8
        distribution = learned(known)
        once, often = (distribution.spread(job(kind)) for kind in ("k59", "k58"))
        assert once is not None
        assert often is not None
        assert least < once.common < most
        assert often.common < once.common / 2
        assert nearer < once.time / often.time < nearer + 0.2


def test_attempts_that_run_for_long_raise_their_kind() -> None:
    """Its only run that has ended may be the shortest."""
    known = learned(drawn(np.random.default_rng(1), 3, 0.5))
    found = known.spread(job("k0"))
    assert found is not None
    kinds = found.history
    assert isinstance(kinds, YoungKinds)
    running = Running(900.0, np.zeros(2), np.array([900.0, 1.0]), np.zeros(2), ["k0", "k9"])
    longer = kinds.with_running(running)
    assert longer.time_of("k0")[0] > 1.5 * kinds.time_of("k0")[0]
    assert longer.time_of("k9")[0] == pytest.approx(kinds.time_of("k9")[0], rel=0.25)


def test_kinds_that_never_vary_are_certain() -> None:
    """Their runs are the simulation to the last bit."""
    distribution = learned({f"k{n}": [0.1 + n] * 3 for n in range(9)})
    found = distribution.spread(job("k7"))
    assert found is not None
    assert (found.time, found.common) == (distribution.estimate(job("k7")), 0.0)
    assert found.factors.tolist() == [1.0]
    assert found.history.is_certain


def test_too_few_runs_are_not_young_kinds() -> None:
    """Of how much runs vary nothing is known."""
    distribution = learned({"a": [10.0, 20.0], "b": [10.0]})
    assert distribution.spread(job("a")) is None
