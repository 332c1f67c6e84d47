"""_lib.py: finds and loads libsnls, mirrors its structs, turns its statuses into exceptions. Knows no arrays.

The library is the file that the environment variable SNLS_LIBRARY names; else the one inside this package (a wheel has
it); else build/libsnls.so of the source tree that this file lies in; else what the system's loader finds.
"""
import contextlib
import ctypes
import keyword
import numbers
import os

API_VERSION = 0x000100
MAX_DIM = 8
F32, F64, F16, BF16, I32, U8 = range(6)
DTYPE_NAMES = ("f32", "f64", "f16", "bf16", "i32", "u8")
DTYPE_WORDS = ("float32", "float64", "float16", "bfloat16", "int32", "uint8")  # as NumPy and PyTorch call them, for sentences
FLOATS = "float32, float16, bfloat16 or float64"
DTYPE_BYTES = (4, 8, 2, 2, 4, 1)
CPU, CUDA = 0, 1
OK, END, UNCOVERED = 0, 1, 2
ERR_SHAPE = -2


class Tensor(ctypes.Structure):
    """SnlsTensor of types.h; strides count elements."""
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int32), ("device", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("shape", ctypes.c_int64 * MAX_DIM), ("stride", ctypes.c_int64 * MAX_DIM)]


class Option(ctypes.Structure):
    """SnlsOption of options.h."""
    _fields_ = [("name", ctypes.c_char_p), ("help", ctypes.c_char_p), ("type", ctypes.c_int32),
                ("offset", ctypes.c_uint32), ("default", ctypes.c_double), ("min", ctypes.c_double),
                ("max", ctypes.c_double), ("names", ctypes.POINTER(ctypes.c_char_p))]


class ContextParams(ctypes.Structure):
    """SnlsContextParams of context.h."""
    _fields_ = [("backend", ctypes.c_char_p), ("device_id", ctypes.c_int32), ("threads", ctypes.c_int32),
                ("deterministic", ctypes.c_int32), ("cpu_level", ctypes.c_int32), ("stream", ctypes.c_void_p),
                ("alloc", ctypes.c_void_p), ("free", ctypes.c_void_p), ("opaque", ctypes.c_void_p),
                ("scratch_limit", ctypes.c_int64), ("error_text", ctypes.c_char_p), ("error_size", ctypes.c_int64),
                ("reserved", ctypes.c_int32 * 16)]


def _candidates():
    here = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.normpath(os.path.join(here, "..", "..", ".."))
    yield os.path.join(here, "lib", "libsnls.so")
    if os.path.exists(os.path.join(tree, "include", "snls", "snls.h")):
        yield os.path.join(tree, "build", "libsnls.so")


def _open(path, sentence):
    """(library, path). A wheel that was made to be moved has an OpenMP to spare, for a system that has none."""
    spare = os.path.join(os.path.dirname(path), "spare", "libgomp.so.1")
    if os.path.exists(spare):
        try:
            ctypes.CDLL("libgomp.so.1")
        except OSError:
            ctypes.CDLL(spare, ctypes.RTLD_GLOBAL)
    try:
        return ctypes.CDLL(path), path
    except OSError as error:
        raise ImportError("snls: %s (%s)" % (sentence, error)) from error


def _load():
    """(library, its path)"""
    named = os.environ.get("SNLS_LIBRARY")
    for path in (named,) if named else _candidates():
        if named or os.path.exists(path):
            return _open(path, "the library cannot be loaded; a wheel needs the shared libraries that it was linked to, and "
                               "pip install from the source tree builds with what is there")
    return _open("libsnls.so.0", "libsnls.so is neither in the package, nor in the build folder of its source tree, nor "
                                 "known to the system's loader; SNLS_LIBRARY may name it")


lib, path = _load()


def function(name, result, *arguments):
    """A function of the library with its types declared; None where this build of the library does not have it."""
    f = getattr(lib, name, None)
    if f is not None:
        f.restype, f.argtypes = result, arguments
    return f


_int, _pointer, _text = ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p
if not hasattr(lib, "snls_version") or not hasattr(lib, "snls_api_version"):
    raise ImportError("snls: %s is another library: it has no function snls_version" % path)
version = function("snls_version", _text)().decode()
if function("snls_api_version", _int)() != API_VERSION:
    raise ImportError("snls: %s has another API version than this package (0x%06x)" % (path, API_VERSION))

error_text = function("snls_error", _text, _pointer)
set_error = function("snls_set_error", None, _pointer, _text)
status_text = function("snls_status_text", _text, _int)
context_defaults = function("snls_context_defaults", None, _pointer)
open_context = function("snls_open", _int, _pointer, _pointer)
close_context = function("snls_close", None, _pointer)
scratch_captured = function("snls_scratch_captured", ctypes.c_int64, _pointer)
context_threads = function("snls_threads", _int, _pointer)
context_level = function("snls_cpu_level", _int, _pointer)
level_name = function("snls_cpu_level_name", _text, _int)
device_name = function("snls_device_name", _text, _pointer)
device_alloc = function("snls_device_alloc", _int, _pointer, _pointer, ctypes.c_int64)
device_free = function("snls_device_free", None, _pointer, _pointer)
device_zero = function("snls_device_zero", _int, _pointer, _pointer, ctypes.c_int64)
device_wait = function("snls_device_wait", _int, _pointer)
_options = function("snls_options", ctypes.POINTER(Option), _text)
_flow_options = function("snls_flow_options", ctypes.POINTER(Option), _text)


def whole(what, n, least, most):
    """n as an int from least to most: ctypes would cut off what does not fit. what: operator and parameter, "noise_add: seed"."""
    try:
        number = int(n)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or number != n or not least <= number <= most:
        raise ValueError("%s is %r, must be a whole number from %d to %d" % (what, n, least, most))
    return number


def held(x):
    """The plain number, or text, that an array of one element holds; anything else as it is."""
    try:
        return x.item() if hasattr(x, "dtype") else x
    except (TypeError, ValueError, RuntimeError):  # of several
        return x


def real(what, x):
    """x as a float. what: operator and parameter, "noise_add: sigma"."""
    try:
        number = held(x)
        if not isinstance(number, (str, bytes, bytearray)):  # float("20") is a number, but "20" is none
            return float(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError("%s is %r, must be a number" % (what, x))


def path_bytes(path):
    """A path for the library, which would end it at a zero byte."""
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    return name


@contextlib.contextmanager
def reading(path):
    """What Python says of every file that is not there, in the library's sentence."""
    try:
        yield
    except OSError as error:
        if os.path.exists(path):
            raise
        raise FileNotFoundError(str(error)) from None


_EXCEPTIONS = {-1: ValueError, -2: ValueError, -3: MemoryError, -4: NotImplementedError, -5: RuntimeError, -6: OSError,
               -7: ValueError}


def raise_status(status, context=None, sentence=None):
    """Raises what a negative status means, with the library's own sentence. NotImplementedError is a RuntimeError."""
    if sentence is None and context:
        sentence = error_text(context).decode(errors="replace")
    error = _EXCEPTIONS.get(status, RuntimeError)(sentence or status_text(status).decode())
    error.status = status
    raise error


class OptionRow:
    """One row of an option table: name, help, kind ("int", "real", "enum"), types of plain values, offset, default, names (of an enum)."""

    def __init__(self, row):
        self.name, self.help = row.name.decode(), row.help.decode()
        self.kind, self.types = (("int", (int,)), ("real", (float, int)), ("enum", (str,)))[row.type]
        self.offset, self.min, self.max = row.offset, row.min, row.max
        self.names = self._names(row) if self.kind == "enum" else ()
        self.default = self.names[int(row.default)] if self.names else row.default if self.kind == "real" else int(row.default)

    @staticmethod
    def _names(row):
        names = []
        while row.names[len(names)]:
            names.append(row.names[len(names)].decode())
        return tuple(names)

    def _is_name(self, value):
        return isinstance(value, str) and value in self.names  # of an array `in` would ask for its truth

    def _refuse(self, op, value, name=None):
        if self.names:
            raise ValueError("%s: %s is %r, must be one of %s" % (op, name or self.name, value, ", ".join(self.names)))
        raise ValueError("%s: %s is %r, must be a %snumber from %.10g to %.10g"
                         % (op, name or self.name, value, "whole " if self.kind == "int" else "", self.min, self.max))

    def plain(self, op, value, name=None):
        """value as an int, float or str. Refuses what store would refuse; name: what op calls it, where that is another."""
        if not self.names:
            return self._number(op, value, name)
        if not self._is_name(value):
            self._refuse(op, value, name)
        return str(value)

    def _number(self, op, value, name=None):
        """value as a float or int in the row's range."""
        try:
            number = float(value) if self.kind == "real" else int(value)
        except (TypeError, ValueError, OverflowError):
            self._refuse(op, value, name)
        if not isinstance(value, numbers.Real) or not self.min <= number <= self.max or (self.kind == "int" and number != value):
            self._refuse(op, value, name)
        return number

    def store(self, op, buffer, base, value):
        """Writes value into the params struct that starts at base. Shapes of outputs are computed from it: it must be in range."""
        if self.names:
            if not self._is_name(value):
                self._refuse(op, value)
            ctypes.c_int32.from_buffer(buffer, base + self.offset).value = self.names.index(value)
        else:
            field = ctypes.c_double if self.kind == "real" else ctypes.c_int32
            field.from_buffer(buffer, base + self.offset).value = self._number(op, value)

    def refuse_unhashable(self, op, value):
        """A list, say, in place of a number: plans are looked up by the parameters."""
        try:
            hash(value)
        except TypeError:
            self._refuse(op, value)


def keyword_of(name):
    """An option's name as a keyword argument: pyr_scale of "pyr-scale", lambda_ of "lambda"."""
    return name.replace("-", "_") + "_" * keyword.iskeyword(name)


def store_options(op, rows, buffer, base, options, owner):
    """Stores options, which are called as in the table rows or as its keywords; owner: who has these options, in words."""
    names, stored = {**{keyword_of(row.name): row for row in rows}, **{row.name: row for row in rows}}, {}
    for name, value in options.items():
        row = names.get(name)
        if row is None:
            raise TypeError("%s: %s no option %r; there are %s" % (op, owner, name, ", ".join(keyword_of(r.name) for r in rows)))
        if row in stored:
            raise TypeError("%s: %s and %s are the same option" % (op, stored[row], name))
        stored[row] = name
        row.store(op, buffer, base, value)


def _rows(table):
    rows = []
    while table and table[len(rows)].name:
        rows.append(OptionRow(table[len(rows)]))
    return tuple(rows)


def options(op):
    """The option table of an operator ("search"), as the library has it."""
    return _rows(_options(op.encode()))


def flow_options(name):
    """The option table of "farneback", "tvl1" or "dis"."""
    return _rows(_flow_options(name.encode()))
