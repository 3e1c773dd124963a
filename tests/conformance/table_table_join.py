"""``table_table_join``: the join of two tables on the same key."""

from collections import defaultdict
from typing import Any

import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins import LatestTable, TableTableJoin
from beam_joins.batch import ChangeBatch
from beam_joins.joiner import Join
from beam_joins.matching import How, Shape
from beam_joins.overlap import overlap
from beam_joins.record import Record
from beam_joins.references import looking_up
from tests.conformance import table_rules
from tests.conformance.answer import Run
from tests.conformance.columns import ColumnTable, column_streams
from tests.conformance.cores import core_run
from tests.conformance.kernels import recorded_joiner, right_rows, table_of, texts
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import Scenario
from tests.conformance.tables import ChangelogTable
from tests.conformance.values import Values, pair_of
from tests.reference.lookup_join import LookupJoin
from tests.reference.operators import changes_of, upsert_table


def pair(left: str | bytes | None, right: str | bytes | None) -> str:
    """What Kafka Streams' recorded joiner gives."""
    return f"({_text(left)},{_text(right)})"


def _text(value: str | bytes | None) -> str:
    return "null" if value is None else value.decode() if isinstance(value, bytes) else value


def _reference(scenario: Scenario) -> Run:
    records = [
        Record(change.key, change.new, change.timestamp, change.position, side)
        for side, topic in enumerate(("left", "right"))
        for change in changes_of(upsert_table(scenario.records(topic), "records"))
    ]
    joins: dict[bytes, LookupJoin[str]] = defaultdict(
        lambda: LookupJoin(pair, scenario.topology["type"], lambda row: row.key, shared_keys=True)
    )
    return core_run([
        change._replace(key=change.key.key.decode())
        for record in sorted(records, key=lambda record: record.position)
        for change in joins[record.key].advance(record.position, [record])
    ])  # fmt: skip


def _kernels(scenario: Scenario, values: Values) -> Run:
    left, right = (table_of(scenario, topic, values) for topic in ("left", "right"))
    return core_run(texts(same_key_joined(left, right, recorded_joiner(values), scenario.topology["type"]), shown=pair_of))


def same_key_joined(left: ChangeBatch, right: ChangeBatch, join: Join, how: How) -> ChangeBatch:
    """The join of two tables on the same key."""
    asking = looking_up(right_rows(left), left.key)
    return overlap(asking, right_rows(right), join, Shape(how, result="same_key")).changes


def _pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = inputs["left"] | "Left" >> ChangelogTable(), inputs["right"] | "Right" >> ChangelogTable()
    joined = (left, right) | TableTableJoin(pair, how=topology["type"])
    return Streams(changes=joined, rows=joined | LatestTable())


def _columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = inputs["left"] | "Left" >> ColumnTable(), inputs["right"] | "Right" >> ColumnTable()
    joiner = {"left": pc.field("left", "text"), "right": pc.field("right", "text")}
    return column_streams((left, right) | TableTableJoin(joiner, how=topology["type"]), pair_of)


OPERATOR = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels,
    reference=_reference,
    pipeline=_pipeline,
    columns=_columns,
    branch=lambda topology: topology["type"],
    rule=table_rules.table_table_join,
)
