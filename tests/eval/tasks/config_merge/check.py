from settings import merge
d, u = {'a': {'x': 1, 'y': 2}, 'b': 1}, {'a': {'y': 3}, 'c': 4}
assert merge(d, u) == {'a': {'x': 1, 'y': 3}, 'b': 1, 'c': 4}
assert d == {'a': {'x': 1, 'y': 2}, 'b': 1} and u == {'a': {'y': 3}, 'c': 4}
