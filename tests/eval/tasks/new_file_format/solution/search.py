"""Finds entries."""

from book import read


def find(path, text):
    return sorted(name for name, phones in read(path).items() if text in name or any(text in phone for phone in phones))
