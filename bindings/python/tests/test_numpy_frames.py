"""test_numpy_frames.py: flow, warp, align, metrics and pictures, with NumPy alone."""
import os
import tempfile
import unittest

import numpy as np

from common import snls
from snls import _lib
from test_numpy import video


class Frames(unittest.TestCase):
    """flow, warp, align, metrics."""

    def setUp(self):
        picture = video(80, 80, 3)
        for _ in range(3):
            picture = sum(np.roll(picture, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) / 9
        picture = 255 * (picture - picture.min()) / (picture.max() - picture.min())
        self.a, self.b = picture[8:72, 8:72], picture[6:70, 5:69]  # b shows the same 2 lower and 3 to the right

    def test_flow(self):
        for method in ("farneback", "tvl1", "dis"):
            flow = snls.flow(self.a, self.b, method)
            self.assertEqual((flow.shape, flow.dtype), ((64, 64, 2), np.float32))
            self.assertLess(np.abs(np.median(flow, (0, 1)) - [3, 2]).max(), 0.1)
        self.assertEqual(len({snls.flow(self.a, self.b, method).tobytes() for method in ("farneback", "tvl1", "dis")}), 3)
        first = snls.flow(self.a.transpose(2, 0, 1), self.b.transpose(2, 0, 1), "dis", layout="CHW")
        self.assertTrue((first.transpose(1, 2, 0) == flow).all())
        self.assertFalse(np.array_equal(snls.flow(self.a, self.b, "farneback", winsize=9), snls.flow(self.a, self.b)))
        self.assertEqual(snls.flow(self.a.astype("uint8")[..., 0], self.b.astype("uint8")[..., 0], "dis").shape, (64, 64, 2))

    def test_strides_and_types_do_not_show(self):
        """The same pixels give the same bits, however they lie in memory: tvl1 makes pixels of a difference in the last bit."""
        rng = np.random.default_rng(3)
        a, b = (rng.integers(0, 256, (40, 40, 3)).astype("uint8") for _ in range(2))
        turned = lambda frame: np.ascontiguousarray(frame.transpose(2, 1, 0)).transpose(2, 1, 0)
        views = (lambda frame: frame, lambda frame: frame.astype("float64"), lambda frame: turned(frame.astype("float32")),
                 lambda frame: np.ascontiguousarray(frame.astype("float32")[:, ::-1])[:, ::-1], lambda frame: np.repeat(frame.astype("float32"), 2, 1)[:, ::2])
        for method in ("farneback", "tvl1", "dis"):
            want = snls.flow(a.astype("float32"), b.astype("float32"), method)
            for view in views:
                self.assertTrue((snls.flow(view(a), view(b), method) == want).all(), method)

    def test_names_of_options(self):
        """Every option is a keyword: _ in place of -, and behind what is a word of Python."""
        for method in ("farneback", "tvl1", "dis"):
            for row in _lib.flow_options(method):
                exec("snls.flow(a, a, method, %s=row.default)" % _lib.keyword_of(row.name), dict(
                    snls=snls, a=self.a[:24, :24], method=method, row=row))
        for name, options in (("pyr-scale", dict(pyr_scale=0.7)), ("poly-n", dict(poly_n=7)), ("poly-sigma", dict(poly_sigma=2))):
            got = snls.flow(self.a, self.b, **options)
            self.assertTrue((got == snls.flow(self.a, self.b, **{name: next(iter(options.values()))})).all())
            self.assertFalse((got == snls.flow(self.a, self.b)).all())
            self.assertTrue((snls.align(self.b, self.a, **options) == snls.align(self.b, self.a, got)).all())
        for options in (dict(max_iterations=1), dict(lambda_=0.5)):
            self.assertFalse((snls.flow(self.a, self.b, "tvl1", **options) == snls.flow(self.a, self.b, "tvl1")).all())

    def test_clip(self):
        forward, backward = snls.flow_clip(np.stack((self.a, self.b)), "dis")
        self.assertTrue((forward[0] == snls.flow(self.a, self.b, "dis")).all() and (forward[1] == 0).all())
        self.assertTrue((backward[1] == snls.flow(self.b, self.a, "dis")).all() and (backward[0] == 0).all())
        error, mask = snls.flow_consistency(forward[0], backward[1])
        self.assertGreater(mask.mean(), 0.7)
        self.assertLess(np.median(error), 0.1)
        self.assertEqual(snls.flow_error(forward[0], forward[0]), 0)
        half = snls.flow_resize(forward[0], 32, 32)
        self.assertLess(np.abs(np.median(half, (0, 1)) - [1.5, 1]).max(), 0.1)
        self.assertEqual(snls.flow_color(forward[0]).shape, (64, 64, 3))

    def test_align(self):
        truth = np.broadcast_to(np.float32([3, 2]), (64, 64, 2))
        raw = snls.metrics.psnr(self.a, self.b)
        for flow in ("dis", truth, None):
            moved, offset = snls.align(self.b, self.a, flow, with_offset=True)
            inside = (slice(8, 50), slice(8, 50))
            self.assertGreater(snls.metrics.psnr(self.a[inside], moved[inside]), raw + 10)
            self.assertLess(np.abs(np.median(offset, (0, 1)) - [2, 3]).max(), 0.1)
        moved_first = snls.align(self.b.transpose(2, 0, 1), self.a.transpose(2, 0, 1), truth.transpose(2, 0, 1), layout="CHW")
        self.assertTrue((moved_first.transpose(1, 2, 0) == snls.align(self.b, self.a, truth)).all())
        self.assertEqual(snls.align(self.b, self.a, "dis", stride0=2, ps=3).shape, (64, 64, 3))
        warped = snls.warp(self.b, truth)
        self.assertTrue(np.allclose(warped[:60, :60], self.a[:60, :60]))

    def test_align_without_a_distance(self):
        """A vector that is not finite has no candidates, and squares of large differences are infinite: neither makes NaN of a pixel."""
        a, b, flow = self.a[:20, :20], self.b[:20, :20], np.zeros((20, 20, 2), "float32")
        flow[5, 6], flow[9, 9, 1] = np.nan, np.inf
        moved, offset = snls.align(b, a, flow, ws=3, ps=1, with_offset=True)
        self.assertTrue((moved[[5, 9], [6, 9]] == b[[5, 9], [6, 9]]).all())
        self.assertTrue((offset[[5, 9], [6, 9]] == 0).all())
        self.assertTrue(np.isfinite(snls.align(b, a, flow, ws=3, ps=3)).all())
        self.assertTrue(np.isfinite(snls.align(b * np.float32(1e20), a * np.float32(-1e20), None, ws=3)).all())

    def test_align_types(self):
        """The same pixels give the same bits in float32, whatever float or bytes they come as; half floats stay."""
        a, b = (np.rint(frame[:24, :24]) for frame in (self.a, self.b))
        flow = snls.flow(a, b, "dis")
        for how in ("dis", flow, flow.astype("float64"), None):
            want = snls.align(b, a, how, ws=3)
            for kinds in (("float64", "float64"), ("uint8", "uint8"), ("uint8", "float64"), ("float16", "float32")):
                moved, offset = snls.align(*(frame.astype(kind) for frame, kind in zip((b, a), kinds)), how, ws=3, with_offset=True)
                self.assertEqual((moved.dtype, offset.dtype), (np.float32, np.float32))
                self.assertTrue((moved == want).all(), (kinds, how))
        half = snls.align(b.astype("float16"), a.astype("float16"), flow.astype("float64"), ws=3)
        self.assertEqual(half.dtype, np.float16)
        for kind, sentence, arrays in (("int32", "align: frame is int32, must be uint8, float32", lambda x: (x, a)),
                                       ("bool", "align: reference is bool, must be uint8, float32", lambda x: (b, x)),
                                       ("uint8", "align: flow is uint8, must be float32", lambda x: (b, a, x[..., :2]))):
            with self.subTest(sentence), self.assertRaisesRegex(TypeError, sentence):
                snls.align(*arrays(b.astype(kind)), **{} if kind == "uint8" else {"flow": None})

    def test_metrics(self):
        noisy = self.a + np.random.default_rng(1).normal(0, 10, self.a.shape)
        mse = ((noisy - self.a.astype("float64")) ** 2).mean()
        self.assertAlmostEqual(snls.metrics.psnr(self.a.astype("float64"), noisy), 10 * np.log10(255**2 / mse), 6)
        self.assertEqual(snls.metrics.psnr(self.a, self.a), float("inf"))
        self.assertAlmostEqual(snls.metrics.ssim(self.a, self.a), 1)
        self.assertLess(snls.metrics.ssim(self.a, noisy.astype("float32")), 0.99)
        try:
            self.assertEqual(snls.metrics.strred(np.stack((self.a, self.b)), np.stack((self.a, self.b)))["pairs"], 1)
        except NotImplementedError as error:
            self.assertIn("LAPACK", str(error))

    def test_pictures(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.png")
            try:
                snls.png_write(path, self.a)
            except NotImplementedError as error:
                self.skipTest(str(error))
            self.assertTrue((snls.image_read(path) == np.rint(self.a)).all())
            snls.png_write(path, self.a.transpose(2, 0, 1), layout="CHW")
            self.assertTrue((snls.image_read(path) == np.rint(self.a)).all())
            for call in (lambda: snls.png_write(path + "\0b.png", self.a), lambda: snls.image_read(path + "\0b.png")):
                with self.assertRaisesRegex(ValueError, "embedded null byte"):
                    call()
            with self.assertRaises(OSError) as found:
                snls.image_read(folder)
            self.assertNotIsInstance(found.exception, FileNotFoundError)
        with self.assertRaises(FileNotFoundError):
            snls.image_read(path)

    def refuses_type(self, odd, kind):
        clip, types = np.stack((odd, odd)), "uint8, float32, float16, bfloat16 or float64"
        for name, call in (("flow: frame0", lambda: snls.flow(odd, self.b)), ("flow: frame1", lambda: snls.flow(self.a, odd)),
                           ("flow_clip: video", lambda: snls.flow_clip(clip)), ("warp: image", lambda: snls.warp(odd, self.a[..., :2])),
                           ("psnr: clean", lambda: snls.metrics.psnr(odd, self.b)), ("ssim: test", lambda: snls.metrics.ssim(self.a, odd)),
                           ("strred: clean", lambda: snls.metrics.strred(clip, clip)), ("png_write: image", lambda: snls.png_write("/nowhere/x.png", odd))):
            with self.subTest(name, kind=kind), self.assertRaisesRegex(TypeError, "^%s is %s, must be %s" % (name, kind, types)):
                call()
        self.refuses_flow_type(odd[..., :2], kind)

    def refuses_flow_type(self, odd, kind):
        flow = self.a[..., :2]
        for name, call in (("warp: flow", lambda: snls.warp(self.a, odd)), ("flow_resize: flow", lambda: snls.flow_resize(odd, 9, 9)),
                           ("flow_consistency: backward", lambda: snls.flow_consistency(flow, odd)),
                           ("flow_error: truth", lambda: snls.flow_error(flow, odd)), ("flow_color: flow", lambda: snls.flow_color(odd))):
            with self.subTest(name, kind=kind), self.assertRaisesRegex(TypeError, "^%s is %s, must be float32 or float64" % (name, kind)):
                call()

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "method is 'raft'"):
            snls.flow(self.a, self.b, "raft")
        with self.assertRaisesRegex(TypeError, "dis has no option 'winsize'; there are finest, .*, lambda_"):
            snls.flow(self.a, self.b, "dis", winsize=3)
        with self.assertRaisesRegex(TypeError, "pyr_scale and pyr-scale are the same option"):
            snls.flow(self.a, self.b, pyr_scale=0.5, **{"pyr-scale": 0.5})
        with self.assertRaises(ValueError):
            snls.flow(self.a, self.b[:32])
        flow = self.a[..., :2]
        for kind, sentence, call in ((ValueError, "align: stride0 is 0, must be a whole number", lambda: snls.align(self.a, self.b, flow, stride0=0)),
                                     (ValueError, "align: stride0 is '2', must be", lambda: snls.align(self.a, self.b, "dis", stride0="2")),
                                     (TypeError, "align: flow is a list", lambda: snls.align(self.a, self.b, [1, 2])),
                                     (ValueError, "align: flow has 2 axes, must have 3", lambda: snls.align(self.a, self.b, flow[0])),
                                     (ValueError, "flow_color: largest is 'x', must be", lambda: snls.flow_color(flow, "x"))):
            with self.subTest(sentence), self.assertRaisesRegex(kind, sentence):
                call()
        for kind in ("int32", "int16", "uint16", "bool"):
            self.refuses_type(self.a.astype(kind), kind)
        self.refuses_flow_type(flow.astype("float16"), "float16")
        for height in (0, 1.5, "3", 2**64 + 3):
            with self.assertRaisesRegex(ValueError, "flow_resize: height is .*, must be a whole number"):
                snls.flow_resize(self.a[..., :2], height, 3)
        with self.assertRaisesRegex(ValueError, "4 axes"):
            snls.flow(self.a[None], self.b[None])


if __name__ == "__main__":
    unittest.main()
