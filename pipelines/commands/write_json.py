"""``--json``: writes the summary of a run for programs, as one line of JSON."""

import os
from typing import Final

import orjson

from beam_joins.pipelines.base.input_error import writing
from beam_joins.pipelines.commands.summary import Summary

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
    target = path if append else f"{path}.{os.getpid()}"
    with writing(path):
        with open(target, "ab" if append else "wb") as file:
            file.write(line + b"\n")
        if not append:
            os.replace(target, path)
