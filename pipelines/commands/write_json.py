"""``--json``: writes the summary of a run for programs, as one line of JSON."""

from typing import Final

import orjson

from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.base.paths import absolute
from beam_joins.pipelines.commands.summary import Summary
from beam_joins.transforms.connect.files import write_whole

STDOUT: Final = "-"


def write_json(summary: Summary, path: str, *, append: bool = False) -> None:
    """Write it to a file, which is replaced at once or to which it is appended, or to the standard output.

    Raises OutputError.
    """
    line = orjson.dumps(summary.data())
    if path == STDOUT:
        print(line.decode(), flush=True)
    else:
        write_line(line, path, append=append)


def write_line(line: bytes, path: str, *, append: bool) -> None:
    """Write a line to a file, which is replaced at once or to which it is appended. Raises OutputError."""
    with writing(path):
        if not append:
            write_whole(absolute(path), line + b"\n")
            return
        with open(path, "ab") as file:
            file.write(line + b"\n")
