"""python -m pipelines.orders: operations that nobody declared, times in another unit, and names that look
like patterns.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_joins.errors import InputError
from beam_joins.options.operations import DELETES, UPSERTS
from beam_joins.pipelines.changelogs.changelog_files import find_changelog
from beam_joins.pipelines.changelogs.time_units import remarks_on, require_one_unit
from beam_joins.pipelines.formats.changelog_columns import Columns
from tests.pipelines.orders_run import GOOD, Run, nothing_is_left, numbers, one_sentence, read_lines, write

CUSTOMER = {"customer_id": 1, "op": "c", "lsn": 1, "updated_at": 1}
FILES = ("--orders", "o.jsonl", "--customers", "c.jsonl", "--latest", "out/l.jsonl")
NOW = 1_767_222_001_500_000


def left_by(run: Run, op: object, *options: str) -> int:
    """How many rows an insert and a record with this operation leave."""
    write("o.jsonl", GOOD, {**GOOD, "op": op, "lsn": 2})
    write("c.jsonl", CUSTOMER)
    ran = run(*FILES, *options)
    assert ran.code == 0, ran.err
    return len(read_lines(Path("out/l.jsonl")))


@pytest.mark.parametrize("op", ["d", "t", "D", "delete", "DELETE", "REMOVE", True, "true"])
def test_common_words_for_deletes_delete(run: Run, op: object) -> None:
    assert left_by(run, op) == 0


@pytest.mark.parametrize("op", ["c", "u", "r", "I", "U", "insert", "UPDATE", "MODIFY", "upsert", "snapshot", False, "f"])
def test_common_words_for_inserts_and_updates_do_not(run: Run, op: object) -> None:
    assert left_by(run, op) == 1


@pytest.mark.parametrize(
    ("op", "options", "rows"),
    [
        ("gone", ["--orders-apply-as-deletes", "op=gone, away"], 0),
        ("r", ["--orders-apply-as-deletes", "op=r"], 0),
        ("u", ["--orders-apply-as-deletes", "op=r"], 1),
        ("d", ["--orders-apply-as-upserts", "op=c,d"], 1),
        ("new", ["--orders-apply-as-upserts", "op=c,New"], 1),
        (None, ["--orders-apply-as-upserts", "op=c,null"], 1),
        (None, ["--orders-apply-as-deletes", "op=null"], 0),
        (3, ["--orders-apply-as-deletes", "op=3"], 0),
        ("whatever", ["--orders-apply-as-deletes="], 1),
        ("t", ["--orders-apply-as-truncates", "op=t"], 0),
        (None, ["--orders-apply-as-deletes", "op"], 1),
    ],
)
def test_words_can_be_declared(run: Run, op: object, options: list[str], rows: int) -> None:
    assert left_by(run, op, *options) == rows


@pytest.mark.parametrize(
    ("op", "options", "message"),
    [
        ("x", [], "column 'op' is 'x': add x to --orders-apply-as-upserts, --orders-apply-as-deletes or --orders-ignored"),
        (None, [], "column 'op' is null: add null to --orders-apply-as-upserts, --orders-apply-as-deletes or --orders-ignored"),
        ("update_preimage", [], "column 'op' is 'update_preimage'"),
        ("d", ["--orders-apply-as-deletes", "op=gone"], "column 'op' is 'd'"),
        ("u", ["--orders-apply-as-upserts", "op=c"], "column 'op' is 'u'"),
    ],
)
def test_a_word_that_nobody_declared_is_a_bad_record(run: Run, op: object, options: list[str], message: str) -> None:
    write("o.jsonl", GOOD, {**GOOD, "op": op, "lsn": 2})
    write("c.jsonl", CUSTOMER)
    assert f"orders: o.jsonl, line 2: {message}" in one_sentence(run(*FILES, *options))


def test_the_customers_have_words_of_their_own(run: Run) -> None:
    write("o.jsonl", GOOD)
    write("c.jsonl", CUSTOMER, {**CUSTOMER, "op": "gone", "lsn": 2})
    assert "add gone to --customers-apply-as-upserts, --customers-apply-as-deletes or --customers-ignored" in one_sentence(run(*FILES))
    assert run(*FILES, "--customers-apply-as-deletes", "op=gone").code == 0
    assert read_lines(Path("out/l.jsonl")) == []


def test_a_word_cannot_mean_both(run: Run) -> None:
    write("o.jsonl", GOOD)
    write("c.jsonl", CUSTOMER)
    sentence = one_sentence(run(*FILES, "--orders-apply-as-deletes", "op=d,x", "--orders-apply-as-upserts", "op=X,c"))
    assert sentence == "x stands in both --orders-apply-as-deletes and --orders-apply-as-upserts: a record is one or the other"


@pytest.mark.parametrize(
    ("orders", "customers", "named"),
    [
        (NOW // 1_000, NOW, "orders"),
        (NOW, NOW // 1_000_000, "customers"),
        (NOW // 1_000_000, NOW // 1_000, "orders"),
        (NOW // 1_000 + 200_000_000_000, NOW // 1_000_000, "customers"),
        ("2026-01-01T00:00:00Z", NOW * 1_000, "customers"),
        (NOW // 1_000 + 200_000_000_000, NOW, "orders"),
    ],
)
def test_times_in_another_unit_are_refused_by_the_name_of_the_option(run: Run, orders: object, customers: object, named: str) -> None:
    # the times 0 and null do not count
    write("o.jsonl", *({**GOOD, "order_id": i, "updated_at": at} for i, at in enumerate((orders, orders, 0, None, 0))))
    write("c.jsonl", {**CUSTOMER, "updated_at": customers})
    sentence = one_sentence(run(*FILES))
    assert f"say with --{named}-timestamp-unit what 'updated_at' counts" in sentence
    assert nothing_is_left(Path("out"))


def test_times_of_other_years_are_not_refused_and_not_remarked_on(run: Run) -> None:
    write("o.jsonl", {**GOOD, "updated_at": NOW})
    write("c.jsonl", {**CUSTOMER, "updated_at": NOW // 40})
    ran = run(*FILES)
    assert ran.code == 0, ran.err
    assert "1970" not in ran.out


def test_times_in_1970_of_files_that_say_their_unit_are_not_remarked_on(tmp_path: Path) -> None:
    for path, kind in (("a.parquet", pa.date32()), ("b.parquet", pa.timestamp("s")), ("c.parquet", pa.int64())):
        pq.write_table(pa.table({"id": [1], "updated_at": pa.array([1], kind)}), tmp_path / path)
    columns = Columns(key=("id",), timestamp="updated_at")
    typed, bare = (find_changelog("rows", f"{tmp_path}/{files}.parquet", columns) for files in ("[ab]", "c"))
    assert remarks_on(typed) == []
    assert len(remarks_on(bare)) == 1
    late = replace(bare, times=(NOW,))
    require_one_unit(typed, replace(typed, times=(NOW,)))
    with pytest.raises(InputError, match="say with --timestamp-unit what 'updated_at' counts"):
        require_one_unit(typed, late)


def test_times_that_all_lie_in_1970_are_told_in_the_summary(run: Run) -> None:
    write("o.jsonl", {**GOOD, "updated_at": NOW // 1_000}, {**GOOD, "order_id": 2, "updated_at": 0})
    write("c.jsonl", {**CUSTOMER, "updated_at": NOW // 1_000})
    ran = run(*FILES)
    assert ran.code == 0, ran.err
    for side, count in (("orders", 2), ("customers", 1)):
        assert (
            f"the times of the first {count} {side} all lie in 1970: does 'updated_at' count us? (--{side}-timestamp-unit)" in ran.out
        )
    assert "1970" not in run(*FILES, "--orders-timestamp-unit=ms", "--customers-timestamp-unit=ms").out


@pytest.mark.parametrize("name", ["a[1].jsonl", "what?.jsonl", "all*.jsonl", "dir[x]/o.jsonl"])
def test_a_name_that_looks_like_a_pattern_is_found_and_written(run: Run, name: str) -> None:
    Path("dir[x]").mkdir()
    write("a1.jsonl", {**GOOD, "order_id": 7})
    write("what1.jsonl", {**GOOD, "order_id": 7})
    write("c.jsonl", CUSTOMER)
    write(name, GOOD)
    output = f"out[1]/{Path(name).name}"
    for _ in range(2):  # the second run replaces what the first has written
        ran = run("--orders", name, "--customers", "c.jsonl", "--latest", output)
        assert ran.code == 0, ran.err
        assert numbers(ran.out)["records in", "orders"] == 1
        assert f"{Path(output).stat().st_size:,} bytes in {output}" in ran.out
    assert [order["order_id"] for order in read_lines(Path(output))] == [1]
    assert [path.name for path in Path("out[1]").iterdir()] == [Path(name).name]


def test_a_pattern_is_one_in_a_directory_whose_name_looks_like_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("in[1]").mkdir()
    monkeypatch.chdir("in[1]")
    for number in (1, 2):
        write(f"o{number}.jsonl", {**GOOD, "order_id": number})
    write("c.jsonl", CUSTOMER)
    ran = run("--orders", "o?.jsonl", "--customers", "c.jsonl", "--latest", "l.jsonl")
    assert ran.code == 0, ran.err
    assert [json.loads(line)["order_id"] for line in sorted(Path("l.jsonl").read_text().splitlines())] == [1, 2]


@pytest.mark.parametrize(("option", "words"), [("deletes", DELETES), ("upserts", UPSERTS)])
def test_the_docs_and_the_help_list_the_words(run: Run, option: str, words: frozenset[str]) -> None:
    page = (Path(__file__).parents[2] / "docs/command_line.md").read_text()
    (row,) = re.findall(rf"^\| `--left-apply-as-{option}` \| (.*) \|$", page, re.MULTILINE)
    assert sorted(re.findall(r"`([\w+-]+)`", row.removeprefix("the column `op` with "))) == sorted(words)
    assert ",".join(sorted(words)) in re.sub(r"\s+", "", run("--help").out)
