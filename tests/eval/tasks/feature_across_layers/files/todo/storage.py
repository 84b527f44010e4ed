"""Keeps the items in a JSON file."""

import json
import os

from todo.model import Item


def load(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [Item(entry["text"], entry["done"]) for entry in json.load(file)]


def save(path, items):
    with open(path, "w") as file:
        json.dump([{"text": item.text, "done": item.done} for item in items], file)
