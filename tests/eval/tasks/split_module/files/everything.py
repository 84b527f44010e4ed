class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)


def size(stack):
    return len(stack.items)
