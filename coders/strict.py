"""The base class of coders whose decoding raises :class:`CorruptData` only."""

from abc import abstractmethod
from typing import Any

from apache_beam.coders import Coder

from beam_joins.errors import CorruptData


class StrictCoder(Coder):
    """A coder whose ``decode`` raises :class:`CorruptData` for garbage, and no other exception."""

    @abstractmethod
    def read(self, encoded: bytes) -> Any:
        """Decode; may raise any exception."""

    def decode(self, encoded: bytes) -> Any:
        """Decode, or raise :class:`CorruptData`."""
        try:
            return self.read(encoded)
        except CorruptData:
            raise
        except Exception as error:
            raise CorruptData(f"{type(self).__name__} cannot read {len(encoded)} bytes: {error}") from error

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))
