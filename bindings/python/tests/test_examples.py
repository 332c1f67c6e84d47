"""test_examples.py: the examples run, and what they promise comes true."""
import os
import re
import unittest

from common import ROOT, needs_torch, run_python


@needs_torch
class Examples(unittest.TestCase):
    def test_attention(self):
        out = run_python(None, os.path.join(ROOT, "examples", "attention.py"), "--side", "24", "--device", "cpu")
        self.assertIn("V_out (1, 5, 16, 24, 24)", out)
        self.assertIn("gradient (1, 5, 16, 24, 24) finite", out)

    def test_learning_converges(self):
        out = run_python(None, os.path.join(ROOT, "examples", "learn_offsets.py"), "--steps", "100")
        errors = [float(e) for e in re.findall(r"flow ([0-9.]+) pixels", out)]
        self.assertGreater(errors[0], 1)
        self.assertLess(errors[-1], 0.15)


if __name__ == "__main__":
    unittest.main()
