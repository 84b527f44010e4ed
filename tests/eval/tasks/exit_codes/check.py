import subprocess
open('good', 'w').write('x' * 80 + '\n')
open('bad', 'w').write('x' * 81 + '\n')
run = lambda *f: subprocess.run(['sh', 'check.sh', *f], capture_output=True, text=True)
assert run('good').returncode == 0 and run('good').stdout == ''
both = run('bad', 'good')
assert both.returncode == 1 and both.stdout == 'bad\n', both
