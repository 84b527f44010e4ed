"""Lines of an invoice: (name, price, number)."""

from invoice.money import parse


def line_total(line):
    _, price, number = line
    return parse(price) * number


def discounted(amount, percent):
    """Takes a discount off, rounded to the nearest cent in the customer's favour."""
    return amount - -(-amount * percent // 100)


def total(lines, percent=0):
    return discounted(sum(line_total(line) for line in lines), percent)
