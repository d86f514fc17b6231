"""The experiments by name. Modules are imported when they are needed: some load scikit-learn."""

from importlib import import_module
from typing import Final

from glasstream.research.papers.experiment import Experiment

EXPERIMENTS: Final = {
    "ipfi-table1": "ipfi_table1:Table1",
    "ipfi-drift": "ipfi_drift:Drift",
    "ipfi-laws": "ipfi_laws:Laws",
    "isage-truth": "isage_truth:Truth",
    "isage-static": "isage_static:Static",
    "isage-bounds": "isage_bounds:Bounds",
    "ipdp-law": "ipdp_law:Law",
    "ipdp-hyperplane": "ipdp_streams:Hyperplane",
    "ipdp-agrawal": "ipdp_streams:Agrawal",
    "ipdp-elec2": "ipdp_streams:Elec2",
    "gbmap-table4": "gbmap_table4:Table4",
    "gbmap-knn": "gbmap_knn:Knn",
    "gbmap-drift": "gbmap_drift:Drift",
}
"""Module and class of each experiment."""


def experiment(name: str) -> Experiment:
    """Return an experiment of `EXPERIMENTS`."""
    module, _, kind = EXPERIMENTS[name].partition(":")
    found: Experiment = getattr(import_module(f"glasstream.research.papers.{module}"), kind)()
    return found
