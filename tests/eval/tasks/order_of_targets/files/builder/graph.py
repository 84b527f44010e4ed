"""The order of targets."""


def order(rules):
    done = []
    pending = list(rules)
    while pending:
        target = pending.pop(0)
        if all(name in done for name in rules[target]):
            done.append(target)
        else:
            pending.append(target)
    return done
