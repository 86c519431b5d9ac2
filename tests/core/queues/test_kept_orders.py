"""Reading a queue in small steps while it changes: the result is one moment."""

from __future__ import annotations

from itertools import chain, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.queues import plain as platform_queue
from farm.core.queues.fair_share import future_order
from farm.core.queues.fair_share.queue import FairShareQueue
from farm.core.queues.plain import LookAheadQueue
from farm.core.state.snapshot import snapshot_of
from farm.forecasts.dispatch import in_steps
from farm.forecasts.dispatch.at_submission import executing
from farm.forecasts.dispatch.in_steps import QueueSweep, SweepRunTimes
from farm.forecasts.dispatch.launchpad_formula import RULES, estimate_queue
from farm.forecasts.dispatch.view import view_of
from tests.fixtures.estimates import whole_table
from tests.fixtures.examples import examples
from tests.fixtures.player import PHASES, Player, histories, made, rules_of_a_farm, trees


@examples(100, phases=PHASES)
@given(
    before=histories,
    after=histories,
    rules=rules_of_a_farm,
    stickiness=trees,
    look_ahead=st.booleans(),
    steps=st.integers(0, 10),
)
def test_a_kept_order_stays_as_it_was(ledger, before, after, rules, stickiness, look_ahead, steps):
    """A queue read in small steps shows one moment, whatever happens in between."""
    rules = made(rules, stickiness)
    if look_ahead and stickiness is None:
        rules["make_queue"] = LookAheadQueue
    player = Player(ledger("b0", **rules))
    player.play(before)
    queues = [lane.queue for lane in player.farm.lanes]
    was = [list(queue.in_order()) for queue in queues]
    kept = [queue.order_kept() for queue in queues]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platform_queue, "SORTED_AT_ONCE", 3)
        patch.setattr(platform_queue, "SAMPLED", 2)
        patch.setattr(future_order, "AT_ONCE", 2)
        seen = [list(islice(order, steps)) for order in kept]
        player.play(after)
        looks = (chain(head, rest) for head, rest in zip(seen, kept, strict=True))
        assert [[state for _, state in chain.from_iterable(look)] for look in looks] == was
    for queue in queues:
        next(queue.order_kept(), None)  # and is given up
        readers = queue._tree.onlookers if isinstance(queue, FairShareQueue) else queue._kept
        assert not readers, "no reader is kept"


@pytest.mark.slow
@examples(100, phases=PHASES)
@given(
    before=histories,
    after=histories,
    rules=rules_of_a_farm.map(lambda rules: {**rules, "dedup": False}),
    stickiness=trees,
    name=st.sampled_from(sorted(RULES)),
)
def test_a_sweep_in_steps_is_about_the_moment_at_which_it_began(
    ledger, before, after, rules, stickiness, name
):
    """Events between its steps change nothing: the formula on the snapshot, to the last bit."""
    player = Player(ledger("b0", **made(rules, stickiness)))
    player.play([*before, *(("submit", seed) for seed in range(10))])
    scheduler, at = player.farm.scheduler, player.farm.at
    lanes, builders = player.farm.lanes, scheduler.builders.values()
    own = SweepRunTimes(held=scheduler.estimator.estimate)
    sweep = QueueSweep(lanes, builders, at, RULES[name], own)
    jobs, expected = estimate_queue(view_of(snapshot_of(scheduler, at)), RULES[name])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_steps, "STEP", 2)
        patch.setattr(platform_queue, "SORTED_AT_ONCE", 3)
        patch.setattr(platform_queue, "SAMPLED", 2)
        patch.setattr(future_order, "AT_ONCE", 2)
        for event in after:
            player.play([event])
            sweep.step()
        found = finished(sweep).estimates
    assert list(sweep.places) == [job.id for job in jobs]
    assert whole_table(found) == whole_table(expected)


def finished(sweep: QueueSweep) -> QueueSweep:
    """Do all remaining steps."""
    while sweep.step():
        pass
    return sweep


@examples(50, phases=PHASES)
@given(before=histories, rules=rules_of_a_farm, stickiness=trees, since=st.integers(0, 40))
def test_a_sweep_for_new_jobs_estimates_them_as_a_whole_one(
    ledger, before, rules, stickiness, since
):
    """Also those that an older job's execution serves."""
    player = Player(ledger("b0", **made(rules, stickiness)))
    player.play([*before, *(("submit", seed) for seed in range(10))])
    scheduler, at = player.farm.scheduler, player.farm.at
    lanes, builders = player.farm.lanes, scheduler.builders.values()
    whole, partial = (QueueSweep(lanes, builders, at, since=least) for least in (0, since))
    finished(whole)
    finished(partial)
    new = [executing(state) for state in scheduler.jobs.values() if state.serial > since]
    for state in new:
        if state.slot is None:
            assert partial.estimate_of(state) == whole.estimate_of(state)
