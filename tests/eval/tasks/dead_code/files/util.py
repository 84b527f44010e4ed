def used(x):
    return helper(x) + 1


def helper(x):
    return x * 2


def old(x):
    return older(x)


def older(x):
    return x
