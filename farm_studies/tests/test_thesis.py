"""``farm admin study thesis``: every figure and table of the thesis, on common job sets."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from farm.cli.main import app
from farm.core.errors import InputError
from farm.core.model import Job
from farm.results.figures.page import PageSection
from farm.sim.engines import Case
from farm.sim.fast.kernel import native
from farm_studies.thesis.claims import claims_table
from farm_studies.thesis.evaluation import Evaluation, evaluate, sections
from farm_studies.thesis.future_work import future_work, recorded_jobs
from farm_studies.thesis.job_sets import MAX_SETS, jenkins_sets, model_sets
from farm_studies.thesis.live_slice import live_slice
from farm_studies.thesis.model import (
    MAKESPAN,
    PAGE_16,
    POLICY_OF,
    STRETCH,
    THROUGHPUT,
    measured,
    nodes,
    play_cases,
    service_times,
    setting_of,
)
from farm_studies.thesis.study import answer_of

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def small() -> Evaluation:
    """Chapter 5 on one job set, by the scheduler itself; of section 5.1 a single run."""
    with pytest.MonkeyPatch.context() as patch:
        evaluation = "farm_studies.thesis.evaluation"
        patch.setattr(
            f"{evaluation}.jenkins_sets", lambda n: [jobs[::n] for jobs in jenkins_sets(n)[:4]]
        )
        patch.setattr(f"{evaluation}.JENKINS_SLOTS", (5.0, 10.0, 100.0))
        patch.setattr(native, "is_there", lambda: False)
        return evaluate(1)


def makespan(jobs: tuple[Job, ...], policy: str, slots: int) -> float:
    """Return the last end of jobs that the scheduler itself plays."""
    return max(Case([jobs], setting_of(nodes(slots), policy)).ends(jobs))


@pytest.mark.slow
def test_every_figure_and_table_is_there(small: Evaluation):
    """4.1, 5.1 to 5.12 in their order, tables 5.1 and 5.2 and the result table, each once."""
    shown = sections(small)
    charts = [chart for section in shown for chart in section.charts]
    numbers = [re.match(r"Figure ([0-9.]+)", one.title) for one in charts]
    assert [found[1] for found in numbers if found] == [
        "4.1", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7", "5.8", "5.9", "5.10", "5.11",
        "5.12",
    ]  # fmt: skip
    heads = [table.title for section in shown for table in section.tables]
    for wanted in ("Table 5.1", "Table 5.2", "Result table"):
        assert sum(head.startswith(wanted) for head in heads) == 1


@pytest.mark.slow
def test_numbers_are_those_of_the_scheduler(small: Evaluation):
    """Each policy at each size: median, mean and ratio are those of the simulated runs."""
    (section,) = [one for one in sections(small) if one.title.endswith("without slowdown")]
    table = section.tables[0]
    assert table.columns == ("slots", *POLICY_OF)
    (jobs,) = model_sets(1)
    ljf, random = (makespan(jobs, policy, 6) for policy in ("LJF", "Random"))
    row = dict(zip(table.columns, table.rows[5], strict=True))
    assert (row["slots"], row["LJF"]) == ("6", f"{ljf:.4g}; {ljf:.4g}; {ljf / random:.3f}")


@pytest.mark.slow
def test_stretch_and_throughput_are_in_every_table(small: Evaluation):
    """By their definitions: response ÷ service time, and jobs ÷ makespan."""
    jobs = tuple(
        Job(id=name, service_time=time, matrix="m", arrived_at=1.0)
        for name, time in (("a", 1.0), ("b", 3.0), ("nothing", 0.0))
    )
    found = measured(jobs, service_times([jobs]), np.array([[2.0, 5.0, 1.0]]))
    assert found.tolist() == [[4.0, 5 / 3, 4.0, (1.0 + 4 / 3) / 2, 3 / 4]]
    for section in sections(small):
        if section.title.startswith(("5.1", "5.3")):
            heads = [table.title.partition(":")[0] for table in section.tables]
            assert {"Mean stretch", "Throughput, jobs per second"} <= set(heads)
    (jobs,) = model_sets(1)
    busy = sum(job.service_time for job in jobs)
    assert 1 <= small.plain.median("SJF", 1.0, STRETCH) < small.plain.median("LJF", 1.0, STRETCH)
    assert small.plain.median("LJF", 1.0, THROUGHPUT) <= 2 * len(jobs) / busy


@pytest.mark.slow
def test_runs_are_averaged_but_for_the_first(small: Evaluation):
    """Section 5.1: four runs of a test, of which the first is discarded."""
    runs = [makespan(jobs, "Random", 1) for jobs in jenkins_sets(1)[:2]]
    assert runs[0] != runs[1]  # another order, other weights
    found = small.single.of("LJF", 100.0, MAKESPAN)
    assert found.shape == (1,)
    assert found[0] == max(job.service_time for job in jenkins_sets(1)[0])


def test_claims_are_judged_by_the_runs(small: Evaluation):
    """What must hold on any job set holds: LJF's makespan, SJF's response time, the proof."""
    verdicts = {row[1]: row[3] for row in claims_table(small).rows}
    for said, verdict in verdicts.items():
        if said.startswith(("SJF has the best mean response time (5.8", "proof", "beside ten")):
            assert verdict == "reproduced", said
    for section in ("6.1.1", "6.3"):
        assert section in {row[0] for row in claims_table(small).rows}
    assert (
        "the aged policies' makespans lie between Random's and those of the unaged ones" in verdicts
    )
    assert verdicts["few heavy jobs in parallel erase what any policy gains"] == "reproduced"
    worse = msgspec.structs.replace(small, overload=(1.0,) * 11)
    verdicts = {row[1]: row[3] for row in claims_table(worse).rows}
    assert verdicts["beside ten heavy jobs a job takes five times as long (5.6)"] == (
        "not reproduced"
    )


def test_job_sets_do_not_depend_on_their_number():
    """All variants get the same jobs, however many job sets there are."""
    assert model_sets(2) == model_sets(5)[:2]
    test = jenkins_sets(5)
    assert len(test) == 40
    assert {job.arrived_at for job in test[0]} == {0.0, 30.0, 60.0, 90.0, 120.0}
    times = [sorted(job.service_time for job in jobs) for jobs in test[:5]]
    assert times[0] == times[3] != times[4]  # four runs of a test, then the next test
    assert sum(job.heavy for job in model_sets(1)[0]) == 20


@pytest.mark.slow
@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize("law", [None, PAGE_16], ids=["none", "slowdown"])
def test_the_compiled_loop_agrees(law, monkeypatch: pytest.MonkeyPatch):
    """The compiled loop gives the same numbers as the scheduler."""
    late, many = jenkins_sets(5)[:2], model_sets(3, jobs_apart=0.5)
    for sets in (many, [jobs[::5] for jobs in late]):
        cases = {x: (sets, nodes(x, law)) for x in (1.0, 6.0)}
        found = []
        for fast in (True, False):
            monkeypatch.setattr(native, "is_there", lambda fast=fast: fast)
            found.append(play_cases(cases).numbers)
        for cell, numbers in found[0].items():
            np.testing.assert_array_equal(numbers, found[1][cell])


@pytest.mark.slow
def test_each_question_has_a_figure_and_a_paragraph(monkeypatch: pytest.MonkeyPatch):
    """Each question of the future work is answered by simulations, the last of recorded jobs."""
    monkeypatch.setattr("farm_studies.thesis.job_sets.MAX_SETS", 1)
    found = future_work(1, None)
    assert [re.match(r"\S+", one.title)[0] for one in found] == [  # type: ignore[index]
        "6.4.1", "6.4.2", "6.4.3", "6.4.4", "6.1.1", "6.4.4", "4.2.1", "7.1", "6.4.5",
    ]  # fmt: skip
    for section in found:
        assert len(section.words) == len(section.charts) == 1
        assert "Best in" in section.words[0]
    assert "own_ci.csv: 557 recorded jobs" in found[-1].words[0]


def test_recorded_jobs_may_be_the_users(tmp_path: Path):
    """As many slots as make them busy for the shares that are compared."""
    trace = tmp_path / "jobs.csv"
    rows = "".join(f"{n},{1 + n % 7}\n" for n in range(40))
    trace.write_text("submitted_at_s,service_time_s\n" + rows, "utf-8")
    (said,) = recorded_jobs(trace).words
    assert "jobs.csv: 40 recorded jobs" in said
    assert "0.5 with 8, 0.7 with 6" in said


@pytest.mark.slow
def test_the_command_writes_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: Evaluation
):
    """Self-contained, with a drawing for each figure; impossible options are refused beforehand."""
    claims = claims_table(small)
    answer = answer_of(claims)
    numbers = [int(one) for one in re.findall(r"\d+", answer)]
    assert (numbers[1], sum(numbers) - numbers[1]) == (len(claims.rows), len(claims.rows))
    shown = [PageSection("The claims", [answer], tables=[claims]), *sections(small)]
    monkeypatch.setattr("farm_studies.command.thesis", lambda *_, **__: shown)
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["admin", "study", "thesis", "-o", str(page)])
    assert done.exit_code == 0, done.output
    text = page.read_text("utf-8")
    assert text.count("<svg ") == sum(len(one.charts) for one in shown)
    assert text.index(escape(answer)) < text.index("<table")
    assert '<body class="told">' in text
    assert "://" not in text.replace("http://www.w3.org/2000/svg", "")
    for wrong in (["-o", "page.pdf"], ["--part", "evaluation", "--trace", str(page)]):
        done = CliRunner().invoke(app, ["admin", "study", "thesis", *wrong])
        assert isinstance(done.exception, InputError)


@pytest.mark.slow
@pytest.mark.usefixtures("kernel")
def test_the_documented_claims_are_those_of_a_thousand_sets():
    """The page in docs states what the study finds on a thousand sets: how many, and which not."""
    page = (DOCS / "thesis.md").read_text("utf-8")
    rows = claims_table(evaluate(MAX_SETS)).rows
    others = [row for row in rows if row[-1] != "reproduced"]
    assert f"Of {len(rows)} claims {len(rows) - len(others)} are reproduced" in page
    for row in others:
        assert f"| {' | '.join(row)} |" in page


@pytest.mark.slow
@pytest.mark.live
def test_the_live_slice_is_beside_the_same_jobs(monkeypatch: pytest.MonkeyPatch):
    """Four runs on one farm, the first discarded; no job is faster than in virtual time."""
    monkeypatch.setattr(
        "farm_studies.thesis.live_slice.jenkins_sets",
        lambda n: [jobs[: 6 * n] for jobs in jenkins_sets(n)[:4]],
    )
    monkeypatch.setattr("farm_studies.thesis.live_slice.ALL", ("SJF",))
    monkeypatch.setattr("farm_studies.thesis.live_slice.UNAGED", ("LJF",))
    several = live_slice().tables
    assert [[row[0] for row in table.rows] for table in several] == [["LJF"], ["SJF"]]
    for table in several:
        *slower, throughput = (list(map(float, one.split(";"))) for one in table.rows[0][1:])
        assert all(live >= virtual > 0 for live, virtual, _ in slower)
        assert 0 < throughput[0] <= throughput[1]
