"""The errors that users meet beside a ``ValueError`` of a wrong argument; the message of each is one sentence. Errors of servers and
stores that do not answer now, so that the same may succeed later, are told from those of wrong input.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

_STATUS: Final = frozenset({408, 429, 500, 502, 503, 504})
"""The HTTP statuses of requests that may succeed later."""
_NAMES: Final = frozenset(
    {
        # botocore
        *("ConnectionError", "ConnectionClosedError", "ConnectTimeoutError", "EndpointConnectionError", "HTTPClientError"),
        # urllib3 and requests
        *("MaxRetryError", "NewConnectionError", "ProtocolError", "ReadTimeoutError", "Timeout", "TransportError"),
        # the clients of Azure and of Google, httpx, DuckDB
        *("ServiceRequestError", "ServiceResponseError", "RetryError", "ServerNotFoundError"),
        *("ConnectError", "ConnectTimeout", "ReadTimeout", "HTTPException"),
    }
)
"""The names of classes of errors of networks in the libraries of stores and servers."""
_LIBRARIES: Final = frozenset({"deltalake", "duckdb", "_duckdb"})
_SAYS: Final = re.compile(
    r"error sending request|connection (?:refused|reset|closed)|could not (?:connect|establish)|unable to connect|timed? ?out",
    re.IGNORECASE,
)
"""The words of libraries whose errors have no class of their own for it."""


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


def is_unavailable(error: BaseException) -> bool:
    """Whether a server or a store does not answer now, as an error or one of its causes says.

    >>> is_unavailable(ConnectionRefusedError()), is_unavailable(FileNotFoundError()), is_unavailable(Unavailable("no broker"))
    (True, False, True)
    """
    return any(map(_says_so, _causes(error)))


def kind_of(error: BaseException, kind: type[InputError] = InputError) -> type[InputError]:
    """The class of the error that a sentence on another error is raised as: ``kind``, or :class:`~beam_joins.Unavailable`.

    >>> kind_of(TimeoutError()).__name__, kind_of(PermissionError()).__name__
    ('Unavailable', 'InputError')
    """
    return Unavailable if is_unavailable(error) else kind


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it was raised from, also within an error of Beam's file systems."""
    seen, waiting = set[int](), [error]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        within = getattr(each, "exception_details", None)
        behind = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        waiting += [*(within.values() if isinstance(within, dict) else ()), *([behind] if behind else [])]
        waiting = [each for each in waiting if isinstance(each, BaseException)]


def _says_so(error: BaseException) -> bool:
    if isinstance(error, Unavailable | ConnectionError | TimeoutError):
        return True
    if any(each.__name__ in _NAMES for each in type(error).__mro__) or http_status(error) in _STATUS:
        return True
    is_of_library = type(error).__module__.partition(".")[0] in _LIBRARIES or (type(error) is OSError and error.errno is None)
    return is_of_library and bool(_SAYS.search(str(error)))


def http_status(error: BaseException) -> Any:
    """The HTTP status that an error of a client of a store has; ``None`` without one."""
    response = getattr(error, "response", None)  # of boto3
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
    # of Google's and of Azure's clients
    return next(
        (code for code in (status, *(getattr(error, name, None) for name in ("code", "status_code"))) if code is not None), None
    )
