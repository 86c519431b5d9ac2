"""The kubernetes backend against a stub API server: a pod per builder, and failures."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from farm.core.errors import InputError
from provisioner.backends.backend import BackendError
from provisioner.backends.kubernetes import KubernetesBackend, deployments_of
from provisioner.backends.kubernetes_api import ScaleApi
from tests.fixtures.processes import own_port
from tests.provisioner.tended import Tended
from tests.worlds.cluster import StubCluster, account_in

SETTLE = 10.0


class World(Tended):
    """A cluster, and a backend that scales its Deployments."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.cluster = StubCluster()
        self.cluster.create("builders-p", 1)
        self.account = account_in(folder / "account")
        self.backend = self.begin()

    def begin(self) -> KubernetesBackend:
        api = ScaleApi(self.cluster.url, self.account)
        names = deployments_of(["p", "q"], "builders-{pool}")
        return KubernetesBackend(api, names, settle_time=SETTLE, clock=lambda: self.now)

    @property
    def patches(self) -> list[tuple[str, int | None]]:
        return [(name, size) for method, name, size in self.cluster.calls if method == "PATCH"]

    @property
    def gets(self) -> int:
        return sum(method == "GET" for method, _, _ in self.cluster.calls)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A cluster with the Deployment of pool p, of one pod."""
    found = World(tmp_path)
    yield found
    found.cluster.close()


# --- up and down ------------------------------------------------------------------------------


def test_it_grows_at_once_and_polls_rarely(world):
    """A pod for every builder; while nothing changes it polls every few seconds."""
    world.need["p"] = 3
    assert world.look() == {}
    assert world.cluster.deployments == {"builders-p": 3}
    world.look(20)
    assert world.patches == [("builders-p", 3)]
    assert world.gets <= 6


def test_it_shrinks_after_a_settling_time(world):
    """To the size that was enough all the time: a builder just retired may still seem ready."""
    world.need["p"] = 5
    world.look(12)
    world.need["p"] = 3
    world.look(8)
    world.need["p"] = 1
    world.look(1)
    assert world.cluster.deployments["builders-p"] == 5
    world.look(2)
    assert world.cluster.deployments["builders-p"] == 3
    world.look(9)
    assert world.cluster.deployments["builders-p"] == 1
    world.need["p"] = 0
    world.look(11)
    assert world.cluster.deployments["builders-p"] == 0
    assert [size for _, size in world.patches] == [5, 3, 1, 0]


def test_a_brief_drop_in_demand_does_not_shrink_it(world):
    """Up and down within the settling time: no pod is removed."""
    for _ in range(10):
        world.need["p"] = 2
        world.look(5)
        world.need["p"] = 1
        world.look(5)
    assert world.patches == [("builders-p", 2)]


def test_a_restart_removes_no_pod_before_it_knows_their_state(world):
    """It does not know which builders were retired just before."""
    world.need["p"] = 3
    world.look(2)
    world.need["p"] = 1
    world.backend = world.begin()
    world.look(9)
    assert world.cluster.deployments["builders-p"] == 3
    world.look(3)
    assert world.cluster.deployments["builders-p"] == 1


def test_manual_scaling_is_corrected(world):
    """A manual ``kubectl scale`` lasts for some seconds."""
    world.need["p"] = 2
    world.look(12)
    world.cluster.deployments["builders-p"] = 7
    world.look(6)
    assert world.cluster.deployments["builders-p"] == 2
    world.cluster.deployments["builders-p"] = 0
    world.look(6)
    assert world.cluster.deployments["builders-p"] == 2


# --- failures ------------------------------------------------------------------------------


def test_a_missing_deployment_is_reported_and_blocks_no_other_pool(world):
    """It is retried with backoff, and found when it exists."""
    world.need = {"p": 2, "q": 1}
    message = "there is no Deployment builders-q in namespace farm: create it"
    for _ in range(60):
        (trouble,) = world.look().items()
        assert trouble[0] == "q"
        assert trouble[1].startswith(message)
    assert world.cluster.deployments == {"builders-p": 2}
    world.cluster.create("builders-q", 0)
    assert world.look(60) == {}
    assert world.cluster.deployments["builders-q"] == 1


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_a_missing_permission_is_reported(world, method):
    """With what to grant."""
    world.cluster.allowed.discard(method)
    world.need["p"] = 2
    assert world.look() == {
        "p": f"we may not {method.lower()} deployments/scale of Deployment builders-p in namespace "
        "farm: grant it (deploy/kubernetes/scaler-role.yaml)"
    }
    world.cluster.allowed.add(method)
    assert world.look(5) == {}
    assert world.cluster.deployments["builders-p"] == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((500, b"boom"), "500 for Deployment builders-p in namespace farm: Internal Server Error"),
        ((429, b'{"kind": "Status", "message": "too many"}'), "429 for .*: too many"),
        ((401, b"\xff\xfe"), "401 for .*: Unauthorized"),
        ((200, b"<html>"), "does not answer with a Scale"),
        ((200, b"{}"), "does not answer with a Scale"),
        ((200, b'{"kind": "Scale", "spec": {"replicas": "many"}}'), "does not answer with a Scale"),
        ((200, b""), "does not answer with a Scale"),
    ],
)
def test_nonsense_is_reported_and_survived(world, answer, message):
    """One message, a pause, and on."""
    world.cluster.answer = answer
    world.need["p"] = 2
    (trouble,) = world.look().values()
    with pytest.raises(BackendError, match=message):
        raise BackendError(trouble)
    world.look(3)
    world.cluster.answer = None
    assert world.look(9) == {}
    assert world.cluster.deployments["builders-p"] == 2


def test_an_absent_api_server_is_waited_for(world, tmp_path):
    """At first nothing listens there; later the server does."""
    port = own_port()
    api = ScaleApi(f"http://127.0.0.1:{port}", world.account, timeout=1.0)
    world.backend = KubernetesBackend(api, {"p": "builders-p"}, clock=lambda: world.now)
    world.need["p"] = 2
    assert "does not answer: " in world.look()["p"]
    api.url = world.cluster.url
    assert world.look(3) == {}
    assert world.cluster.deployments["builders-p"] == 2


def test_an_api_server_that_hangs_is_given_up_after_a_time_out(world):
    """Each call has a time limit."""
    over = threading.Event()
    world.cluster.handle = lambda *_: (over.wait(30), (200, b""))[1]  # type: ignore[method-assign]
    api = ScaleApi(world.cluster.url, world.account, timeout=0.2)
    with pytest.raises(BackendError, match=r"does not answer: .*timed out"):
        api.replicas("builders-p")
    over.set()


def test_a_changed_token_is_used(world):
    """The cluster replaces it at run time."""
    (world.account / "token").write_text("an old one")
    assert "401" in world.look()["p"]
    account_in(world.account)
    assert world.look(5) == {}


def test_a_token_that_vanished_is_reported(world):
    """It does not end the provisioner."""
    (world.account / "token").unlink()
    assert "no account for the Kubernetes API" in world.look()["p"]


def test_the_servers_certificate_is_checked_against_the_accounts_authority(tool, tmp_path):
    """A server with another certificate is refused; the right one is accepted."""
    openssl = tool("openssl")
    for name in ("right", "wrong"):
        subprocess.run(
            [
                openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                "-subj", "/CN=stub", "-addext", "subjectAltName=IP:127.0.0.1",
                "-keyout", tmp_path / f"{name}.key", "-out", tmp_path / f"{name}.crt",
            ],
            check=True, capture_output=True,
        )  # fmt: skip
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "right.crt", tmp_path / "right.key")
    cluster = StubCluster(tls=tls)
    try:
        cluster.create("builders-p", 3)
        account = account_in(tmp_path / "account")
        authority = account / "ca.crt"
        authority.write_bytes((tmp_path / "right.crt").read_bytes())
        assert ScaleApi(cluster.url, account).replicas("builders-p") == 3
        authority.write_bytes((tmp_path / "wrong.crt").read_bytes())
        with pytest.raises(BackendError, match=r"does not answer: .*certificate"):
            ScaleApi(cluster.url, account).replicas("builders-p")
    finally:
        cluster.close()


# --- bad options ----------------------------------------------------------------------------------


def test_an_account_without_an_authority_is_one_clear_message(tmp_path):
    """For https it is needed."""
    with pytest.raises(InputError, match=r"ca.crt is no certificate authority"):
        ScaleApi(account=account_in(tmp_path / "account"))


@pytest.mark.parametrize("url", ["kubernetes", "file:///etc/passwd", ""])
def test_an_invalid_address_is_one_clear_message(url, tmp_path):
    """Only http(s) is supported."""
    with pytest.raises(InputError, match=r"--kubernetes-api: found .*allowed: https://"):
        ScaleApi(url, account_in(tmp_path / "account"))


def test_deployments_have_valid_kubernetes_names():
    """One per pool, in a message with the pool's name."""
    assert deployments_of(["p", "q"], "x-{pool}") == {"p": "x-p", "q": "x-q"}
    assert deployments_of(["p"], "the-builders") == {"p": "the-builders"}
    with pytest.raises(InputError, match=r"makes 'x-Big_One' of pool Big_One; allowed: small"):
        deployments_of(["Big_One"], "x-{pool}")
    with pytest.raises(InputError, match="gives pools p, q one Deployment"):
        deployments_of(["p", "q"], "builders")
