"""Schedules: five fields for minute, hour, day, month and day of the week."""

from datetime import timedelta

from jobs.parser import field

LIMITS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]


class Schedule:
    def __init__(self, text):
        parts = text.split()
        if len(parts) != len(LIMITS):
            raise ValueError(text)
        self.fields = [field(part, low, high) for part, (low, high) in zip(parts, LIMITS)]

    def matches(self, time):
        # Sunday is 0 here and 6 in `weekday`.
        values = (time.minute, time.hour, time.day, time.month, (time.weekday() + 1) % 7)
        return all(value in allowed for value, allowed in zip(values, self.fields))

    def next(self, time):
        """Returns the first minute after `time` that matches."""
        time = time.replace(second=0, microsecond=0)
        for _ in range(366 * 24 * 60):
            time += timedelta(minutes=1)
            if self.matches(time):
                return time
        return None
