from text import shorten
whole = 'aé漢😀'.encode()
for limit in range(len(whole) + 2):
    cut = shorten(whole, limit)
    assert len(cut) <= limit and whole.startswith(cut)
    cut.decode()
assert shorten(whole, 100) == whole and shorten(whole, 3) == 'aé'.encode()
