import subprocess
run = lambda: subprocess.run(['python3', '-m', 'unittest', '-q', 'test_slug'], capture_output=True).returncode
assert run() == 0
for broken in ("'-'.join(title.split())", "'_'.join(title.lower().split())"):
    open('slug.py', 'w').write(f'def slug(title):\n    return {broken}\n')
    assert run() != 0, broken
