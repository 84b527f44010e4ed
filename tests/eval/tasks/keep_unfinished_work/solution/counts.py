"""Counts."""


def count(text):
    """Returns the number of lines that are not blank."""
    return sum(bool(line.strip()) for line in text.splitlines())


def words(text):
    return len(text.split())
