import subprocess
import sys


def build(text):
    with open("rules.txt", "w") as file:
        file.write(text)
    return subprocess.run([sys.executable, "-B", "-m", "builder", "rules.txt"], capture_output=True, text=True, timeout=10)


assert build("a: c b\nb:\nc: b\nd:\n").stdout.split() == ["b", "c", "a", "d"]
assert build("# none\n\nx:\n").stdout.split() == ["x"]
cycle = build("z:\na: b\nb: c\nc: a\n")
assert (cycle.returncode, cycle.stdout, cycle.stderr) == (1, "", "cycle: a -> b -> c -> a\n"), cycle
itself = build("a: a\n")
assert itself.returncode == 1 and itself.stderr == "cycle: a -> a\n", itself
unknown = build("a: nowhere\n")
assert unknown.returncode == 1 and unknown.stdout == "" and "nowhere" in unknown.stderr
