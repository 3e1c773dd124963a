"""``fk_join``: the foreign-key join."""

from typing import Any

from apache_beam.pvalue import PCollection

from beam_joins import ForeignKeyJoin, LatestTable
from beam_joins.functions import keys_of
from beam_joins.matching import Shape
from beam_joins.overlap import overlap
from beam_joins.references import rejoined, subscriptions
from tests.conformance import table_rules
from tests.conformance.answer import Run
from tests.conformance.columns import ColumnTable, column_streams
from tests.conformance.cores import as_text, core_run
from tests.conformance.kernels import recorded_joiner, right_rows, table_of, texts
from tests.conformance.operators import Operator, Streams, Topology
from tests.conformance.scenario import Scenario
from tests.conformance.tables import ChangelogTable
from tests.conformance.values import Values, pair_of
from tests.reference import operators, recomputed
from tests.reference.operators import Replayed, changes_of, upsert_table


def replayed(scenario: Scenario) -> Replayed:
    """Both tables of a scenario through the join's cores."""
    left, right = (changes_of(upsert_table(scenario.records(topic), "records")) for topic in ("left", "right"))
    return operators.foreign_key_join(left, right, how=scenario.topology["type"], foreign_key=_encoded_fk, joiner=_encoded_pair)


def _reference(scenario: Scenario) -> Run:
    return core_run([as_text(change) for change in changes_of(replayed(scenario).outputs)])


def _kernels(scenario: Scenario, values: Values) -> Run:
    left, right = (table_of(scenario, topic, values) for topic in ("left", "right"))
    shape = Shape(scenario.topology["type"], times="foreign_key")
    asking = subscriptions(left, keys_of("foreign_key", "reference", left.values), shape)
    joined = overlap(asking, right_rows(right), recorded_joiner(values), shape)
    return core_run(texts(joined.changes, rejoined(joined.halves), shown=pair_of))


def _pipeline(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = inputs["left"] | "Left" >> ChangelogTable(), inputs["right"] | "Right" >> ChangelogTable()
    joined = (left, right) | ForeignKeyJoin(foreign_key=_numbered_fk, joiner=recomputed.pair, how=topology["type"])
    return Streams(changes=joined, rows=joined | LatestTable())


def _columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = inputs["left"] | "Left" >> ColumnTable(), inputs["right"] | "Right" >> ColumnTable()
    joiner = {"left": "left.text", "right": "right.text"}
    return column_streams((left, right) | ForeignKeyJoin(foreign_key="reference", joiner=joiner, how=topology["type"]), pair_of)


def _numbered_fk(key: str, value: str) -> str | None:
    foreign_key = recomputed.fk_of(value)
    return None if foreign_key is None else f"{key.partition('/')[0]}/{foreign_key}"


def _encoded_fk(value: bytes) -> bytes | None:
    foreign_key = recomputed.fk_of(value.decode())
    return None if foreign_key is None else foreign_key.encode()


def _encoded_pair(left: bytes, right: bytes | None) -> str:
    return recomputed.pair(left.decode(), None if right is None else right.decode())


OPERATOR = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels,
    reference=_reference,
    pipeline=_pipeline,
    columns=_columns,
    branch=lambda topology: topology["type"],
    rule=table_rules.foreign_key_join,
)
