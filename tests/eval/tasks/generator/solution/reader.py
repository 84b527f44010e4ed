def lines(path):
    with open(path) as file:
        for line in file:
            yield line.rstrip('\n')
