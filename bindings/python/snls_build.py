"""snls_build.py: builds the wheel: CMake for the library, then a zip file. What pip calls (PEP 517, 660).

    pip install .                          from the root of the tree
    python3 bindings/python/snls_build.py FOLDER        writes the wheel into FOLDER, without pip

Needs CMake and a C compiler; nothing of Python but its standard library, so that it works without a network. Environment:
    SNLS_CMAKE_ARGS   further arguments of CMake, for example -DSNLS_WITH_CUDA=OFF
    SNLS_BUILD_DIR    a folder with libsnls.so (and libsnls_cuda.so, and libraries that they need) in it, which are taken
                      instead of building
    SNLS_BUNDLE       1: what libsnls.so needs and not every Linux has (OpenBLAS, jansson) goes into the wheel, so that it
                      works on other machines, and oneDNN is left out; 0: not. Without it: 1 without pip, 0 with pip
"""
import base64
import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
LIBRARIES = ("libsnls.so", "libsnls_cuda.so", "libsnls_nn_cuda.so")  # the others only where nvcc is
SDIST = ("CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "bindings", "cmake", "include", "src", "weights")
# What the package does not use, so that a wheel needs few shared libraries: Python has its own readers.
NOT_USED = tuple("-DSNLS_WITH_%s=OFF" % name for name in ("PNG", "JPEG", "FFMPEG"))
# What a wheel for other machines does without, unless SNLS_CMAKE_ARGS says otherwise: oneDNN has 40 MB and needs an OpenCL loader.
TOO_LARGE = ("-DSNLS_WITH_DNNL=OFF",)
# Libraries are looked for beside libsnls.so first, also those that they need themselves (which RUNPATH would not do).
BESIDE = ("-DCMAKE_BUILD_RPATH=$ORIGIN", "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--disable-new-dtags")
EVERYWHERE = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+))\.so")
SPARE = "libgomp.so.1"  # two in one process would be one too many: it has a folder of its own and is loaded where there is no other
METADATA = """Metadata-Version: 2.1
Name: snls
Version: {version}
Summary: Shifted Non-Local Search: space-time search and aggregation for NumPy and PyTorch
License: BSD-2-Clause
Requires-Python: >=3.8
Requires-Dist: numpy
Provides-Extra: torch
Requires-Dist: torch>=1.13; extra == "torch"
Description-Content-Type: text/markdown

Space-time search and aggregation with sub-pixel, flow-shifted windows. Pure Python over a C library; PyTorch 1.13 and
later where it is installed, and nothing is compiled against it.
"""


def version():
    with open(os.path.join(ROOT, "include", "snls", "types.h")) as file:
        text = file.read()
    return ".".join(re.search(r"SNLS_VERSION_%s (\d+)" % part, text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def platform_tag():
    return "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())


# ---- the library ----

def _run(*command):
    # pip's isolation works by PYTHONPATH, which a cmake that was installed by pip (a Python script) would not survive
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        subprocess.run(command, check=True, stdout=sys.stderr, env=env)
    except FileNotFoundError:
        raise SystemExit("snls: building needs %s, which is not installed" % command[0])
    except subprocess.CalledProcessError as error:
        raise SystemExit("snls: %s ended with status %d" % (" ".join(command), error.returncode))


def _arguments(bundle):
    """Those of CMake. The last word is the caller's."""
    return ("-DCMAKE_BUILD_TYPE=Release", "-DSNLS_BUILD_CLI=OFF", "-DSNLS_BUILD_TESTS=OFF", *NOT_USED, *(TOO_LARGE if bundle else ()), *BESIDE,
            *shlex.split(os.environ.get("SNLS_CMAKE_ARGS", "")))


def _build(folder, bundle):
    _run("cmake", "-S", ROOT, "-B", folder, *_arguments(bundle))
    _run("cmake", "--build", folder, "--parallel", str(len(os.sched_getaffinity(0))))


def _bundle(folder):
    """Copies what libsnls.so needs, and not every Linux has, into folder."""
    found = subprocess.run(["ldd", os.path.join(folder, LIBRARIES[0])], check=True, text=True, stdout=subprocess.PIPE).stdout
    for name, path in re.findall(r"^\s*(\S+) => (/\S+)", found, re.M):
        if not EVERYWHERE.match(name):
            shutil.copyfile(path, os.path.join(folder, name))


def libraries(bundle):
    """{name in the wheel: bytes} of the shared objects."""
    bundle = os.environ.get("SNLS_BUNDLE", bundle) == "1"
    made = os.environ.get("SNLS_BUILD_DIR")
    folder = os.path.abspath(made) if made else tempfile.mkdtemp(prefix="snls-build-")
    try:
        if not made:
            _build(folder, bundle)
            if bundle:
                _bundle(folder)
        others = [name for name in sorted(os.listdir(folder)) if re.match(r"lib(?!snls).*\.so(\.\d+)+$", name)]  # libdnnl.so.3.6
        paths = {name: os.path.join(folder, name) for name in (*LIBRARIES, *others)}
        if not os.path.exists(paths[LIBRARIES[0]]):
            raise SystemExit("snls: there is no %s in %s" % (LIBRARIES[0], folder))
        place = lambda name: "snls/lib/" + ("spare/" if name == SPARE else "") + name
        return {place(name): _read(path) for name, path in paths.items() if os.path.exists(path)}
    finally:
        if not made:
            shutil.rmtree(folder, ignore_errors=True)


# ---- the wheel ----

def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _python_files():
    package = os.path.join(HERE, "snls")
    return {"snls/" + name: _read(os.path.join(package, name)) for name in sorted(os.listdir(package)) if name.endswith((".py", ".typed"))}


def _weights():
    folder = os.path.join(ROOT, "weights")
    return {"snls/weights/" + name: _read(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
            if name.endswith((".safetensors", ".json"))}


def _record(files, info):
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append("%s,sha256=%s,%d" % (name, digest, len(data)))
    return ("\n".join(lines) + "\n%s/RECORD,,\n" % info).encode()


def _info(tag):
    """{name in the wheel: bytes} of the files about the wheel, and their folder."""
    info, pure = "snls-%s.dist-info" % version(), "true" if tag.endswith("any") else "false"
    return {info + "/METADATA": METADATA.format(version=version()).encode(),
            info + "/WHEEL": ("Wheel-Version: 1.0\nGenerator: snls_build\nRoot-Is-Purelib: %s\nTag: %s\n" % (pure, tag)).encode(),
            info + "/LICENSE": _read(os.path.join(ROOT, "LICENSE"))}, info


def _write_wheel(folder, files, tag):
    about, info = _info(tag)
    files = {**files, **about}
    files[info + "/RECORD"] = _record(files, info)
    name = "snls-%s-%s.whl" % (version(), tag)
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():  # one fixed date: the same tree gives the same bytes
            entry = zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            wheel.writestr(entry, data)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None, bundle="0"):
    return _write_wheel(wheel_directory, {**_python_files(), **_weights(), **libraries(bundle)}, platform_tag())


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """So that pip need not build the library twice."""
    files, info = _info(platform_tag())
    for name, data in files.items():
        path = os.path.join(metadata_directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return info


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The tree's own files are used, with the library from build/."""
    return _write_wheel(wheel_directory, {"snls.pth": (HERE + "\n").encode()}, "py3-none-any")


def build_sdist(sdist_directory, config_settings=None):
    base = "snls-%s" % version()
    keep = lambda entry: None if re.search(r"__pycache__|/snls/lib", entry.name) else entry
    with tarfile.open(os.path.join(sdist_directory, base + ".tar.gz"), "w:gz") as archive:
        for name in SDIST:
            archive.add(os.path.join(ROOT, name), base + "/" + name, filter=keep)
        info, data = tarfile.TarInfo(base + "/PKG-INFO"), METADATA.format(version=version()).encode()
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return base + ".tar.gz"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("use: snls_build.py FOLDER")
    os.makedirs(sys.argv[1], exist_ok=True)
    print(os.path.join(sys.argv[1], build_wheel(sys.argv[1], bundle="1")))
