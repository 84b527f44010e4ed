import sys

from builder.graph import BadRules, order
from builder.rules import read

try:
    with open(sys.argv[1]) as file:
        targets = order(read(file))
except BadRules as error:
    sys.exit(str(error))
for target in targets:
    print(target)
