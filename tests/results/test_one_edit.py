"""One noun, one record: a field that is added to a job needs no second edit.

Neither where jobs come in (tables, JSON lines, scenarios, the caller's own code, the wire), nor
where they go.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: the last field of a job
LAST = "    threads: Annotated[int, THREADS] = 1"

#: runs a small farm, restarts its scheduler from Redis and from a snapshot, and writes its tables
STORY = """
import sys
from pathlib import Path
import fakeredis, msgspec
from farm.core.events import BuilderJoined, JobFinished, JobsSubmitted
from farm.core.model import Builder, Job
from farm.core.state.restore import restored
from farm.core.rules import SchedulingRules
from farm.core.scheduler import Scheduler
from farm.core.state.snapshot import FarmSnapshot, snapshot_of
from farm.forecasts.runtime.estimator_registry import make_estimator
from farm.live.store.state_writer import StateWriter
from farm.live.redis.keys import Keys
from farm.live.store.saved import FarmReader
from farm.live.store.saved import Counts, snapshot_of_saved
from farm.live.store.batch import Batch
from farm.live.store.store import Store
from farm.results.table.jobs_csv import read_jobs, write_jobs
from farm.results.table.job_table import joined, tables_of
from farm.results.log.reader import read_log
from farm.results.log.writer import EventLogWriter
from farm.results.table.recorder import Recorder

out = Path(sys.argv[1])
rules, estimator = SchedulingRules(), make_estimator("declared")
scheduler, recorder = Scheduler(rules, estimator), Recorder()
writer, batch = StateWriter(scheduler), Batch()
store = Store(fakeredis.FakeRedis(protocol=2), Keys())
store.open(1.0)
red = Job(id="a", service_time=5.0, colour="red")
blue = Job(id="b", service_time=5.0, colour="blue")
with EventLogWriter(out / "events.jsonl") as log:
    for event in (
        BuilderJoined(0.0, Builder(id="one", pool="p", index=1)),
        JobsSubmitted(0.0, (red, blue)),
        JobFinished(5.0, "a", 1, "one", "succeeded"),
    ):
        commands = scheduler.handle(event)
        writer.touch(event)
        for command in commands:
            writer.note(command, event.at, batch)
        recorder(event, commands)
        log(event, commands)

scheduler.jobs["b"].mood = "glad"
writer.touch_all()
writer.write(batch)
batch.counts = Counts()
store.commit(batch, {}, 5.0)
image = msgspec.json.encode(snapshot_of(scheduler, 5.0))
for snapshot in (
    msgspec.json.decode(image, type=FarmSnapshot),
    snapshot_of_saved(FarmReader(store._client, Keys()).saved()),
):
    state = restored(snapshot, rules, estimator).jobs["b"]
    assert (state.job.colour, state.mood) == ("blue", "glad")

colours = [job.colour for entry in read_log(out / "events.jsonl")
           if isinstance(entry.event, JobsSubmitted) for job in entry.event.jobs]
assert colours == ["red", "blue"]
write_jobs(out / "jobs.csv", tables_of(recorder.records()))
assert (out / "jobs.csv").read_text().splitlines()[0].endswith(",colour")
for table in (joined(tables_of(recorder.records())), read_jobs(out / "jobs.csv")):
    assert list(table["colour"]) == ["red", "blue"]
"""

#: lets jobs come in by every way, with a field and the limit that it declares
WAYS_IN = """
import sys
from pathlib import Path
import farm
from farm.app.jobs.sources import parse_lines
from farm.live.wire.report_checks import flaw_of
from farm.records.traces.csv_table import write_csv
from farm.workload import read_trace

out = Path(sys.argv[1])
POOL = {"name": "p", "builders": 1}


def table(colour):
    path = out / "in.csv"
    path.write_text(f"submitted_at_s,service_time_s,colour\\n0,5,{colour}\\n")
    return list(read_trace(path))


def foreign(colour):
    path = out / "foreign.csv"
    path.write_text(f"when,took,paint\\n0,5,{colour}\\n")
    fields = {"submitted": "when", "duration": "took", "colour": "paint"}
    return list(read_trace(path, options=farm.scenario.TraceOptions(fields=fields)))


def line(colour):
    text = '{"service_time_s": 5, "colour": "%s"}' % colour
    return list(parse_lines([text], "in", "a", farm.Platform("amd64", True)))


def scenario(colour):
    made = {"count": 1, "every": "1s", "service_time": "5s", "colour": {colour: 2.0}}
    return played({"name": "s", "pools": [POOL], "workload": [{"arrivals": made}]})


def callers(colour):
    job = farm.Job(id="a", service_time=5.0, colour=colour)
    given = {"name": "s", "pools": [POOL], "workload": [{"arrivals": {
        "count": 1, "every": "1s", "service_time": "5s"}}]}
    return played(given, jobs=[job])


def wire(colour):
    job = farm.Job(id="a", service_time=5.0, colour=colour)
    if (flaw := flaw_of(job)) is not None:
        raise farm.InputError(flaw)
    return [job]


def played(given, **more):
    submitted = [e for e in farm.simulate(given, **more).events if e["event"] == "job-submitted"]
    return [farm.Job(id="a", service_time=5.0, colour=e["colour"]) for e in submitted]


for way in (table, foreign, line, scenario, callers, wire):
    assert [job.colour for job in way("red")] == ["red"], way
    try:
        way("mauve")
    except farm.InputError as error:
        assert "colour" in str(error) and "mauve" in str(error), error
        assert "allowed: red, blue" in str(error), error
    else:
        raise AssertionError(f"{way}: mauve is no colour")

write_csv(table("red"), out / "out.csv")
assert [job.colour for job in read_trace(out / "out.csv")] == ["red"]
"""


#: plays jobs with both engines; a column stands in the table, and in the file
COLUMN = """
import sys
from pathlib import Path
import farm
from farm.sim.fast.kernel import native
from tests.fixtures import plain_kernel

pool = {"name": "p", "builders": 1}
load = {"count": 1, "every": "1s", "service_time": "1s"}
jobs = [farm.Job(id=name, arrived_at=0.0, service_time=5.0, score=score)
        for name, score in (("a", 1.5), ("b", 2.5))]
native.is_there, native.Call = lambda: True, plain_kernel.Call
for engine in ("reference", "fast"):
    out = Path(sys.argv[1]) / engine
    scenario = {"name": "s", "pools": [pool], "workload": [{"arrivals": load}]}
    run = farm.simulate(scenario, jobs=jobs, engine=engine, out=out)
    assert (out / "jobs.csv").read_text().splitlines()[0].split(",")[5] == "score"
    assert run.jobs["score"].tolist() == [1.5, 2.5], engine
"""


def add(path: Path, after: str, line: str) -> None:
    """Add a line to a file."""
    text = path.read_text()
    assert text.count(after) == 1
    path.write_text(text.replace(after, f"{after}\n    {line}"))


def played(story: str, folder: Path, tmp_path: Path) -> None:
    """Run a story with the farm of a folder."""
    done = subprocess.run(
        [sys.executable, "-c", story, tmp_path],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the farm, with its bytecode."""
    shutil.copytree(ROOT / "farm", tmp_path / "farm")
    return tmp_path


@pytest.mark.slow
def test_a_new_field_of_a_job_is_one_edit(copied: Path, tmp_path: Path) -> None:
    """It reaches the event log, jobs.csv, the snapshot, and a restarted scheduler."""
    add(copied / "farm/core/model.py", LAST, 'colour: Column[str] = ""')
    add(copied / "farm/core/state/working_state.py", "    losses: int = 0", 'mood: str = ""')
    played(STORY, copied, tmp_path)


@pytest.mark.slow
def test_a_new_field_comes_in_every_way_within_its_limit(copied: Path, tmp_path: Path) -> None:
    """It is read from a table, a JSON line and a scenario, and refused where it is not allowed."""
    limit = 'limit("red, blue", lambda found: found in ("red", "blue"))'
    add(copied / "farm/core/model.py", LAST, f'colour: Annotated[str, {limit}] = "blue"')
    played(WAYS_IN, copied, tmp_path)


@pytest.mark.slow
def test_a_new_column_of_jobs_is_one_entry(copied: Path, tmp_path: Path) -> None:
    """It is filled from the scheduler's records and from the compiled loop, written and read."""
    entry = 'score = Column(floats, "job.score", public=True)'
    kind = '    kind = Column(texts, "job.kind", public=True)'
    add(copied / "farm/results/table/job_columns.py", kind, entry)
    played(COLUMN, copied, tmp_path)
