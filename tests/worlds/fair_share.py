"""A ledger of one fair-share tree: jobs by their paths, slots that ask for work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from farm.core.commands import RequeueJob
from farm.core.model import Job, Platform
from farm.core.queues.fair_share.accounting import Invocation
from farm.core.queues.fair_share.queue import FairShareQueue
from tests.worlds.virtual import Ledger


class Yard(Ledger):
    """Slots take jobs when they are told to, each on a builder of its own; the test sets the time.

    Jobs are shared by action: that of a job which shares another's execution is the other's name.
    """

    def __init__(
        self,
        stickiness: Sequence[float] = (),
        compatibility: Literal["buildbarn"] | None = None,
        **rules: Any,
    ) -> None:
        by_kind: dict[str, Any] = {
            "policy": lambda job, *_: (job.priority,),
            "path": lambda job: tuple(part for part in job.kind.split("/") if part),
            "retries": 9,
        }
        super().__init__(
            make_queue=lambda: FairShareQueue(stickiness, compatibility=compatibility),
            dedup=True,
            **{**by_kind, **rules},
        )
        self.scheduler.dispatcher.matching.lane(Platform())

    @property
    def queue(self) -> FairShareQueue:
        """Return the queue of the only platform."""
        (lane,) = self.lanes
        assert isinstance(lane.queue, FairShareQueue)
        return lane.queue

    def _now(self, at: float) -> None:
        self.at = max(at, self.at - 1.0)  # a ledger's time advances by a second

    def arrive(
        self, name: str, path: str = "", at: float = 0.0, leader: str = "", **need: Any
    ) -> str | None:
        """A new job gets the free slot that it prefers, which is returned, or waits."""
        self._now(at)
        action = leader or name
        self.submit(Job(id=name, service_time=1.0, kind=path, action=action, **need))
        return self.running.get(name, ".").split(".")[0] or None

    def wait(self, name: str, path: str = "", at: float = 0.0, **need: int) -> None:
        """A new job waits."""
        assert self.arrive(name, path, at, **need) is None

    def follow(self, name: str, leader: str, path: str = "", at: float = 0.0, **need: int) -> None:
        """A new job shares the execution of another."""
        assert self.arrive(name, path, at, leader, **need) is None
        assert self.scheduler.jobs[name].leader is not None

    def share(self, **paths: str) -> None:
        """New jobs come together and share one execution, the first one's."""
        leader = next(iter(paths))
        jobs = [Job(id=n, service_time=1.0, kind=p, action=leader) for n, p in paths.items()]
        self.submit(*jobs)

    def make(self, *slots: str) -> None:
        """Slots are there, and ask for nothing yet."""
        for slot in slots:
            self.join(slot, cleans=True, claims=True, processors=())

    def take(self, slot: str, at: float = 0.0) -> str | None:
        """A slot takes the next job, which is returned, or waits for one."""
        self._now(at)
        if slot not in self.scheduler.builders:
            self.make(slot)
            self._now(at)
        if self.scheduler.builders[slot].slots[0].cleaning:
            self.cleaned(slot)
        else:
            self.drain(slot)
            self._now(at)
            self.undrain(slot)
        return self.on(slot)

    def on(self, slot: str) -> str | None:
        """Return the job on a slot."""
        return next((job for job, where in self.running.items() if where == f"{slot}.0"), None)

    def end(self, slot: str, at: float = 0.0, *, completed: bool = True) -> None:
        """A slot's job ends; or its attempt is lost, and it waits again."""
        self._now(at)
        job = str(self.on(slot))
        if completed:
            self.finish(job)
        else:
            self.attempt_lost(job)
            assert any(isinstance(one, RequeueJob) for one in self.commands)

    def turn(self, slot: str, at: float) -> str | None:
        """The slot's job completes and it takes the next."""
        self.end(slot, at)
        return self.take(slot, at)

    def take_all(self, slots: int, at: float = 0.0) -> list[str]:
        """Dispatch to this many new slots, one by one."""
        first = len(self.scheduler.builders)
        taken = [self.take(f"s{first + n}", at + n) for n in range(slots)]
        return [name for name in taken if name is not None]

    def last(self, slot: str) -> tuple[str, ...] | None:
        """Return the slot's last invocation; None: it runs a job."""
        (last,) = [one.last for one in self.queue.memory().slots if one.builder == slot]
        return last

    def home(self, slot: str) -> str | None:
        """Return the slot's last invocation, written a/b/c."""
        last = self.last(slot)
        return None if last is None else "/".join(last)

    def executing(self, path: str) -> int:
        """Count the slots that execute something below a node."""
        return self.queue.executing_in(tuple(path.split("/")) if path else ())

    def node(self, path: str) -> Invocation | None:
        """Return a node of the tree."""
        return self.queue._tree.find(tuple(path.split("/")) if path else ())
