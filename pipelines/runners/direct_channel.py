"""The data channel from the direct runner to the workers of a pool, which by itself loses and delays elements.

Relies on these private parts of Beam, in 2.66 to 2.77: ``WorkerHandler.register_environment``;
``ExternalWorkerHandler._external_payload``, ``data_conn`` and ``control_conn``; of the control connection
``_futures_by_id``; of the data channel ``_data_buffer_time_limit_ms``, ``_exception`` and ``output_stream``, whose
streams have ``write``, ``maybe_flush`` and ``close``.
"""

import threading
from collections import defaultdict
from typing import Any, ClassVar, Final

from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner.worker_handlers import ExternalWorkerHandler, WorkerHandler
from apache_beam.transforms.environments import ExternalEnvironment

_URN: Final = "beam_joins:env:pooled:v1"


class Pooled(ExternalEnvironment):
    """Workers of a pool, which are watched."""

    def to_runner_api_parameter(self, context: Any) -> Any:
        """An environment of a name of its own, so that the handlers of its workers are ours."""
        return _URN, super().to_runner_api_parameter(context)[1]


@WorkerHandler.register_environment(_URN, beam_runner_api_pb2.ExternalPayload)
class Handler(ExternalWorkerHandler):
    """A worker of a pool, to which the direct runner sends what its stages read."""

    of_pools: ClassVar[defaultdict[str, list["Handler"]]] = defaultdict(list)
    """All, by the addresses of their pools."""

    def start_worker(self) -> None:
        """Start it, and take note of it."""
        super().start_worker()
        _send_all(self.data_conn)
        self.of_pools[self._external_payload.endpoint.url].append(self)

    def fail(self, sentence: str) -> None:
        """Answer all pending requests to the worker with an error: Beam would wait for ever for a worker that has ended."""
        # the requests stay pending: a worker that lives still answers them
        for number, future in list(self.control_conn._futures_by_id.items()):
            future.set(beam_fn_api_pb2.InstructionResponse(instruction_id=number, error=sentence))


def _send_all(channel: Any) -> None:
    """Sends the whole input of bundles over a data channel. Beam's runner sends each second what has been written, and
    forgets what is written meanwhile; without that it sends an input at once, for which 2 GB are too many.
    """
    channel._data_buffer_time_limit_ms = 0
    output_stream = channel.output_stream
    channel.output_stream = lambda *args: _Pieces(channel, output_stream(*args))


class _Pieces:
    """The input of a bundle, sent in pieces of whole elements by a thread: the worker reads when the bundle begins,
    which is after all has been written.
    """

    def __init__(self, channel: Any, stream: Any) -> None:
        self._channel, self._stream = channel, stream
        self._pieces: list[bytes] = []

    def write(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def close(self) -> None:
        threading.Thread(target=self._send, name="direct-input", daemon=True).start()

    def _send(self) -> None:
        try:
            for piece in self._pieces:
                self._stream.write(piece)
                self._stream.maybe_flush()
            self._stream.close()
        except Exception as error:
            self._channel._exception = error  # for the thread that waits for the results of the bundle
