"""The manifests of `ops/kubernetes`, which the Helm chart of `ops/helm` renders.

`python -m tests.support.manifests` writes them after a change of the chart: all stages with the chart's values, a file
for each component.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.paths import ROOT

CHART: Final = ROOT / "ops" / "helm"
FOLDER: Final = ROOT / "ops" / "kubernetes"
_FOUND: Final = shutil.which("helm", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
HELM: Final = _FOUND or ("helm" if os.environ.get("CI") == "true" else None)
"""The Helm of this environment, else the first on the path; None without one, except in CI, where it must be there."""
_KINDS: Final = (
    *("ConfigMap", "StatefulSet", "Deployment", "Service"),
    *("PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy"),
)
"""Their order in a file."""
_CHECKSUM: Final = re.compile(r" +checksum/settings: .*\n")
"""It replaces pods when Helm gets other settings; in a file it would be a fixed text."""
_EMPTY: Final = re.compile(r" +annotations:\n(?= *spec:)")
_WRITTEN: Final = "# Written by python -m tests.support.manifests from the chart in ops/helm.\n"


def values() -> dict[str, Any]:
    """Return the chart's own values."""
    return yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def helm(*arguments: str) -> str:
    """Return what Helm prints.

    Raises
    ------
    subprocess.CalledProcessError
        It refuses the chart or the values.
    """
    return subprocess.run([HELM or "helm", *arguments], check=True, capture_output=True, text=True).stdout


def render(*arguments: str) -> list[str]:
    """Return the manifests of a release, as texts."""
    text = helm("template", "glasstream", str(CHART), *arguments)
    return [re.sub(r"^# Source: .*\n", "", one) for one in re.split(r"^---\n", text, flags=re.MULTILINE) if one.strip()]


def files() -> dict[str, str]:
    """Return the files of `ops/kubernetes` that are rendered, by name."""
    everything = [word for stage in values()["stages"] for word in ("--set", f"stages.{stage}.enabled=true")]
    found: dict[str, list[str]] = {}
    for text in sorted(render(*everything), key=lambda text: _KINDS.index(yaml.safe_load(text)["kind"])):
        component = yaml.safe_load(text)["metadata"]["labels"].get("app.kubernetes.io/component", "common")
        found.setdefault(f"{component}.yaml", []).append(_EMPTY.sub("", _CHECKSUM.sub("", text)))
    return {name: _WRITTEN + "---\n".join(texts) for name, texts in found.items()}


if __name__ == "__main__":
    written = files()
    for path in FOLDER.glob("*.yaml"):
        if path.name not in written and path.name != "kustomization.yaml":
            path.unlink()
    for name, text in written.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
