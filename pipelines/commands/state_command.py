"""``beam-joins state``: shows, verifies and copies the folder of ``--state-dir`` or ``--beam_joins_state``, and shows rows of it."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from beam_joins.elements.iso_times import NO_TIME, text_of_micros
from beam_joins.errors import CorruptData, InputError
from beam_joins.pipelines.base.progress import counted
from beam_joins.pipelines.commands.command_line import sentence_and_code
from beam_joins.pipelines.commands.program import Parser, program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from beam_joins.transforms.connect.runs import StateFolder

PROGRAM: Final = program("state")
_EPILOG: Final = f"""\
examples:
  {PROGRAM} show state
      the last run, the inputs, and the rows and bytes of each transform

  {PROGRAM} rows state --transform Orders --key 17
      the row with this key, as the transform has stored it

  {PROGRAM} check state
      verify the checksum of each file; exit code 1 if one is missing or has changed

  {PROGRAM} copy state backup
      the state of the last run, also while another run is under way
"""


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the command line; returns the exit code: 0, 1 for a state that is damaged, 2 for an invalid option or folder."""
    args = _parser().parse_args(argv)
    try:
        _require_options(args)
        from beam_joins.transforms.connect.runs import StateFolder

        for line in _DO[args.do](StateFolder, args):
            print(line)
    except Exception as error:
        print(f"{PROGRAM}: {sentence_and_code(error)[0]}", file=sys.stderr)
        return 1 if isinstance(error, CorruptData) else 2
    return 0


def _require_options(args: Namespace) -> None:
    """Raise InputError for options that are missing, or those of something else."""
    if (args.to is not None) != (args.do == "copy"):
        raise InputError("copy needs a second folder" if args.do == "copy" else f"{args.do} takes one folder: leave {args.to} out")
    if args.do == "rows" and args.transform is None:
        raise InputError(f"give --transform, the label of a transform as {PROGRAM} show prints it")
    if args.limit is not None and args.limit < 1:
        raise InputError(f"--limit {args.limit}: give a number above 0")
    given = {"--transform": args.transform, "--key": args.key, "--limit": args.limit}
    if args.do != "rows" and (others := [option for option, value in given.items() if value is not None]):
        raise InputError(f"{others[0]} is for rows: leave it out")


def _show(folder: "type[StateFolder]", args: Namespace) -> Iterator[str]:
    state = folder.summary(args.folder)
    yield f"run          {state.run:,}, in {counted(state.partitions or 0, 'partition')}"
    yield from (f"input        {line}" for name, progress in state.inputs.items() for line in _inputs(name, progress))
    for each in state.transforms:
        latest = "" if each.latest is None or each.latest == NO_TIME else f", latest event {text_of_micros(each.latest)}"
        frontier = "" if each.frontier is None else f", up to position {each.frontier}"
        yield f"{each.label}  {each.transform}"
        yield f"             {counted(each.rows, 'row')}, {each.bytes:,} bytes in {counted(each.files, 'file')}{frontier}{latest}"
    rows, size = (sum(getattr(each, name) for each in state.transforms) for name in ("rows", "bytes"))
    yield f"together     {counted(rows, 'row')}, {size:,} bytes"


def _rows(folder: "type[StateFolder]", args: Namespace) -> Iterator[str]:
    from beam_joins.pipelines.commands.shown_rows import keys_of, lines_of  # with Arrow

    limit = _LIMIT if args.limit is None else args.limit
    keys = None if args.key is None else [key for text in args.key for key in keys_of(text)]
    tables = folder.rows(args.folder, args.transform, keys=keys)
    lines = list(lines_of(tables, limit))
    yield from lines or [f"no row of {args.transform}{'' if keys is None else f' has the key {args.key[0]}'}"]


def _check(folder: "type[StateFolder]", args: Namespace) -> Iterator[str]:
    yield f"{counted(folder.verify(args.folder), 'file')} as written"


def _copy(folder: "type[StateFolder]", args: Namespace) -> Iterator[str]:
    copied = folder.copy(args.folder, args.to)
    yield f"run {copied.run:,} copied to {args.to}: {sum(each.bytes for each in copied.transforms):,} bytes"


_DO: Final = {"show": _show, "rows": _rows, "check": _check, "copy": _copy}


def _inputs(name: str, progress: Any) -> Iterator[str]:
    """The progress of one reader, or of the inputs of a command."""
    sides = progress.items() if isinstance(progress, Mapping) else ()
    files = [(side, of["files"]) for side, of in sides if isinstance(of, Mapping) and isinstance(of.get("files"), Mapping)]
    yield from (f"{side}: {counted(len(read), 'file')} read" for side, read in files if read)
    if not files:
        scalars = ", ".join(f"{key} {value}" for key, value in sides if isinstance(value, int | str) and len(str(value)) <= _LONGEST)
        yield f"{name}: {scalars}" if scalars else name


_LIMIT: Final = 20
"""The number of rows that are shown, by default."""
_LONGEST: Final = 40
"""The most characters of a value that is shown."""


def _parser() -> Parser:
    parser = Parser(
        prog=PROGRAM,
        description="The state of incremental runs: the folder of --state-dir, or of --beam_joins_state in a Beam job.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "do", choices=tuple(_DO), metavar=f"{{{','.join(_DO)}}}", help="show it or rows of it, verify its files, or copy it"
    )
    parser.add_argument("folder", metavar="FOLDER", help="a folder on any filesystem that Beam knows")
    parser.add_argument("to", metavar="TO", nargs="?", help="with copy: a folder without a state")
    rows = parser.add_argument_group("rows")
    rows.add_argument("--transform", metavar="LABEL", help="with rows: the label of a transform, or the beginning of labels up to a /")
    rows.add_argument(
        "--key",
        metavar="VALUE",
        action="append",
        help="with rows: the key of the rows to show, values of several columns with commas between them; may be repeated "
        "(default: any)",
    )
    rows.add_argument("--limit", metavar="N", type=int, help=f"with rows: the most rows to show (default: {_LIMIT})")
    return parser
