import subprocess

from counts import count
from words import report

git = lambda *arguments: subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout
assert count("a\n\n  \nb\n") == 2 and count("") == 0
assert report("a bc") == "2 words, 4 char"
assert "# unfinished: characters" in open("words.py").read()
assert open("draft.txt").read() == "ideas\n"
assert git("rev-list", "--count", "--all").strip() == "1", "commits, branches and stashes of the agent"
assert " M words.py" in git("status", "--porcelain").splitlines()
