"""Advice for texts that are not JSON, derived from what is at the place of the mistake."""

import re

import orjson

NO_NAN = "; JSON has no NaN and no infinities: send null instead"
_NO_NUMBER = re.compile(r"(nan|inf(inity)?)\b", re.IGNORECASE)
_WORD = re.compile(r"(None|True|False|undefined)\b")


def json_advice(error: orjson.JSONDecodeError) -> str:
    """Return what to do about a mistake, as the end of a sentence; empty if only the writer can know.

    >>> for text in ('{"a": NaN}', '{"a": 1e999}', "{'a': 1}", '{"a": None}', '{"a": 1}{"a": 2}', '{"a": '):
    ...     try:
    ...         orjson.loads(text)
    ...     except orjson.JSONDecodeError as error:
    ...         print(json_advice(error))
    ; JSON has no NaN and no infinities: send null instead
    ; numbers must fit into a double: send null instead
    ; JSON has double quotes: write it with a JSON library
    ; JSON has null, true and false: write it with a JSON library
    ; a message holds one JSON value: put several into an array
    ; the message is not complete
    """
    if "byte order mark" in error.msg:
        return "; write the message in UTF-8 without a byte order mark"
    rest = error.doc[error.pos : error.pos + 20]
    if _NO_NUMBER.match(rest):
        return NO_NAN
    if "infinity" in error.msg:
        return "; numbers must fit into a double: send null instead"
    if rest.startswith("'"):
        return "; JSON has double quotes: write it with a JSON library"
    if _WORD.match(rest):
        return "; JSON has null, true and false: write it with a JSON library"
    if "after document" in error.msg:
        return "; a message holds one JSON value: put several into an array"
    return "; the message is not complete" if "unexpected end" in error.msg else ""
