"""CountTable: counts the rows of each group of a table."""

from beam_joins.functions.aggregate_functions import Aggregate
from beam_joins.functions.fields import of_row
from beam_joins.options.aggregate_types import Kept
from beam_joins.transforms.engine.construction.option_checks import choice
from beam_joins.transforms.engine.construction.table_type import TableType
from beam_joins.transforms.engine.grouping import Aggregation, GroupedTable, Grouping, OfRow, Total, require_columns_kept
from beam_joins.transforms.engine.measured_groups import Single
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions


class CountTable(GroupedTable):
    """Counts the rows of each group of a table; groups, dropped records and exceptions are as in
    :class:`~beam_joins.AggregateTable`.

    * ``group_by``: the field of the value with the group, or several fields; or a function of key and value.
    * ``empty_groups``: ``"keep"``: a group whose last row has left keeps a count of 0; ``"drop"``: it has no row.
    * ``null_groups``: as in :class:`~beam_joins.AggregateTable`.

    The counts are a typed column, ``int64``.

    >>> import apache_beam as beam
    >>> from beam_joins import Change, TableToChanges
    >>> with beam.Pipeline() as pipeline:
    ...     _ = (
    ...         pipeline
    ...         | beam.Create([Change(1, None, {"city": "Oslo"}, 10, 1), Change(2, None, {"city": "Oslo"}, 20, 1)])
    ...         | CountTable(group_by="city")
    ...         | TableToChanges()
    ...         | beam.Map(print)
    ...     )
    Change(key='Oslo', old=None, new=2, timestamp=20, position=1)
    """

    def __init__(self, *, group_by: OfRow, empty_groups: Kept = "keep", null_groups: Kept = "drop") -> None:
        super().__init__(group_by)
        of_row("group_by", group_by)
        self._empty_groups = choice("empty_groups", empty_groups, Kept)
        self._null_groups = require_columns_kept(choice("null_groups", null_groups, Kept), group_by)

    def aggregation(self, of_table: TableType, functions: StageFunctions) -> Aggregation:
        """The numbers of rows."""
        keeps_null = self._null_groups == "keep"
        if self._empty_groups == "keep":
            return Total(Grouping(of_table, functions, self._group_by, [], keeps_null=keeps_null), of_table)
        return Single(of_table, functions, self._group_by, Aggregate("count"), keeps_empty=False, keeps_null=keeps_null)
