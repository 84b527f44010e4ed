"""The text of an invoice."""

from invoice.lines import line_total, total
from invoice.money import show


def report(lines):
    rows = [f"{line[0]}: {show(line_total(line))}" for line in lines]
    return "\n".join([*rows, f"total: {show(total(lines))}"])
