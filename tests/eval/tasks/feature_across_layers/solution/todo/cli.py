"""The command line."""

import argparse
from datetime import datetime

from todo.model import Item, ordered
from todo.storage import load, save


def date(text):
    if datetime.strptime(text, "%Y-%m-%d").strftime("%Y-%m-%d") != text:
        raise ValueError(text)
    return text


def show(items):
    for number, item in enumerate(items, 1):
        due = f" ({item.due})" if item.due else ""
        print(f"{number} [{'x' if item.done else ' '}] {item.text}{due}")


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="todo")
    parser.add_argument("--file", default="todo.json")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("add")
    add.add_argument("text")
    add.add_argument("--due", type=date)
    done = commands.add_parser("done")
    done.add_argument("number", type=int)
    commands.add_parser("list")
    given = parser.parse_args(arguments)

    items = ordered(load(given.file))
    if given.command == "add":
        items.append(Item(given.text, due=given.due))
        save(given.file, items)
    elif given.command == "done":
        items[given.number - 1].done = True
        save(given.file, items)
    else:
        show(items)
