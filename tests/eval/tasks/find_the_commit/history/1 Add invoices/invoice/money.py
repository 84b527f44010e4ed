"""Amounts of money."""

from decimal import Decimal


def parse(text):
    """Reads a price such as "1.50"."""
    return Decimal(text)


def show(amount):
    return f"{amount:.2f}"
