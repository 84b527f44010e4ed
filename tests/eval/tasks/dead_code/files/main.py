from util import used

print(used(2))
