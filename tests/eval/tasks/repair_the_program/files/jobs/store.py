"""The jobs of a file: a schedule, a tab, and a command on each line."""

from jobs.schedule import Schedule


def read(lines):
    jobs = []
    for line in lines:
        line = line.strip()
        if line and not line.startswith("#"):
            schedule, command = line.split("\t", 1)
            jobs.append((Schedule(schedule), command))
    return jobs


def due(jobs, time):
    return [command for schedule, command in jobs if schedule.matches(time)]
