"""Reads the fields of a schedule: `*`, `*/15`, `1-5`, `0,30`."""


def field(text, low, high):
    """Returns the set of numbers that a field allows, from low to high."""
    allowed = set()
    for part in text.split(","):
        step = 1
        if "/" in part:
            part, step = part.split("/")
            step = int(step)
        if part == "*":
            first, last = low, high
        elif "-" in part:
            first, last = (int(end) for end in part.split("-"))
        else:
            first = last = int(part)
        if not low <= first <= last <= high:
            raise ValueError(text)
        allowed.update(range(first, last + 1, step))
    return allowed
