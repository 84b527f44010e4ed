import unittest
from datetime import datetime

from jobs.schedule import Schedule


class ScheduleTest(unittest.TestCase):
    def test_every_quarter_of_an_hour(self):
        schedule = Schedule("*/15 * * * *")
        self.assertEqual(schedule.next(datetime(2026, 3, 1, 10, 50)), datetime(2026, 3, 1, 11, 0))

    def test_at_midnight_on_sundays(self):
        schedule = Schedule("0 * * * 0")
        self.assertTrue(schedule.matches(datetime(2026, 3, 1, 0, 0)))

    def test_working_days(self):
        schedule = Schedule("30 9 * * 1-5")
        self.assertEqual(schedule.next(datetime(2026, 2, 27, 12, 0)), datetime(2026, 3, 2, 9, 30))
