"""test_compile.py: torch.library.opcheck and torch.compile, where PyTorch has them (2.4 and later)."""
import unittest

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


if __name__ == "__main__":
    unittest.main()
