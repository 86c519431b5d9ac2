"""``python -m farm.app.forecasts.rollout_process PARENT``: rolls out a farm's present state.

A request is a line of JSON on standard input, its reply one on standard output. The scheduler's
process starts it (``rollout_conversation.py``): a rollout takes longer than a report may wait. It
ends with its standard input, so with the process that started it (and on Linux also if it is
stopped itself), and gives way to all others.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

import msgspec

from farm.app.forecasts.rollout_conversation import Reply, Request
from farm.assembly import estimator_named, estimator_of, make_rules, pool_specs
from farm.core.errors import FarmError, StateError
from farm.forecasts.runtime.quantiles import RuntimeDistribution
from farm.processes.child import die_with, kill_before_host
from farm.scenario import Scenario
from farm.scenario.load import load_scenario
from farm.scenario.model import StandingFarm
from farm.sim.rollouts.rollout import Fork, rollouts
from farm.sim.rollouts.rollout_forecaster import forecasts_of
from provisioner.from_scenario import algorithms_of

#: events of simulations, by which a request takes no more than about a second
MOST_EVENTS = 20_000
#: how much less urgent it is than the processes of the farm
NICENESS = 5


class Roller:
    """A farm as the last requests described it."""

    _scenario: Scenario
    _run_times: RuntimeDistribution

    def __init__(self) -> None:
        self._name = ""

    def reply(self, request: Request) -> Reply:
        """Return the forecasts; raises InputError for a farm that cannot be played here."""
        if request.scenario is not None:
            self._scenario = load_scenario(request.scenario, (), kind=StandingFarm)
            self._name = request.run_times
            self._run_times = self._distribution()
        if request.statistics is not None:
            self._run_times = self._distribution()
            with suppress(StateError):  # of another estimator: nothing is known
                self._run_times.load(request.statistics)
        fork = Fork(
            snapshot=request.snapshot,
            pools=tuple(pool_specs(self._scenario)),
            rules=make_rules(self._scenario),
            run_times=self._run_times,
            truthful=self._name == "oracle",
            algorithms=algorithms_of(self._scenario),
            recent=request.recent,
        )
        # a deterministic rollout is like any other
        count = 1 if fork.is_certain else request.rollouts
        seed = self._scenario.seed
        found = rollouts(
            lambda: fork, count=count, seed=seed, jobs=request.jobs, processes=1, events=MOST_EVENTS
        )
        made = forecasts_of(found, means=fork.tells_means)
        return Reply(forecasts=tuple(made), rollouts=len(found.dispatch_at))

    def _distribution(self) -> RuntimeDistribution:
        own = self._name == self._scenario.scheduling.runtime_estimates
        made = estimator_of(self._scenario) if own else estimator_named(self._name, self._scenario)
        return RuntimeDistribution(made)


def main() -> None:
    """Reply to requests until standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the farm, which needs us to its end
        signal.signal(number, signal.SIG_IGN)
    with suppress(OSError):
        os.nice(NICENESS)
    die_with(int(sys.argv[1]))
    kill_before_host()
    decoder, encoder, roller = msgspec.json.Decoder(Request), msgspec.json.Encoder(), Roller()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a user's functions print is no reply
    for line in sys.stdin.buffer:
        began = time.monotonic()
        try:
            reply = roller.reply(decoder.decode(line))
        except (FarmError, LookupError) as error:
            reply = Reply(trouble=str(error) or type(error).__name__)
        reply = msgspec.structs.replace(reply, took=time.monotonic() - began)
        answers.write(encoder.encode(reply) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
