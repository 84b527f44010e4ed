from stack import Stack


def size(stack):
    return len(stack.items)
