"""How many examples a property has: a quarter of its number in `make test`, all of them in `make test-all`."""

from hypothesis import settings


def examples(number: int) -> settings:
    """The settings of a property that has shown what it can with so many examples."""
    return settings(max_examples=number if settings.get_current_profile_name() == "random" else max(number // 4, 3))
