"""RoutedRecords that become rows: elements, in batches of some thousand of a bundle, or the rows of an Arrow batch."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.columns.positions import Values, places_of, times_of
from beam_joins.columns.sorting import valid
from beam_joins.function_failed import FunctionFailed
from beam_joins.functions.fields import OfField, names_in
from beam_joins.functions.marked_functions import by_row, vectorized
from beam_joins.keys.key_columns import Bools, Ints
from beam_joins.keys.opaque import python_values
from beam_joins.transforms.engine.blocks.block_writer import BlockWriter, timestamped
from beam_joins.transforms.engine.construction.arrow_input import struct_of
from beam_joins.transforms.engine.construction.kept_signatures import KeptSignatures
from beam_joins.transforms.engine.stages.replay import Route
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.values.copying import copied

ELEMENTS = 4096


class Option(NamedTuple):
    """An option that gives a value for each record: its name, the value given by the user, and that as a
    function of a record.
    """

    name: str
    spec: Any
    called: Callable[..., Any]

    def of(self, functions: StageFunctions) -> "Option":
        """The same as it is called in a stage."""
        called = functions.function(self.name, self.spec, self.called)
        return Option(self.name, called if callable(self.spec) else self.spec, called)


class RoutedRecords:
    """Many records, ``given`` as a list of elements or an array of structs, and their event times in
    microseconds.

    One record after the other is dropped, or goes to ``bad`` when a function raises for it; ``left`` are the
    others.
    """

    def __init__(self, elements: Values, times: Ints, functions: StageFunctions, writer: BlockWriter) -> None:
        self.elements = elements
        self.times = self._arrival = times
        self.writer = writer
        self.left: Bools = np.ones(len(elements), np.bool_)
        self.functions = functions

    def column(
        self, option: Option, arguments: Callable[[], tuple[Sequence[Any], ...]] | None = None, *, where: Bools | None = None
    ) -> Values:
        """The values of an option for all records: a column where the records have columns, or else objects.

        A function of one record is called with the record, or with the ``arguments``, for the records that
        are left, and of them those ``where`` it is asked for.
        """
        spec, in_columns = option.spec, isinstance(self.elements, pa.Array)
        # record by record where one value may be bad
        by_record = isinstance(spec, Mapping) and self.functions.handles_any
        if in_columns and not by_record and (isinstance(spec, vectorized) or not callable(spec)):
            return by_row(option.name, next(iter(spec)) if isinstance(spec, Mapping) else spec, self.elements)
        columns = arguments() if arguments is not None else (python_values(self.elements) if in_columns else self.elements,)
        return self.each(option.called, *columns, where=where)

    def each(self, call: Callable[..., Any], *columns: Sequence[Any], where: Bools | None = None, stays: bool = False) -> list[Any]:
        """The results of a function on the cells of each record that is left and that ``where`` selects,
        ``None`` for others.

        A record for which it raises a handled exception goes to ``bad``, and is left only with ``stays``.
        """
        wanted = self.left if where is None else self.left & where
        if wanted.all() and not self.functions.handles_any:
            results = call.of_all(*columns) if isinstance(call, OfField) else map(call, *columns)
            return list(map(copied, results))
        results = []
        for n, (is_wanted, *cells) in enumerate(zip(wanted.tolist(), *columns, strict=True)):
            try:
                results.append(copied(call(*cells)) if is_wanted else None)
            except FunctionFailed as failed:
                (record,) = self._at([n])
                self.functions.caught(record, failed, int(self._arrival[n]))
                self.left[n] = stays
                results.append(None)
        return results

    def timed(self, option: Option | None, *, ordering: bool = False) -> None:
        """Take the event times from an option; records without one are dropped. ``ordering``: they are positions too."""
        if option is not None:
            times = times_of(option.name, self.column(option), ordering=ordering)
            self.times = np.where(valid(times), times.fill_null(0).to_numpy(zero_copy_only=False), self._arrival)
            self.drop("null_timestamp", times)

    def placed(
        self, option: Option | None, arguments: Callable[[], tuple[Sequence[Any], ...]] | None = None, *, where: Bools | None = None
    ) -> tuple[pa.Array, pa.Array | None]:
        """Positions, the event times without an option, and the order within them, perhaps; records without
        one are dropped, but 0 stands where none is needed.
        """
        if option is None:
            position, within = pa.array(self.times), None
        else:
            position, within = places_of(option.name, self.column(option, arguments, where=where))
        if where is not None and not where.all():
            position = pc.if_else(pa.array(where), position, pa.scalar(0, pa.int64()))
        self.drop("null_sequence", position)
        return position, within

    def drop(self, reason: str, values: Values) -> None:
        """Drop the records that have a null in ``values``."""
        lost = self.left & ~present(values)
        if lost.any():
            index = np.flatnonzero(lost)
            self.writer.drop_rows(reason, len(index), lambda: zip(self._at(index), self.times[index].tolist(), strict=True))
            self.left &= ~lost

    def split(self, apart: Bools) -> tuple["RoutedRecords", "RoutedRecords"]:
        """The records that are not ``apart``, and the records that are."""
        return self._some(~apart), self._some(apart)

    def _some(self, chosen: Bools) -> "RoutedRecords":
        index = np.flatnonzero(chosen)
        elements = (
            self.elements.take(pa.array(index)) if isinstance(self.elements, pa.Array) else [self.elements[n] for n in index.tolist()]
        )
        some = RoutedRecords(elements, self.times[index], self.functions, self.writer)
        some.left = self.left[index]
        return some

    def kept(self, values: Any) -> Any:
        """The ``values`` of the records that are left; ``values`` has one for each record."""
        if self.left.all():
            return values
        return values.filter(pa.array(self.left)) if isinstance(values, pa.Array) else [values[n] for n in np.flatnonzero(self.left)]

    def _at(self, index: Any) -> list[Any]:
        return (
            python_values(self.elements.take(pa.array(index)))
            if isinstance(self.elements, pa.Array)
            else [self.elements[n] for n in index]
        )


def present(values: Values) -> Bools:
    """The records with a value."""
    return valid(values) if isinstance(values, pa.Array) else np.array([each is not None for each in values], np.bool_)


def element_times(micros: Ints) -> Ints:
    """Times of elements, cut to the millisecond as :func:`~beam_joins.transforms.engine.stages.replay.element_time`
    cuts one.

    >>> element_times(np.array([1_999, -1_999])).tolist()
    [1000, -1000]
    """
    return micros - np.fmod(micros, 1000)


def pairs(elements: Iterable[Any], wrong: str) -> tuple[list[Any], list[Any]]:
    """The keys and the values of pairs; raises ``ValueError`` with the message ``wrong`` for anything else."""
    keys, values = [], []
    for element in elements:
        if not isinstance(element, tuple) or len(element) != 2:
            raise ValueError(wrong.format(repr(element)))
        keys.append(element[0])
        values.append(element[1])
    return keys, values


class RecordRoute(beam.PTransform[Any, Any]):
    """RoutedRecords into blocks of rows, by partition: a :class:`~beam_joins.transforms.engine.stages.replay.Route` of
    elements, or with a ``schema`` of batches.

    ``options`` are pairs of an option's name and its value: every batch must have the columns that the values
    name.
    """

    def __init__(
        self,
        rows: Callable[[RoutedRecords], None],
        functions: StageFunctions,
        *,
        schema: pa.Schema | None = None,
        options: Iterable[tuple[str, Any]] = (),
        to: tuple[str, ...],
        size: int | None = None,
    ) -> None:
        super().__init__()
        self._rows = rows
        self._functions = functions
        self._named = [(option, name) for option, spec in options for name in names_in(spec)]
        self._schema = schema
        self._to = to
        self._size = size

    def expand(self, pcoll: PCollection[Any]) -> Any:
        """Apply the transform."""
        schema = self._schema
        rows = partial(_routed, self._rows, self._functions, self._named, schema)
        if schema is None:
            collect = _Collect()  # type: ignore[no-untyped-call]
            pcoll = pcoll | "Collect" >> beam.ParDo(collect)
        return pcoll | "Rows" >> Route(rows, to=self._to, timed=schema is not None, records=True, size=self._size)


def _routed(
    read: Callable[[RoutedRecords], None],
    functions: StageFunctions,
    named: Sequence[tuple[str, str]],
    schema: pa.Schema | None,
    element: Any,
    arrival: int,
    writer: BlockWriter,
) -> None:
    if schema is None:
        elements, times = element.elements, element.times
    else:
        elements = _rows_of(element, schema, named, functions, arrival)
        times = np.full(len(elements), arrival)
    read(RoutedRecords(elements, times, functions, writer))
    functions.give(writer)


def _rows_of(batch: Any, schema: pa.Schema, named: Iterable[tuple[str, str]], functions: StageFunctions, arrival: int) -> pa.Array:
    """The rows of a batch in the columns of the schema; those with a value that its column does not hold go
    to ``bad``, where that is handled.
    """
    try:
        return struct_of(batch, schema, named)
    except ValueError as error:
        if not functions.handles(error):
            raise
    rows = [struct_of(batch.slice(0, 0), schema, named)]  # raises for columns that are not of the schema
    for n in range(len(batch)):
        row = batch.slice(n, 1)
        try:
            rows.append(struct_of(row, schema, named))
        except ValueError as error:
            failed = functions.failure("schema=", error, ())
            failed.__cause__ = error
            functions.caught(row.to_pylist()[0], failed, arrival)
    return pa.concat_arrays(rows)


class _Elements(NamedTuple):
    elements: list[Any]
    times: Ints


class _Collect(KeptSignatures):
    """Collects the elements of a bundle; all are in the global window."""

    def start_bundle(self) -> None:
        self._waiting: list[WindowedValue] = []

    # to ask Beam for the time of each would take longer than all else here
    def process(self, element: Any, in_window: Any = beam.DoFn.WindowedValueParam) -> list[Any]:
        self._waiting.append(in_window)
        return self._collected() if len(self._waiting) >= ELEMENTS else []

    def finish_bundle(self) -> list[Any]:
        return self._collected() if self._waiting else []

    def _collected(self) -> list[Any]:
        waiting, self._waiting = self._waiting, []
        times = element_times(np.array([element.timestamp_micros for element in waiting], np.int64))
        return [timestamped(_Elements([element.value for element in waiting], times), int(times.min()))]
