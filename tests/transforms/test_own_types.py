"""Types with coders of users' own: keys where the coder is deterministic, and values, on every worker."""

import subprocess
import sys

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import ForeignKeyJoin, LatestTable, MapTable, TableFromChangelog, TableToChanges
from beam_joins.coders.own_types import OwnTypes
from beam_joins.keys.opaque import opaque_keys, opaque_values, python_values
from tests.transforms.own_types import Address, Note, register


@pytest.fixture(autouse=True)
def registered():
    register()


def test_keys_are_equal_where_the_bytes_of_their_coder_are(pipeline):
    with pipeline() as p:
        hosts = p | "hosts" >> beam.Create(["A", "b"]) | TableFromChangelog(key=Address, timestamp_by=lambda _: 5)
        leases = p | "leases" >> beam.Create([(1, "a"), (2, "B"), (3, "c")]) | "table" >> TableFromChangelog(timestamp_by=lambda _: 5)
        joined = (leases, hosts) | ForeignKeyJoin(lambda lease, host: lease + host, foreign_key=lambda key, lease: Address(lease))
        assert_that(joined | LatestTable(), equal_to([(1, "aA"), (2, "Bb")]))
        keys = hosts | TableToChanges() | beam.Map(lambda change: (type(change.key).__name__, change.key.text))
        assert_that(keys, equal_to([("Address", "a"), ("Address", "b")]), label="keys")


def test_a_type_that_is_declared_needs_a_deterministic_coder(direct):
    def note_of(text: str) -> Note:
        return Note(text)

    with pytest.raises(ValueError, match=r"the key of TableFromChangelog is of type .*Note, whose encoding is not deterministic"):
        _ = direct() | beam.Create(["a"]) | TableFromChangelog(key=note_of)
    with pytest.raises(Exception, match="of type .*Note, which has no canonical encoding"), direct() as p:
        _ = p | beam.Create(["a"]) | TableFromChangelog(key=Note, timestamp_by=lambda _: 5)


def test_values_are_written_by_their_coder(pipeline):
    with pipeline() as p:
        table = p | beam.Create([("k", "text")]) | TableFromChangelog() | MapTable(lambda key, text: Note(text))
        again = table | beam.Reshuffle() | "again" >> MapTable(lambda key, note: note.text + "!")
        assert_that(again | LatestTable(), equal_to([("k", "text!")]))


@pytest.mark.process
@pytest.mark.sweep
def test_a_worker_knows_the_types_that_a_step_brings_along():
    written = pickler.dumps(
        (OwnTypes(), opaque_keys([Address("X")]).storage[0].as_py(), opaque_values([Note("y")]).storage[0].as_py())
    )
    read = f"""
import pyarrow as pa
import beam_joins.coders
from apache_beam.internal import pickler
from beam_joins.keys.opaque import KEYS, VALUES, python_values
_, key, value = pickler.loads({written!r})
for kind, encoded in ((KEYS, key), (VALUES, value)):
    (own,) = python_values(pa.ExtensionArray.from_storage(kind, pa.array([encoded])))
    print(type(own).__name__, own.text)
"""
    run = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["Address x", "Note y"]
    without = read.replace("pickler.loads(", "(lambda given: (None, *pickler.loads(given)))(").replace(
        repr(written), repr(pickler.dumps(pickler.loads(written)[1:]))
    )
    run = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert "CorruptData: no coder is registered for <class 'tests.transforms.own_types.Address'>" in run.stderr


def test_values_of_other_types_are_as_before():
    values = [1, "a", None, {"a": [1]}, (1, 2), b"\xfe"]
    assert python_values(opaque_values(values)) == values
