from shop.prices import total_price


def report(items):
    return f'total: {total_price(items)}'
