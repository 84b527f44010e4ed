import os
from files import read
os.makedirs('data/sub')
open('data/sub/a', 'w').write('in')
open('secret', 'w').write('out')
assert read('data', 'sub/a') == 'in'
for bad in ('../secret', '/etc/passwd', 'sub/../../secret'):
    try:
        read('data', bad)
    except ValueError:
        continue
    raise AssertionError(bad)
