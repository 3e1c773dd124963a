"""Files of scenarios and answers: one JSON document a line, plain or gzipped by suffix."""

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.conformance.answer import Answer
from tests.conformance.scenario import Scenario

HERE = Path(__file__).parent
SCENARIOS, EXPECTED = HERE / "scenarios.jsonl.gz", HERE / "expected.jsonl.gz"

NEGATIVE_BOUNDS, NEGATIVE_BOUNDS_BY_RULE = HERE / "negative_bounds.jsonl", HERE / "negative_bounds_by_rule.jsonl"
"""Scenarios of joins of streams whose answers are those of the rule, not recorded."""


class UnreadableFile(Exception):
    """A file that is not there, or not in the format; the message says which line."""


def read_scenarios(path: Path) -> list[Scenario]:
    """The scenarios of a file; raises :class:`UnreadableFile`."""
    return [_read(Scenario, where, document) for where, document in read_documents(path)]


def read_answers(path: Path) -> dict[str, Answer]:
    """The recorded answers of a file by scenario name; raises :class:`UnreadableFile`."""
    answers = [_read(Answer.recorded, where, document) for where, document in read_documents(path)]
    return {answer.name: answer for answer in answers}


def write_answers(path: Path, answers: Iterable[Answer]) -> None:
    """Write answers in the recorded format."""
    with _open(path, "wt") as file:
        for answer in answers:
            file.write(json.dumps(answer.document(), ensure_ascii=False) + "\n")


def read_documents(path: Path) -> Iterator[tuple[str, Any]]:
    """The JSON documents of a file, each with its place in it; raises :class:`UnreadableFile`."""
    try:
        with _open(path, "rt") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path}, line {number}", json.loads(line)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{path} cannot be read: {error}") from error
    except json.JSONDecodeError as error:
        raise UnreadableFile(f"{path} has a line that is not JSON: {error}") from error


def _read(make: Any, where: str, document: Any) -> Any:
    try:
        return make(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableFile(f"{where}: not a document of this format ({type(error).__name__}: {error})") from error


def _open(path: Path, mode: str) -> Any:
    return gzip.open(path, mode, encoding="utf-8") if path.suffix == ".gz" else path.open(mode, encoding="utf-8")
