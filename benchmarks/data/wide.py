"""Orders and customers with text keys and more columns, in the columns that the orders command reads by
default.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.works import Kind

NOTE_BYTES: Final[dict[Kind, int]] = {"wide": 200, "wide-large": 200, "short": 6, "shop": 20}
"""How long the order's longest column is."""
STATUSES: Final = ("placed", "paid", "packed", "shipped", "delivered", "cancelled")
CITIES: Final = ("Aarhus", "Bergen", "Cusco", "Dakar", "Erfurt", "Faro", "Genoa", "Hanoi", "Izmir", "Jaipur", "Kyoto", "Lima")
SEGMENTS: Final = ("household", "business", "school", "club")
_CHUNK_ROWS: Final = 1 << 20


def wide_orders(orders: pa.Table, rng: np.random.Generator, *, note_bytes: int) -> pa.Table:
    """The same orders with text keys and the columns of :data:`benchmarks.works.ORDER`."""
    added = {
        "quantity": pa.array(rng.integers(1, 100, len(orders), dtype=np.int64)),
        "status": _drawn(STATUSES, len(orders), rng),
        "city": _drawn(CITIES, len(orders), rng),
        "note": _notes(len(orders), note_bytes, rng),
    }
    return _widened(orders, added, id="order_id", customer="customer_id")


def wide_customers(customers: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The same customers with text keys and the columns of :data:`benchmarks.works.CUSTOMER`."""
    return _widened(customers, {"segment": _drawn(SEGMENTS, len(customers), rng)}, id="customer_id")


def _widened(table: pa.Table, added: dict[str, pa.ChunkedArray | pa.Array], **keys: str) -> pa.Table:
    """Keys become text, named as ``keys`` say; added columns come before those about the change, and are null
    where a row is deleted.
    """
    gone = table["deleted"]
    columns = dict(zip(table.column_names, table.columns, strict=True))
    change = {"updated_at": columns.pop("ts"), "lsn": columns.pop("seq"), "op": pc.if_else(columns.pop("deleted"), "d", "u")}
    texts = {new: _text(columns.pop(name), f"{new.removesuffix('_id')}-") for name, new in keys.items()}
    others = {name: pc.if_else(gone, pa.scalar(None, column.type), column) for name, column in {**columns, **added}.items()}
    return pa.table({**texts, **others, **change})


def _text(ids: pa.ChunkedArray, begin: str) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(begin, pc.utf8_lpad(pc.cast(ids, pa.string()), 8, "0"), "")


def _drawn(words: tuple[str, ...], rows: int, rng: np.random.Generator) -> pa.Array:
    return pa.array(words).take(pa.array(rng.integers(0, len(words), rows)))


def _notes(rows: int, length: int, rng: np.random.Generator) -> pa.ChunkedArray:
    """Random letters; in chunks, as an array of text ends at 2 GB."""
    return pa.chunked_array(
        [_letters(min(_CHUNK_ROWS, rows - begin), length, rng) for begin in range(0, rows, _CHUNK_ROWS)], pa.string()
    )


def _letters(rows: int, length: int, rng: np.random.Generator) -> pa.Array:
    letters = rng.integers(ord("a"), ord("z") + 1, rows * length, dtype=np.uint8)
    ends = np.arange(0, (rows + 1) * length, length, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(letters))
