"""Prepared containers on a fake Engine: as many run as builders need; none in use is stopped."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from provisioner.backends.backend import BackendError, Pause, builders_to_host
from provisioner.backends.prepared import share_out
from provisioner.backends.prepared_api import Box, PreparedApi
from tests.provisioner.tended import Prepared, ReadTimeout, Refused, report


@pytest.fixture
def world() -> Iterator[Prepared]:
    """Four prepared containers and a pool without demand."""
    found = Prepared()
    found.engine.prepare(4)
    yield found
    found.backend._threads.shutdown()


# --- which builders need a host -----------------------------------------------------------------


def test_builders_with_a_host_of_their_own_need_none():
    """Nor do those whose host leaves: another host for them would be useless."""
    reports = {
        "p": report("p", 3, requested={"a": 0.0, "b": 0.0}, elsewhere=1),
        "q": report("q", 2, elsewhere=2),
    }
    assert builders_to_host(reports) == {"p": 4, "q": 0}


def test_a_pool_is_given_its_own_containers_first():
    """Those of any pool are left for builders that no other container can play."""
    boxes = [Box(name=name, host=name, pool=name[:-1].strip("*")) for name in ("*1", "p1", "q1")]
    needed, short = share_out({"p": 1, "q": 2, "r": 1}, boxes)
    assert ({box.name for box in needed}, short) == ({"p1", "q1", "*1"}, {"r": 1})
    assert share_out({"p": 0, "q": -1}, boxes) == ([], {})


def test_a_pause_doubles_and_ends():
    """Up to its limit; a success forgets all failures."""
    pause = Pause(first=1.0, longest=5.0)
    assert pause.over(0.0)
    assert [pause.failed(100.0) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert not pause.over(104.9)
    assert pause.over(105.0)
    pause.well()
    assert pause.failed(200.0) == 1.0


# --- up and down ------------------------------------------------------------------------------


def test_as_many_run_as_builders_need(world):
    """Grow at once; each is started once."""
    world.need["p"] = 3
    world.look(5)
    assert world.engine.running == ["box-1", "box-2", "box-3"]
    assert world.engine.calls == ["start box-1", "start box-2", "start box-3"]


def test_containers_without_builders_are_stopped_after_a_while(world):
    """And only those: containers with builders are kept first, whatever their place in the list."""
    world.need["p"] = 3
    world.look(2)
    world.need["p"], world.playing = 1, {"box-2": 1}
    world.look(9)
    assert len(world.engine.running) == 3
    world.look(5)
    assert world.engine.running == ["box-2"]
    world.look(60)
    assert world.engine.running == ["box-2"]


def test_a_container_that_plays_a_builder_is_never_stopped(world):
    """Even if the pools' reports do not have that builder yet."""
    world.need["p"] = 2
    world.look(2)
    world.need["p"], world.playing = 0, {"box-1": 1, "box-2": 1}
    world.look(100)
    assert world.engine.running == ["box-1", "box-2"]


def test_containers_for_a_pool_play_for_that_pool(world):
    """A pool without a container of its own takes one of any pool."""
    world.engine.prepare(2, pool="mac")
    world.need = {"mac": 1, "p": 1}
    world.look(3)
    assert world.engine.running == ["box-1", "box-5"]


def test_only_this_farms_containers_are_touched(world):
    """Another farm's have another label."""
    world.engine.prepare(3, farm="other")
    world.need["p"] = 7
    assert "all 4 are in use" in world.look(3)["p"]
    assert len(world.engine.running) == 4
    world.need["p"] = 0
    world.look(90)
    assert world.engine.running == []
    assert not any(f"stop box-{n}" in world.engine.calls for n in (5, 6, 7))


def test_without_a_name_they_are_those_of_the_compose_project(world):
    """Two clones on one Engine give their farms no names; each plays on its own containers."""
    project = {"com.docker.compose.project": "mine"}
    own = {"Id": socket.gethostname(), "Names": ["/own"], "State": "running", "Labels": project}
    world.engine.prepare(1, farm="")
    world.engine.boxes["box-5"]["Labels"] |= project
    world.engine.boxes["own"] = own
    api = PreparedApi(None, "read", "write", world.engine.connect)
    assert [box.name for box in api.list()] == ["box-5"]
    world.engine.boxes.pop("own")
    api = PreparedApi(None, "read", "write", world.engine.connect)
    assert len(api.list()) == 4, "no project: the farm called farm"


def test_a_restart_adopts_what_runs(world):
    """It starts none twice and stops none that plays."""
    world.need["p"], world.playing = 2, {"box-1": 1, "box-2": 1}
    world.look(2)
    again = world.begin()
    world.look(90, again)
    assert world.engine.calls == ["start box-1", "start box-2"]
    again._threads.shutdown()


def test_closing_leaves_them_running(world):
    """A restart of the provisioner costs no attempt; ``down`` stops Compose's containers."""
    world.need["p"] = 2
    world.look(2)
    world.backend.close()
    assert len(world.engine.running) == 2
    assert world.engine.calls[-2:] == ["read close", "write close"]


# --- failures of a container -----------------------------------------------------------------


def test_a_killed_container_is_replaced_at_once_and_retried_later(world):
    """A spare one takes over; the killed one is started when it is needed, after a pause."""
    world.need["p"] = 1
    world.look(2)
    world.engine.end("box-1", 137)
    world.look(2)
    assert world.engine.running == ["box-2"]
    world.need["p"] = 4
    world.look(3)
    assert len(world.engine.running) == 4


def test_a_container_that_ends_repeatedly_is_started_with_backoff(world, caplog):
    """Bounded, logged once each, and shown to operators."""
    world.engine.boxes = {name: box for name, box in world.engine.boxes.items() if name == "box-1"}
    world.need["p"] = 1
    told = set()
    for _ in range(600):
        told.update(world.look().values())
        if world.engine.running:
            world.engine.end("box-1", 2)
    assert 5 <= world.engine.calls.count("start box-1") <= 12
    (trouble,) = told
    assert trouble == (
        "pool p: 1 builder without a prepared container: of 1, 1 failed; "
        "box-1: ended by itself (Exited (2))"
    )
    assert sum("ended by itself" in r.message for r in caplog.records) <= 12


def test_a_silent_container_is_stopped_and_another_one_tried(world):
    """It runs, but its host never joins."""
    world.silent = {"box-1"}
    world.need["p"] = 1
    world.look(30)
    assert world.engine.running == ["box-1"]
    world.look(4)
    assert world.engine.running == ["box-2"]
    world.look(100)
    # a thread stops it while the other one is started
    assert sorted(world.engine.calls) == ["start box-1", "start box-2", "stop box-1"]


def test_a_container_that_cannot_be_started_does_not_block_others(world):
    """The Engine says why: its network is gone, it was removed just now."""
    world.engine.bad["box-1"] = Refused(404, "network gone")
    world.need["p"] = 3
    troubles = world.look(3)
    assert world.engine.running == ["box-2", "box-3", "box-4"]
    assert troubles == {}
    world.need["p"] = 4
    assert "box-1: Docker API (write) cannot start box-1: 404: network gone" in world.look()["p"]


def test_a_container_that_is_slow_to_stop_is_not_used_and_not_stopped_twice(world):
    """It finishes its jobs: its host reports that it leaves."""
    world.need["p"] = 2
    world.look(2)
    world.engine.bad["box-2"] = ReadTimeout("read timed out")
    world.need["p"], world.playing = 1, {"box-1": 1}
    world.look(15)
    world.leaving = {"box-2"}
    world.need["p"] = 2
    world.look(30)
    assert world.engine.calls.count("stop box-2") == 1
    assert world.engine.running == ["box-1", "box-2", "box-3"]


def test_too_few_are_reported_with_instructions(world):
    """None prepared at all, or all of them in use."""
    world.need["p"] = 6
    assert world.look(2) == {
        "p": "pool p: 2 builders without a prepared container: all 4 are in use; "
        "prepare more (--scale), or lower its max"
    }
    world.engine.boxes.clear()
    assert "there is none (labels farm.role=prepared, farm.farm=farm)" in world.look()["p"]


# --- failures of the API ---------------------------------------------------------------------

AWAY = ConnectionRefusedError(111, "refused")


@pytest.mark.parametrize(
    ("way", "error", "message"),
    [
        ("read", AWAY, r"Docker API \(read\) cannot list.*refused"),
        ("read", Refused(403), r"\(read\) refuses to list containers: .* needs CONTAINERS=1"),
        ("write", AWAY, r"\(write\) cannot start box-1: .*refused"),
        ("write", Refused(403), r"\(write\) refuses to start containers: .*ALLOW_START=1"),
        ("write", Refused(503, "Service Unavailable"), r"cannot start box-1: 503"),
        # the login page of a proxy
        ("read", ValueError("Expecting value: line 1"), "cannot list containers: Expecting value"),
    ],
)
def test_an_absent_or_refusing_api_is_one_message(world, way, error, message):
    """With what is missing; it continues by itself when that is repaired."""
    world.engine.broken[way] = error
    world.need["p"] = 1
    with pytest.raises(BackendError, match=message):
        world.look()
    assert world.engine.running == []
    world.engine.broken.clear()
    assert world.look() == {}
    assert world.engine.running == ["box-1"]


@pytest.mark.parametrize(
    "answer", ["<html>", {"message": "page not found"}, [{"Id": 7}], [{"Id": "x", "Names": []}]]
)
def test_an_answer_that_is_no_list_is_an_error(world, answer):
    """Another service answers at that address; nothing is done."""
    world.engine.garbage = answer
    with pytest.raises(BackendError, match=r"Docker API \(read\) does not answer with containers"):
        world.look()


def test_a_refused_stop_is_reported(world):
    """At the next look, because it is awaited in a thread."""
    world.need["p"] = 1
    world.look(2)
    world.need["p"] = 0
    world.look(9)
    world.engine.broken["write"] = Refused(403)
    with pytest.raises(BackendError, match="refuses to stop containers"):
        world.look(9)
    world.engine.broken.clear()
    world.look(70)
    assert world.engine.running == []


def test_a_container_whose_host_never_joins_is_tried_again_after_a_pause(world):
    """Its trouble is shown; without pauses it would be started and stopped all the time."""
    world.engine.boxes = {name: box for name, box in world.engine.boxes.items() if name == "box-1"}
    world.silent = {"box-1"}
    world.need["p"] = 1
    troubles = world.look(32)

    assert "box-1: did not announce its host within 30s" in troubles["p"]
    assert world.engine.calls == ["start box-1", "stop box-1"]
    world.look(600)
    assert 4 <= world.engine.calls.count("start box-1") <= 12


@pytest.mark.parametrize("status", [404, 409, 500])
def test_an_answer_about_one_container_blocks_no_other(world, status):
    """Gone, in use, or broken by itself: the next one is started."""
    world.engine.bad["box-1"] = Refused(status)
    world.need["p"] = 1
    world.look(2)
    assert world.engine.running == ["box-2"]
