"""test_numpy.py: the package with NumPy alone: results, layouts, strides, DLPack, errors, threads, forks."""
import copy
import ctypes
import gc
import inspect
import os
import pickle
import re
import threading
import unittest
import weakref
from fractions import Fraction

import numpy as np

from common import HELD, inside, run_python, snls
from snls import _dlpack, _lib
from snls._operators import OPERATORS
from snls._plan import View, contiguous


class Exporter:
    """An array that only speaks DLPack; counts its exports."""

    def __init__(self, array):
        self.array, self.exports = array, 0

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **keywords):
        self.exports += 1
        keywords.pop("max_version", None)
        return self.array.__dlpack__(**keywords)


def video(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).random(shape).astype(dtype)


class Results(unittest.TestCase):
    def test_a_moved_picture_is_found(self):
        frame = video(40, 40, 3)
        q, k = frame[8:32, 8:32][None, None], frame[6:30, 5:29][None, None]  # k shows the same 2 lower and 3 to the right
        dist, offset = snls.search(q, k, ws=9, ps=3)
        self.assertEqual((dist.shape, offset.shape), ((1, 1, 1, 24, 24, 1), (1, 1, 1, 24, 24, 1, 3)))
        inner = (0, 0, 0, slice(4, 18), slice(4, 18), 0)
        self.assertTrue((dist[inner] == 0).all())
        self.assertTrue((offset[inner] == [0, 2, 3]).all())

    def test_flow_is_x_y(self):
        frame = video(40, 40, 3)
        q, k = frame[8:32, 8:32][None, None], frame[6:30, 5:29][None, None]
        flow = np.zeros((1, 1, 1, 24, 24, 2), "float32")
        flow[..., 0], flow[..., 1] = 3, 2
        dist, offset = snls.search(q, k, flow, ws=1, ps=3)
        self.assertTrue((dist[0, 0, 0, 4:18, 4:18, 0] == 0).all())
        moved = snls.search(q.transpose(0, 1, 4, 2, 3), k.transpose(0, 1, 4, 2, 3), flow.transpose(0, 1, 2, 5, 3, 4), ws=1,
                            ps=3, layout="BTCHW")
        self.assertTrue((moved[0] == dist).all() and (moved[1] == offset).all())

    def test_attention(self):
        v = video(1, 3, 12, 13, 4)
        dist, offset, index = snls.search(v, v, wt=1, ps=3, k=5, ws=3, with_index=True)
        self.assertEqual(index.dtype, np.int32)
        self.assertTrue((index >= 0).all())
        weight = snls.weights(dist, scale=1e6)  # all weight on the pixel itself
        self.assertTrue(np.allclose(weight[..., 0], 1))
        self.assertTrue(np.allclose(snls.gather_add(v, weight, offset, ps=3), v, atol=1e-6))
        self.assertEqual(snls.gather(v, weight, offset).shape, (1, 1, 5, 3, 12, 13, 4))
        out, total = snls.scatter_add(v, weight, offset)
        self.assertEqual((out.shape, total.shape), (v.shape, (1, 3, 12, 13, 1)))
        again, _ = snls.refine(v, v, offset, ps=3, k=5)
        self.assertTrue(np.allclose(again, dist, atol=1e-5))
        self.assertEqual(snls.search_all(v, v, ws=3, wt=1)[0].shape, (1, 1, 3, 12, 13, 27))

    def test_no_index_that_nobody_reads(self):
        v, made, real = video(1, 3, 12, 13, 4), [], snls._numpy.empty

        def watch(view, *like):
            made.append(view.dtype)
            return real(view, *like)
        calls = ((snls.search, (v, v), dict(ws=3, wt=1, k=3)), (snls.search_all, (v, v), dict(ws=3)),
                 (snls.refine, (v, v, snls.search(v, v, ws=3, k=3)[1]), dict(k=2)))
        snls._numpy.empty = watch
        try:
            for function, arrays, options in calls:
                for arrays in (arrays, tuple(Exporter(a) for a in arrays)):
                    made.clear()
                    want = function(*arrays, **options, with_index=True)
                    got = function(*arrays, **options)  # a plan that has written an index before
                    self.assertEqual((len(want), len(got), len(made)), (3, 2, 5))
                    self.assertTrue(all((a == b).all() for a, b in zip(got, want)))
        finally:
            snls._numpy.empty = real

    def test_composed_constant_flow(self):
        fflow, bflow = np.ones((1, 5, 6, 7, 2), "float32"), -np.ones((1, 5, 6, 7, 2), "float32")
        flow = snls.flow_compose(fflow, bflow, wt=2)
        self.assertEqual(flow.shape, (1, 5, 4, 6, 7, 2))
        self.assertTrue((flow[0, 2, :, 0, 0, 0] == [1, 2, -1, -2]).all())

    def test_element_types(self):
        for dtype in ("float16", "float64"):
            v = video(1, 1, 8, 8, 2, dtype=dtype)
            dist, offset = snls.search(v, v, ws=3, k=2)
            self.assertEqual(dist.dtype, np.float64 if dtype == "float64" else np.float32)
            self.assertEqual(snls.gather_add(v, snls.weights(dist), offset).dtype, v.dtype)

    def test_strides(self):
        v, wide = video(1, 2, 9, 8, 3), np.zeros((1, 2, 18, 8, 7), "float32")
        wide[:, :, ::2, :, 1::2] = v
        want = snls.search(v, v, ws=3, k=3)
        for other in (wide[:, :, ::2, :, 1::2], np.ascontiguousarray(v[:, :, ::-1])[:, :, ::-1], np.asfortranarray(v)):
            self.assertTrue((snls.search(other, v, ws=3, k=3)[0] == want[0]).all())

    def test_what_is_packed(self):
        """float32 with channels side by side is read where it lies; scratch for all else is held until release()."""
        code = """
import os, numpy as np, snls
held = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20
v = np.ones((1, 1, 1024, 1024, 8), "float32")  # 32 MB
for layout, video in (("BTHWC", v), ("BTCHW", v.transpose(0, 1, 4, 2, 3)), ("BTHWC", v.astype("float16")),
                      ("BTCHW", np.ascontiguousarray(v.transpose(0, 1, 4, 2, 3)))):
    before = held()
    snls.search(video, video, ws=3, stride0=512, layout=layout)
    grown = held() - before
    snls.release()
    print("grown", grown // 32, held() - before < 32)
"""
        if not os.path.exists("/proc/self/statm"):
            self.skipTest("there is no /proc")
        out = run_python(code, SNLS_TORCH="0")
        self.assertEqual(re.findall("grown (.*)", out), ["0 True", "0 True", "2 True", "2 True"])

    def test_empty(self):
        v = np.zeros((0, 3, 8, 8, 2), "float32")
        dist, offset = snls.search(v, v, ws=3, k=2, wt=1)
        self.assertEqual((dist.shape, offset.shape), ((0, 1, 3, 8, 8, 2), (0, 1, 3, 8, 8, 2, 3)))
        self.assertEqual(snls.gather_add(v, snls.weights(dist), offset).shape, v.shape)

    def test_uncovered_pixels_are_reported(self):
        v = video(1, 1, 8, 8, 1)
        dist, offset = snls.search(v, v, ws=3, stride0=4)
        with self.assertWarnsRegex(UserWarning, "under no query patch"):
            out = snls.gather_add(v, snls.weights(dist), offset, stride0=4)
        self.assertEqual(out[0, 0, 1, 1, 0], 0)
        for array in (lambda a: a, Exporter):
            with self.assertWarnsRegex(UserWarning, "under no query patch") as seen:
                snls.gather_add(array(v), array(snls.weights(dist)), array(offset), stride0=4)
            self.assertEqual(seen.filename, __file__)

    def test_signatures_are_the_librarys(self):
        for name, op in OPERATORS.items():
            parameters = inspect.signature(getattr(snls, name)).parameters
            for row in op.params:
                if not (name == "search_all" and row.name in ("k", "anchor", "topk")):
                    self.assertEqual(parameters[row.name].default, row.default, (name, row.name))
            self.assertEqual(op.other_params, ())


class Errors(unittest.TestCase):
    def setUp(self):
        self.v = video(1, 3, 8, 8, 4)

    def refused(self, kind, sentence, function, *arguments, **options):
        with self.assertRaisesRegex(kind, sentence):
            function(*arguments, **options)

    def test_parameters(self):
        v = self.v
        self.refused(ValueError, "search: ws is 0", snls.search, v, v, ws=0)
        self.refused(ValueError, "search: ws is 1.5", snls.search, v, v, ws=1.5)
        self.refused(ValueError, "search: k is 4294967297", snls.search, v, v, k=2**32 + 1)
        self.refused(ValueError, "dist is 'cosine', must be one of l2, prod", snls.search, v, v, dist="cosine")
        self.refused(ValueError, "heads is 3, must divide the 4 channels", snls.search, v, v, heads=3)
        self.refused(ValueError, "wt is 2, which needs 5 frames", snls.search, v, v, wt=2)
        self.refused(ValueError, "layout is 'NHWC'", snls.search, v, v, layout="NHWC")
        self.refused(ValueError, "stride1", snls.search, v, v, stride1=float("nan"))
        flow = v[..., :2]
        for options in (dict(stride0=0), dict(stride0=-1), dict(heads=-2), dict(k=2**31), dict(ws=None), dict(ws="3"), dict(ws=[3]), dict(stride1="x"),
                        dict(stride1=[1])):
            (name, value), = options.items()
            self.refused(ValueError, r"search: %s is %s, must be a (whole )?number from [-0-9.e]+ to [0-9]+$" % (name, re.escape(repr(value))), snls.search, v,
                         v, **options)
        self.refused(ValueError, "flow_compose: wt is -1, must be", snls.flow_compose, flow, flow, wt=-1)
        self.refused(ValueError, "flow_compose: stride0 is 0, must be", snls.flow_compose, flow, flow, stride0=0)
        self.refused(ValueError, "weights: scale is '1', must be", snls.weights, np.zeros((1, 1, 1, 2, 2, 3), "float32"), scale="1")
        self.refused(ValueError, r"layout is \['BTHWC'\]", snls.search, v, v, layout=["BTHWC"])
        self.refused(ValueError, "set_num_threads: n is 'a'", snls.set_num_threads, "a")

    def test_numbers_of_every_kind(self):
        """What passes the check is used as the number it is, also where a product of NumPy's small integers would not fit."""
        v = video(1, 3, 18, 17, 4)
        for options in (dict(k=3), dict(ws=16, k=2), dict(wt=1, k=100, ws=6, topk="each"), dict(heads=2, stride0=2, ps=3), dict(stride1=1)):
            want = snls.search(v, v, **options)
            for kind in (np.int64, np.uint8, np.int8, np.float32, np.float64, float, Fraction):
                snls.release()  # a plan that the plain numbers made would do for all
                given = {name: n if name == "topk" else kind(n) for name, n in options.items()}
                got = snls.search(v, v, **given)
                self.assertTrue(all(np.array_equal(a, b) for a, b in zip(got, want)), given)
        self.assertEqual(snls.search_all(v, v, ws=np.uint8(16))[0].shape[-1], 256)

    def test_shapes(self):
        v = self.v
        self.refused(ValueError, "query has 4 axes, must have 5", snls.search, v[0], v[0])
        self.refused(ValueError, "key", snls.search, v, v[:, :, :4])
        self.refused(ValueError, "flow", snls.search, v, v, np.zeros((1, 3, 2, 8, 8, 3), "float32"), wt=1)
        self.refused(ValueError, "length 0", snls.search, v[:, :, :0], v[:, :, :0])
        self.refused(ValueError, "weight has 0 heads", snls.gather, v, np.zeros((1, 0, 3, 8, 8, 1), "float32"), np.zeros((1, 0, 3, 8, 8, 1, 3), "float32"))

    def test_types(self):
        v = self.v
        self.refused(TypeError, "query is float32 and key is float64", snls.search, v, v.astype("float64"))
        self.refused(TypeError, "query is uint8, must be float32, float16, bfloat16 or float64", snls.search, v.astype("uint8"), v.astype("uint8"))
        self.refused(TypeError, "query is int64, must be float32, float16, bfloat16 or float64 in this", snls.search, v.astype("int64"), v.astype("int64"))
        self.refused(TypeError, "frame0 is int64, must be uint8, float32, float16, bfloat16 or float64 in", snls.flow, *v[0].astype("int64")[:2])
        self.refused(TypeError, "byte order", snls.search, v.astype(">f4"), v.astype(">f4"))
        self.refused(TypeError, "list is no array", snls.search, [1.0], [1.0])
        self.refused(TypeError, "flow is float16, must be float32", snls.search, v, v, np.zeros((1, 3, 1, 8, 8, 2), "float16"))
        self.refused(TypeError, "key is missing", snls.search, v, None)
        masked = np.ma.masked_less(v, 0.5)
        self.refused(TypeError, "search: key is a masked array", snls.search, v, masked)
        self.refused(TypeError, "flow: frame0 is a masked array", snls.flow, masked[0, 0], masked[0, 0])
        self.refused(TypeError, "denoise: video is a masked array", snls.denoise, masked[0], 3)
        self.refused(TypeError, "query is missing", snls.search, None, None)

    def test_memory(self):
        v = video(1, 1, 1, 1, 1)
        huge = np.broadcast_to(v, (1, 1, 2**20, 2**20, 1))
        with self.assertRaises(MemoryError):
            snls.search(huge, huge, k=1000)

    def test_another_library(self):
        with self.assertRaisesRegex(AssertionError, "ImportError: snls: libc.so.6 is another library: it has no function snls_version"):
            run_python("import snls", SNLS_LIBRARY="libc.so.6")

    def test_modules_need_torch(self):
        """Who asks whether there are modules hears no; who takes one hears why there is none."""
        code = """
import sys, snls
sys.modules["_frozen_importlib"].__name__ = sys.argv[1]
print([hasattr(snls, name) for name in ("nn", "agg", "NonLocalSearch")])
for line in ("snls.NonLocalSearch", "from snls import NonLocalSearch", "from snls import nn", "from snls.search import NonLocalSearch"):
    try:
        exec(line)
    except (AttributeError, ImportError) as error:
        print(type(error).__name__, error)
assert "torch" not in sys.modules
"""
        for name in ("importlib._bootstrap", "_frozen_importlib"):  # after and before package importlib was imported
            out = run_python(code, name, SNLS_TORCH="0").splitlines()
            self.assertEqual(out[0], "[False, False, False]")
            self.assertEqual([line.split()[0] for line in out[1:]], ["AttributeError", "ImportError", "ImportError", "ImportError"], name)
            self.assertTrue(all("needs PyTorch; SNLS_TORCH is 0" in line for line in out[1:]), out)


class DLPack(unittest.TestCase):
    def test_in(self):
        v = video(1, 3, 8, 8, 4)
        lent = Exporter(v)
        want = snls.search(v, v, ws=3, k=2)
        got = snls.search(lent, lent, ws=3, k=2)
        self.assertEqual(lent.exports, 2)
        for a, b in zip(got, want):
            self.assertIsInstance(a, np.ndarray)
            self.assertTrue((a == b).all())
        self.assertTrue((snls.search(Exporter(v[:, :, ::2, ::-1]), v[:, :, ::2, ::-1])[0] == snls.search(
            v[:, :, ::2, ::-1], v[:, :, ::2, ::-1])[0]).all())

    def test_what_is_lent_is_given_back(self):
        v = video(1, 1, 4, 4, 1)
        snls.search(Exporter(v), Exporter(v), ws=1)
        with self.assertRaises(ValueError):
            snls.search(Exporter(v), Exporter(v), ws=0)
        for dtype in ("complex64", "int64", "int16"):
            with self.assertRaisesRegex(TypeError, "element type .*, must be f32"):
                snls.search(Exporter(v.astype(dtype)), Exporter(v), ws=1)
        kept = weakref.ref(v)
        del v
        gc.collect()
        self.assertIsNone(kept())

    def test_out(self):
        for dtype, code in (("float32", _lib.F32), ("int32", _lib.I32), ("float64", _lib.F64)):
            array = snls.Array(View((2, 3, 5), contiguous((2, 3, 5)), code))
            self.assertEqual((array.shape, array.device), ((2, 3, 5), "cpu"))
            seen = np.from_dlpack(array)
            self.assertEqual((seen.shape, seen.dtype), ((2, 3, 5), np.dtype(dtype)))
            address = array._data
            del array  # the receiver keeps the memory
            gc.collect()
            self.assertEqual(seen.__array_interface__["data"][0], address)
            before = len(_dlpack._lent)
            del seen
            gc.collect()
            self.assertEqual(len(_dlpack._lent), before - 1)

    def test_a_capsule_nobody_takes(self):
        array = snls.Array(View((2,), (1,), _lib.F32))
        for version in (None, (1, 0)):
            capsule = array.__dlpack__(max_version=version)
            self.assertEqual(len(_dlpack._lent), 1)
            del capsule
            self.assertEqual(len(_dlpack._lent), 0)
        with self.assertRaises(BufferError):
            array.__dlpack__(copy=True)

    def test_copies(self):
        """Two that give back one memory would be one too many."""
        array = snls.Array(View((2,), (1,), _lib.F32))
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "snls.Array: cannot be copied"):
                make(array)

    def test_fork(self):
        """A child makes and gives back arrays, also where another thread was about to do so."""
        code = HELD + """
import os, signal, snls
from snls import _dlpack
view = _dlpack.View((2,), (1,), snls._lib.F32)
array = snls.Array(view)
let_go = held(_dlpack._Memory.of("cpu", 0).lock)
child = os.fork()
if not child:
    signal.alarm(60)
    own = snls.Array(view)
    del array, own
    os._exit(0)
ended = os.waitpid(child, 0)[1]
let_go()
assert not ended, ended
print("well", _dlpack._Memory.of("cpu", 0) is array._memory)
"""
        self.assertIn("well True", run_python(code, SNLS_TORCH="0"))

    def test_versioned_in(self):
        array = snls.Array(View((1, 1, 4, 4, 1), contiguous((1, 1, 4, 4, 1)), _lib.F32))
        np.from_dlpack(array)  # NumPy fills it through the other protocol
        ctypes.memmove(array._data, video(1, 1, 4, 4, 1).ctypes.data, 64)
        self.assertTrue((snls.search(array, array, ws=3)[0] == 0).all())
        self.assertEqual(len(_dlpack._lent), 0)


class Threads(unittest.TestCase):
    def test_threads_of_python(self):
        v = video(1, 3, 24, 24, 8)
        want = snls.search(v, v, ws=5, wt=1, ps=3, k=4)
        wrong = []

        def work():
            for _ in range(5):
                got = snls.search(v, v, ws=5, wt=1, ps=3, k=4)
                if not all((a == b).all() for a, b in zip(got, want)):
                    wrong.append(1)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_number_of_threads(self):
        v = video(1, 3, 24, 24, 8)
        want = snls.search(v, v, ws=5, ps=3, k=4)
        try:
            for n in (1, 2, 3):
                snls.set_num_threads(n)
                self.assertEqual(snls.get_num_threads(), n)
                self.assertTrue((snls.search(v, v, ws=5, ps=3, k=4)[0] == want[0]).all())
        finally:
            snls.set_num_threads(0)
        for n in (-1, 1025):  # of more than a system can start OpenMP ends the program
            with self.assertRaisesRegex(ValueError, f"set_num_threads: n is {n}, must be"):
                snls.set_num_threads(n)
        snls.release()
        self.assertTrue((snls.search(v, v, ws=5, ps=3, k=4)[0] == want[0]).all())

    def test_fork(self):
        code = """
import os, signal, numpy as np, snls
v = np.random.default_rng(0).random((1, 3, 32, 32, 8)).astype("float32")
snls.set_num_threads(2)  # the parent's; a child that used as many would wait for ever
want = snls.search(v, v, ws=5, wt=1, ps=3, k=4)[0]
for _ in range(3):
    child = os.fork()
    if not child:
        signal.alarm(60)
        assert not snls._context.local.contexts  # nothing of the parent's is used
        os._exit(0 if (snls.search(v, v, ws=5, wt=1, ps=3, k=4)[0] == want).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
print("well")
"""
        self.assertIn("well", run_python(code, SNLS_TORCH="0"))


class Inside(unittest.TestCase):
    """A call inside a call, on one thread: what a signal handler does, or a finaliser that the garbage collector runs."""

    def test_the_same_call(self):
        a, b = video(1, 1, 6, 6, 4), video(1, 1, 6, 6, 4, seed=1)
        want, other, found = snls.search(a, a, ws=3, k=3), snls.search(b, b, ws=3, k=3), []
        again = lambda: found.append(snls.search(b, b, ws=3, k=3))
        for place in ((snls._numpy, "empty"), (snls._context, "get_for")):
            with inside(*place, again):
                got = snls.search(a, a, ws=3, k=3)
            for x, y in ((got, want), (found.pop(), other)):
                self.assertTrue(all((m == n).all() for m, n in zip(x, y)))
        self.assertFalse(any(plan.busy for plan in snls._context.local.plans.values()))

    def test_after_an_error(self):
        v = video(1, 1, 6, 6, 4)
        snls.search(v, v, ws=3)

        def stop():
            raise KeyboardInterrupt
        with inside(snls._numpy, "empty", stop), self.assertRaises(KeyboardInterrupt):
            snls.search(v, v, ws=3)
        self.assertFalse(any(plan.busy for plan in snls._context.local.plans.values()))

    def test_whose_error_it_is(self):
        """A call that fails inside one that fails, before or after it has: each hears its own sentence."""
        v, search, heard = video(1, 1, 6, 6, 4), OPERATORS["search"], []
        real = search.forward

        def fails(**options):
            with self.assertRaises(ValueError) as error:
                snls.search(v, v, **options)
            return str(error.exception)

        def between(*arguments):
            depth = len(heard)
            if depth < 2:
                heard.append(None)
                heard[depth] = [fails(heads=3), None]
            status = real(*arguments)
            if depth < 2:
                heard[depth][1] = fails(wt=1)
            return status
        wants = fails(heads=3), fails(wt=1)
        self.assertNotEqual(*wants)
        search.forward = between
        try:
            outer = fails(ws=3, heads=5)
        finally:
            search.forward = real
        self.assertIn("5", outer)
        self.assertEqual(outer, fails(ws=3, heads=5))
        self.assertEqual(heard, [list(wants)] * 2)
        self.assertFalse(any(context.busy for context in snls._context.local.contexts.values()))

    def test_contexts_that_are_in_use(self):
        """Nobody closes a context that an interrupted call has."""
        v = video(1, 1, 6, 6, 4)
        want, real = snls.search(v, v, ws=3, k=3), snls._plan.Plan.run

        def run(plan, context):
            snls.release()
            snls._context.set_num_threads(0)
            for threads in range(2, snls._context.MOST_CONTEXTS + 3):
                snls._context.get("cpu", threads=threads)
            return real(plan, context)
        snls._plan.Plan.run = run
        try:
            self.assertTrue((snls.search(v, v, ws=3, k=3)[0] == want[0]).all())
        finally:
            snls._plan.Plan.run = real
            snls.release()

    def test_finalisers(self):
        code = """
import gc, numpy as np, snls
a, b = np.full((1, 1, 6, 6, 4), 1, "float32"), np.full((1, 1, 6, 6, 4), 2, "float32")
weight, offset, kept = np.ones((1, 1, 1, 6, 6, 1), "float32"), np.zeros((1, 1, 1, 6, 6, 1, 3), "float32"), []
class Late:
    def __init__(self): self.me = self
    def __del__(self): kept.append(snls.gather_add(b, weight, offset))
gc.set_threshold(1)
wrong = 0
for _ in range(2000):
    Late()
    wrong += not (snls.gather_add(a, weight, offset) == a).all()
    wrong += not all((k == b).all() for k in kept)
    kept.clear()
gc.set_threshold(0)
print("wrong:", wrong)
"""
        self.assertIn("wrong: 0", run_python(code, SNLS_TORCH="0"))

    def test_an_array_goes_while_another_is_made(self):
        """Their memory is under one lock."""
        view = View((4,), (1,), _lib.F32)
        memory = snls.Array(view)._memory
        with memory.lock:
            snls.Array(view)

    def test_the_end_of_python(self):
        """What lives until names of the package are gone is left alone, and nobody hears of it."""
        code = """
import sys, numpy as np, snls
from snls import _context, _lib
from snls._plan import View
made = dict(context=lambda: _context.Context("cpu"), array=lambda: snls.Array(View((4,), (1,), _lib.F32)),
            denoiser=lambda: snls.Denoiser(24, 24, sigma=3, method="nlm"), model=lambda: snls.Model("stan"),
            stream=lambda: snls.Model("stan").stream(np.zeros((20, 24, 24, 3), "float32"), 3))[sys.argv[1]]()
if sys.argv[1] == "stream":
    next(made)
sys.modules["snls." + sys.argv[2]].last = made
del made
print("well")
"""
        kinds = ["context", "array", "denoiser"]
        try:
            snls.Model("stan").close()
            kinds += ["model", "stream"]
        except NotImplementedError:  # this build reads no safetensors
            pass
        for kind in kinds:
            for place in ("_lib", "_context"):
                with self.subTest(kind=kind, place=place):
                    self.assertEqual(run_python(code, kind, place, SNLS_TORCH="0"), "well\n")


if __name__ == "__main__":
    unittest.main()
