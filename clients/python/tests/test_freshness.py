"""How long a state counts as current."""

import unittest

from fanoutd.watcher import _fresh_for


class FreshnessTest(unittest.TestCase):
    """Compares the times with those of the other clients."""

    def test_a_state_is_fresh_for_three_intervals_or_two_and_two_seconds(self) -> None:
        for interval, want in ((0.1, 2.2), (1, 4), (2, 6), (10, 30)):
            self.assertAlmostEqual(_fresh_for(interval), want)
