"""Commands as Celery messages, made to be pushed in the same transaction as the farm's state."""

from __future__ import annotations

import base64
import itertools
import json
import re
import uuid
from typing import Any

import msgspec
from celery import Celery
from kombu import Connection, Exchange, Queue

from farm.core.commands import StartJob
from farm.live.redis.keys import queue_name
from farm.live.wire.messages import TASK_NAMES, VERSION, HostCommand, encode

_ID, _QUEUE, _TAG, _BODY = "@id@", "@queue@", "@tag@", "@body@"
_EMBED = b'],{},{"callbacks":null,"errbacks":null,"chain":null,"chord":null}]'


class TaskMessages:
    """Writes the Celery message that carries a command to a host.

    Celery and kombu make one message of each task for real (through kombu's memory transport);
    every other one is a copy of its text with another body, id and queue. Pushing such a
    message onto a host's list is all that kombu's Redis transport does to send it, and it
    lets the commands of a decision and the state that they follow from commit together.
    """

    def __init__(self) -> None:
        app = Celery("farm-messages", set_as_current=False)
        app.conf.update(task_serializer="json", accept_content=["json"])
        with Connection("memory://") as connection:
            self._pieces = {
                kind: _pieces(_template(app, connection, name)) for kind, name in TASK_NAMES.items()
            }
        app.close()
        # what makes ids unique: us, and a count
        self._sender = uuid.uuid4().hex
        self._serials = itertools.count()

    def encode(self, command: HostCommand, host: str) -> bytes:
        """Return the message that carries this command to that host; raises MessageError."""
        serial = next(self._serials)
        if isinstance(command, StartJob):
            task_id = f"{command.job.id}.{command.attempt}"
        else:
            task_id = f"{TASK_NAMES[type(command)]}.{self._sender}-{serial}"
        texts = {
            _ID: _escaped(task_id),
            _QUEUE: _escaped(queue_name(host)),
            _TAG: f"{self._sender}-{serial}".encode(),
            _BODY: base64.b64encode(b"[[%b,%d%b" % (encode(command), VERSION, _EMBED)),
        }
        pieces = self._pieces[type(command)]
        return b"".join([texts.get(piece) or piece.encode() for piece in pieces])


def _template(app: Celery, connection: Connection, task: str) -> dict[str, object]:
    """Let Celery send one message of this task and return it as the transport would store it."""
    message = app.amqp.as_task_v2(_ID, task, args=(), kwargs={}, argsrepr="", origin="farm")
    queue = Queue(f"template.{task}", Exchange("", type="direct"), routing_key=f"template.{task}")
    with connection.channel() as channel:
        producer = app.amqp.Producer(channel)
        queue(channel).declare()
        producer.publish(
            message.body,
            exchange="",
            routing_key=queue.name,
            serializer="json",
            headers=message.headers,
            **message.properties,
        )
        payload: dict[str, Any] = channel._get(queue.name)
        queue(channel).delete()
    payload["body"] = _BODY
    payload["properties"]["delivery_tag"] = _TAG
    payload["properties"]["delivery_info"]["routing_key"] = _QUEUE
    return payload


def _pieces(template: dict[str, object]) -> list[str]:
    places = "|".join((_ID, _QUEUE, _TAG, _BODY))
    return re.split(f"({places})", json.dumps(template))


def _escaped(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]
