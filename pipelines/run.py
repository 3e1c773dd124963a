"""``beam-joins run``: the tables and views of a SQL file, kept from what has arrived since the last run."""

import logging
import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.base.hidden_packages import hide_packages
from beam_joins.pipelines.base.interruption import Interruption, interruptible, leave_threads_behind
from beam_joins.pipelines.commands.command_line import add_runner, beam_options, parse_known, sentence_and_code
from beam_joins.pipelines.commands.program import Parser, program
from beam_joins.pipelines.commands.rounds import add_rounds

PROGRAM: Final = program("run")
_EXAMPLES: Final = f"""\
shop.sql:
  CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, amount DECIMAL(10, 2), lsn BIGINT)
    WITH (source = 'orders/*.jsonl', sequence_by = 'lsn');
  CREATE TABLE customers (id BIGINT PRIMARY KEY, city VARCHAR) WITH (source = 'postgres://localhost/shop?slot=shop');
  CREATE MATERIALIZED VIEW totals WITH (target = 'postgres://localhost/shop?table=totals', key = 'city') AS
    SELECT city, sum(amount) AS total FROM orders o JOIN customers c ON o.customer = c.id WHERE city IS NOT NULL GROUP BY city;

examples:
  {PROGRAM} shop.sql --explain
      the key, the transform and the state of each relation

  {PROGRAM} shop.sql --state-dir state
      what has arrived since the last run

  {PROGRAM} shop.sql --state-dir state --follow
      the same every 10 seconds
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid file, option or input, 1 if the run failed for another
    reason.
    """
    # gRPC reads it while it is imported, and would tell standard error about connections that end
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    if argv is None:
        hide_packages(sys.argv[1:])
    with interruptible() as interruption:
        try:
            _run(*parse_known(_parser(), argv), interruption)
        except (Exception, KeyboardInterrupt) as error:
            interrupted = interruption.sentence, 0 if interruption.at_second else interruption.exit_code
            sentence, code = interrupted if interruption.has_raised else sentence_and_code(error)
            print(f"{PROGRAM}: {sentence}", file=sys.stderr)
            if interruption.has_raised:
                leave_threads_behind(code)
            return code
    return 0


def _parser() -> Parser:
    parser = Parser(prog=PROGRAM, description="Keep the views of a SQL file as tables.", epilog=_EXAMPLES)
    parser.add_argument("file", type=Path, metavar="FILE.sql", help="tables with their sources, and views with their targets")
    parser.add_argument("--explain", action="store_true", help="print the plan of each view, and run nothing")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="at the end of a run, have DuckDB run the query of each view with a target on the rows of the tables, and fail where the "
        "rows of the view differ. A state has these rows too: begin it so, or give --beam_joins_changed=rebuild",
    )
    group = parser.add_argument_group("incremental runs", "With --state-dir a run reads what no earlier run has read.")
    group.add_argument(
        "--state-dir", metavar="DIR", help="the state between runs, a folder that the first run creates (default: no state)"
    )
    add_rounds(group)
    add_runner(parser)
    return parser


def _run(args: Namespace, flags: Sequence[str], interruption: Interruption) -> None:
    """Run the pipeline of a file. Raises the errors of the file, of the pipeline and of the runner."""
    if args.follow and not args.state_dir:
        raise InputError("--follow is for incremental runs: give --state-dir too")
    if args.whole_files and not args.follow:
        raise InputError("--whole-files is for --follow: a single run takes all files that are there")
    text = _text(args.file)
    # the command line comes without Beam
    with needs("sql"):
        from beam_joins.pipelines.sql.sql_runs import SqlRuns  # noqa: PLC0415
        from beam_joins.pipelines.sql.sql_script import statements_of  # noqa: PLC0415

    runs = SqlRuns(statements_of(text), verifies=args.verify)
    if args.explain:
        print(runs.explained())
        return
    of_state = [] if args.state_dir is None else [f"--beam_joins_state={args.state_dir}"]
    options = beam_options(args.runner, [*of_state, *flags])
    if args.follow:
        interruption.at_second = True
        print(runs.follow(options, args, interruption))
        return
    for line in runs.once(options):
        print(line)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error}") from None


if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said in one sentence
    sys.exit(main())
