"""Words."""

from counts import words


def report(text):
    return f"{words(text)} words"
