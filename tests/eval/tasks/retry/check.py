from net import call
tries = []
def flaky():
    tries.append(1)
    if len(tries) < 3:
        raise OSError('no')
    return 7
assert call(flaky) == 7 and len(tries) == 3
def broken():
    tries.append(1)
    raise KeyError('x')
tries.clear()
try:
    call(broken)
    raise SystemExit(1)
except KeyError:
    assert len(tries) == 3
