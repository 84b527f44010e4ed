"""Finds entries."""

from book import read


def find(path, text):
    return sorted(name for name, phone in read(path).items() if text in name or text in phone)
