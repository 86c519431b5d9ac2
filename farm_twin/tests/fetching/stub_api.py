"""An API of a CI system on loopback, with the limits of the real ones.

Written for these tests alone: it makes up its records, counts who asks for what, and refuses as
the documentation of the systems says that they do.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "s3cret-token"
FIRST_DAY = datetime(2026, 11, 2, tzinfo=UTC)


def instant(text: str) -> datetime:
    """Return an instant as APIs write it."""
    return datetime.fromisoformat(text)


class Stub(ThreadingHTTPServer):
    """The server; tests set its limits and read what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        #: requests by path
        self.asked: Counter[str] = Counter()
        #: what else it has heard: tokens
        self.tokens: set[str] = set()
        #: runs by repository, each with when it was created, and its number of jobs
        self.runs: dict[str, list[tuple[datetime, int]]] = {}
        #: results that one search lists, as GitHub's thousand
        self.search_limit = 1_000
        #: pages of one list, as Buildkite refuses deep ones
        self.page_limit = 10_000
        #: requests until the rate limit; None: there is none
        self.remaining: int | None = None
        #: the clock of the rate limit, and when that begins anew
        self.now = 1_800_000_000.0
        self.reset = self.now
        #: answers of status 502 to come
        self.failures = 0
        #: jobs of each run that are announced and not listed
        self.withheld = 0
        #: status of the runs
        self.status = "completed"
        #: repositories whose runs may not be read
        self.forbidden: set[str] = set()
        #: GitLab's pipelines that another pipeline started
        self.children: set[int] = set()
        #: another address in place of the next page's, or of a redirect
        self.elsewhere = ""
        self.redirect = ""

    def pause(self, seconds: float) -> None:
        """Let time pass: for the client to wait with."""
        self.now += seconds

    def tell_time(self) -> float:
        """Return the time of its clock."""
        return self.now


@contextmanager
def stub_api() -> Iterator[Stub]:
    """Serve until the block ends."""
    with Stub() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Stub
    protocol_version = "HTTP/1.1"
    responses_of: ClassVar = {}

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer."""
        stub = self.server
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        stub.asked[parts.path] += 1
        authorization = self.headers["Authorization"] or self.headers["PRIVATE-TOKEN"] or ""
        token = authorization.removeprefix("Bearer ")
        stub.tokens.add(token)
        if stub.failures:
            stub.failures -= 1
            self._answer(502, {"message": "Bad gateway"})
            return
        if token != TOKEN:
            self._answer(401, {"message": "Bad credentials"})
            return
        if stub.remaining is not None:
            if stub.now >= stub.reset:
                stub.remaining, stub.reset = max(stub.remaining, 5), stub.now + 3600
            if stub.remaining == 0:
                limit = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{stub.reset:.0f}"}
                self._answer(403, {"message": "API rate limit exceeded"}, limit)
                return
            stub.remaining -= 1
        if stub.redirect:
            self._answer(301, {}, {"Location": stub.redirect})
            return
        names = [unquote(name) for name in parts.path.strip("/").split("/")]
        match names:
            case ["orgs", "octo", "repos"]:
                self._page([{"full_name": name} for name in stub.runs], query)
            case ["repos", owner, name, *_] if f"{owner}/{name}" in stub.forbidden:
                self._answer(403, {"message": "Actions are disabled"})
            case ["repos", owner, name, "actions", "runs"]:
                self._runs(f"{owner}/{name}", query)
            case ["repos", owner, name, "actions", "runs", number, "jobs"]:
                self._jobs(f"{owner}/{name}", int(number), query)
            case ["projects", name] if name in stub.runs:
                self._answer(200, {"id": 1, "path_with_namespace": name})
            case ["groups", "octo", "projects"]:
                self._page([{"path_with_namespace": name} for name in stub.runs], query)
            case ["projects", name, "pipelines"]:
                span = instant(query["updated_after"]), instant(query["updated_before"])
                of_children = query.get("source") == "parent_pipeline"
                found = [
                    n for n in self._between(name, *span) if (n in stub.children) == of_children
                ]
                self._page([{"id": n, "status": "success"} for n in found], query, total=True)
            case ["projects", name, "pipelines", number, "jobs"]:
                assert query["include_retried"] == "true"
                created, count = stub.runs[name][int(number)]
                base = sum(map(ord, name)) * 1_000 + int(number)
                jobs = [_gitlab_job(base, n, created) for n in range(count)]
                self._page(jobs, query, total=True)
            case ["organizations", "octo"]:
                self._answer(200, {"slug": "octo"})
            case ["organizations", "octo", "builds"]:
                span = instant(query["created_from"]), instant(query["created_to"])
                self._page(
                    [_build(n, *stub.runs["octo"][n]) for n in self._between("octo", *span)],
                    query,
                )
            case _:
                self._answer(404, {"message": "Not Found"})

    def _between(self, name: str, begin: datetime, end: datetime) -> list[int]:
        """Return the numbers of the runs created in this window, without its end."""
        return [
            n for n, (created, _) in enumerate(self.server.runs[name]) if begin <= created < end
        ]

    def _runs(self, name: str, query: dict[str, str]) -> None:
        begin, _, last = query["created"].partition("..")
        found = self._between(name, instant(begin), instant(last) + timedelta(seconds=1))
        runs = [
            {
                "id": n,
                "run_number": n,
                "event": "push",
                "status": self.server.status,
                "actor": {"login": "ann"},
                "repository": {"full_name": name},
            }
            for n in found
        ]
        listed = runs[: self.server.search_limit]
        self._page(listed, query, key="workflow_runs", count=len(runs))

    def _jobs(self, name: str, number: int, query: dict[str, str]) -> None:
        assert query["filter"] == "all"
        created, count = self.server.runs[name][number]
        base = sum(map(ord, name)) * 1_000_000 + number * 1_000
        jobs = [_github_job(base + n, number, n, created) for n in range(count)]
        listed = jobs[: max(0, count - self.server.withheld)]
        self._page(listed, query, key="jobs", count=count)

    def _page(
        self,
        records: list[dict[str, object]],
        query: dict[str, str],
        key: str = "",
        count: int = 0,
        *,
        total: bool = False,
    ) -> None:
        """Answer with a page of 30 records, or as many as asked for, up to 100."""
        size, page = min(100, int(query.get("per_page", 30))), int(query.get("page", 1))
        if page > self.server.page_limit:
            self._answer(422, {"message": "Please narrow your query"})
            return
        here = records[size * (page - 1) : size * page]
        headers = {"X-Total": str(len(records))} if total else {}
        if size * page < len(records):
            base = self.server.elsewhere or self.server.url
            rest = "&".join(f"{name}={value}" for name, value in query.items() if name != "page")
            path = urlsplit(self.path).path
            headers["Link"] = (
                f'<{base}{path}?{rest}&page=1>; rel="first", '
                f'<{base}{path}?{rest}&page={page + 1}>; rel="next"'
            )
        self._answer(200, {"total_count": count, key: here} if key else here, headers)

    def _answer(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _iso(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def _github_job(number: int, run: int, place: int, created: datetime) -> dict[str, object]:
    started = created + timedelta(seconds=20)
    return {
        "id": number,
        "run_id": run,
        "run_attempt": 1,
        "name": f"test ({place})",
        "status": "completed",
        "conclusion": "success",
        "created_at": _iso(created),
        "started_at": _iso(started),
        "completed_at": _iso(started + timedelta(minutes=2)),
        "labels": ["self-hosted", "linux"],
        "runner_id": 1 + place,
        "runner_name": f"r{place}",
    }


def _gitlab_job(pipeline: int, place: int, created: datetime) -> dict[str, object]:
    started = created + timedelta(seconds=20)
    return {
        "id": pipeline * 1_000 + place,
        "status": "success",
        "stage": "test",
        "name": f"test {place}",
        "created_at": _iso(created),
        "started_at": _iso(started),
        "finished_at": _iso(started + timedelta(minutes=2)),
        "queued_duration": 20.0,
        "duration": 120.0,
        "tag_list": ["linux"],
        "pipeline": {"id": pipeline, "project_id": 1, "ref": "main"},
        "runner": {"id": 1 + place, "description": f"r{place}"},
    }


def _build(number: int, created: datetime, count: int) -> dict[str, object]:
    started = created + timedelta(seconds=20)
    ended = _iso(started + timedelta(minutes=2))
    return {
        "id": f"b{number}",
        "number": number,
        "created_at": _iso(created),
        "finished_at": ended,
        "pipeline": {"slug": "app"},
        "jobs": [
            {
                "id": f"j{number}-{place}",
                "type": "script",
                "name": "test",
                "state": "passed",
                "created_at": _iso(created),
                "runnable_at": _iso(created),
                "started_at": _iso(started),
                "finished_at": ended,
                "agent_query_rules": ["queue=linux"],
                "agent": {"id": f"a{place}", "name": f"a{place}"},
            }
            for place in range(count)
        ],
    }
