"""A way to an Engine that can be cut: what an Engine's death looks like to whoever talks to it."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from pathlib import Path

CHUNK = 65536


class Relay:
    """Passes on what comes to ``folder/engine.sock``, until it is cut; it can be mended again.

    The folder is what a container is to mount: a socket that is made anew is another file.
    """

    def __init__(self, folder: Path, engine: str) -> None:
        self.folder = folder
        self.socket = folder / "engine.sock"
        self._engine = engine
        self._server: _Server | None = None

    def mend(self) -> None:
        """Let connections through, if they are not."""
        if self._server is not None:
            return
        self._server = _Server(str(self.socket), self._engine)
        # whoever is in the container may pass: it has no rights beyond its own
        self.folder.chmod(0o755)
        self.socket.chmod(0o666)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def cut(self) -> None:
        """End those there are, and take no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server.end_connections()
            self._server = None
        self.socket.unlink(missing_ok=True)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, path: str, engine: str) -> None:
        self.engine = engine
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(path, _Connection)

    def opened(self, *ends: socket.socket) -> None:
        with self._lock:
            self._open.update(ends)

    def closed(self, *ends: socket.socket) -> None:
        with self._lock:
            self._open.difference_update(ends)

    def end_connections(self) -> None:
        with self._lock:
            for end in self._open:
                _shut(end, socket.SHUT_RDWR)


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.server.engine)
            self.server.opened(self.request, engine)
            back = threading.Thread(target=_pass_on, args=(engine, self.request), daemon=True)
            back.start()
            _pass_on(self.request, engine)
            back.join()
            self.server.closed(self.request, engine)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(CHUNK):
            target.sendall(chunk)
    _shut(target, socket.SHUT_WR)


def _shut(end: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(how)
