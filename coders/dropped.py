"""Coder of ``Dropped``: the reason, the record, its time, and a checksum."""

from apache_beam.coders import Coder, registry

from beam_joins.coders.checked import checked, unchecked
from beam_joins.coders.strict import StrictCoder
from beam_joins.coders.values import ValueCoder
from beam_joins.elements.change import Dropped
from beam_joins.errors import CorruptData


class DroppedCoder(StrictCoder):
    """Coder of :class:`Dropped`, for which it is registered.

    A record of a type that cannot be written is refused, as a value would be.

    >>> coder = DroppedCoder()
    >>> coder.decode(coder.encode(Dropped("null_key", {"id": None}, 0)))
    Dropped(reason='null_key', record={'id': None}, timestamp=0)
    """

    def __init__(self) -> None:
        self._values: Coder = ValueCoder()

    def encode(self, value: Dropped) -> bytes:
        """All three fields."""
        return checked(self._values.encode(list(value)))

    def read(self, encoded: bytes) -> Dropped:
        """All three fields."""
        reason, record, timestamp = self._values.decode(bytes(unchecked(encoded)))
        if not isinstance(reason, str) or not isinstance(timestamp, int):
            raise CorruptData(f"a dropped record has a reason and a time, and not {reason!r} and {timestamp!r}")
        return Dropped(reason, record, timestamp)

    def to_type_hint(self) -> type:
        """``Dropped``."""
        return Dropped


registry.register_coder(Dropped, DroppedCoder)
