import time


class Counter:
    def __init__(self):
        self.value = 0

    def add(self):
        value = self.value
        time.sleep(0)
        self.value = value + 1
