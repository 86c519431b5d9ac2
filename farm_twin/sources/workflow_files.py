"""GitHub's workflow files: what the jobs of a run need, which its API does not say.

A run is of the file that its ``path`` names, or of the one whose ``name`` it has. A job is known by
its name: that of the file, with what expressions in it may become, and with the values of a matrix
behind it (``test (3.11, linux)``). Jobs of a reusable workflow have the name of the job that calls
it before theirs (``caller / callee``): those that need nothing in their own file need what the
caller needs, and what needs the caller needs all of them.

The files may be newer than the runs. A job whose name is in none is told, and what it needs is then
read from its times, as without the files; a need that had not ended when the job came is left out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from farm.core.errors import InputError, file_access
from farm.core.jobs.needs import Condition
from farm.records.attempt import Attempt, grouped
from farm.records.reading import Reading
from farm.scenario.file.document import parse_document

ENDINGS = (".yml", ".yaml")
_PLACES = (".github/workflows", "workflows", ".")
"""Where the files are in a folder that is named: a clone, its .github, or that of the files."""
MAX_CALLS = 10
"""Reusable workflows within each other: GitHub allows no more."""
NOT_NAMED = "of runs with a workflow file that has no job of their name"
NO_FILE = "of runs whose workflow is in no file"
NOT_READ = "in a concurrency group by an expression that is not read"
"""What is noted of attempts that are so."""

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
_COMPARISON = re.compile(r"(.+?)\s*(==|!=)\s*(.+)")
Place = tuple[str, ...]
"""A job by the ids of its callers and its own."""


class _Job(msgspec.Struct, frozen=True, dict=True):
    """A job of a workflow file."""

    id: str
    #: its name, with expressions
    name: str
    needs: tuple[str, ...]
    condition: Condition
    has_matrix: bool
    #: the file of the workflow that it calls, without folders; empty: it calls none
    calls: str
    group: object

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = _EXPRESSION.split(self.name)
        # of texts and expressions in turn
        text = "".join(".*" if number % 2 else re.escape(part) for number, part in enumerate(parts))
        matrix = r"( \(.*\))?" if self.has_matrix else ""
        return re.compile(f"{text}{matrix}", re.DOTALL)

    def is_named(self, name: str) -> bool:
        """Return whether a job of the API may be this one, by its name."""
        return self._pattern.fullmatch(name) is not None

    @property
    def letters(self) -> int:
        """How much of its name is no expression: of two that fit, the longer one does."""
        return len(_EXPRESSION.sub("", self.name))


class Workflow(NamedTuple):
    """A workflow file."""

    file: str
    name: str
    jobs: dict[str, _Job]
    group: object


class WorkflowFiles:
    """The workflow files of a repository."""

    def __init__(self, workflows: Iterable[Workflow]) -> None:
        self._by_file = {workflow.file: workflow for workflow in workflows}
        self._by_name = grouped(self._by_file.values(), lambda workflow: workflow.name)

    def of_run(self, path: str, name: str) -> Workflow | None:
        """Return the workflow of a run; None: it is in no file, or may be in several."""
        # a path may have the branch behind it
        file = path.partition("@")[0].rpartition("/")[2]
        if file:
            return self._by_file.get(file)
        named = self._by_name.get(name, [])
        by_path = self._by_file.get(name.rpartition("/")[2])
        return named[0] if len(named) == 1 else by_path

    def set_needs(
        self, attempts: Sequence[Attempt], paths: Mapping[str, str], reading: Reading
    ) -> None:
        """Let the attempts of runs need what the files say, and be in their groups.

        Args:
            attempts: of all runs.
            paths: of the workflow files, by the run.
            reading: where what is not in the files is counted.
        """
        places_of: dict[str, dict[str, Place | None]] = defaultdict(dict)
        for run, jobs in grouped(attempts, lambda attempt: attempt.matrix).items():
            workflow = self.of_run(paths.get(run, ""), jobs[0].attributes.get("workflow", ""))
            if workflow is None:
                reading.noted[NO_FILE] += len(jobs)
                continue
            known = places_of[workflow.file]
            places: dict[str, Place] = {}
            for attempt in jobs:
                if attempt.kind not in known:
                    known[attempt.kind] = self._place(workflow, attempt.kind)
                place = known[attempt.kind]
                if place is None:
                    reading.noted[NOT_NAMED] += 1
                else:
                    places[attempt.job] = place
            self._set_needs_of_run(workflow, jobs, places, reading)

    def _set_needs_of_run(
        self,
        workflow: Workflow,
        attempts: Sequence[Attempt],
        places: Mapping[str, Place],
        reading: Reading,
    ) -> None:
        for attempt in attempts:
            place = places.get(attempt.job)
            if place is not None:
                needs: dict[str, None] = {}
                for need, condition in self._needs(workflow, place, set(places.values())):
                    for job, other in places.items():
                        if other[: len(need)] == need and job != attempt.job:
                            needs[f"{job}:{condition}"] = None
                attempt.needs, attempt.needs_known = tuple(needs), True
            own = workflow.jobs[place[0]].group if place is not None else None
            given = own if workflow.group is None else workflow.group
            if given is not None:
                group = _group(given, workflow, attempt)
                attempt.group = group or ""
                reading.noted[NOT_READ] += group is None
        if not reading.noted[NOT_READ]:
            del reading.noted[NOT_READ]

    def _place(self, workflow: Workflow, name: str, depth: int = 0) -> Place | None:
        """Return the job that has a name; None: none has, or several may."""
        fitting: list[tuple[int, Place]] = []
        for job in workflow.jobs.values():
            if job.is_named(name):
                fitting.append((job.letters, (job.id,)))
            called = self._by_file.get(job.calls)
            for end in _places_of_slash(name) if job.calls and depth < MAX_CALLS else ():
                if not job.is_named(name[:end]):
                    continue
                inner = None
                if called is not None:
                    inner = self._place(called, name[end + len(_SLASH) :], depth + 1)
                fitting.append((job.letters, (job.id, *(inner or ()))))
        if not fitting:
            return None
        fitting.sort(reverse=True)
        is_ambiguous = len(fitting) > 1 and fitting[0][0] == fitting[1][0]
        return None if is_ambiguous and fitting[0][1][0] != fitting[1][1][0] else fitting[0][1]

    def _needs(
        self, workflow: Workflow, place: Place, there: set[Place]
    ) -> Iterator[tuple[Place, Condition]]:
        """Yield the places that one needs, from the outermost caller inwards.

        Where a job was skipped, what it needs holds in its place.
        """
        outer: Place = ()
        needs: list[tuple[Place, Condition]] = []
        jobs = workflow.jobs
        for name in place:
            job = jobs.get(name)
            if job is None:
                break
            own = list(_needs_of_job(job, jobs, outer, there))
            needs = own or needs
            called = self._by_file.get(job.calls)
            outer = (*outer, name)
            jobs = called.jobs if called is not None else {}
        yield from needs


def _needs_of_job(
    job: _Job, jobs: Mapping[str, _Job], outer: Place, there: set[Place]
) -> Iterator[tuple[Place, Condition]]:
    left = list(job.needs)
    seen: set[str] = set()
    while left:
        need = left.pop(0)
        if need in seen or need not in jobs:
            continue
        seen.add(need)
        place = (*outer, need)
        if any(other[: len(place)] == place for other in there):
            yield place, job.condition
        else:
            left += jobs[need].needs


_SLASH = " / "


def _places_of_slash(name: str) -> Iterator[int]:
    """Yield where a name may be parted into that of a caller and of what it calls."""
    end = name.find(_SLASH)
    while end >= 0:
        yield end
        end = name.find(_SLASH, end + 1)


def read_workflow_files(folder: Path) -> WorkflowFiles:
    """Return the workflow files in a folder, or in a clone. Raises InputError."""
    for place in _PLACES:
        inside = folder / place
        paths = sorted(inside.iterdir()) if inside.is_dir() else []
        files = [path for path in paths if path.suffix in ENDINGS and path.is_file()]
        if files:
            return WorkflowFiles(map(_read, files))
    found = "no folder" if not folder.is_dir() else "no file .yml or .yaml"
    raise InputError(
        f"{folder}: found {found}; allowed: a folder of workflow files, as .github/workflows"
    )


def _read(path: Path) -> Workflow:
    with file_access(path, "be read"):
        text = path.read_text(encoding="utf-8", errors="replace")
    document = parse_document(text, str(path))
    jobs = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(jobs, dict):
        raise InputError(f"{path}: found no jobs; allowed: a workflow file of GitHub, with jobs")
    for key, value in jobs.items():
        needs = value.get("needs") if isinstance(value, dict) else None
        if not isinstance(needs, str | list | None):
            raise InputError(
                f"{path}: jobs.{key}.needs: found {needs!r:.60}; allowed: a job of the file, or a "
                "list of them"
            )
    name = document.get("name")
    return Workflow(
        file=path.name,
        name=name if isinstance(name, str) else path.name,
        jobs={
            str(key): _job(str(key), value)
            for key, value in jobs.items()
            if isinstance(value, dict)
        },
        group=document.get("concurrency"),
    )


def _job(key: str, value: Mapping[str, Any]) -> _Job:
    needs = value.get("needs", [])
    name = value.get("name")
    strategy = value.get("strategy")
    uses = value.get("uses")
    is_local = isinstance(uses, str) and uses.startswith("./")
    return _Job(
        id=key,
        name=name if isinstance(name, str) else key,
        needs=(needs,) if isinstance(needs, str) else tuple(map(str, needs or ())),
        condition=_condition(str(value.get("if", ""))),
        has_matrix=isinstance(strategy, dict) and "matrix" in strategy,
        # of another repository: its jobs are known by their caller only
        calls=(str(uses).rpartition("/")[2] if is_local else "?") if uses else "",
        group=value.get("concurrency"),
    )


def _condition(text: str) -> Condition:
    """Return how the needs of a job must have ended, by its ``if``."""
    calls = re.sub(r"\s", "", text)
    if "always()" in calls or "!cancelled()" in calls:
        return "ended"
    if "failure()" in calls and "!failure()" not in calls:
        return "ended" if "success()" in calls else "failed"
    return "succeeded"


def _group(given: object, workflow: Workflow, attempt: Attempt) -> str | None:
    """Return the concurrency group of an attempt; None: it hangs on what is not in the records."""
    keys = given if isinstance(given, dict) else {"group": given}
    group = _text(str(keys.get("group", "")), workflow, attempt)
    cancels = keys.get("cancel-in-progress", False)
    if isinstance(cancels, str):
        text = _text(cancels, workflow, attempt)
        cancels = None if text not in ("true", "false") else text == "true"
    if not group or cancels is None:
        return None
    repository = attempt.attributes.get("repository", "")
    name = "/".join(filter(None, [repository, group]))
    return f"{name}:{'cancel' if cancels else 'latest'}"


def _text(template: str, workflow: Workflow, attempt: Attempt) -> str | None:
    """Return a text with its expressions evaluated; None: one of them cannot be."""
    parts = _EXPRESSION.split(template)
    values = [
        _value(part, workflow, attempt) if number % 2 else part for number, part in enumerate(parts)
    ]
    return None if None in values else "".join(filter(None, values))


def _value(expression: str, workflow: Workflow, attempt: Attempt) -> str | None:
    """Return what an expression is for an attempt: names, texts, ``==``, ``!=`` and ``||``."""
    for part in expression.split("||"):
        compared = _COMPARISON.fullmatch(part.strip())
        if compared is not None:
            left, operator, right = compared.groups()
            values = [_value(side, workflow, attempt) for side in (left, right)]
            if None in values:
                return None
            is_so = (values[0] == values[1]) == (operator == "==")
            return "true" if is_so else "false"
        value = _name_or_text(part.strip(), workflow, attempt)
        if value is None or value:
            return value
    return ""


def _name_or_text(text: str, workflow: Workflow, attempt: Attempt) -> str | None:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    if text in ("true", "false"):
        return text
    branch = attempt.attributes.get("branch", "")
    event = attempt.attributes.get("event", "")
    if not event and text not in ("github.workflow", "github.run_id", "github.repository"):
        return None
    is_pull = event.startswith("pull_request")
    known = {
        "github.workflow": workflow.name,
        # the number of a pull request is not in the records, but there is one for a branch
        "github.ref": f"refs/pull/{branch}/merge" if is_pull else f"refs/heads/{branch}",
        "github.ref_name": branch,
        "github.head_ref": branch if is_pull else "",
        "github.event.pull_request.number": branch if is_pull else "",
        "github.event.number": branch if is_pull else "",
        "github.run_id": attempt.matrix,
        "github.event_name": event,
        "github.repository": attempt.attributes.get("repository", ""),
    }
    return known.get(text)
