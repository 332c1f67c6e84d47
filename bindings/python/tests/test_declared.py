"""test_declared.py: what type checkers read: annotations of everything public, their names of options, and mypy where it is installed."""
import importlib.util
import inspect
import os
import subprocess
import sys
import tempfile
import types
import typing
import unittest

from common import PACKAGE, run_python, snls
from snls import _hints
from snls._operators import OPERATORS

USE = '''from __future__ import annotations  # tuple[float, ...] in Python 3.8

import numpy as np
import snls
from snls import NonLocalSearch

video = np.zeros((1, 3, 8, 8, 4), np.float32)
dist, offset = snls.search(video, video, None, ws=3, k=2)
dist, offset, index = snls.search(video, video, with_index=True)
out = snls.gather_add(video, snls.weights(dist), offset)
psnr: float = snls.metrics.psnr(video, out)
noise: tuple[float, ...] = snls.noise_estimate(out[0])
done = snls.denoise(video[0], 20, cuts=(1,), method="nlm", preset="fast")
moved = snls.align(video[0, 0], video[0, 0], "dis", finest=1)
net = snls.Model("stan")
count: int = net.parameters + net.delay
class Place:  # as torch.device has it
    type: str = "cpu"
    index: None = None

net = snls.Model("stan", device=Place())
done = snls.denoise(video[0], 20, cuts=range(2), method="nlm", device=Place())
done = snls.denoise(video[0], 20, cuts={1}, method="nlm")
done = snls.denoise(video[0], 20, cuts=np.array([1]), method="nlm")
for frame in net.stream(video[0], 20, cuts=iter([1])):
    print(frame)
search = NonLocalSearch(3, 1, 1, 5, self_action="anchor")
with snls.Denoiser(8, 8, sigma=(1, 2, 3)) as denoiser:
    frames = denoiser.push(video[0, 0]) + denoiser.finish()
'''
MISUSE = ('snls.search(video, video, ws="3")', 'snls.search(video, video, dist="l3")', 'snls.search([1], video)',
          'snls.flow(video, video, "raft")', 'snls.no_such_name', 'NonLocalSearch(3, 1, 1, 5, itype="cubic")', 'snls.metrics.psnr(video)',
          'snls.denoise(video[0], cuts=1)', 'snls.Model(device=0)')
SETTINGS = "[mypy]\nstrict = True\nfollow_imports = silent\n[mypy-torch.*]\nfollow_imports = skip\n"  # reading PyTorch takes minutes


def functions():
    """(name, function) of all that is public: functions, those of public modules, methods and properties of classes."""
    for name in snls.__all__:
        thing = getattr(snls, name)
        if isinstance(thing, types.ModuleType):
            for part, f in vars(thing).items():
                if isinstance(f, types.FunctionType) and not part.startswith("_") and f.__module__ == thing.__name__:
                    yield name + "." + part, f
        elif isinstance(thing, type):
            for part, f in vars(thing).items():
                if isinstance(f, (types.FunctionType, property)) and (not part.startswith("_") or part in ("__init__", "__call__")):
                    yield name + "." + part, f.fget if isinstance(f, property) else f
        else:
            yield name, thing


class Declared(unittest.TestCase):
    def test_everything_is_annotated(self):
        seen = 0
        for name, function in functions():
            signature = inspect.signature(function)
            self.assertIsNot(signature.return_annotation, signature.empty, name)
            for parameter in signature.parameters.values():
                if parameter.name != "self":
                    self.assertIsNot(parameter.annotation, parameter.empty, (name, parameter.name))
            if sys.version_info >= (3, 10):  # which knows int | None
                typing.get_type_hints(function)
            seen += 1
        self.assertGreater(seen, 40)

    def test_all_is_there(self):
        public = {name for name, thing in vars(snls).items() if not name.startswith("_") and not isinstance(thing, types.ModuleType)}
        self.assertEqual(public, {name for name in snls.__all__ if not isinstance(getattr(snls, name), types.ModuleType)})
        self.assertIn("well", run_python("from snls import *; print('well', search, metrics)", SNLS_TORCH="0"))

    def test_names_are_the_librarys(self):
        for op in OPERATORS.values():
            for row in op.params:
                if row.names:
                    self.assertEqual(typing.get_args(getattr(_hints, row.name.capitalize())), row.names, (op.name, row.name))
        self.assertEqual(typing.get_args(_hints.FlowMethod), snls._flow.METHODS)
        self.assertEqual(set(typing.get_args(_hints.NetworkType)), set(snls.model._DTYPES))
        if hasattr(snls, "nn"):
            self.assertEqual({None, *typing.get_args(_hints.SelfAction)}, set(snls.nn._SELF))
            self.assertEqual(set(typing.get_args(_hints.Itype)), set(snls.nn._INTERP))

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_mypy(self):
        """Use that is right passes in strict mode; every line that is wrong is found."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("mypy.ini", SETTINGS), ("use.py", USE + "\n".join(MISUSE) + "\n")):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", os.devnull, "use.py"], cwd=folder, text=True,
                                  env={**os.environ, "MYPYPATH": PACKAGE}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        first = USE.count("\n") + 1
        found = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
        self.assertEqual(found, list(range(first, first + len(MISUSE))), done.stdout)


if __name__ == "__main__":
    unittest.main()
