"""The measurement behind ``farm admin calibrate``: the reference job, its turns, its limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from farm.app.calibrating.measuring import (
    CalibrationOptions,
    Timing,
    busy_with_others,
    measure,
    never_falling,
    quiet_times,
    slowdowns,
)
from farm.core.errors import RunError
from tests.fixtures.processes import await_gone, until
from workers.burn.kernels import pi_digits

from .conftest import PATIENCE, processes_under


def test_the_reference_job_computes_pi():
    """Compared with published digits, and with a second series for all five thousand."""
    assert pi_digits(50) == 314159265358979323846264338327950288419716939937510
    unit = 10**5010
    total = sum(sign * arccot(x, unit) for sign, x in ((12, 18), (8, 57), (-5, 239)))
    assert pi_digits(5000) == 4 * total // 10**10


def arccot(x: int, unit: int) -> int:
    """Return the inverse cotangent by Euler's series, which is not the one under test."""
    total = term = unit * x // (x * x + 1)
    n = 1
    while term:
        term = term * 2 * n // ((2 * n + 1) * (x * x + 1))
        total += term
        n += 1
    return total


@pytest.mark.slow
@pytest.mark.parametrize("reference", ["pi", "burn"])
def test_each_number_of_heavy_jobs_has_its_turn(reference):
    """Every round measures every number, up and down alternately, and reports progress."""
    told = []
    options = CalibrationOptions(jobs=1, repeats=2, threads=1, alone=0.02, reference=reference)
    timings = measure(options, told.append)
    assert timings == told
    assert [timing.heavy for timing in timings] == [0, 1, 1, 0]
    assert all(timing.seconds > 0 for timing in timings)


@pytest.mark.slow
def test_a_limit_that_is_too_short_is_one_message():
    """The result is no table with holes."""
    with pytest.raises(RunError, match="took longer than the limit"):
        measure(CalibrationOptions(jobs=1, repeats=1, threads=1, alone=0.02, limit=0.01))


def test_slowdowns_are_ratios_of_medians():
    """One bad repeat among three changes nothing."""
    timings = [Timing(r, k, s) for r, k, s in ((0, 0, 1), (0, 1, 2), (1, 1, 99), (1, 0, 1))]
    timings += [Timing(2, 0, 50), Timing(2, 1, 2)]
    assert quiet_times(timings) == {0: [1, 1, 50], 1: [2, 99, 2]}
    assert slowdowns(quiet_times(timings)) == [1.0, 2.0]


def test_disturbed_rounds_do_not_count_if_possible():
    """Quiet rounds count; of a machine that never is quiet, the quieter half."""
    quiet = [Timing(0, 0, 1.0, 0.0), Timing(1, 0, 9.0, 1.5), Timing(2, 0, 2.0, 0.2)]
    never = [Timing(r, 1, 10.0 + r, others) for r, others in enumerate((1.9, 0.5, 0.9, 1.7))]
    assert quiet_times([*quiet, *never]) == {0: [1.0, 2.0], 1: [11.0, 12.0]}


def test_the_table_never_falls():
    """Falls due to noise are levelled up: a scenario accepts no table that falls."""
    assert never_falling([1.0, 0.98, 2.5, 2.4, 4.0]) == [1.0, 1.0, 2.5, 2.5, 4.0]


def test_the_load_of_others_is_reported():
    """A number of processors, never negative."""
    assert busy_with_others(0.01) >= 0


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.parametrize(("how", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_nothing_burns_on_when_a_calibration_is_stopped(how, code):
    """After Ctrl-C or SIGKILL neither heavy jobs nor the reference job are left."""
    arguments = [
        "admin",
        "calibrate",
        "--jobs",
        "2",
        "--threads",
        "2",
        "--repeats",
        "100",
        "--limit",
        "10m",
    ]
    environment = os.environ | {"FARM_WORK_RATES": "cpu=900,memory=5000,stress_ng=1800"}
    command = subprocess.Popen(
        [sys.executable, "-m", "farm.cli.main", *arguments, "--quiet"], env=environment
    )
    # the reference job, the burner program, and what it has forked
    until(lambda: len(processes_under(command.pid)) >= 4, "burning")
    pids = processes_under(command.pid)
    command.send_signal(how)
    assert command.wait(PATIENCE) == code
    await_gone(pids)
