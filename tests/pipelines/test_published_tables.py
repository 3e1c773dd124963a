"""A published table is compared with what the last run remembered of it."""

from pathlib import Path
from typing import Any

import pytest

from beam_joins.errors import InputError
from beam_joins.pipelines.formats.file_parts import File
from beam_joins.pipelines.systems.postgres.pgoutput import Column, LoggedChange, Pgoutput, Table
from beam_joins.pipelines.systems.postgres.published_tables import PublishedTable
from beam_joins.pipelines.systems.postgres.slot_changes import SlotChanges, TableFile

TABLE = PublishedTable(
    oid=7,
    table=Table("public", "t", [Column("id", "integer", 23), Column("status", "public.status", 9001)], ["id"]),
    numbers=(1, 2),
    identity="d",
    is_partitioned=False,
    rows=None,
    storage=((7, 100, ""),),
    entries=((3, "500"), (4, "501")),
    labels={"label 11": "open", "label 12": "paid"},
    unlogged=(),
    places={7: "public.t"},
)
WIDER = TABLE._replace(table=Table("public", "t", [Column("id", "bigint", 20), TABLE.table.columns[1]], ["id"]))
OF_PARTITIONS = "partitions detached, truncated or rewritten"
PARTITIONED = TABLE._replace(
    is_partitioned=True,
    storage=((7, 0, ""), (8, 101, "600"), (9, 102, "601")),
    places={7: "public.t", 8: "public.p8", 9: 'public."P 9"', 10: "public.p10", 11: "public.p11"},
)
MORE = PARTITIONED._replace(storage=(*PARTITIONED.storage, (10, 0, "602"), (11, 103, "603")))


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (TABLE, TABLE, ("", "")),
        (TABLE, TABLE._replace(oid=8), ("replaced", "another table of this name")),
        (TABLE, TABLE._replace(entries=((3, "500"), (5, "502"))), ("replaced", "published anew")),
        (TABLE, TABLE._replace(entries=((3, "503"), (4, "501"))), ("replaced", "published anew")),
        (TABLE, TABLE._replace(rows="(id > 5)"), ("replaced", "published with another row filter")),
        (TABLE._replace(schemas=3), TABLE._replace(schemas=5), ("replaced", "schemas published, perhaps without the row filter")),
        (TABLE, TABLE._replace(storage=((7, 105, ""),)), ("altered", "truncated or rewritten")),
        (TABLE, TABLE._replace(numbers=(1, 3)), ("altered", "columns altered")),
        (TABLE, WIDER, ("altered", "columns altered")),
        (TABLE, TABLE._replace(labels={"label 11": "open", "label 12": "settled"}), ("altered", "types altered")),
        (TABLE, TABLE._replace(labels={**TABLE.labels, "label 13": "sent"}), ("", "")),
        (PARTITIONED, MORE, ("extended", "partitions attached")),
        (PARTITIONED, MORE._replace(numbers=(1, 3)), ("altered", "columns altered")),
        (PARTITIONED, PARTITIONED._replace(storage=PARTITIONED.storage[:2]), ("replaced", OF_PARTITIONS)),
        (PARTITIONED, PARTITIONED._replace(storage=((7, 0, ""), (8, 101, "600"), (9, 102, "777"))), ("replaced", OF_PARTITIONS)),
        (PARTITIONED, PARTITIONED._replace(storage=((7, 0, ""), (8, 101, "600"), (9, 109, "601"))), ("replaced", OF_PARTITIONS)),
    ],
)
def test_a_table_that_is_another_one_is_told_from_one_that_was_altered(
    before: PublishedTable, now: PublishedTable, expected: tuple[str, str]
) -> None:
    assert now.difference(before.remembered) == expected


ELSEWHERE = "replaced", "part of another table for a while"
FOR_A_WHILE = "replaced", "partitions for a while"
HIDDEN = "replaced", "partitions attached and changed"
BORN = MORE._replace(born={10: 602, 11: 603})


@pytest.mark.parametrize(
    ("now", "logged", "expected"),
    [
        (PARTITIONED, {7: {8: 700}}, ("", "")),
        (PARTITIONED, {7: {8: 700, 12: 701}}, FOR_A_WHILE),
        (PARTITIONED, {5: {8: 700}}, ELSEWHERE),
        (PARTITIONED, {5: {12: 700}, 12: {12: 701}}, ("", "")),
        (BORN, {7: {11: 700}}, ("extended", "partitions attached")),
        (BORN, {7: {11: 603}}, HIDDEN),
        (BORN, {7: {11: 602}}, HIDDEN),
        (BORN._replace(born={10: 602, 11: (1 << 32) - 5}), {7: {11: 5}}, ("extended", "partitions attached")),
        (BORN._replace(born={10: 602}), {7: {11: 700}}, HIDDEN),
        (BORN._replace(born={11: 603}), {7: {11: 700}}, HIDDEN),
        (MORE, {7: {8: 700}, 5: {11: 600}}, ("extended", "partitions attached")),
    ],
)
def test_the_log_tells_what_was_so_for_a_while(
    now: PublishedTable, logged: dict[int, dict[int, int]], expected: tuple[str, str]
) -> None:
    assert now.difference(PARTITIONED.remembered, logged) == expected


def test_a_table_that_was_part_of_another_one_for_a_while_is_told() -> None:
    assert TABLE.difference(TABLE.remembered, {7: {7: 700}}) == ("", "")
    assert TABLE.difference(TABLE.remembered, {5: {7: 700}}) == ELSEWHERE


def test_of_a_table_with_more_partitions_those_with_rows_are_read() -> None:
    assert MORE.parts_since(PARTITIONED.remembered) == ["public.p11"]
    attached_again = PARTITIONED._replace(storage=((7, 0, ""), (8, 101, "600"), (9, 102, "605")))
    assert attached_again.parts_since(PARTITIONED.remembered) == ['public."P 9"']


def test_a_state_of_an_earlier_version_does_not_say_how_often_schemas_were_published() -> None:
    before = {name: value for name, value in TABLE.remembered.items() if name != "schemas"}
    assert TABLE._replace(schemas=5).difference(before) == ("", "")


def test_a_table_that_no_run_has_read_is_read_as_it_is() -> None:
    assert TABLE.difference(None) == ("replaced", "")


@pytest.mark.parametrize(
    ("before", "now", "refused"),
    [
        (["id"], {}, ""),
        (["b", "a"], {"key": ["a", "b"]}, ""),
        ([], {"key": ["id"]}, ""),
        (["id"], {"key": ["id", "version"]}, "the primary key of public.t was id in the last run, and now is id, version"),
        (["id"], {"key": [], "identity": "f"}, "the primary key of public.t was id in the last run, and now is gone"),
        (["id", "version"], {"key": ["id"], "identity": "f"}, ""),
        (["id", "version"], {"key": ["id"]}, "the primary key of public.t was id, version in the last run, and now is id"),
        (["id"], {"storage": ((7, 100, ""), (8, 101, "600"))}, r"public.t has child tables \(INHERITS\)"),
        (
            ["id"],
            {"is_partitioned": True, "unlogged": ("public.p1",)},
            "public.t has partitions whose changes are not in the log, .*: public.p1",
        ),
    ],
)
def test_a_table_whose_rows_the_log_does_not_tell_is_refused(before: list[str], now: dict[str, Any], refused: str) -> None:
    key = now.pop("key", ["id"])
    table = TABLE._replace(table=TABLE.table._replace(key=key), **now)
    remembered = {**TABLE.remembered, "key": before}
    if not refused:
        table.require_readable(remembered)
        return
    with pytest.raises(InputError, match=refused):
        table.require_readable(remembered)


def relation(oid: int, name: str, *columns: str, letter: bytes = b"d", identity: tuple[str, ...] = ("id",)) -> bytes:
    flags = [bytes([column in identity]) for column in columns]
    described = b"".join(
        flag + column.encode() + b"\0" + (25).to_bytes(4, "big") + b"\xff" * 4 for flag, column in zip(flags, columns, strict=True)
    )
    return b"R" + oid.to_bytes(4, "big") + b"public\0" + name.encode() + b"\0" + letter + len(columns).to_bytes(2, "big") + described


def values(*row: str | None) -> bytes:
    """A row of a message; ``...`` is a large value that did not change."""
    made = len(row).to_bytes(2, "big")
    for value in row:
        made += b"n" if value is None else b"u" if value == "..." else b"t" + len(value).to_bytes(4, "big") + value.encode()
    return made


def read(tables: dict[int, Table], *messages: bytes, shapes: Any = None) -> tuple[list[tuple[Table, LoggedChange]], dict[str, str]]:
    """The records of a transaction, each with its table, and the tables that are left out."""
    reader = Pgoutput(lambda oid, modifier: "text", tables, 0, 1 << 60, shapes)
    begin = b"B" + (0x90).to_bytes(8, "big") + bytes(12)
    return [each for message in (begin, *messages, b"C") for each in reader.changes(message)], reader.left_out


def rows(path: Path, changes: list[tuple[Table, LoggedChange]], key: tuple[str, ...] = ("id",)) -> list[dict[str, Any]]:
    """The changes as a reader by a key has them, once they lie in a file."""
    table_file = TableFile(path.open("wb"), str(path), changes[0][0])
    for _, change in changes:
        table_file.write(change, 0)
    file = File(path=str(path), bytes=table_file.close(), shown="slot, t", reader=SlotChanges(), key=key)
    return [{name: value for name, value in row.items() if value is not None} for row in file.reader.first(file)]


T = {7: Table("public", "t", (), ("id",))}


@pytest.mark.parametrize("letter", [b"K", b"O"])
def test_an_old_row_of_the_key_alone_gives_no_large_value_whatever_the_message_calls_it(letter: bytes) -> None:
    update = b"U" + (7).to_bytes(4, "big") + letter + values("1", None) + b"N" + values("2", "...")
    changes, left_out = read(T, relation(7, "t", "id", "note", letter=b"f"), update)
    assert (changes, left_out) == ([], {"public.t": "a key updated without a large value"})


def test_an_insert_without_a_large_value_as_of_a_row_that_comes_into_a_row_filter_is_not_taken() -> None:
    insert = b"I" + (7).to_bytes(4, "big") + b"N" + values("2", "...")
    assert read(T, relation(7, "t", "id", "note"), insert) == ([], {"public.t": "a key updated without a large value"})


@pytest.mark.parametrize("letter", [b"K", b"O"])
def test_an_old_row_that_has_a_large_value_gives_it(letter: bytes) -> None:
    update = b"U" + (7).to_bytes(4, "big") + letter + values("1", "long") + b"N" + values("2", "...")
    (_, (_, change)), left_out = read(T, relation(7, "t", "id", "note"), update)
    assert (change.row, change.left_out, left_out) == ([b"2", b"long"], None, {})


def test_an_update_without_a_large_value_says_so(tmp_path: Path) -> None:
    update = b"U" + (7).to_bytes(4, "big") + b"N" + values("1", "...", None)
    (row,) = rows(tmp_path / "t.arrow", read(T, relation(7, "t", "id", "note", "by"), update)[0])
    assert (row["(left out)"], row["id"], row.get("note")) == ('["note"]', "1", None)


def test_an_update_by_another_key_than_the_reader_s_is_one_change_and_by_its_key_a_delete_and_an_insert(tmp_path: Path) -> None:
    update = b"U" + (7).to_bytes(4, "big") + b"O" + values("1", "a", "x") + b"N" + values("2", "a", "y")
    changes, _ = read(T, relation(7, "t", "id", "name", "note"), update)
    described = [
        [(row["(operation)"], row.get("id"), row.get("name"), row.get("note")) for row in rows(tmp_path / "t.arrow", changes, key)]
        for key in (("id",), ("name",), ("name", "note"))
    ]
    assert described == [
        [("d", "1", None, None), ("u", "2", "a", "y")],
        [("u", "2", "a", "y")],
        [("d", None, "a", "x"), ("u", "2", "a", "y")],
    ]


def id_of(*row: str | None, kind: bytes = b"U", old: tuple[str | None, ...] | None = None) -> bytes:
    """A message of the kind, of the relation 7."""
    before = b"" if old is None else b"K" + values(*old)
    return kind + (7).to_bytes(4, "big") + before + (b"N" + values(*row) if kind == b"U" else b"")


@pytest.mark.parametrize(
    ("letter", "identity", "change", "taken"),
    [
        (b"d", ("id",), id_of("2", "b"), ["u"]),
        (b"d", ("id",), id_of("2", "b", old=("1", None)), ["b", "u"]),
        (b"d", ("id",), id_of(kind=b"D", old=("1", None)), ["d"]),
        (b"i", ("code",), id_of("2", "b"), []),
        (b"i", ("code",), id_of("2", "b", old=(None, "a")), []),
        (b"i", ("code",), id_of(kind=b"D", old=(None, "a")), []),
        (b"i", ("id", "code"), id_of(kind=b"D", old=("1", "a")), ["d"]),
        (b"n", (), id_of("2", "b"), []),
        (b"f", ("id", "code"), id_of(kind=b"D", old=("1", None)), ["d"]),
    ],
)
@pytest.mark.parametrize("part", [7, 8])
def test_a_change_counts_if_the_identity_of_its_table_or_partition_has_the_key(
    letter: bytes, identity: tuple[str, ...], change: bytes, taken: list[str], part: int
) -> None:
    described = [relation(7, "t", "id", "code")] * (part != 7) + [relation(part, "t", "id", "code", letter=letter, identity=identity)]
    changes, left_out = read(T, *described, change)
    assert [each.operation for _, each in changes] == taken
    assert bool(left_out) == (not taken)


def test_the_key_is_that_of_the_reader() -> None:
    reader = Pgoutput(lambda oid, modifier: "text", T, 0, 1 << 60, keys={7: ("code",)})
    messages = b"B" + (0x90).to_bytes(8, "big") + bytes(12), relation(7, "t", "id", "code", identity=("id",)), id_of("2", "b")
    assert [each for message in messages for each in reader.changes(message)] == []
    assert reader.left_out == {"public.t": "changed without the old key (REPLICA IDENTITY)"}


def test_the_parts_of_a_relation_are_told_with_the_first_transaction_of_each() -> None:
    reader = Pgoutput(lambda oid, modifier: "text", T, 0, 1 << 60)
    root, own, other = (relation(each, "t", "id") for each in (7, 8, 9))
    insert, of_other = (b"I" + each.to_bytes(4, "big") + b"N" + values("1") for each in (7, 9))
    for transaction, messages in ((5, [root, own, insert]), (6, [own, root, insert, root, own, insert]), (7, [other, root, of_other])):
        begin = b"B" + (0x90).to_bytes(8, "big") + bytes(8) + transaction.to_bytes(4, "big")
        for message in (begin, *messages, b"C"):
            [*reader.changes(message)]
    assert reader.parts == {7: {8: 5, 7: 6}, 9: {7: 7}}


def test_a_table_is_known_by_its_oid_and_not_by_its_name() -> None:
    insert = [b"I" + oid.to_bytes(4, "big") + b"N" + values(value) for oid, value in ((7, "mine"), (8, "another's"))]
    ((table, change),), _ = read(T, relation(7, "renamed", "id"), insert[0], relation(8, "t", "id"), insert[1])
    assert (table.full_name, change.row) == ("public.t", [b"mine"])


def test_changes_of_a_table_that_had_other_columns_for_a_while_are_left_out_from_there_on() -> None:
    insert = b"I" + (7).to_bytes(4, "big") + b"N" + values("1")
    messages = [relation(7, "t", "id"), insert, relation(7, "t", "renamed"), insert, relation(7, "t", "id"), insert]
    changes, left_out = read(T, *messages, shapes={7: {(("id", "text"),)}})
    assert (len(changes), left_out) == (1, {"public.t": "columns altered"})


def test_a_value_that_is_no_utf_8_is_told_with_table_and_column(tmp_path: Path) -> None:
    insert = b"I" + (7).to_bytes(4, "big") + b"N" + values("1")[:-1] + b"\xeb"
    changes, _ = read(T, relation(7, "t", "id"), insert)
    with pytest.raises(InputError, match=r"^public\.t: column 'id' has a value that is no UTF-8 \(b'\\xeb'\): correct it, or leave"):
        rows(tmp_path / "t.arrow", changes)
