"""Builders and platforms: which runs what, which goes first, drain, retire, clean, break."""

from __future__ import annotations

import itertools

import pytest

from farm.core.dispatching.balancers import RANKINGS
from farm.core.model import Platform

# --- platforms ----------------------------------------------------------------------------------

BUILDERS = {
    "amd64 virtual": {"processors": ("amd64",), "virtualized": True},
    "amd64 native": {"processors": ("amd64",), "virtualized": False},
    "both virtual": {"processors": ("amd64", "i386"), "virtualized": True},
    "no processor": {"processors": (), "virtualized": True},
}
RUNS = {
    Platform("amd64", True): {"amd64 virtual", "both virtual"},
    Platform("amd64", None): {"amd64 virtual", "both virtual"},
    Platform("amd64", False): {"amd64 native"},
    Platform("i386", True): {"both virtual"},
    Platform("i386", False): set(),
    Platform(None, True): {"amd64 virtual", "both virtual", "no processor"},
    Platform(None, None): {"amd64 virtual", "both virtual", "no processor"},
    Platform(None, False): {"amd64 native"},
}


@pytest.mark.parametrize(("builder", "platform"), list(itertools.product(BUILDERS, RUNS)), ids=str)
def test_which_builder_may_run_which_job(ledger, builder, platform):
    """No processor is any; no virtualization is virtual; whether job or builder comes first."""
    may = builder in RUNS[platform]
    farm = ledger()
    farm.join("x", **BUILDERS[builder])
    assert farm.submit("a", platform=platform) == (["start a/1 on x.0"] if may else [])
    farm = ledger()
    farm.submit("a", platform=platform)
    assert farm.join("x", **BUILDERS[builder]) == (["start a/1 on x.0"] if may else [])


def test_a_builder_of_two_processors_serves_both_queues_in_order(ledger):
    """The better job wins, whichever platform it is for; the order is one over all queues."""
    farm = ledger()
    for number, processor in enumerate(["i386", "amd64", "i386", None, "amd64"]):
        farm.submit(f"j{number}", platform=Platform(processor))
    assert farm.join("x", processors=("amd64", "i386")) == ["start j0/1 on x.0"]
    for number in range(4):
        assert farm.finish(f"j{number}")[1] == f"start j{number + 1}/1 on x.0"


def test_unspecified_and_virtual_jobs_wait_in_one_queue(ledger):
    """They need the same builders, so one order holds for them."""
    farm = ledger()
    farm.submit("a", platform=Platform("amd64"))
    farm.submit("b", platform=Platform("amd64", True))
    farm.submit("c", platform=Platform("amd64"))
    assert len(farm.scheduler.dispatcher.matching.lanes) == 1
    assert farm.dispatch_order("x") == ["a", "b", "c"]


# --- which builder ------------------------------------------------------------------------------


def test_jenkins_spreads_by_room_and_breaks_ties_by_index(ledger):
    """Slots ÷ (0.5 + busy): 4 and 2 slots fill as 8, 8/3, 4, 8/5, 4/3, 8/7."""
    farm = ledger()
    farm.join("two", slots=2)
    farm.join("four", slots=4)
    taken = [farm.submit(name)[0].split(" on ")[1] for name in "abcdef"]
    assert taken == ["four.0", "two.0", "four.1", "four.2", "two.1", "four.3"]


def test_longest_idle_takes_the_builder_free_the_longest(ledger):
    """The instant of the last job's end (or of joining) decides, then the index."""
    farm = ledger("x", "y", ranking=RANKINGS["longest-idle"])
    assert farm.submit("a") == ["start a/1 on x.0"]
    farm.finish("a")
    assert farm.submit("b") == ["start b/1 on y.0"]
    farm.finish("b")
    assert farm.submit("c") == ["start c/1 on x.0"]
    farm.submit("d")
    # both are back at one instant: the index decides
    farm.finish("d")
    farm.at -= 1.0
    farm.finish("c")
    assert farm.submit("e") == ["start e/1 on x.0"]


# --- drain, retire, idle ------------------------------------------------------------------------


def test_a_drained_builder_finishes_and_accepts_no_more(ledger):
    """It stays, and continues when undrained, with the waiting jobs."""
    farm = ledger("x")
    farm.submit("a")
    farm.submit("b")
    assert farm.drain("x") == []
    assert farm.finish("a") == ["end a succeeded"]
    assert farm.undrain("x") == ["start b/1 on x.0"]


def test_drain_with_retire_retires_when_empty(ledger):
    """Once only, and it cannot be undone."""
    farm = ledger("x", "y")
    farm.submit("a")
    assert farm.drain("*", retire=True) == ["retire y"]
    assert farm.drain("*", retire=True) == []
    assert farm.undrain("*") == "ignored"
    assert farm.finish("a") == ["end a succeeded", "retire x"]
    assert farm.submit("b") == []
    assert farm.retired("x") == []
    assert farm.retired("y") == []
    assert farm.scheduler.builders == {}
    assert farm.waiting == ["b"]


def test_a_drained_builder_can_be_retired(ledger):
    """Drain first, decide later."""
    farm = ledger("x")
    farm.drain("x")
    assert farm.drain("x", retire=True) == ["retire x"]


def test_drain_by_pattern(ledger):
    """Shell patterns over ids; the others continue."""
    farm = ledger("linux-1", "linux-2", "mac-1")
    farm.drain("linux-[12]")
    assert farm.submit("a") == ["start a/1 on mac-1.0"]
    farm.submit("b")
    assert farm.undrain("linux-2") == ["start b/1 on linux-2.0"]


def test_a_broken_builder_never_takes_a_job(ledger):
    """It exists, is counted, and can be lost, drained, undrained and retired."""
    farm = ledger()
    farm.submit("a")
    assert farm.join("x", takes_jobs=False) == []
    assert farm.drain("x") == []
    assert farm.undrain("x") == []
    assert farm.drain("x", retire=True) == ["retire x"]
    farm.retired("x")
    farm.join("y", takes_jobs=False)
    assert farm.lose("y") == []
    assert farm.waiting == ["a"]


# --- cleaning -----------------------------------------------------------------------------------


def test_a_slot_is_cleaned_before_its_next_job(ledger):
    """Between a job's end and SlotCleaned the slot is busy."""
    farm = ledger()
    farm.join("x", cleans=True, slots=2)
    farm.submit("a", "b", "c")
    assert farm.finish("a") == ["end a succeeded"]
    assert farm.cleaned("x", 1) == "ignored", "it runs a job"
    assert farm.cleaned("x", 0) == ["start c/1 on x.0"]
    assert farm.cleaned("x", 0) == "ignored"


def test_a_retiring_builder_cleans_first(ledger):
    """It retires when its last slot is clean."""
    farm = ledger()
    farm.join("x", cleans=True)
    farm.submit("a")
    farm.drain("x", retire=True)
    assert farm.finish("a") == ["end a succeeded"]
    assert farm.cleaned("x") == ["retire x"]


def test_draining_and_undraining_while_cleaning(ledger):
    """The slot opens once: when it is clean and its builder takes jobs."""
    farm = ledger()
    farm.join("x", cleans=True)
    farm.submit("a")
    farm.finish("a")
    farm.drain("x")
    assert farm.undrain("x") == []
    assert farm.submit("b") == []
    assert farm.cleaned("x") == ["start b/1 on x.0"]
    farm.finish("b")
    farm.drain("x")
    farm.submit("c")
    assert farm.cleaned("x") == []
    assert farm.undrain("x") == ["start c/1 on x.0"]


def test_a_builder_that_claims_its_work(ledger):
    """No slot is offered before its claim: neither from the beginning nor after a job."""
    farm = ledger()
    farm.join("x", cleans=True, claims=True, slots=2)
    assert farm.submit("a", "b", "c", "d") == []
    assert farm.cleaned("x", 1) == ["start a/1 on x.1"]
    assert farm.cleaned("x", 1) == "ignored", "it runs a job"
    assert farm.cleaned("x", 0) == ["start b/1 on x.0"]
    assert farm.finish("a") == ["end a succeeded"]
    assert farm.cleaned("x", 1) == ["start c/1 on x.1"]


def test_a_claim_that_comes_first_waits_for_a_job(ledger):
    """The offer stands."""
    farm = ledger()
    farm.join("x", cleans=True, claims=True)
    assert farm.cleaned("x") == []
    assert farm.submit("a") == ["start a/1 on x.0"]


@pytest.mark.parametrize("claimed", [0, 1, 2])
def test_a_builder_that_claims_may_leave_without_claiming(ledger, claimed):
    """It is retired when it runs nothing, whether it has claimed or not; not before."""
    farm = ledger()
    farm.join("x", cleans=True, claims=True, slots=2)
    farm.submit("a")
    for slot in range(claimed):
        farm.cleaned("x", slot)
    if claimed:
        assert farm.drain("x", retire=True) == []
        assert farm.finish("a") == ["end a succeeded", "retire x"]
    else:
        assert farm.drain("x", retire=True) == ["retire x"]
    assert farm.retired("x") == []
