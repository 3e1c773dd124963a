"""A public transform: its options, as given, and the properties of it that must be equal in every run of a
folder.
"""

import inspect
import re
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import apache_beam as beam
import pyarrow as pa
from apache_beam.pipeline import Pipeline
from apache_beam.pvalue import PCollection, PValue

from beam_joins.coders.key import type_name
from beam_joins.functions import vectorized, with_key
from beam_joins.transforms.engine.arrow_input import arrow_schema, is_arrow
from beam_joins.transforms.engine.element_types import pair_types
from beam_joins.transforms.engine.resumed.manifest import Fingerprint
from beam_joins.transforms.engine.table_type import TableType, is_batches, is_changes, table_type
from beam_joins.user_functions import require_returns

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_OF_RUN = {"broadcast", "without_earlier"}
"""Options on which no state depends, or which each run decides anew."""
_REMEDIES = {
    "DataFrame": ": a table of a pandas frame is beam.Create([pyarrow.Table.from_pandas(frame)]) | TableFromChangelog(key=...)",
    "DeferredDataFrame": ": apply apache_beam.dataframe.convert.to_pcollection",
}
"""What to do with values of some classes in place of collections."""


In = TypeVar("In")
Out = TypeVar("Out")


class Transform(beam.PTransform[In, Out]):
    """A public transform: it shows the options that it was given wherever a runner displays its steps."""

    if TYPE_CHECKING:  # Beam's own operators have no types, so that what (left, right) | join gives would not be known

        def __ror__(self, left: In, label: str | None = None) -> Out: ...

        def __rrshift__(self, label: str) -> "Transform[In, Out]": ...

    else:
        __pandas_priority__ = 1 << 20  # else frame | transform is an operation of each value

        def __ror__(self, left: Any, label: str | None = None) -> Any:
            """Apply the transform to several collections; raises ``ValueError`` where one of them is none."""
            for each in left.values() if isinstance(left, dict) else left if isinstance(left, tuple) else [left]:
                if not isinstance(each, PValue | list | tuple | dict):
                    kind = type(each).__name__
                    raise ValueError(f"{type(self).__name__} takes PCollections, not {kind}{_REMEDIES.get(kind, '')}")
            return super().__ror__(left, label)

    _options: dict[str, Any]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Take note of the options as given; raises ``ValueError`` for a function that is a generator or a coroutine."""
        made = super().__new__(cls)
        positional = list(inspect.signature(cls.__init__).parameters)[1:]
        made._options = {**dict(zip(positional, args, strict=False)), **options}
        for name, value in made._options.items():
            require_returns(name, value)
        return made

    def display_data(self) -> dict[str, Any]:
        """The options as given, functions by their names."""
        return {name: _displayed(value) for name, value in self._options.items() if value is not None}


def _displayed(value: Any) -> Any:
    if isinstance(value, vectorized | with_key):
        return f"{type(value).__name__}({_displayed(value.function)})"
    if isinstance(value, str | int | float | bool):
        return value
    return _text(value)


def _text(value: Any) -> str:
    """The ``repr`` of a value, the same in each process: sets in order, functions by their names, at any depth."""
    if isinstance(value, partial):
        options = (f"{name}={_text(each)}" for name, each in value.keywords.items())
        return f"partial({', '.join([_text(value.func), *map(_text, value.args), *options])})"
    if isinstance(value, list | set | frozenset):
        texts = list(map(_text, value))
        return f"[{', '.join(texts if isinstance(value, list) else sorted(texts))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_text(name)}: {_text(each)}' for name, each in value.items())}}}"
    if (names := _fields(value)) is not None:
        return f"{type(value).__name__}({', '.join(f'{name}={_text(getattr(value, name))}' for name in names)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    return getattr(value, "__qualname__", None) or _ADDRESS.sub("", repr(value))


def _fields(value: Any) -> Sequence[str] | None:
    """The names of the fields of a dataclass or a NamedTuple."""
    if is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in fields(value) if field.repr]
    return getattr(value, "_fields", None) if isinstance(value, tuple) else None


def label_of(pipeline: Pipeline) -> str:
    """The full label of the transform that is being applied: unique in a pipeline, and the same at every submission.

    Beam shows it to nobody else: this relies on ``Pipeline._current_transform``, in Beam 2.66 to 2.77.
    """
    return str(pipeline._current_transform().full_label)


def fingerprint(pipeline: Pipeline) -> Fingerprint:
    """The properties of the public transform that is being applied, equal in every run of a folder: its
    class, its options, and the columns of its inputs.
    """
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
    of_table = table_type(pcoll) if is_batches(pcoll) or is_changes(pcoll) else TableType(*pair_types(pcoll.element_type))
    columns = {"key": str(of_table.key_column), "value": str(of_table.value_column), "order": of_table.order}
    return columns if isinstance(of_table.key, pa.DataType) else {**columns, "key coder": type_name(of_table.key)}
