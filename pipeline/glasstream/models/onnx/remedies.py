"""What to do about what exporters write: tables from a sign to the way out."""

import re
from typing import Final

LARGE: Final = "export fewer or smaller trees, or a net with fewer weights"
AGAIN: Final = "export the model again, in another way or with another release of the exporter"
TARGETS: Final = "of a model with several targets, export one model for each target"
SINGLE: Final = 'train and export it from float32 numbers: `X.astype("float32")` before `fit` and before the export'
ARRAY: Final = (
    "export the pipeline from an array, as in `to_onnx(model, X[:1].to_numpy())`, and list the columns with "
    "model.features"
)
ONNXRUNTIME: Final = {
    "tensor(double)": SINGLE,
    "tensor(string)": "train it with the numbers 0, 1, 2 and so on as classes, and name them with model.classes",
    "IR version": "install a newer onnxruntime, or export it with a lower target_opset",
    "opset": "install a newer onnxruntime, or export it with a lower target_opset",
    "Could not find an implementation": f"{SINGLE}; if its numbers are float32, convert it to another opset: "
    "`onnx.version_converter.convert_version(model, 15)`",
    "": AGAIN,
}
"""By a part of an error of onnxruntime when it loads a model."""
ROWS: Final = {
    "requests feature": "; the exporter has left out columns, such as those of SimpleImputer(add_indicator=True); "
    "export the model without them",
    "Invalid Y argument": "; the exporter reads one column only for some transformers of a data frame (SelectKBest, "
    f"KBinsDiscretizer): {ARRAY}; it has no working export of RadiusNeighborsClassifier: train another model",
    "Unknown Category": '; train its encoder with handle_unknown="ignore"',
    "": "",
}
"""By a part of an error of onnxruntime about rows."""
OPERATORS: Final = {
    "Tokenizer": "make the columns of the text (CountVectorizer, TfidfVectorizer) features of the events, and export "
    "only the model after it",
    "Solve": "a Gaussian process that classifies has no export that onnxruntime alone evaluates: train another model",
    "": "export the model without custom operators",
}
"""By the name of a custom operator."""
INPUTS: Final = {
    "FLOAT16": "export it with float32 inputs (keep_io_types=True)",
    "map": "make the columns of the DictVectorizer features of the events, and export only the model after it",
    "dimensions": "export it with a table as input (a row for each event), which it reshapes itself",
    "": "export it with inputs of float32, int64 or text",
}
"""By the type of an input that is no table, or `dimensions` for one of a type that can be used."""
_WHERE: Final = re.compile(r"Non-zero status code returned while running (\w+) node.*?Status Message: (.*)", re.DOTALL)
_PLACE: Final = re.compile(r"/\S+:\d+ ")
_PAIRS: Final = {"(": ")", "[": "]"}


def way_out(ways: dict[str, str], text: str) -> str:
    """Return the first way out whose sign is in a text."""
    return next(way for sign, way in ways.items() if sign in text)


def shortened(error: object) -> str:
    """Return an error of onnxruntime without the names of its C++ functions.

    >>> shortened("[E] : 1 : FAIL : Non-zero status code returned while running Mul node. Name:'m' Status Message: "
    ...           "/a/b.h:649 void f::g(A<(B)1>, C) const [with D = int] 4 and 3 do not fit.")
    'Mul: 4 and 3 do not fit'
    """
    text = " ".join(str(error).split())
    found = _WHERE.search(text)
    if found is None:
        return re.sub(r"^\[\w+\] : \d+ : ", "", text)[:300]
    operator, rest = found.groups()
    if place := _PLACE.match(rest):
        rest = rest[place.end() :]
        rest = _after(rest, "(").removeprefix("const ")
        rest = _after(rest, "[") if rest.startswith("[with ") else rest
    return f"{operator}: {rest[:300].rstrip('.')}"


def _after(text: str, opening: str) -> str:
    """Return what follows the first pair of brackets; the text itself without one."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == opening) - (letter == _PAIRS[opening])
        if depth == 0 and letter == _PAIRS[opening]:
            return text[at + 1 :].lstrip()
    return text
