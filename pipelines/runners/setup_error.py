"""The error for a runner that cannot start."""


class RunnerSetupError(RuntimeError):
    """Raised when a runner cannot run here. The message is one sentence with the remedy.

    Raised for a job server or a master that does not answer, a missing or unfitting Java, a jar that is
    missing or corrupted, and options that contradict each other.

    >>> str(RunnerSetupError("No job server answers at localhost:8099; start it."))
    'No job server answers at localhost:8099; start it.'
    """
