"""The Kubernetes manifests, as far as they can be checked without a cluster."""

from __future__ import annotations

import itertools
import json
import re
import runpy
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightkube.resources.apps_v1
import lightkube.resources.core_v1
import lightkube.resources.networking_v1
import lightkube.resources.policy_v1
import lightkube.resources.rbac_authorization_v1  # noqa: F401 - importing these registers them
import msgspec
import pytest
import yaml
from lightkube.core.resource_registry import resource_registry

from farm.live.settings import from_environment
from farm.live.wire.messages import decode_play
from farm.metrics.catalogue import CATALOGUE
from farm.scenario import load_scenario
from provisioner.backends.kubernetes import SETTLE_TIME, deployments_of
from tests.grafana.conftest import FOLDER as DASHBOARDS
from tests.grafana.conftest import metrics_in

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"


VARIANTS = {
    "kubernetes": ("farm.yaml", "scaler-role.yaml", "kubernetes-backend.yaml"),
    "keda": ("farm.yaml", "keda.yaml"),
    "keda-queue": ("farm.yaml", "keda-queue.yaml"),
}


def manifests(*files: str) -> Iterator[dict[str, Any]]:
    """Yield the manifests in these files."""
    for file in files:
        yield from yaml.load_all((FOLDER / file).read_text(), yaml.CSafeLoader)


@pytest.fixture(params=sorted(VARIANTS))
def things(request) -> dict[tuple[str, str], dict[str, Any]]:
    """Return every manifest of one way to have builders, by kind and name."""
    found = [
        ((one["kind"], one["metadata"]["name"]), one) for one in manifests(*VARIANTS[request.param])
    ]
    assert len(dict(found)) == len(found), "one is there twice"
    return dict(found)


@pytest.fixture
def scaled() -> dict[tuple[str, str], dict[str, Any]]:
    """Return the manifests with which the provisioner scales builders itself."""
    return {(o["kind"], o["metadata"]["name"]): o for o in manifests(*VARIANTS["kubernetes"])}


def test_every_file_belongs_to_a_way():
    """No file is missing from the lists."""
    assert {file for files in VARIANTS.values() for file in files} == {
        path.name for path in FOLDER.glob("*.yaml")
    }


def test_the_page_changes_what_the_manifests_have():
    """Its kustomization names our files, our image and our Secrets: else nothing would change."""
    page = (FOLDER.parents[1] / "docs/how-to/containers.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(resources:.*?)```", page, re.DOTALL)
    shown = yaml.safe_load(text)
    assert tuple(shown["resources"]) == VARIANTS["kubernetes"]
    written = list(manifests(*shown["resources"]))
    images = {image.partition(":")[0] for image in re.findall(r"'image': '([^']+)'", str(written))}
    assert shown["images"][0]["name"] in images
    made = {one["name"]: one["files"] for one in shown["secretGenerator"]}
    assert set(made) == set(re.findall(r"'secret(?:Name)?': (?:{'name': )?'([^']+)'", str(written)))
    for name, files in made.items():
        user = name == "redis-users"
        assert files == ["users.acl" if user else f"password=farm-passwords/{name}"]


def test_the_cluster_would_accept_them(things):
    """By Kubernetes' own schemas: each key is known, of the right type, and none is missing."""
    for (kind, name), one in things.items():
        if kind == "ScaledObject":
            continue  # KEDA's own
        known = resource_registry.load(one["apiVersion"], kind)
        understood = msgspec.to_builtins(msgspec.convert(one, known))
        assert list(_left_out(one, understood)) == [], name


def _left_out(written: Any, understood: Any, at: str = "") -> Iterator[str]:
    """Yield the keys that were not understood."""
    if isinstance(written, dict):
        for key, value in written.items():
            if key not in understood:
                yield f"{at}.{key}"
            else:
                yield from _left_out(value, understood[key], f"{at}.{key}")
    elif isinstance(written, list):
        for number, value in enumerate(written):
            yield from _left_out(value, understood[number], f"{at}[{number}]")


def pods(things) -> list[tuple[str, dict[str, Any]]]:
    """Return the pod templates of all workloads."""
    return [
        (name, one["spec"]["template"])
        for (kind, name), one in things.items()
        if kind in ("Deployment", "StatefulSet")
    ]


def environment(container: dict[str, Any]) -> dict[str, str]:
    """Return a container's variables that have a value."""
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
        own = "serviceAccountName" in spec  # the provisioner's, for a permission that it has
        assert spec["automountServiceAccountToken"] is own, name
        assert not own or name == "provisioner"
        assert spec["securityContext"]["runAsNonRoot"], name
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"]["drop"] == ["ALL"]
            assert context["readOnlyRootFilesystem"]
            assert container["resources"]["limits"]["memory"]


def test_each_role_has_its_own_password_and_none_is_in_an_environment(things):
    """A builder's pod holds the builder's alone.

    No Secret is made here: one that is not set is missing, and no pod starts without it.
    """
    assert not any(kind == "Secret" for kind, _ in things)
    roles = {"scheduler": "scheduler", "provisioner": "provisioner", "builders-linux": "builder"}
    for name, pod in pods(things):
        (container,) = pod["spec"]["containers"]
        assert "secretKeyRef" not in str(container), name
        held = re.findall(
            r"'secret(?:Name)?': (?:{'name': )?'([^']+)'", str(pod["spec"]["volumes"])
        )
        if name == "redis":
            assert held == ["redis-users", "farm-reader"]
            assert container["command"][:3] == ["redis-server", "--aclfile", "/secrets/users.acl"]
            continue
        user = f"farm-{roles[name]}"
        env = environment(container)
        assert (held, env["FARM_REDIS_USER"]) == ([user], user)
        assert env["FARM_REDIS_PASSWORD_FILE"] == "/secrets/password"
        assert "FARM_REDIS_PASSWORD" not in env


def test_pods_are_probed_and_disrupted_one_at_a_time(things):
    """One that hangs is restarted, one that is not ready is seen, and says why it ended."""
    for name, pod in pods(things):
        (container,) = pod["spec"]["containers"]
        assert {"readinessProbe", "livenessProbe"} <= set(container), name
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError", name
    budgets = {
        name: one["spec"] for (kind, name), one in things.items() if kind == "PodDisruptionBudget"
    }
    replicas = things["Deployment", "scheduler"]["spec"]["replicas"]
    assert budgets["scheduler"]["minAvailable"] < replicas, "or no node could be drained"
    for name, budget in budgets.items():
        assert budget["selector"]["matchLabels"] == {"app": name}


def test_a_farm_can_be_restored_from_its_log(things):
    """Both schedulers write it, on storage that outlives their pods."""
    pod = things["Deployment", "scheduler"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    folder = Path(container["args"][container["args"].index("--log") + 1])
    assert {"name": "log", "mountPath": str(folder.parent)} in container["volumeMounts"]
    assert {"name": "log", "persistentVolumeClaim": {"claimName": "log"}} in pod["volumes"]
    assert things["PersistentVolumeClaim", "log"]["spec"]["accessModes"] == ["ReadWriteMany"]


def test_mounts_name_existing_volumes(things):
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


def test_keda_scales_builders_by_an_existing_metric():
    """The target exists, limits agree with the scenario's pool."""
    things = {(o["kind"], o["metadata"]["name"]): o for o in manifests(*VARIANTS["keda"])}
    scaled = things["ScaledObject", "builders-linux"]["spec"]
    assert ("Deployment", scaled["scaleTargetRef"]["name"]) in things
    (trigger,) = scaled["triggers"]
    query = trigger["metadata"]["query"]
    assert set(metrics_in(query)) <= set(CATALOGUE)
    assert trigger["metadata"]["threshold"] == "1", "the value is the number of pods"
    pool = pool_of(things)
    assert f'pool="{pool["name"]}"' in query
    limits = (scaled["minReplicaCount"], scaled["maxReplicaCount"])
    assert limits == (pool["provisioner"]["min"], pool["provisioner"]["max"])


def test_keda_scales_builders_by_the_queue_in_a_file_of_its_own(
    tool: Callable[[str], str], tmp_path: Path
):
    """As many pods as have slots for the jobs there are; the pods are those of the plan's way."""
    found = {
        way: {(o["kind"], o["metadata"]["name"]): o for o in manifests(*VARIANTS[way])}
        for way in ("keda", "keda-queue")
    }
    things, planned = found["keda-queue"], found["keda"]
    builders = "Deployment", "builders-linux"
    assert things[builders] == planned[builders]
    assert ("Deployment", "provisioner") not in things, "two would size the pool"
    scaled, other = (one["ScaledObject", "builders-linux"]["spec"] for one in (things, planned))
    assert scaled["scaleTargetRef"] == other["scaleTargetRef"]
    pool = pool_of(things)
    limits = (scaled["minReplicaCount"], scaled["maxReplicaCount"])
    assert limits == (pool["provisioner"]["min"], pool["provisioner"]["max"])
    (trigger,) = scaled["triggers"]
    assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
    assert trigger["metadata"]["threshold"] == str(pool["slots"])
    query = trigger["metadata"]["query"]
    assert set(metrics_in(query)) <= set(CATALOGUE)
    assert f'pool="{pool["name"]}"' in query
    series = {
        "farm_queue_depth{platform='amd64/virtual'}": 7, "farm_queue_depth{platform='arm'}": 50,
        "farm_jobs_running{pool='linux'}": 2,
    }  # fmt: skip
    tests = {
        "interval": "1m",
        "input_series": [{"series": name, "values": f"{n}"} for name, n in series.items()],
        "promql_expr_test": [
            {"expr": query, "eval_time": "0m", "exp_samples": [{"labels": "{}", "value": 9}]}
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(json.dumps({"tests": [tests]}))
    run = subprocess.run([tool("promtool"), "test", "rules", file], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_change_of_the_plan_is_too_small_for_the_autoscaler(
    tool: Callable[[str], str], tmp_path: Path
):
    """From any number of pods to that of any plan: the HPA ignores changes within 10 %."""
    things = {(o["kind"], o["metadata"]["name"]): o for o in manifests(*VARIANTS["keda"])}
    most = things["ScaledObject", "builders-linux"]["spec"]["maxReplicaCount"]
    (trigger,) = things["ScaledObject", "builders-linux"]["spec"]["triggers"]
    wanted = {plan: plan if plan <= 9 else -(-plan // 3) * 3 for plan in range(1, most + 1)}
    assert wanted[most] == most
    for there, to in itertools.product(wanted.values(), wanted.values()):
        assert there == to or abs(1 - to / there) > 0.1, (there, to)
    series = "farm_provisioner_desired_builders{pool='linux'}"
    expected = [
        {"expr": trigger["metadata"]["query"], "eval_time": f"{plan}m",
         "exp_samples": [{"labels": "{}", "value": pods}]}
        for plan, pods in wanted.items()
    ]  # fmt: skip
    values = [{"series": series, "values": f"0+1x{most}"}]
    file = tmp_path / "test.yaml"
    tests = [{"interval": "1m", "input_series": values, "promql_expr_test": expected}]
    file.write_text(json.dumps({"tests": tests}))
    run = subprocess.run([tool("promtool"), "test", "rules", file], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def pool_of(things) -> dict[str, Any]:
    """Return the one pool of the scenario."""
    (pool,) = yaml.safe_load(things["ConfigMap", "scenario"]["data"]["farm.yaml"])["pools"]
    return pool


def test_the_provisioner_may_only_scale_builders(scaled):
    """Least privilege: one subresource of its Deployments, and two verbs."""
    (rule,) = scaled["Role", "scaler"]["rules"]
    assert rule["resources"] == ["deployments/scale"]
    assert set(rule["verbs"]) == {"get", "patch"}
    provisioner = scaled["Deployment", "provisioner"]["spec"]["template"]["spec"]
    settings = environment(provisioner["containers"][0])
    pattern = settings["FARM_KUBERNETES_DEPLOYMENT"]
    names = deployments_of([pool_of(scaled)["name"]], pattern).values()
    assert rule["resourceNames"] == list(names)
    assert all(("Deployment", name) in scaled for name in names)
    binding = scaled["RoleBinding", "scaler"]
    assert binding["roleRef"]["name"] == "scaler"
    (subject,) = binding["subjects"]
    assert subject["name"] == provisioner["serviceAccountName"]
    assert ("ServiceAccount", subject["name"]) in scaled
    assert not any(kind.startswith("Cluster") for kind, _ in scaled)


def test_a_pod_is_ready_while_it_plays_a_builder(scaled):
    """Its probe checks the host's file, and sees a change before the pool is scaled down."""
    deployment = scaled["Deployment", "builders-linux"]["spec"]
    assert "replicas" not in deployment, "applying it again would change them"
    (container,) = deployment["template"]["spec"]["containers"]
    env = environment(container)
    settings = from_environment(env)
    probe = container["readinessProbe"]
    assert probe["exec"]["command"] == ["test", "-f", settings.ready_file]
    assert any(settings.ready_file.startswith(m["mountPath"]) for m in container["volumeMounts"])
    seen = settings.beat_interval + probe["periodSeconds"] * probe["failureThreshold"]
    assert seen * 2 <= SETTLE_TIME
    assert (settings.room, settings.pool) == (1, pool_of(scaled)["name"])
    # waiting for ready pods would never end
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == "100%"


def test_an_operators_prometheus_and_grafana_find_all_of_the_farm(things):
    """Each kind of pod, under the job that dashboards and alerts use; all alerts and dashboards."""
    printed = runpy.run_path(str(FOLDER / "monitoring.py"))["manifests"]()
    by_kind = {
        kind: [o for o in printed if o["kind"] == kind] for kind in {o["kind"] for o in printed}
    }
    scraped: dict[str, str] = {}
    for monitor in by_kind["PodMonitor"]:
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        (relabelling,) = endpoint["relabelings"]
        for _, pod in pods(things):
            if (
                monitor["spec"]["selector"]["matchLabels"].items()
                <= pod["metadata"]["labels"].items()
            ):
                (container,) = pod["spec"]["containers"]
                ports = {port["name"]: port["containerPort"] for port in container["ports"]}
                assert str(ports[endpoint["port"]]) == environment(container)["FARM_METRICS_PORT"]
                scraped[relabelling["replacement"]] = pod["metadata"]["labels"]["app"]
    serving = {pod["metadata"]["labels"]["app"] for name, pod in pods(things) if name != "redis"}
    assert set(scraped.values()) == serving
    prometheus = yaml.safe_load((FOLDER.parent / "prometheus/prometheus.yml").read_text())
    jobs = {one["job_name"] for one in prometheus["scrape_configs"]}
    planned_by_keda = {"provisioner"} - serving
    assert set(scraped) == jobs - {"prometheus"} - planned_by_keda
    (rules,), (boards,) = by_kind["PrometheusRule"], by_kind["ConfigMap"]
    alerts = yaml.safe_load((FOLDER.parent / "prometheus/alerts.yml").read_text())
    assert rules["spec"] == alerts
    assert set(boards["data"]) == {path.name for path in DASHBOARDS.glob("*.json")}
    assert sum(map(len, boards["data"].values())) < 1_000_000, "a ConfigMap holds a MiB"


def test_the_scenario_loads(things, tmp_path):
    """As the services read it."""
    file = tmp_path / "farm.yaml"
    file.write_text(things["ConfigMap", "scenario"]["data"]["farm.yaml"])
    assert load_scenario(file).pools[0].name == "linux"


def test_the_scenario_and_kedas_pods_fit_together(tmp_path):
    """A pod plays a builder of the pool."""
    things = {(o["kind"], o["metadata"]["name"]): o for o in manifests(*VARIANTS["keda"])}
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
