def line(fields):
    return ','.join(fields)
