"""What is wrong with a collection of changes that is no table: two changes of one row at one position."""

from typing import Any


class TwoChanges(ValueError):
    """A table has two changes of one row at one position; ``input`` numbers the operator's input that it is.

    A core or a kernel raises it with the key as it has it, encoded where the table is. Users see :meth:`of_key`, with the key as they have it.

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
        """The same error of a key in another form. It is a plain one, to whose message Beam can add the name of the step."""
        return ValueError(str(TwoChanges(key, self.position)))
