"""What a core does in a second: near its best, despite disturbances, and reproducible."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from farm.core.errors import RunError
from tests.fixtures.processes import await_gone
from workers.burn import burning_jobs
from workers.burn.rates import measure, near_fastest

from .conftest import TINY


def test_disturbances_do_not_count():
    """A core that a neighbour slows down most of the time is as fast as when it does not."""
    assert near_fastest([700.0] * 30 + [963.0, 965.0, 964.0]) == 964.0
    assert near_fastest([650.0, 700.0, 690.0]) == 700.0


def test_one_impossible_slice_is_no_rate():
    """A clock that errs once in forty slices does not make a core ten times as fast."""
    assert near_fastest([960.0 + k / 10 for k in range(39)] + [9600.0]) < 970


def test_kernels_take_turns():
    """Their bursts are spread over the same time, so that a slow phase affects all of them."""
    turns = []

    def burst(name: str, rate: float):
        def work() -> list[float]:
            turns.append(name)
            return [rate + len(turns)]

        return work

    found = measure({"a": burst("a", 10.0), "b": burst("b", 20.0)}, turns=3, pause=0.0)
    assert turns == ["a", "b"] * 3
    assert found == {"a": 15.0, "b": 26.0}


def test_nothing_to_measure_takes_no_time(monkeypatch):
    """A job whose rates are known begins at once: there is no pause between empty turns."""
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("waited"))
    assert measure({}, turns=3) == {}


def test_given_rates_are_not_measured(fire):
    """Rates of the settings are used unchanged: all hosts agree on what a job is."""
    assert fire(rates={"cpu": 4.0, "memory": 40.0}).burners.rates(["mixed"]) == {
        "cpu": 4.0,
        "memory": 40.0,
    }


def test_only_what_the_modes_need_is_measured(fire):
    """No job waits for the measurement of a walk that it does not need."""
    assert set(fire(rates={}).burners.rates(["stress"], turns=1)) == {"cpu"}


@pytest.mark.slow
def test_a_new_program_takes_over_the_rates_of_the_old(fire):
    """Measured once: not again, while jobs burn, because a program was killed."""
    one = fire(rates={"memory": TINY["memory"]})
    one.start("stress", 0.001)
    assert one.end().error is None
    known = one.burners.rates(["stress"], turns=1)
    program = one.burners.pid
    os.kill(program, signal.SIGKILL)
    await_gone([program])
    one.burn_forever()
    assert one.burners.rates(["stress"], turns=1) == known
    assert one.told.empty()


@pytest.mark.slow
def test_closed_burners_end_a_measurement(fire):
    """The thread that waits for it is woken, although the program has not answered."""
    one = fire(rates={})
    with ThreadPoolExecutor(1) as aside:
        found = aside.submit(one.burners.rates, ["stress"], 10_000)
        while not one.burners._jobs:
            assert not found.done()
        one.burners.close()
        with pytest.raises(RunError, match="the burners are closed"):
            found.result(30)


@pytest.mark.slow
def test_a_measurement_that_takes_too_long_is_given_up(fire, monkeypatch):
    """A program that hangs does not hang its host, and is killed."""
    one = fire(rates={})
    pids = one.burn_forever()
    program = one.burners.pid
    monkeypatch.setattr(burning_jobs, "MEASURE_TIMEOUT", 0.01)
    monkeypatch.setattr(burning_jobs, "CLOSE_TIMEOUT", 0.01)
    with pytest.raises(RunError, match="no answer within"):
        one.burners.rates(["memory"], turns=10_000)
    await_gone([program, *pids])
    assert one.end().error is not None
