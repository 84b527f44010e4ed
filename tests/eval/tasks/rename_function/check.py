import shop.prices, shop.report
assert shop.prices.total_price([('a', 2)]) == 2
assert not hasattr(shop.prices, 'calc')
assert shop.report.report([('a', 2)]) == 'total: 2'
assert 'calc' not in open('shop/report.py').read()
