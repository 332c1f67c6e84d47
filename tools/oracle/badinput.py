"""Wrong inputs to the snls command line: the exit code, exactly one line on stderr, no signal, and nothing left behind."""
import os
import shutil
import struct
import subprocess
import tempfile

import numpy as np

Z = np.float32


def npy(header, body=b"", version=(1, 0), length=None):
    """A .npy file with any header text"""
    text = header.encode("latin1") + b"\n"
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes(version) + (struct.pack("<H", size) if version[0] == 1 else struct.pack("<I", size)) + text + body


def head(descr="'<f4'", order="False", shape="(1, 3, 4, 5, 2)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


class Folder:
    """Good inputs for every command, in a fresh folder"""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="snls-bad-")
        rng = np.random.default_rng(1)
        n = lambda *s: rng.normal(size=s).astype(Z)
        self.save("Q", n(1, 3, 4, 5, 2))
        self.save("K", n(1, 3, 4, 5, 2))
        self.save("F", n(1, 3, 2, 4, 5, 2))
        self.save("O", n(1, 1, 3, 4, 5, 2, 3))
        self.save("W", n(1, 1, 3, 4, 5, 2))
        self.save("D", np.abs(n(1, 1, 3, 4, 5, 2)))
        self.save("FF", n(1, 3, 4, 5, 2))
        self.save("GD", n(1, 1, 3, 4, 5, 2))
        self.inputs = {}

    def path(self, name):
        return os.path.join(self.dir, name + ".npy")

    def save(self, name, array):
        np.save(self.path(name), array)

    def raw(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)

    def snapshot(self):
        out = {}
        for base, _, names in os.walk(self.dir):
            for name in names:
                path = os.path.join(base, name)
                with open(path, "rb") as f:
                    out[os.path.relpath(path, self.dir)] = f.read()
        return out


SEARCH = "search {Q} {K} --wt 1 --ws 3 --k 2 --out-dist {outD} --out-offset {outO}"
REFINE = "refine {Q} {K} {O} --k 2 --out-dist {outD} --out-offset {outO}"
COMPOSE = "compose {FF} {FF} --wt 1 --out {outD}"
WEIGHTS = "weights {D} --out {outD}"
GATHER = "gather {Q} {W} {O} --out {outD}"
ADD = "gather-add {Q} {W} {O} --out {outD}"
SCATTER = "scatter-add {Q} {W} {O} --out {outD}"
GRAD = " --grad-dist {GD} --out-grad-q {outG}"


def changed(name, array):
    return lambda f: f.save(name, array)


def raw(name, data):
    return lambda f: f.raw(name, data)


def poke(name, value, at=0):
    def change(f):
        v = np.load(f.path(name))
        v.flat[at] = value
        f.save(name, v)
    return change


def remove(name):
    return lambda f: os.remove(f.path(name))


def folder(name):
    def change(f):
        if os.path.exists(f.path(name)):
            os.remove(f.path(name))
        os.mkdir(f.path(name))
    return change


def cut(name, count):
    def change(f):
        with open(f.path(name), "rb") as file:
            data = file.read()
        f.raw(name, data[:count])
    return change


def cases():
    """(name, command, expected codes, change to the folder)"""
    none = lambda f: None
    z = lambda *s: np.zeros(s, Z)
    for text in ("--k 0", "--k -1", "--k x", "--k 1.5", "--k 99999999999999999999", "--ws 0", "--ws -3", "--wt -1", "--ps 0", "--dilation 0", "--stride0 0", "--heads 0", "--stride1 0", "--stride1 -1",
                 "--stride1 nan", "--stride1 inf", "--stride1 x", "--stride1 1x", "--wt 2", "--heads 3", "--dist l3", "--interp cubic", "--border wrap", "--window jump", "--anchor all",
                 "--exclude all", "--topk none", "--backend tpu", "--anchor self --exclude self", "--anchor self --exclude frame",
                 "--anchor each --exclude self", "--anchor each --k 2", "--interp nearest --stride1 0.5", "--no-such-option", "--no-such-option 3", "--k", "--threads -1", "extra.npy"):
        yield text, SEARCH + " " + text, (2,), none
    yield "unknown command", "serach {Q} {K} --out-dist {outD}", (2,), none
    yield "no command", "", (2,), none
    yield "one input", "search {Q} --out-dist {outD} --out-offset {outO}", (2,), none
    yield "no input", "search --out-dist {outD} --out-offset {outO}", (2,), none
    for text in ("--wr 0", "--k 0", "--stride1 0", "--heads 3", "--interp nearest --stride1 0.5", "--topk each"):
        yield "refine " + text, REFINE + " " + text, (2,), none
    for text in ("--wt -1", "--wt 2", "--stride0 0"):
        yield "compose " + text, COMPOSE + " " + text, (2,), none
    for text in ("--scale nan", "--scale inf", "--dist cosine"):
        yield "weights " + text, WEIGHTS + " " + text, (2,), none
    for verb in (GATHER, ADD, SCATTER):
        for text in ("--ps 0", "--stride0 0", "--dilation 0", "--border wrap"):
            yield verb.split()[0] + " " + text, verb + " " + text, (2,), none
        yield verb.split()[0] + " --heads 2", verb + " --heads 2", (2, 3), none
        yield verb.split()[0] + " weights of another K", verb, (3,), changed("W", z(1, 1, 3, 4, 5, 3))
        yield verb.split()[0] + " offsets without 3", verb, (3,), changed("O", z(1, 1, 3, 4, 5, 2, 2))
        yield verb.split()[0] + " other stride0", verb + " --stride0 2", (3,), none
        yield verb.split()[0] + " non-finite offset", verb, (3,), poke("O", np.nan, 1)
        yield verb.split()[0] + " video of 4 axes", verb, (3,), changed("Q", z(3, 4, 5, 2))
    for name, shape in (("K", (1, 3, 4, 5, 3)), ("K", (1, 3, 4, 6, 2)), ("K", (2, 3, 4, 5, 2)), ("K", (3, 4, 5, 2)), ("K", ()), ("K", (1, 3, 4, 5, 2, 1)), ("K", (1, 3, 4, 5, 0)), ("K", (1, 0, 4, 5, 2)),
                        ("F", (1, 3, 4, 4, 5, 2)), ("F", (1, 3, 1, 4, 5, 2)), ("F", (1, 3, 2, 4, 5, 3)), ("F", (1, 3, 2, 5, 4, 2)), ("F", (2, 3, 2, 4, 5, 2)), ("F", (1, 2, 3, 2, 4, 5, 2)), ("F", (2, 4, 5, 2))):
        yield f"{name} of shape {shape}", SEARCH + (" --flow {F}" if name == "F" else ""), (3,), changed(name, np.zeros(shape, Z))
    yield "grad-dist of another shape", SEARCH + GRAD, (3,), changed("GD", z(1, 1, 3, 4, 5, 3))
    yield "refine offsets of another grid", REFINE + " --stride0 2", (3,), none
    yield "refine non-finite offset", REFINE, (3,), poke("O", np.inf)
    yield "compose flows that differ", "compose {FF} {F} --wt 1 --out {outD}", (3,), none
    yield "compose 3 components", COMPOSE, (3,), changed("FF", z(1, 3, 4, 5, 3))
    yield "compose NaN", COMPOSE, (3,), poke("FF", np.nan, 41)
    for value in (np.nan, np.inf, -np.inf):
        yield f"flow with {value}", SEARCH + " --flow {F}", (3,), poke("F", value, 3)
    yield "nearest, gradient of the flow", SEARCH + " --flow {F} --interp nearest --grad-dist {GD} --out-grad-flow {outG}", (4,), none
    yield "nearest, gradient of refine's offsets", REFINE + " --interp nearest --grad-dist {GD} --out-grad-offset {outG}", (4,), none
    yield "nearest, gradient of gather's offsets", ADD + " --interp nearest --grad-out {Q} --out-grad-offset {outG}", (4,), none
    yield "missing file", SEARCH, (3,), remove("Q")
    yield "missing flow", SEARCH + " --flow {F}", (3,), remove("F")
    yield "folder as input", SEARCH, (3,), folder("Q")
    yield "empty file", SEARCH, (3,), raw("Q", b"")
    for count in (3, 6, 8, 9, 10, 40, 127, 128, 129, 200, 607):
        yield f"cut to {count} bytes", SEARCH, (3,), cut("Q", count)
    body = bytes(480)
    for name, data, codes in (
            ("text file", b"hello world, this is not an array\n" * 20, (3,)),
            ("wrong magic", b"\x93NUMPZ" + npy(head(), body)[6:], (3,)),
            ("version 9", npy(head(), body, (9, 0)), (3, 4)),
            ("version 0", npy(head(), body, (0, 0)), (3, 4)),
            ("header longer than the file", npy(head(), b"", (1, 0), 60000), (3,)),
            ("header of 4 GB", npy(head(), body, (2, 0), 0xfffffff0), (3,)),
            ("header of length 0", npy("", body, (1, 0), 0), (3,)),
            ("promises more", npy(head(shape="(1, 3, 4, 5, 3)"), body), (3,)),
            ("promises 2^60", npy(head(shape="(1, 1152921504606846976, 4, 5, 2)"), body), (3,)),
            ("product overflows to small", npy(head(shape="(4294967296, 4294967296, 1, 1, 1)"), body), (3,)),
            ("size beyond 64 bits", npy(head(shape="(99999999999999999999999, 3, 4, 5, 2)"), body), (3,)),
            ("negative size", npy(head(shape="(-1, 3, 4, 5, 2)"), body), (3,)),
            ("two negative sizes", npy(head(shape="(-1, -3, 4, 5, 2)"), body), (3,)),
            ("40 axes", npy(head(shape="(" + "1, " * 40 + ")"), body), (3, 4)),
            ("no shape", npy("{'descr': '<f4', 'fortran_order': False, }", body), (3,)),
            ("no descr", npy("{'fortran_order': False, 'shape': (1, 3, 4, 5, 2), }", body), (3,)),
            ("no order", npy("{'descr': '<f4', 'shape': (1, 3, 4, 5, 2), }", body), (3,)),
            ("unclosed", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 4", body), (3,)),
            ("quotes unclosed", npy("{'descr': '<f4, 'fortran_order': False, 'shape': (1, 3, 4, 5, 2), }", body), (3,)),
            ("empty dict", npy("{}", body), (3,)),
            ("not a dict", npy("[1, 2, 3]", body), (3,)),
            ("binary header", npy("\x00\xff\x01\x02" * 20, body), (3,)),
            ("sizes are text", npy(head(shape="('a', 3, 4, 5, 2)"), body), (3,)),
            ("order is 7", npy(head(order="7"), body), (3,)),
            ("Fortran order", npy(head(order="True"), body), (4,)),
            ("big-endian", npy(head("'>f4'"), body), (4,)),
            ("i4", npy(head("'<i4'"), body), (4,)),
            ("i8", npy(head("'<i8'"), body * 2), (4,)),
            ("u2", npy(head("'<u2'"), body), (4,)),
            ("i1", npy(head("'|i1'"), body), (4,)),
            ("bool", npy(head("'|b1'"), body), (4,)),
            ("complex", npy(head("'<c8'"), body * 2), (4,)),
            ("objects", npy(head("'|O'"), body), (4,)),
            ("records", npy(head("[('a', '<f4'), ('b', '<f4')]"), body * 2), (3, 4)),
            ("f3", npy(head("'<f3'"), body), (3, 4))):
        yield name, SEARCH, codes, raw("Q", data)
    nowhere = "{dir}/nowhere/x.npy"
    for name, command in (("search", SEARCH), ("compose", COMPOSE), ("weights", WEIGHTS), ("gather", GATHER), ("gather-add", ADD), ("scatter-add", SCATTER)):
        yield name + " into a folder that does not exist", command.replace("{outD}", nowhere), (7,), none
        yield name + " onto an existing file", command, (7,), changed("outD", z(2))
    yield "second output cannot be written", SEARCH.replace("{outO}", nowhere), (7,), none
    yield "gradient cannot be written", SEARCH + GRAD.replace("{outG}", nowhere), (7,), none
    yield "second output exists", SEARCH, (7,), changed("outO", z(2))
    yield "output is a folder", SEARCH + " -y", (7,), folder("outD")
    yield "output under a file", SEARCH.replace("{outD}", "{Q}/x.npy"), (7,), none
    if os.path.exists("/dev/full"):
        yield "full disk", SEARCH.replace("{outD}", "/dev/full") + " -y", (7,), none


def good():
    """Unusual but right"""
    none = lambda f: None
    body = np.arange(120, dtype=Z).tobytes()
    yield "overwrite with -y", SEARCH + " -y", changed("outD", np.zeros(2, Z))
    yield "npy version 2", SEARCH, raw("Q", npy(head(), body, (2, 0)))
    yield "npy version 3", SEARCH, raw("Q", npy(head(), body, (3, 0)))
    yield "keys in another order", SEARCH, raw("Q", npy("{'shape': (1,3,4,5,2), 'fortran_order':False, 'descr':\"<f4\"}", body))
    yield "u1", SEARCH, raw("Q", npy(head("'|u1'"), bytes(120)))
    yield "flow without slots", "search {Q} {K} --flow {F} --out-dist {outD} --out-offset {outO}", changed("F", np.zeros((1, 3, 0, 4, 5, 2), Z))
    yield "compose wt 0", "compose {FF} {FF} --wt 0 --out {outD}", none
    yield "heads from the weights", ADD, none
    yield "only distances", "search {Q} {K} --out-dist {outD}", none


def one(snls, backend, name, command, codes, change):
    """What is wrong, or None"""
    f = Folder()
    try:
        change(f)
        before = f.snapshot()
        names = {n: f.path(n) for n in ("Q", "K", "F", "O", "W", "D", "FF", "GD", "outD", "outO", "outG")}
        argv = [snls] + command.format(dir=f.dir, **names).split()
        if len(argv) > 1 and "--backend" not in argv:
            argv += ["--backend", backend]
        if command.endswith(" --k"):                            # an option without its value must stay last
            argv = argv[:-3] + ["--backend", backend, "--k"]
        try:
            out = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        except subprocess.TimeoutExpired:
            return "no answer within 60 s"
        if out.returncode not in codes:
            return f"exit {out.returncode}, expected {' or '.join(map(str, codes))}: {out.stderr.decode(errors='replace').strip()[:200]!r}"
        if codes == (0,):
            return None
        lines = out.stderr.decode(errors="replace").splitlines()
        if len(lines) != 1 or not lines[0].strip() or not out.stderr.endswith(b"\n"):
            return f"stderr has {len(lines)} lines, expected one: {out.stderr[:300]!r}"
        if out.stdout:
            return f"wrote to stdout: {out.stdout[:100]!r}"
        after = f.snapshot()
        if after != before:
            return f"files changed: {sorted(n for n in set(after) | set(before) if after.get(n) != before.get(n))}"
        return None
    finally:
        shutil.rmtree(f.dir, ignore_errors=True)


def run(snls, backend):
    passed = failed = 0
    todo = list(cases()) + [(name, command, (0,), change) for name, command, change in good()]
    for name, command, codes, change in todo:
        wrong = one(snls, backend, name, command, codes, change)
        passed, failed = passed + (wrong is None), failed + (wrong is not None)
        if wrong:
            print(f"{name}: {wrong}\n    command: snls {command}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0
