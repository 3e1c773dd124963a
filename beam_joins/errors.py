"""The errors that users meet beside a ``ValueError`` of a wrong argument; the message of each is one sentence."""

from typing import Any


def http_status(error: BaseException) -> Any:
    """The HTTP status that an error of a client of a store has; ``None`` without one."""
    response = getattr(error, "response", None)  # of boto3
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    # of Google's and of Azure's clients
    return next(
        (code for code in (status, *(getattr(error, name, None) for name in ("code", "status_code"))) if code is not None), None
    )


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


class Unavailable(InputError):
    """A server or a store that does not answer now, as while it restarts, or does not take what is written: the same may succeed
    later.
    """


class StateRefused(ValueError):
    """A run that cannot go on with the folder of a state; the message says why and what to do."""
