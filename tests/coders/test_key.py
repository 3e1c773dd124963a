"""A key's coder is deterministic, or the key is refused with a remedy."""

import enum
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from apache_beam.coders import Coder, registry

from beam_joins.coders.key import encode_key, key_coder, value_coder
from beam_joins.coders.values import ValueCoder


class Plain:
    pass


@dataclass
class Mutable:
    id: int


@dataclass(frozen=True)
class Frozen:
    id: int


class Pair(NamedTuple):
    shop: str
    number: int


class Colour(enum.Enum):
    RED = 1


class Registered:
    pass


class CarelessCoder(Coder):
    def encode(self, value):
        return repr(value).encode()

    def decode(self, encoded):
        return encoded


registry.register_coder(Registered, CarelessCoder)


@pytest.mark.parametrize(
    "key_type", [str, int, bytes, float, bool, tuple[str, int], Any, object, Mutable, Frozen, Pair, Colour, set, int | str]
)
def test_types_with_one_encoding_can_be_keys(key_type):
    assert key_coder(key_type, "the key").is_deterministic()


@pytest.mark.parametrize("key_type", [Plain, Registered])
def test_types_without_one_are_refused_with_their_name_and_the_remedy(key_type):
    with pytest.raises(ValueError, match=rf"the key of X is of type .*{key_type.__name__}.*register a deterministic coder"):
        key_coder(key_type, "the key of X")


@pytest.mark.parametrize("key", ["k", 7, b"k", ("a", 1), -1, "", 2**70])
def test_keys_of_unknown_type_are_written_and_read(key):
    coder = key_coder(Any, "the key")
    assert coder.decode(encode_key(coder, key, "the key")) == key


def test_seven_and_its_text_are_two_keys():
    coder = key_coder(Any, "the key")
    assert encode_key(coder, 7, "the key") != encode_key(coder, "7", "the key")


@pytest.mark.parametrize(("key_type", "key"), [(Any, Plain()), (str, 7), (int, "7")])
def test_a_key_that_cannot_be_written_is_named(key_type, key):
    with pytest.raises(ValueError, match=r"the foreign key .* of type .* cannot be written"):
        encode_key(key_coder(key_type, "the foreign key"), key, "the foreign key")


def test_values_of_dict_types_are_written_as_values_of_any_type():
    assert isinstance(value_coder(dict[str, int]), ValueCoder)
