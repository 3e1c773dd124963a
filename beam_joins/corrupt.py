"""The one error that decoding raises."""


class CorruptData(ValueError):
    """Bytes that were not written by the coder that reads them."""
