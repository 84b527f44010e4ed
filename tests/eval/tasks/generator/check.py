import types
from reader import lines
open('x', 'w').write('a\nb\n')
found = lines('x')
assert isinstance(found, types.GeneratorType) and list(found) == ['a', 'b']
