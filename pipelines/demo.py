"""``beam-joins demo``: the files of the tutorial in a folder, and the first join of them."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from beam_joins.pipelines import join
from beam_joins.pipelines.base.input_error import os_sentence
from beam_joins.pipelines.commands.program import Parser, program

PROGRAM: Final = program("demo")
FILES: Final = {
    "orders-1.jsonl": (
        '{"op": "r", "after": {"id": 1, "customer": 7, "amount": 12.50}, "source": {"table": "orders", '
        '"lsn": 100, "ts_ms": 1772352000000, "snapshot": "true"}}\n'
        '{"op": "c", "after": {"id": 2, "customer": 8, "amount": 3.00}, "source": {"table": "orders", '
        '"lsn": 130, "ts_ms": 1772352060000}}\n'
        '{"op": "u", "before": {"id": 1, "customer": 7, "amount": 12.50}, "after": {"id": 1, "customer": 8, '
        '"amount": 12.50}, "source": {"table": "orders", "lsn": 160, "ts_ms": 1772352120000}}\n'
    ),
    "customers-1.jsonl": (
        '{"op": "r", "after": {"id": 7, "name": "Ann", "city": "Genoa"}, "source": {"table": "customers", '
        '"lsn": 110, "ts_ms": 1772352000000, "snapshot": "true"}}\n'
        '{"op": "c", "after": {"id": 8, "name": "Bo", "city": "Kyoto"}, "source": {"table": "customers", '
        '"lsn": 120, "ts_ms": 1772352030000}}\n'
        '{"op": "u", "before": {"id": 8, "name": "Bo", "city": "Kyoto"}, "after": {"id": 8, "name": "Bo", '
        '"city": "Lima"}, "source": {"table": "customers", "lsn": 150, "ts_ms": 1772352090000}}\n'
    ),
    "options.toml": (
        'left = "orders-*.jsonl"\n'
        'left-format = "debezium"\n'
        'left-key = "id"\n'
        'right = "customers-*.jsonl"\n'
        'right-format = "debezium"\n'
        'right-key = "id"\n'
        'foreign-key = "customer"\n'
        'select = "left.id, left.amount, right.name, right.city"\n'
    ),
    "orders-2.jsonl.later": (
        '{"op": "d", "before": {"id": 2, "customer": 8, "amount": 3.00}, "after": null, '
        '"source": {"table": "orders", "lsn": 200, "ts_ms": 1772438400000}}\n'
        '{"op": "c", "after": {"id": 3, "customer": 7, "amount": 40.00}, "source": {"table": "orders", '
        '"lsn": 210, "ts_ms": 1772438460000}}\n'
    ),
}
"""The files by their names, as the tutorial has them."""
_OPTIONS: Final = ("--options", "options.toml", "--state-dir", "state", "--changes", "changes", "--latest", "now.jsonl")
EXAMPLES: Final = f"""\
examples:
  {PROGRAM}
      the folder demo with two changelogs, the options of their join, its final rows and its changes

  {PROGRAM} /tmp/shop
      the same in another folder
"""
_SHOWN: Final = ("now.jsonl", "changes/changes-000001.jsonl")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for a folder that is there already, 1 if nothing can be written."""
    folder = _parser().parse_args(argv).folder
    if os.path.lexists(folder):
        print(f"{PROGRAM}: {folder} is there already: name another folder, or remove it", file=sys.stderr)
        return 2
    try:
        os.makedirs(folder)
        for name, text in FILES.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        os.chdir(folder)
    except OSError as error:
        print(f"{PROGRAM}: cannot write {os_sentence(folder, error)}", file=sys.stderr)
        return 1
    command = f"{program('join')} {' '.join(_OPTIONS)}"
    print(f"{folder} has {', '.join(FILES)}: changes of orders and customers as Debezium writes them.\n\n$ cd {folder}\n$ {command}\n")
    if code := join.main(_OPTIONS):
        return code
    for name in _SHOWN:
        print(f"\n$ cat {name}\n{Path(name).read_text(encoding='utf-8')}", end="")
    print(f"\nNext: give the changes of the next day their name, and run the command again.\n\n$ mv {' '.join(_next())}\n$ {command}")
    return 0


def _next() -> tuple[str, str]:
    (later,) = (name for name in FILES if name.endswith(".later"))
    return later, later.removesuffix(".later")


def _parser() -> argparse.ArgumentParser:
    about = "Write the files of the tutorial into a folder, and join them: changes of orders with changes of their customers."
    parser = Parser(prog=PROGRAM, description=about, epilog=EXAMPLES)
    parser.add_argument("folder", nargs="?", default="demo", metavar="FOLDER", help="a new folder (default: %(default)s)")
    return parser


if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said in one sentence
    sys.exit(main())
