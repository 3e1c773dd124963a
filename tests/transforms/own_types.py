"""Types with coders of their own, which importing this module does not register."""

from apache_beam.coders import Coder, registry


class Address:
    """Equal to nothing but itself in Python; its coder says which addresses are one key."""

    def __init__(self, text):
        self.text = text

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("an address is written by its coder only")


class AddressCoder(Coder):
    def encode(self, value):
        return value.text.lower().encode()

    def decode(self, encoded):
        return Address(encoded.decode())

    def is_deterministic(self):
        return True


class Note:
    def __init__(self, text):
        self.text = text

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("a note is written by its coder only")


class NoteCoder(Coder):
    def encode(self, value):
        return value.text.encode()

    def decode(self, encoded):
        return Note(encoded.decode())

    def is_deterministic(self):
        return False


def register():
    registry.register_coder(Address, AddressCoder)
    registry.register_coder(Note, NoteCoder)
