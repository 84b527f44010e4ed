"""The order of targets."""


class BadRules(Exception):
    pass


def order(rules):
    done, path = {}, []

    def visit(target):
        if target in done:
            return
        if target in path:
            raise BadRules("cycle: " + " -> ".join([*path[path.index(target):], target]))
        if target not in rules:
            raise BadRules(f"unknown target: {target}")
        path.append(target)
        for name in rules[target]:
            visit(name)
        path.pop()
        done[target] = True

    for target in rules:
        visit(target)
    return list(done)
