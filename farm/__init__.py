"""An emulated build farm, live and in virtual time.

Simulate a scenario, from your own file or a packaged example, and inspect its jobs:

>>> import farm
>>> result = farm.simulate("quickstart")
>>> result
<farm.Result: simulated quickstart (fifo, seed 1), 655 jobs, 0 lost>
>>> result.summary["jobs"]["succeeded"]
655
>>> float(result.jobs["waiting_time_s"].max()) < 3600
True

``result.jobs`` has the columns of jobs.csv; ``result.jobs.to_pandas()`` makes a data frame, and so
do ``to_polars()`` and ``to_arrow()``. Any key of the scenario can be overridden, policies and more
can be your own functions, and several seeds make several runs:

>>> def smallest_team(job, estimate, at, serial):
...     return {"tooling": 0, "engine": 1}.get(job.attributes["team"], 2)
>>> own = farm.simulate("quickstart", policy=smallest_team, **{"pools.linux.builders": 10})
>>> many = farm.simulate("quickstart", seeds=range(3))
>>> [one.summary["jobs"]["lost"] for one in many]
[0, 0, 0]

Compare two runs: which is better, and is the difference significant? A run can be saved, as by
``farm simulate --out``, and read again:

>>> difference = farm.compare(result, own)
>>> folder = own.save("own-policy")
>>> farm.open_run(folder).summary == own.summary
True

``farm.run`` runs the same scenario on a live farm, with real Celery builders in real time, and
returns the same type. Scenarios can also be plain data:

>>> little = {
...     "pools": [{"name": "p", "platform": {"processor": "amd64"}, "builders": 2}],
...     "workload": [{"arrivals": {"every": "10s", "count": 6, "service_time": "25s"}}],
... }
>>> farm.simulate(little, pools__p__builders=3).summary["waiting_time_s"]["max"]
0.0

Errors in the input are reported in one message:

>>> farm.simulate("quickstart", scheduling__policy="shortest")
Traceback (most recent call last):
    ...
farm.core.errors.ScenarioError: scheduling.policy: unknown 'shortest'; did you mean score? ...

===================  =========================================================================
load_scenario        load and validate a scenario from a file, an example, or plain data
simulate             run it in virtual time
run                  run it on a live farm
compare              compare results
sweep                run and compare many settings and seeds, on all processors
doctor               say why the jobs of a real farm wait, from its records
twin                 make a scenario that waits as a real farm did, from its records
plan                 find the smallest pools that meet an objective
report               write a page of figures on a run, several runs, or a sweep
open_run             read a saved run, as a Result
SweepResult          the results of a sweep: ``rows``, ``table``, ``runs``, ``save``
Result, Results      the results of runs: ``summary``, ``jobs``, ``events``, ``save``
JobTable             the jobs of a run in columns
PipelineTable        … and its pipelines, from ``Result.pipelines()``
Diagnosis, Twin      what ``doctor`` and ``twin`` found: ``verdicts``; ``sentence``, ``pools``
SizePlan             what ``plan`` found: ``best``, ``points``
ComputedAdvice       ``advice`` of what sweep, doctor and plan return: what would shorten the waits
Scenario             a scenario
Job, Platform        for your own jobs: ``simulate(…, jobs=[farm.Job(…), …])``
PoolSnapshot         the input of your own provisioning algorithms
examples             names of the packaged examples
FarmError            base of this project's exceptions (see ``farm.core.errors``):
InputError           … for invalid input, in one message,
ServerError          … for a Redis server that cannot be used,
RunError             … for a run that could not be completed
===================  =========================================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farm.app.api import load_scenario, run, simulate
    from farm.app.recorded.result import Result, Results, compare, open_run
    from farm.app.report import report
    from farm.app.runs.advice import ComputedAdvice
    from farm.app.smallest_pools import SizePlan, plan
    from farm.app.sweeps.swept import SweepResult, sweep
    from farm.core.errors import FarmError, InputError, RunError, ServerError
    from farm.core.model import Job, Platform
    from farm.core.pools.algorithm import PoolSnapshot
    from farm.results.table.job_table import JobTable
    from farm.results.table.pipelines import PipelineTable
    from farm.scenario.model import Scenario
    from farm.scenario.packaged_examples import examples
    from farm_twin.own_farm import Diagnosis, doctor, twin
    from farm_twin.twins.twin import Twin

    __version__: str

__all__ = [
    "ComputedAdvice",
    "Diagnosis",
    "FarmError",
    "InputError",
    "Job",
    "JobTable",
    "PipelineTable",
    "Platform",
    "PoolSnapshot",
    "Result",
    "Results",
    "RunError",
    "Scenario",
    "ServerError",
    "SizePlan",
    "SweepResult",
    "Twin",
    "compare",
    "doctor",
    "examples",
    "load_scenario",
    "open_run",
    "plan",
    "report",
    "run",
    "simulate",
    "sweep",
    "twin",
]

#: the module of each name, imported on first use, so that ``import farm`` takes no time
_PLACES = {
    "farm.app.api": ("load_scenario", "run", "simulate"),
    "farm.app.smallest_pools": ("SizePlan", "plan"),
    "farm.app.report": ("report",),
    "farm.app.runs.advice": ("ComputedAdvice",),
    "farm.app.recorded.result": ("Result", "Results", "compare", "open_run"),
    "farm.app.sweeps.swept": ("SweepResult", "sweep"),
    "farm.core.errors": ("FarmError", "InputError", "RunError", "ServerError"),
    "farm.core.model": ("Job", "Platform"),
    "farm.core.pools.algorithm": ("PoolSnapshot",),
    "farm.results.table.job_table": ("JobTable",),
    "farm.results.table.pipelines": ("PipelineTable",),
    "farm.scenario.packaged_examples": ("examples",),
    "farm.scenario.model": ("Scenario",),
}
#: names of a package beside the farm, found by its entry points
_ON_RECORDS = ("Diagnosis", "Twin", "doctor", "twin")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata  # noqa: PLC0415 - more to import than all the rest here

        return metadata.version("build-farm-emulator")
    for module, names in _PLACES.items():
        if name in names:
            found = getattr(import_module(module), name)
            globals()[name] = found
            return found
    if name in _ON_RECORDS:
        from farm.plugins.entry_points import on_records  # noqa: PLC0415 - as above

        found = globals()[name] = on_records(name)
        return found
    raise AttributeError(f"module 'farm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__name__", "__version__"]
