"""Reads rules: `target: dependency dependency`, one on each line."""


def read(lines):
    """Returns a dict of target to list of dependencies."""
    rules = {}
    for line in lines:
        line = line.split("#")[0].strip()
        if line:
            target, _, dependencies = line.partition(":")
            rules[target.strip()] = dependencies.split()
    return rules
