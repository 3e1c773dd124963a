"""Joins of tables as pipelines."""

from typing import Any

import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins import ForeignKeyJoin, LatestTable, TableTableJoin
from tests.conformance.operators import Topology
from tests.conformance.pipelines.columns import ColumnTable, column_streams
from tests.conformance.pipelines.operators import Pipeline, Streams
from tests.conformance.pipelines.tables import ChangelogTable
from tests.conformance.table_table_join import pair
from tests.conformance.values import pair_of
from tests.reference import recomputed


def _foreign_key(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = inputs["left"] | "Left" >> ChangelogTable(), inputs["right"] | "Right" >> ChangelogTable()
    joined = (left, right) | ForeignKeyJoin(foreign_key=_numbered_fk, joiner=recomputed.pair, how=topology["type"])
    return Streams(changes=joined, rows=joined | LatestTable())


def _foreign_key_columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = inputs["left"] | "Left" >> ColumnTable(), inputs["right"] | "Right" >> ColumnTable()
    joiner = {"left": "left.text", "right": "right.text"}
    return column_streams((left, right) | ForeignKeyJoin(foreign_key="reference", joiner=joiner, how=topology["type"]), pair_of)


def _numbered_fk(key: str, value: str) -> str | None:
    foreign_key = recomputed.fk_of(value)
    return None if foreign_key is None else f"{key.partition('/')[0]}/{foreign_key}"


def _same_key(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = inputs["left"] | "Left" >> ChangelogTable(), inputs["right"] | "Right" >> ChangelogTable()
    joined = (left, right) | TableTableJoin(pair, how=topology["type"])
    return Streams(changes=joined, rows=joined | LatestTable())


def _same_key_columns(inputs: dict[str, PCollection[Any]], topology: Topology) -> Streams:
    left, right = inputs["left"] | "Left" >> ColumnTable(), inputs["right"] | "Right" >> ColumnTable()
    joiner = {"left": pc.field("left", "text"), "right": pc.field("right", "text")}
    return column_streams((left, right) | TableTableJoin(joiner, how=topology["type"]), pair_of)


FOREIGN_KEY = Pipeline(_foreign_key, branch=lambda topology: topology["type"], columns=_foreign_key_columns)
SAME_KEY = Pipeline(_same_key, branch=lambda topology: topology["type"], columns=_same_key_columns)
