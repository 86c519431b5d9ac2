"""One noun, one record: a field that is added to a job needs no second edit."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

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
from farm.forecasts.runtime import make_estimator
from farm.live.store.state_writer import StateWriter
from farm.live.redis.keys import Keys
from farm.live.store.saved import Counts, snapshot_of_saved
from farm.live.store.batch import Batch
from farm.live.store.store import Store
from farm.results.jobs_csv import read_jobs, write_jobs
from farm.results.jobs_table import joined, tables_of
from farm.results.log.reader import read_log
from farm.results.log.writer import EventLogWriter
from farm.results.summary.records import Recorder

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
writer.touch_job("b")
writer.write(batch)
batch.counts = Counts()
store.commit(batch, {}, 5.0)
image = msgspec.json.encode(snapshot_of(scheduler, 5.0))
for snapshot in (
    msgspec.json.decode(image, type=FarmSnapshot),
    snapshot_of_saved(store.saved()),
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


def add(path: Path, after: str, line: str) -> None:
    """Add a line to a file."""
    text = path.read_text()
    assert text.count(after) == 1
    path.write_text(text.replace(after, f"{after}\n    {line}"))


def test_a_new_field_of_a_job_is_one_edit(tmp_path: Path) -> None:
    """It reaches the event log, jobs.csv, the snapshot, and a restarted scheduler."""
    shutil.copytree(ROOT / "farm", tmp_path / "farm", ignore=shutil.ignore_patterns("__pycache__"))
    add(tmp_path / "farm/core/model.py", "    threads: int = 1", 'colour: Column[str] = ""')
    add(tmp_path / "farm/core/state/working_state.py", "    losses: int = 0", 'mood: str = ""')
    done = subprocess.run(
        [sys.executable, "-c", STORY, tmp_path],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
