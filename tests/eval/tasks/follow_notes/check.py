import numbers_lib
assert numbers_lib.double(3) == 6
assert set(numbers_lib.__all__) == {'half', 'double'}
assert numbers_lib.double.__doc__.strip().endswith('.')
