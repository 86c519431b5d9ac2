"""farm fetch against stub APIs with the limits of the real ones: complete, resumed, and safe."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from farm.core.errors import InputError
from farm_twin.fetching import systems
from farm_twin.fetching.api import MAX_RATE_LIMIT_WAIT, PAUSES, Api, ApiError
from farm_twin.fetching.fetch import fetch, manifest_in
from farm_twin.fetching.systems import SYSTEMS
from farm_twin.fetching.window import Window, days_until
from farm_twin.importing import load_records
from farm_twin.tests.fetching.stub_api import FIRST_DAY, TOKEN, stub_api

LATER = FIRST_DAY + timedelta(days=30)


@pytest.fixture
def stub():
    """Serve an API, with two repositories of three days."""
    with stub_api() as server:
        server.runs = {
            "octo/app": [(FIRST_DAY + timedelta(hours=hour), 2) for hour in (1, 5, 30, 50)],
            "octo/lib": [(FIRST_DAY + timedelta(hours=hour), 1) for hour in (2, 52)],
        }
        yield server


def fetched(stub, folder, source="github", target="octo", days=3, now=LATER, said=None):
    """Fetch three days, and return the manifest."""
    system = SYSTEMS[source]()
    api = Api(
        stub.url,
        system.headers(TOKEN),
        "TOKEN",
        (said if said is not None else []).append,
        pause=stub.pause,
        now=stub.tell_time,
    )
    manifest = manifest_in(folder, source, target)
    windows = list(days_until(FIRST_DAY + timedelta(days=days), days))
    fetch(system, api, manifest, windows, folder, lambda: now)
    return manifest


def attempts_in(folder, manifest):
    """Return what farm doctor reads of the files."""
    return load_records([folder / name for name in manifest.files], manifest.source).attempts


def test_all_jobs_of_all_repositories_are_fetched(stub, tmp_path):
    """A farm serves a whole organization: the load of one repository is a part of it."""
    manifest = fetched(stub, tmp_path / "records")
    assert manifest.words == "3 days of 2 projects: 6 of 6 runs, 10 of 10 jobs"
    attempts = attempts_in(tmp_path / "records", manifest)
    assert len(attempts) == 10
    assert {attempt.user for attempt in attempts} == {"ann"}


def test_a_day_beyond_the_limit_of_a_search_is_cut(stub, tmp_path, monkeypatch):
    """GitHub lists a thousand runs of a search and says nothing of the rest."""
    monkeypatch.setattr(systems, "MAX_SEARCH_RESULTS", 10)
    stub.search_limit = 10
    stub.runs = {"octo/app": [(FIRST_DAY + timedelta(minutes=20 * n), 1) for n in range(60)]}
    manifest = fetched(stub, tmp_path / "records", days=1)
    assert manifest.tally.runs == manifest.tally.runs_announced == 60
    assert len(attempts_in(tmp_path / "records", manifest)) == 60


def test_a_minute_that_cannot_be_cut_is_told_to_be_incomplete(stub, tmp_path, monkeypatch):
    """What an API withholds is said, not passed over."""
    monkeypatch.setattr(systems, "MAX_SEARCH_RESULTS", 10)
    stub.search_limit = 10
    stub.runs = {"octo/app": [(FIRST_DAY, 1)] * 15}
    manifest = fetched(stub, tmp_path / "records", days=1)
    assert (manifest.tally.runs, manifest.tally.runs_announced) == (10, 15)
    assert not manifest.tally.is_complete


def test_jobs_that_are_announced_and_not_listed_are_counted(stub, tmp_path):
    """Missing pages make the farm look idle."""
    stub.withheld = 1
    manifest = fetched(stub, tmp_path / "records")
    assert (manifest.tally.jobs, manifest.tally.jobs_announced) == (4, 10)


def test_a_rate_limit_is_waited_out(stub, tmp_path):
    """5,000 requests an hour are less than two weeks of a large organization."""
    stub.remaining, stub.reset = 3, stub.now + 900
    said: list[str] = []
    manifest = fetched(stub, tmp_path / "records", said=said)
    assert manifest.tally.jobs == 10
    assert said
    assert "the rate limit is used up until" in said[0]
    assert TOKEN not in "".join(said)


def test_after_a_limit_that_is_too_long_the_same_command_continues(stub, tmp_path):
    """What was read before the limit is not asked for again."""
    stub.remaining, stub.reset = 6, stub.now + MAX_RATE_LIMIT_WAIT + 600
    with pytest.raises(ApiError, match="run the same command later"):
        fetched(stub, tmp_path / "records")
    first = manifest_in(tmp_path / "records", "github", "octo")
    assert 0 < first.tally.jobs < 10
    stub.remaining = None
    stub.asked.clear()
    manifest = fetched(stub, tmp_path / "records")
    assert manifest.tally.jobs == len(attempts_in(tmp_path / "records", manifest)) == 10
    assert stub.asked["/repos/octo/app/actions/runs/0/jobs"] == 0


def test_only_days_that_may_have_changed_are_read_again(stub, tmp_path):
    """A fetch every night asks for the last day only."""
    fetched(stub, tmp_path / "records")
    stub.asked.clear()
    fetched(stub, tmp_path / "records")
    assert set(stub.asked) == {"/orgs/octo/repos"}
    stub.status = "in_progress"
    manifest = fetched(stub, tmp_path / "open")
    assert "6 runs had not ended" in manifest.words
    stub.asked.clear()
    fetched(stub, tmp_path / "open")
    assert stub.asked["/repos/octo/app/actions/runs"] == 3


def test_a_server_that_fails_at_times_is_asked_again(stub, tmp_path):
    """One bad gateway does not end a fetch of hours."""
    stub.failures = len(PAUSES)
    assert fetched(stub, tmp_path / "records").tally.jobs == 10
    stub.failures = len(PAUSES) + 1
    with pytest.raises(ApiError, match=r"answers with status 502 \(6 attempts\)"):
        fetched(stub, tmp_path / "other")


@pytest.mark.parametrize("way", ["link", "redirect"])
def test_the_token_goes_to_the_host_of_the_api_only(stub, tmp_path, way):
    """A link to another host would hand it the token."""
    with stub_api() as thief:
        stub.runs = {f"octo/r{n}": [] for n in range(150)}
        if way == "link":
            stub.elsewhere = thief.url
        else:
            stub.redirect = f"{thief.url}/orgs/octo/repos"
        with pytest.raises(ApiError, match="allowed: the same host") as error:
            fetched(stub, tmp_path / "records")
        assert TOKEN not in str(error.value)
        assert not thief.asked


@pytest.mark.parametrize("url", ["http://api.example.com", "ftp://127.0.0.1", "api.github.com"])
def test_the_token_is_not_sent_in_the_clear(url):
    """A listener on the way would have it."""
    with pytest.raises(InputError, match="https://"):
        Api(url, {}, "TOKEN")


def test_gitlab_has_retried_jobs_and_subgroups(stub, tmp_path):
    """Its jobs are listed by pipeline; the list of a project leaves retried ones out."""
    manifest = fetched(stub, tmp_path / "records", "gitlab")
    assert len(attempts_in(tmp_path / "records", manifest)) == 10
    one = fetched(stub, tmp_path / "one", "gitlab", "octo/lib")
    assert one.tally.jobs == one.tally.jobs_announced == 2


def test_pipelines_that_pipelines_start_are_fetched(stub, tmp_path):
    """GitLab's list leaves them out by default, and their runners would look idle."""
    stub.children = {1, 2}
    manifest = fetched(stub, tmp_path / "records", "gitlab")
    assert manifest.tally.jobs == len(attempts_in(tmp_path / "records", manifest)) == 10


def test_a_project_that_is_switched_off_holds_up_no_other(stub, tmp_path):
    """An organization has such projects; the fetch would end at the first of them each time."""
    stub.forbidden = {"octo/app"}
    manifest = fetched(stub, tmp_path / "records")
    assert manifest.words == (
        "3 days of 1 project: 2 of 2 runs, 2 of 2 jobs; 1 project refused (octo/app)"
    )
    assert not manifest.is_complete
    assert "switched off" in manifest.refused["octo/app"]


def test_no_proxy_is_between_this_machine_and_itself(stub, tmp_path, monkeypatch):
    """It would get the token in the clear."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert fetched(stub, tmp_path / "records").tally.jobs == 10


def test_buildkite_refuses_deep_pages_and_is_asked_for_less(stub, tmp_path):
    """Its lists end at some page with the advice to narrow the query."""
    stub.page_limit = 1
    stub.runs = {"octo": [(FIRST_DAY + timedelta(minutes=5 * n), 1) for n in range(250)]}
    manifest = fetched(stub, tmp_path / "records", "buildkite", days=1)
    assert len(attempts_in(tmp_path / "records", manifest)) == 250


def test_days_are_whole_and_the_last_one_ends_now():
    """A window that is cut elsewhere would be read again every day."""
    now = datetime(2026, 11, 4, 15, 30, 1, 7, tzinfo=UTC)
    days = list(days_until(now, 2))
    assert days == [
        Window(datetime(2026, 11, 3, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC)),
        Window(datetime(2026, 11, 4, tzinfo=UTC), now.replace(microsecond=0)),
    ]
    first, second = days[0].halves()
    assert (first.begin, first.end, second.end) == (days[0].begin, second.begin, days[0].end)
    assert first.last_second + timedelta(seconds=1) == second.begin


def test_a_page_that_is_no_page_is_told(stub, tmp_path):
    """An address that is not the API's answers with something else."""
    api = Api(stub.url, SYSTEMS["github"]().headers(TOKEN), "TOKEN")
    with pytest.raises(ApiError, match="not found, or not shown to this token"):
        api.get("graphql")


class TestCommand:
    """``farm fetch`` as it is typed."""

    @pytest.fixture(autouse=True)
    def token(self, monkeypatch):
        """Have a token for GitHub, and no other."""
        for source in SYSTEMS.values():
            for name in source().token_names:
                monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)

    def test_its_files_are_what_the_doctor_reads(self, stub, farm):
        """The next command is told, and works."""
        done = farm(
            "fetch", "github", "octo", "--until", "2026-11-04", "--days", "3", "--api", stub.url
        )
        assert "octo: 3 days of 2 projects: 6 of 6 runs, 10 of 10 jobs" in done.out
        assert "farm doctor octo\n" in done.err
        assert "10 of 10" in farm("import", "octo", "-o", "mine").err
        assert TOKEN not in done.out + done.err
        assert stub.tokens == {TOKEN}

    def test_what_is_missing_is_an_exit_code(self, stub, farm):
        """A script sees it, too."""
        stub.withheld = 1
        done = farm("fetch", "github", "octo", "--until", "2026-11-04", "--api", stub.url, "--json")
        assert done.code == 1
        figures = json.loads(done.out)
        assert (figures["jobs"], figures["jobs_announced"]) == (4, 10)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["gitea", "octo"], "source: found 'gitea'"),
            (["github", "https://github.com/octo"], "allowed: OWNER or OWNER/NAME"),
            (["github", "octo", "--until", "yesterday"], "--until: found 'yesterday'"),
            (["gitlab", "octo"], "in the environment variable GITLAB_TOKEN"),
            (["github", "octo", "--api", "http://example.com"], "begins with https://"),
        ],
    )
    def test_bad_input_is_one_sentence(self, farm, arguments, message):
        """And nothing is written."""
        done = farm("fetch", *arguments)
        assert done.code == 2
        assert message in done.err

    def test_a_refused_token_is_named_by_its_variable(self, stub, farm, monkeypatch):
        """And not shown."""
        monkeypatch.setenv("GITHUB_TOKEN", "other-token")
        done = farm("fetch", "github", "octo", "--api", stub.url)
        assert done.code == 2
        assert "refuses the token in GITHUB_TOKEN" in done.err
        assert "other-token" not in done.err

    def test_a_folder_of_something_else_is_refused(self, stub, farm, tmp_path):
        """Records of two farms in one folder would be read as one."""
        (tmp_path / "octo").mkdir()
        (tmp_path / "octo" / "notes.txt").write_text("mine")
        done = farm("fetch", "github", "octo", "--api", stub.url)
        assert done.code == 2
        assert "allowed: a new folder" in done.err
