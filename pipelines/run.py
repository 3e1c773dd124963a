"""``beam-joins run``: the tables and views of a SQL file, kept from what has arrived since the last run."""

import logging
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from beam_joins.errors import InputError
from beam_joins.extras import needs
from beam_joins.pipelines.commands.command_line import parse_known, sentence_and_code
from beam_joins.pipelines.commands.program import Parser, program

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
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 2 for an invalid file, option or input, 1 if the run failed for another
    reason.
    """
    parser = Parser(prog=PROGRAM, description="Keep the views of a SQL file as tables.", epilog=_EXAMPLES)
    parser.add_argument("file", type=Path, metavar="FILE.sql", help="tables with their sources, and views with their targets")
    parser.add_argument(
        "--state-dir", metavar="DIR", help="the state between runs, a folder that the first run creates (default: no state)"
    )
    parser.add_argument("--explain", action="store_true", help="print the plan of each view, and run nothing")
    args, flags = parse_known(parser, argv)
    try:
        _run(args, flags)
    except Exception as error:
        sentence, code = sentence_and_code(error)
        print(f"{PROGRAM}: {sentence}", file=sys.stderr)
        return code
    return 0


def _run(args: Namespace, flags: Sequence[str]) -> None:
    """Run the pipeline of a file. Raises the errors of the file, of the pipeline and of the runner."""
    try:
        text = args.file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"there is no file {args.file}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{args.file} is not UTF-8: {error}") from None
    # the command line comes without Beam
    import apache_beam as beam  # noqa: PLC0415
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

    from beam_joins.pipelines.runners.runner_setup import runner  # noqa: PLC0415

    with needs("sql"):
        from beam_joins.pipelines.sql.sql_pipeline import build  # noqa: PLC0415
        from beam_joins.pipelines.sql.sql_script import statements_of  # noqa: PLC0415

    statements = statements_of(text)
    of_state = [] if args.state_dir is None else [f"--beam_joins_state={args.state_dir}"]
    options = PipelineOptions([*of_state, *flags])
    if args.explain:
        for each in build(beam.Pipeline(options=PipelineOptions()), statements):
            print(f"{each.name}{f' -> {each.target}' if each.target else ''}\n{each.plan}\n")
        return
    with runner(options) as ready, beam.Pipeline(options=ready) as pipeline:
        kept = build(pipeline, statements)
    for each in kept:
        if each.target:
            print(f"{each.name}: kept in {each.target}")


if __name__ == "__main__":
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # what fails is said in one sentence
    sys.exit(main())
