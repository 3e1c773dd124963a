"""The formats of files: a row of :data:`FORMATS` for each.

A format's module, which declares its ``FORMAT``, is imported when that is first used: names and suffixes are there without
Arrow and Beam.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from beam_joins.errors import InputError

if TYPE_CHECKING:
    from beam_joins.pipelines.formats.file_format import FileFormat

Format: TypeAlias = str
"""The name of a format: one of :data:`FORMATS`."""
PACKED: Final = (".gz", ".bz2", ".zst")
"""The suffixes of compressed files, behind those of their format."""


def packed_as(path: str) -> str:
    """The suffix by which a file is compressed, one of :data:`PACKED`, or none.

    >>> packed_as("in/a.jsonl.GZ"), packed_as("in/a.gz.csv")
    ('.gz', '')
    """
    return next((packed for packed in PACKED if path.lower().endswith(packed)), "")


class FormatName(NamedTuple):
    """A format by its name, which with underscores is that of its module, its ``title`` for people and the suffixes of its
    files; these may be ``packed``: compressed as a whole.
    """

    name: Format
    title: str
    suffixes: tuple[str, ...]
    packed: bool = False

    @property
    def format(self) -> "FileFormat":
        """The functions that read and write its files."""
        return file_format(self.name)

    def is_of(self, path: str) -> bool:
        """Whether a path has one of the suffixes."""
        path = path.lower()
        return (path.removesuffix(packed_as(path)) if self.packed else path).endswith(self.suffixes)


FORMATS: Final = (
    FormatName("avro", "Avro", (".avro",)),
    FormatName("json lines", "JSON lines", (".jsonl", ".json", ".ndjson"), packed=True),
    FormatName("parquet", "Parquet", (".parquet",)),
    FormatName("arrow", "Arrow", (".arrow", ".feather")),
    FormatName("csv", "CSV", (".csv",), packed=True),
    FormatName("msgpack", "MessagePack", (".msgpack",), packed=True),
)
_OTHERS: Final = {
    ".tsv": "is CSV with tabs: let its name end in .csv, and say --delimiter=tab (delimiter=) if its header does not show it",
    ".xlsx": "is a spreadsheet and no text: save its sheet as CSV",
    ".xls": "is a spreadsheet and no text: save its sheet as CSV",
    ".orc": "is an ORC file, which is not read: write it as Parquet",
}
"""The suffixes of other files that hold tables, with what to do about them."""
FORMAT_NAMES: Final = tuple(each.name for each in FORMATS)


@cache
def file_format(name: Format) -> "FileFormat":
    """The format of a name."""
    module = import_module(f"beam_joins.pipelines.formats.{name.replace(' ', '_')}")
    declared: FileFormat = module.FORMAT
    return declared


def format_of(what: str, path: str, formats: Sequence[Format] = FORMAT_NAMES) -> FormatName:
    """The format, among these, that a path's suffix stands for; raises InputError, naming the suffixes that
    there are.
    """
    possible = [each for each in FORMATS if each.name in formats]
    for each in possible:
        if each.is_of(path):
            return each
    if remedy := next((remedy for suffix, remedy in _OTHERS.items() if path.lower().endswith(suffix)), ""):
        raise InputError(f"{what}: {path} {remedy}")
    suffixes = ", ".join(suffix for each in possible for suffix in each.suffixes)
    packed = titles_of(each for each in possible if each.packed)
    packed = f"{packed} also with {' or '.join(PACKED)}"
    raise InputError(f"{what}: {path} must end in {suffixes} ({packed}), which says what format it has")


def titles_of(formats: Iterable[FormatName], *others: str) -> str:
    """The titles of formats, and others beside them, as a list in words.

    >>> titles_of(FORMATS[:3]), titles_of(FORMATS[:1], "envelopes"), titles_of(FORMATS[:1])
    ('Avro, JSON lines and Parquet', 'Avro and envelopes', 'Avro')
    """
    *first, last = [*(each.title for each in formats), *others]
    return f"{', '.join(first)} and {last}" if first else last


def has_format(path: str) -> bool:
    """Whether a path's suffix stands for one of the formats."""
    return any(each.is_of(path) for each in FORMATS)


def growing_suffixes() -> tuple[str, ...]:
    """The suffixes of files that may grow."""
    return tuple(suffix for each in FORMATS if each.format.growing is not None for suffix in each.suffixes)


def growing_format(path: str) -> FormatName:
    """The format of a file that may grow; raises InputError that lists the suffixes.

    >>> growing_format("orders.parquet").name
    'parquet'
    """
    for each in FORMATS:
        if path.endswith(each.suffixes) and each.format.growing is not None:
            return each
    raise InputError(f"{path} does not end with one of {', '.join(growing_suffixes())}")
