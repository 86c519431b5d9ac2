"""The first sentence on a run, a comparison, a sweep: right for farms of every shape."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

import farm
from farm.app.runs.advice import advice_for
from farm.core.errors import InputError
from farm.results.comparison.compared_metrics import metrics_named
from farm.results.comparison.comparison_answer import (
    Choice,
    answer_of_choices,
    answer_of_sweep,
    frontier,
)
from farm.results.comparison.comparison_tables import render_comparison
from farm.results.formatting import sentence, spoken_span
from farm.results.summary.answer import answer_of_run
from farm.results.summary.objectives import parse_objective
from farm.results.summary.summary import Summary
from farm.testing import small_scenario

AMD, ARM = {"processor": "amd64"}, {"processor": "arm64"}


def answer(pools: list[dict[str, Any]], *workload: dict[str, Any], **more: Any) -> str:
    """Return the first sentence on a simulation of these pools and arrivals."""
    document = {"pools": pools, "workload": [{"arrivals": one} for one in workload], **more}
    return farm.simulate(document).answer


def pool(name: str = "p", platform: dict[str, str] = AMD, **more: Any) -> dict[str, Any]:
    """Return a pool of one builder."""
    return {"name": name, "platform": platform, **({} if more else {"builders": 1}), **more}


#: a burst of 20 jobs of 5 minutes an hour after the start, and a job a minute all day
BURST = {"every": "1s", "start": "1h", "count": 20, "service_time": "5m", "platform": AMD}
DAILY = {"every": "1m", "count": 1440, "service_time": "30s", "platform": ARM}


def test_a_shortage_names_builders_hours_and_how_many_more_halve_it():
    """Only the pool that is short is named, with the hours of half of the waiting."""
    both = [pool("few", builders=2), pool("many", ARM, builders=3)]
    found = answer(both, BURST, {**DAILY, "count": 1})
    assert found.startswith("p95 wait ")
    assert "the farm is short of few builders between 1h and" in found
    assert re.search(
        r"; with two more few builders it is \d+ min \(\+0\.\d builder-hours\)$", found
    )


def test_the_pool_whose_jobs_wait_longest_is_named():
    """Not that of the most waiting in all; what more builders of it do is of its own jobs."""
    crowd = {**BURST, "count": 200, "every": "1s", "service_time": "30s", "platform": ARM}
    pools = [pool("slow"), pool("crowded", ARM, builders=4)]
    workload = [{"arrivals": one} for one in (crowd, {**BURST, "count": 12, "start": "3h"})]
    found = farm.simulate({"pools": pools, "workload": workload})
    waits = {name: part["waiting_time_s"] for name, part in found.summary["pools"].items()}
    crowded, slow = waits["crowded"], waits["slow"]
    assert crowded["mean"] * crowded["count"] > slow["mean"] * slow["count"]
    assert f", for slow {spoken_span(slow['p95'])}: the farm is short of slow " in found.answer
    more = farm.simulate({"pools": pools, "workload": workload}, pools__slow__builders=2)
    assert more.summary["pools"]["slow"]["waiting_time_s"]["p95"] <= slow["p95"] / 2
    assert "; first one more slow builder (slow p95 52 → 25 min, " in found.answer


def test_a_queue_that_is_there_all_along_has_no_first_hour():
    """Half of the waiting is over long before the last job has waited."""
    at_once = {**BURST, "start": "0s", "count": 100}
    assert "short of builders most of the time" in answer([pool(builders=2)], at_once)


def test_the_claim_on_more_builders_is_simulated():
    """With that many more the p95 wait is at most half; with one fewer it is not."""
    document = {"pools": [pool(builders=2)], "workload": [{"arrivals": BURST}]}
    before = farm.simulate(document)
    waits = [
        farm.simulate(document, pools__p__builders=2 + more).summary["waiting_time_s"]["p95"]
        for more in range(4)
    ]
    found = next(more for more in range(4) if waits[more] <= waits[0] / 2)
    words = ["", "one more builder", "two more builders", "three more builders"]
    assert f"; with {words[found]} it is {spoken_span(waits[found])} (" in before.answer
    own = farm.simulate(document, jobs=[])
    assert own.answer == "no job was submitted"


@pytest.mark.parametrize(
    "example",
    [
        "quickstart", "fail-fast", "sticky-images", "thesis-single-matrix", "ephemeral-runners",
        pytest.param("fair-share-two-teams", marks=pytest.mark.slow),
        pytest.param("heavy-light", marks=pytest.mark.slow),
        pytest.param("thesis-consecutive-matrices", marks=pytest.mark.slow),
        pytest.param("mm1", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_the_advice_on_an_example_comes_true(example: str):
    """Each remedy is done as a user would, on top of those before it; a long run has a command."""
    result = farm.simulate(example)
    advice = advice_for(result.kept)
    assert advice is not None
    if not advice.remedies:
        assert "; farm plan --slo 'p95(waiting_time) < " in result.answer
        return
    changes: dict[str, object] = {}
    wait = result.summary["waiting_time_s"]["p95"]
    for remedy in advice.remedies:
        assert remedy.pool is not None
        assert remedy.wait_before == wait
        changes[f"pools__{remedy.pool}__{remedy.key}"] = remedy.after
        wait = farm.simulate(example, **changes).summary["waiting_time_s"]["p95"]
        assert remedy.wait == wait
        assert spoken_span(wait) in result.answer


def test_the_remedy_that_saves_most_for_its_cost_comes_first():
    """Windows jobs wait longest in quickstart, and more builders for them help the farm little."""
    result = farm.simulate("quickstart")
    assert "; first two more linux builders (p95 26 → " in result.answer
    waits = {
        pool: farm.simulate("quickstart", **{f"pools__{pool}__builders": builders}).summary
        for pool, builders in (("linux", 14), ("windows", 6))
    }
    assert waits["linux"]["waiting_time_s"]["p95"] < waits["windows"]["waiting_time_s"]["p95"] / 2


def test_a_policy_that_halves_the_wait_is_advised():
    """Longest first lets short jobs wait for hours, and another policy costs nothing."""
    said = farm.simulate("quickstart", policy="ljf").answer
    assert "; first policy fifo (p95 93 → 26 min, at no cost), then two more linux" in said


PRICED = {"currency": "EUR", "pools__linux__price": 0.5, "pools__windows__price": 2.0}


def test_costs_are_money_by_the_month_where_pools_have_prices():
    """Else they are builder-hours; a price without a currency has no unit."""
    run = farm.simulate("quickstart", **PRICED)
    summary = run.summary
    builders_at_prices = 12 * 0.5 + 4 * 2.0
    assert summary["currency"] == "EUR"
    assert summary["cost_per_month"] == pytest.approx(builders_at_prices * 365.25 * 2, rel=1e-3)
    assert "66.8 EUR, 26.2&nbsp;% of it idle; 10,228 EUR a month at this load" in shown_cost(run)
    assert "(p95 26 → 8.3 min, +731 EUR a month), then two more windows" in run.answer

    plain = farm.simulate("quickstart")
    assert "currency" not in plain.summary
    assert "76.3 builder-hours, 26.2&nbsp;% of it idle" in shown_cost(plain)
    assert "month" not in shown_cost(plain)
    unnamed = farm.simulate("quickstart", pools__linux__price=0.5)
    assert "47.7 at pool prices, " in shown_cost(unnamed)


def shown_cost(run: farm.Result) -> str:
    """Return the summary as a notebook shows it."""
    return str(run._repr_html_()).replace(" %", "&nbsp;%")


def test_what_a_change_costs_is_told_in_money():
    """In comparisons and sweeps: beside the share; and what a cheaper setting saves."""
    few, more = (farm.simulate("quickstart", **PRICED, pools__linux__builders=n) for n in (12, 14))
    said = farm.compare(few, more).answer
    assert ", at 7.1 % more cost (+731 EUR a month) than with 12 builders" in said
    metrics = {one.metric: one for one in farm.compare(few, more).pairs[0].metrics}
    assert metrics["cost_per_month"].difference == pytest.approx(2 * 0.5 * 365.25 * 2, rel=1e-3)

    axes = {"pools.linux.builders": [14, 13]}
    swept = farm.sweep("quickstart", axes, replications=2, **PRICED).sweep
    assert re.search(r" less than 14 builders \(a saving of 36\d EUR a month\)", swept.answer)
    alone = farm.sweep("quickstart", {}, replications=2, **PRICED).sweep
    assert re.search(r", cost [\d.]+ EUR \([\d,]+ EUR a month\)$", alone.answer)


def test_a_live_run_is_advised_by_its_simulation():
    """It says so; where the simulation waits otherwise, nothing is advised."""
    result = farm.simulate("quickstart")
    live = msgspec.structs.replace(result.kept.summary, world="live")
    advice = advice_for(_Run(live, result))
    assert advice is not None
    said = answer_of_run(live, lambda: result.jobs, result.scenario, advice)
    assert "; in simulation, first two more linux builders" in said

    waits = msgspec.structs.replace(live.waiting_time, p95=2 * live.waiting_time.p95)
    longer = msgspec.structs.replace(live, waiting_time=waits)
    assert advice_for(_Run(longer, result)) is None


class _Run:
    """A run with another summary."""

    def __init__(self, summary: Summary, result: farm.Result) -> None:
        self.summary = summary
        self.jobs = result.jobs
        self.scenario = result.scenario
        self.path = None


def test_a_remedy_for_a_pool_alone_tells_the_waits_of_its_jobs():
    """Where it does not shorten the p95 wait of all jobs: 4.3 → 4.3 min is no advice."""
    rare = {**BURST, "count": 2, "service_time": "20m", "platform": ARM}
    document = {
        "pools": [pool("many", builders=40), pool("few", ARM)],
        "workload": [{"arrivals": {**BURST, "count": 60}}, {"arrivals": rare}],
    }
    result = farm.simulate(document)
    assert "; first one more few builder (few p95 19 min → 0 s, the same" in result.answer
    assert ", then 17 more many builders (p95 4.3 min → 0 s, " in result.answer
    grown = farm.simulate(document, pools__few__builders=2)
    assert grown.summary["pools"]["few"]["waiting_time_s"]["p95"] == 0.0


def test_jobs_of_your_own_are_not_simulated_again():
    """The scenario does not have them: nothing is claimed of what more builders would do."""
    document = small_scenario()
    mine = [
        farm.Job(
            id=f"mine-{n}", service_time=300.0, platform=farm.Platform("amd64"), arrived_at=0.0
        )
        for n in range(8)
    ]
    assert " more " not in farm.simulate(document, jobs=mine).answer


@pytest.mark.parametrize(
    ("pools", "arrivals", "more", "said"),
    [
        ([pool(builders=30)], BURST, {}, "no job waited"),
        (
            [pool()],
            {"every": "50s", "count": 50, "service_time": "50.04s", "platform": AMD},
            {},
            "p95 wait 1.9 s: there are enough builders",
        ),
        (  # less than a tenth of the run time
            [pool(builders=2)],
            {**BURST, "every": "9m50s", "count": 9, "service_time": "20m"},
            {},
            "p95 wait 72 s: there are enough builders",
        ),
        (
            [pool(builders=2, inter_job_time="5m")],
            {**BURST, "service_time": "10s"},
            {},
            "p95 wait 46 min: jobs wait though 97% of the builders are free between 1h and 1h15m",
        ),
    ],
)
def test_what_else_there_is_to_say(pools, arrivals, more, said):
    """No waits, small ones, and waits for something else than builders."""
    assert answer(pools, arrivals, **more) == said


def test_a_run_of_another_version_has_an_answer_too(tmp_path: Path):
    """Its scenario may have keys that are unknown here: nothing is said of builders."""
    run = farm.simulate({"pools": [pool()], "workload": [{"arrivals": BURST}]}, out=tmp_path / "r")
    assert "the farm is short of builders" in run.answer
    (tmp_path / "r/scenario.yaml").write_text("pools: gone")
    told = farm.open_run(tmp_path / "r").answer
    assert told == run.answer.partition(":")[0]


SIZED = {"algorithm": "taskcluster", "max": 20, "scaling_ratio": 0.2, "interval": "1m"}
#: four jobs an hour
HOURLY = [{**BURST, "start": f"{hour}h", "count": 4} for hour in range(1, 8)]


@pytest.mark.parametrize(
    ("keys", "arrivals", "key"),
    [
        ({"provisioner": {"algorithm": "keda", "max": 2, "interval": "1m"}}, [BURST], "max"),
        ({"provisioner": SIZED, "boot_time": "1m", "idle_timeout": "5m"}, [BURST], "scaling_ratio"),
        ({"provisioner": {**SIZED, "scaling_ratio": 1.0, "interval": "1s"}, "boot_time": "10m",
          "idle_timeout": "5m"}, HOURLY, "boot_time"),
    ],
)  # fmt: skip
def test_advice_on_a_pool_that_an_algorithm_sizes_comes_true(keys, arrivals, key):
    """Its limits, or what makes builders come sooner: done as a user would, the wait is as told."""
    document = {"pools": [pool(**keys)], "workload": [{"arrivals": one} for one in arrivals]}
    result = farm.simulate(document)
    advice = advice_for(result.kept)
    assert advice is not None
    changes: dict[str, object] = {}
    for remedy in advice.remedies:
        changes[f"pools__p__{remedy.key.replace('.', '__')}"] = remedy.after
        wait = farm.simulate(document, **changes).summary["waiting_time_s"]["p95"]
        assert wait == remedy.wait
        assert wait < remedy.wait_before
    assert advice.remedies[0].key.endswith(key)
    assert f"{key}=" in result.answer


def test_jobs_that_fail_are_told_last():
    """Of a provisioned pool, too."""
    sized = {"algorithm": "keda", "max": 2, "interval": "1m"}
    grows = pool(provisioner=sized, boot_time="10m")
    found = answer([grows], {**BURST, "fails": 1.0}, scheduling={"retries": 0})
    assert "too few builders were there between" in found
    assert found.endswith("20 jobs failed")


def test_a_long_run_of_a_provisioned_pool_names_the_command_that_varies_its_maximum():
    """A plan would size it as a fixed pool."""
    sized = {"algorithm": "keda", "max": 3, "interval": "1m"}
    document = {"pools": [pool(provisioner=sized)], "workload": [{"arrivals": BURST}]}
    result = farm.simulate(document)
    many = msgspec.structs.replace(result.kept.summary, events=10**8)
    run = _Run(many, result)
    said = answer_of_run(many, lambda: result.jobs, result.scenario, advice_for(run))
    assert re.search(r"--slo '.*' --vary pools\.p\.provisioner\.max=3,5,6 finds", said)


def test_the_reference_searches_less_far():
    """It takes twenty times as long for an event: the search must not take longer than seconds."""
    document = {
        "pools": [pool(builders=2)],
        "workload": [{"arrivals": {**BURST, "attributes": {"team": "a"}}}],
        "scheduling": {"fair_share": ["team"]},
    }
    result = farm.simulate(document)
    assert result.summary["engine"] == "reference"
    assert "more builder" in result.answer
    with pytest.MonkeyPatch.context() as patch:
        three_simulations = 3 * result.kept.summary.events
        patch.setattr("farm.app.runs.advice.MAX_EVENTS_OF_REFERENCE", three_simulations)
        assert "finds how many more it takes" in farm.simulate(document).answer


def test_a_policy_by_run_times_is_advised_with_what_it_relies_on():
    """In simulation they are known to the second, or are learned."""
    arrivals = {
        "poisson": {"rate": "0.0095/s"}, "count": 300, "platform": AMD,
        "service_time": {"lognormal": {"mean": "200s", "std": "800s"}},
    }  # fmt: skip
    document = {"pools": [pool(builders=2)], "workload": [{"arrivals": arrivals}], "seed": 1}
    said = farm.simulate(document, policy="ljf").answer
    found = re.search(r"policy (\S+?),? (which relies on declared run times)?", said)
    assert found is not None
    assert (found[1] == "fifo") == (found[2] is None)


def test_waits_as_long_as_a_boot_are_boots():
    """A builder for each job; where they boot for longer than jobs wait, that is not it."""
    said = (
        "p95 wait 46 s: builders take as long to boot; with boot_time=22.5s instead of 45s it is "
        "23 s (the same builder-hours)"
    )
    assert farm.simulate("ephemeral-runners").answer == said
    longer = farm.simulate("ephemeral-runners", pools__runners__boot_time="3m").answer
    assert "p95 wait 5.2 min: too few builders were there most of the time" in longer
    again = answer([pool(builders=1, uses=1, boot_time="15m")], {**BURST, "count": 4})
    assert again.startswith("p95 wait 57 min: too few builders were there between 1h and 1h30m; ")


def test_waits_of_each_day_are_told_by_the_hour():
    """Two hours each day, over five days."""
    bursts = [{**BURST, "start": f"{24 * day + 9}h"} for day in range(5)]
    assert "between 09:00 and 10:00 of the day" in answer([pool(builders=2)], *bursts)
    later = answer([pool(builders=2)], *bursts, starts="mon 03:00")
    assert "between 12:00 and 13:00 of the day" in later


def test_waits_are_told_by_the_clock_of_the_farm():
    """As the axes of a page are: with a date, or with a weekday."""
    early = {**BURST, "start": "2h"}
    assert " between 2h and " in answer([pool(builders=2)], early)
    assert " between Tue 02:00 and 0" in answer([pool(builders=2)], early, starts="tue")
    dated = answer([pool(builders=2)], early, starts="2026-03-02 09:00")
    assert " between Mon 2 Mar 11:00 and 1" in dated
    within = answer([pool(builders=2)], early, starts="2026-03-02 09:00:02")
    assert within == dated, "seconds of a twin's first record are not said"


def test_how_much_of_the_claim_is_simulated_is_told():
    """It may take seconds: shares rise, and end at most at 1."""
    shares: list[float] = []
    found = farm.simulate({"pools": [pool(builders=2)], "workload": [{"arrivals": BURST}]})
    assert found.answered(shares.append) == found.answer
    assert (len(shares) > 1, shares == sorted(shares), shares[-1] <= 1.0) == (True, True, True)


BASE = Choice("a", 2400.0, None, None, "", 100.0, costs_other=False)
BEST = Choice("b", 240.0, 216.0, 276.0, "better", 100.0, costs_other=False)


WAITS = "mean wait 4 min (95 %: 3.6 to 4.6) instead of 40 min"
DEAR, CHEAP = {"cost": 120.0, "costs_other": True}, {"cost": 80.0, "costs_other": True}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, f"with b jobs wait less, at the same cost as with a: {WAITS}"),
        (DEAR, f"it is a trade: with b jobs wait less, at 20.0 % more cost than with a: {WAITS}"),
        (
            {"wait": 2300.0, "low": None, "verdict": "noise", **CHEAP},
            ("b costs 20.0 % less than a, and jobs wait no longer: "
            "mean wait 38 min instead of 40 min"),
        ),
        (
            {"wait": 2520.0, "low": None, "verdict": "noise", **CHEAP},
            ("b costs 20.0 % less than a; the waits do not differ by more than noise: "
            "mean wait 42 min against 40 min"),
        ),
        (
            {"wait": 4800.0, "low": None, "verdict": "longer", **CHEAP},
            ("it is a trade: with b jobs wait longer, at 20.0 % less cost than with a: "
            "mean wait 80 min instead of 40 min"),
        ),
        ({"wait": 4800.0, "verdict": "worse"},
         "a stays the best: mean wait 40 min instead of 80 min with b"),
        ({"wait": 2400.0, "verdict": "same"}, "nothing changes the waits: mean wait 40 min"),
        ({"wait": 2390.0, "verdict": "small"},
         "no wait differs by more than noise: mean wait 40 min"),
    ],
)  # fmt: skip
def test_the_best_choice_for_what_it_costs(changes, said):
    """What waits least at no more cost; else what a change would buy."""
    assert answer_of_choices([BASE, BEST._replace(**changes)]).text == said


def test_the_best_of_several_may_cost_no_more():
    """One that waits even less, for more, is not it."""
    dear = BEST._replace(name="c", wait=200.0, **DEAR)
    said = f"b is the best that costs no more: {WAITS}"
    assert answer_of_choices([BASE, dear, BEST]).text == said


def test_who_gains_and_who_loses_where_all_wait_as_before():
    """Other weights of fair share shift the waits between teams, and not their mean."""
    teams = [
        {**BURST, "name": team, "every": "30s", "count": 60, "attributes": {"team": team}}
        for team in ("web", "infra")
    ]
    document = {
        "pools": [pool(builders=2)],
        "workload": [{"arrivals": one} for one in teams],
        "scheduling": {"fair_share": ["team"], "weights": {"web": 3}},
    }
    even = {**document, "scheduling": {"fair_share": ["team"]}}
    found = farm.compare(farm.simulate(document), farm.simulate(even))
    parts = {one.name: one for one in found.pairs[0].parts}
    assert parts["web"].verdict == "worse"
    assert parts["infra"].verdict == "better"
    loses = f"web wait longer ({spoken_span(parts['web'].other)} instead of "
    assert (
        f"jobs of infra wait less ({spoken_span(parts['infra'].other)} instead of" in found.answer
    )
    assert f"and those of {loses}" in found.answer
    assert "the mean wait of all jobs stays" in found.answer
    assert "invocation web" in found._repr_html_()


def test_a_sweep_speaks_of_the_first_metric_asked_for():
    """Of it alone, with its unit; a setting of two axes is named by both."""
    document = {"pools": [pool()], "workload": [{"arrivals": BURST}]}
    axes = {"pools.p.builders": [1, 2], "pools.p.boot_time": ["0s", "10s"]}
    found = farm.sweep(document, axes, replications=1).sweep
    p95, cost = metrics_named(["p95(waiting_time)", "cost"], "--metric")
    assert "; with one run" in answer_of_sweep(found, p95)
    assert "2 builders and boot time 0s" in answer_of_sweep(found, p95)
    assert ": p95 wait " in answer_of_sweep(found, p95)
    assert "cost" in answer_of_sweep(found, cost)
    assert " wait" not in answer_of_sweep(found, cost)


def test_settings_are_named_as_keys_and_worse_metrics_are_told():
    """``5 min and 220 max`` reads as minutes; and a shorter mean can have a far longer p95."""
    axes = {"pools.0.provisioner.min": [0, 5], "pools.0.provisioner.max": [100, 220]}
    sized = answer_of_sweep(farm.sweep("taskcluster-simple", axes, replications=2).sweep)
    assert sized.startswith("min=5, max=100 is the best")

    policies = {"scheduling.policy": ["fifo", "sjf"]}
    shortest = answer_of_sweep(farm.sweep("quickstart", policies, replications=12).sweep)
    assert shortest.startswith("with sjf jobs wait less")
    _, _, worse = shortest.partition("; but ")
    assert re.fullmatch(r"waiting time max \+\d.* % and p95 .*, response time max .* %", worse)


def test_few_seeds_are_said_where_noise_is_left():
    """That no wait differs, 95 s against 34 min, reads as a finding: three seeds were too few."""
    axes = {"scheduling.policy": ["fifo", "sjf", "ljf"], "pools.linux.builders": [8, 10, 12, 14]}
    few, more = (
        answer_of_sweep(farm.sweep("quickstart", axes, replications=n).sweep) for n in (3, 10)
    )
    assert few.endswith("; more seeds (--replications) may tell more settings apart")
    assert "seeds" not in more


def test_a_metric_has_one_name_in_three_spellings():
    """As tables, objectives and options have it; another is answered with a near one."""
    spelt = ["waiting_time.p95", "p95(waiting_time)", "waiting time p95"]
    assert len({one.name for one in metrics_named(spelt, "--metric")}) == 1
    assert len({parse_objective(f"{name} < 5m") for name in spelt}) == 1
    assert parse_objective("linux.waiting_time.p95 < 5m") == parse_objective(
        "p95(linux.waiting_time) < 5m"
    )
    with pytest.raises(InputError, match=r"did you mean waiting_time\.p95"):
        metrics_named(["waiting_tme.p95"], "--metric")


def compared(*runs: farm.Result) -> list[str]:
    """Return the lines of a comparison of runs."""
    console = Console(width=400, no_color=True)
    with console.capture() as shown:
        console.print(render_comparison(farm.compare(*runs)))
    return shown.get().splitlines()


def test_the_first_line_of_a_comparison_is_what_the_scenarios_differ_in():
    """And the runs are called by it: names of directories say nothing of a change."""
    document = {"pools": [pool(), pool("q")], "workload": [{"arrivals": BURST}]}
    one = farm.simulate(document)
    two = farm.simulate(document, pools__q__builders=2, scheduling__policy="sjf")
    first, answer, base, *_ = compared(one, two)
    names = [run.kept.label for run in (two, one)]
    assert first == (
        f"{names[0]} differs from {names[1]}: pools.q.builders is 2 instead of 1, "
        "scheduling.policy is sjf instead of fifo."
    )
    assert "with 2 builders and sjf" in answer
    assert base.endswith(": 1 builder and fifo")
    [pair] = farm.compare(one, two).pairs
    assert (pair.base, pair.other) == (names[1], names[0]), "keys of JSON keep their meaning"


def test_a_comparison_of_several_runs_calls_each_by_all_keys_that_differ():
    """Also by a key in which one is as the base, as in a sweep."""
    document = {"pools": [pool()], "workload": [{"arrivals": BURST}]}
    one = farm.simulate(document)
    more = farm.simulate(document, pools__p__builders=2)
    sjf = farm.simulate(document, scheduling__policy="sjf")
    pairs = farm.compare(one, more, sjf).pairs
    assert [pairs[0].base_name, *(pair.other_name for pair in pairs)] == [
        "1 builder and fifo", "2 builders and fifo", "1 builder and sjf",
    ]  # fmt: skip
    seeds = farm.compare(one, farm.simulate(document, seed=2)).pairs[0]
    assert (seeds.base_name, seeds.other_name) == ("seed=1", "seed=2")


def test_scenarios_that_differ_in_much_are_told_shortly():
    """Runs keep their labels; a section that only one of them has is one difference."""
    document = {"pools": [pool(builders=2)], "workload": [{"arrivals": BURST}]}
    one = farm.simulate(document)
    grown = {
        "pools": [pool(builders=3, slots=2, speed=2.0, boot_time="1m", price=2.0), pool("new")],
        "workload": [{"arrivals": BURST}],
    }
    [pair] = farm.compare(one, farm.simulate(grown)).pairs
    assert (pair.base_name, pair.other_name) == (pair.base, pair.other)
    assert "pools.p.slots is 2 instead of 1, " in pair.difference
    assert pair.difference.endswith(", 3 more keys differ")
    assert ("pools.new", "not set", "set") in [
        (one.key, one.base, one.other) for one in pair.differences or ()
    ]


def test_a_comparison_names_every_metric_that_becomes_worse():
    """A shorter mean is no recommendation without it."""
    fifo, sjf = (farm.simulate("quickstart", policy=name) for name in ("fifo", "sjf"))
    said = farm.compare(fifo, sjf).answer
    assert said.endswith("; but waiting time max +175.6 %, response time max +112.6 %")


def test_runs_of_one_name_are_distinguished_also_in_a_notebook():
    """Results in memory may have the same scenario, policy and seed."""
    document = {"pools": [pool()], "workload": [{"arrivals": BURST}]}
    few, many = (farm.simulate(document, pools__p__builders=n) for n in (1, 2))
    found = farm.compare(few, many)
    assert found.answer.startswith("it is a trade: with 2 builders jobs wait less")
    again = farm.compare(few, few)
    assert f"{few.kept.label}, run 2 and {few.kept.label}, run 1 are of the" in (
        again.pairs[0].difference
    )
    for shown, result in ((few.answer, few), (found.answer, found)):
        assert f'<p><span style="font-weight:bold">{sentence(shown)}</span></p>' in str(
            result._repr_html_()
        )
    assert "<td style=text-align:left>waiting time mean" in found._repr_html_()


def test_farms_without_cost_or_waits():
    """A price of nothing, and waits of nothing, divide nothing."""
    free = BASE._replace(cost=0.0, wait=0.0)
    dear = BEST._replace(cost=5.0, wait=0.0, costs_other=True, verdict="same")
    assert answer_of_choices([free, dear]).text == "nothing changes the waits: no job waits"
    assert frontier([free, dear, dear._replace(name="c")]) == ["a"]
    assert frontier([BASE, BEST._replace(cost=120.0), BEST._replace(cost=130.0)]) == ["a", "b"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.0, "0 s"), (0.027, "27 ms"), (0.5, "0.5 s"), (98.0, "98 s"), (1553.0, "26 min"),
     (521.0, "8.7 min"), (7000.0, "1.9 h"), (300_000.0, "3.5 days"), (float("inf"), "-")],
)  # fmt: skip
def test_spans_as_they_are_said(seconds, said):
    """Two digits and one unit."""
    assert spoken_span(seconds) == said


def test_a_sentence_begins_with_a_capital_but_for_names():
    """A policy is not called Sjf."""
    assert [sentence(text) for text in ("no job waited", "sjf is best")] == [
        "No job waited.", "sjf is best.",
    ]  # fmt: skip
