"""test_equal.py: every operator against plain_torch.py, on every device, forward and gradients, and against itself in
other layouts, strides and element types."""
import unittest
import unittest.mock

from common import DEVICES, needs_torch, snls, torch

if torch:
    import plain_torch as plain

SEARCHES = (dict(ws=3, wt=1, ps=1, k=4), dict(ws=4, wt=1, ps=2, k=5, stride1=0.5, heads=2), dict(ws=3, ps=3, k=3, stride0=2),
            dict(ws=5, wt=1, ps=3, k=6, dilation=2, dist="prod"), dict(ws=2, wt=1, k=2, stride1=1.5, stride0=3, heads=2))


def smooth_flow(shape, scale=2.0):
    return scale * (2 * torch.rand(shape, dtype=torch.float64) - 1)


@needs_torch
class Equal(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)

    def video(self, b=1, t=3, h=7, w=6, c=4):
        return torch.rand(b, t, h, w, c, dtype=torch.float64)

    def close(self, got, want, tolerance):
        error = (got.detach().double().cpu() - want.detach()).abs()
        self.assertLessEqual(float(error.max()) if error.numel() else 0, tolerance)

    def runs(self, f, plain_f, inputs, differentiable, tolerance=2e-4, same=None):
        """f in f64 (ref) and f32 on each device against plain_f in f64: outputs and gradients.

        same(got, want) -> a mask of outputs to compare, where the order of near-ties may differ."""
        def graded(function, dtype, device):
            leaves = [None if x is None else x.detach().to(device, dtype).requires_grad_(x.is_floating_point()) for x in inputs]
            outputs = function(*leaves)
            outputs = outputs if isinstance(outputs, tuple) else (outputs,)
            torch.manual_seed(3)
            total = sum((torch.rand(o.shape, dtype=torch.float64).to(device, dtype) * torch.where(torch.isfinite(o), o, o * 0)).sum()
                        for o in outputs if o.requires_grad)
            total.backward()
            return outputs, [x.grad for x in leaves if x is not None]
        want, want_grad = graded(plain_f, torch.float64, "cpu")
        for dtype, device in [(torch.float64, "cpu")] + [(torch.float32, d) for d in DEVICES]:
            limit = 1e-9 if dtype == torch.float64 else tolerance
            with self.subTest(dtype=dtype, device=device):
                got, got_grad = graded(f, dtype, device)
                for g, w in zip(got, want):
                    self.assertEqual(g.shape, w.shape)
                    self.close(torch.nan_to_num(g, posinf=0, neginf=0), torch.nan_to_num(w, posinf=0, neginf=0), limit)
                for i, (g, w) in enumerate(zip(got_grad, want_grad)):
                    if i < differentiable:
                        self.close(g, w, limit * 20)

    def test_search(self):
        for options in SEARCHES:
            with self.subTest(**options):
                q, k = self.video(), self.video()
                stride0, slots = options.get("stride0", 1), 2 * options.get("wt", 0)
                grid = (-(-7 // stride0), -(-6 // stride0))
                flow = smooth_flow((1, 3, slots or 1, *grid, 2))
                self.runs(lambda q, k, f: snls.search(q, k, f, **options), lambda q, k, f: plain.search(q, k, f, **options),
                          (q, k, flow), 3)

    def test_search_without_flow(self):
        q, k = self.video(b=2), self.video(b=2)
        self.runs(lambda q, k: snls.search(q, k, ws=3, wt=1, k=3), lambda q, k: plain.search(q, k, ws=3, wt=1, k=3), (q, k), 2)

    def test_flow_of_every_head(self):
        q, k, flow = self.video(), self.video(), smooth_flow((1, 2, 3, 3, 7, 6, 2))
        self.runs(lambda q, k, f: snls.search(q, k, f, ws=3, wt=1, k=3, heads=2),
                  lambda q, k, f: plain.search(q, k, f, ws=3, wt=1, k=3, heads=2), (q, k, flow), 3)

    def test_refine(self):
        for options in (dict(wr=1, k=3), dict(wr=3, k=4, ps=3, stride1=0.5, heads=2), dict(wr=2, k=2, stride0=2, dist="prod")):
            with self.subTest(**options):
                stride0, heads = options.get("stride0", 1), options.get("heads", 1)
                grid = (-(-7 // stride0), -(-6 // stride0))
                centre = smooth_flow((1, heads, 3, *grid, 3, 3))
                centre[..., 0] = torch.randint(-1, 2, centre.shape[:-1])
                self.runs(lambda *a: snls.refine(*a, **options), lambda *a: plain.refine(*a, **options),
                          (self.video(), self.video(), centre), 3)

    def test_flow_compose(self):
        flows = [smooth_flow((1, 5, 7, 6, 2), 1.5) for _ in range(2)]
        for wt, stride0 in ((1, 1), (2, 2)):
            self.runs(lambda *a: snls.flow_compose(*a, wt, stride0), lambda *a: plain.flow_compose(*a, wt, stride0), flows, 2)

    def test_weights(self):
        dists = torch.rand(1, 2, 2, 3, 3, 5, dtype=torch.float64)
        dists[0, 0, 0, 0, 0, 3:] = float("inf")
        dists[0, 1, 1, 2, 2] = float("inf")
        got = snls.weights(dists)
        self.close(got, plain.weights(dists), 1e-12)
        self.assertEqual(float(got[0, 1, 1, 2, 2].abs().sum()), 0)
        finite = torch.rand(1, 2, 2, 3, 3, 5, dtype=torch.float64)
        for kind in ("l2", "prod"):
            self.runs(lambda d: snls.weights(d, 3.0, kind), lambda d: plain.weights(d, 3.0, kind), (finite,), 1)

    def places(self, heads, grid, kept=3):
        offset = smooth_flow((1, heads, 3, *grid, kept, 3))
        offset[..., 0] = torch.randint(-1, 2, offset.shape[:-1])
        return torch.rand(1, heads, 3, *grid, kept, dtype=torch.float64), offset

    def test_gather(self):
        for options in (dict(), dict(ps=3), dict(ps=3, stride0=2, dilation=2), dict(ps=2, stride0=1)):
            for heads in (1, 2):
                stride0 = options.get("stride0", 1)
                weight, offset = self.places(heads, (-(-7 // stride0), -(-6 // stride0)))
                with self.subTest(heads=heads, **options), unittest.mock.patch("warnings.warn"):
                    for name in ("gather", "gather_add"):
                        self.runs(lambda *a: getattr(snls, name)(*a, **options), lambda *a: getattr(plain, name)(*a, **options),
                                  (self.video(), weight, offset), 3)

    def test_scatter_add_is_the_adjoint(self):
        weight, offset = self.places(2, (7, 6))
        value, other = self.video(), self.video()
        out, total = snls.scatter_add(value, weight, offset)
        self.assertAlmostEqual(float((out * other).sum()), float((snls.gather_add(other, weight, offset) * value).sum()), 9)
        self.assertEqual(total.shape, (1, 3, 7, 6, 2))
        self.assertAlmostEqual(float(total.sum()), float(weight.sum()), 9)


@needs_torch
class SameEverywhere(unittest.TestCase):
    """Layouts, strides and element types do not change what is computed."""

    def setUp(self):
        torch.manual_seed(11)
        self.q, self.k = torch.rand(1, 3, 8, 9, 4), torch.rand(1, 3, 8, 9, 4)
        self.flow = torch.rand(1, 3, 2, 8, 9, 2) * 2 - 1
        self.options = dict(ws=3, wt=1, ps=3, k=5, heads=2, stride1=0.5)

    def both(self, device):
        q, k, flow = self.q.to(device), self.k.to(device), self.flow.to(device)
        last = snls.search(q, k, flow, **self.options)
        first = snls.search(q.permute(0, 1, 4, 2, 3).contiguous(), k.permute(0, 1, 4, 2, 3), flow.permute(0, 1, 2, 5, 3, 4),
                            layout="BTCHW", **self.options)
        return last, first

    def test_layouts(self):
        for device in DEVICES:
            last, first = self.both(device)
            for a, b in zip(last, first):
                self.assertTrue(torch.equal(a, b))
            weight = snls.weights(last[0])
            value = self.q.to(device)
            for name, order in (("gather_add", (0, 1, 4, 2, 3)), ("gather", (0, 1, 2, 3, 6, 4, 5))):
                want = getattr(snls, name)(value, weight, last[1], ps=3)
                got = getattr(snls, name)(value.permute(0, 1, 4, 2, 3).contiguous(), weight, last[1], ps=3, layout="BTCHW")
                self.assertTrue(got.is_contiguous())
                self.assertTrue(torch.equal(got, want.permute(order)))

    def test_strides(self):
        for device in DEVICES:
            want = snls.search(self.q.to(device), self.k.to(device), self.flow.to(device), **self.options)
            wide = torch.zeros(1, 3, 8, 18, 8, device=device)
            wide[:, :, :, ::2, 1::2] = self.q.to(device)
            got = snls.search(wide[:, :, :, ::2, 1::2], self.k.to(device).flip(1).contiguous().flip(1), self.flow.to(device),
                              **self.options)
            self.assertTrue(torch.equal(got[0], want[0]) and torch.equal(got[1], want[1]))
            grown = self.q[:, :1].to(device).expand(1, 3, 8, 9, 4)  # stride 0 along time
            self.assertTrue(torch.equal(snls.search(grown, grown, **self.options)[0],
                                        snls.search(grown.contiguous(), grown.contiguous(), **self.options)[0]))

    def test_half(self):
        for device in DEVICES:
            for dtype in (torch.float16, torch.bfloat16):
                q, k, flow = self.q.to(device, dtype), self.k.to(device, dtype), self.flow.to(device)
                dist, offset = snls.search(q, k, flow, **self.options)
                want, places = snls.search(q.float(), k.float(), flow, **self.options)
                self.assertEqual(dist.dtype, torch.float32)
                self.assertTrue(torch.allclose(dist, want, rtol=1e-5, atol=1e-5))
                out = snls.gather_add(q, snls.weights(dist), offset, ps=3)
                self.assertEqual(out.dtype, dtype)
                exact = snls.gather_add(q.float(), snls.weights(dist), offset, ps=3)
                self.assertTrue(torch.allclose(out.float(), exact, rtol=2 ** -7, atol=1e-3))

    def test_numpy_gives_the_same_bits(self):
        got = snls.search(self.q.numpy(), self.k.numpy(), self.flow.numpy(), **self.options)
        want = snls.search(self.q, self.k, self.flow, **self.options)
        for a, b in zip(got, want):
            self.assertTrue((a == b.numpy()).all())


if __name__ == "__main__":
    unittest.main()
