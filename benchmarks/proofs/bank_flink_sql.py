"""The bank as a streaming job of Flink SQL; it runs in Flink's environment, so it imports nothing of the project
but its settings.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.contestants.flink_sql import configuration

_COLUMNS: Final = "id bigint, from_account bigint, to_account bigint, amount bigint, `at` bigint"
_FILES: Final = "('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')"
_VIEWS: Final = (
    "create temporary view debits as select from_account as account, sum(amount) as debits from transactions group by from_account",
    "create temporary view credits as select to_account as account, sum(amount) as credits from transactions group by to_account",
    """
create temporary view balances as select coalesce(c.account, d.account) as account,
    coalesce(credits, 0) - coalesce(debits, 0) as balance
from credits c full outer join debits d on c.account = d.account
""",
)


def compute(data: str, out: str) -> None:
    """Write every change of the total of all balances, as Debezium's JSON."""
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for option, value in configuration({}).items():
        made.get_config().set(option, value)
    made.get_config().set("pipeline.jars", os.environ["FLINK_JARS"])
    made.execute_sql(f"create temporary table transactions ({_COLUMNS}) with {_FILES.format(path=data, format='parquet')}")
    for view in _VIEWS:
        made.execute_sql(view)
    made.execute_sql(f"create temporary table totals (total bigint) with {_FILES.format(path=out, format='debezium-json')}")
    made.execute_sql("insert into totals select sum(balance) from balances").wait()


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.proofs.bank_flink_sql", description="The bank in Flink SQL.")
    made.add_argument("--data", required=True, metavar="DIR", help="a directory with transactions in Parquet")
    made.add_argument("--out", required=True, metavar="DIR", help="where the changes of the total are written")
    asked = made.parse_args(argv)
    compute(asked.data, asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
