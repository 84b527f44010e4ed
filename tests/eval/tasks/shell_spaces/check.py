import os, subprocess
os.makedirs('in put')
open('in put/a b.txt', 'w').write('x')
open('in put/c', 'w').write('y')
subprocess.run(['sh', 'backup.sh', 'in put', 'out put'], check=True)
assert sorted(os.listdir('out put')) == ['a b.txt', 'c']
