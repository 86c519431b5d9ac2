"""The only permission of the kubernetes backend: get and patch the scale of some Deployments.

Two calls of the API server, for which the standard library is enough: the official client would add
120 MB. The token is read again for each call, since the cluster changes it every hour or so.
"""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Literal

import msgspec

from farm.core.errors import InputError
from provisioner.backends.backend import BackendError
from provisioner.backends.engine import first_line

#: where a pod finds its account, and the API server's name inside any cluster
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER = "https://kubernetes.default.svc"
#: real seconds that the API server has to answer
TIMEOUT = 5.0
MAX_BYTES = 1_000_000


class _Spec(msgspec.Struct):
    #: left out by the server if it is 0
    replicas: int = 0


class _Scale(msgspec.Struct):
    """A Scale of autoscaling/v1; its other fields are ignored."""

    kind: Literal["Scale"]
    spec: _Spec


class _Status(msgspec.Struct):
    """The API server's answer when it refuses."""

    message: str = ""


class ScaleApi:
    """Reads and sets the number of pods of Deployments in one namespace.

    Args:
        url: the API server's address.
        account: a folder with ``token``, ``namespace``, and ``ca.crt`` for https.
        namespace: None: the account's.

    Raises InputError for an invalid address, and a missing account.
    """

    def __init__(
        self,
        url: str = IN_CLUSTER,
        account: Path = ACCOUNT,
        namespace: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        if not url.startswith(("https://", "http://")):
            raise InputError(f"--kubernetes-api: found {url!r}; allowed: https://HOST[:PORT]")
        self.url = url.rstrip("/")
        self.namespace = namespace or _read(account / "namespace")
        self._token = account / "token"
        _read(self._token)
        self._timeout = timeout
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
        if url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=_context(account / "ca.crt")))
        self._opener = urllib.request.build_opener(*handlers)

    def replicas(self, deployment: str) -> int:
        """Return the desired number of pods; raises BackendError."""
        return self._call("GET", deployment)

    def scale(self, deployment: str, replicas: int) -> None:
        """Set the desired number of pods; raises BackendError."""
        self._call("PATCH", deployment, msgspec.json.encode({"spec": {"replicas": replicas}}))

    def _call(self, method: str, deployment: str, body: bytes | None = None) -> int:
        where = f"Kubernetes API ({self.url})"
        try:
            request = urllib.request.Request(  # noqa: S310 - the scheme was looked at
                f"{self.url}/apis/apps/v1/namespaces/{self.namespace}"
                f"/deployments/{deployment}/scale",
                data=body,
                method=method,
                headers={
                    "Authorization": f"Bearer {_read(self._token)}",
                    "Accept": "application/json",
                    "Content-Type": "application/merge-patch+json",
                },
            )
            with self._opener.open(request, timeout=self._timeout) as answer:
                return msgspec.json.decode(answer.read(MAX_BYTES), type=_Scale).spec.replicas
        except urllib.error.HTTPError as error:
            raise BackendError(self._refusal(method, deployment, error)) from None
        except (OSError, http.client.HTTPException) as error:
            raise BackendError(f"{where} does not answer: {first_line(error)}") from None
        except msgspec.DecodeError as error:
            raise BackendError(f"{where} does not answer with a Scale: {error}") from None
        except InputError as error:
            raise BackendError(str(error)) from None

    def _refusal(self, method: str, deployment: str, error: urllib.error.HTTPError) -> str:
        what = f"Deployment {deployment} in namespace {self.namespace}"
        if error.code == 404:
            return f"there is no {what}: create it, or give its name with --deployment"
        if error.code == 403:
            return (
                f"we may not {method.lower()} deployments/scale of {what}: grant it "
                "(deploy/kubernetes/scaler-role.yaml)"
            )
        return f"Kubernetes API ({self.url}): {error.code} for {what}: {_message(error)}"


def _message(error: urllib.error.HTTPError) -> str:
    with error:
        try:
            return msgspec.json.decode(error.read(MAX_BYTES), type=_Status).message[:300]
        except (OSError, http.client.HTTPException, msgspec.DecodeError):
            return error.reason


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"no account for the Kubernetes API ({error}): run in a pod with a service account, or "
            "name a folder with token, namespace and ca.crt (--kubernetes-account)"
        ) from None


def _context(authority: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"--kubernetes-account: {authority} is no certificate authority: {error}"
        ) from None
