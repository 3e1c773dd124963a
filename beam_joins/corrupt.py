"""The errors for bytes that cannot be decoded and for input that has no right result."""


class CorruptData(ValueError):
    """Raised for bytes that the decoding coder has not written."""


class InputRefused(ValueError):
    """Raised for input that has no right result; the message is one sentence that says why and what to do."""
