"""The items of a list."""

from dataclasses import dataclass


@dataclass
class Item:
    text: str
    done: bool = False
    due: str | None = None


def ordered(items):
    """The earliest date first, items without a date last."""
    return sorted(items, key=lambda item: (item.due is None, item.due or ""))
