"""Plans: the smallest pools are really the smallest, and impossible ones are reported."""

from __future__ import annotations

from functools import partial

import pytest

from farm.processes.shared_work import SharedWork
from farm.results.summary.objectives import parse_objective
from farm.scenario import parse_scenario
from farm.scenario.load import load_scenario
from farm.sim.capacity_planning import (
    Evaluator,
    PlanOptions,
    draws_nothing,
    plan,
    plan_settings,
    play,
    sized,
)
from farm.testing import small_scenario
from provisioner.from_scenario import algorithms_of


def scenario(*rates: str, service: object = None):
    """One pool and one stream of jobs for each rate."""
    names = "abc"
    load = {"count": 120, "service_time": service or {"exponential": {"mean": "20s"}}}
    platforms = [{"platform": {"processor": name}} for name in names[: len(rates)]]
    return parse_scenario(
        small_scenario(
            [{"name": names[n], **platform} for n, platform in enumerate(platforms)],
            [
                {**load, **platform, "poisson": {"rate": rate}}
                for platform, rate in zip(platforms, rates, strict=True)
            ],
            seed=5,
        )
    )


OPTIONS = PlanOptions(replications=4)


def evaluator_of(wanted, terms, options=OPTIONS):
    """Return an evaluator of sizes of the scenario's pools."""
    return Evaluator(partial(sized, wanted), wanted.seed, terms, options, SharedWork())


@pytest.mark.parametrize(
    "rate",
    ["0.2/s", *(pytest.param(rate, marks=pytest.mark.slow) for rate in ("0.05/s", "0.4/s"))],
)
@pytest.mark.parametrize("slo", ["p95(waiting_time) < 30s", "mean(stretch) <= 1.5"])
def test_one_pool_is_the_smallest_that_meets_it(rate: str, slo: str) -> None:
    """Compared with trying every size from 1 on."""
    wanted, terms = scenario(rate), parse_objective(slo)
    found = plan(wanted, terms, OPTIONS)
    evaluator = evaluator_of(wanted, terms)
    smallest = next(n for n in range(1, 200) if evaluator.at((n,)).met)
    assert found.best is not None
    assert found.best.sizes == (smallest,)
    assert found.best.met
    assert found.best in found.points


def test_several_pools_are_each_as_small_as_the_others_allow() -> None:
    """A local optimum: no pool can lose a builder; the most expensive was shrunk first."""
    wanted, terms = scenario("0.1/s", "0.3/s"), parse_objective("p95(waiting_time) < 30s")
    found = plan(wanted, terms, OPTIONS)
    assert found.best is not None
    first, second = found.best.sizes
    evaluator = evaluator_of(wanted, terms)
    assert evaluator.at((first, second)).met
    assert not evaluator.at((first - 1, second)).met
    assert not evaluator.at((first, second - 1)).met


def test_no_size_can_make_a_job_shorter() -> None:
    """An objective below the service time itself is reported as impossible."""
    wanted = scenario("0.2/s", service={"constant": "60s"})
    found = plan(wanted, parse_objective("mean(response_time) < 59s"), OPTIONS)
    assert found.best is None
    assert "no size can" in found.why
    assert len(found.points) < 12


def test_what_more_builders_do_not_help_is_met_by_the_smallest_size_or_by_none() -> None:
    """Waits find the size; a cost that it misses is the reason, and its value is told."""
    wanted = scenario("0.2/s")
    waits = parse_objective("p95(waiting_time) < 30s")
    alone = plan(wanted, waits, OPTIONS).best
    assert alone is not None
    cost = alone.cost
    both = parse_objective(f"p95(waiting_time) < 30s and cost < {2 * cost} and utilization > 0.1")
    found = plan(wanted, both, OPTIONS).best
    assert found is not None
    assert (found.sizes, found.met) == (alone.sizes, True)
    used = found.means[2]
    assert found.bounds[2] < used < 1.0, "a lower bound"

    cheap = plan(wanted, parse_objective(f"p95(waiting_time) < 30s and cost < {cost / 2}"), OPTIONS)
    assert cheap.best is None
    smallest = f"with a {alone.sizes[0]}, the smallest that meets the rest, cost is "
    assert smallest in cheap.why


def test_the_limit_of_the_search_is_reported() -> None:
    """If too few builders are allowed, that is the reason."""
    options = PlanOptions(replications=2, most=2)
    found = plan(scenario("0.4/s"), parse_objective("p95(waiting_time) < 1s"), options)
    assert found.best is None
    assert "no more are allowed" in found.why
    assert "holds it back" not in found.why, "there is only one pool"


def test_the_pool_that_holds_it_back_is_named() -> None:
    """Of two pools one would do; the other has too few builders allowed."""
    options = PlanOptions(replications=2, most=3)
    found = plan(scenario("0.01/s", "0.9/s"), parse_objective("p95(waiting_time) < 30s"), options)
    assert found.best is None
    assert found.why.endswith("; what holds it back is the pool b")


def test_replications_are_common_and_costs_are_counted() -> None:
    """The same seed gives the same jobs whatever the size; hours and prices add up."""
    wanted, terms = scenario("0.2/s"), parse_objective("mean(waiting_time) < 1h")
    wanted = wanted.model_copy(
        update={"pools": (wanted.pools[0].model_copy(update={"price": 2.0}),)}
    )
    few, many = (play(sized(wanted, (size,)), terms, 7) for size in (50, 60))
    assert few.values == many.values
    evaluator = evaluator_of(wanted, terms, PlanOptions(replications=2))
    point = evaluator.at((10,))
    assert point.cost == pytest.approx(2 * point.builder_hours)
    assert point.builder_hours > 0


@pytest.mark.parametrize(
    ("changes", "once"),
    [
        ({}, True),
        ({"pools.a.failure_rate": 0.1}, False),
        ({"scheduling.policy": "random"}, False),
        ({"workload.0.arrivals.service_time": {"exponential": {"mean": "60s"}}}, False),
    ],
)
def test_where_nothing_is_drawn_each_size_is_simulated_once(changes, once: bool) -> None:
    """As of a trace: further replications would come out the same."""
    plain = scenario("0.2/s").model_dump(mode="json", exclude_none=True)
    fixed = {"every": "5s", "count": 60, "service_time": "60s", "platform": {"processor": "a"}}
    plain["workload"] = [{"arrivals": fixed}]
    wanted = load_scenario(plain, changes=changes)
    found = plan(wanted, parse_objective("max(waiting_time) < 1s"), PlanOptions(replications=3))
    assert (found.replications == 1) == once
    assert draws_nothing(wanted) == once


def test_an_objective_may_be_of_one_pool() -> None:
    """Only the jobs that the pool can run count: the other one may be as small as can be."""
    wanted = scenario("0.2/s", "0.2/s")
    found = plan(wanted, parse_objective("p95(b.waiting_time) < 30s"), OPTIONS)
    assert found.best is not None
    assert found.best.sizes[0] == 1 < int(found.best.sizes[1])


def test_a_pool_with_a_provisioner_keeps_it_beside_a_fixed_one() -> None:
    """Only the fixed pool is sized; the provisioned one shows in cost and waits."""
    mixed = scenario("0.1/s", "0.2/s")
    sizing = {"algorithm": "taskcluster", "max": 20, "interval": "5s"}
    plain = mixed.model_dump(mode="json", exclude_none=True)
    plain["pools"][1] = {
        "name": "b", "platform": {"processor": "b"}, "boot_time": "10s", "provisioner": sizing,
    }  # fmt: skip
    mixed = parse_scenario(plain)
    options = PlanOptions(replications=2, algorithms=algorithms_of)
    found = plan(mixed, parse_objective("p95(waiting_time) < 1m"), options)
    assert found.pools == ("a",)
    assert found.best is not None
    assert found.best.cost >= found.best.builder_hours  # boots are paid, too
    evaluator = evaluator_of(mixed, parse_objective("mean(waiting_time) < 1h"), options)
    assert evaluator.at((40,)).mean_wait > 0, "jobs wait until builders of the other pool boot"


def test_where_every_pool_has_a_provisioner_all_are_sized() -> None:
    """As if they were fixed: otherwise there would be nothing to plan."""
    plain = scenario("0.2/s").model_dump(mode="json", exclude_none=True)
    del plain["pools"][0]["builders"]
    plain["pools"][0]["provisioner"] = {"algorithm": "taskcluster", "max": 20}
    found = plan(parse_scenario(plain), parse_objective("p95(waiting_time) < 30s"), OPTIONS)
    assert (
        found.best
        == plan(scenario("0.2/s"), parse_objective("p95(waiting_time) < 30s"), OPTIONS).best
    )


def test_settings_of_a_provisioner_are_tried_and_the_cheapest_that_meets_it_is_best() -> None:
    """Both limits of the algorithm are tried with the algorithm inside, on the same jobs."""
    plain = scenario("0.2/s").model_dump(mode="json", exclude_none=True)
    del plain["pools"][0]["builders"]
    made = {}
    for most in ("1", "6", "20"):
        plain["pools"][0]["provisioner"] = {"algorithm": "taskcluster", "max": int(most), "min": 1}
        made[most,] = parse_scenario(plain)
    options = PlanOptions(replications=2, algorithms=algorithms_of)
    found = plan_settings(made, ["max"], parse_objective("p95(waiting_time) < 1m"), options)
    assert [point.met for point in found.points] == [False, True, True]
    assert found.best == min(found.points[1:], key=lambda point: point.cost)
    none = plan_settings(made, ["max"], parse_objective("max(waiting_time) < 1ms"), options)
    assert (none.best, none.why) == (None, "none of 3 settings meets it")
