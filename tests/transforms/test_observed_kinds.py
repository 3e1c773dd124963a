"""Notes of a whole input, and what is concluded of them."""

import pytest

from beam_joins.transforms.engine.blocks.observed_kinds import NoteReader, columns_are_there, keys_may_meet, note_columns, write_note

CHECK = keys_may_meet("Join", "left", "right")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"text"}, {"text", "number"}),
        (set(), {"text"}),
        ({"text"}, set()),
        ({"(null, text)"}, {"(number, text)"}),
        ({"text"}, {"((number, null), text)"}),
    ],
)
def test_kinds_that_may_meet_or_are_not_known_pass(left, right):
    CHECK({"left": left, "right": right})


@pytest.mark.parametrize(
    ("left", "right"), [({"text"}, {"number"}), ({"shop.nullable.Colour"}, {"number"}), ({"(number, text)"}, {"(number, number)"})]
)
def test_kinds_that_never_meet_are_named(left, right):
    with pytest.raises(ValueError, match=r"Join: the left keys are of kind .*, the right keys of kind .*: they are never equal"):
        CHECK({"left": left, "right": right})


def test_notes_of_many_bundles_are_one_whatever_lies_between_them():
    noted = [write_note("left", {"text"}), b"rows", write_note("right", {"number"}), b"more", write_note("left", {"date"})]
    reader = NoteReader(noted)
    assert list(reader.blocks()) == [b"rows", b"more"]
    assert reader.notes == {"left": {"text", "date"}, "right": {"number"}}
    only_notes = NoteReader(noted[::2])
    assert only_notes.blocks() is None
    assert only_notes.notes == reader.notes


def test_a_column_that_is_in_some_record_of_some_bundle_is_there():
    looked_for = frozenset({"op"})
    bundles = [set(), set()]
    note_columns(bundles[0], {"id": 1}, looked_for)
    note_columns(bundles[1], {"id": 1}, looked_for)
    check = columns_are_there("except_columns", "rows", looked_for)
    with pytest.raises(ValueError, match="except_columns names op, which no record has; there are id"):
        check({"rows": bundles[0] | bundles[1]})
    note_columns(bundles[1], {"id": 1, "op": "c"}, looked_for)
    check({"rows": bundles[0] | bundles[1]})
    check({"rows": set()})
