import unittest

from slug import slug


class SlugTest(unittest.TestCase):
    def test_words_are_joined(self):
        self.assertEqual(slug('Hello Big World'), 'hello-big-world')
