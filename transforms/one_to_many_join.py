"""OneToManyJoin: each row with the many rows that refer to it (Jan Filipiak's join in the older part of KIP-213)."""

from collections.abc import Callable, Sequence
from typing import Any

from beam_joins.coders.combined_key import CombinedKeyCoder
from beam_joins.coders.key import value_coder
from beam_joins.combined_key import CombinedKey
from beam_joins.fields import place_of_row
from beam_joins.joiner import of_records
from beam_joins.transforms.engine.options import function
from beam_joins.transforms.engine.outputs import Outputs, WithOutputs
from beam_joins.transforms.engine.partitions import partition_count
from beam_joins.transforms.engine.reference_join import PrefixCoder, reference_join
from beam_joins.transforms.engine.table_type import table_key_coder, table_type, two_tables
from beam_joins.transforms.table_to_records import in_records


class OneToManyJoin(WithOutputs):
    """Each pair of a row and one of the many rows that refer to it, keyed by both keys.

    ``(one: PCollection[Change[K, V]], many: PCollection[Change[L, W]]) -> PCollection[Change[CombinedKey[K, L], R]]``. A change of the one
    row is joined with all rows that refer to it; a change of one of the many with the row that it refers to; a row whose reference changes deletes
    its old pair first.

    * ``foreign_key(key, value)`` gives the one row's key that a row of the many refers to, or ``None``; or name the field of its value, or several
      for a compound key. Where
      the one table is windowed that is a ``Windowed`` key.
    * ``joiner(one value, many value)`` gives the result's value; if it gives ``None`` there is no row.
    * ``key_mapper(combined key)`` makes the result's key, and ``key_inverse`` returns the combined key, which is checked: two pairs must not get one key.
    * ``combined_key_coder``: a coder of ``CombinedKey`` with a method ``prefix(foreign key)``, by default
      :class:`beam_joins.coders.CombinedKeyCoder`. The run checks that every encoded key begins with its prefix and is decoded to itself.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`beam_joins.transforms.engine.partitions`.

    A row of the many whose foreign key is ``None`` is dropped, as ``"null_foreign_key"``: counted, and an output of :meth:`with_outputs`.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` at construction for a wrong option, when applied to what is not two bounded tables, and in the run where the coder or the
    mapping fails these checks, and for two changes of one row at one position.

    >>> import apache_beam as beam
    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import Change
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     authors = pipeline | "authors" >> beam.Create([Change("a", None, "Ann", timestamp=1, position=1)])
    ...     books = pipeline | "books" >> beam.Create([Change(7, None, {"by": "a", "title": "Tea"}, timestamp=2, position=2)])
    ...     written = (authors, books) | OneToManyJoin(foreign_key="by", joiner=lambda author, book: f"{book['title']} by {author}")
    ...     _ = written | beam.Map(lambda change: print(change.key, change.new))
    CombinedKey(foreign_key='a', primary_key=7) Tea by Ann
    """

    def __init__(
        self,
        *,
        foreign_key: str | Sequence[str] | Callable[[Any, Any], Any],
        joiner: Callable[[Any, Any], Any],
        key_mapper: Callable[[CombinedKey[Any, Any]], Any] | None = None,
        key_inverse: Callable[[Any], CombinedKey[Any, Any]] | None = None,
        combined_key_coder: PrefixCoder | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__()
        if (key_mapper is None) != (key_inverse is None):
            raise ValueError("key_mapper and key_inverse go together: give both or neither")
        if combined_key_coder is not None and not callable(getattr(combined_key_coder, "prefix", None)):
            raise ValueError(
                f"combined_key_coder={combined_key_coder!r}: it has no method prefix(foreign_key), by which rows are found"
            )
        self._foreign_key, self._foreign_key_given = place_of_row("foreign_key", foreign_key), foreign_key
        self._joiner = of_records("OneToManyJoin", function("joiner", joiner, "of the one and the many value"))
        self._key_mapper = key_mapper
        self._key_inverse = key_inverse
        self._coder = combined_key_coder
        self._partitions = partition_count(partitions)

    def build(self, pvalue: Any) -> Outputs:
        """The joined table and the dropped records."""
        one, many = two_tables("OneToManyJoin", pvalue)
        one, many = in_records(one, "One in records"), in_records(many, "Many in records")
        one_type, many_type = table_type(one), table_type(many)
        functions = self.handling.functions
        foreign_key = functions.function("foreign_key", self._foreign_key_given, self._foreign_key)
        coder = self._coder or CombinedKeyCoder(
            table_key_coder(one_type, "the key of OneToManyJoin's one table"),
            table_key_coder(many_type, "the key of OneToManyJoin's many table"),
        )
        return reference_join(
            "OneToManyJoin",
            many,
            one,
            handling=self.handling,
            references=lambda key, value: (foreign_key(key, value),),
            joiner=self._joiner,
            swapped=True,
            how="inner",
            coder=coder,
            values=(value_coder(many_type.value), value_coder(one_type.value)),
            partitions=self._partitions,
            dropping=self.dropping,
            key_mapper=_mapped(
                functions.function("key_mapper", self._key_mapper), functions.function("key_inverse", self._key_inverse)
            ),
        )


def _mapped(
    mapper: Callable[[CombinedKey[Any, Any]], Any] | None, inverse: Callable[[Any], CombinedKey[Any, Any]] | None
) -> Callable[[CombinedKey[Any, Any]], Any] | None:
    if mapper is None or inverse is None:
        return None

    def mapped(key: CombinedKey[Any, Any]) -> Any:
        result = mapper(key)
        if inverse(result) != key:
            raise ValueError(
                f"key_mapper makes {result!r} of {key}, of which key_inverse makes {inverse(result)}: two pairs may get one key"
            )
        return result

    return mapped
