"""A filter of rows by a number in them: the predicate of a ``FilterTable`` over rows that are kept as text or
in typed columns.
"""

from decimal import Decimal
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_joins import FilterTable, vectorized, versioned
from beam_joins.columns.sorting import valid
from beam_joins.errors import InputError
from beam_joins.functions.marked_functions import built_in
from beam_joins.pipelines.formats.changelog_columns import shown
from beam_joins.pipelines.formats.json_lines import read_columns
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.types.exact_json import loads
from beam_joins.pipelines.formats.types.json_text import content_of, joined

_NO_DIGITS: Final = ("NaN", "Infinity", "-Infinity")
"""The texts of numbers that JSON has no numbers for."""


class AtLeast(NamedTuple):
    """The rows whose number in ``column`` is not below ``least``; a row without one is not among them.

    ``option`` names the column. A float is compared with the float next to ``least``, other numbers with
    ``least`` itself: 0.1 is not below 0.1 in any form.

    >>> from beam_joins.pipelines.formats.changelog_columns import Columns
    >>> plan = ReadPlan(columns=Columns(key=("id",), timestamp="at"), numbers=("amount",))
    >>> rows = pa.record_batch({"json lines": [b'{"amount":0.3}', b'{"amount":0.2}', b'{"amount":null}']})
    >>> AtLeast("amount", Decimal("0.3"), "--amount").passes(plan, rows).tolist()
    [True, False, False]
    """

    column: str
    least: Decimal
    option: str

    def __str__(self) -> str:
        return f"{self.column} >= {self.least}"

    def table(self, plan: ReadPlan) -> FilterTable:
        """The filter of a table that is read so."""
        return FilterTable(vectorized(built_in("at least")(versioned(str(self))(partial(self.passes, plan)))))

    def passes(self, plan: ReadPlan, rows: pa.RecordBatch) -> pa.Array:
        """Which rows of a batch are kept."""
        if "json lines" not in plan.forms:
            return self._in_columns(pc.struct_field(rows["columns"], self.column))
        encoded = rows["json lines"]
        passed, doubtful = np.zeros(len(encoded), np.bool_), np.flatnonzero(valid(encoded))
        texts = encoded.drop_null()
        schema = pa.schema([(self.column, pa.float64())])
        if (columns := read_columns(content_of(joined(texts, b"\n")), schema, len(texts))) is not None:
            bound, numbers = float(self.least), columns[self.column]
            passed[doubtful] = pc.greater(numbers, bound).fill_null(False)
            doubtful = doubtful[pc.equal(numbers, bound).fill_null(False).to_numpy(zero_copy_only=False)]
        some = encoded.take(pa.array(doubtful)).to_pylist()
        passed[doubtful] = [self._is_enough(self._of_json(row.get(self.column))) for row in map(loads, some)]
        return pa.array(passed)

    def _of_json(self, number: Any) -> Any:
        if number in _NO_DIGITS or isinstance(number, int | float | Decimal | None):
            return number
        raise self._no_number(number)

    def _no_number(self, value: Any) -> InputError:
        """The sentence on a row that a run without the filter has stored: records of runs with it are checked."""
        return InputError(
            f"{self.option}: column '{self.column}' is not a number in a row of the runs before: {shown(value)}: give --read-again, "
            "which reads the rows again"
        )

    def _in_columns(self, numbers: pa.Array) -> pa.Array:
        if pa.types.is_floating(numbers.type):
            return pc.greater_equal(numbers.cast(pa.float64()), float(self.least)).fill_null(False)
        return pa.array(map(self._is_enough, numbers.to_pylist()), pa.bool_())

    def _is_enough(self, number: Any) -> bool:
        if number is None:
            return False
        if isinstance(number, str):
            try:
                number = float(number)  # a number in a column of text, or NaN and infinity, which are text in JSON
            except ValueError:
                raise self._no_number(number) from None
        return bool(number >= (float(self.least) if isinstance(number, float) else self.least))
