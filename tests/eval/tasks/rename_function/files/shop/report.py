from shop.prices import calc


def report(items):
    return f'total: {calc(items)}'
