"""Nothing is forgotten: every form is registered, and every form, family and transformer has an example."""

import importlib
import inspect
import pkgutil

import pytest

from glasstream.base.errors import NotCompilable
from glasstream.models.codec.serialization import FORMS
from glasstream.models.onnx.translate import translate
from glasstream.models.predictors import kernels
from glasstream.models.river.compile import FAMILIES
from glasstream.models.river.transformers import TRANSFORMERS
from tests.support.model_examples import EXAMPLES, parts
from tests.support.onnx_exports import described


def test_every_form_is_registered():
    found = set()
    for module in pkgutil.iter_modules(kernels.__path__):
        for _, kind in inspect.getmembers(
            importlib.import_module(f"{kernels.__name__}.{module.name}"), inspect.isclass
        ):
            if isinstance(vars(kind).get("form"), str):
                found.add(kind)
    assert found == set(FORMS.values())


def test_every_family_and_transformer_has_an_example():
    met = {type(part) for example in EXAMPLES.values() for part in parts(example.make())}
    assert set(FAMILIES) | set(TRANSFORMERS) <= met


def test_every_form_has_an_example(learned_examples):
    def inside(predictor):
        yield predictor
        for part in getattr(predictor, "parts", ()):
            yield from inside(part)

    met = {type(one) for watched in map(learned_examples.__getitem__, EXAMPLES) for one in inside(watched.compiled())}
    met |= {type(one) for name in ("forest", "line") for one in inside(translate(described(name)))}
    assert met == set(FORMS.values())


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda kind: kind.__name__)
def test_a_subclass_is_not_taken_for_its_family(kind, watch):
    own = type("Own", (kind,), {})
    model = next(part for example in EXAMPLES.values() for part in parts(example.make()) if type(part) is kind)
    model.__class__ = own
    watched = watch(model, FAMILIES[kind].keys is not None)
    with pytest.raises(NotCompilable, match="Own has no compiled form"):
        watched.compiled()
