"""A stand-in for a Kubernetes API server: it holds Deployments and answers for their scale.

What it knows of Kubernetes is the form of two calls and the order in which a ReplicaSet removes
pods. Pods are whatever ``make_pod`` makes.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol

TOKEN = "a-token"
MERGE_PATCH = "application/merge-patch+json"


class Pod(Protocol):
    """A pod as a ReplicaSet sees it."""

    name: str

    @property
    def ready(self) -> bool:
        """What its last readiness probe found."""

    def end(self) -> None:
        """Tell it to go (SIGTERM)."""


class StubCluster:
    """An API server on loopback; close it."""

    def __init__(
        self, make_pod: Callable[[str], Pod] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.deployments: dict[str, int] = {}
        self.pods: dict[str, list[Pod]] = {}
        #: (method, deployment, replicas) of every call that was allowed
        self.calls: list[tuple[str, str, int | None]] = []
        #: (pod, whether it was ready) of those that were removed
        self.removed: list[tuple[str, bool]] = []
        #: answer everything so: status and body
        self.answer: tuple[int, bytes] | None = None
        self.allowed: set[str] = {"GET", "PATCH"}
        self._make_pod = make_pod
        self._made = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_for(self))
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def create(self, name: str, replicas: int = 1) -> None:
        """As ``kubectl apply`` of a Deployment."""
        self._scale(name, replicas)

    def handle(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        """Answer one call."""
        if self.answer is not None:
            return self.answer
        if headers["Authorization"] != f"Bearer {TOKEN}":
            return _status(401, "Unauthorized")
        head, _, rest = path.partition("/deployments/")
        name, _, subresource = rest.partition("/")
        if head != "/apis/apps/v1/namespaces/farm" or subresource != "scale":
            return _status(403, f"cannot {method} {path}")
        if method not in self.allowed:
            return _status(403, f'deployments.apps "{name}" is forbidden: cannot {method.lower()}')
        if name not in self.deployments:
            return _status(404, f'deployments.apps "{name}" not found')
        replicas = None
        if method == "PATCH":
            assert headers["Content-Type"] == MERGE_PATCH
            replicas = json.loads(body)["spec"]["replicas"]
            self._scale(name, replicas)
        self.calls.append((method, name, replicas))
        spec = {"replicas": self.deployments[name]} if self.deployments[name] else {}
        scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": spec, "status": {}}
        return 200, json.dumps(scale | {"metadata": {"name": name}}).encode()

    def _scale(self, name: str, replicas: int) -> None:
        with self._lock:
            self.deployments[name] = replicas
            pods = self.pods.setdefault(name, [])
            if self._make_pod is None:
                return
            while len(pods) < replicas:
                self._made += 1
                pods.append(self._make_pod(f"{name}-{self._made}"))
            while len(pods) > replicas:
                # not ready before ready, then the youngest
                victim = min(pods, key=lambda pod: (pod.ready, -pods.index(pod)))
                self.removed.append((victim.name, victim.ready))
                pods.remove(victim)
                victim.end()


def account_in(folder: Path) -> Path:
    """Write what a pod finds of its service account; return the folder."""
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "namespace").write_text("farm")
    return folder


def _status(code: int, message: str) -> tuple[int, bytes]:
    return code, json.dumps({"kind": "Status", "message": message, "code": code}).encode()


def _handler_for(cluster: StubCluster) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 5

        def _reply(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            code, answer = cluster.handle(self.command, self.path, self.headers, body)
            self.send_response(code)
            self.send_header("Content-Length", str(len(answer)))
            # who asked may be gone: killed, as some tests mean it to be
            with contextlib.suppress(ConnectionError):
                self.end_headers()
                self.wfile.write(answer)

        # the names by which the base class calls it
        do_GET = do_PATCH = do_DELETE = do_POST = _reply  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
