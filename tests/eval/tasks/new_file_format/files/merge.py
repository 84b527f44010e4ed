"""Merges two books."""

from book import read, write


def merge(target, other):
    """Adds the entries of `other` that `target` does not have."""
    entries = read(target)
    for name, phone in read(other).items():
        entries.setdefault(name, phone)
    write(target, entries)
