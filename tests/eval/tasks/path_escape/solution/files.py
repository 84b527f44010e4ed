import os


def read(folder, name):
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, name))
    if os.path.commonpath([root, path]) != root:
        raise ValueError(name)
    with open(path) as file:
        return file.read()
