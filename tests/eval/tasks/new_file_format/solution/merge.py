"""Merges two books."""

from book import read, write


def merge(target, other):
    """Adds the people and numbers of `other` that `target` does not have."""
    entries = read(target)
    for name, phones in read(other).items():
        present = entries.setdefault(name, [])
        present.extend(phone for phone in phones if phone not in present)
    write(target, entries)
