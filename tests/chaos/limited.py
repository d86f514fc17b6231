"""A worker whose memory the kernel limits, and what its metrics say."""

import re
import urllib.request
from pathlib import Path

import psutil


def limit(worker: psutil.Process, cgroup: Path | None, mib: int) -> None:
    """Limit the memory of a worker by an empty group of the memory controller (version 1); None limits nothing."""
    if cgroup is not None:
        (cgroup / "memory.limit_in_bytes").write_text(str(mib * 2**20), encoding="ascii")
        (cgroup / "cgroup.procs").write_text(str(worker.pid), encoding="ascii")


def lives(worker: psutil.Process) -> bool:
    """Return whether the process of a worker still runs."""
    return worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE


def metrics(port: int) -> str:
    """Return the metrics of the worker whose health is at this port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def total(text: str, name: str, label: str = "") -> int:
    """Return the sum of a metric over all label sets that contain `label`."""
    found = re.findall(rf"^{name}{{.*{re.escape(label)}.*}} (\S+)$", text, re.MULTILINE)
    return round(sum(map(float, found)))
