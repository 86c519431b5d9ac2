"""The CI systems whose APIs are asked, and what each API calls things.

Each yields pages as the API gave them, which is what the reader of that system's records takes
(``github``, ``gitlab``, ``buildkite`` of ``farm import``), and counts what it was told there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol
from urllib.parse import quote

import msgspec

from farm.core.errors import InputError
from farm_twin.fetching.api import Api, ApiError, NotThereError, Page, RefusedRequestError
from farm_twin.fetching.window import Window, iso

#: records of one page: the most that these APIs give
PAGE = 100
#: runs that GitHub lists for one search, whatever it announces
MAX_SEARCH_RESULTS = 1_000


class Tally(msgspec.Struct):
    """How much was read of a window, and how much the API said there is."""

    #: workflow runs, pipelines or builds
    runs: int = 0
    runs_announced: int = 0
    jobs: int = 0
    jobs_announced: int = 0
    #: runs that have not ended: a later request finds more of them
    unfinished: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether all that the API announced was read."""
        return self.runs >= self.runs_announced and self.jobs >= self.jobs_announced

    def add(self, other: Tally) -> None:
        """Add what was read of another window."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class _Run(msgspec.Struct):
    """What is needed of a run, a pipeline, a build or a job, of all that an API says of it."""

    id: int | str
    #: of a run or pipeline
    status: str | None = None
    #: of a build
    finished_at: str | None = None
    jobs: list[object] | None = None


class System(Protocol):
    """How one CI system's API is asked."""

    #: the address of the public installation's API
    api: str
    #: environment variables that may hold a token, the first one first
    token_names: Sequence[str]

    def headers(self, token: str) -> Mapping[str, str]:
        """Return the headers that carry the token."""

    def projects(self, api: Api, target: str) -> list[str]:
        """Return the repositories (projects, pipelines) of an organization, or the one named."""

    def pages(self, api: Api, project: str, window: Window, tally: Tally) -> Iterator[object]:
        """Yield the pages of a window; what is read is counted in ``tally``."""


class GitHub:
    """Workflow runs by the time at which they were created, and the jobs of each, all attempts."""

    api = "https://api.github.com"
    token_names: Sequence[str] = ("GITHUB_TOKEN", "GH_TOKEN")

    def headers(self, token: str) -> Mapping[str, str]:
        """Return the headers that carry the token."""
        return {
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {token}",
            "X-GitHub-Api-Version": "2022-11-28",
        }

    def projects(self, api: Api, target: str) -> list[str]:
        """Return the repositories of an organization or a user, or the one that is named."""
        owner, _, name = target.partition("/")
        if name:
            return [target]
        try:
            pages = list(api.pages(f"orgs/{quote(owner)}/repos", per_page=PAGE, type="all"))
        except NotThereError:
            pages = list(api.pages(f"users/{quote(owner)}/repos", per_page=PAGE, type="all"))
        return _names(pages, "full_name")

    def pages(self, api: Api, project: str, window: Window, tally: Tally) -> Iterator[object]:
        """Yield pages of runs, and after them the pages of their jobs."""
        runs: dict[int | str, str | None] = {}
        for page in self._runs(api, project, window, tally):
            runs.update((run.id, run.status) for run in _members(page, "workflow_runs"))
            yield page.body
        tally.runs += len(runs)
        tally.unfinished += sum(status != "completed" for status in runs.values())
        for run in runs:
            seen: set[int | str] = set()
            path = f"repos/{quote(project)}/actions/runs/{run}/jobs"
            announced = 0
            for page in api.pages(path, per_page=PAGE, filter="all"):
                seen.update(job.id for job in _members(page, "jobs"))
                announced = _announced(page)
                yield page.body
            tally.jobs += len(seen)
            tally.jobs_announced += announced

    def _runs(self, api: Api, project: str, window: Window, tally: Tally) -> Iterator[Page]:
        """Yield pages of runs; a window with more than a search lists is cut in halves."""
        path = f"repos/{quote(project)}/actions/runs"
        span = f"{iso(window.begin)}..{iso(window.last_second)}"
        pages = api.pages(path, per_page=PAGE, created=span)
        first = next(pages)
        announced = _announced(first)
        if announced > MAX_SEARCH_RESULTS and window.can_be_cut:
            for half in window.halves():
                yield from self._runs(api, project, half, tally)
            return
        tally.runs_announced += announced
        yield first
        yield from pages


class GitLab:
    """Pipelines by the time of their last change, and the jobs of each, retried ones too."""

    api = "https://gitlab.com/api/v4"
    token_names: Sequence[str] = ("GITLAB_TOKEN", "GITLAB_PRIVATE_TOKEN")

    def headers(self, token: str) -> Mapping[str, str]:
        """Return the header that carries the token."""
        return {"PRIVATE-TOKEN": token}

    def projects(self, api: Api, target: str) -> list[str]:
        """Return the projects with CI of a group and its subgroups, or the one that is named."""
        if "/" in target:
            try:
                api.get(f"projects/{quote(target, safe='')}")
            except NotThereError:
                pass  # a subgroup
            else:
                return [target]
        path = f"groups/{quote(target, safe='')}/projects"
        return _names(
            api.pages(path, include_subgroups="true", per_page=PAGE), "path_with_namespace"
        )

    def pages(self, api: Api, project: str, window: Window, tally: Tally) -> Iterator[object]:
        """Yield pages of the jobs of each pipeline."""
        path = f"projects/{quote(project, safe='')}/pipelines"
        span = {"updated_after": iso(window.begin), "updated_before": iso(window.end)}
        pipelines: dict[int | str, str | None] = {}
        # a list without a source leaves out the pipelines that other pipelines start
        for source in ({}, {"source": "parent_pipeline"}):
            listed: dict[int | str, str | None] = {}
            announced: int | None = None
            for page in api.pages(path, per_page=PAGE, **span, **source):
                announced = page.total if announced is None else announced
                listed.update((run.id, run.status) for run in _runs_of(page.body))
            pipelines.update(listed)
            tally.runs += len(listed)
            tally.runs_announced += len(listed) if announced is None else announced
        ended = ("success", "failed", "canceled", "skipped", "manual")
        tally.unfinished += sum(status not in ended for status in pipelines.values())
        for pipeline in pipelines:
            jobs = 0
            total: int | None = None
            for page in api.pages(f"{path}/{pipeline}/jobs", per_page=PAGE, include_retried="true"):
                here = len(_runs_of(page.body))
                jobs += here
                total = page.total if total is None else total
                if here:
                    yield page.body
            tally.jobs += jobs
            tally.jobs_announced += jobs if total is None else total


class Buildkite:
    """Builds by the time at which they were created, with their jobs, retried ones too."""

    api = "https://api.buildkite.com/v2"
    token_names: Sequence[str] = ("BUILDKITE_API_TOKEN", "BUILDKITE_TOKEN")

    def headers(self, token: str) -> Mapping[str, str]:
        """Return the header that carries the token."""
        return {"Authorization": f"Bearer {token}"}

    def projects(self, api: Api, target: str) -> list[str]:
        """Return what is named: the builds of an organization are listed together."""
        organization, _, pipeline = target.partition("/")
        path = f"organizations/{quote(organization)}"
        api.get(f"{path}/pipelines/{quote(pipeline)}" if pipeline else path)
        return [target]

    def pages(self, api: Api, project: str, window: Window, tally: Tally) -> Iterator[object]:
        """Yield pages of builds; a window with too many pages is cut in halves."""
        organization, _, pipeline = project.partition("/")
        path = f"organizations/{quote(organization)}"
        path += f"/pipelines/{quote(pipeline)}/builds" if pipeline else "/builds"
        span = {"created_from": iso(window.begin), "created_to": iso(window.end)}
        pages: list[Page] = []
        try:
            pages.extend(api.pages(path, per_page=PAGE, include_retried_jobs="true", **span))
        except RefusedRequestError:
            if not pages or not window.can_be_cut:
                raise  # not for the number of pages
            for half in window.halves():
                yield from self.pages(api, project, half, tally)
            return
        for page in pages:
            builds = _runs_of(page.body)
            jobs = sum(len(build.jobs or ()) for build in builds)
            unfinished = sum(not build.finished_at for build in builds)
            tally.add(Tally(len(builds), len(builds), jobs, jobs, unfinished))
            if builds:
                yield page.body


SYSTEMS: dict[str, Callable[[], System]] = {
    "github": GitHub,
    "gitlab": GitLab,
    "buildkite": Buildkite,
}


def _runs_of(records: object) -> list[_Run]:
    """Return the records of a list. Raises ApiError."""
    try:
        return msgspec.convert(records, list[_Run])
    except msgspec.ValidationError as error:
        raise ApiError(
            f"found {str(records)!r:.100} for a page; allowed: a list of records ({error})"
        ) from None


def _members(page: Page, key: str) -> list[_Run]:
    """Return the records of a page under a key. Raises ApiError."""
    return _runs_of(page.body.get(key) if isinstance(page.body, dict) else page.body)


def _names(pages: Iterable[Page], key: str) -> list[str]:
    """Return the names of the projects in a list. Raises ApiError."""
    names: list[str] = []
    for page in pages:
        for project in page.body if isinstance(page.body, list) else [page.body]:
            if isinstance(project, dict) and project.get("jobs_enabled") is False:
                continue  # of GitLab: asked for its pipelines, the API answers 403
            name = project.get(key) if isinstance(project, dict) else None
            if not isinstance(name, str):
                raise ApiError(
                    f"found {str(project)!r:.100} for a project; allowed: one with {key}"
                )
            names.append(name)
    return names


def _announced(page: Page) -> int:
    """Return how many records there are by GitHub's own words."""
    total = page.body.get("total_count") if isinstance(page.body, dict) else None
    if not isinstance(total, int):
        raise ApiError(f"found {str(page.body)!r:.100} for a page; allowed: one with total_count")
    return total


def checked_target(target: str) -> str:
    """Return the name of an organization or a repository; raises InputError."""
    parts = target.split("/")
    if not all(parts) or any(part in (".", "..") or part.strip() != part for part in parts):
        raise InputError(f"found {target!r:.100}; allowed: OWNER or OWNER/NAME, without an address")
    return target
