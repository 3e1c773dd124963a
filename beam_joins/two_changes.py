"""The error of a collection that is not a table: two changes of one row at one position."""

from typing import Any


class TwoChanges(ValueError):
    """A table has two changes of one row at one position; ``input`` numbers the operator's input that it is.

    A kernel raises it with the key in its own form, perhaps encoded. Users see :meth:`of_key`, with the Python key.

    >>> TwoChanges(b"k", 5).of_key("k")
    ValueError("the table has two changes of key 'k' at position 5: make it with TableFromChangelog, which keeps one")
    """

    def __init__(self, key: Any, position: int, input: int = 0) -> None:
        super().__init__(
            f"the table has two changes of key {key!r} at position {position}: make it with TableFromChangelog, which keeps one"
        )
        self.key = key
        self.position = position
        self.input = input

    def of_key(self, key: Any) -> ValueError:
        """The same error for the key in another form: a plain ``ValueError``, to whose message Beam can append the name of the step."""
        return ValueError(str(TwoChanges(key, self.position)))
