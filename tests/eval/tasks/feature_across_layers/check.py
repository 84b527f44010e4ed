import json
import subprocess
import sys


def todo(*arguments):
    return subprocess.run([sys.executable, "-B", "-m", "todo", *arguments], capture_output=True, text=True)


with open("todo.json", "w") as file:
    json.dump([{"text": "old", "done": False}, {"text": "older", "done": True}], file)
assert todo("add", "rent", "--due", "2026-05-01").returncode == 0
assert todo("add", "tax", "--due", "2026-04-30").returncode == 0
assert todo("add", "power", "--due", "2026-05-01").returncode == 0
for bad in ("tomorrow", "2026-13-01", "01.05.2026"):
    assert todo("add", "bad", "--due", bad).returncode == 2, bad
assert todo("done", "2").returncode == 0
assert todo("list").stdout.splitlines() == [
    "1 [ ] tax (2026-04-30)",
    "2 [x] rent (2026-05-01)",
    "3 [ ] power (2026-05-01)",
    "4 [ ] old",
    "5 [x] older",
], todo("list").stdout
assert "--due" in open("README.md").read()
