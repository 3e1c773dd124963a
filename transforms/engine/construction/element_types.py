"""The types of keys and values in a collection's element type; ``Any`` where it has none."""

from dataclasses import fields, is_dataclass
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import TimestampedValue, WindowedValue
from apache_beam.typehints import typehints
from apache_beam.typehints.row_type import RowTypeConstraint

_OF_CONSTRAINTS: Final = {
    typehints.TupleConstraint: tuple,
    typehints.TupleHint.TupleSequenceConstraint: tuple,
    typehints.DictConstraint: dict,
    typehints.ListConstraint: list,
    RowTypeConstraint: RowTypeConstraint,
}
_WRAPPERS: Final = (TimestampedValue, WindowedValue, TaggedOutput)
"""What functions return in place of elements."""


def type_or_any(hint: Any) -> Any:
    """The type of a type hint of Python or Beam: ``T`` for ``T | None``, ``Any`` for other unions and for no
    type.

    >>> type_or_any(int | None), type_or_any(int | str)
    (<class 'int'>, typing.Any)
    """
    choices: tuple[Any, ...] = ()
    if isinstance(hint, typehints.UnionConstraint):
        choices = tuple(hint.union_types)
    elif get_origin(hint) is Union or type(hint) is type(int | str):
        choices = get_args(hint)
    if choices:
        rest = [choice for choice in choices if choice is not type(None)]
        return rest[0] if len(rest) == 1 else Any
    return Any if hint in (None, type(None)) or isinstance(hint, typehints.AnyTypeConstraint) else hint


def pair_types(element_type: Any) -> tuple[Any, Any]:
    """The types of key and value of a collection of pairs.

    >>> pair_types(typehints.Tuple[str, int])
    (<class 'str'>, <class 'int'>)
    """
    if isinstance(element_type, typehints.TupleConstraint) and len(element_type.tuple_types) == 2:
        key_type, value_type = element_type.tuple_types
        return type_or_any(key_type), type_or_any(value_type)
    return Any, Any


def is_of_others(hint: Any, *kinds: type) -> bool:
    """Whether a type hint says that no element is of one of these classes.

    >>> is_of_others(typehints.Dict[str, int], tuple), is_of_others(typehints.Tuple[str, int], tuple), is_of_others(Any, dict)
    (True, False, False)
    """
    if isinstance(hint, typehints.UnionConstraint):
        return all(is_of_others(each, *kinds) for each in hint.union_types)
    hint = next((kind for constraint, kind in _OF_CONSTRAINTS.items() if isinstance(hint, constraint)), hint)
    return (
        isinstance(hint, type)
        and hint is not Any
        and not any(issubclass(hint, kind) or issubclass(kind, hint) for kind in (*kinds, *_WRAPPERS))
    )


def annotated(annotated: Any, name: str) -> Any:
    """The type of a field of a class, or with ``"return"`` of the result of a function."""
    try:
        return type_or_any(get_type_hints(annotated).get(name, Any))
    except Exception:  # hints that cannot be resolved
        return Any


def columns_of_type(element_type: Any) -> list[str] | None:
    """The names of the fields that elements of a type have; ``None`` where the type does not say."""
    if isinstance(element_type, RowTypeConstraint):
        return [name for name, _ in element_type._fields]
    if is_dataclass(element_type):
        return [each.name for each in fields(element_type)]
    names = getattr(element_type, "_fields", None)
    return list(names) if isinstance(names, tuple) else None
