"""The error for everything that keeps a runner from starting."""


class RunnerSetupError(RuntimeError):
    """The runner that was asked for cannot run here. The message is one sentence and says what to do.

    Raised for a job server or a master that does not answer, a missing or unfitting Java, a jar that is missing or corrupted, and options
    that contradict each other.

    >>> str(RunnerSetupError("No job server answers at localhost:8099; start it."))
    'No job server answers at localhost:8099; start it.'
    """
