"""Words."""

from counts import words


def report(text):
    # unfinished: characters
    return f"{words(text)} words, {len(text)} char"
