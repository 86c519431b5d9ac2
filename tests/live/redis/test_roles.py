"""Each role's user can do what its processes and people need, and nothing else."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from farm.app.long_running.access import apply, lines_of, users_of
from farm.core.errors import InputError
from farm.live.redis.connection import connect
from farm.live.redis.keys import Keys
from farm.live.redis.lease import Lease
from farm.live.redis.server import EmbeddedServer, choose_server
from tests.fixtures.processes import running, until
from tests.fixtures.tls import until_up
from tests.worlds.up import ELASTIC, here, scenario


class Guarded:
    """A server with a user for each role, and commands carried out as one of them."""

    def __init__(self, server: EmbeddedServer, folder: Path) -> None:
        self.place = server.url.rpartition("@")[2]
        self.url_of_owner = server.url
        self.folder = folder
        self.owner = connect(server.url, "owner")
        self.processes = contextlib.ExitStack()
        roles = ["reader", "submitter", "operator", "builder", "provisioner", "scheduler"]
        users = users_of("farm:", roles, ["mine", "other"]) + users_of("farm:", ["builder"], [])
        apply(users, folder / "passwords", server.url)
        (folder / "farm.yaml").write_text(scenario(ELASTIC, live="speed: 5"))

    def url(self, role: str) -> str:
        password = (self.folder / f"passwords/farm-{role}").read_text().strip()
        return f"redis://farm-{role}:{password}@{self.place}"

    def client(self, role: str):
        return connect(self.url(role), role)

    def start(self, role: str, *words: str, **more: str) -> None:
        command, variables = [sys.executable, "-m", *words], {"FARM_REDIS_URL": self.url(role)}
        process = running(command, self.folder, f"{role}.log", **variables, **more)
        self.processes.enter_context(process)

    def farm(self, role: str, *words: str) -> tuple[int, str]:
        code, said, _ = here(self.folder, words, FARM_REDIS_URL=self.url(role))
        return code, said

    def until(self, role: str, words: tuple[str, ...], there: str) -> None:
        until(lambda: there in self.farm(role, *words)[1], there, log=self.logs)

    def logs(self) -> str:
        return "\n".join(path.read_text()[-1000:] for path in self.folder.glob("*.log"))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory) -> Iterator[Guarded]:
    """A server of its own with a user for each role."""
    with choose_server(None) as server:
        assert isinstance(server, EmbeddedServer)
        found = Guarded(server, tmp_path_factory.mktemp("guarded"))
        with found.processes, contextlib.closing(found.owner):
            yield found


@pytest.mark.live
@pytest.mark.slow
def test_a_farm_works_with_each_process_under_its_own_user(guarded: Guarded):
    """Scheduler, provisioner, hosts and operators need no more than their roles allow."""
    guarded.start("scheduler", "farm", "admin", "scheduler", "farm.yaml")
    builder = guarded.url("builder")
    guarded.start("provisioner", "provisioner", "farm.yaml", FARM_BUILDER_REDIS_URL=builder)
    guarded.until("reader", ("builders",), "idle")
    for role, name in (("submitter", "a"), ("operator", "b")):
        assert guarded.farm(role, "submit", "--id", name, "--service-time", "2s")[0] == 0
        guarded.until("reader", ("job", name), "succeeded")
    assert guarded.farm("submitter", "submit", "--id", "c", "--service-time", "1h")[0] == 0
    guarded.until("reader", ("jobs", "--state", "running"), "c")
    for words in (("status",), ("pools",), ("job", "a", "--why"), ("status", "--save", "s.json")):
        code, said = guarded.farm("reader", *words)
        assert code == 0, said
    assert guarded.farm("operator", "cancel", "c")[0] == 0
    guarded.until("reader", ("job", "c"), "cancelled")
    assert guarded.farm("operator", "drain", "linux-1")[0] == 0
    assert guarded.farm("reader", "admin", "dead-letters")[0] == 0
    assert guarded.farm("operator", "admin", "dead-letters", "--clear")[0] == 0
    guarded.processes.close()
    refused = [one for one in guarded.owner.acl_log() if one["reason"] != "auth"]
    assert refused == []
    assert not guarded.owner.exists("farm:lease", "farm:provisioner:lease")


@pytest.mark.live
@pytest.mark.parametrize(("role", "prefix"), [("scheduler", ""), ("provisioner", "provisioner:")])
def test_a_lease_is_taken_and_released_with_its_own_user(guarded: Guarded, role: str, prefix: str):
    """A successor need not wait for a lease that was released."""
    keys = Keys(f"farm:{prefix}")
    with contextlib.closing(guarded.client(role)) as client:
        for _ in range(2):
            lease = Lease(client, keys, lease_time=60.0)
            assert lease.try_to_take(client) is not None
            assert Lease(client, keys).try_to_take(client) is None
            lease.release()
            assert client.get(keys.lease) is None


@pytest.mark.live
@pytest.mark.parametrize(
    ("role", "words"),
    [
        ("builder-mine", ("XADD", "farm:submissions", "*", "m", "x")),
        ("builder-mine", ("XADD", "farm:requests", "*", "m", "x")),
        ("builder-mine", ("XADD", "farm:plans", "*", "m", "x")),
        ("builder-mine", ("XREAD", "STREAMS", "farm:reports", "0")),
        ("builder-mine", ("XTRIM", "farm:reports", "MAXLEN", "0")),
        ("builder-mine", ("HGETALL", "farm:jobs")),
        ("builder-mine", ("GET", "farm:status")),
        ("builder-mine", ("LLEN", "farm:celery:host.other")),
        ("builder-mine", ("BRPOP", "farm:celery:host.other", "1")),
        ("builder-mine", ("LPUSH", "farm:celery:host.other", "x")),
        ("builder-mine", ("UNLINK", "farm:celery:host.other")),
        ("builder-mine", ("EVAL", "return 1", "0")),
        ("builder-mine", ("KEYS", "*")),
        ("builder-mine", ("FLUSHALL",)),
        ("builder-mine", ("CLIENT", "KILL", "TYPE", "normal")),
        ("builder", ("HGETALL", "farm:jobs")),
        ("reader", ("XADD", "farm:submissions", "*", "m", "x")),
        ("reader", ("XADD", "farm:requests", "*", "m", "x")),
        ("reader", ("SCAN", "0")),
        ("reader", ("XADD", "farm:reply:x", "*", "m", "x")),
        ("submitter", ("XADD", "farm:reply:x", "*", "m", "x")),
        ("operator", ("XADD", "farm:reply:x", "*", "m", "x")),
        ("operator", ("XADD", "farm:dead-letters", "*", "m", "x")),
        ("builder-mine", ("XADD", "farm:celery:host.mine", "*", "m", "x")),
        ("provisioner", ("XADD", "farm:provisioner:x", "*", "m", "x")),
        ("submitter", ("SELECT", "1")),
        ("scheduler", ("SELECT", "1")),
        ("reader", ("HSET", "farm:jobs", "a", "b")),
        ("submitter", ("XADD", "farm:requests", "*", "m", "x")),
        ("submitter", ("XADD", "farm:reports", "*", "m", "x")),
        ("operator", ("XADD", "farm:reports", "*", "m", "x")),
        ("operator", ("XADD", "farm:plans", "*", "m", "x")),
        ("operator", ("FLUSHDB",)),
        ("provisioner", ("XADD", "farm:reports", "*", "m", "x")),
        ("provisioner", ("XADD", "farm:submissions", "*", "m", "x")),
        ("provisioner", ("SET", "farm:lease", "x")),
        ("provisioner", ("HSET", "farm:fence", "epoch", "9")),
        ("scheduler", ("FLUSHALL",)),
        ("scheduler", ("GET", "another:status")),
        ("scheduler", ("CONFIG", "SET", "maxmemory", "1")),
    ],
)
def test_other_roles_commands_are_refused(guarded: Guarded, role: str, words: tuple[str, ...]):
    """By the server, whatever a client sends."""
    with contextlib.closing(guarded.client(role)) as client:
        client.ping()
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*words)


#: counts a key of whatever kind: KEDA's trigger does so in one script
COUNT = """
local kinds = {zset = 'zcard', list = 'llen'}
return redis.call(kinds[redis.call('type', KEYS[1]).ok], KEYS[1])
"""


@pytest.mark.live
def test_keda_counts_waiting_jobs_by_a_script_and_nothing_else(guarded: Guarded):
    """Its user is made by name alone; a script of it can neither read jobs nor write."""
    apply(users_of("farm:", ["keda"], []), guarded.folder / "passwords", guarded.url_of_owner)
    queue = "farm:pending:amd64/virtual"
    guarded.owner.zadd(queue, {"a": 1, "b": 2})
    refused = redis.exceptions.NoPermissionError, redis.exceptions.ResponseError
    try:
        with contextlib.closing(guarded.client("keda")) as client:
            assert client.eval(COUNT, 1, queue) == 2
            for script, key in (
                ("return redis.call('zrange', KEYS[1], 0, -1)", queue),
                ("return redis.call('del', KEYS[1])", queue),
                (COUNT, "farm:jobs"),
            ):
                with pytest.raises(refused):
                    client.eval(script, 1, key)
            with pytest.raises(refused):
                client.zrange(queue, 0, -1)
    finally:
        guarded.owner.delete(queue)


@pytest.mark.live
def test_an_acl_file_is_accepted_by_a_server(guarded: Guarded, tmp_path: Path):
    """It admits only them, by password, and keeps transactions after a restart."""
    users = users_of("farm:", ["reader", "admin"], [])
    lines = lines_of(users, guarded.folder / "passwords", aclfile=True)
    (tmp_path / "users.acl").write_text("\n".join(lines) + "\n")
    with choose_server(None) as first:
        assert isinstance(first, EmbeddedServer)
        binary, port = first.binary, first.url.rpartition(":")[2].partition("/")[0]
    command = shlex.split(
        f"{binary} --port {port} --bind 127.0.0.1 --save '' --dir {tmp_path} "
        f"--aclfile {tmp_path / 'users.acl'} --appendonly yes --appendfsync always"
    )
    guarded_place, guarded.place = guarded.place, f"127.0.0.1:{port}/0"
    try:
        with contextlib.closing(guarded.client("admin")) as client:
            with running(command, tmp_path, "server.log") as process:
                until_up(client)
                assert client.acl_whoami() == "farm-admin"
                client.pipeline(transaction=True).set("farm:a", 1).set("farm:b", 2).execute()
                process.kill()
            with running(command, tmp_path, "server.log"):
                until_up(client)
                assert client.mget("farm:a", "farm:b") == [b"1", b"2"]
                unknown = connect(f"redis://{guarded.place}", "unknown")
                with contextlib.closing(unknown), pytest.raises(redis.AuthenticationError):
                    unknown.ping()
    finally:
        guarded.place = guarded_place


def test_the_database_that_a_user_may_use():
    """No other than 0, if that is the URL's; who needs another must be able to select it."""
    for url, words in (("", 1), ("redis://h:1", 1), ("redis://h:1/0", 1), ("redis://u:p@h:1/7", 0)):
        (user,) = users_of("farm:", ["reader"], [], url)
        assert user.rules.count("-select") == words


def test_names_and_passwords(tmp_path: Path):
    """Names that would match more than one host are refused, and passwords stay secret."""
    for roles, hosts in ((["king"], []), (["builder"], ["a*"]), (["builder"], ["a b"])):
        with pytest.raises(InputError, match="allowed"):
            users_of("farm:", roles, hosts)
    with pytest.raises(InputError, match="FARM_PREFIX"):
        users_of("a b:", ["reader"], [])
    users = users_of("my*farm:", ["builder"], ["h"])
    (line,) = lines_of(users, tmp_path / "p", aclfile=False)
    assert "my\\*farm:celery:host.h" in line
    password = (tmp_path / "p/my-farm-builder-h").read_text().strip()
    assert password not in line
    assert lines_of(users, tmp_path / "p", aclfile=False) == [line]
    assert (tmp_path / "p").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "p/my-farm-builder-h").stat().st_mode & 0o777 == 0o600


def test_a_password_file_that_is_not_text(tmp_path: Path):
    """The message names the file."""
    users = users_of("farm:", ["reader"], [])
    (tmp_path / "farm-reader").write_bytes(b"\xff")
    with pytest.raises(InputError, match="farm-reader: not UTF-8 text; allowed: a password"):
        lines_of(users, tmp_path, aclfile=False)
