"""An emulated build farm that really runs, and the same farm in virtual time.

Simulate a scenario, a file of your own or one of the packaged examples, and look at its jobs:

>>> import farm
>>> result = farm.simulate("quickstart")
>>> result
<farm.Result: simulated quickstart (fifo, seed 1), 655 jobs, 0 lost>
>>> result.summary["jobs"]["succeeded"]
655
>>> float(result.jobs["waiting_time_s"].max()) < 3600
True

``result.jobs`` has the columns of jobs.csv; ``result.jobs.to_pandas()`` makes a data frame of them,
``to_polars()`` and ``to_arrow()`` likewise. Any key of the scenario can be said otherwise, policies
and more may be functions of yours, and several seeds make several runs:

>>> def smallest_team(job, estimate, at, serial):
...     return {"tooling": 0, "engine": 1}.get(job.attributes["team"], 2)
>>> own = farm.simulate("quickstart", policy=smallest_team, **{"pools.linux.builders": 10})
>>> many = farm.simulate("quickstart", seeds=range(3))
>>> [one.summary["jobs"]["lost"] for one in many]
[0, 0, 0]

Two runs side by side: which is better, and whether that is more than noise. A run can be kept, as
``farm simulate --out`` keeps it, and read again:

>>> difference = farm.compare(result, own)
>>> folder = own.save("own-policy")
>>> farm.open_run(folder).summary == own.summary
True

``farm.run`` plays the same scenario on a live farm, with real Celery builders in real time, and
returns the same type. Scenarios can also be written as plain data:

>>> little = {
...     "pools": [{"name": "p", "platform": {"processor": "amd64"}, "builders": 2}],
...     "workload": [{"arrivals": {"every": "10s", "count": 6, "service_time": "25s"}}],
... }
>>> farm.simulate(little, pools__p__builders=3).summary["waiting_time_s"]["max"]
0.0

What is wrong with an input is one message:

>>> farm.simulate("quickstart", scheduling__policy="shortest")
Traceback (most recent call last):
    ...
farm.core.errors.ScenarioError: scheduling.policy: unknown 'shortest'; did you mean score? ...

===================  =========================================================================
load_scenario        a scenario, checked: of a file, an example, or plain data
simulate             play it in virtual time
run                  play it on a live farm
compare              results side by side
sweep                many settings and seeds, played on all processors and compared
report               one page of figures: of a run, of several, or of a sweep
open_run             a kept run, as a Result
SweepResult          what a sweep came to: ``rows``, ``table``, ``runs``, ``save``
Result, Results      what a run left: ``summary``, ``jobs``, ``events``, ``save``
JobTable             its jobs in columns
Scenario             what was played
Job, Platform        for jobs of your own: ``simulate(…, jobs=[farm.Job(…), …])``
PoolSnapshot         what a provisioning algorithm of your own looks at
examples             names of the packaged examples
FarmError            what this project raises on purpose (see ``farm.core.errors``):
InputError           … for something wrong that you gave it, in one message,
ServerError          … for a Redis server that cannot be used,
RunError             … for a run that could not be carried through
===================  =========================================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farm.app.api import load_scenario, run, simulate
    from farm.app.report import report
    from farm.app.result import JobTable, Result, Results, compare, open_run
    from farm.app.sweeps.sweep import SweepResult, sweep
    from farm.core.errors import FarmError, InputError, RunError, ServerError
    from farm.core.model import Job, Platform
    from farm.core.pools.algorithm import PoolSnapshot
    from farm.scenario.examples import examples
    from farm.scenario.model import Scenario

    __version__: str

__all__ = [
    "FarmError",
    "InputError",
    "Job",
    "JobTable",
    "Platform",
    "PoolSnapshot",
    "Result",
    "Results",
    "RunError",
    "Scenario",
    "ServerError",
    "SweepResult",
    "compare",
    "examples",
    "load_scenario",
    "open_run",
    "report",
    "run",
    "simulate",
    "sweep",
]

#: where each name stands: imported when it is first used, so that ``import farm`` takes no time
_PLACES = {
    "farm.app.api": ("load_scenario", "run", "simulate"),
    "farm.app.report": ("report",),
    "farm.app.result": ("JobTable", "Result", "Results", "compare", "open_run"),
    "farm.app.sweeps.sweep": ("SweepResult", "sweep"),
    "farm.core.errors": ("FarmError", "InputError", "RunError", "ServerError"),
    "farm.core.model": ("Job", "Platform"),
    "farm.core.pools.algorithm": ("PoolSnapshot",),
    "farm.scenario.examples": ("examples",),
    "farm.scenario.model": ("Scenario",),
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata  # noqa: PLC0415 - more to import than all the rest here

        return metadata.version("build-farm-emulator")
    for module, names in _PLACES.items():
        if name in names:
            found = getattr(import_module(module), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'farm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__name__", "__version__"]
