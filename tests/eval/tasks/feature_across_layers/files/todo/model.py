"""The items of a list."""

from dataclasses import dataclass


@dataclass
class Item:
    text: str
    done: bool = False
