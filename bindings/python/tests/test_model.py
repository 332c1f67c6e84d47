"""test_model.py: networks: the one that comes with snls, on clips and streams, for NumPy and PyTorch, on the CPU and a GPU."""
import copy
import os
import pickle
import tempfile
import threading
import unittest

import numpy as np

from common import HELD, inside, needs_cuda, needs_torch, run_python, snls, torch
from test_denoise import clip


def open_model(*arguments, **options):
    try:
        return snls.Model(*arguments, **options)
    except NotImplementedError as error:  # this build reads no safetensors
        raise unittest.SkipTest(str(error))


class Networks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.clean = clip(9)
        cls.noisy = snls.noise_add(cls.clean, 30, seed=1)
        cls.net = open_model("stan", dtype="float32")
        cls.want = cls.net(cls.noisy, 30)

    def test_what_it_is(self):
        self.assertEqual((self.net.architecture, self.net.parameters, self.net.dtype), ("stan-s", 2398241, "float32"))
        self.assertEqual(self.net.radius, 10)
        self.assertIn("stan-s", repr(self.net))

    def test_better(self):
        self.assertEqual((self.want.shape, self.want.dtype), (self.noisy.shape, np.float32))
        psnr = lambda video: snls.metrics.psnr(self.clean, video)
        self.assertGreater(psnr(self.want), psnr(self.noisy) + 8)
        self.assertLess(psnr(self.net(self.noisy, 5)), psnr(self.want))  # it is told how much noise there is
        self.assertGreater(psnr(self.net(self.noisy)), psnr(self.noisy) + 8)  # and finds out by itself

    def test_stream(self):
        got, taken, delay = [], [], self.net.delay
        frames = (taken.append(t) or frame for t, frame in enumerate(self.noisy))
        for frame in self.net.stream(frames, 30):
            got.append(frame)
            self.assertLess(len(taken), len(got) + delay)
        self.assertTrue((np.stack(got) == self.want).all())

    def test_one_array_for_all_frames(self):
        """A frame is the stream's own once it was given, also while the noise is not known yet."""
        want, room = list(self.net.stream(self.noisy)), np.empty_like(self.noisy[0])

        def frames():
            for frame in self.noisy:
                room[:] = frame
                yield room
        self.assertTrue((np.stack(list(self.net.stream(frames()))) == np.stack(want)).all())

    def test_two_streams(self):
        """Two streams of a network do not disturb each other, and what becomes of one that is left alone."""
        pairs = list(zip(self.net.stream(self.noisy[:3], 30), self.net.stream(self.noisy[:3] / 2, 30)))
        self.assertTrue((np.stack([a for a, _ in pairs]) == self.net(self.noisy[:3], 30)).all())
        net = open_model("stan", dtype="float32")
        left = net.stream(self.noisy[:2], 30)
        next(left)
        net.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            next(left)
        with self.assertRaisesRegex(ValueError, "20 rows and 40 columns, the first had 40 and 40"):
            list(self.net.stream((self.noisy[0], self.noisy[0, :20]), 30))

    def test_grey(self):
        """Grey is three equal channels, whose noise is equal too: as strong in brightness as sqrt(3) times as much in each."""
        clean, noisy = self.clean[..., :1], self.noisy[..., :1]
        got, want = self.net(noisy, 30), self.net(np.repeat(noisy, 3, axis=3), 30 * 3 ** 0.5).mean(axis=3, keepdims=True)
        self.assertEqual((got.shape, got.dtype), (noisy.shape, np.float32))
        self.assertLess(float(np.abs(got - want).max()), 1e-3)
        psnr = lambda video: snls.metrics.psnr(clean, video)
        self.assertGreater(psnr(got), psnr(noisy) + 5)
        self.assertGreater(psnr(self.net(noisy)), psnr(noisy) + 5)
        with self.assertRaisesRegex(ValueError, "1 channels, the first had 3"):
            list(self.net.stream((self.noisy[0], noisy[1]), 30))

    def test_noise_of_brightness(self):
        """Noise that is equal in red, green and blue, as videos have it, is found to be as strong as it is."""
        noisy = self.clean + snls.noise_add(np.zeros_like(self.clean[..., :1]), 20, seed=2)
        self.assertLess(abs(snls.noise_level(self.noisy) / 30 - 1), 0.4)  # frames of 40x40
        self.assertLess(abs(snls.noise_level(noisy) / (20 * 3 ** 0.5) - 1), 0.4)
        psnr = lambda video: snls.metrics.psnr(self.clean, video)
        self.assertGreater(psnr(self.net(noisy)), psnr(noisy) + 5)

    def test_noise_that_changes(self):
        """It is estimated anew for every eight frames of a scene, and behind frames that have none; as snls denoise does."""
        levels, told = [0, 0, 10, 10, 10, 10, 10, 10, 10, 10, 40, 40, 40, 40, 40, 40, 40, 20, 20], []
        clip = [snls.noise_add(self.clean[0] / 2 + 60, level, seed=t) if level else np.zeros_like(self.clean[0]) for t, level in enumerate(levels)]

        class Told(snls.model._Stream):
            def _push(self, frame):
                told.append(self.sigma)

            def _ready(self):
                return ()
        with Told(self.net, None) as stream:
            for t, frame in enumerate(clip):
                if t == 17:
                    list(stream.finish())
                list(stream.push(frame))
            list(stream.finish())
        known = lambda first, end: snls.noise_level(np.stack(clip[first:end]))
        want = [known(0, 5)] * 8 + [known(8, 13)] * 8 + [known(16, 17)] + [known(17, 19)] * 2
        self.assertEqual(told, want)
        self.assertEqual(len(set(told)), 4)
        del told[:]
        with Told(self.net, 30) as stream:
            for frame in clip:
                list(stream.push(frame))
        self.assertEqual(set(told), {30})

    def test_without_noise(self):
        """Frames without noise come out as they came, and are seen by those beside them."""
        clip = self.noisy.copy()
        clip[:3] = 16
        got, alone = self.net(clip, cuts=(3,)), self.net(clip[3:])
        self.assertTrue((got[:3] == clip[:3]).all() and (got[3:] == alone).all() and (alone != clip[3:]).any())
        clip[:6] = 16  # in one scene the noise is found two frames further on: the first five, and then five more, show none
        got, alone = self.net(clip), self.net(clip[2:])
        self.assertTrue((got[:2] == clip[:2]).all() and (got[2:] != clip[2:]).any() and (got[2:] != alone).any())
        black = clip[:6, ..., :1]
        self.assertTrue((self.net(black) == black).all() and (snls.denoise(clip[:6], method="stan") == 16).all())
        for sigma in (0, (0, 0, 0)):
            copies = self.net(self.noisy, sigma)
            self.assertTrue((copies == self.noisy).all() and not np.shares_memory(copies, self.noisy))

    def test_cuts(self):
        """A scene is denoised as if there were no other."""
        two = np.concatenate([self.noisy[:3], self.noisy[::-1]])
        apart = np.concatenate([self.net(self.noisy[:3], 30), self.net(self.noisy[::-1], 30)])
        self.assertTrue((self.net(two, 30, cuts=(3,)) == apart).all())
        self.assertFalse((self.net(two, 30) == apart).all())
        found = set()

        def frames():
            for t, frame in enumerate(two):
                if t == 3:
                    found.add(t)
                yield frame
        self.assertTrue((np.stack(list(self.net.stream(frames(), 30, cuts=found))) == apart).all())

    def test_denoise(self):
        with open_model("stan") as net:
            want = net(self.noisy[:4], 30)
        self.assertTrue((snls.denoise(self.noisy[:4], 30, method="stan") == want).all())
        self.assertTrue((snls.denoise(self.noisy[:4], 30, method=snls.model.find("stan")) == want).all())
        none = snls.denoise(self.noisy[:0].astype("uint8"), 30, method="stan")
        self.assertEqual((none.shape, none.dtype), ((0, *self.noisy.shape[1:]), np.float32))

    @needs_torch
    def test_torch(self):
        first = torch.from_numpy(self.noisy).permute(0, 3, 1, 2).double()
        got = self.net(first, 30, layout="CHW")
        self.assertEqual((got.shape, got.dtype), (first.shape, torch.float32))
        self.assertTrue((got.permute(0, 2, 3, 1).numpy() == self.want).all())

    @needs_torch
    @needs_cuda
    def test_cuda(self):
        psnr, video = lambda done: snls.metrics.psnr(self.clean, done), torch.from_numpy(self.noisy).cuda()
        want = self.net(self.noisy[:4], 30)
        for dtype, most in (("float32", 0.2), ("auto", 1)):  # mean differences from the CPU's result, of 255
            try:
                with open_model("stan", device="cuda", dtype=dtype) as net:
                    got, plain, short = net(video, 30), net(self.noisy, 30), net(self.noisy[:4], 30)
            except RuntimeError as error:
                self.skipTest(str(error))  # libsnls_nn_cuda.so is not there, or cuDNN is not
            self.assertTrue(got.is_cuda and type(plain) is np.ndarray)
            self.assertLess(float(np.abs(got.cpu().numpy() - plain).mean()), 0.01)
            self.assertLess(float(np.abs(short - want).mean()), most)
            self.assertGreater(psnr(plain), psnr(self.want) - 0.3)
        self.assertTrue(snls.denoise(video, 30, method="stan").is_cuda)

    def test_copies_and_forks(self):
        """Copies and forked children open the file anew."""
        for net in (pickle.loads(pickle.dumps(self.net)), copy.deepcopy(self.net)):
            self.assertEqual((net.path, net.dtype), (self.net.path, "float32"))
            self.assertTrue((net(self.noisy[:1], 30) == self.net(self.noisy[:1], 30)).all())
        code = HELD + """
import os, signal, numpy as np, snls
clip = np.random.default_rng(0).random((2, 24, 24, 3)).astype("float32") * 255
net = snls.Model(%r, threads=2)
stream, last = net.stream(clip, 20), net.stream(clip, 20)
next(last), next(last)
want = np.stack([next(stream), *net(clip, 20)[1:]])
let_go, ended = held(net._lock), []
for begun in (stream, last):
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            next(begun)
        except RuntimeError as error:
            os._exit(0 if "before a fork" in str(error) and (net(clip, 20) == want).all() else 1)
    ended.append(os.waitpid(child, 0)[1])
let_go()
assert not any(ended), ended
print("well", (next(stream) == want[1]).all())
""" % self.net.path
        self.assertIn("well True", run_python(code))

    def test_a_call_inside_a_call(self):
        """As a signal handler makes it: nobody waits for itself."""
        found = []
        with inside(snls.model.os, "getpid", lambda: found.append(self.net.delay)):
            thread = threading.Thread(target=lambda: found.append(self.net.delay), daemon=True)
            thread.start()
            thread.join(60)
        self.assertGreater(len(found), 1)
        self.assertEqual(set(found), {self.net.delay})
        stream, other = self.net.stream(self.noisy[:3], 30), []
        with inside(snls.model._Stream, "_push", lambda: other.append(self.net(self.noisy[3:5], 30))):
            self.assertTrue((np.stack(list(stream)) == self.net(self.noisy[:3], 30)).all())
        self.assertTrue((other[0] == self.net(self.noisy[3:5], 30)).all())

    def test_refused(self):
        for kind, sentence, call in ((ValueError, "3 axes", lambda: self.net(self.noisy[0], 30)),
                                     (ValueError, "2 channels, must have 3", lambda: self.net(self.noisy[..., :2], 30)),
                                     (ValueError, "sigma is 300", lambda: self.net(self.noisy[..., :1], 300)),
                                     (ValueError, "sigma is 300, must be 0 to 255, or None: estimated", lambda: self.net(self.noisy, 300)),
                                     (ValueError, "model: sigma has 3 values, but frames have 1 channel: ", lambda: self.net(self.noisy[..., :1], (1, 50, 50))),
                                     (ValueError, "model: sigma has 3 values, but frames have 1 channel: ", lambda: self.net(self.noisy[..., :1], (0, 0, 0))),
                                     (ValueError, "model: sigma has 3 values, but", lambda: snls.denoise(self.noisy[..., :1], (1, 50, 50), method=self.net.path)),
                                     (ValueError, "sigma is 'x'", lambda: self.net(self.noisy, "x")),
                                     (ValueError, "sigma has 0 values", lambda: self.net(self.noisy, ())),
                                     (TypeError, "stream: cuts is 1, must be numbers", lambda: self.net(self.noisy, 30, cuts=1)),
                                     (ValueError, "not finite", lambda: self.net(self.noisy * np.nan, 30)),
                                     (ValueError, "no weights of dvdnet", lambda: snls.Model("dvdnet")),
                                     (ValueError, "device is 'tpu'", lambda: snls.Model(device="tpu")),
                                     (ValueError, "number of the device is 4294967296", lambda: snls.Model(device="cuda:4294967296")),
                                     (ValueError, "threads is 4294967298, must be a whole", lambda: snls.Model(threads=2**32 + 2)),
                                     (ValueError, "dtype is \\[\\], must be", lambda: snls.Model(dtype=[])),
                                     (TypeError, "not list", lambda: snls.Model([])),
                                     (ValueError, "flow is 'tvl1', but stan-s", lambda: snls.Model(flow="tvl1")),
                                     (ValueError, "dtype is 'f8'", lambda: snls.Model(dtype="f8")),
                                     (TypeError, "no option 'preset'",
                                      lambda: snls.denoise(self.noisy, 30, method="stan", preset="fast")),
                                     (ValueError, "only networks", lambda: snls.denoise(self.noisy, 30, device="cuda")),
                                     (ValueError, "embedded null byte", lambda: snls.Model(self.net.path + "\0x")),
                                     (ValueError, "embedded null byte", lambda: snls.denoise(self.noisy, 30, method=self.net.path + "\0.safetensors")),
                                     (FileNotFoundError, "/nowhere/x.safetensors", lambda: snls.Model("/nowhere/x.safetensors"))):
            with self.subTest(sentence), self.assertRaisesRegex(kind, sentence):
                call()
        net = open_model("stan")
        net.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            net(self.noisy, 30)

    def test_where_weights_are(self):
        code = "import snls; print(snls.model.find('stan'))"
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(AssertionError, "SNLS_WEIGHTS names"):
                run_python(code, SNLS_WEIGHTS=folder)
            path = os.path.join(folder, "stan-s.safetensors")
            os.symlink(snls.model.find("stan"), path)
            self.assertIn(path, run_python(code, SNLS_WEIGHTS=folder))


if __name__ == "__main__":
    unittest.main()
