import sys

from counts import count

print(count(sys.stdin.read()))
