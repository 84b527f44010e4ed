"""Thirty small tasks, one folder each below tasks/:

    prompt.txt     what the agent is asked
    history/       earlier commits, oldest first: folders named "NUMBER SUBJECT" with the files that a commit changes
    files/         what the last commit changes; most tasks have nothing but this one
    uncommitted/   what the user changed since then
    check.py       the hidden check: Python that runs in the agent's folder after it has finished
    solution/      files that solve the task

The checks need nothing but python3, sh and git. `run.py --check` proves that they fail before the
solution and pass after it.
"""

import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent / "tasks"
CHECK_SECONDS = 20

# Commits have the same ids in every run, and no configuration of the user's applies to them.
GIT = {
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "A. User", "GIT_AUTHOR_EMAIL": "user@localhost", "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_NAME": "A. User", "GIT_COMMITTER_EMAIL": "user@localhost", "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
}


class Task:
    def __init__(self, folder):
        self.folder = folder
        self.name = folder.name
        self.prompt = (folder / "prompt.txt").read_text().strip()

    def files(self, part):
        """The files of a part, as a dict of relative path to text."""
        root = self.folder / part
        return {str(path.relative_to(root)): read(path) for path in sorted(root.rglob("*")) if path.is_file()}

    def has(self, name):
        """Whether the agent gets a file of this name."""
        return any((part / name).is_file() for part in [self.folder / "files", *(self.folder / "history").glob("*")])

    def lay_out(self, folder):
        """Makes the repository that the agent gets."""
        git(folder, "init", "--quiet", "--initial-branch", "main")
        history = sorted((self.folder / "history").glob("*"), key=lambda path: int(path.name.split()[0]))
        for path in history:
            write(folder, self.files(path.relative_to(self.folder)))
            commit(folder, path.name.split(maxsplit=1)[1])
        if (self.folder / "files").is_dir():
            write(folder, self.files("files"))
            commit(folder, "Import the project")
        write(folder, self.files("uncommitted"))

    def solve(self, folder):
        write(folder, self.files("solution"))

    def is_solved(self, folder):
        """Runs the hidden check. An endless loop counts as unsolved."""
        program = "import sys\nsys.path.insert(0, '')\n" + read(self.folder / "check.py")
        try:
            done = subprocess.run([sys.executable, "-B", "-c", program], cwd=folder, capture_output=True,
                                  timeout=CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def read(path):
    """Reads a text with its line ends as they are."""
    with open(path, newline="") as file:
        return file.read()


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", newline="") as file:
            file.write(text)


def git(folder, *arguments):
    subprocess.run(["git", *arguments], cwd=folder, check=True, env={**os.environ, **GIT})


def commit(folder, subject):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", subject)


TASKS = [Task(folder) for folder in sorted(FOLDER.iterdir())]
