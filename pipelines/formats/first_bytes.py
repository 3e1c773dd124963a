"""Tells files of another format than their name says by their first bytes."""

from typing import Final

from beam_joins.transforms.connect.files import open_file

LOOKED_AT: Final = 512
"""The number of bytes that are looked at."""
_TAR: Final = slice(257, 262)
_END_OF_NAME: Final = 99
"""A byte of a tar's first name, which zeros fill."""
_CSV: Final = "write its rows as CSV"
_KINDS: Final = (
    (b"\x1f\x8b\x08", "is compressed with gzip: let its name end in .gz"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd: let its name end in .zst"),
    (b"\xfd7zXZ\x00", "is compressed with xz, which is not read: compress it with gzip"),
    (b"PK\x03\x04", f"is a ZIP archive, as spreadsheets (.xlsx) are: {_CSV}, or take its files out"),
    (b"PAR1\x15", "is a Parquet file: let its name end in .parquet"),
    (b"Obj\x01", "is an Avro file: let its name end in .avro"),
    (b"ARROW1\x00\x00", "is an Arrow file: let its name end in .arrow"),
    (b"\xff\xff\xff\xff", "is an Arrow stream: write it as a file, as pyarrow.ipc.new_file does"),
    (b"FEA1\x00", "is a file of Feather 1: write it with version 2"),
    (b"SQLite format 3\x00", f"is a database of SQLite: {_CSV}"),
)


def foreign(begin: bytes) -> str:
    r"""The sentence, without the path, on a file of text that begins with bytes of another format; empty for others.

    >>> foreign(b"PAR1\x15\x04"), foreign(b"PAR1,PAR2")
    ('is a Parquet file: let its name end in .parquet', '')
    """
    if begin[_TAR] == b"ustar" and begin[_END_OF_NAME] == 0:
        return "is a tar archive: take its files out"
    return next((sentence for mark, sentence in _KINDS if begin.startswith(mark)), "")


def foreign_file(path: str, mark: bytes) -> str:
    """The sentence of :func:`foreign` on a file that does not begin with the mark of its own format."""
    with open_file(path) as opened:
        begin = opened.read(LOOKED_AT)
    return "" if begin.startswith(mark) else foreign(begin)
