"""The Helm chart, as far as it can be checked without a cluster: what Helm and the schemas of Kubernetes say."""

import os
import subprocess
import tomllib
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.manifests import CHART, FOLDER, HELM, files, helm, render, values
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(
    not HELM and os.environ.get("CI") != "true", reason="no Helm: install it; pip brings one on x86-64 only"
)
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
    ("wrong", "said"),
    [
        ("stages.lerner.enabled=true", "lerner"),
        ("stages.learner.replica=2", "replica"),
        ("settings.MODEL=tree", "MODEL"),
        ("settings.GLASSTREAM_HEALTH_PORT=1", "GLASSTREAM_HEALTH_PORT"),
        ("image.digest=latest", "digest"),
        ("page.scheme=FTP", "scheme"),
        ("kafkaPorts[0]=0", "kafkaPorts"),
    ],
)
def test_values_that_the_chart_does_not_know_are_refused(wrong: str, said: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        render("--set-string" if wrong.startswith("settings") else "--set", wrong)
    assert said in caught.value.stderr and "values don't meet the specifications of the schema" in caught.value.stderr
