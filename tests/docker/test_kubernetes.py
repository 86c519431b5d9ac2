"""The Kubernetes manifests, as far as they can be checked without a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from farm.live.messages import decode_play
from farm.metrics.catalogue import CATALOGUE
from farm.scenario import load_scenario
from tests.grafana.conftest import metrics_in

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"


@pytest.fixture
def things() -> dict[tuple[str, str], dict[str, Any]]:
    """Every manifest, by kind and name."""
    return {
        (one["kind"], one["metadata"]["name"]): one
        for file in sorted(FOLDER.glob("*.yaml"))
        for one in yaml.safe_load_all(file.read_text())
    }


def pods(things) -> list[tuple[str, dict[str, Any]]]:
    """Return the pod templates of all workloads."""
    return [
        (name, one["spec"]["template"])
        for (kind, name), one in things.items()
        if kind in ("Deployment", "StatefulSet")
    ]


def environment(container: dict[str, Any]) -> dict[str, str]:
    """Return a container's variables that are written out."""
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def test_selectors_match_their_templates(things):
    """A Deployment whose selector does not match is refused by the cluster."""
    for (kind, name), one in things.items():
        if kind in ("Deployment", "StatefulSet"):
            labels = one["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"] == labels, name
        if one["metadata"].get("namespace", "farm") != "farm":
            pytest.fail(f"{name} is elsewhere")


def test_pods_are_restricted_and_limited(things):
    """As the namespace's pod security standard demands."""
    for name, pod in pods(things):
        spec = pod["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"]["drop"] == ["ALL"]
            assert context["readOnlyRootFilesystem"]
            assert container["resources"]["limits"]["memory"]


def test_mounts_name_volumes_that_there_are(things):
    """Of the pod, or of the claims."""
    for (kind, name), one in things.items():
        if kind not in ("Deployment", "StatefulSet"):
            continue
        spec = one["spec"]["template"]["spec"]
        claims = one["spec"].get("volumeClaimTemplates", ())
        there = {volume["name"] for volume in spec["volumes"]}
        there |= {claim["metadata"]["name"] for claim in claims}
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= there, name


def test_keda_scales_builders_by_a_metric_that_there_is(things):
    """The target exists, limits agree with the scenario's pool."""
    scaled = things["ScaledObject", "builders-linux"]["spec"]
    assert ("Deployment", scaled["scaleTargetRef"]["name"]) in things
    (trigger,) = scaled["triggers"]
    query = trigger["metadata"]["query"]
    assert set(metrics_in(query)) <= set(CATALOGUE)
    assert trigger["metadata"]["threshold"] == "1", "the value is the number of pods"
    pool = yaml.safe_load(things["ConfigMap", "scenario"]["data"]["farm.yaml"])["pools"][0]
    assert f'pool="{pool["name"]}"' in query
    limits = (scaled["minReplicaCount"], scaled["maxReplicaCount"])
    assert limits == (pool["provisioner"]["min"], pool["provisioner"]["max"])


def test_the_scaler_may_scale_builders_and_nothing_else(things):
    """Least privilege: one subresource of one Deployment."""
    (rule,) = things["Role", "scaler"]["rules"]
    assert rule["resources"] == ["deployments/scale"]
    assert rule["resourceNames"] == ["builders-linux"]
    assert set(rule["verbs"]) == {"get", "patch"}
    binding = things["RoleBinding", "scaler"]
    assert binding["roleRef"]["name"] == "scaler"
    assert binding["subjects"][0]["kind"] == "ServiceAccount"
    assert not any(kind.startswith("Cluster") for kind, _ in things)


def test_the_scenario_and_the_builders_fit_together(things, tmp_path):
    """The scenario loads; a pod plays a builder of its pool."""
    file = tmp_path / "farm.yaml"
    file.write_text(things["ConfigMap", "scenario"]["data"]["farm.yaml"])
    scenario = load_scenario(file)
    (builder,) = things["Deployment", "builders-linux"]["spec"]["template"]["spec"]["containers"]
    play = decode_play(environment(builder)["FARM_PLAY"].replace("{host}", "x"))
    pool = scenario.pools[0]
    assert msgspec.structs.asdict(play.builder)["pool"] == pool.name
    assert play.builder.slots == pool.slots
    assert play.builder.processors == pool.platform.processors
    assert play.speed == scenario.live.speed


def test_a_builder_pod_may_finish_what_it_runs(things):
    """Its grace period is longer than its drain time."""
    pod = things["Deployment", "builders-linux"]["spec"]["template"]["spec"]
    drain = float(environment(pod["containers"][0])["FARM_DRAIN_TIME"])
    assert pod["terminationGracePeriodSeconds"] > drain
