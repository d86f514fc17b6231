"""The manifests and the chart in a control plane of Kubernetes: `./ops/test --cluster`.

    KUBEBUILDER_ASSETS=FOLDER python -m tests.support.cluster

FOLDER has the programs etcd, kube-apiserver and kube-controller-manager. They are started on ports of this machine,
with data in a temporary folder, so that no cluster of yours is touched; kubectl and Helm talk to them. There are no
kubelets: this program binds pods to made-up nodes, says that they are ready, and removes those that are to end. So none
of our containers runs. What is shown is what the API server and the controllers make of our files:

- they are accepted by strict validation, without a warning, in a namespace that enforces the pod security standard
  `restricted`, from a user who has only the role `edit` there;
- applied again, they change nothing;
- every stage gets its pods, and the autoscaler the least number of explainers;
- another image or setting replaces every pod; a drained node is left, and the disruption budgets hold;
- what is uninstalled leaves nothing but the secrets.

Exit code 0: all is as it should be; 1: it is not; 77: programs are missing, and nothing was run.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.containers import Failure, say, wait

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS, CHART = ROOT / "ops" / "kubernetes", ROOT / "ops" / "helm"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
NO_PROGRAMS = 77
NODES = ("node-a", "node-b")
USER = "deployer"
"""May only edit the namespaces of the two deployments."""
SECRETS = {
    "glasstream-hmac-key": "hmac_key",
    "glasstream-page-token": "token",
    "glasstream-notify": "url",
}


def run(*words: str, given: str | None = None, env: dict[str, str] | None = None) -> str:
    """Return what a command printed, its warnings too."""
    done = subprocess.run(words, input=given, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failure(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def control_plane(programs: Path) -> Iterator[Path]:
    """Start etcd, the API server and the controllers, and yield the file by which kubectl reaches them as an admin."""
    with ExitStack() as stack:
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="glasstream-cluster-")))
        port, client, peer = free_port(), free_port(), free_port()
        key, token = data / "accounts.key", secrets.token_hex(16)
        run("openssl", "genrsa", "-out", str(key), "2048")
        (data / "tokens.csv").write_text(f'{token},admin,1,"system:masters"\n', encoding="utf-8")
        kubeconfig = data / "kubeconfig"
        cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        described = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
            "current-context": "here",
        }
        kubeconfig.write_text(json.dumps(described), encoding="utf-8")

        def start(name: str, *options: str) -> None:
            log = stack.enter_context((data / f"{name}.log").open("w"))
            process = subprocess.Popen([str(programs / name), *options], stdout=log, stderr=log, cwd=data)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start(
            "etcd",
            f"--data-dir={data / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            "--unsafe-no-fsync",
        )
        start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{client}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={data}",
            f"--token-auth-file={data / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={key}",
            f"--service-account-key-file={key}",
        )
        kubectl = ("kubectl", f"--kubeconfig={kubeconfig}")
        ready = (*kubectl, "get", "--raw", "/readyz")
        try:
            wait(
                "the API server is ready",
                lambda: subprocess.run(ready, capture_output=True, check=False).returncode == 0,
            )
        except Failure as failure:
            logs = "".join((data / f"{name}.log").read_text()[-2_000:] for name in PROGRAMS[:2])
            raise Failure(f"{failure}\n{logs}") from None
        # Nodes without a kubelet would be given up.
        off = "-node-lifecycle-controller,-taint-eviction-controller"
        start(
            "kube-controller-manager",
            f"--kubeconfig={kubeconfig}",
            f"--controllers=*,{off}",
            f"--service-account-private-key-file={key}",
            "--leader-elect=false",
            f"--cert-dir={data}",
        )
        yield kubeconfig


class Namespace:
    """A namespace, the user who may edit it, and what stands in for its kubelets."""

    def __init__(self, kubeconfig: Path, name: str) -> None:
        self.kubeconfig, self.name = kubeconfig, name
        restricted = [f"pod-security.kubernetes.io/{mode}=restricted" for mode in ("enforce", "warn")]
        self.admin("create", "namespace", name)
        self.admin("label", "namespace", name, *restricted)
        self.admin("create", "rolebinding", USER, "--clusterrole=edit", f"--user={USER}")
        wait("the namespace has its account", lambda: "default" in self.admin("get", "serviceaccounts"))
        for secret, entry in SECRETS.items():
            self.kubectl("create", "secret", "generic", secret, f"--from-literal={entry}={secrets.token_hex(32)}")

    def admin(self, *words: str, given: str | None = None) -> str:
        """Return what kubectl prints for an administrator."""
        return run("kubectl", f"--kubeconfig={self.kubeconfig}", f"--namespace={self.name}", *words, given=given)

    def kubectl(self, *words: str) -> str:
        """Return what kubectl prints for the user."""
        return self.admin(f"--as={USER}", *words)

    def helm(self, *words: str) -> str:
        """Return what Helm prints for the user."""
        helm = Path(sys.executable).parent / "helm"
        options = (f"--kubeconfig={self.kubeconfig}", f"--namespace={self.name}", f"--kube-as-user={USER}")
        return run(str(helm), *words, *options)

    def items(self, kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.admin("get", kind, "--output=json"))["items"]
        return found

    def generations(self, kind: str) -> dict[str, int]:
        return {one["metadata"]["name"]: one["metadata"]["generation"] for one in self.items(kind)}

    def pods(self) -> dict[str, dict[str, Any]]:
        return {pod["metadata"]["name"]: pod for pod in self.items("pods")}

    def kubelets(self) -> None:
        """Bind pods to nodes, say that they are ready, and remove those that are to end."""
        cordoned = {one["metadata"]["name"] for one in self.items("nodes") if one["spec"].get("unschedulable")}
        nodes = [name for name in NODES if name not in cordoned]
        for name, pod in self.pods().items():
            if "deletionTimestamp" in pod["metadata"]:
                self.admin("delete", "pod", name, "--grace-period=0", "--force", "--ignore-not-found")
            elif "nodeName" not in pod["spec"]:
                on = nodes[int(pod["metadata"]["labels"].get("apps.kubernetes.io/pod-index", 0)) % len(nodes)]
                target = {"apiVersion": "v1", "kind": "Node", "name": on}
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
                where = f"/api/v1/namespaces/{self.name}/pods/{name}/binding"
                self.admin("create", "--raw", where, "--filename=-", given=json.dumps(binding))
            elif not ready(pod):
                status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
                self.admin("patch", "pod", name, "--subresource=status", f"--patch={json.dumps(status)}")

    def settled(self) -> bool:
        """Return whether every stage has all of its pods, ready and made from its newest template."""
        self.kubelets()
        sets, pods = self.items("statefulsets"), self.pods()
        for one in sets + self.items("deployments"):
            status, wanted = one["status"], one["spec"]["replicas"]
            if status.get("observedGeneration") != one["metadata"]["generation"]:
                return False
            if (status.get("readyReplicas"), status.get("updatedReplicas")) != (wanted, wanted):
                return False
        explainers = [name for name in pods if name.startswith("explainer-")]
        return len(explainers) == 2 and all(
            ready(pod) and "deletionTimestamp" not in pod["metadata"] for pod in pods.values()
        )

    def replaced(self, before: dict[str, dict[str, Any]]) -> None:
        """Wait until no pod is one of those before."""
        old = {pod["metadata"]["uid"] for pod in before.values()}
        wait(
            f"every pod of {self.name} is replaced",
            lambda: self.settled() and not old & {pod["metadata"]["uid"] for pod in self.pods().values()},
        )

    def is_empty(self) -> bool:
        """Return whether everything that a deployment makes is gone."""
        self.kubelets()
        kinds = "statefulsets,deployments,services,poddisruptionbudgets,networkpolicies,horizontalpodautoscalers,pods"
        left = [one for one in self.items(f"{kinds},configmaps") if one["metadata"]["name"] != "kube-root-ca.crt"]
        return not left


def ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def without_warnings(printed: str) -> str:
    if "warning" in printed.lower():
        raise Failure(f"expected no warning, got\n{printed}")
    return printed


def check_manifests(kubeconfig: Path) -> None:
    """Apply the Kustomize folder, change it, drain a node, and delete everything."""
    here = Namespace(kubeconfig, "manifests")
    apply = ("apply", "--validate=strict", "--kustomize")
    say(without_warnings(here.kubectl(*apply, str(MANIFESTS))))
    wait("all pods are there", here.settled)
    budgets = here.generations("poddisruptionbudgets")
    again = without_warnings(here.kubectl(*apply, str(MANIFESTS)))
    # kubectl replaces the selector of a budget whether it is the same or not, and says that it has been configured.
    lines = [line for line in again.splitlines() if not line.startswith("poddisruptionbudget")]
    if changed := [line for line in lines if not line.endswith("unchanged")]:
        raise Failure(f"expected nothing to change when the manifests are applied again, got {changed}")
    if here.generations("poddisruptionbudgets") != budgets:
        raise Failure("expected no budget to change when the manifests are applied again")
    here.kubectl("diff", "--server-side", "--field-manager=other", "--force-conflicts", "--kustomize", str(MANIFESTS))
    pods = here.pods()
    say(f"applied again, nothing changes; pods: {', '.join(sorted(pods))}")

    with tempfile.TemporaryDirectory() as folder:
        overlay = Path(folder) / "overlay"
        shutil.copytree(MANIFESTS, Path(folder) / "kubernetes")
        overlay.mkdir()
        images = "images: [{ name: glasstream, newName: glasstream, newTag: another }]"
        (overlay / "kustomization.yaml").write_text(f"resources: [../kubernetes]\n{images}\n", encoding="utf-8")
        without_warnings(here.kubectl(*apply, str(overlay)))
        here.replaced(pods)
    used = {one["image"] for pod in here.pods().values() for one in pod["spec"]["containers"]}
    if used != {"glasstream:another"}:
        raise Failure(f"expected every container to have the other image, got {used}")
    say("another image: every pod is replaced")

    drained = here.pods()
    here.admin("cordon", NODES[0])
    on_it = [name for name, pod in drained.items() if pod["spec"]["nodeName"] == NODES[0]]
    if not {"explainer-0", "learner-0"} <= set(on_it):
        raise Failure(f"expected a learner and an explainer on {NODES[0]}, got {on_it}")
    evict(here, "explainer-0")
    try:  # the first has not come back
        evict(here, "explainer-1")
    except Failure as refused:
        if "disruption budget" not in str(refused):
            raise
    else:
        raise Failure("expected the disruption budget to keep the second explainer, but it was evicted")
    wait("the explainer is back", here.settled)
    for name in on_it:
        wait(f"{name} may leave {NODES[0]}", lambda name=name: left(here, name))  # type: ignore[misc]
    wait("all pods are there", here.settled)
    if any(pod["spec"]["nodeName"] == NODES[0] for pod in here.pods().values()):
        raise Failure(f"expected {NODES[0]} to be empty")
    here.admin("uncordon", NODES[0])
    say(f"drained: {', '.join(on_it)} left {NODES[0]}; meanwhile the disruption budget kept the second explainer")

    here.kubectl("delete", "--kustomize", str(MANIFESTS))
    wait("nothing is left", here.is_empty)
    say("deleted: nothing is left but the secrets")


def evict(here: Namespace, name: str) -> None:
    """Evict a pod as `kubectl drain` does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": here.name}}
    where = f"/api/v1/namespaces/{here.name}/pods/{name}/eviction"
    here.admin("create", "--raw", where, "--filename=-", given=json.dumps(eviction))


def left(here: Namespace, name: str) -> bool:
    """Evict a pod if it is on the first node and its budget allows, and return whether it is elsewhere."""
    pod = here.pods().get(name)
    if pod is not None and pod["spec"].get("nodeName") == NODES[0]:
        try:
            evict(here, name)
        except Failure as refused:
            if "disruption budget" not in str(refused):
                raise
    return here.settled() and here.pods().get(name, {"spec": {}})["spec"].get("nodeName") != NODES[0]


def check_chart(kubeconfig: Path) -> None:
    """Install the chart, upgrade it, change a setting, and uninstall it."""
    here = Namespace(kubeconfig, "chart")
    without_warnings(here.helm("install", "glasstream", str(CHART)))
    wait("all pods are there", here.settled)
    pods = here.pods()
    without_warnings(here.helm("upgrade", "glasstream", str(CHART), "--reset-then-reuse-values"))
    wait("all pods are there", here.settled)
    if {name: pod["metadata"]["uid"] for name, pod in here.pods().items()} != {
        name: pod["metadata"]["uid"] for name, pod in pods.items()
    }:
        raise Failure("expected an upgrade that changes nothing to replace no pod")
    setting = "settings.GLASSTREAM_EXPLAIN_METHODS=ipfi\\,isage"
    without_warnings(here.helm("upgrade", "glasstream", str(CHART), "--reset-then-reuse-values", f"--set={setting}"))
    here.replaced(pods)
    say(f"chart installed ({', '.join(sorted(pods))}) and upgraded; another setting: every pod is replaced")
    here.helm("uninstall", "glasstream")
    wait("nothing is left", here.is_empty)
    say("uninstalled: nothing is left but the secrets")


def lacking(programs: str | None) -> Sequence[str]:
    """Return the programs that are missing."""
    if programs is None:
        return PROGRAMS
    absent = [name for name in PROGRAMS if not os.access(Path(programs) / name, os.X_OK)]
    return absent + [name for name in ("kubectl", "openssl") if shutil.which(name) is None]


def main() -> int:
    """Return the exit code."""
    programs = os.environ.get("KUBEBUILDER_ASSETS")
    if absent := lacking(programs):
        print(
            "nothing was run: expected KUBEBUILDER_ASSETS to name a folder with etcd, kube-apiserver and "
            f"kube-controller-manager, and kubectl and openssl on the path; missing: {', '.join(absent)}",
            file=sys.stderr,
        )
        return NO_PROGRAMS
    assert programs is not None
    try:
        with control_plane(Path(programs)) as kubeconfig:
            admin = ("kubectl", f"--kubeconfig={kubeconfig}")
            say(run(*admin, "get", "--raw", "/version"))
            for name in NODES:
                node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
                run(*admin, "create", "--filename=-", given=json.dumps(node))
            check_manifests(kubeconfig)
            check_chart(kubeconfig)
    except Failure as failure:
        print(f"failed: {failure}", file=sys.stderr)
        return 1
    say("all is as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
