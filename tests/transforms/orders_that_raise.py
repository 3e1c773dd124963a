"""Orders without a number, for which functions raise, and what is expected of an output of bad records."""

import apache_beam as beam
import pyarrow as pa
from apache_beam.transforms.window import TimestampedValue

from beam_joins import TableFromChangelog, TableToChanges

ORDERS = [
    {"id": 1, "by": "ann", "n": 1, "lsn": 2},
    {"id": 2, "by": "ann", "n": None, "lsn": 3},
    {"id": 3, "by": None, "n": 3, "lsn": 4},
    {"id": 2, "by": "ann", "n": 5, "lsn": 5},
    {"id": 1, "by": "ann", "n": None, "lsn": 6},
]
CUSTOMERS = [{"id": "ann", "name": "Ann", "lsn": 1}]
LOG = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn"}


def n_of(value):
    if value["n"] is None:
        raise ValueError("n is not\nknown")
    return value["n"]


def of_row(key, value):
    return n_of(value)


def joined(order, customer):
    return f"{order and n_of(order)} {customer and customer['name']}"


def table(p, name, rows, form="records"):
    source = beam.Create(rows) if form == "records" else beam.Create([pa.Table.from_pylist(rows)]).with_output_types(pa.Table)
    return p | name >> source | f"Table {name}" >> TableFromChangelog(**LOG)


def stream(p, name, rows, key="id"):
    return (
        p | name >> beam.Create([((row[key], row), row["lsn"]) for row in rows]) | f"Times {name}" >> beam.MapTuple(TimestampedValue)
    )


def changes(pcoll):
    return (
        pcoll
        | "Changes" >> TableToChanges()
        | "Short" >> beam.Map(lambda change: (change.key, change.old, change.new, change.position))
    )


def errors(bad):
    """Checks that each is as in a dead letter of Beam's; gives the records."""

    def record_of(element):
        record, (name, message, lines) = element
        assert name == "ValueError"
        assert message == "n is not\nknown"
        assert lines[0].startswith("Traceback")
        assert "in n_of" in "".join(lines)
        return record

    return bad | beam.Map(record_of)
