"""Joins of tables as pipelines."""

from beam_joins import ForeignKeyJoin, TableTableJoin
from tests.conformance.operators import Topology
from tests.conformance.pipelines.operators import Inputs, Pipeline, Streams
from tests.conformance.pipelines.rows import streams_of
from tests.conformance.pipelines.tables import ChangelogTable
from tests.conformance.values import JOINERS, Values, pair_of


def _foreign_key(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    left, right = inputs["left"] | "Left" >> ChangelogTable(), inputs["right"] | "Right" >> ChangelogTable()
    joined = (left, right) | ForeignKeyJoin(JOINERS[values], foreign_key="reference", how=topology["type"])
    return streams_of(joined, pair_of)


def _same_key(inputs: Inputs, topology: Topology, values: Values) -> Streams:
    left, right = inputs["left"] | "Left" >> ChangelogTable(), inputs["right"] | "Right" >> ChangelogTable()
    return streams_of((left, right) | TableTableJoin(JOINERS[values], how=topology["type"]), pair_of)


FOREIGN_KEY = Pipeline(_foreign_key, branch=lambda topology: topology["type"])
SAME_KEY = Pipeline(_same_key, branch=lambda topology: topology["type"])
