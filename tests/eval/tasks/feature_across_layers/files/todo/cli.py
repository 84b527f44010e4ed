"""The command line."""

import argparse

from todo.model import Item
from todo.storage import load, save


def show(items):
    for number, item in enumerate(items, 1):
        print(f"{number} [{'x' if item.done else ' '}] {item.text}")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="todo")
    parser.add_argument("--file", default="todo.json")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add")
    add.add_argument("text")
    done = commands.add_parser("done")
    done.add_argument("number", type=int)
    commands.add_parser("list")
    given = parser.parse_args(arguments)

    items = load(given.file)
    if given.command == "add":
        items.append(Item(given.text))
        save(given.file, items)
    elif given.command == "done":
        items[given.number - 1].done = True
        save(given.file, items)
    else:
        show(items)
