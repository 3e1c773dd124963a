"""Measures what the changes of a snapshot cost, next to ``EXCEPT`` both ways in DuckDB: ``python -m benchmarks.snapshots``."""

import argparse
import random
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchmarks.reading import seconds_of

_EXCEPT: Final = """
import sys
import duckdb
before, now = (f"(SELECT * FROM read_csv('{path}', all_varchar = true))" for path in sys.argv[1:])
for one, other in ((now, before), (before, now)):
    duckdb.sql(f"{one} EXCEPT {other}").fetchall()
"""
_STATUS: Final = ("open", "paid", "sent")


def write_exports(folder: Path, count: int, changed: int) -> None:
    """Two exports of a table of eight columns; of the rows in the first so many differ in the second, a fifth of them is gone, and
    as many are new.
    """
    made = random.Random(1)
    rows = [
        [
            n,
            f"name {made.randrange(99)}",
            made.randrange(10**6) / 100,
            made.choice(_STATUS),
            *(made.randrange(10**5) for _ in range(4)),
        ]
        for n in range(count)
    ]
    _write(folder / "2026-03-01.csv", rows)
    chosen = made.sample(range(count), changed)
    gone = set(chosen[: changed // 5])
    for n in chosen[changed // 5 :]:
        rows[n][3] = "closed"
    rows = [row for row in rows if row[0] not in gone] + [[count + n, "new", 0.5, "open", 1, 2, 3, 4] for n in range(len(gone))]
    made.shuffle(rows)
    _write(folder / "2026-03-02.csv", rows)


def _write(path: Path, rows: Iterable[Iterable[object]]) -> None:
    with path.open("w") as file:
        file.write("id,name,amount,status,a,b,c,d\n")
        file.writelines(f"{','.join(map(str, row))}\n" for row in rows)


def main() -> int:
    """Print the processor time behind the start of each, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    costs: dict[str, dict[int, list[float]]] = {"EXCEPT both ways": {}, "the changes": {}}
    with tempfile.TemporaryDirectory() as made:
        for count in (10, args.rows):
            folder = Path(made) / str(count)
            folder.mkdir()
            write_exports(folder, count, max(5, count // 100))
            before, now = sorted(folder.glob("*.csv"))
            state, command = folder / "state", [sys.executable, "-m", "pipelines", "table", "--timestamp-in-path=%Y-%m-%d"]
            command += [f"--state-dir={state}", f"--changes={folder}/changes"]
            seconds_of([*command, f"--snapshots={before}"])
            shutil.copytree(state, folder / "first")
            for _ in range(args.rounds):
                shutil.rmtree(state)
                shutil.copytree(folder / "first", state)
                (folder / "changes/changes-000002.jsonl").unlink(missing_ok=True)
                costs["the changes"].setdefault(count, []).append(seconds_of([*command, f"--snapshots={now}"]))
                peer = seconds_of([sys.executable, "-c", _EXCEPT, str(before), str(now)])
                costs["EXCEPT both ways"].setdefault(count, []).append(peer)
    least = {name: min(of[args.rows]) - min(of[10]) for name, of in costs.items()}
    for name, cost in least.items():
        print(f"{name}: {cost:.1f} s of processor time behind the start, {cost / least['EXCEPT both ways']:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
