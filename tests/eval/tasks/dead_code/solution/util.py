def used(x):
    return helper(x) + 1


def helper(x):
    return x * 2
