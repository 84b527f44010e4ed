from pages import page
assert page(list(range(10)), 1, 3) == [3, 4, 5]
assert page([1], 0, 5) == [1]
