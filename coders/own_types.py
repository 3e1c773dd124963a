"""Encodes values of types for which a user has registered a coder with Beam; keys need a deterministic one.

A worker knows the types that its own modules have registered, and those that the pipeline's steps bring along
as :class:`OwnTypes`.
"""

from typing import Any

from apache_beam.coders import Coder, registry

from beam_joins.coders import pickles
from beam_joins.errors import CorruptData
from beam_joins.keys import canonical
from beam_joins.keys.classes import class_of, name_of
from beam_joins.keys.numbers import NotCanonical

_brought: dict[type, Coder] = {}
_coder_of: dict[type, Coder | None] = {}


class OwnTypes:
    """The registered types and their coders. Unpickling registers them in the worker, and accepts pickles
    there if they are accepted here.

    >>> import pickle
    >>> pickle.loads(pickle.dumps(OwnTypes())) == OwnTypes()
    True
    """

    def __init__(self) -> None:
        _coder_of.clear()
        self._coders = {of_type: registry.get_coder(of_type) for of_type in registry.custom_types if _is_of_user(of_type)}

    def __reduce__(self) -> Any:
        return _restored, (self._coders, pickles.are_accepted())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnTypes) and self._coders.keys() == other._coders.keys()

    def __hash__(self) -> int:
        return hash(frozenset(self._coders))


def own_coder(of_type: type) -> Coder | None:
    """The coder that a user has registered for a class; ``None`` if there is none."""
    if of_type not in _coder_of:
        registered = of_type in registry.custom_types and _is_of_user(of_type)
        _coder_of[of_type] = _brought.get(of_type) or (registry.get_coder(of_type) if registered else None)
    return _coder_of[of_type]


def write_own(value: Any, coder: Coder) -> bytes:
    """The class, and the bytes of its coder."""
    return canonical.joined((name_of(type(value)), coder.encode(value)))


def write_own_key(value: Any) -> bytes:
    """As :func:`write_own`; raises :class:`NotCanonical` for a class without a deterministic coder."""
    coder = own_coder(type(value))
    if coder is None or not coder.is_deterministic():
        raise NotCanonical(
            f"{value!r} is of type {type(value).__module__}.{type(value).__qualname__}, which has no canonical encoding"
        )
    return write_own(value, coder)


def read_own(data: bytes) -> Any:
    """The value of its class and bytes; raises :class:`CorruptData`."""
    name, encoded = canonical.joined_parts(data)
    of_type = class_of(name)
    coder = own_coder(of_type)
    if coder is None:
        raise CorruptData(f"no coder is registered for {of_type}: register it in the module that defines the class")
    return coder.decode(encoded)


def _restored(coders: dict[type, Coder], pickles_accepted: bool) -> OwnTypes:
    if pickles_accepted:
        pickles.accept()
    for of_type, coder in coders.items():
        name_of(of_type)  # by its name it is found again, in a main script too
        _brought[of_type] = coder
    _coder_of.clear()
    types = OwnTypes.__new__(OwnTypes)
    types._coders = coders
    return types


def _is_of_user(of_type: Any) -> bool:
    return isinstance(of_type, type) and of_type.__module__.split(".")[0] not in ("beam_joins", "apache_beam")
