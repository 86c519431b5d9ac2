"""Whatever is written to the scheduler's streams, the farm stays up, and reports refusals."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
import redis

from farm.app.api import load_scenario
from farm.core import events
from farm.core.commands import Command, EndJob
from farm.core.events import Event, JobFinished, JobsSubmitted
from farm.core.model import Cause, Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.restore import restore
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.live.live_options import LiveOptions, Stays
from farm.live.operating.answering import MAX_QUESTIONS
from farm.live.operating.control_plane import MAX_ANSWERS, ControlPlane
from farm.live.redis.keys import LAST_ENTRY, STREAMS, Keys
from farm.live.run import Watchers, run_live
from farm.live.store.store import Store
from farm.live.wire import messages as wire
from farm.live.wire.dead_letters import KEPT, kept
from farm.live.wire.messages import UNSTAMPED, VERSION, Envelope
from farm.live.world import LiveWorld

pytestmark = pytest.mark.live

AMD64 = Platform("amd64", True)
SENDERS = itertools.count()
POOLS = [PoolSpec(name="linux", processors=("amd64",), builders=1)]


def envelope(report: Any, seq: int = 1, sender: str | None = None, **changes: Any) -> bytes:
    """Return an envelope of one report, with some of the report's fields replaced."""
    name = f"sender-{next(SENDERS)}" if sender is None else sender
    built = msgspec.to_builtins(Envelope(VERSION, name, "life", seq, (report,)))
    built["reports"] = [built["reports"][0] | changes]
    return msgspec.json.encode(built)


def digits(count: int) -> bytes:
    """Return a number with this many zeros."""
    return b"1" + b"0" * count


JOB = Job(id="j", service_time=0.01, platform=AMD64)
JOBS = JobsSubmitted(UNSTAMPED, (JOB,))
PRIORITY = events.PriorityChanged(UNSTAMPED, "waits", level=7)
PLAN = wire.Plan("linux", 1, 1)

POISON: dict[str, tuple[str, bytes]] = {
    "no JSON": ("reports", b"\x00garbage"),
    "no UTF-8": ("requests", envelope(PRIORITY).replace(b'"waits"', b'"\xff"')),
    "no UTF-8 in a job": ("submissions", envelope(JOBS).replace(b'"j"', b'"\xc3"')),
    "a level of 400 digits": (
        "requests", envelope(PRIORITY).replace(b":7", b":" + digits(400)),
    ),
    "a level of a million digits": (
        "requests", envelope(PRIORITY).replace(b":7", b":" + digits(900_000)),
    ),
    "a score beyond numbers": ("requests", envelope(PRIORITY).replace(b":7", b":1e999")),
    "a number beyond counting": ("questions", envelope(wire.Ask("job", "", "t"), seq=2**60)),
    "a deep message": ("plans", b"[" * 500_000),
    "a huge message": ("reports", b'"' + b"x" * 3_000_000 + b'"'),
    "another version": ("reports", b'{"v": 2}'),
    "a sender without a name": ("submissions", envelope(JOBS, sender="")),
    "a name of a million characters": ("reports", envelope(wire.Beat(), sender="x" * 900_000)),
    "a plan for 10^9 builders": ("plans", envelope(PLAN, start=10**9)),
    "a plan for fewer than none": ("plans", envelope(PLAN, start=-5)),
    "a plan for no pool": ("plans", envelope(PLAN, pool="nowhere")),
    "an unknown sender's heartbeat": ("reports", envelope(wire.Beat())),
    "an unknown sender's end of a job": (
        "reports", envelope(JobFinished(UNSTAMPED, "waits", 1, "linux-1", "succeeded")),
    ),
    "a job of endless time": ("submissions", envelope(JOBS).replace(b"0.01", b"-1")),
    "a weight of nothing": (
        "requests",
        envelope(
            events.SchedulingChanged(UNSTAMPED, aging_factor=0.0, weights={"web": 0.0})
        ),
    ),
    "a cancellation that tells another story": (
        "requests",
        envelope(events.CancelRequested(UNSTAMPED, ("waits",), cause=Cause.FINISHED)),
    ),
    "a cancellation as a report": ("reports", envelope(events.CancelRequested(UNSTAMPED, ("j",)))),
    "a submission as a request": ("requests", envelope(JOBS)),
    "a report as a submission": ("submissions", envelope(wire.HostLeft())),
    "a pattern of a million characters": (
        "requests", envelope(events.DrainRequested(UNSTAMPED, "*" * 900_000)),
    ),
    "too many reports": (
        "questions",
        msgspec.json.encode(Envelope(VERSION, "s", "l", 1, (wire.Ask("job", "", "t"),) * 1001)),
    ),
    "too many jobs": (
        "submissions", msgspec.json.encode(
            Envelope(VERSION, "s", "l", 9, (JobsSubmitted(UNSTAMPED, (JOB,) * 1001),))
        ),
    ),
}  # fmt: skip


class Flawed(Scheduler):
    """A scheduler with a defect: a job of this name ends it."""

    def handle(self, event: Event) -> Any:
        if isinstance(event, JobsSubmitted) and event.jobs[0].id == "defect":
            raise ZeroDivisionError("a defect")
        return super().handle(event)


class StayingFarm:
    """A long-running farm, run in this process until a condition holds."""

    def __init__(self, client: Any, url: str, keys: Keys, folder: Any) -> None:
        self.client, self.url, self.keys, self.folder = client, url, keys, folder
        self.story: list[tuple[Event, list[Command]]] = []

    def run(
        self,
        over: Callable[[LiveWorld], object],
        first: Callable[[], object] = lambda: None,
        **options: Any,
    ) -> None:
        scheduler = Flawed(SchedulingRules(), make_estimator("oracle"), POOLS)
        deadline = time.monotonic() + 60
        controls: list[ControlPlane] = []

        def go_on(snapshot: Any, anew: bool, _: object) -> None:
            restore(scheduler, snapshot, rekey=anew)

        def around(world: LiveWorld) -> LiveWorld:
            controls.append(ControlPlane(world, scheduler, load_scenario("mm1"), long_lived=True))
            return world

        def tick(world: LiveWorld) -> float:
            due = controls[0].turn()
            late = time.monotonic() > deadline
            if (over(world) or late) and not world.stopping:
                world.stop()
            return due

        settings = LiveOptions(
            redis_url=self.url, prefix=self.keys.prefix, log_folder=self.folder, hosts=1,
            beat_interval=0.1, stays=Stays(restore=go_on, rules="fifo"), **options,
        )  # fmt: skip
        watchers = Watchers(
            observe=lambda event, commands: self.story.append((event, list(commands))),
            on_up=lambda *_: first(),
            on_tick=tick,
            around=around,
        )
        run_live(scheduler, POOLS, None, settings, watchers)

    def add(self, stream: str, data: bytes) -> None:
        self.client.xadd(self.keys.stream(stream), {"m": data})  # type: ignore[arg-type]

    def submit(self, *names: str, **more: Any) -> None:
        for seq, name in enumerate(names, 1):
            job = msgspec.structs.replace(JOB, id=name, **more)
            jobs = JobsSubmitted(UNSTAMPED, (job,))
            self.add("submissions", envelope(jobs, seq, sender=f"{name}-{seq}"))

    def reasons(self) -> dict[str, int]:
        found = self.client.hgetall(self.keys.refused).items()
        return {name.decode(): int(count) for name, count in found}

    def ended(self) -> set[str]:
        return {name.decode() for name in self.client.hkeys(self.keys.results)}


@pytest.fixture
def farm(client, server, keys: Keys, tmp_path) -> StayingFarm:
    """A long-running farm."""
    return StayingFarm(client, server.url, keys, tmp_path)


def test_no_invalid_message_ends_the_farm(farm: StayingFarm, caplog):
    """Each kind of it is refused, counted and kept; the job behind it runs."""

    def poison() -> None:
        for stream, data in POISON.values():
            farm.add(stream, data)
        farm.submit("good")

    farm.run(lambda _: farm.ended() and sum(farm.reasons().values()) >= len(POISON), poison)
    assert farm.ended() == {"good"}
    refused = farm.reasons()
    assert sum(refused.values()) == len(POISON)
    assert set(refused) == {"unreadable", "version", "too-large", "out-of-bounds", "unknown-life"}
    letters = kept(farm.client, farm.keys)
    assert len(letters) == len(POISON)
    assert all(len(letter.text) <= 4096 for letter in letters)
    assert all(farm.client.xlen(farm.keys.stream(name)) == 0 for name in STREAMS[1:])
    # one line of the log for each reason, not for each message
    assert sum("refused a message" in line for line in caplog.messages) == len(refused)


@pytest.mark.slow
def test_kept_messages_are_bounded(farm: StayingFarm):
    """The last thousand are kept, whatever comes; all are counted."""

    def flood() -> None:
        for _ in range(KEPT + 500):
            farm.add("reports", b"garbage")

    farm.run(lambda _: sum(farm.reasons().values()) >= KEPT + 500, flood)
    assert farm.reasons() == {"unreadable": KEPT + 500}
    assert farm.client.llen(farm.keys.dead_letters) == KEPT


@pytest.mark.slow
def test_a_message_that_triggers_a_defect_is_not_read_again(farm: StayingFarm):
    """The farm ends once, and continues without the message when it is restarted."""
    with pytest.raises(ZeroDivisionError):
        farm.run(lambda _: False, lambda: farm.submit("before", "defect", "after"))
    (letter,) = kept(farm.client, farm.keys)
    assert (letter.reason, letter.stream) == ("error", "submissions")
    assert "ZeroDivisionError: a defect" in letter.why
    assert '"defect"' in letter.text
    farm.run(lambda _: len(farm.ended()) == 2)
    assert farm.ended() == {"before", "after"}
    assert farm.reasons() == {"error": 1}


@pytest.mark.slow
def test_unknown_senders_leave_nothing(farm: StayingFarm):
    """Neither a host, nor an unused queue."""

    def flood() -> None:
        for number in range(500):
            farm.add("reports", envelope(wire.Beat(), sender=f"unknown-{number}"))

    farm.run(lambda _: farm.reasons().get("unknown-life") == 500, flood)
    queues = list(farm.client.scan_iter(match=f"{farm.keys.celery}*"))
    assert len(queues) <= 101
    assert all(0 < farm.client.ttl(key) <= 5 for key in queues if b"unknown" in key)
    assert farm.client.hkeys(farm.keys.lives) in ([], [b"host-1"])


@pytest.mark.slow
def test_the_number_of_accepted_jobs_is_bounded(farm: StayingFarm):
    """The others stay in the inbox until there is room, in order, none lost."""
    seen: list[int] = []

    def over(world: LiveWorld) -> bool:
        seen.append(world.status().waiting)
        return len(farm.ended()) == 30

    farm.run(over, lambda: farm.submit(*(f"j{n}" for n in range(30))), max_waiting=5)
    assert max(seen) <= 6
    assert farm.ended() == {f"j{n}" for n in range(30)}


@pytest.mark.slow
def test_a_large_job_takes_the_room_of_several(farm: StayingFarm):
    """By the kilobytes of its attributes, until it has ended."""
    large = {f"note{n}": "x" * 1000 for n in range(4)}
    seen: list[int] = []

    def over(world: LiveWorld) -> bool:
        seen.append(world.status().waiting)
        return len(farm.ended()) == 12

    names = [f"j{n}" for n in range(12)]
    farm.run(over, lambda: farm.submit(*names, attributes=large), max_waiting=8)
    assert max(seen) <= 3
    assert farm.ended() == set(names)


SPOILT = (
    "dead-letters", "refused", "fence", "meta", "platforms", "jobs", "lives", "running", "builders",
    "results", "ended", "submitted", "pending:amd64/virtual", "celery:host.host-1", *STREAMS,
)  # fmt: skip


#: what only a successor would miss
MISSED = ("jobs", "meta", "builders", "lives")
SPOILINGS = {
    "another type": SPOILT, "no ids left": STREAMS, "gone": MISSED, "one entry gone": MISSED,
}  # fmt: skip


def spoil(client: redis.Redis, key: str, way: str) -> None:
    """Do to a key what only its farm should do."""
    if way == "no ids left":
        client.xadd(key, {"m": "x"}, id=LAST_ENTRY)
    elif way == "one entry gone":
        client.hdel(key, client.hkeys(key)[-1])
    else:
        client.delete(key)
        if way == "another type":
            client.set(key, "something else")


@pytest.mark.slow
@pytest.mark.parametrize("way", SPOILINGS)
def test_no_content_of_a_key_ends_the_farm(farm: StayingFarm, way: str, monkeypatch):
    """The farm is written anew, while jobs continue; each ends once, and a successor knows all."""
    monkeypatch.setattr("farm.live.regular_work.LOOK_INTERVAL", 0.0)
    names = SPOILINGS[way]
    waits = msgspec.structs.replace(JOB, id="waits", platform=Platform("arm64", True))

    def story() -> Iterator[None]:
        farm.add("submissions", envelope(JobsSubmitted(UNSTAMPED, (waits,))))
        while not (farm.client.hlen(farm.keys.jobs) and farm.client.hlen(farm.keys.builders)):
            yield
        for name in ("all", *names):
            for one in names if name == "all" else [name]:
                spoil(farm.client, farm.keys.prefix + one, way)
            submitted = over = False
            while not over:
                yield
                with contextlib.suppress(redis.ResponseError):  # not written anew yet
                    if not submitted:
                        farm.add("submissions", envelope(JobsSubmitted(UNSTAMPED, two(name))))
                        submitted = True
                    farm.add("questions", b"refused")
                    over = farm.ended() >= {job.id for job in two(name)}

    def two(name: str) -> tuple[Job, ...]:  # one of them waits
        ids = f"before-{name}", f"after-{name}"
        return tuple(msgspec.structs.replace(JOB, id=one) for one in ids)

    steps = story()
    farm.run(lambda _: next(steps, "over") == "over")
    ended = {job.id for name in ("all", *names) for job in two(name)}
    assert farm.ended() == ended
    assert all(farm.client.type(farm.keys.prefix + name) != b"string" for name in names)
    ends = [c.job.id for _, commands in farm.story for c in commands if isinstance(c, EndJob)]
    assert sorted(ends) == sorted(ended)
    seen: list[int] = []
    farm.run(lambda world: seen.append(world.status().waiting) or seen[-1] == 1)
    assert seen[-1] == 1
    assert farm.ended() == ended


@pytest.mark.slow
def test_more_questions_than_can_be_answered_are_refused(farm: StayingFarm, client, keys: Keys):
    """Those beyond a bound are refused with a message; far more get no answer at all.

    The whole farm is written once, however many ask for it: a reader must not fill the server.
    """
    tokens = [f"t{number}" for number in range(MAX_QUESTIONS + 150)]
    asked = tuple(wire.Ask("job", "", token) for token in tokens)
    everything = tuple(wire.Ask("farm", "", f"all-{number}") for number in range(MAX_ANSWERS))
    text = msgspec.json.encode(Envelope(VERSION, "s", "l", 1, (*asked, *everything)))

    replies: dict[bytes, bytes] = {}  # by key; a reply is gone before the last of them comes

    def gathered(_: LiveWorld) -> bool:
        for key in set(client.keys(keys.reply("*"))) - replies.keys():
            replies[key] = client.lindex(key, 0)
        return len(replies) >= MAX_ANSWERS

    farm.run(first=lambda: farm.add("questions", text), over=gathered)
    refused = [text for text in replies.values() if b"too many questions" in text]
    assert (len(refused), len(replies)) == (150, MAX_ANSWERS)
    images = {text for text in replies.values() if b'"image":' in text}
    assert len(images) == 1
    assert client.keys(keys.image("*")) == [keys.image(json.loads(images.pop())["image"]).encode()]


@pytest.mark.slow
def test_trouble_during_a_takeover_is_waited_for(farm: StayingFarm, monkeypatch):
    """The lease is held by then, and the last scheduler may have ended because of the trouble."""
    take_over, tries = Store.take_over, []

    def fails_twice(*what: Any) -> None:
        tries.append(what)
        if len(tries) < 3:
            raise redis.OutOfMemoryError("command not allowed when used memory > 'maxmemory'.")
        take_over(*what)

    monkeypatch.setattr(Store, "take_over", fails_twice)
    farm.run(first=lambda: farm.submit("good"), over=lambda _: farm.ended())
    assert farm.ended() == {"good"}
    assert len(tries) == 3
