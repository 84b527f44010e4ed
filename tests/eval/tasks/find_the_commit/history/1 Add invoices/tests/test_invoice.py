import unittest

from invoice.lines import total
from invoice.money import show


class InvoiceTest(unittest.TestCase):
    def test_totals(self):
        self.assertEqual(show(total([("pen", "1.50", 2), ("ink", "4.00", 1)])), "7.00")


if __name__ == "__main__":
    unittest.main()
