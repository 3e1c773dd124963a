"""``table_table_join``: the join of two tables on the same key."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from beam_joins.functions.joiner import Join
from beam_joins.kernels.key_join import KeyState, key_step
from beam_joins.options.join_types import How
from beam_joins.tables.batch import ChangeBatch
from tests.conformance import table_rules
from tests.conformance.answer import Run
from tests.conformance.cores import core_run
from tests.conformance.kernels import recorded_joiner, right_rows, table_of, texts
from tests.conformance.operators import Cuts, Operator
from tests.conformance.scenario import Scenario
from tests.conformance.values import Values, pair_of
from tests.reference.lookup_join import LookupJoin
from tests.reference.operators import changes_of, upsert_table
from tests.reference.record import Record


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


def _kernels(scenario: Scenario, values: Values, cuts: Cuts) -> Run:
    tables = zip(*(table_of(scenario, topic, values, cuts) for topic in ("left", "right")), strict=True)
    joined = same_key_joined(tables, recorded_joiner(values), scenario.topology["type"])
    return core_run(texts(*joined, shown=pair_of))


def same_key_joined(tables: Iterable[tuple[ChangeBatch, ChangeBatch]], join: Join, how: How) -> Iterator[ChangeBatch]:
    """The join of two tables on the same key, run by run."""
    state = KeyState(None)
    for both in tables:
        joined, state = key_step(state, list(map(right_rows, both)), join, [how])
        yield joined.changes


OPERATOR = Operator(
    topics=("left", "right"),
    kind=lambda topology: topology["type"],
    kernels=_kernels,
    reference=_reference,
    rule=table_rules.table_table_join,
)
