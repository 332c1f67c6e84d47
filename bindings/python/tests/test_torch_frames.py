"""test_torch_frames.py: the functions on frames, metrics and noise with tensors of every kind: negated views, subclasses."""
import unittest

from common import has, needs_torch, run_python, snls, torch


def negated(t):
    """The same numbers as t, in memory that holds -t."""
    view = torch.complex(torch.zeros_like(t), -t).conj().imag
    assert view.is_neg()
    return view


@needs_torch
class Frames(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(2)
        self.clip = torch.rand(3, 32, 32, 3) * 255
        self.flow = torch.rand(32, 32, 2) * 3

    def calls(self):
        """Functions of (clip, flow) that give a tensor, a number, or a tuple of them."""
        return (lambda c, f: snls.flow(c[0], c[1], "dis"), lambda c, f: snls.flow_clip(c, "dis"), lambda c, f: snls.warp(c[0], f),
                lambda c, f: snls.flow_resize(f, 16, 16), lambda c, f: snls.flow_consistency(f, f), lambda c, f: snls.flow_color(f),
                lambda c, f: snls.flow_error(f, self.flow), lambda c, f: snls.align(c[0], c[1], f), lambda c, f: snls.noise_add(c, 3),
                lambda c, f: snls.noise_estimate(c), lambda c, f: snls.noise_level(c), lambda c, f: snls.metrics.ssim(c[0], self.clip[1]),
                lambda c, f: snls.denoise(c, 20, method="nlm", preset="fast"))

    def same(self, got, want):
        for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, want))):
            self.assertIs(type(a), type(b))
            self.assertTrue(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b)

    def test_negative_bit(self):
        """Numbers that are yet to be negated are not read as they lie in memory."""
        for call in self.calls():
            self.same(call(negated(self.clip), negated(self.flow)), call(self.clip, self.flow))
        self.assertEqual(snls.metrics.psnr(self.clip, negated(self.clip)), float("inf"))

    def test_subclasses(self):
        """A tensor in, a tensor out, whatever class was made of it and wherever."""
        class Frame(torch.Tensor):
            pass
        plain = lambda x: tuple(map(plain, x)) if isinstance(x, tuple) else x.as_subclass(torch.Tensor) if isinstance(x, torch.Tensor) else x
        for call in self.calls():
            self.same(plain(call(self.clip.as_subclass(Frame), self.flow.as_subclass(Frame))), call(self.clip, self.flow))

    @unittest.skipUnless(has(2, 0), "torch.device is no context before PyTorch 2")
    def test_another_default_device(self):
        """Of CPU memory what comes back is too, wherever new tensors are put that say nothing (torch.set_default_device)."""
        for call in self.calls():
            want = call(self.clip, self.flow)
            with torch.device("meta"):
                got = call(self.clip, self.flow)
            self.same(got, want)

    def test_no_gradients(self):
        """But of align; the others take tensors that require one, and give what does not."""
        clip, flow = self.clip.requires_grad_(True), self.flow.requires_grad_(True)
        for result in (snls.flow(clip[0], clip[1], "dis"), *snls.flow_clip(clip, "dis"), snls.warp(clip[0], flow), snls.flow_resize(flow, 9, 9),
                       snls.noise_add(clip, 3), snls.denoise(clip, 20, method="nlm", preset="fast"), snls.denoise(clip[:0], 20, method="nlm")):
            self.assertFalse(result.requires_grad)
        self.assertTrue(snls.align(clip[0], clip[1], flow).requires_grad)

    def test_align_types(self):
        """Frames of any type; what is float64 throughout stays so, for checks of gradients, and gradients pass in any case."""
        b, a = (self.clip[:2, :16, :16] / 2).round()
        for kind in (torch.uint8, torch.float64):
            for flow in ("dis", self.flow[:16, :16], None):
                got = snls.align(b.to(kind), a.to(kind), flow, ws=3)
                exact = kind is torch.float64 and flow is None
                self.assertEqual(got.dtype, torch.float64 if exact else torch.float32)
                self.assertTrue(torch.allclose(got.float(), snls.align(b, a, flow, ws=3)))
        for kind, flow_kind in ((torch.float64, torch.float32), (torch.float64, torch.float64), (torch.float32, torch.float64)):
            flow = self.flow[:16, :16].to(flow_kind).clone().requires_grad_(True)
            frame = b.to(kind).clone().requires_grad_(True)
            moved = snls.align(frame, a.to(kind), flow, ws=3, stride1=0.5)
            moved.square().mean().backward()
            self.assertEqual((moved.dtype == torch.float64, frame.grad.dtype, flow.grad.dtype), (kind == flow_kind, kind, flow_kind))
            self.assertGreater(float(frame.grad.abs().max()), 0)
        self.assertEqual(snls.align(b.half(), a.half(), None, ws=3).dtype, torch.float16)
        with self.assertRaisesRegex(TypeError, "align: frame is int32, must be uint8, float32"):
            snls.align(b.int(), a, None)

    def test_align_without_a_distance(self):
        """A vector that is not finite makes NaN of no pixel and of no gradient."""
        b, a = self.clip[:2, :16, :16]
        flow = self.flow[:16, :16].clone()
        flow[5, 6, 0] = float("nan")
        frame, flow = b.clone().requires_grad_(True), flow.requires_grad_(True)
        moved = snls.align(frame, a, flow, ws=3)
        moved.square().mean().backward()
        for tensor in (moved, frame.grad, flow.grad):
            self.assertTrue(tensor.isfinite().all())

    def test_types_that_are_refused(self):
        clip, floats = self.clip.long(), "float32, float16, bfloat16 or float64$"
        with self.assertRaisesRegex(TypeError, "search: query is int64, must be " + floats):
            snls.search(clip[None], clip[None])
        for kind in ("int64", "int32"):
            odd = clip.to(getattr(torch, kind))
            with self.assertRaisesRegex(TypeError, "flow: frame0 is %s, must be uint8, %s" % (kind, floats)):
                snls.flow(odd[0], odd[1])
        with self.assertRaisesRegex(TypeError, "warp: flow is float16, must be float32 or float64$"):
            snls.warp(self.clip[0], self.flow.half())

    def test_left_alone(self):
        """SNLS_TORCH=0: a tensor is an array with __dlpack__, and results are NumPy's; also of one that is yet to be negated."""
        code = """
import numpy as np, torch, snls
clip = torch.rand(3, 24, 24, 3) * 255
negated = torch.complex(clip, -clip).conj().imag
def streamed(c):
    denoiser = snls.Denoiser(24, 24, sigma=3, method="nlm")
    return (denoiser.push(c[0]) + denoiser.finish())[0]
for c in (clip, negated):
    for f in (lambda c: snls.flow(c[0], c[1], "dis"), lambda c: snls.noise_add(c, 3), lambda c: snls.denoise(c, 9, method="nlm"),
              lambda c: snls.search(c[None], c[None], ws=3)[0], streamed):
        got = f(c)
        assert type(got) is np.ndarray and (got == f(clip.numpy())).all()
video = clip[None]
dist, offset = snls.search(video, video, ws=3, k=2)  # NumPy's, beside the tensor in the next call
assert (snls.gather_add(video, snls.weights(dist), offset) == snls.gather_add(video.numpy(), snls.weights(dist), offset)).all()
for f in (lambda c: snls.denoise(c, 9, method="nlm"), lambda c: snls.metrics.psnr(c, c)):
    try:
        f(clip.bfloat16())
        assert False
    except TypeError as error:
        assert "is a Tensor that NumPy cannot take" in str(error), error
print("well")
"""
        self.assertIn("well", run_python(code, SNLS_TORCH="0"))


if __name__ == "__main__":
    unittest.main()
