"""Exempts connections to this machine from the proxies that the environment sets."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

# Read by gRPC alone and in place of no_proxy, so that fetching jars and the job's own requests still use the
# proxy.
_VARIABLE = "no_grpc_proxy"


@contextmanager
def no_proxy_here() -> Iterator[None]:
    """Makes gRPC connect to this machine without a proxy during the block, also in child processes.

    Without it gRPC asks the proxy of `http_proxy` even for localhost, where the job server and the workers
    are.

    >>> with no_proxy_here():
    ...     os.environ["no_grpc_proxy"].endswith("localhost,127.0.0.1,::1")
    True
    """
    before = os.environ.get(_VARIABLE)
    others = os.environ.get("no_proxy", "") if before is None else before
    os.environ[_VARIABLE] = ",".join(filter(None, (others, "localhost,127.0.0.1,::1")))
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
        if before is not None:
            os.environ[_VARIABLE] = before
