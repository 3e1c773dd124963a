"""CountTable: counts the rows of each group of a table."""

from beam_joins.transforms.engine.grouping import GroupedTable, OfRow


class CountTable(GroupedTable):
    """Counts the rows of each group of a table; groups, dropped records and exceptions are as in
    :class:`~beam_joins.AggregateTable`.

    * ``group_by``: the field of the value with the group, or several fields; or a function of key and value.

    The counts are a typed column, ``int64``. A group whose last row has left keeps a count of 0.

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

    def __init__(self, *, group_by: OfRow) -> None:
        super().__init__(group_by)
