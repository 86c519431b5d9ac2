"""Pods of one Deployment per pool, each a host with room for one builder of that pool.

The backend only sets the number of pods. The cluster decides which pod goes: of
running pods it takes those that are not *ready* first (Kubernetes sorts them so before it looks
at anything else: ``ActivePodsWithRanks`` of kube-controller-manager). A host shows by a file
whether it plays a builder, and its pod is ready as long as the file is there: so idle
ones go. The cluster notices that with a delay, so a Deployment is only made as small as it could
have been all through the settling time.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from farm.core.errors import InputError
from farm.live.wire.pool_report import HostRecord, PoolReport
from provisioner.backends.backend import Backend, BackendError, Pause, builders_to_host
from provisioner.backends.kubernetes_api import ACCOUNT, IN_CLUSTER, ScaleApi

log = logging.getLogger("farm.provisioner")

PATTERN = "builders-{pool}"
#: a probe every 2 s, a heartbeat every second, and time for the controllers to notice
SETTLE_TIME = 10.0
#: others may have scaled a Deployment: real seconds between two looks at it
LOOK_AGAIN = 5.0
#: Kubernetes' rule for names
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class KubernetesOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pools' Deployments are.

    Attributes:
        deployment: name of a pool's Deployment, with {pool}.
        namespace: namespace. Default: the account's.
        kubernetes_api: address of the API server.
        kubernetes_account: folder with token and ca.crt.
        settle_time: seconds after which an idle pod is surely not ready.
    """

    deployment: Annotated[str, typer.Option(envvar="FARM_KUBERNETES_DEPLOYMENT")] = PATTERN
    namespace: Annotated[str | None, typer.Option(envvar="FARM_KUBERNETES_NAMESPACE")] = None
    kubernetes_api: Annotated[str, typer.Option(envvar="FARM_KUBERNETES_API")] = IN_CLUSTER
    kubernetes_account: Annotated[Path, typer.Option(envvar="FARM_KUBERNETES_ACCOUNT")] = ACCOUNT
    settle_time: Annotated[float, typer.Option(envvar="FARM_KUBERNETES_SETTLE_TIME", min=0)] = (
        SETTLE_TIME
    )


def deployments_of(pools: Iterable[str], pattern: str) -> dict[str, str]:
    """Return the Deployments' names by pool; raises InputError for invalid names."""
    names = {pool: pattern.replace("{pool}", pool) for pool in pools}
    for pool, name in names.items():
        if _NAME.fullmatch(name) is None:
            raise InputError(
                f"--deployment: {pattern!r} makes {name!r} of pool {pool}; allowed: small letters, "
                "digits and hyphens, at most 63"
            )
    if len(set(names.values())) < len(names):
        raise InputError(
            f"--deployment: {pattern!r} gives pools {', '.join(names)} one Deployment; allowed: "
            f"one per pool, such as {PATTERN!r}"
        )
    return names


class Deployment:
    """One pool's Deployment, as last seen; instants are real seconds."""

    def __init__(self, name: str, began_at: float) -> None:
        self.name = name
        self.pause = Pause()
        self.trouble = ""
        self._began_at = began_at
        self._looked_at = float("-inf")
        self._replicas = 0
        self._recent: list[tuple[float, int]] = []

    def tend(self, api: ScaleApi, need: int, now: float, settle_time: float) -> None:
        """Scale it if that is needed and safe; raises BackendError."""
        self._recent = [(at, size) for at, size in self._recent if now - at < settle_time]
        self._recent.append((now, need))
        if now - self._looked_at >= LOOK_AGAIN or self._target(now, settle_time) != self._replicas:
            self._replicas = api.replicas(self.name)
            self._looked_at = now
        target = self._target(now, settle_time)
        if target != self._replicas:
            api.scale(self.name, target)
            log.info("Deployment %s: %d pods instead of %d", self.name, target, self._replicas)
            self._replicas = target

    def _target(self, now: float, settle_time: float) -> int:
        """As many as are needed; fewer only if fewer have been enough for the settling time."""
        need = self._recent[-1][1]
        if need >= self._replicas or now - self._began_at < settle_time:
            return max(need, self._replicas)
        return min(self._replicas, max(size for _, size in self._recent))


class KubernetesBackend(Backend):
    """Lets each pool's Deployment have a pod for every builder that needs a host.

    The pods stay when the service ends: its next start continues with them.

    Args:
        api: gets and patches scales.
        deployments: their names by pool.
        settle_time: real seconds after which a pod that plays no builder is surely not ready.
        clock: real seconds.
    """

    def __init__(
        self,
        api: ScaleApi,
        deployments: Mapping[str, str],
        *,
        settle_time: float = SETTLE_TIME,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._settle_time = settle_time
        self._clock = clock
        self._deployments = {p: Deployment(name, clock()) for p, name in deployments.items()}

    def tend(
        self, reports: Mapping[str, PoolReport], _: Mapping[str, HostRecord]
    ) -> Mapping[str, str]:
        """Scale each pool's Deployment, where readiness shows who is busy; return the problems."""
        now = self._clock()
        for pool, need in builders_to_host(reports).items():
            deployment = self._deployments.get(pool)
            if deployment is None or not deployment.pause.over(now):
                continue
            try:
                deployment.tend(self._api, need, now, self._settle_time)
                deployment.pause.well()
            except BackendError as error:
                deployment.trouble = str(error)
                deployment.pause.failed(now)
        return {p: d.trouble for p, d in self._deployments.items() if d.pause.failures}
