def lines(path):
    with open(path) as file:
        return file.read().split('\n')
