"""Whatever is done to tables, partitions, publication and server between two runs, a run is right or refused."""

import random
import re
import shutil
from collections import Counter

import pytest

from tests import programs
from tests.pipelines.orders_run import Run
from tests.postgres.altered_shop import SELECT, WHOLE, Altered, AlteredShop
from tests.postgres.slot_tables import asked, run

pytestmark = pytest.mark.postgres
AGAIN = "--read-again=left", "--read-again=right"


def options_of(shop: AlteredShop) -> list[str]:
    source, target = f"{shop.address}&slot=s", f"{shop.address}&table=enriched"
    left, right = ["--left", source, "--left-table", "public.orders"], ["--right", source, "--right-table", "public.customers"]
    joined = ["--foreign-key", "customer", "--how", "left", "--select", SELECT]
    return ["join", *left, *right, *joined, "--to", target, "--state-dir", "state"]


@pytest.mark.parametrize(("seed", "rounds"), [(1, 40), *(pytest.param(n, 250, marks=pytest.mark.sweep) for n in range(2, 6))])
def test_a_run_is_right_or_refused_whatever_was_altered_before_it(beam_joins: Run, seed: int, rounds: int) -> None:
    chance, seen, sentences = random.Random(seed), Counter[str](), Counter[str]()
    shop = AlteredShop(programs.needed("PostgreSQL with wal2json", programs.postgres()), chance)
    shop.start()
    done: list[Altered] = []
    try:
        for _ in range(rounds):
            done += [shop.alter() if chance.random() < 0.4 else shop.change_rows() for _ in range(chance.randint(1, 3))]
            if chance.random() < 0.02:
                shop.start()  # another server at the address of the first one
                done.append(Altered("another server"))
            refused = refused_or_right(beam_joins, shop, done)
            if not refused:
                seen["right"] += 1
                done = []
                continue
            seen["refused"] += 1
            sentences[re.sub(r"\d+", "N", refused)] += 1
            if chance.random() < 0.5 and shop.undo(done) and not refused_or_right(beam_joins, shop, [*done, Altered("undone")]):
                seen["right once undone"] += 1
                done = []
                continue
            if chance.random() < 0.5 and not refused_or_right(beam_joins, shop, [*done, Altered("read again")], *AGAIN):
                seen["right once read again"] += 1
                done = []
                continue
            shutil.rmtree("state", ignore_errors=True)
            run(shop.conninfo, "DROP TABLE IF EXISTS enriched CASCADE")
            shop.build()
            run(shop.conninfo, "SELECT pg_drop_replication_slot('s')", "SELECT pg_create_logical_replication_slot('s', 'pgoutput')")
            done = [Altered("begun anew")]
    finally:
        shop.stop()
    assert seen["right"] > rounds // 3, seen
    assert seen["refused"], seen
    print(seen, *sentences.most_common(), sep="\n")


def refused_or_right(beam_joins: Run, shop: AlteredShop, done: list[Altered], *options: str) -> str:
    """The sentence with which a run was refused; empty for one that was right."""
    run(shop.conninfo, "CHECKPOINT")
    ran = beam_joins(*options_of(shop), *options)
    what = [each.name for each in done]
    if ran.code == 0:
        assert asked(shop.conninfo, f"{WHOLE.replace('status::text', 'status')} FROM enriched_live") == shop.truth(), (what, ran)
        return ""
    assert ran.code == 2, (what, ran)
    *_, sentence = ran.err.strip().splitlines()
    assert "Traceback" not in ran.err, (what, ran)
    assert len(sentence) > 40, (what, ran)
    return sentence
