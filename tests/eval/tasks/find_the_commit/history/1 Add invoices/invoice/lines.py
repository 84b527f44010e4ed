"""Lines of an invoice: (name, price, number)."""

from invoice.money import parse


def line_total(line):
    _, price, number = line
    return parse(price) * number


def total(lines):
    return sum(line_total(line) for line in lines)
