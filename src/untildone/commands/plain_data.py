"""Values of the domain as plain data, the way that the journal writes them."""

from untildone.adapters.records.codec import encode


def as_data(value: object) -> object:
    """What JSON can hold."""
    return encode(value)
