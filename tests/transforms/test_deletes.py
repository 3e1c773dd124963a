"""Which records of a changelog delete their row: a field that is true, or a field and the values that mean
delete.
"""

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_joins import TableFromChangelog, TableToChanges
from beam_joins.functions.fields import delete_getter
from beam_joins.options.operations import DELETES, UPSERTS, Deletes

CDC = {"key": "id", "sequence_by": "lsn", "timestamp_by": "lsn", "except_columns": ["id", "lsn", "op"]}
FORMS = ["records", "columns", "columns of a dictionary"]
DEBEZIUM = ["c", "r", "u", "d", "U", "D", "t", "insert"]


def table(p, form, operations, **options):
    """A table of one row for each operation, a delete of it if it is one; records."""
    rows = [{"id": i, "lsn": 10 * i, "op": "c", "n": i} for i in range(len(operations))]
    rows += [{"id": i, "lsn": 10 * i + 1, "op": operation, "n": -i} for i, operation in enumerate(operations)]
    transform = TableFromChangelog(**{**CDC, **options})
    if form == "records":
        return p | beam.Create(rows) | transform | TableToChanges()
    batch = pa.Table.from_pylist(rows)
    if form == "columns of a dictionary":
        batch = batch.set_column(2, "op", batch["op"].combine_chunks().dictionary_encode())
    return p | beam.Create([batch[:5], batch[5:]]).with_output_types(pa.Table) | transform | TableToChanges()


@pytest.mark.parametrize("form", FORMS)
def test_the_values_named_delete_and_the_known_words_of_inserts_and_updates_do_not(pipeline, form):
    with pipeline() as p:
        deleted = table(p, form, DEBEZIUM, apply_as_deletes={"op": ["d", "t"]}) | beam.Filter(lambda change: change.new is None)
        assert_that(deleted | beam.Map(lambda change: change.key), equal_to([3, 5, 6]))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("operation", "seen"), [("x", "'x'"), (None, "None"), ("t", "'t'"), ("", "''")], ids=["unknown", "null", "another delete", "empty"]
)
@pytest.mark.each_value
def test_a_value_whose_meaning_is_not_known_stops_the_run_with_a_sentence(direct, form, operation, seen):
    sentence = rf"apply_as_deletes: op is {seen}, which is neither among the values that mean delete \(d\) nor a known word"
    with pytest.raises(Exception, match=sentence), direct() as p:
        table(p, form, ["u", operation], apply_as_deletes={"op": ["d"]})


@pytest.mark.parametrize("form", ["records", "columns"])
def test_it_is_a_bad_record_where_exceptions_are_handled(direct, form):
    rows = [{"id": 1, "lsn": 1, "op": "c"}, {"id": 2, "lsn": 2, "op": "x"}, {"id": 3, "lsn": 3, "op": "d"}]
    log = rows if form == "records" else [pa.Table.from_pylist(rows)]
    transform = TableFromChangelog(key="id", sequence_by="lsn", timestamp_by="lsn", apply_as_deletes={"op": ["d"]})
    with direct() as p:
        good, bad = p | beam.Create(log) | transform.with_exception_handling()
        assert_that(good | TableToChanges() | beam.Map(lambda change: change.key), equal_to([1]), label="good")
        seen = bad | beam.Map(lambda element: (element[1][0], "op is 'x'" in element[1][1]))
        assert_that(seen, equal_to([("ValueError", True)]), label="bad")


@pytest.mark.parametrize("form", FORMS)
def test_null_and_words_of_inserts_may_be_named_too(direct, form):
    with direct() as p:
        deleted = table(p, form, [None, "u", "r"], apply_as_deletes={"op": ["null", "R"]}) | beam.Filter(
            lambda change: change.new is None
        )
        assert_that(deleted | beam.Map(lambda change: change.key), equal_to([0, 2]))


def test_a_column_of_truth_values_or_nulls_only_may_be_meant():
    assert [delete_getter({"gone": [True]})({"gone": gone}) for gone in (True, False)] == [True, False]
    assert Deletes("op", [None])(None) is True


def test_no_word_means_both():
    assert not DELETES & UPSERTS


@pytest.mark.parametrize(
    "wrong", [7, {}, "", [], {"op": []}, {"op": "d"}, {"op": ["d"], "kind": ["x"]}, {7: ["d"]}, {"": ["d"]}, {"op": None}]
)
def test_what_names_no_field_and_values_is_refused_at_construction(wrong):
    with pytest.raises(ValueError, match="apply_as_deletes=.*: give a function that is true .* such as {'op': "):
        TableFromChangelog(key="id", apply_as_deletes=wrong)


def test_a_field_that_is_neither_true_nor_false_says_how_to_name_its_values(direct):
    with (
        pytest.raises(Exception, match=r"the field should be true or false, but is '[cu]': name the values .* \{'op': \['d'\]\}"),
        direct() as p,
    ):
        table(p, "records", ["u"], apply_as_deletes="op")
