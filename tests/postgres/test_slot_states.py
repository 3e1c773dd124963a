"""A slot goes on with a state whose transforms are described as an earlier version has described them."""

import json
from pathlib import Path

from xxhash import xxh3_64_hexdigest

from tests.pipelines.orders_run import Run
from tests.postgres.shop import JOINED, join_options, joined, shop
from tests.postgres.slot_tables import asked, database, run, tables

KEPT = Path(__file__).parent / "states" / "format_7.json"
"""The transforms in manifests of format 7, of the command and the program below."""
CHANGES = (
    "UPDATE orders SET amount = 1 WHERE id = 7",
    "DELETE FROM orders WHERE id = 8",
    "UPDATE customers SET name = 'A' WHERE id = 9",
)


def test_of_a_command(postgres: str, beam_joins: Run) -> None:
    conninfo, address = shop(postgres, "kept")
    assert beam_joins("slot", "create", address, "--tables", "public.orders,customers").code == 0
    runs = [*join_options(address), "--state-dir", "state"]
    assert beam_joins(*runs).code == 0
    describe_as_before("command", Path("state"))
    run(conninfo, *CHANGES, "CHECKPOINT")
    ran = beam_joins(*runs)
    assert (ran.code, ran.err) == (0, "")
    assert joined() == asked(conninfo, JOINED)
    assert "slot kept: 3 transactions" in ran.out


def test_of_a_program(postgres: str, tmp_path: Path) -> None:
    conninfo = database(postgres, "kept_program", "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount numeric(12,2))")
    run(conninfo, "INSERT INTO orders SELECT i, i % 50, i * 1.25 FROM generate_series(1, 500) i")
    tables(conninfo, ["public.orders"], tmp_path / "state")
    describe_as_before("program", tmp_path / "state")
    run(conninfo, *CHANGES[:2])
    read = tables(conninfo, ["public.orders"], tmp_path / "state")
    assert read == {"public.orders": asked(conninfo, "SELECT * FROM orders")}


def describe_as_before(name: str, state: Path) -> None:
    """Have a manifest of an earlier format, with the transforms as these were described in it."""
    path = state / "manifest.json"
    content = json.loads(path.read_text())
    kept = json.loads(KEPT.read_text())[name]
    assert kept.keys() == content["transforms"].keys()
    del content["xxh3"]
    content |= {"format": 7, "transforms": kept}
    path.write_text(json.dumps({**content, "xxh3": xxh3_64_hexdigest(json.dumps(content, sort_keys=True).encode())}))
