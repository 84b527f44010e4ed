import sys

from builder.graph import order
from builder.rules import read

with open(sys.argv[1]) as file:
    for target in order(read(file)):
        print(target)
