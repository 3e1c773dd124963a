"""Restricts Beam's Java servers to the loopback address: by themselves they listen on all addresses of the
machine.

A job server has no authentication: every process that reaches it can run code. The class of Beam's that opens the
ports is given the whole address in place of its port, in a jar that stands before Beam's own.

Relies on the bytes of one class of Beam 2.62.0, the version of the lock files: the constants and the three
instructions that are replaced. Needed since the first version with portable runners.
"""

import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from beam_joins.pipelines.runners.setup_error import RunnerSetupError

_CORE: Final = "beam-sdks-java-core-"
PATCHED: Final = "beam-sdks-java-core:2.62.0 18dfa4039940bbada07595f630738976a77f92fc7e9309bd122fa3b1bc5b4622"
"""The jar whose class has these bytes, as the lock files name it, with its checksum."""
_CLASS: Final = "org/apache/beam/sdk/fn/server/ServerFactory$InetSocketAddressServerFactory.class"
_GRPC: Final = b"Lorg/apache/beam/vendor/grpc/v1p60p1/io/grpc/"
_SIGNATURE: Final = b"(Ljava/util/List<%bBindableService;>;Ljava/net/InetSocketAddress;)%bServer;" % (_GRPC, _GRPC)
_DESCRIPTOR: Final = b"(Ljava/net/SocketAddress;)%bnetty/NettyServerBuilder;" % _GRPC


def _text(text: bytes) -> bytes:
    """A text as a constant of a class file."""
    return b"\x01" + len(text).to_bytes(2, "big") + text


_REPLACED: Final = (
    # NettyServerBuilder.forPort(int) becomes forAddress(SocketAddress): its name; its descriptor, in place of
    # a signature that only debuggers read; both together
    (_text(b"forPort"), _text(b"forAddress")),
    (_text(_SIGNATURE), _text(_DESCRIPTOR)),
    (b"\x0c\x00\xa3\x00\xa4", b"\x0c\x00\xa3\x00\x9e"),
    # aload_1, invokevirtual getPort, invokestatic forPort: without the second
    (b"\x2b\xb6\x00\xa0\xb8\x00\xa6", b"\x2b\xb8\x00\xa6\x00\x00\x00"),
)
"""The byte sequences that occur once in the class of the lock file's jar, and their replacements."""


def loopback_jar(class_path: Sequence[Path], directory: Path) -> Path:
    """The jar that goes before Beam's jars, in a directory; an existing one is not written again.

    Raises RunnerSetupError if Beam's class is another than that of the lock file.
    """
    core = next(jar for jar in class_path if jar.name.startswith(_CORE))
    with zipfile.ZipFile(core) as jar:
        compiled = jar.read(_CLASS)
    for old, new in _REPLACED:
        if compiled.count(old) != 1:
            raise RunnerSetupError(
                f"{core} is not of the version whose servers can be kept on this machine: take the one of the lock file."
            )
        compiled = compiled.replace(old, new)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as jar:
        jar.writestr(zipfile.ZipInfo(_CLASS), compiled)
    path = directory / f"loopback-{core.name.removeprefix(_CORE)}"
    if not path.exists() or path.read_bytes() != made.getvalue():
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(made.getvalue())
        part.replace(path)
    return path
