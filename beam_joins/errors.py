"""The errors that users meet beside a ``ValueError`` of a wrong argument; the message of each is one sentence."""


class CorruptData(ValueError):
    """Raised for bytes that the decoding coder has not written."""


class InputError(ValueError):
    """A path, a column or a record that cannot be used, or input that has no right result.

    The message names it and says what to do. Raised in a worker, the runner's own error contains the message.
    """

    _tagged_with_step = True
    """Beam logs the stack trace of an exception, and names the step behind its message, only where it does
    not have this attribute.
    """


class OutputError(InputError):
    """A result, a state or a block that cannot be written: a full disk, a missing permission."""


class StateRefused(ValueError):
    """A run that cannot go on with the folder of a state; the message says why and what to do."""
