"""Counts."""


def count(text):
    """Returns the number of lines."""
    return len(text.splitlines())


def words(text):
    return len(text.split())
