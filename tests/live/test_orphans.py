"""A farm whose keeper is killed, at any moment: no process is left, and the next one comes up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.processes import stop, until
from tests.worlds.up import Up, scenario

pytestmark = pytest.mark.live

#: real seconds within which no process is left: twice the promise (``farm admin chaos`` counts)
#: because a test must not fail for a starved machine
GONE_WITHIN = 30.0


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Up]:
    """A farm of two builders, of which nothing is left after the test whatever happens."""
    farm = Up(tmp_path, scenario())
    yield farm
    farm.end_all()


MOMENTS: dict[str, Callable[[Up], object]] = {
    "its server starts": lambda farm: len(farm.processes()) > 1,
    "its services start": lambda farm: farm.processes("provisioner"),
    "its host starts": lambda farm: farm.processes("workers.app"),
    "it is up": lambda farm: farm.is_up,
}


@pytest.mark.parametrize(
    "moment",
    ["its server starts"]
    + [pytest.param(moment, marks=pytest.mark.slow) for moment in [*MOMENTS][1:]],
)
def test_no_process_outlives_a_killed_keeper_and_the_next_farm_has_builders(kept: Up, moment: str):
    """Also processes that were still starting; the next farm takes over none of them."""
    kept.up()
    until(lambda: MOMENTS[moment](kept), moment)
    kept.kill_keeper()
    until(lambda: not kept.processes(), f"the end of {kept.processes()}", GONE_WITHIN)
    kept.up()
    until(lambda: kept.is_up, "coming up again")
    until(kept.has_builders, "the joining of its builders", 5.0)


@pytest.mark.slow
def test_a_new_farm_at_once_takes_over_no_host_of_the_last_one(kept: Up):
    """It does not even wait until they are gone."""
    kept.up()
    until(lambda: kept.processes("workers.app"), "the start of a host")
    (host,) = kept.processes("workers.app")
    stop(host)
    kept.kill_keeper()
    kept.up()
    until(lambda: kept.is_up, "coming up again")
    until(kept.has_builders, "the joining of its builders", 5.0)
    assert host not in kept.processes()


@pytest.mark.slow
def test_stopped_processes_do_not_outlive_a_killed_keeper(kept: Up):
    """Whatever is stopped for longer than every time-out.

    Host, schedulers, the process that rolls out for one of them, provisioner, server. The standby
    is started last. Before it runs its own program it has the keeper's pipes.
    """
    kept.up()
    until(lambda: kept.is_up and len(kept.processes()) == 7, "coming up")
    assert kept.keeper is not None
    stopped = {pid for pid in kept.processes() if pid != kept.keeper.pid}
    for pid in stopped:
        stop(pid)
    kept.kill_keeper()
    until(lambda: not kept.processes(), f"the end of {kept.processes()}", GONE_WITHIN)
