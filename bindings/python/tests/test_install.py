"""test_install.py: the wheel, by pip and by hand, into a clean environment, without a network; then the README's lines."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

import numpy

from common import PACKAGE, ROOT, snls

sys.path.insert(0, PACKAGE)
import snls_build

CHECK = """
assert out.shape == video.shape and "site-packages" in snls.__file__ and "site-packages" in snls._lib.path
assert "site-packages" in snls.model.find("stan")
print("well")
"""


def readme_lines():
    """The Python block of README.md."""
    with open(os.path.join(ROOT, "README.md")) as file:
        return re.search(r"^```python\n(.*?)^```", file.read(), re.M | re.S).group(1)


def run(*command, **environment):
    env = {**os.environ, "SNLS_TORCH": "0", **environment}
    for name in ("PYTHONPATH", "SNLS_LIBRARY"):
        env.pop(name, None)
    done = subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=250, cwd="/")
    assert done.returncode == 0, done.stdout
    return done.stdout


@unittest.skipUnless(os.path.dirname(snls._lib.path) and os.path.exists(os.path.join(ROOT, "pyproject.toml")),
                     "the library does not lie in a build folder of this tree")
class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A virtual environment that sees the system's NumPy, and a build folder with libsnls.so alone."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder, cls.python = folder.name, os.path.join(folder.name, "env", "bin", "python")
        os.symlink(snls._lib.path, os.path.join(cls.folder, "libsnls.so"))
        try:
            run(sys.executable, "-m", "venv", "--system-site-packages", os.path.join(cls.folder, "env"))
        except AssertionError as error:
            raise unittest.SkipTest("python -m venv does not work here (Debian: apt-get install python3-venv): %s" % error)
        (site,) = glob.glob(os.path.join(cls.folder, "env", "lib", "python3*", "site-packages"))
        with open(os.path.join(site, "parent.pth"), "w") as file:  # where this Python is an environment itself
            file.write(os.path.dirname(os.path.dirname(numpy.__file__)) + "\n")

    def pip(self, *arguments):
        return run(self.python, "-m", "pip", *arguments, SNLS_BUILD_DIR=self.folder)

    def test_pip(self):
        self.pip("install", "--quiet", "--no-index", ROOT)
        self.assertIn("well", run(self.python, "-c", readme_lines() + CHECK))
        self.pip("uninstall", "--quiet", "--yes", "snls")

    def test_wheel(self):
        wheels = os.path.join(self.folder, "wheels")
        run(sys.executable, os.path.join(PACKAGE, "snls_build.py"), wheels, SNLS_BUILD_DIR=self.folder)
        (wheel,) = glob.glob(wheels + "/*.whl")
        self.assertRegex(os.path.basename(wheel), r"^snls-\d+\.\d+\.\d+-py3-none-linux_\w+\.whl$")
        with zipfile.ZipFile(wheel) as archive:
            self.assertIsNone(archive.testzip())
            names = archive.namelist()
        self.assertIn("snls/lib/libsnls.so", names)
        self.assertIn("snls/py.typed", names)  # without it type checkers do not look
        self.assertIn("snls/weights/stan-s.safetensors", names)
        self.assertFalse([n for n in names if "test" in n or n.endswith(".pyc")])
        self.pip("install", "--quiet", "--no-index", wheel)
        self.assertIn("well", run(self.python, "-c", readme_lines() + CHECK))
        self.pip("uninstall", "--quiet", "--yes", "snls")

    def test_bundle(self):
        """What not every Linux has is copied beside the library, and OpenMP into a folder of its own."""
        folder = os.path.join(self.folder, "bundle")
        os.mkdir(folder)
        os.symlink(snls._lib.path, os.path.join(folder, "libsnls.so"))
        snls_build._bundle(folder)
        beside = sorted(name for name in os.listdir(folder) if name != "libsnls.so")
        needed = subprocess.run(["ldd", snls._lib.path], text=True, stdout=subprocess.PIPE).stdout
        self.assertEqual("libopenblas.so.0" in needed, "libopenblas.so.0" in beside)
        self.assertFalse([name for name in beside if name.startswith(("libc.", "libm.", "ld-linux"))])
        for name in ("libgomp.so.1", "libother.so.3.6"):  # oneDNN 3 has two numbers
            open(os.path.join(folder, name), "a").close()
        names = run(sys.executable, "-c", "import sys; sys.path.insert(0, %r); import snls_build; print(*snls_build.libraries('0'))"
                    % PACKAGE, SNLS_BUILD_DIR=folder)
        self.assertIn("snls/lib/spare/libgomp.so.1", names)
        self.assertIn("snls/lib/libother.so.3.6", names)
        self.assertTrue(all("snls/lib/" + name in names for name in beside if name != "libgomp.so.1"))

    def test_arguments(self):
        """oneDNN is used where it is found, but not in a wheel for other machines, unless it is asked for."""
        from unittest import mock
        without, asked = "-DSNLS_WITH_DNNL=OFF", "-DSNLS_WITH_DNNL=ON"
        with mock.patch.dict(os.environ, SNLS_CMAKE_ARGS=asked + " -DSNLS_WITH_CUDA=OFF"):
            self.assertNotIn(without, snls_build._arguments(False))
            given = snls_build._arguments(True)
            self.assertLess(given.index(without), given.index(asked))

    def test_source_archive(self):
        name = snls_build.build_sdist(self.folder)
        self.assertEqual(name, "snls-%s.tar.gz" % snls.__version__)


if __name__ == "__main__":
    unittest.main()
