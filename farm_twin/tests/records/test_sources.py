"""What each source's records mean: the waits that must come out, and what is left out."""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.core.errors import TraceError
from farm.records import json_stream
from farm.records.bundle import Bundle
from farm.records.foreign_columns import time_of
from farm.records.json_stream import objects
from farm.records.traces import foreign_table, read_records
from farm.scenario import TraceOptions
from farm_twin.importing import import_files, source_of
from farm_twin.sources import SOURCES, Sources
from farm_twin.sources.slurm import nodes_of
from farm_twin.tests.records.test_traps import github as job

DATA = Path(__file__).parent / "data"
FILES = {path.stem: path for path in DATA.iterdir()}


def read(source: str, *files: Path) -> Bundle:
    """Return what the source's own file tells, or these do."""
    return import_files(list(files) or [FILES[source]], source, zone=UTC)


def waits(bundle: Bundle) -> dict[str, tuple[float | None, str, int]]:
    """Return wait (or that which was broken off), result and attempt, by id."""

    def waited(one: Any) -> float | None:
        until = one.started_at if one.started_at is not None else one.finished_at
        return until and round(until - one.eligible_at, 3)

    return {one.id: (waited(one), one.result, one.attempt) for one in bundle.attempts}


EXPECTED = {
    "github": {
        "100": (5.0, "succeeded", 1),
        # started_at was not rewritten at the pickup: its first step tells
        "101": (1680.0, "succeeded", 1),
        "104": (1680.0, "cancelled", 1),
    },
    "gitlab": {"12": (10.5, "lost", 1), "15": (59.0, "succeeded", 2)},
    "buildkite": {
        "j1": (30.0, "lost", 1),
        "j3": (3600.0, "cancelled", 1),
        "j4": (55.0, "succeeded", 2),
    },
    "taskcluster": {
        "T1/0": (60.0, "succeeded", 1),
        "T2/0": (29.9, "lost", 1),
        "T2/1": (9.95, "succeeded", 2),
        "T3/0": (10799.9, "cancelled", 1),
    },
    "slurm": {
        "500@1793610000": (60.0, "succeeded", 1),
        "501@1793606400": (300.0, "lost", 1),
        "501@1793610000": (479.0, "succeeded", 2),
        "502@1793610000": (2400.0, "cancelled", 1),
    },
    "reapi": {"u1": (12.5, "succeeded", 1)},
    "jenkins": {"app/unit#3": (35.0, "succeeded", 1), "app/unit#1": (45.0, "failed", 1)},
    "bazel": {"//a:b/CppCompile@1793610000.000-1793610043.900#1": (12.5, "succeeded", 1)},
    "kueue": {"a": (360.0, "succeeded", 1), "b": (3600.0, "succeeded", 1), "c": (None, "open", 1)},
}
LEFT_OUT = {
    "github": {"copied from earlier attempts": 1, "skipped": 1},
    "gitlab": {"manual, never started": 1, "never started, waiting since an unknown time": 1},
    "buildkite": {"no work (waits, blocks and triggers)": 1},
    "taskcluster": {"unscheduled": 1},
    "slurm": {"not yet eligible": 1},
    "reapi": {"served from the cache": 1, "without the times of a worker": 1},
    "jenkins": {"without times in queue (is the Metrics plugin there?)": 1},
    "bazel": {"run locally, by Bazel itself": 1, "served from the cache": 1},
    "kueue": {},
}


@pytest.mark.parametrize("source", SOURCES)
def test_waits_are_from_when_a_job_could_start(source: str):
    """Each source has its own instant for that; it is never just the creation."""
    bundle = import_files([FILES[source]], zone=UTC)
    assert waits(bundle) == EXPECTED[source]
    assert bundle.manifest.left_out == LEFT_OUT[source]
    assert bundle.manifest.source == source  # by its first record


@pytest.mark.parametrize("source", [name for name in SOURCES if name != "slurm"])
def test_the_same_objects_in_any_packaging_are_the_same_bundle(source: str, tmp_path: Path):
    """Pages are concatenated, slurped, or one on a line; files are packed, and overlap."""
    text = FILES[source].read_text()
    expected = waits(read(source))
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "powershell.json").write_text(text, "utf-16")
    (tmp_path / "nested.json").write_text(f"[[{text.strip()}]]" if source != "bazel" else text)
    for path in tmp_path.iterdir():
        assert waits(read(source, path)) == expected
    again = read(source, FILES[source], tmp_path / "packed.json.gz")
    assert waits(again) == expected
    if source != "kueue":  # a watch tells of the same workload repeatedly
        assert again.manifest.left_out["that came twice"] >= len(expected)


def test_an_installed_package_adds_a_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A user of another system reads its records by one file and one entry, after ours."""
    info = tmp_path / "drone-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: drone\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[farm.sources]\ndrone = drone_records:SOURCE\n")
    (tmp_path / "drone_records.py").write_text("from farm_twin.sources.github import SOURCE\n")
    monkeypatch.syspath_prepend(tmp_path)
    sources = Sources()
    assert [*sources] == [*SOURCES, "drone"]
    assert sources["drone"] is SOURCES["github"]


def test_what_no_source_writes_is_recognised_as_lines_of_json(tmp_path: Path):
    """Whatever its members are: the message about its columns comes later."""
    path = tmp_path / "odd.json"
    path.write_text('{"number": 1, "jobs": [5], "items": [5], "status": 5}')
    assert source_of([path]) == "jsonl"


def imported(
    folder: Path, text: str, source: str | None = None, fields: dict[str, str] | None = None
) -> Bundle:
    """Return what a file with this text tells."""
    path = folder / "jobs"
    path.write_text(text)
    return import_files([path], source, fields)


def github(tmp_path: Path, *values: Any) -> Bundle:
    """Return what these objects tell, as GitHub's."""
    return imported(tmp_path, "\n".join(map(json.dumps, values)), "github")


def test_runs_say_who_caused_their_jobs_wherever_they_stand(tmp_path: Path):
    """The runs may be fetched after their jobs."""
    runs = {"workflow_runs": [{"id": 1, "event": "push", "actor": {"login": "ana"},
                               "triggering_actor": {"login": "bob"},
                               "repository": {"full_name": "o/r"}}]}  # fmt: skip
    [one] = github(tmp_path, {"jobs": [job()]}, runs).attempts
    assert one.user == "bob"
    assert one.attributes == {"event": "push", "repository": "o/r"}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"started_at": "2026-11-02T08:59:00Z"}, "with a negative wait"),
        ({"completed_at": "2026-11-02T09:00:05Z"}, "that ended before they started"),
        ({"status": "waiting", "runner_id": 0, "runner_name": "", "completed_at": None},
         "held back for an approval"),
        ({"status": "pending", "runner_id": 0, "runner_name": "", "completed_at": None},
         "held back by a concurrency group"),
        ({"conclusion": "cancelled", "runner_id": 0, "runner_name": "",
          "completed_at": "2026-11-02T09:00:01Z"}, "cancelled at once, before any runner"),
        ({"runner_id": 0, "runner_name": ""}, "without a runner"),
        ({"run_attempt": 2, "created_at": "2026-11-02T10:00:00Z"}, "copied from earlier attempts"),
        ({"status": "in_progress", "completed_at": None, "conclusion": None,
          "started_at": "2026-10-01T09:00:10Z", "created_at": "2026-10-01T09:00:00Z"},
         "open for days: their ends were forgotten"),
    ],
)  # fmt: skip
def test_what_is_no_evidence_is_counted_by_reason(
    changed: dict[str, Any], why: str, tmp_path: Path
):
    """None of these is a wait for a runner."""
    bundle = github(tmp_path, {"jobs": [job(id=2, name="other"), job(**changed)]})
    assert bundle.manifest.left_out == {why: 1}
    assert bundle.manifest.summary() == f"kept 1 of 2: 1 {why}"


def test_a_job_that_was_skipped_while_it_waited_is_a_wait_broken_off(tmp_path: Path):
    """It was demand, unlike one whose condition did not hold."""
    [one] = github(tmp_path, job(conclusion="skipped", runner_id=0, runner_name="",
                                 started_at="2026-11-02T09:00:00Z")).attempts  # fmt: skip
    assert (one.waited, one.finished_at, one.result) == (None, one.submitted_at + 60, "cancelled")


def test_clocks_of_whole_seconds_make_no_negative_wait(tmp_path: Path):
    """A start a second before the creation is a wait of zero, and is counted."""
    [one] = (bundle := github(tmp_path, job(started_at="2026-11-02T08:59:59Z"))).attempts
    assert one.waited == 0.0
    assert sum(bundle.manifest.noted.values()) == 1


def test_a_webhook_s_deliveries_are_one_job(tmp_path: Path):
    """Repeated and out of order; after an approval it waits from when it was queued again."""
    base = job(status="queued", started_at=None, completed_at=None, conclusion=None,
               runner_id=None, runner_name=None)  # fmt: skip
    deliveries = [
        {"action": "completed", "workflow_job": job(started_at="2026-11-02T09:30:00Z",
                                                    completed_at="2026-11-02T09:40:00Z")},
        {"action": "waiting", "workflow_job": base | {"status": "waiting"}},
        {"action": "queued", "workflow_job": base | {"started_at": "2026-11-02T09:20:00Z"}},
        {"action": "queued", "workflow_job": base | {"started_at": "2026-11-02T09:20:00Z"}},
        {"action": "in_progress", "workflow_job": job(status="in_progress", completed_at=None,
                                                      started_at="2026-11-02T09:30:00Z")},
    ]  # fmt: skip
    [one] = (bundle := github(tmp_path, *deliveries)).attempts
    assert (one.waited, one.ran) == (600.0, 600.0)
    assert bundle.manifest.noted == {"webhook deliveries that came again": 1}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("{", "ends inside a value"),
        ('[{"jobs": []}', "ends inside an array"),
        ("[1]", "allowed: objects"),
        ('{"a": 1}', "record 1: found a; allowed: a page of jobs or runs"),
        ('{"jobs": []}', "found no attempt that can be used"),
        (
            '{"total_count": 1, "workflow_runs": [{"id": 7, "event": "push"}]}',
            "can be used: not in these files: 1 of 1 runs ",
        ),
        ('{"jobs": [{"id": "x"}]}', "record 1: Expected `int`, got `str`"),
        (json.dumps({"jobs": [job(created_at="yesterday")]}), "record 1: created_at: found 'yest"),
    ],
)
def test_wrong_input_is_one_message_with_its_record(text: str, told: str, tmp_path: Path):
    """Nothing is guessed."""
    with pytest.raises(TraceError, match=told.replace("[", r"\[")):
        imported(tmp_path, text, "github")


def test_slurm_s_times_need_a_zone():
    """They are local: an hour's error would be silent."""
    with pytest.raises(TraceError, match=r"record 1: Submit: .* a time without a zone; .*--zone"):
        import_files([FILES["slurm"]])


def test_slurm_s_json_is_the_same(tmp_path: Path):
    """``sacct --json`` has the text's jobs."""
    one = {
        "job_id": 500, "name": "sim", "user": "ana", "account": "bio", "partition": "gpu",
        "constraints": "a100", "nodes": "n01", "required": {"CPUs": 8},
        "state": {"current": ["COMPLETED"]},
        "time": {"submission": 1793610000, "eligible": 1793611800, "start": 1793611860,
                 "end": 1793615460},
    }  # fmt: skip
    found = next(one for one in read("slurm").attempts if one.id.startswith("500"))
    assert imported(tmp_path, json.dumps({"jobs": [one]})).attempts == [found]


def test_lists_of_nodes_are_expanded():
    """As Slurm abbreviates them."""
    assert nodes_of("n[02-03,7],gpu1") == ["n02", "n03", "n7", "gpu1"]
    assert nodes_of("None assigned") == []


def test_gitlab_s_webhooks_are_its_jobs(tmp_path: Path):
    """The same job under the names of a webhook's body, told three times."""
    told = [
        {"object_kind": "build", "build_id": 12, "build_name": "unit", "build_status": status,
         "build_created_at": "2026-11-02 08:00:00 UTC", "build_started_at": started,
         "build_finished_at": finished, "build_queued_duration": 10.5, "pipeline_id": 5,
         "runner": {"id": 3, "description": "big-1", "tags": ["linux", "docker"]}}
        for status, started, finished in (
            ("pending", None, None),
            ("success", "2026-11-02 09:00:10 UTC", "2026-11-02 09:04:00 UTC"),
            ("running", "2026-11-02 09:00:10 UTC", None),
        )
    ]  # fmt: skip
    [one] = imported(tmp_path, "\n".join(map(json.dumps, told))).attempts
    assert (one.waited, one.ran, one.result) == (10.5, 230.0, "succeeded")
    assert one.platform == "docker,linux"


CSV = """id;wanted;began;over;where;owner
a;2026-11-02T09:00:00Z;2026-11-02T09:01:00Z;2026-11-02T09:03:00Z;r1;ana
b;2026-11-02T09:00:00Z;;2026-11-02T09:10:00Z;;bob
"""
COLUMNS = {"id": "id", "submitted": "wanted", "started": "began", "finished": "over",
           "runner": "where", "team": "owner"}  # fmt: skip


def test_any_table_can_be_read_by_its_columns(tmp_path: Path):
    """A job that never started is a wait that was broken off."""
    header, *rows = (line.split(";") for line in CSV.splitlines())
    objects = "\n".join(json.dumps(dict(zip(header, row, strict=True))) for row in rows)
    table, lines = (imported(tmp_path, text, fields=COLUMNS) for text in (CSV, objects))
    assert waits(table) == {"a": (60.0, "succeeded", 1), "b": (600.0, "cancelled", 1)}
    assert table.attempts == lines.attempts
    assert table.attempts[0].attributes == {"team": "ana"}


def test_two_jobs_of_a_matrix_that_ran_side_by_side_are_no_copies(tmp_path: Path):
    """Builders that take a second attempt and another job at once, for as long."""
    rows = ["a,1,0,0,50,r1", "a,2,0,100,400,r1", "b,1,0,100,400,r2", "b,2,0,100,400,r2"]
    lines = ["job,attempt,submitted,started,finished,runner,matrix,kind"]
    bundle = imported(tmp_path, "\n".join([*lines, *(f"{row},m,unit" for row in rows)]))
    assert sorted((one.job, one.attempt) for one in bundle.attempts) == [
        ("a", 1), ("a", 2), ("b", 1),
    ]  # fmt: skip
    assert bundle.manifest.left_out == {"copied from earlier attempts": 1}


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"submitted": "wantd"}, "column submitted=wantd: .* did you mean wanted"),
        ({"submitted": "wanted"}, "found no column for started"),
        (COLUMNS | {"slots": "owner"}, "record 1: slots: found 'ana'; allowed: a number"),
    ],
)
def test_a_wrong_column_is_one_message(fields: dict[str, str], told: str, tmp_path: Path):
    """With the nearest name."""
    with pytest.raises(TraceError, match=told):
        imported(tmp_path, CSV, fields=fields)


@pytest.mark.parametrize("header", ["came,duration", "came,Run Time (s)", "came,elapsed"])
def test_a_column_that_is_called_after_what_is_missing_need_not_be_mapped(
    header: str, tmp_path: Path
):
    """Naming one column did forbid the others."""
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n0,60\n10,30\n")
    found = read_records(path, "csv", TraceOptions(fields={"submitted": "came"}))
    assert list(found.service) == [60.0, 30.0]
    path.write_text("came,duration\n0,60\n10,1e300\n")
    with pytest.raises(TraceError, match="found '1e300'; allowed: a number below"):
        read_records(path, "csv", TraceOptions(fields={"submitted": "came"}))


def test_records_of_another_source_are_refused(tmp_path: Path):
    """They were kept, without their waits; and each file of several is looked at."""
    github = {"jobs": [{"id": 1, "run_id": 7, "status": "queued"}]}
    gitlab = {"id": 1, "status": "pending", "tag_list": [], "queued_duration": 1.0}
    for name, value in (("gh", github), ("gl", gitlab)):
        (tmp_path / name).write_text(json.dumps(value))
    for source, files in (("gitlab", ["gh"]), (None, ["gl", "gh"])):
        with pytest.raises(TraceError, match="gh: first record: found records of github; allowed"):
            import_files([tmp_path / name for name in files], source)


# --- JSON objects come out alike, however they were put together and wherever a piece ends --------

SCALARS = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=3), max_size=4)


def put_together(found: list[Any], how: str) -> str:
    """Return the objects as a program that fetches them might leave them."""
    texts = [json.dumps(one, indent=1 if how == "indented" else None) for one in found]
    if how == "array":
        return f"[{','.join(texts)}]"
    if how == "pages":
        return "".join(f"[[{text}]]" for text in texts)
    return {"lines": "\n", "records": "\x1e"}.get(how, "").join(texts)


@given(OBJECTS, st.sampled_from(["array", "pages", "lines", "indented", "records"]),
       st.integers(1, 40))  # fmt: skip
def test_any_packaging_is_the_same_sequence(found: list[Any], how: str, piece: int):
    """However few characters are read at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "PIECE", piece)
        assert list(objects(io.StringIO(put_together(found, how)))) == found


def test_a_large_object_comes_in_parts(monkeypatch: pytest.MonkeyPatch):
    """Each element of its arrays, beside the members before them."""
    monkeypatch.setattr(json_stream, "MAX_WHOLE", 100)
    monkeypatch.setattr(json_stream, "PIECE", 10)
    text = json.dumps({"name": "n", "size": 12345, "jobs": [{"id": n} for n in range(40)], "z": 1})
    found = list(objects(io.StringIO(text)))
    assert found == [{"name": "n", "size": 12345, "jobs": [{"id": n}]} for n in range(40)]
    whole = {"name": "n" * 200, "object": {"id": 1}}
    assert list(objects(io.StringIO(json.dumps(whole)))) == [whole]


@given(OBJECTS.filter(bool), st.data())
def test_a_text_that_is_cut_is_refused(found: list[Any], data: st.DataObject):
    """It never is a shorter list."""
    text = put_together(found, "array")
    cut = data.draw(st.integers(1, len(text) - 1))
    with pytest.raises(ValueError, match=r"character [\d,]+: "):
        list(objects(io.StringIO(text[:cut])))


def test_half_a_character_is_no_reason_to_stop():
    """Programs that cut a text at a number of units leave one; no file can hold it."""
    text = r'[{"na\ud83dme": ["cut \uD83D", "\ud83d\ude00", 1]}]'
    assert list(objects(io.StringIO(text))) == [{"na?me": ["cut ?", "\U0001f600", 1]}]


@pytest.mark.parametrize("text", ["]", "{} x", '{"a": NaN}', "[[{}]", "nul", "1"])
def test_what_is_no_sequence_of_objects_is_refused(text: str):
    """With the place where it stops to be one."""
    with pytest.raises(ValueError, match=r"character \d+: "):
        list(objects(io.StringIO(text)))


NAMED = ["Run Time (ms)", "duration [min]", "Elapsed (hours)", "runtime in seconds", "durationMs"]
TIMED = f"""id,Created At,wait_s,{",".join(NAMED)},Odd (fortnights)
a,2026-11-02T09:00:00Z,30,90000,1.5,0.025,90,90000,2
"""


@pytest.mark.parametrize(
    "fields",
    [{}, *({"submitted": "Created At", "wait": "wait_s", "duration": name} for name in NAMED),
     {"submitted": "Created At", "wait": "wait_s", "run_time_ms": "Run Time (ms)"}],
)  # fmt: skip
def test_units_are_those_of_the_columns_name_or_the_mapping(fields: dict[str, str], tmp_path: Path):
    """As a bundle and as a trace; with no mapping the first name of a time counts."""
    [one] = imported(tmp_path, TIMED, fields=fields).attempts
    assert (one.waited, one.ran) == (30.0, pytest.approx(90.0))
    if fields:
        records = foreign_table.read(tmp_path / "jobs", fields)
        assert records.service.tolist() == [pytest.approx(90.0)]
        assert records.happened is not None


FORMS = ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.%f+05:30", "%Y%m%dT%H%MZ"]


@given(st.lists(st.integers(2 * 10**14, 7 * 10**15), min_size=1), st.data())
def test_a_column_of_instants_is_read_as_each_of_them(times: list[int], data: st.DataObject):
    """Of one form they are read together; beside one of another form one by one."""
    forms = data.draw(st.lists(st.sampled_from(FORMS), min_size=1, max_size=2))
    texts = [datetime.fromtimestamp(at / 1e6, UTC).strftime(forms[at % len(forms)]) for at in times]
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("\n".join(["at,took", *(f"{text},1" for text in texts)]))
        file.flush()
        found = foreign_table.read(Path(file.name), {"submitted": "at", "duration": "took"})
    each = [time_of(text).replace(tzinfo=time_of(text).tzinfo or UTC).timestamp() for text in texts]
    assert found.arrived.tolist() == [at - min(each) for at in each]


def test_a_unit_that_is_not_known_is_refused_in_words(tmp_path: Path):
    """As seconds these would be wrong, silently; the mapping can say what is meant."""
    path = tmp_path / "t.csv"
    path.write_text(TIMED)
    fields = {"submitted": "Created At", "wait": "wait_s", "duration": "Odd (fortnights)"}
    for read in (foreign_table.read, lambda path, fields: import_files([path], fields=fields)):
        with pytest.raises(TraceError, match=r"duration: found '2'; .*name says 'fortnights'"):
            read(path, fields)
    said = {"duration_d" if ours == "duration" else ours: name for ours, name in fields.items()}
    assert foreign_table.read(path, said).service.tolist() == [2 * 86400.0]
