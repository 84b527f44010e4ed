import subprocess, util
assert subprocess.run(['python3', 'main.py'], capture_output=True, text=True).stdout == '5\n'
assert not hasattr(util, 'old') and not hasattr(util, 'older') and hasattr(util, 'helper')
