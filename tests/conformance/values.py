"""The rows of scenarios in the two forms that a table's values have: typed columns, or Python objects."""

from typing import Any, Literal

import pyarrow as pa

from tests.conformance.scenario import Input
from tests.reference.recomputed import fk_of, pair

Values = Literal["typed", "opaque"]

VALUE = pa.struct([("text", pa.string()), ("reference", pa.string()), ("number", pa.int64())])
"""A value: its text; the foreign key or group that the text names, ``None`` for none; the number of its
input.
"""

JOINERS: dict[Values, Any] = {
    "typed": {"left": "left.text", "right": "right.text"},
    "opaque": lambda left, right: {"left": left and left["text"], "right": right and right["text"]},
}
"""What Kafka Streams' recorded joiner gives, before it is text: see :func:`pair_of`."""


def value_of(record: Input, prefix: str = "") -> dict[str, Any] | None:
    """A record's value as a row; ``prefix`` is put before all keys."""
    if record.value is None:
        return None
    reference = fk_of(record.value)
    return {"text": record.value, "reference": None if reference is None else prefix + reference, "number": record.number}


def text_of(row: dict[str, Any]) -> str:
    """The text of a value."""
    text: str = row["text"]
    return text


def pair_of(row: dict[str, Any]) -> str:
    """The text of a joined value."""
    left, right = row["left"], row["right"]
    return pair("null" if left is None else left, right)
