"""test_denoise.py: the denoiser and its noise, for NumPy and PyTorch, whole clips and streams."""
import copy
import pickle
import unittest

import numpy as np

from common import HELD, inside, needs_torch, run_python, snls, torch
from snls._denoise import cut_numbers


def clip(frames=5, side=40):
    picture = np.random.default_rng(0).random((80, 80, 3)).astype("float32")
    for _ in range(6):
        picture = sum(np.roll(picture, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) / 9
    picture = 255 * (picture - picture.min()) / (picture.max() - picture.min())
    return np.stack([picture[t:t + side, 2 * t:2 * t + side] for t in range(frames)])


class Denoise(unittest.TestCase):
    def setUp(self):
        self.clean = clip()
        self.noisy = snls.noise_add(self.clean, 20, seed=1)

    def denoised(self, *arguments, **options):
        try:
            return snls.denoise(*arguments, preset="fast", **options)
        except NotImplementedError as error:  # this build has no LAPACK
            self.assertIn("LAPACK", str(error))
            return snls.denoise(*arguments, preset="fast", method="nlm", **options)

    def test_noise(self):
        self.assertAlmostEqual(float((self.noisy - self.clean).std()), 20, delta=0.5)
        self.assertTrue((snls.noise_add(self.clean, 20, seed=1) == self.noisy).all())
        self.assertFalse((snls.noise_add(self.clean, 20, seed=2) == self.noisy).all())
        self.assertTrue(all(abs(s - 20) < 4 for s in snls.noise_estimate(self.noisy)))

    def test_better(self):
        done = self.denoised(self.noisy, 20)
        self.assertEqual((done.shape, done.dtype), (self.noisy.shape, np.float32))
        self.assertGreater(snls.metrics.psnr(self.clean, done), snls.metrics.psnr(self.clean, self.noisy) + 6)
        self.assertTrue((self.denoised(self.noisy, 0) == self.noisy).all())
        self.assertTrue((self.denoised(self.noisy, 20, cuts=np.array([2])) == self.denoised(self.noisy, 20, cuts={2.0})).all())
        none = snls.denoise(self.noisy[:0].astype("uint8"), 20, method="nlm")
        self.assertEqual((none.shape, none.dtype), ((0, *self.noisy.shape[1:]), np.float32))
        grey = self.denoised(self.noisy[..., :1], 20)
        self.assertEqual(grey.shape, self.noisy[..., :1].shape)

    def test_stream(self):
        want, got = snls.denoise(self.noisy, 20, method="nlm", cuts=(2,)), []
        with snls.Denoiser(40, 40, sigma=20, method="nlm") as denoiser:
            for t, frame in enumerate(self.noisy):
                got += denoiser.push(frame, cut=t == 2)
            got += denoiser.finish()
            self.assertEqual(denoiser.sigma, (20, 20, 20))
        self.assertTrue((np.stack(got) == want).all())
        self.assertFalse((snls.denoise(self.noisy, 20, method="nlm") == want).all())  # without the cut
        with self.assertRaisesRegex(ValueError, "closed"):
            denoiser.push(self.noisy[0])
        self.assertGreater(snls.denoise_memory(480, 854, method="nlm"), 1e6)

    def test_cuts(self):
        """A container is asked for each frame, and may be filled meanwhile; an iterator is read once."""
        class Second:
            def __contains__(self, t):
                return t == 2
        want = snls.denoise(self.noisy, 20, method="nlm", cuts=(2,))
        for cuts in ([2], {2}, range(2, 3), np.array([2]), np.array(2), {2.0}, Second(), iter([2]), (n for n in (np.int64(2), 9)), {2: "a"}):
            self.assertTrue((snls.denoise(self.noisy, 20, method="nlm", cuts=cuts) == want).all(), cuts)
        many = range(2, 2**40, 2**20)
        self.assertIs(cut_numbers("denoise", many), many)

        def broken():
            yield 2
            raise TypeError("mine")
        with self.assertRaisesRegex(TypeError, "^mine$"):
            snls.denoise(self.noisy, 20, method="nlm", cuts=broken())
        mask = [t == 2 for t in range(len(self.noisy))]  # of which `t in` would make frames 0 and 1
        for cuts in (mask, np.array(mask), iter(mask), {True}, [np.bool_(True)], *([torch.tensor(mask)] if torch else ())):
            with self.assertRaisesRegex(TypeError, "denoise: cuts holds truth values, must hold numbers of frames"):
                snls.denoise(self.noisy, 20, method="nlm", cuts=cuts)

    def test_closed_inside_a_call(self):
        """As a signal handler may: the call hears of it."""
        for name in ("_push", "_pull"):
            denoiser = snls.Denoiser(40, 40, sigma=20, method="nlm")
            with inside(snls._denoise, name, denoiser.close), self.assertRaises(ValueError):
                denoiser.push(self.noisy[0])
        denoiser = snls.Denoiser(40, 40, sigma=20, method="nlm")
        with inside(snls._denoise, "_close", denoiser.close):
            denoiser.close()

    def test_refused(self):
        for kind, sentence, arguments, options in ((ValueError, "3 axes", (self.noisy[0],), {}),
                                                   (TypeError, "no option 'ws'", (self.noisy, 20), dict(ws=3)),
                                                   (ValueError, "sigma has 2 values", (self.noisy, (1, 2)), {}),
                                                   (ValueError, "sigma is -1, must be 0 to 1000, or None: estimated", (self.noisy, -1), {}),
                                                   (ValueError, "sigma is 1001, must be 0 to 1000, or None: estimated", (self.noisy, 1001), {}),
                                                   (ValueError, "sigma is nan, must be 0 to 1000, or None", (self.noisy, np.nan), {}),
                                                   (ValueError, "denoise: sigma has 3 values, but frames have 1 channel: must be one number", (self.noisy[..., :1], (1, 50, 50)), {}),
                                                   (ValueError, "sigma is 'x', must be", (self.noisy, "x"), {}),
                                                   (ValueError, "sigma is '20', must be", (self.noisy, "20"), {}),
                                                   (ValueError, "sigma is array.'20'.*, must be", (self.noisy, np.array("20")), {}),
                                                   (TypeError, r"denoise: cuts is 1, must be numbers of frames, such as \(1,\)", (self.noisy, 20), dict(cuts=1)),
                                                   (TypeError, "denoise: cuts is None, must be numbers of frames", (self.noisy, 20), dict(cuts=None)),
                                                   (TypeError, "denoise: cuts is '12', must be numbers of frames", (self.noisy, 20), dict(cuts="12")),
                                                   (ValueError, "denoise: a number of cuts is 1.5, must be a whole", (self.noisy, 20), dict(cuts=(2, 1.5))),
                                                   (ValueError, "layout is array", (self.noisy, 20), dict(layout=np.zeros(2))),
                                                   (TypeError, "frame is complex64, must be real", (self.noisy.astype("complex64"), 20), {}),
                                                   (ValueError, "method is 'x', must be vnlb, nlm, stan or", (self.noisy, 20), dict(method="x")),
                                                   (ValueError, "channels", (self.noisy[..., :2], 20), {})):
            with self.assertRaisesRegex(kind, sentence):
                snls.denoise(*arguments, **{"method": "nlm", **options})  # vnlb needs LAPACK
        for seed in (2**64, -1, 0.5, "1", None):
            with self.assertRaisesRegex(ValueError, "noise_add: seed is .*, must be a whole number from 0 to 18446744073709551615"):
                snls.noise_add(self.clean, 20, seed=seed)
        for sigma in ("x", "3", np.array("3")):
            with self.assertRaisesRegex(ValueError, "noise_add: sigma is .*'.'.*, must be a number"):
                snls.noise_add(self.clean, sigma)
        for copied in (copy.copy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "Denoiser: cannot be copied or pickled"):
                copied(snls.Denoiser(40, 40, method="nlm"))
        with self.assertRaisesRegex(TypeError, "noise_add: array is complex64, must be real"):
            snls.noise_add(self.clean.astype("complex64"), 3)
        for kind, sentence, call in ((ValueError, "sigma is -1, must be", lambda: snls.denoise(self.noisy[:0], -1)),
                                     (TypeError, "no option 'strength'", lambda: snls.denoise(self.noisy[:0], 3, strength=2))):
            with self.assertRaisesRegex(kind, sentence):
                call()
        with self.assertRaisesRegex(TypeError, "denoise: method is .*, must be a name"):
            snls.denoise(self.noisy, 3, method=["nlm"])
        self.assertFalse((snls.noise_add(self.clean, 20, seed=2**64 - 1) == snls.noise_add(self.clean, 20, seed=np.int64(7))).all())
        for make in (snls.Denoiser, snls.denoise_memory):
            with self.assertRaisesRegex(ValueError, "denoise: sigma has 3 values, but frames have 1 channel: "):
                make(40, 40, 1, (20, 20, 20), method="nlm")
            make(40, 40, 1, (20,), method="nlm")
            for threads in (2**32 + 2, -1, "2", 1.5):
                with self.assertRaisesRegex(ValueError, "denoise: threads is .*, must be a whole number from 0 to 1024"):
                    make(40, 40, threads=threads)
            for size in ("40", 40.5, 2**64 + 40):
                with self.assertRaisesRegex(ValueError, "denoise: width is .*40.*, must be a whole number"):
                    make(40, size)

    def test_fork(self):
        """A child that goes on with its parent's denoiser hears so, and does not wait for ever, also where another thread was inside a
        call; one of its own works."""
        code = HELD + """
import os, signal, numpy as np, snls
frame = np.full((24, 24, 3), 9, "float32")
with snls.Denoiser(24, 24, sigma=5, method="nlm", threads=2) as denoiser:
    want = denoiser.push(frame) + denoiser.push(frame)
    let_go, ended = held(denoiser._lock), []
    for use in (lambda: denoiser.push(frame), denoiser.finish, lambda: denoiser.sigma):
        child = os.fork()
        if not child:
            signal.alarm(60)
            snls.denoise(frame[None], 5, method="nlm")
            try:
                use()
            except RuntimeError as error:
                os._exit(0 if "before a fork" in str(error) else 1)
        ended.append(os.waitpid(child, 0)[1])
    let_go()
    assert not any(ended), ended
    print("well", len(want + denoiser.finish()))
"""
        self.assertIn("well 2", run_python(code))

    @needs_torch
    def test_torch(self):
        first = torch.from_numpy(self.noisy).permute(0, 3, 1, 2)
        got = snls.denoise(first, 20, method="nlm", layout="CHW")
        self.assertEqual(got.shape, first.shape)
        self.assertTrue((got.permute(0, 2, 3, 1).numpy() == snls.denoise(self.noisy, 20, method="nlm")).all())
        self.assertTrue(torch.equal(snls.denoise(first, 20, method="nlm", layout="CHW", device=torch.device("cpu")), got))
        cut = snls.denoise(first, 20, method="nlm", layout="CHW", cuts=torch.tensor([2]))
        self.assertTrue((cut.permute(0, 2, 3, 1).numpy() == snls.denoise(self.noisy, 20, method="nlm", cuts=(2,))).all())


if __name__ == "__main__":
    unittest.main()
