#!/usr/bin/env python3
"""Runs the tasks below tasks/ with a model and reports how it went.

    run.py --acpd target/release/acpd [--model ID] [--only NAME ...] [--out report.json]
    run.py --loop --acpd target/debug/acpd     checks acpd's own loop with a scripted model
    run.py --check        proves that every hidden check fails before its solution and passes after it

The program under test runs as a daemon of its own, with a copy of your configuration and keys but
without your history, notes and memory. Each task runs in a git repository of its own, as one turn of
`acpd ask --allow --json`; the agent never sees the hidden check. The report is JSON with one entry per
task and sums. It names the program, the commit of this checkout and the model, so that versions and
models can be compared.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import scripted
from tasks import TASKS

TURN_SECONDS = 900
START_SECONDS = 60


def check():
    failures = []
    for task in TASKS:
        for solved in (False, True):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                task.lay_out(folder)
                if solved:
                    task.solve(folder)
                if task.is_solved(folder) != solved:
                    failures.append(f"{task.name}: {'fails after' if solved else 'passes before'} its solution")
    if len(TASKS) != 30:
        failures.append(f"{len(TASKS)} tasks instead of 30")
    print("\n".join(failures) or f"{len(TASKS)} tasks: each check fails before its solution and passes after it")
    return 1 if failures else 0


@contextlib.contextmanager
def daemon(acpd, configuration, keys=None):
    """Runs a daemon with this configuration, and stops it at the end."""
    with tempfile.TemporaryDirectory() as name:
        home = pathlib.Path(name)
        for folder in ("run", "config/acpd", "state/acpd"):
            (home / folder).mkdir(mode=0o700, parents=True)
        (home / "config/acpd/config.toml").write_text(configuration)
        if keys and keys.is_dir():
            shutil.copytree(keys, home / "state/acpd/keys")
        os.environ.update(XDG_CONFIG_HOME=f"{name}/config", XDG_STATE_HOME=f"{name}/state", XDG_RUNTIME_DIR=f"{name}/run",
                          ACPD_SOCKET=f"{name}/run/acpd.sock")
        serve = [acpd, "serve", "--set", "http.listen=", "--set", "daemon.exit_when_idle=off"]
        with open(home / "daemon.log", "w") as log:
            process = subprocess.Popen(serve, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield status(acpd, process, home / "daemon.log")
        finally:
            process.terminate()
            process.wait()


def status(acpd, process, log):
    """Waits until the daemon answers, and returns what it says of itself."""
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        asked = subprocess.run([acpd, "ctl", "status", "--json"], capture_output=True, text=True)
        if asked.returncode == 0:
            return json.loads(asked.stdout)
        time.sleep(0.05)
    sys.exit(f"the daemon did not start: {log.read_text()[-2000:]}")


def run(task, arguments, started=lambda process: None):
    """Runs a task. `started` gets the process of `acpd ask`."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        task.lay_out(folder)
        command = [arguments.acpd, "ask", "--allow", "--json"]
        command += ["--model", arguments.model] if arguments.model else []
        begun = time.monotonic()
        printed, error = ask(command + ["--", task.prompt], folder, started)
        # A stopped turn must not continue in a folder that is removed.
        for session in sessions(printed) if error else []:
            subprocess.run([arguments.acpd, "ctl", "cancel", session], capture_output=True)
        seconds = time.monotonic() - begun
        measured = measure(arguments.acpd, printed, error)
        return {"name": task.name, "solved": task.is_solved(folder), "seconds": round(seconds, 1), **measured}


def ask(command, folder, started):
    """Runs `acpd ask` until it ends or takes too long. Returns what it printed, and why it failed."""
    process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    started(process)
    limit = threading.Timer(TURN_SECONDS, process.kill)
    limit.start()
    printed, said = process.communicate()
    limit.cancel()
    if process.returncode < 0:
        return printed, "no end in time"
    return printed, said.strip()[-300:] if process.returncode else None


def sessions(printed):
    """The sessions that the output of `ask --json` names. Its last line may be cut."""
    found = []
    for line in printed.splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            session = json.loads(line).get("params", {}).get("sessionId")
            if session and session not in found:
                found.append(session)
    return found


def measure(acpd, printed, error):
    """Requests, tokens and cost of a turn, from the session's log, which has them however the turn ended."""
    found = {"model": None, "requests": 0, "tokens": 0, "cost": None, "stop": error}
    for session in sessions(printed):
        log = subprocess.run([acpd, "ctl", "export", session], capture_output=True, text=True).stdout
        for event in map(json.loads, log.splitlines()):
            match event["event"]:
                case "created":
                    found["model"] = event["model"]
                case "configured" if event["setting"]["id"] == "model":
                    found["model"] = event["setting"]["value"]
                case "used":
                    found["requests"] += 1
                    found["tokens"] += event["usage"]["input"] + event["usage"]["output"]
                    # The cost of the session so far.
                    found["cost"] = (event.get("cost") or {}).get("amount", found["cost"])
                case "turn_ended":
                    reason = event["reason"]
                    found["stop"] = reason if isinstance(reason, str) else json.dumps(reason)[:300]
    return found


def loop(tasks, arguments):
    """Runs the tasks with the scripted model, which solves all of them in a known number of requests."""
    failures = []
    with daemon(arguments.acpd, scripted.configuration(scripted.serve())):
        for task in tasks:
            result = run(task, arguments)
            expected = {"solved": True, "stop": "end_turn", **scripted.EXPECTED}
            if any(result[key] != value for key, value in expected.items()):
                failures.append(f"{task.name}: {result}, expected {expected}")
        failures += interrupted(tasks[0], arguments)
    print("\n".join(failures) or f"{len(tasks)} tasks: each was solved, with {scripted.EXPECTED} of the scripted model")
    return 1 if failures else 0


def interrupted(task, arguments):
    """A turn that is stopped early counts what it has used, and does not continue."""
    with scripted.held() as arrived:
        kill = lambda process: threading.Thread(target=lambda: arrived.wait() and process.kill(), daemon=True).start()
        result = run(task, arguments, started=kill)
    still = json.loads(subprocess.run([arguments.acpd, "ctl", "sessions", "--json"], capture_output=True, text=True).stdout)
    running = [card["state"] for card in still["sessions"] if card["state"] == "running"]
    expected = {"requests": scripted.REQUESTS - 1, "stop": "cancelled"}
    if not running and all(result[key] == value for key, value in expected.items()):
        return []
    return [f"{task.name}, stopped early: {result}, expected {expected}; running: {running}"]


def report(results, about, arguments):
    costs = [result["cost"] for result in results if result["cost"] is not None]
    sums = {
        "solved": sum(result["solved"] for result in results), "of": len(results),
        "requests": sum(result["requests"] for result in results), "tokens": sum(result["tokens"] for result in results),
        "cost": round(sum(costs), 4) if costs else None, "seconds": round(sum(result["seconds"] for result in results), 1),
    }
    program = subprocess.run([arguments.acpd, "--version"], capture_output=True, text=True).stdout.strip()
    checkout = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True,
                              cwd=pathlib.Path(__file__).parent).stdout.strip()
    models = sorted({result["model"] for result in results if result["model"]})
    return {"acpd": program, "daemon": about["version"], "checkout": checkout or None, "models": models, "sums": sums,
            "tasks": results}


def own_files():
    """The configuration and the keys of the user who starts this."""
    home = pathlib.Path.home()
    config = pathlib.Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "acpd/config.toml"
    state = pathlib.Path(os.environ.get("XDG_STATE_HOME") or home / ".local/state") / "acpd"
    return config.read_text() if config.exists() else "", state / "keys"


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
    chosen = [task for task in TASKS if not arguments.only or task.name in arguments.only]
    if arguments.loop:
        return loop(chosen, arguments)
    results = []
    configuration, keys = own_files()
    with daemon(arguments.acpd, configuration, keys) as about:
        for task in chosen:
            results.append(run(task, arguments))
            verdict = "solved" if results[-1]["solved"] else "missed"
            print(f"{verdict} {task.name:<22} {results[-1]['seconds']:>6} s", file=sys.stderr)
    text = json.dumps(report(results, about, arguments), indent=1)
    if arguments.out:
        arguments.out.write_text(text + "\n")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
