"""The Helm chart, as far as it can be checked without a cluster: what Helm and the schemas of Kubernetes say."""

import re
import subprocess
import tomllib
from typing import Any

import kubernetes_validate
import pytest
import yaml

from glasstream.app.configuration import ENVIRONMENT, NOT_SETTINGS, SECRET_SETTINGS
from tests.support.manifests import CHART, FOLDER, HELM, files, helm, render, values
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(not HELM, reason="no Helm: install it; pip brings one on x86-64 only")
VERSION = "1.31"
STAGES = list(values()["stages"])


def objects(*arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    found = [yaml.safe_load(text) for text in render(*arguments)]
    for one in found:
        kubernetes_validate.validate(one, VERSION, strict=True)
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def test_helm_finds_no_fault() -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHART))


def test_the_manifests_are_what_the_chart_renders() -> None:
    """`python -m tests.support.manifests` writes them."""
    committed = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")}
    committed.pop("kustomization.yaml")
    assert committed == files()


def test_the_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]


def test_by_default_a_release_has_what_explains_a_stream_and_the_page() -> None:
    workers = [name for kind, name in objects() if kind == "StatefulSet"]
    assert sorted(workers) == ["aggregator", "explainer", "learner"]
    assert ("Deployment", "page") in objects() and ("Deployment", "page") not in objects("--set", "page.enabled=false")


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_brings_all_that_belongs_to_it_and_nothing_else(stage: str) -> None:
    others = [word for one in STAGES for word in ("--set", f"stages.{one}.enabled={str(one == stage).lower()}")]
    found = objects("--set", "page.enabled=false", *others)
    names = {kind: {name for other, name in found if other == kind} for kind, _ in found}
    assert names["StatefulSet"] == names["PodDisruptionBudget"] == {stage}
    assert names["NetworkPolicy"] == {"glasstream"} | ({stage} if values()["stages"][stage].get("ports") else set())
    assert names.get("HorizontalPodAutoscaler", set()) == ({stage} if stage == "explainer" else set())


def test_without_autoscaling_the_explainers_are_as_many_as_the_values_say() -> None:
    assert "replicas" not in objects()["StatefulSet", "explainer"]["spec"]
    fixed = objects("--set", "stages.explainer.autoscaling.enabled=false", "--set", "stages.explainer.replicas=5")
    assert fixed["StatefulSet", "explainer"]["spec"]["replicas"] == 5
    assert ("HorizontalPodAutoscaler", "explainer") not in fixed


def test_other_settings_replace_the_pods_and_the_same_do_not() -> None:
    def pods(*arguments: str) -> list[dict[str, Any]]:
        kinds = ("StatefulSet", "Deployment")
        return [one["spec"]["template"] for (kind, _), one in objects(*arguments).items() if kind in kinds]

    other = pods("--set", "settings.GLASSTREAM_MODEL_NAME=forest")
    assert pods() == pods() and all(one != before for one, before in zip(other, pods(), strict=True))


OF_SECRETS = [f"{ENVIRONMENT}{name}" for name in NOT_SETTINGS if re.match("HMAC_KEY|NOTIFY|PAGE_TOKEN|.*LOGIN$", name)]


@pytest.mark.parametrize(
    "name", [*SECRET_SETTINGS, *sorted(OF_SECRETS), "GLASSTREAM_WORKER_INSTANCE", "GLASSTREAM_HEALTH_PORT"]
)
def test_settings_hold_no_secret_and_nothing_that_the_chart_sets(name: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        render("--set-string", f"settings.{name}=x")
    assert name in caught.value.stderr


def test_the_files_of_the_users_volumes_reach_every_container_of_a_pod() -> None:
    """With them the page can have a certificate, and every stage an authority of its own for Kafka."""
    mounts = ("--set", "extraVolumeMounts[0].name=tls", "--set", "extraVolumeMounts[0].mountPath=/run/tls")
    volumes = ("--set", "extraVolumes[0].name=tls", "--set", "extraVolumes[0].secret.secretName=page-tls")
    environment = ("--set", "extraEnv[0].name=HTTPS_PROXY", "--set", "extraEnv[0].value=http://proxy")
    found = objects(*mounts, *volumes, *environment, "--set", "page.scheme=HTTPS")
    for kind, name in (("StatefulSet", "learner"), ("Deployment", "page")):
        pod = found[kind, name]["spec"]["template"]["spec"]
        assert {"name": "tls", "secret": {"secretName": "page-tls"}} in pod["volumes"]
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert {"name": "tls", "mountPath": "/run/tls"} in container["volumeMounts"]
        assert {"name": "HTTPS_PROXY", "value": "http://proxy"} in pod["containers"][0]["env"]
    (page,) = found["Deployment", "page"]["spec"]["template"]["spec"]["containers"]
    assert {page[f"{probe}Probe"]["httpGet"]["scheme"] for probe in ("startup", "readiness", "liveness")} == {"HTTPS"}


def test_labels_and_annotations_of_pods_are_added_to_those_of_the_chart() -> None:
    added = ("--set", "podLabels.team=risk", "--set", "podAnnotations.owner=risk")
    plain, pod = (objects(*one)["StatefulSet", "learner"]["spec"]["template"]["metadata"] for one in ((), added))
    assert pod["labels"] == plain["labels"] | {"team": "risk"}
    assert pod["annotations"] == plain["annotations"] | {"owner": "risk"}


def test_a_chart_that_contains_this_one_may_turn_it_on() -> None:
    assert objects("--set", "enabled=true", "--set", "global.region=eu") == objects()


def test_a_digest_comes_before_a_tag() -> None:
    digest = "sha256:" + "0" * 64
    given = ("--set", "image.repository=registry.example/glasstream", "--set-string", "image.tag=1")
    for arguments, image in (
        (given, "registry.example/glasstream:1"),
        ((*given, "--set", f"image.digest={digest}"), f"registry.example/glasstream@{digest}"),
    ):
        pod = objects(*arguments)["StatefulSet", "learner"]["spec"]["template"]["spec"]
        assert {one["image"] for one in (*pod["initContainers"], *pod["containers"])} == {image}


def test_where_pods_may_run_and_how_images_are_pulled() -> None:
    arguments = ("--set", "nodeSelector.disk=ssd", "--set", "imagePullSecrets[0].name=registry")
    tolerated = ("--set", "tolerations[0].key=stream", "--set", "tolerations[0].operator=Exists")
    found = objects(*arguments, *tolerated)
    for kind, name in (("StatefulSet", "learner"), ("Deployment", "page")):
        pod = found[kind, name]["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"disk": "ssd"} and pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["tolerations"] == [{"key": "stream", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("stages.lerner.enabled=true", "lerner"),
        ("stages.learner.replica=2", "replica"),
        ("settings.MODEL=tree", "MODEL"),
        ("image.digest=latest", "digest"),
        ("page.scheme=FTP", "scheme"),
        ("kafkaPorts[0]=0", "kafkaPorts"),
        ("stages.notify=null", "notify"),
        ("monitoringNamespace=null", "monitoringNamespace"),
    ],
)
def test_values_that_the_chart_does_not_know_are_refused(wrong: str, named: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        render("--set-string" if wrong.startswith("settings") else "--set", wrong)
    assert named in caught.value.stderr
    assert "values don't meet the specifications of the schema" in caught.value.stderr


def test_more_explainers_at_least_than_at_most_are_refused() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        render("--set", "stages.explainer.autoscaling.minReplicas=9")
    assert "expected minReplicas up to maxReplicas" in caught.value.stderr
