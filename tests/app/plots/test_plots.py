"""Plots show what the records say, and say what they lack."""

import sys
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from river import tree

from glasstream.app.command.plot import plot, read_records
from glasstream.app.plots.canvas import apart, named
from glasstream.app.plots.effects import plot_effects
from glasstream.app.plots.embedding import plot_embedding, principal_components
from glasstream.app.plots.importance import plot_importance
from glasstream.base.errors import InputError
from glasstream.explain.estimators.ipdp import IncrementalPDP

PNG = b"\x89PNG"


def importance(stream: str = "s", method: str = "ipfi", interval: float | None = 0.1) -> list[dict[str, Any]]:
    """Three features; c appears late and is the most important at the end."""
    records = []
    for row in range(0, 1_000, 100):
        values = {"a": 0.5 - row / 4_000, "b": 0.001} | ({"c": 0.6} if row >= 500 else {})
        features = {
            name: {
                "value": value,
                "low": None if interval is None else value - interval,
                "high": None if interval is None else value + interval,
            }
            for name, value in values.items()
        }
        records.append({"stream": stream, "row": row, "method": method, "loss": "zero_one", "features": features})
    return records


def effects(output: str | None = None) -> list[dict[str, Any]]:
    """A number and a category, at two moments."""
    records = []
    for row in (100, 900):
        common = {"stream": "s", "row": row, "output": output, "n": row, "importance": row / 1_000}
        own = {"grid": [0.0, 1.0], "curve": [0.2, 0.4]}
        number = {"feature": "size", "kind": "numeric", "grid": [0.0, row / 100], "curve": [0.1, 0.3], "ice": [own]}
        towns = ["oslo", "rome"] if row == 900 else ["rome"]
        text = {"feature": "town", "kind": "categorical", "grid": towns, "curve": [0.5] * len(towns), "ice": None}
        records += [common | number | {"margin": [None, 0.25]}]
        records += [common | text | {"margin": [0.25] * len(towns)}]
    return records


def test_a_line_is_what_its_feature_had_and_its_band_the_interval() -> None:
    (axes,) = plot_importance(importance()).axes
    lines = [line for line in axes.lines if len(line.get_xdata()) in (5, 10)]
    assert sorted(float(line.get_ydata()[-1]) for line in lines) == pytest.approx([0.001, 0.275, 0.6])
    assert min(line.get_xdata()[0] for line in lines if len(line.get_xdata()) == 5) == 500
    assert len(axes.collections) == 3
    assert {text.get_text() for text in axes.texts} == {"a", "b", "c"}


def test_without_an_interval_there_is_no_band() -> None:
    (axes,) = plot_importance(importance(interval=None)).axes
    assert not axes.collections


def test_features_beyond_the_top_are_not_named() -> None:
    (axes,) = plot_importance(importance(), top=1).axes
    assert {text.get_text() for text in axes.texts} == {"c", "others: grey"}
    assert len(axes.collections) == 1


def test_every_method_has_a_panel() -> None:
    both = importance() + importance(method="isage")
    assert [axes.get_title(loc="left") for axes in plot_importance(both).axes] == ["iPFI", "iSAGE"]
    assert len(plot_importance(both, method="isage").axes) == 1


def test_an_incident_is_marked_from_its_onset_to_its_newest_record() -> None:
    incidents: list[dict[str, Any]] = [
        {"stream": stream, "epoch": 0, "incident": number, "row": row, "onset": {"row": onset}, "rule": rule}
        for stream, number, row, onset, rule in (
            *(("s", 1, 300, 250, "same"), ("s", 1, 500, 200, "other"), ("s", 3, 900, 800, None)),
            *(("other", 1, 999, 100, "same"), ("s", 2, 999, 100, "unlabelled")),
        )
    ]
    figure = plot_importance(importance() + importance(method="isage"), incidents=incidents)
    for axes in figure.axes:
        spans = [patch.get_bbox() for patch in axes.patches]
        assert [(span.x0, span.x1) for span in spans] == [(200, 500), (800, 900)]
        assert [text.get_text().strip() for text in axes.texts if text.get_text().strip().isdigit()] == ["1", "3"]


def test_one_record_is_a_plot_too() -> None:
    assert plot_importance(importance()[:1])._repr_png_().startswith(PNG)


def test_several_streams_are_not_mixed() -> None:
    records = importance() + importance(stream="other")
    with pytest.raises(InputError, match="other, s; choose one"):
        plot_importance(records)
    assert plot_importance(records, stream="other")._suptitle.get_text() == "Importance, stream other"
    with pytest.raises(InputError, match="got none"):
        plot_importance(records, stream="third")


def test_an_effect_shows_its_newest_curve_the_earlier_ones_and_single_rows() -> None:
    figure = plot_effects(effects())
    town, size = sorted(figure.axes, key=lambda axes: axes.get_title(loc="left"), reverse=True)
    curves = [list(map(float, line.get_xdata())) for line in size.lines]
    assert curves == [[0.0, 1.0], [0.0, 1.0], [0.0, 9.0]]  # ICE, earlier, newest
    assert [label.get_text() for label in town.get_xticklabels()] == ["oslo", "rome"]
    assert [len(line.get_xdata()) for line in town.lines] == [1, 2]
    (whiskers,) = town.collections
    assert [path.vertices[:, 1].tolist() for path in whiskers.get_paths()] == [[0.25, 0.75], [0.25, 0.75]]
    (band,) = size.collections
    assert {y for path in band.get_paths() for _, y in path.vertices.round(2).tolist()} <= {0.05, 0.55}
    assert size.get_ylim() == town.get_ylim()
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["row 100", "row 900, the newest", "single rows then (ICE)"]


def test_at_most_so_many_moments_are_drawn() -> None:
    records = [record | {"row": row} for row in range(50) for record in effects()[:1]]
    (axes,) = plot_effects(records, moments=4).axes
    assert len(axes.lines) == 1 + 4


def test_one_class_of_several_is_shown_and_named() -> None:
    records = effects("yes") + effects("no")
    assert plot_effects(records)._suptitle.get_text() == "Effects, stream s, class no of no, yes"
    assert plot_effects(records, output="yes").axes[0].get_ylabel() == "probability of yes"


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(InputError, match="expected effects of colour on the value, got those of size, town"):
        plot_effects(effects(), features=["colour"])
    with pytest.raises(InputError, match="got none"):
        plot_effects([])


def test_an_estimator_can_be_plotted() -> None:
    model = tree.HoeffdingTreeClassifier()
    pdp = IncrementalPDP(model)
    for t in range(60):
        pdp.explain_one(x := {"a": float(t % 7), "day": "mon" if t % 2 else "tue", "open": t % 3 == 0})
        model.learn_one(x, t % 7 > 3)
    assert plot_effects(pdp.effects())._repr_png_().startswith(PNG)


def test_without_matplotlib_the_command_to_install_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "glasstream.app.plots.drawing", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'glasstream\[plot\]'"):
        plot_importance(importance())


@given(st.lists(st.floats(-5, 5), max_size=8), st.floats(0.1, 2.0))
def test_names_are_apart_in_order_and_stay_if_there_is_room(wanted: list[float], gap: float) -> None:
    places = apart(wanted, gap)
    order = sorted(range(len(wanted)), key=lambda k: (wanted[k], places[k]))
    steps = [places[b] - places[a] for a, b in pairwise(order)]
    assert all(step >= gap - 1e-9 for step in steps)
    if all(wanted[b] - wanted[a] >= gap for a, b in pairwise(order)):
        assert places == pytest.approx(wanted)


@pytest.mark.parametrize(("what", "records"), [("importance", importance()), ("effects", effects("yes"))])
def test_the_command_writes_a_png(what: str, records: list[dict[str, Any]], tmp_path: Path) -> None:
    file, out = tmp_path / "records.jsonl", tmp_path / "plot.png"
    file.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    result = CliRunner().invoke(plot, [what, str(file), "--out", str(out)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert out.read_bytes().startswith(PNG)


def test_a_file_that_holds_no_such_records_is_refused_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_bytes(b'{"features": {}}\nnonsense\n')
    with pytest.raises(InputError, match=r"records\.jsonl:2: expected one JSON object per line"):
        list(read_records(file, "features"))
    with pytest.raises(InputError, match=r"records\.jsonl:1: expected a record with 'curve'"):
        list(read_records(file, "curve"))
    with pytest.raises(InputError, match="missing: cannot be read"):
        list(read_records(tmp_path / "missing", "curve"))


def test_an_embedding_lies_along_its_principal_components() -> None:
    draws = np.random.Generator(np.random.PCG64(4))
    points = draws.normal(size=(50, 2)) @ np.array([[3.0, 3.0, 0.0], [0.5, -0.5, 1.0]])
    placed, shares = principal_components(points)
    np.testing.assert_allclose(np.cov(placed.T)[0, 1], 0.0, atol=1e-9)
    assert shares[0] > shares[1] > 0 and shares.sum() == pytest.approx(1.0)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(placed[:, None] - placed[None], axis=2), apart, atol=1e-9)


def test_an_embedding_shows_every_row_and_names_its_classes() -> None:
    points = np.arange(12.0).reshape(6, 2)
    (axes,) = plot_embedding(points, [0, 1, 1, 0, 1, 1], ("low", "high"), "level").axes
    assert sum(len(one.get_offsets()) for one in axes.collections) == 6
    legend = axes.get_legend()
    assert legend.get_title().get_text() == "level"
    assert [text.get_text() for text in legend.get_texts()] == ["high", "low"]
    axes, bar = plot_embedding(points[:, :1], np.arange(6.0), target="price").axes
    assert bar.get_ylabel() == "price" and axes.get_ylabel() == "second principal component (0%)"


def test_letters_that_the_font_lacks_are_the_one_thing_that_is_not_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = plot_embedding(np.arange(12.0).reshape(6, 2), np.arange(6.0), target="目標")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.savefig(tmp_path / "plot.png", format="png")
        assert figure._repr_png_().startswith(PNG)
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda *_, **__: warnings.warn("other", stacklevel=2))
    with pytest.warns(UserWarning, match="other"):
        figure.savefig(tmp_path / "plot.png")


def test_an_embedding_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InputError, match="expected an embedding as float64"):
        plot_embedding([[1.0, float("nan")]], [1.0])


HOSTILE = [
    "a $$ b", "z^{_", "$$$", "$", "fee ($)", "cost $/unit per $", r"\$x\frac", "_hidden", "two\nlines", "a\x1b[2J\x07",
    "[bold]x[/bold]", "<b>&amp;", "x" * 5_000, "\u202egnp", "%s {0}", "", "US$", "A$",
]  # fmt: skip
"""Names of streams, features, classes and categories that mean something to a renderer."""


def texts(figure: Any) -> list[str]:
    """Return the texts of a figure as they were drawn."""
    from matplotlib.text import Text

    figure._repr_png_()
    drawn = figure.findobj(Text)
    assert not any(text.get_parse_math() or text.get_usetex() for text in drawn if text.get_text())
    return [text.get_text() for text in drawn]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_data_in_every_plot(name: str) -> None:
    shown = named(name)
    assert len(shown) <= 60 and "\n" not in shown and "\x1b" not in shown
    lines = [record | {"stream": name, "features": {name: record["features"]["a"]}} for record in importance()]
    found = texts(plot_importance(lines))
    assert shown in found and f"Importance, stream {shown}" in found
    curves = [record | {"stream": name, "output": name, "feature": record["feature"] + name} for record in effects("y")]
    curves = [
        record | ({"grid": [name, *record["grid"]][: len(record["grid"])]} if record["kind"] == "categorical" else {})
        for record in curves
    ]
    found = texts(plot_effects(curves))
    assert f"probability of {shown}" in found and named(name, 25) in found
    assert any(text.startswith(named(f"size{name}")) for text in found)
    found = texts(plot_embedding(np.arange(12.0).reshape(6, 2), [0, 1, 1, 0, 1, 1], (name, "other"), name))
    assert found.count(shown) >= 2 and "other" in found
