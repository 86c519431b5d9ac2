"""Clients that are a burden to the farm: many, slow, or with no interest in the answers.

Each crowd opens its connections at once and keeps them until it is closed. None of them uses a
Redis client, which would read the answers, or try again.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import resource
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

import msgspec

#: real seconds for one connection to come about, or for what is sent to be taken
TIMEOUT = 2.0
#: connections that only connect
STRANGERS = 1000
#: connections that read no answers, and how often each asks for everything
SILENT, ASKED_TIMES = 4, 40
#: connections to each process that serves metrics, and real seconds between the bytes of a request
SLOW_CLIENTS, BETWEEN_BYTES = 50, 0.5
#: descriptors that this process keeps for itself
OWN_FILES = 100

Address = tuple[str, int]
Close = Callable[[], None]


class RawConnection:
    """A connection to a server that sends commands and never reads what comes back."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._socket = socket.create_connection(
            (place.hostname or "127.0.0.1", place.port or 6379), TIMEOUT
        )
        # little room for answers here: they stay at the server
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if place.password:
            user = [unquote(place.username)] if place.username else []
            self.send("AUTH", *user, unquote(place.password))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, *words: str, times: int = 1) -> None:
        """Send a command; a connection that the server has closed, or that is full, takes none."""
        parts = (f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        command = f"*{len(words)}\r\n" + "".join(parts)
        with contextlib.suppress(OSError):
            self._socket.sendall(command.encode() * times)

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def silent_readers(url: str, questions: Sequence[Sequence[str]]) -> Close:
    """Ask for everything, many times, and read no answer."""
    stack = contextlib.ExitStack()
    for _ in range(SILENT):
        connection = stack.enter_context(RawConnection(url))
        for words in questions:
            connection.send(*words, times=ASKED_TIMES)
    return stack.close


def strangers(url: str, number: int = STRANGERS) -> Close:
    """Connect to a server, without a password and without a word.

    Fewer if this process, or the server, may not have that many connections.
    """
    place = urlsplit(url)
    address = place.hostname or "127.0.0.1", place.port or 6379
    stack = contextlib.ExitStack()
    for _ in range(min(number, _files_allowed() - OWN_FILES)):
        with contextlib.suppress(OSError):
            stack.enter_context(socket.create_connection(address, TIMEOUT))
    return stack.close


def slow_clients(addresses: Sequence[Address]) -> Close:
    """Begin requests of metrics, byte after byte, and never end them."""
    connections: list[socket.socket] = []
    for address in addresses:
        for _ in range(SLOW_CLIENTS):
            with contextlib.suppress(OSError):
                connections.append(socket.create_connection(address, TIMEOUT))
    request = itertools.cycle(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 10_000)

    def drip() -> None:
        byte = bytes([next(request)])
        for connection in connections:
            with contextlib.suppress(OSError):  # it was cut off
                connection.send(byte)

    end = _repeat(drip, BETWEEN_BYTES)

    def close() -> None:
        end()
        for connection in connections:
            connection.close()

    return close


def flood(ask: Callable[[], object], ask_more: Callable[[], object]) -> Close:
    """Ask two kinds of questions, each without a pause; errors are passed over."""
    ends = [_repeat(question, 0.0) for question in (ask, ask_more)]

    def close() -> None:
        for end in ends:
            end()

    return close


def _repeat(action: Callable[[], object], pause: float) -> Close:
    """Call it from a thread of its own until that is ended."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(pause):
            # whatever the other side does to us is no concern of ours
            with contextlib.suppress(Exception):
                action()

    thread = threading.Thread(target=run, name="farm-crowd", daemon=True)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join(2 * TIMEOUT)

    return end


def metrics_addresses(targets: Path) -> list[Address]:
    """Return where the processes of a farm serve metrics, by the files that say so."""
    found: list[Address] = []
    for path in sorted(targets.glob("*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            for entry in msgspec.json.decode(path.read_bytes()):
                for target in entry["targets"]:
                    host, port = re.fullmatch(r"\[?(.*?)\]?:(\d+)", target).groups()  # type: ignore[union-attr]
                    found.append((host, int(port)))
    return found


def _files_allowed() -> int:
    """Return how many files this process may open, after asking for all that it can have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = STRANGERS + 2 * OWN_FILES if most == resource.RLIM_INFINITY else most
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
