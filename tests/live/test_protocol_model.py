"""The protocol between leaders, successors and hosts, model-checked: every job ends exactly once.

The real classes of both sides work against a real server. The test controls time, threads and the
network: any step may be the last one before a crash or a pause, reports come late, twice and out of
order, and commands get lost.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from typing import Any
from unittest import mock

import msgspec
import pytest
import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from farm.core.errors import RunError
from farm.core.model import Job, Platform
from farm.live.redis.kept_connection import KeptConnection
from farm.live.redis.keys import Keys
from farm.live.redis.server import EmbeddedServer
from tests.fixtures.examples import in_search, number_of_examples, of_part
from tests.worlds.stepwise import POOLS, Host, Leader, Stepwise

pytestmark = pytest.mark.live

#: seconds that pass at once: less and more than every time-out
LEAPS = (0.2, 1.0, 2.5, 7.0)
#: jobs of a history, and turns within which all must end once no more faults occur
MOST_JOBS, ENOUGH = 30, 200
_serial = itertools.count()


class Protocol(RuleBasedStateMachine):
    """A farm of one leader, its deposed predecessors, and up to three hosts."""

    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.farm = Stepwise(self.url, Keys(f"model{os.getpid()}-{next(_serial)}:"))
        self.client, self.keys, self.hosts = self.farm.client, self.farm.keys, self.farm.hosts
        self.deposed: list[Leader] = []
        self.submitted: list[str] = []
        #: how many attempts a builder may begin
        self.uses = MOST_JOBS * ENOUGH
        self.ends: dict[bytes, bytes] = {}

    @initialize(uses=st.sampled_from([None, None, 1, 3]))
    def comes_up(self, uses: int | None = None) -> None:
        if uses is not None:
            self.uses = uses
            pools = [msgspec.structs.replace(pool, uses=uses) for pool in POOLS]
            self.farm.pools = pools
        self.farm.lead()
        self.farm.add_host()

    @property
    def leader(self) -> Leader | None:
        return self.farm.leader

    # --- submitters ---------------------------------------------------------------------------

    @precondition(lambda self: len(self.submitted) < MOST_JOBS)
    @rule(count=st.integers(1, 4))
    def submit(self, count: int) -> None:
        jobs = [self._job(f"job-{len(self.submitted) + n}") for n in range(count)]
        self.farm.operator.submit(jobs)
        self.submitted += [job.id for job in jobs]

    @precondition(lambda self: self.submitted)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        self.farm.operator.submit([self._job(data.draw(st.sampled_from(self.submitted)))])

    def _job(self, name: str) -> Job:
        return Job(id=name, service_time=3.0, platform=Platform("amd64", True))

    # --- leaders ------------------------------------------------------------------------------

    @precondition(lambda self: self.leader)
    @rule()
    def leader_takes_in(self) -> None:
        self._leader.world.receive_reports(0.0)

    @precondition(lambda self: self.leader)
    @rule()
    def leader_decides(self) -> None:
        self._leader.decide()

    @precondition(lambda self: self.leader)
    @rule()
    def leader_commits(self) -> None:
        self._leader.commit()

    @precondition(lambda self: self.leader)
    @rule()
    def leader_turns(self) -> None:
        self._leader.turn()

    @precondition(lambda self: self.leader)
    @rule()
    def leader_commits_and_the_answer_is_lost(self) -> None:
        exchange = KeptConnection.exchange
        broken = iter([True])

        def cut(connection: KeptConnection, commands: Any) -> Any:
            answers = exchange(connection, commands)
            if ("EXEC",) in commands and next(broken, False):
                raise redis.ConnectionError("cut")
            return answers

        with mock.patch.object(KeptConnection, "exchange", cut):
            self._leader.commit()

    @precondition(lambda self: self.leader)
    @rule()
    def leader_dies(self) -> None:
        self.farm.leader = None

    @precondition(lambda self: self.leader)
    @rule()
    def leader_is_paused(self) -> None:
        self.deposed.append(self._leader)
        self.farm.leader = None

    @precondition(lambda self: self.leader is None)
    @rule()
    def successor_takes_over(self) -> None:
        self.farm.lead()

    @precondition(lambda self: self.leader is None)
    @rule()
    def hosts_are_forgotten(self) -> None:
        """The server loses what a successor should know of the hosts."""
        self.client.delete(self.keys.lives)

    @precondition(lambda self: self.deposed and self.leader)
    @rule(data=st.data(), takes_in=st.booleans())
    def deposed_leader_wakes_up(self, data: st.DataObject, takes_in: bool) -> None:
        woken = data.draw(st.sampled_from(self.deposed))
        before = self.client.hgetall(self.keys.jobs), self._queued()
        with contextlib.suppress(RunError):
            if takes_in:
                woken.world.receive_reports(0.0)
            woken.commit()
        assert before == (self.client.hgetall(self.keys.jobs), self._queued())

    def _queued(self) -> dict[str, list[bytes]]:
        names = [self.keys.host_list(host.name) for host in self.hosts]
        return {name: self.client.lrange(name, 0, -1) for name in names}

    @property
    def _leader(self) -> Leader:
        assert self.leader is not None
        return self.leader

    # --- hosts --------------------------------------------------------------------------------

    @precondition(lambda self: len(self.hosts) < 3)
    @rule()
    def host_comes(self) -> None:
        self.farm.add_host()

    @precondition(lambda self: self.hosts)
    @rule(data=st.data())
    def host_dies(self, data: st.DataObject) -> None:
        self.hosts.remove(self._some_host(data))

    @precondition(lambda self: self.hosts)
    @rule(data=st.data(), most=st.integers(1, 5), lost=st.sampled_from([False, False, False, True]))
    def host_takes_commands(self, data: st.DataObject, most: int, lost: bool) -> None:
        self.farm.take_commands(self._some_host(data), most, lost=lost)

    @precondition(lambda self: self.hosts)
    @rule(data=st.data(), times=st.sampled_from([1, 1, 2]))
    def host_reports(self, data: st.DataObject, times: int) -> None:
        self.farm.send_reports(self._some_host(data), times)

    @precondition(lambda self: any(host.sent for host in self.hosts))
    @rule(data=st.data())
    def old_report_comes_again(self, data: st.DataObject) -> None:
        sent = [data for host in self.hosts for data in host.sent]
        self.client.xadd(self.keys.stream("reports"), {"m": data.draw(st.sampled_from(sent))})

    @rule(seconds=st.sampled_from(LEAPS))
    def time_passes(self, seconds: float) -> None:
        self.farm.pass_time(seconds)

    @precondition(lambda self: self.leader)
    @rule()
    def leader_reads_and_hears_nothing(self) -> None:
        for _ in range(7):
            self.time_passes(1.0)
            self._leader.world.receive_reports(0.0)

    def _some_host(self, data: st.DataObject) -> Host:
        return data.draw(st.sampled_from(self.hosts))

    # --- invariants --------------------------------------------------------------------

    @invariant()
    def an_end_is_final(self) -> None:
        found = self.client.hgetall(self.keys.results)
        assert {job: found.get(job) for job in self.ends} == self.ends
        self.ends = found

    @invariant()
    def no_attempt_is_begun_twice(self) -> None:
        assert max(self.farm.begun.values(), default=1) == 1

    @invariant()
    def no_builder_exceeds_its_uses(self) -> None:
        assert max(self.farm.used.values(), default=0) <= self.uses

    def teardown(self) -> None:
        try:
            self._let_it_end()
        finally:
            self.farm.close()

    def _let_it_end(self) -> None:
        """Inject no more faults: every job that was submitted ends, successfully."""
        for _ in range(ENOUGH):
            self.an_end_is_final()
            if self.ends.keys() == {name.encode() for name in self.submitted}:
                break
            self.farm.calm_second()
        self.no_attempt_is_begun_twice()
        self.no_builder_exceeds_its_uses()
        outcomes = {name.decode(): json.loads(end)["outcome"] for name, end in self.ends.items()}
        assert outcomes == dict.fromkeys(self.submitted, "succeeded")


def check(server: EmbeddedServer, examples: int, steps: int, part: int = 0) -> None:
    """Try this many histories of this many steps."""
    machine = type("Checked", (Protocol,), {"url": server.url})
    run_state_machine_as_test(
        of_part(part)(machine),
        settings=settings(
            max_examples=number_of_examples(examples),
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            # shrinking takes minutes: a failure is reported as found, by its seed
            phases=(Phase.generate,),
            derandomize=not in_search(),
        ),
    )


def test_every_job_ends_exactly_once(server: EmbeddedServer):
    """Whatever dies, pauses, repeats itself or is lost between any two steps."""
    check(server, examples=40, steps=40)


def test_jobs_of_hosts_that_are_forgotten_end(server: EmbeddedServer):
    """A successor knows the builders and their jobs, and of their host nothing any more."""
    model = type("Directed", (Protocol,), {"url": server.url})()
    model.comes_up()
    model.submit(count=4)
    for _ in range(ENOUGH):
        if model.farm.begun:
            break
        model.farm.calm_second()
    assert model.farm.begun
    model.leader_dies()
    model.hosts_are_forgotten()
    model.teardown()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", [1, 2])
def test_every_job_ends_exactly_once_in_long_histories(server: EmbeddedServer, part: int):
    """The same, many times."""
    check(server, examples=50, steps=80, part=part)
