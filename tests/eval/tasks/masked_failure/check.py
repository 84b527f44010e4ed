import os
import subprocess

for name in ("build.sh", "release.sh"):
    os.chmod(f"scripts/{name}", 0o755)
assert "pipefail" not in open("scripts/release.sh").read()
release = lambda folder: subprocess.run(["sh", "scripts/release.sh", folder], capture_output=True, text=True)
os.makedirs("a good one")
open("a good one/source", "w").write("x")
good = release("a good one")
assert good.returncode == 0 and good.stdout.split() == ["release", "of", "a", "good", "one", "building", "built", "done"], good
assert open("a good one/published").read() == "x" and open("a good one/build.log").read() == "building\nbuilt\n"
os.makedirs("bad")
bad = release("bad")
assert bad.returncode == 1 and "building" in bad.stdout + bad.stderr and "no source" in bad.stdout + bad.stderr, bad
assert "no source" in open("bad/build.log").read() and not os.path.exists("bad/published")
