"""What is said of a run of very many jobs before it has taken long."""

from __future__ import annotations

import pytest

from farm.cli.runs import simulate
from farm.cli.runs.simulate import RunForecast, _Ticker
from tests.sim.fast.test_streamed import mmc


def test_the_pace_of_the_beginning_is_the_forecast():
    """A billion jobs at three million a second: a sentence, once, after two seconds."""
    forecast = RunForecast(1e9)
    assert not forecast.text(100.0, 500_000)
    assert not forecast.text(101.9, 6_000_000)
    assert forecast.text(102.5, 8_000_000) == "1,000,000,000 jobs: about 6m on this machine"


def test_no_forecast_without_a_pace():
    """Nothing is said while no job has ended: none is better than a wrong one."""
    forecast = RunForecast(1e9)
    assert not forecast.text(0.0, 0)
    assert not forecast.text(60.0, 0)


@pytest.mark.parametrize(
    ("jobs", "silent", "lines"), [(20_000_000, False, 1), (20_000_000, True, 0), (9_000, False, 0)]
)
def test_only_long_runs_that_are_watched_are_forecast(monkeypatch, capsys, jobs, silent, lines):
    """A short run says nothing, nor does one that is to be quiet; a long one says it once."""
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr(simulate.time, "monotonic", lambda: float(next(clock)))
    ticker = _Ticker(mmc(jobs), lambda **_: None, silent=silent)
    for ended in range(0, 9_000, 1_000):
        ticker.watch(float(ended), ended, 4 * ended)
    captured = capsys.readouterr()
    assert captured.err.count("on this machine") == lines
    assert not captured.out
