"""Finds classes by module and name, to decode enums and dataclasses."""

import importlib
import sys
from typing import Any

from beam_joins.errors import CorruptData

_SEEN: dict[bytes, type] = {}
"""The classes that this process has written: those of a main script cannot be imported under their name
everywhere.
"""

_LONGEST = 1000  # garbage is not looked for module by module


def name_of(cls: type) -> bytes:
    """Module and name of a class, by which :func:`class_of` finds it again."""
    name = f"{cls.__module__}.{cls.__qualname__}".encode()
    _SEEN[name] = cls
    return name


def class_of(name: bytes) -> type:
    """The class of this name; raises :class:`CorruptData` if this process has no such class.

    >>> class_of(b"datetime.date")
    <class 'datetime.date'>
    """
    if name in _SEEN:
        return _SEEN[name]
    if len(name) > _LONGEST:
        raise CorruptData(f"the name of a class of {len(name)} bytes")
    parts = name.decode().split(".")
    for split in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:split])
        try:
            attribute: Any = sys.modules.get(module) or importlib.import_module(module)
            for part in parts[split:]:
                attribute = getattr(attribute, part)
        except (Exception, SystemExit):  # a module may do anything when it is imported, and garbage may name any
            continue
        if isinstance(attribute, type):
            return attribute
    raise CorruptData(f"the class {name.decode()} is not there in this process: define it in a module that all workers can import")
