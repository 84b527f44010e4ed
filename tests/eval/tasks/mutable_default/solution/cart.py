class Cart:
    def __init__(self, items=None):
        self.items = [] if items is None else items

    def add(self, item):
        self.items.append(item)
