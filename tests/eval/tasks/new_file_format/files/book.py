"""An address book in a JSON file: a list of [name, phone]."""

import json


def read(path):
    """Returns a dict of name to phone."""
    with open(path) as file:
        return {name: phone for name, phone in json.load(file)}


def write(path, entries):
    with open(path, "w") as file:
        json.dump([[name, phone] for name, phone in entries.items()], file)
