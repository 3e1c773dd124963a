"""A public transform: its options, as given, and what of them a run that goes on must not change."""

import inspect
import re
from typing import Any, Self

import apache_beam as beam
import pyarrow as pa
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PCollection

from beam_joins.coders.key import type_name
from beam_joins.functions import vectorized, with_key
from beam_joins.transforms.engine.arrow_input import arrow_schema, is_arrow
from beam_joins.transforms.engine.element_types import pair_types
from beam_joins.transforms.engine.manifest import Fingerprint
from beam_joins.transforms.engine.table_type import TableType, is_batches, is_changes, table_type

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_OF_RUN = {"broadcast"}
"""Options on which no state depends."""


class Transform(beam.PTransform[Any, Any]):
    """A public transform: it shows the options that it was given wherever a runner displays its steps."""

    _options: dict[str, Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Take note of the options as given."""
        made = super().__new__(cls)
        positional = list(inspect.signature(cls.__init__).parameters)[1:]
        made._options = {**dict(zip(positional, args, strict=False)), **options}
        return made

    def display_data(self) -> dict[str, Any]:
        """The options as given, functions by their names."""
        return {name: _displayed(given) for name, given in self._options.items() if given is not None}


def _displayed(given: Any) -> Any:
    if isinstance(given, vectorized | with_key):
        return f"{type(given).__name__}({_displayed(given.function)})"
    if isinstance(given, str | int | float | bool):
        return given
    if isinstance(given, set | frozenset):
        given = sorted(given, key=repr)
    return getattr(given, "__qualname__", None) or _ADDRESS.sub("", repr(given))


def fingerprint(pipeline: Pipeline) -> Fingerprint:
    """What the public transform that is being applied must be in every run of a folder: its class, its options, and the columns of its inputs."""
    applied, transform = next(
        (each, each.transform) for each in reversed(pipeline.transforms_stack) if isinstance(each.transform, Transform)
    )
    options = {name: shown for name, shown in transform.display_data().items() if name not in _OF_RUN}
    inputs = [_columns(pcoll) for pcoll in applied.inputs]
    return {"transform": type(transform).__name__, "options": options, "inputs": inputs}


def _columns(pcoll: PCollection[Any]) -> dict[str, str]:
    schema = arrow_schema(pcoll) if is_arrow(pcoll) else None
    if schema is not None:
        return {name: str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}
    known = table_type(pcoll) if is_batches(pcoll) or is_changes(pcoll) else TableType(*pair_types(pcoll.element_type))
    columns = {"key": str(known.key_column), "value": str(known.value_column), "order": known.order}
    return columns if isinstance(known.key, pa.DataType) else {**columns, "key coder": type_name(known.key)}
