"""Reports on their way to the scheduler: in order, each read once; commands likewise."""

from __future__ import annotations

import base64
import contextlib
import json

import msgspec
import pytest
import redis

from farm.core.commands import StartJob
from farm.core.events import JobFinished, JobsSubmitted, SlotCleaned
from farm.core.model import Job
from farm.live.redis.keys import queue_name
from farm.live.wire import messages as wire
from farm.live.wire.inbox import Inbox
from farm.live.wire.messages import VERSION, Envelope, encode
from farm.live.wire.reporter import Reporter
from farm.live.wire.task_messages import TaskMessages
from tests.fixtures.processes import own_port, until
from workers.celery_app import celery_app

pytestmark = pytest.mark.live

JOBS = JobsSubmitted(wire.UNSTAMPED, (Job(id="a", service_time=1.0),))


def send(server, keys, *reports: wire.Report, stream: str = "reports") -> Reporter:
    """Return a reporter that has sent these reports, queued before it started."""
    reporter = Reporter(server.url, keys, "me", stream)
    for report in reports:
        reporter.put(report)
    reporter.start()
    assert reporter.close(60.0)
    return reporter


def read_all(inbox: Inbox, count: int) -> list[wire.Report]:
    """Read until this many reports are there, or a minute is over."""
    reports: list[wire.Report] = []
    for _ in range(1200):
        reports += [report for entry in inbox.read(0.05) for report in entry.envelope.reports]
        if len(reports) >= count:
            break
    return reports


def test_reports_arrive_in_order(server, client, keys):
    """Many small ones share envelopes."""
    sent: list[wire.Report] = [SlotCleaned(wire.UNSTAMPED, "b", n) for n in range(1200)]
    send(server, keys, *sent)
    assert read_all(Inbox(client, keys), len(sent)) == sent
    assert client.xlen(keys.stream("reports")) == 3


def test_a_reporter_knows_how_long_nothing_was_taken(server, keys):
    """From it a host that leaves knows that its server is away."""
    assert send(server, keys, JOBS).stuck_time == 0
    away = Reporter(f"redis://127.0.0.1:{own_port()}/0", keys, "me")
    away.start()
    assert away.stuck_time == 0
    away.put(JOBS)
    until(lambda: away.stuck_time > 0, "its first try")
    assert not away.close(0.01)


def test_nothing_is_lost_while_the_connection_is_cut(wire_cut_twice, client, keys):
    """Every report comes, once, in order, although the connection broke."""
    proxy, reporter = wire_cut_twice
    sent = [SlotCleaned(wire.UNSTAMPED, "b", n) for n in range(300)]
    reporter.start()
    for number, report in enumerate(sent):
        reporter.put(report)
        if number in (100, 200):
            proxy.cut()
        if number in (150, 250):
            reporter.flush(0.1)
            proxy.mend()
    assert reporter.flush(60.0)
    assert read_all(Inbox(client, keys), len(sent)) == sent


@pytest.fixture
def wire_cut_twice(server, wire, keys):
    """A reporter on a cuttable connection."""
    reporter = Reporter(wire.url(server.url), keys, "me")
    yield wire, reporter
    reporter.close(1.0)


def test_one_heartbeat_waits_at_most(server, client, keys):
    """While the server is away heartbeats do not pile up."""
    send(server, keys, *[wire.Beat()] * 50)
    assert read_all(Inbox(client, keys), 1) == [wire.Beat()]


def test_a_report_that_is_too_large_does_not_stop_the_others(
    server, client, keys, monkeypatch, caplog
):
    """It is kept for inspection, and the log says so; the following ones are sent."""
    monkeypatch.setattr(wire, "MAX_BYTES", 500)
    large = JobsSubmitted(wire.UNSTAMPED, (Job(id="x" * 600, service_time=1.0),))
    reporter = send(server, keys, large, wire.LoadDone(), stream="submissions")
    assert reporter.refused is not None
    assert str(reporter.refused) in caplog.text
    assert read_all(Inbox(client, keys), 1) == [wire.LoadDone()]


def test_only_what_is_too_large_is_left_out(server, client, keys, monkeypatch, caplog):
    """Not the reports beside it; and a large heartbeat is sent in parts, at its place."""
    monkeypatch.setattr(wire, "MAX_BYTES", 500)
    a, endless, b, c = (
        JobFinished(wire.UNSTAMPED, job, 1, "b", "failed", reason)
        for job, reason in (("a", ""), ("endless", "x" * 600), ("b", ""), ("c", ""))
    )
    held = tuple((f"job-{number:02}", 1) for number in range(40))
    send(server, keys, a, endless, b, wire.Beat(held=held), c)
    found = read_all(Inbox(client, keys), 5)
    parts = [report for report in found if isinstance(report, wire.Beat)]
    assert found == [a, b, *parts, c]
    assert tuple(token for part in parts for token in part.held) == held
    assert len(parts) > 1
    assert "JobFinished" in caplog.text


def test_text_that_is_not_unicode_does_not_stop_the_reports(server, client, keys):
    """Half a surrogate pair, in what a user's own behaviour raised, made its host mute."""
    half = JobFinished(wire.UNSTAMPED, "jö", 1, "b", "failed", "half \ud800 of it")
    beat = wire.Beat(held=(("a", 1),))
    send(server, keys, half, beat)
    readable = msgspec.structs.replace(half, reason="half ? of it")
    assert read_all(Inbox(client, keys), 2) == [readable, beat]


def test_an_envelope_sent_twice_is_read_once(client, keys, caplog):
    """By sender, life and number; other versions and garbage are dropped, and counted."""
    one = encode(Envelope(VERSION, "h", "life", 1, (JOBS,)))
    new_life = encode(Envelope(VERSION, "h", "other", 1, (wire.LoadDone(),)))
    newer = encode(Envelope(99, "h", "other", 2, ()))
    stream = keys.stream("submissions")
    for data in (one, one, newer, b"{", new_life, one):
        client.xadd(stream, {"m": data})
    client.xadd(stream, {"not": "ours"})
    inbox = Inbox(client, keys)
    assert read_all(inbox, 2) == [JOBS, wire.LoadDone()]
    while inbox.cursor["submissions"] != client.xinfo_stream(stream)["last-generated-id"].decode():
        assert inbox.read(0.0) == []
    assert inbox.refusals.take()[1] == {"version": 1, "unreadable": 2}
    assert "version 99" in caplog.text
    assert inbox.read(0.0) == []


def test_reports_do_not_wait_behind_submissions(client, keys):
    """A turn reads all urgent reports, or one submission; neither keeps the other waiting."""
    for number in range(1, 30):
        envelope = encode(Envelope(VERSION, "load", "life", number, (JOBS,)))
        client.xadd(keys.stream("submissions"), {"m": envelope})
    inbox = Inbox(client, keys)
    assert len(inbox.read(0.0)) == 1
    for number in range(1, 30):
        envelope = encode(Envelope(VERSION, "host", "life", number, (wire.Beat(),)))
        client.xadd(keys.stream("reports"), {"m": envelope})
    found = [[entry.stream for entry in inbox.read(0.0)] for _ in range(4)]
    assert found == [["reports"] * 29, *3 * [["submissions"]]]
    assert inbox.read(0.0, submissions=False) == []
    assert len(inbox.read(0.0)) == 1


def test_jobs_are_submitted_in_bounded_envelopes(server, client, keys):
    """By number and by bytes; together as far as the bounds allow, and in order."""
    many = tuple(Job(id=f"j{n}", service_time=1.0) for n in range(2300))
    large = tuple(
        Job(id=f"k{n}", service_time=1.0, attributes={f"a{m}": "x" * 1000 for m in range(60)})
        for n in range(40)
    )
    batches = (JobsSubmitted(wire.UNSTAMPED, jobs) for jobs in (many, large))
    send(server, keys, *batches, stream="submissions")
    found = read_all(Inbox(client, keys), 7)
    assert [len(report.jobs) for report in found] == [1000, 1000, 300, 10, 10, 10, 10]
    assert [job for report in found for job in report.jobs] == [*many, *large]


def test_the_number_of_remembered_senders_is_bounded(client, keys, monkeypatch):
    """Every command of an operator is another sender; frequent ones stay known."""
    monkeypatch.setattr("farm.live.wire.inbox.MOST_SENDERS", 3)
    inbox = Inbox(client, keys)
    for number in range(1, 6):
        for sender, seq in (("host", number), ("host", number), (f"operator-{number}", 1)):
            ask = wire.Ask("job", "", "token")
            envelope = wire.Envelope(wire.VERSION, sender, "life", seq, (ask,))
            client.xadd(keys.stream("questions"), {"m": wire.encode(envelope)})
    assert len(inbox.read(0.1)) == 10
    assert len(inbox._last_seq) == 3


def test_messages_are_what_celery_itself_would_send(server, client, keys):
    """The farm's task messages and Celery's differ only in ids and in what is for display."""
    command = StartJob(Job(id='j"ö', service_time=1.0), 2, "b", 0)
    app = celery_app(server.url, keys, "h")
    with contextlib.closing(app):
        app.send_task(
            "farm.start",
            args=(json.loads(encode(command)), VERSION),
            task_id='j"ö.2',
            queue=queue_name("h"),
            ignore_result=False,
        )
        ours = json.loads(TaskMessages().encode(command, "h"))
    theirs = json.loads(client.rpop(keys.host_list("h")))
    for message in (ours, theirs):
        for name in ("delivery_tag", "reply_to"):
            message["properties"].pop(name)
        for name in ("argsrepr", "origin"):
            message["headers"].pop(name)
        message["body"] = json.loads(base64.b64decode(message["body"]))
    assert ours == theirs


def test_the_inbox_keeps_its_connection(client, keys, monkeypatch):
    """A farm at rest reads every second: to take a connection costs as much as a read."""
    inbox = Inbox(client, keys)
    pool, taken = client.connection_pool, []
    get_connection = pool.get_connection
    monkeypatch.setattr(
        pool, "get_connection", lambda *words: taken.append(words) or get_connection(*words)
    )
    for number in range(1, 6):
        envelope = encode(Envelope(VERSION, "host", "life", number, (wire.Beat(),)))
        client.xadd(keys.stream("reports"), {"m": envelope})
        taken_by_the_test = len(taken)
        while not inbox.read(0.01):
            pass
        assert inbox.read(0.001) == []
        assert len(taken) <= taken_by_the_test + (number == 1)


def test_a_read_that_waited_is_not_repeated(client, keys, monkeypatch):
    """It found all that there was; a farm at rest asked again after every heartbeat."""
    monkeypatch.setattr("farm.live.wire.inbox.REST", 0.0)
    inbox = Inbox(client, keys)
    for number in range(1, 4):
        envelope = encode(Envelope(VERSION, "host", "life", number, (wire.Beat(),)))
        assert inbox.read(0.001) == []
        client.xadd(keys.stream("reports"), {"m": envelope})
        while not inbox.read(0.01):
            pass
    reads = []
    read = inbox._read
    monkeypatch.setattr(inbox, "_read", lambda *args: reads.append(args) or read(*args))
    assert inbox.read(0.001) == []
    assert len(reads) == 1


def test_a_connection_that_broke_is_replaced(client, keys):
    """Whether a read waited on it or not, the one after the error is answered."""
    inbox = Inbox(client, keys)
    envelope = encode(Envelope(VERSION, "host", "life", 1, (wire.Beat(),)))
    for timeout in (0.001, 0.0):
        inbox.read(0.0)
        inbox.read(timeout)
        inbox._reads._connection.disconnect()
        with contextlib.suppress(redis.ConnectionError):
            inbox.read(timeout)
    client.xadd(keys.stream("reports"), {"m": envelope})
    assert read_all(inbox, 1) == [wire.Beat()]
