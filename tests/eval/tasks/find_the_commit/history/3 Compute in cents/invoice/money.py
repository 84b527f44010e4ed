"""Amounts of money, in cents."""


def parse(text):
    """Reads a price such as "1.50"."""
    return int(float(text) * 100)


def show(amount):
    return f"{amount // 100}.{amount % 100:02}"
