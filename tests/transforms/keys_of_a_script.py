"""A script whose keys are of classes of its own; it prints which rows met.

The runner's options are its arguments.
"""

import dataclasses
import enum
import os
import sys
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.options.pipeline_options import PipelineOptions

from beam_joins import ForeignKeyJoin, LatestTable, TableFromChangelog, TableToChanges


class Pair(NamedTuple):
    shop: int
    name: str


@dataclasses.dataclass(frozen=True)
class Place:
    shop: int


class Colour(enum.Enum):
    RED = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


KEYS = [Pair(1, "a"), Place(7), Colour.RED, Access(3), (Place(7), Colour.RED)]
CDC = {"sequence_by": "lsn", "timestamp_by": "lsn"}


def say(*words: Any) -> None:
    """Print a line at once: two workers write to one output."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def run(options: PipelineOptions) -> None:
    """Print the pairs that met, in records, in columns, and the keys themselves."""
    rows = [{"n": n, "lsn": n} for n in range(len(KEYS))]

    def key(row: Any) -> Any:
        return KEYS[row["n"]]

    with beam.Pipeline(options=options) as p:
        for form, log in (("records", rows), ("columns", [pa.Table.from_pylist(rows)])):
            source = beam.Create(log) if form == "records" else beam.Create(log).with_output_types(pa.Table)
            changelog = p | f"{form} rows" >> source
            left = changelog | f"{form} left" >> TableFromChangelog(key="n", **CDC)
            right = changelog | f"{form} right" >> TableFromChangelog(key=key, **CDC)
            join = ForeignKeyJoin(lambda one, other: (one["n"], other["n"]), foreign_key=lambda _, row: key(row))
            joined = (left, right) | f"{form} join" >> join
            joined = joined | f"{form} changes" >> TableToChanges()
            _ = joined | f"{form} met" >> beam.Map(lambda change, form=form: say("met", form, *change.new))
            if form == "records":
                latest = right | LatestTable() | beam.Reshuffle()
                _ = latest | beam.Map(lambda row: say("key", row[1]["n"], row[0] == KEYS[row[1]["n"]]))


if __name__ == "__main__":
    options = PipelineOptions(sys.argv[1:])
    if "--runner=SparkRunner" in sys.argv:
        from beam_joins import runner

        with runner(options) as on_spark:
            run(on_spark)
    else:
        run(options)
