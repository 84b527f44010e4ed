#!/usr/bin/env python3
"""Runs the tasks of tasks.py with a configured model and reports how it went.

    run.py --acpd target/release/acpd [--model ID] [--only NAME ...] [--out report.json]
    run.py --loop --acpd target/debug/acpd     checks acpd's own loop with a scripted model, in a temporary home
    run.py --check        proves that every hidden check fails before its solution and passes after it

Each task runs in a folder of its own, as one turn of `acpd ask --allow --json`, in the daemon and with
the configuration of the user who starts it. The agent never sees the hidden checks. The report is JSON
with one entry per task and sums, so that two versions or two models can be compared.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import scripted
from tasks import TASKS

TURN_SECONDS = 900
CHECK_SECONDS = 20


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", newline="") as file:
            file.write(text)


def is_solved(folder, task):
    """Runs the hidden checks. An endless loop counts as unsolved."""
    command = [sys.executable, "-B", "-c", "import sys; sys.path.insert(0, '')\n" + task["check"]]
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, timeout=CHECK_SECONDS).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def check():
    failures = []
    for task in TASKS:
        for solved in (False, True):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                write(folder, task["files"])
                if solved:
                    write(folder, task["solution"])
                if is_solved(folder, task) != solved:
                    failures.append(f"{task['name']}: {'fails after' if solved else 'passes before'} its solution")
    names = {task["name"] for task in TASKS}
    if len(names) != 30:
        failures.append(f"{len(names)} different tasks instead of 30")
    print("\n".join(failures) or f"{len(TASKS)} tasks: each check fails before its solution and passes after it")
    return 1 if failures else 0


def run(task, arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        write(folder, task["files"])
        command = [arguments.acpd, "ask", "--allow", "--json"]
        command += ["--model", arguments.model] if arguments.model else []
        begun = time.monotonic()
        try:
            done = subprocess.run(command + ["--", task["prompt"]], cwd=folder, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=TURN_SECONDS)
            lines, error = done.stdout.splitlines(), done.stderr.strip()[-300:]
        except subprocess.TimeoutExpired:
            lines, error = [], f"no end after {TURN_SECONDS} s"
        seconds = time.monotonic() - begun
        return {"name": task["name"], "solved": is_solved(folder, task), "seconds": round(seconds, 1), **measure(lines, error)}


def measure(lines, error):
    """Requests, tokens and cost of a turn, from what `ask --json` printed."""
    found = {"requests": 0, "tokens": 0, "cost": None, "stop": None}
    for line in lines:
        try:
            message = json.loads(line)
        except json.JSONDecodeError:
            continue
        update = message.get("update", message.get("params", {}).get("update", {}))
        if update.get("sessionUpdate") == "usage_update":
            found["requests"] += 1
            found["cost"] = (update.get("cost") or {}).get("amount", found["cost"])
        if "stopReason" in message:
            found["stop"] = message["stopReason"]
            found["tokens"] = (message.get("usage") or {}).get("totalTokens", 0)
        if "error" in message:
            found["stop"] = message["error"].get("message")
    if found["stop"] is None:
        found["stop"] = error
    return found


@contextlib.contextmanager
def scripted_home(acpd):
    """A home of its own for a daemon whose model is the scripted one. The daemon is stopped at the end."""
    with tempfile.TemporaryDirectory() as name:
        home = pathlib.Path(name)
        for folder in ("run", "config/acpd", "state"):
            (home / folder).mkdir(mode=0o700, parents=True)
        (home / "config/acpd/config.toml").write_text(scripted.configuration(scripted.serve()))
        os.environ.update(HOME=name, XDG_CONFIG_HOME=f"{name}/config", XDG_STATE_HOME=f"{name}/state",
                          XDG_RUNTIME_DIR=f"{name}/run")
        os.environ.pop("ACPD_SOCKET", None)
        try:
            yield
        finally:
            subprocess.run([acpd, "ctl", "stop"], capture_output=True)


def loop(tasks, arguments):
    """Runs the tasks with the scripted model, which solves all of them in a known number of requests."""
    failures = []
    with scripted_home(arguments.acpd):
        for task in tasks:
            result = run(task, arguments)
            expected = {"solved": True, "requests": scripted.REQUESTS, "stop": "end_turn"}
            if any(result[key] != value for key, value in expected.items()):
                failures.append(f"{task['name']}: {result}")
    print("\n".join(failures) or f"{len(tasks)} tasks: each was solved in {scripted.REQUESTS} requests of the scripted model")
    return 1 if failures else 0


def report(results, arguments):
    version = subprocess.run([arguments.acpd, "--version"], capture_output=True, text=True).stdout.strip()
    costs = [result["cost"] for result in results if result["cost"] is not None]
    sums = {
        "solved": sum(result["solved"] for result in results), "of": len(results),
        "requests": sum(result["requests"] for result in results), "tokens": sum(result["tokens"] for result in results),
        "cost": round(sum(costs), 4) if costs else None, "seconds": round(sum(result["seconds"] for result in results), 1),
    }
    return {"acpd": version, "model": arguments.model or "default", "sums": sums, "tasks": results}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acpd", default=os.environ.get("ACPD", "acpd"))
    parser.add_argument("--model")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--loop", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    if os.sep in arguments.acpd:
        arguments.acpd = os.path.abspath(arguments.acpd)
    chosen = [task for task in TASKS if not arguments.only or task["name"] in arguments.only]
    if arguments.loop:
        return loop(chosen, arguments)
    results = []
    for task in chosen:
        results.append(run(task, arguments))
        print(f"{'solved ' if results[-1]['solved'] else 'missed '} {task['name']:<20} {results[-1]['seconds']:>6} s", file=sys.stderr)
    text = json.dumps(report(results, arguments), indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
