"""What a DoFn behind a table writes into its rows changes no other row."""

import apache_beam as beam
import pytest

from beam_joins import AggregateTable, FilterTable, ForeignKeyJoin, MapTable, TableTableJoin, TableToChanges
from tests.transforms.test_functions_of_users import ORDERS, added_anew, marked, pure, same_texts, table, with_itself


def written_into(change):
    if isinstance(change.new, dict):
        marked(change.new)
    elif isinstance(change.new, list):
        change.new.append("written")
    return change.key, change.old


@pytest.mark.parametrize("form", ["records", "columns"])
@pytest.mark.parametrize(
    "transform",
    [
        TableToChanges,
        lambda: FilterTable(lambda key, value: True),
        lambda: MapTable(pure),
        lambda: AggregateTable(group_by="by", initial=lambda: {"tags": []}, add=added_anew, subtract=added_anew),
        lambda: with_itself(lambda: ForeignKeyJoin(pure, foreign_key="by", how="left")),
        lambda: with_itself(lambda: ForeignKeyJoin(pure, foreign_key="by", how="outer")),
        lambda: with_itself(lambda: TableTableJoin(pure)),
    ],
)
@pytest.mark.each_value
def test_what_a_map_behind_a_table_writes_into_a_new_value_is_not_the_next_old_value(direct, transform, form):
    def built(p, name):
        return table(p, name, ORDERS, form) | name + "'s" >> transform() | f"{name}'s changes" >> TableToChanges()

    with direct() as p:
        written = built(p, "one") | "writing" >> beam.Map(written_into) | "one's text" >> beam.Map(repr)
        read = built(p, "other") | "reading" >> beam.Map(lambda change: (change.key, change.old)) | "other's text" >> beam.Map(repr)
        same_texts(written, read)
