"""The manifests, as far as files can be checked without a cluster: schemas, and what they promise against the code."""

import re
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from glasstream.app.brokers.choose import addresses
from glasstream.app.configuration import load
from glasstream.kafka.health.catalogue import ALL
from glasstream.kafka.stages.build import SEALED
from glasstream.kafka.transport.worker import STOP_PATIENCE
from tests.support.cluster import NO_PROGRAMS, main
from tests.support.command_line import parsed
from tests.support.dockerfile import final_stage, variables

FOLDER = Path(__file__).resolve().parents[2] / "ops" / "kubernetes"
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((FOLDER / "kustomization.yaml").read_text(encoding="utf-8"))
OBJECTS: list[dict[str, Any]] = [
    found
    for name in KUSTOMIZATION["resources"]
    for found in yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8"))
]
COMMENTS = (FOLDER / "kustomization.yaml").read_text(encoding="utf-8")
VERSION = "1.31"


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    return {found["metadata"]["name"]: found for found in OBJECTS if found["kind"] == kind}


WORKERS = of_kind("StatefulSet")
OTHERS = of_kind("Deployment")
PODS = {name: found["spec"]["template"]["spec"] for name, found in {**WORKERS, **OTHERS}.items()}
CONTAINERS = {
    one["name"]: (name, one)
    for name, pod in PODS.items()
    for one in (*pod.get("initContainers", ()), *pod["containers"])
}
"""By name: the pod that it is in, and it."""
SETTINGS: dict[str, str] = of_kind("ConfigMap")["glasstream"]["data"]


@pytest.mark.parametrize("found", OBJECTS, ids=lambda found: f"{found['kind']} {found['metadata']['name']}")
def test_every_object_fits_its_schema(found: dict[str, Any]) -> None:
    kubernetes_validate.validate(found, VERSION, strict=True)


def test_a_misspelt_key_would_be_found() -> None:
    wrong = {**WORKERS["aggregator"], "spec": {**WORKERS["aggregator"]["spec"], "replica": 2}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSION, strict=True)


def test_every_file_of_the_folder_is_a_resource_and_every_stage_is_there() -> None:
    assert sorted(KUSTOMIZATION["resources"]) == sorted(
        path.name for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml"
    )
    assert (
        set(WORKERS)
        == {"learner", "explainer", "aggregator", "novelty", "labels", "intake", "notify", "avro"}
        == set(of_kind("PodDisruptionBudget"))
    )


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_command_and_variable_is_one_that_glasstream_takes(name: str) -> None:
    _, container = CONTAINERS[name]
    arguments = container["args"]
    assert parsed(arguments).command.callback is not None
    assert arguments == (
        ["worker", name] if name in WORKERS else {"topics": ["topics", "create"], "page": ["page"]}[name]
    )
    given = {one["name"]: one.get("value", "x") for one in container.get("env", [])}
    load(environment={**SETTINGS, **given})
    (image,) = KUSTOMIZATION["images"]
    assert container["image"] == f"{image['name']}:{image['newTag']}"


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_is_locked_and_can_write_where_it_must(name: str) -> None:
    pod, container = CONTAINERS[name]
    (user,) = [rest for word, rest in final_stage() if word == "USER"]
    context = PODS[pod]["securityContext"]
    assert f"{context['runAsUser']}:{context['runAsGroup']}" == user and context["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")}
    assert mounts == {"/tmp", variables()["NUMBA_CACHE_DIR"]}
    assert {*container["resources"]["limits"]} == {"cpu", "memory", "ephemeral-storage"}
    assert PODS[pod]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", PODS)
def test_no_variables_of_services_come_into_a_pod_and_workers_of_a_stage_are_spread(name: str) -> None:
    assert PODS[name]["enableServiceLinks"] is False
    (preferred,) = PODS[name]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    found = {**WORKERS, **OTHERS}[name]["spec"]["selector"]["matchLabels"]
    assert preferred["podAffinityTerm"]["labelSelector"]["matchLabels"] == found


def test_topics_are_created_before_the_learner_by_what_a_new_image_can_change() -> None:
    (making,) = PODS["learner"]["initContainers"]
    assert making["args"] == ["topics", "create"]
    assert not of_kind("Job")


def test_images_have_the_tag_of_this_version() -> None:
    (image,) = KUSTOMIZATION["images"]
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert image["newTag"] == project["version"]


def test_out_of_a_pod_go_questions_for_names_and_what_is_for_kafka() -> None:
    policy = of_kind("NetworkPolicy")["glasstream"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "glasstream"}
    ports = [(one["protocol"], one["port"]) for rule in policy["egress"] for one in rule["ports"]]
    brokers = [("TCP", port) for _, port in addresses(load(environment=SETTINGS).broker)]
    assert ports == [("UDP", 53), ("TCP", 53), *brokers]


@pytest.mark.parametrize("name", WORKERS)
def test_probes_ask_where_a_worker_answers(name: str) -> None:
    (container,) = PODS[name]["containers"]
    settings = load(environment=SETTINGS)
    assert settings.health.host == "0.0.0.0"
    assert container["ports"] == [{"name": "health", "containerPort": settings.health.port}]
    asked = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    assert asked == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}
    assert PODS[name]["terminationGracePeriodSeconds"] >= 1.5 * STOP_PATIENCE


@pytest.mark.parametrize("name", WORKERS)
def test_selectors_choose_the_stage_and_nothing_else(name: str) -> None:
    labels = WORKERS[name]["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == name
    for selecting in (WORKERS[name], of_kind("PodDisruptionBudget")[name]):
        assert selecting["spec"]["selector"]["matchLabels"] == labels


SECRETS: dict[str, tuple[str, ...]] = {"page": ("page-token", "token"), "notify": ("notify", "url", "key")}
"""Name of the secret of a pod, and of what is in it."""
SECRETS |= dict.fromkeys(SEALED, ("hmac-key", "hmac_key"))


def test_secrets_come_from_files_and_each_pod_has_its_own_only() -> None:
    for name, pod in PODS.items():
        sources = {one["name"]: one["secret"]["secretName"] for one in pod["volumes"] if "secret" in one}
        files = [one["value"] for one in pod["containers"][0]["env"] if one["name"].endswith("_FILE")]
        if name not in SECRETS:
            assert not sources and not files
            continue
        secret, *parts = SECRETS[name]
        assert sources == {secret: f"glasstream-{secret}"}
        (container,) = pod["containers"]
        (folder,) = [one["mountPath"] for one in container["volumeMounts"] if one["name"] in sources]
        assert sorted(files) == sorted(f"{folder}/{part}" for part in parts)
        (creating,) = re.findall(rf"glasstream-{secret} (--.*)", COMMENTS)
        assert re.findall(r"--from-(?:literal|file)=(\w+)=", creating) == parts
    assert not of_kind("Secret")
    kept = {"hmac-key", "page-token", "notify"}
    assert not {one["name"] for one in CONTAINERS["topics"][1]["volumeMounts"]} & kept


def test_the_notifier_may_also_reach_a_webhook_with_tls() -> None:
    policy = of_kind("NetworkPolicy")["notify"]["spec"]
    assert policy["podSelector"] == WORKERS["notify"]["spec"]["selector"]
    assert policy["policyTypes"] == ["Egress"]
    assert [one for rule in policy["egress"] for one in rule["ports"]] == [{"protocol": "TCP", "port": 443}]


@pytest.mark.parametrize("name", ["intake", "avro"])
def test_who_needs_schemas_may_also_reach_a_schema_registry(name: str) -> None:
    policy = of_kind("NetworkPolicy")[name]["spec"]
    assert policy["podSelector"] == WORKERS[name]["spec"]["selector"]
    assert policy["policyTypes"] == ["Egress"]
    assert [one["port"] for rule in policy["egress"] for one in rule["ports"]] == [443, 8081]


def test_the_page_is_asked_and_reached_where_it_answers() -> None:
    (container,) = PODS["page"]["containers"]
    given = {one["name"]: one["value"] for one in container["env"]}
    page = load(environment={**SETTINGS, **given}).page
    assert page.host == "0.0.0.0" and page.tls_cert is None
    assert container["ports"] == [{"name": "http", "containerPort": page.port}]
    asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")}
    assert {kind: (one["path"], one["port"]) for kind, one in asked.items()} == {
        "startup": ("/healthz", "http"),
        "readiness": ("/readyz", "http"),
        "liveness": ("/healthz", "http"),
    }
    labels = of_kind("Deployment")["page"]["spec"]["template"]["metadata"]["labels"]
    assert of_kind("Deployment")["page"]["spec"]["selector"]["matchLabels"] == labels
    service, policy = of_kind("Service")["page"]["spec"], of_kind("NetworkPolicy")["page"]["spec"]
    assert service["selector"] == policy["podSelector"]["matchLabels"] == labels
    assert service["ports"] == [{"name": "http", "port": page.port, "targetPort": "http"}]
    assert [one["port"] for rule in policy["ingress"] for one in rule["ports"]] == [page.port]


def test_explainers_are_scaled_by_their_lag_up_to_what_partitions_feed() -> None:
    scaler = of_kind("HorizontalPodAutoscaler")["explainer"]["spec"]
    assert scaler["maxReplicas"] == load(environment=SETTINGS).topics.requests
    (metric,) = scaler["metrics"]
    assert metric["pods"]["metric"]["name"] in {one.name for one in ALL}
    assert "replicas" not in WORKERS["explainer"]["spec"], "or applying it again would undo the scaling"
    assert scaler["scaleTargetRef"]["name"] == "explainer"


def test_without_the_programs_of_a_control_plane_none_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for there in ("etcd", "kubectl", "openssl"):
        (tmp_path / there).touch(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main() == NO_PROGRAMS
    said = capsys.readouterr().err
    assert "expected KUBEBUILDER_ASSETS to name a folder with etcd, kube-apiserver and kube-controller-manager" in said
    assert said.rstrip().endswith("missing: kube-apiserver, kube-controller-manager")
