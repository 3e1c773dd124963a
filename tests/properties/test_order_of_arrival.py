"""In Beam too: what comes out depends neither on the order of arrival nor on the number of partitions."""

from collections import Counter
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that
from hypothesis import given
from hypothesis import strategies as st

from beam_joins import ForeignKeyJoin, TableFromChangelog, TableToChanges
from tests.examples import examples
from tests.properties import strategies
from tests.properties.test_foreign_key_join_law import fk_of, pair
from tests.reference import operators
from tests.reference.foreign_key import How
from tests.reference.operators import changes_of, upsert_table
from tests.reference.record import Record


def table(pipeline: beam.Pipeline, name: str, records: list[Record]) -> Any:
    from_changelog = TableFromChangelog(
        key=lambda row: row[0],
        timestamp_by=lambda row: row[2],
        sequence_by=lambda row: row[3],
        apply_as_deletes=lambda row: row[1] is None,
    )
    rows = pipeline | f"{name} records" >> beam.Create([tuple(record) for record in records], reshuffle=False)
    return rows | name >> from_changelog


@examples(4)
@given(st.data(), strategies.left_changelogs(), strategies.right_changelogs(), strategies.HOW)
def test_the_join_is_the_same_for_any_order_of_arrival_and_any_number_of_partitions(
    data: st.DataObject, left: list[Record], right: list[Record], how: How
) -> None:
    core = operators.foreign_key_join(
        changes_of(upsert_table(left)), changes_of(upsert_table(right)), how=how, foreign_key=fk_of, joiner=pair
    )
    expected = Counter(core.outputs)

    def is_expected(joined: Any) -> None:
        assert Counter(joined) == expected, f"{joined} is not {expected}"

    for partitions in (1, 5):
        options = PipelineOptions([f"--beam_joins_partitions={partitions}"])
        with beam.Pipeline(runner=FnApiRunner(), options=options) as pipeline:
            tables = (
                table(pipeline, name, data.draw(st.permutations(records))) for name, records in (("left", left), ("right", right))
            )
            joined = tuple(tables) | ForeignKeyJoin(
                lambda row, match: pair(row[1], None if match is None else match[1]),
                foreign_key=lambda key, row: fk_of(row[1]),
                how=how,
            )
            assert_that(joined | TableToChanges(), is_expected)
