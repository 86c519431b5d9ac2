"""Random histories of a farm: facts that make some sense, and some that do not."""

from __future__ import annotations

from random import Random

from hypothesis import Phase
from hypothesis import strategies as st

from farm.core import policies
from farm.core.commands import StartJob
from farm.core.dispatching.balancers import RANKINGS
from farm.core.events import (
    CancelRequested,
    JobsSubmitted,
    LoadReported,
)
from farm.core.model import Job, Platform
from farm.core.pools.spec import PoolSpec
from farm.core.queues.fair_share.keys import path_extractor
from farm.core.queues.fair_share.queue import FairShareQueue

#: a fixed pool, one that a provisioner sizes, both of them losing builders, and one that stays
POOLS = (
    PoolSpec(name="f", processors=("amd64",), builders=2, idle_timeout=20.0, lost_at=(30.0, 60.0)),
    PoolSpec(name="p", processors=("arm64",), builders=1, provisioned=True, idle_timeout=5.0),
    PoolSpec(name="q", builders=1, slots=2, inter_job_time=1.0),
)
#: hypothesis' explanations take long and say little about a history
PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
PROCESSORS = (None, "amd64", "arm64")
VIRTUAL = (True, True, True, False, None)
BUILDS = (("amd64",), ("arm64",), ("amd64", "arm64"), ())


class Player:
    """Turns numbers into facts that make some sense, and some that do not."""

    def __init__(self, farm):
        self.farm = farm
        self.jobs = 0
        self.builders = 0

    def play(self, kind, number):
        getattr(self, kind)(Random(number))

    # --- jobs -------------------------------------------------------------------------------

    def submit(self, dice):
        jobs = tuple(self._job(dice) for _ in range(dice.choice([1, 1, 1, 2, 5])))
        self.farm.tell(JobsSubmitted(self.farm.at, jobs))

    def _job(self, dice):
        twice = f"j{self.jobs}" in self.farm.scheduler.jobs and dice.random() < 0.05
        self.jobs += not twice  # now and then one is handed in twice
        matrix, action = dice.choice([None, "m", "n"]), dice.choice([None, None, "A", "B"])
        return Job(
            id=f"j{self.jobs}",
            service_time=dice.choice([1.0, 5.0, 60.0]),
            platform=Platform(dice.choice(PROCESSORS), dice.choice(VIRTUAL)),
            level=dice.choice([0, 0, 0, 1]),
            score=float(dice.randrange(3)),
            priority=dice.choice([0, 0, 100]),
            matrix=matrix,
            action=action,
            attributes={"team": dice.choice("ab"), "user": dice.choice("uvw")},
        )

    def _running(self, dice):
        running = sorted(self.farm.running)
        return dice.choice(running) if running else "nobody"

    def started(self, dice):
        self.farm.started(self._running(dice))

    def finish(self, dice):
        outcome = dice.choice(["succeeded", "succeeded", "failed", "cancelled"])
        self.farm.finish(self._running(dice), outcome)

    def finish_cancelled(self, dice):
        stopping = [
            n for n, s in self.farm.scheduler.jobs.items() if s.status.value == "cancelling"
        ]
        if stopping:
            self.farm.finish(dice.choice(stopping), dice.choice(["cancelled", "succeeded"]))

    def attempt_lost(self, dice):
        self.farm.attempt_lost(self._running(dice))

    def stale(self, dice):
        starts = [o for _, orders in self.farm.story for o in orders if isinstance(o, StartJob)]
        if starts:
            old = dice.choice(starts)
            say = dice.choice([self.farm.started, self.farm.finish, self.farm.attempt_lost])
            say(old.job.id, attempt=old.attempt, builder=dice.choice([old.builder, "b1", "no"]))

    def cancel(self, dice):
        jobs = sorted(self.farm.scheduler.jobs) or ["nobody"]
        names = [dice.choice(jobs) for _ in range(dice.choice([1, 1, 3]))]
        self.farm.cancel(*names)

    def cancel_many(self, dice):
        invocation = dice.choice([None, ("a",), ("b", "u")])
        matrix = dice.choice([None, "m", "n"])
        self.farm.tell(CancelRequested(self.farm.at, (), matrix, invocation))

    def prioritise(self, dice):
        change = dice.choice([{"level": 1}, {"level": 0}, {"score": 2.0}, {"priority": -100}])
        self.farm.prioritise(dice.choice(sorted(self.farm.scheduler.jobs) or ["nobody"]), **change)

    # --- builders ---------------------------------------------------------------------------

    def join(self, dice):
        self.builders += dice.random() < 0.95
        what = {"processors": dice.choice(BUILDS), "virtualized": dice.random() < 0.8}
        what |= {"cleans": dice.random() < 0.3, "takes_jobs": dice.random() < 0.9}
        what |= {"slots": dice.choice([1, 1, 2, 4]), "pool": "pq"[self.builders % 2]}
        self.farm.join(f"b{self.builders}", index=-1, **what)

    def _builder(self, dice):
        return dice.choice([*sorted(self.farm.scheduler.builders), "nobody"])

    def open(self, dice):
        self.farm.open(provisioned=dice.random() < 0.5)

    def plan(self, dice):
        what = {"start": dice.choice([0, 1, 3]), "stop": dice.choice([0, 0, 1, 2])}
        self.farm.plan(dice.choice("fpqx"), **what)

    def boot(self, dice):
        pools = self.farm.scheduler.pools.values()
        requested = sorted(name for pool in pools for name in pool.requested)
        if requested:
            name = dice.choice(requested)
            dice.choice([self.farm.boot, self.farm.boot, self.farm.lose])(name)

    def alarm(self, dice):
        self.farm.ring(self.farm.at + dice.choice([0.0, 3.0, 50.0]))

    def lose(self, dice):
        self.farm.lose(self._builder(dice))

    def retired(self, dice):
        self.farm.retired(self._builder(dice))

    def drain(self, dice):
        pattern = dice.choice([self._builder(dice), "b?", "*"])
        self.farm.drain(pattern, retire=dice.random() < 0.3)

    def undrain(self, dice):
        self.farm.undrain(dice.choice([self._builder(dice), "*"]))

    def cleaned(self, dice):
        builders = self.farm.scheduler.builders.items()
        dirty = [(name, s.number) for name, b in builders for s in b.slots if s.cleaning]
        name, slot = dice.choice(dirty) if dirty else ("nobody", 0)
        self.farm.cleaned(name, slot + (dice.random() < 0.1))

    def load(self, dice):
        self.farm.tell(LoadReported(self.farm.at, self._builder(dice), 0.7, dice.random() < 0.5))

    # --- the end ----------------------------------------------------------------------------

    def run_out(self):
        """Give every job a builder and every attempt its end."""
        farm = self.farm
        farm.undrain("*")
        for native in (True, False):
            farm.join(f"last-{native}", index=9000 + native, processors=("amd64", "arm64"),
                      virtualized=not native)  # fmt: skip
        for _ in range(10 * (self.jobs + 1)):
            for builder in list(farm.scheduler.builders.values()):
                for slot in builder.slots:
                    if slot.cleaning:
                        farm.cleaned(builder.builder.id, slot.number)
            running = sorted(farm.running)
            if not running:
                break
            for name in running:
                farm.finish(name)
        assert farm.scheduler.jobs == {}
        farm.auditor.close()


KINDS = [name for name in vars(Player) if name[0] != "_" and name not in ("play", "run_out")]
OFTEN = ["submit"] * 6 + ["finish"] * 6 + ["join"] * 2 + ["cleaned"] * 2 + ["finish_cancelled"]
facts = st.tuples(st.sampled_from(KINDS + OFTEN), st.integers(0, 2**32))
histories = st.lists(facts, min_size=10, max_size=70)
keys = st.sampled_from(sorted(policies.POLICIES))
rules_of_a_farm = st.fixed_dictionaries(
    {
        "policy": st.sampled_from([*sorted(policies.POLICIES), "matrix"]),
        "ranking": st.sampled_from([RANKINGS["jenkins"], RANKINGS["longest-idle"]]),
        "retries": st.integers(0, 3),
        "fail_fast": st.booleans(),
        "dedup": st.booleans(),
        "explain_last": st.sampled_from([0, 5]),
    }
)
trees = st.sampled_from([None, (), (3.0,), (0.0, 20.0)])


def made(rules, stickiness):
    """Return the rules of a farm, with a policy that remembers nothing yet."""
    name = rules["policy"]
    options = policies.PolicyOptions(seed=3)
    if name == "matrix":
        name, options = "ljf-aging", policies.PolicyOptions(aging="matrix")
    rules = {**rules, "policy": policies.POLICIES[name](options)}
    if stickiness is not None:
        rules["make_queue"] = lambda: FairShareQueue(stickiness)
        rules["path"] = path_extractor(["team", "user"])
    return rules
