"""test_compile.py: torch.library.opcheck, torch.compile and torch.func, where PyTorch has them (2.4 and later)."""
import unittest
import warnings

from common import DEVICES, has, needs_torch, snls, torch


def leaf(*shape, device="cpu", scale=1.0):
    return (scale * torch.rand(*shape)).to(device).requires_grad_(True)


@needs_torch
@unittest.skipUnless(has(2, 4), "this PyTorch has no opcheck")
class OpCheck(unittest.TestCase):
    def check(self, name, *args, **kwargs):
        results = torch.library.opcheck(getattr(torch.ops.snls, name).default, args, kwargs)
        self.assertEqual(set(results.values()), {"SUCCESS"}, (name, results))

    def test_every_operator(self):
        for device in DEVICES:
            q, k, flow = leaf(1, 3, 6, 5, 4, device=device), leaf(1, 3, 6, 5, 4, device=device), leaf(1, 3, 2, 6, 5, 2, device=device)
            self.check("search", q, k, flow, ws=3, wt=1, k=4)
            self.check("search", q, k, None, ws=3, wt=1, k=2, topk="each", stride0=2)
            self.check("search_all", q, k, None, ws=2)
            self.check("search", q, k, flow, ws=3, wt=1, k=4, with_index=False)
            self.check("search", q.detach(), k.detach(), flow.detach(), ws=3, wt=1, k=4, with_index=False)
            first = [x.detach().permute(0, 1, 4, 2, 3).contiguous().requires_grad_(True) for x in (q, k)]
            self.check("search", *first, flow.detach().permute(0, 1, 2, 5, 3, 4), ws=3, wt=1, k=2, channels_first=True)
            dist, offset, index = (t.detach() for t in torch.ops.snls.search(q, k, flow, ws=3, wt=1, k=4))
            weight, offset = snls.weights(dist).requires_grad_(True), offset.requires_grad_(True)
            self.check("refine", q, k, offset, wr=2, k=3)
            self.check("weights", dist.clone().requires_grad_(True))
            self.check("flow_compose", leaf(1, 3, 6, 5, 2, device=device), leaf(1, 3, 6, 5, 2, device=device), wt=1)
            for name in ("gather", "gather_add", "scatter_add"):
                self.check(name, q, weight, offset, ps=3)
            self.check("search_backward", dist, None, q.detach(), k.detach(), flow.detach(), index, 5, ws=3, wt=1, k=4)
            self.check("weights_backward", dist, dist, weight.detach(), 1)


@needs_torch
@unittest.skipUnless(has(2, 1), "this PyTorch has no torch.compile to speak of")
class Compile(unittest.TestCase):
    def test_without_graph_breaks(self):
        search = snls.NonLocalSearch(3, 1, 3, 5, nheads=2, stride0=1, stride1=0.5)

        def attend(v, fflow, bflow):
            dist, offset = search(v * 2, v, fflow, bflow)
            return snls.gather_add(v, snls.weights(dist, 2.0), offset, ps=3, layout="BTCHW").relu().sum()
        for device in DEVICES:
            for backend in ("aot_eager",) + (("inductor",) if device == "cuda" else ()):
                torch._dynamo.reset()
                for shape in ((1, 3, 4, 8, 7), (1, 3, 4, 9, 6)):  # the second compiles for any size
                    inputs = [leaf(*shape, device=device), leaf(*shape[:2], 2, *shape[3:], device=device, scale=2.0),
                              leaf(*shape[:2], 2, *shape[3:], device=device, scale=-2.0)]
                    inputs = [x.detach().requires_grad_(True) for x in inputs]
                    with self.subTest(device=device, backend=backend, shape=shape):
                        want = torch.autograd.grad(attend(*inputs), inputs)
                        compiled = torch.compile(attend, fullgraph=True, backend=backend)
                        got = torch.autograd.grad(compiled(*inputs), inputs)
                        for a, b in zip(got, want):
                            self.assertTrue(torch.allclose(a, b, rtol=1e-3, atol=1e-4))
                        with torch.no_grad():
                            self.assertTrue(torch.allclose(compiled(*inputs), attend(*inputs), rtol=1e-4))

    @unittest.skipUnless(has(2, 6), "its torch.compile follows less")
    def test_align(self):
        torch._dynamo.reset()
        frame, reference, flow = leaf(9, 8, 3), torch.rand(9, 8, 3), torch.rand(9, 8, 2, requires_grad=True)
        align = lambda *given: snls.align(*given, ws=3, stride1=0.5)
        inputs, compiled = (frame, flow), torch.compile(align, fullgraph=True, backend="aot_eager")
        want, got = (f(frame, reference, flow) for f in (align, compiled))
        self.assertTrue(torch.allclose(got, want, atol=1e-5))
        for a, b in zip(*(torch.autograd.grad(out.square().sum(), inputs) for out in (got, want))):
            self.assertTrue(torch.allclose(a, b, rtol=1e-3, atol=1e-4))


@needs_torch
@unittest.skipUnless(has(2, 0), "this PyTorch has no torch.func")
class Transforms(unittest.TestCase):
    """torch.func: reverse mode and vmap, also one inside the other; what is not there is refused, not silently 0."""

    def setUp(self):
        torch.manual_seed(3)

    @staticmethod
    def attend(video, flow):
        dist, offset = snls.search(video, video.roll(1, 2), flow, wt=1, ws=3, k=3, ps=3)
        return snls.gather_add(video, snls.weights(dist, 2.0), offset, ps=3).square().sum()

    def plain(self, video, flow):
        leaves = [t.detach().clone().requires_grad_(True) for t in (video, flow)]
        return torch.autograd.grad(self.attend(*leaves), leaves)

    def test_gradients(self):
        for device in DEVICES:
            video, flows = torch.rand(1, 3, 6, 5, 4).to(device), torch.rand(4, 1, 3, 2, 6, 5, 2).to(device)
            want = [self.plain(video, flow) for flow in flows]
            for a, b in zip(torch.func.grad(self.attend, (0, 1))(video, flows[0]), want[0]):
                self.assertTrue(torch.allclose(a, b, atol=1e-5))
            for a, b in zip(torch.func.vjp(self.attend, video, flows[0])[1](torch.tensor(1.0).to(device)), want[0]):
                self.assertTrue(torch.allclose(a, b, atol=1e-5))
            dist = torch.rand(1, 1, 1, 2, 2, 3).to(device)
            found = torch.func.jacrev(snls.weights)(dist)
            self.assertTrue(torch.allclose(found, torch.func.jacrev(lambda d: torch.softmax(-10 * d, -1))(dist), atol=1e-5))
            with warnings.catch_warnings():
                if has(2, 5):
                    warnings.simplefilter("error")  # there is a rule, elements are not taken one after the other
                each = torch.func.vmap(torch.func.grad(self.attend, (0, 1)), (None, 0))(video, flows)
            for i, gradients in enumerate(want):
                self.assertTrue(all(torch.allclose(a[i], b, atol=1e-5) for a, b in zip(each, gradients)))
            leaf = flows.clone().requires_grad_(True)
            (found,) = torch.autograd.grad(torch.func.vmap(self.attend, (None, 0))(video, leaf).sum(), leaf)
            self.assertTrue(torch.allclose(found, torch.stack([g[1] for g in want]), atol=1e-5))

    def test_rows_of_a_jacobian(self):
        """jacrev maps a backward pass over tensors that are the same for every row: with B = 1 views that lie on themselves."""
        q, k, flow = torch.rand(1, 3, 3, 2, 2), torch.rand(1, 3, 3, 2, 2), torch.rand(1, 3, 1, 3, 2, 2)
        offset, weight = torch.rand(1, 1, 3, 3, 2, 2, 3), torch.rand(1, 1, 3, 3, 2, 2)
        for function, inputs in ((lambda *a: snls.search(*a, ws=2, k=2)[0], (q, k, flow)), (lambda *a: snls.search_all(*a, ws=2)[0], (q, k)),
                                 (lambda *a: snls.refine(*a, wr=2, k=2)[0], (q, k, offset)), (snls.gather_add, (q, weight, offset)),
                                 (lambda *a: snls.scatter_add(*a)[0], (q, weight, offset)), (lambda f: snls.flow_compose(f, f, 1), (q,))):
            want = torch.autograd.functional.jacobian(function, inputs)
            got = torch.func.jacrev(function, tuple(range(len(inputs))))(*inputs)
            for a, b in zip(got, want):
                self.assertTrue(torch.allclose(a, b, atol=1e-5))
            _, back = torch.func.vjp(function, *inputs)
            rows = torch.eye(want[0][..., 0, 0, 0, 0, 0].numel())[:3].unflatten(1, want[0].shape[:-5])
            for a, b in zip(torch.func.vmap(back)(rows), want):
                self.assertTrue(torch.allclose(a, b.flatten(0, -a.dim())[:3], atol=1e-5))

    def test_vmap(self):
        """Any axis, any operator: as one call for each element."""
        v, weight, offset = torch.rand(2, 3, 6, 5, 4, 3), torch.rand(2, 1, 3, 6, 5, 2), torch.rand(2, 1, 3, 6, 5, 2, 3)
        for function in (lambda x: snls.search(x, x.flip(2), ws=3, k=2, with_index=True), lambda x: snls.search(x, v[..., 0], ws=3),
                         lambda x: snls.search_all(x, x.flip(2), ws=2), lambda x: snls.refine(x, x, offset, wr=2),
                         lambda x: (snls.flow_compose(x[..., :2], x[..., 2:], wt=1),), lambda x: snls.scatter_add(x, weight, offset),
                         lambda x: (snls.gather(x, weight, offset), snls.gather_add(x, weight, offset, ps=3))):
            got, want = torch.func.vmap(function, -1)(v), [function(x) for x in v.unbind(-1)]
            for a, *b in zip(got, *want):
                self.assertTrue(torch.equal(a, torch.stack(b)))
        twice = torch.func.vmap(torch.func.vmap(snls.weights, 1), 2)(torch.rand(1, 2, 3, 4, 2, 2, 2, 3))
        self.assertEqual(twice.shape, (3, 2, 1, 4, 2, 2, 2, 3))

    def test_refused(self):
        dist = torch.rand(1, 1, 1, 2, 2, 3)
        first = lambda d: (snls.weights(d) * torch.arange(3)).sum()
        for call in (torch.func.jacfwd(first), torch.func.hessian(first), lambda d: torch.func.jvp(first, (d,), (d,))):
            with self.assertRaisesRegex(NotImplementedError, "not in forward mode"):
                call(dist)
        for call in (torch.func.jacrev(torch.func.jacrev(first)), lambda d: torch.autograd.grad(torch.func.grad(first)(d.requires_grad_(True)).sum(), d)):
            with self.assertRaisesRegex(NotImplementedError, "first derivatives only"):
                call(dist.clone())


@needs_torch
@unittest.skipIf(has(2, 0), "this PyTorch has torch.func")
class OlderTransforms(unittest.TestCase):
    def test_refused(self):
        """functorch of PyTorch 1.13, by a sentence."""
        try:
            import functorch
        except ImportError:
            self.skipTest("there is no functorch")
        first = lambda d: (snls.weights(d) * torch.arange(3)).sum()
        for call in (functorch.grad(first), functorch.jacrev(first), lambda d: functorch.vjp(first, d)):
            with self.assertRaisesRegex(NotImplementedError, "functorch need PyTorch 2"):
                call(torch.rand(1, 1, 1, 2, 2, 3))


if __name__ == "__main__":
    unittest.main()
