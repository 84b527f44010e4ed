import subprocess
import sys
from datetime import datetime

from jobs.schedule import Schedule

first = subprocess.run(["git", "rev-list", "--max-parents=0", "HEAD"], capture_output=True, text=True, check=True)
subprocess.run(["git", "diff", "--quiet", first.stdout.strip(), "--", "tests"], check=True)
subprocess.run([sys.executable, "-B", "-m", "unittest", "-q"], check=True, capture_output=True)
assert Schedule("*/20 */12 * * *").next(datetime(2026, 3, 1, 13, 0)) == datetime(2026, 3, 2, 0, 0)
assert Schedule("0 0 */10 * *").next(datetime(2026, 3, 1, 0, 0)) == datetime(2026, 3, 11, 0, 0)
try:
    Schedule("60 * * * *")
    raise SystemExit(1)
except ValueError:
    pass
