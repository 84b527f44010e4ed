from cart import Cart
a, b = Cart(), Cart()
a.add(1)
assert b.items == []
given = [1]
assert Cart(given).items == [1]
