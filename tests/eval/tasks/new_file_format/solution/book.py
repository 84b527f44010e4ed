"""An address book in a JSON file: {"version": 2, "people": {name: phones}}, or a list of [name, phone]."""

import json

VERSION = 2


def read(path):
    """Returns a dict of name to list of phones."""
    with open(path) as file:
        found = json.load(file)
    if isinstance(found, list):
        return {name: [phone] for name, phone in found}
    if found["version"] != VERSION:
        raise ValueError(f"{path} has version {found['version']}")
    return found["people"]


def write(path, entries):
    with open(path, "w") as file:
        json.dump({"version": VERSION, "people": entries}, file)
