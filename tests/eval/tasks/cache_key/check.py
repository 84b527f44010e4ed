import shapes
assert shapes.area('square', 2) == 4
assert shapes.area('circle', 2) == 12
assert shapes.CACHE
