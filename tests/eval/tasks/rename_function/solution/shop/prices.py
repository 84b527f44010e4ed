def total_price(items):
    return sum(price for _, price in items)
