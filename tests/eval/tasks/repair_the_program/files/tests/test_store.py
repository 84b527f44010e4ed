import unittest
from datetime import datetime

from jobs.store import due, read


class StoreTest(unittest.TestCase):
    def test_comments_are_skipped(self):
        jobs = read(["# daily", "", "0 8 * * *\tbackup --all"])
        self.assertEqual(due(jobs, datetime(2026, 3, 1, 8, 0)), ["backup --all"])

    def test_a_job_of_every_minute_runs_at_midnight(self):
        jobs = read(["* * * * *\ttick"])
        self.assertEqual(due(jobs, datetime(2026, 3, 1, 0, 0)), ["tick"])
