"""test_torch.py: gradients, types, modes and errors of torch.ops.snls; what PyTorch 1.13 and 2.x both have."""
import contextlib
import threading
import unittest

from common import DEVICES, inside, needs_cuda, needs_torch, run_python, snls, torch


def rand(*shape, device="cpu", dtype=None, grad=False):
    return torch.rand(*shape, dtype=dtype or torch.float32).to(device).requires_grad_(grad)


@needs_torch
class Gradients(unittest.TestCase):
    """f64 runs on the reference backend, so that finite differences are exact enough."""

    def setUp(self):
        torch.manual_seed(5)

    def check(self, function, *inputs):
        self.assertTrue(torch.autograd.gradcheck(function, inputs, eps=1e-6, atol=1e-6))

    def leaf(self, *shape, scale=1.0):
        return (scale * torch.rand(*shape, dtype=torch.float64)).requires_grad_(True)

    def test_search(self):
        for options in (dict(ws=3, wt=1, k=3), dict(ws=2, wt=1, ps=3, k=2, heads=2, stride1=0.5, dist="prod", layout="BTCHW")):
            first = "layout" in options
            q, k = (self.leaf(1, 3, *((2, 4, 3) if first else (4, 3, 2))) for _ in range(2))
            flow = self.leaf(1, 3, 2, *((2, 4, 3) if first else (4, 3, 2)), scale=0.7)
            self.check(lambda q, k, f: snls.search(q, k, f, **options), q, k, flow)

    def test_search_all(self):
        self.check(lambda q, k: snls.search_all(q, k, ws=2)[0], self.leaf(1, 1, 3, 4, 2), self.leaf(1, 1, 3, 4, 2))

    def test_refine(self):
        centre = self.leaf(1, 2, 2, 4, 3, 2, 3, scale=0.4)
        self.check(lambda q, k, c: snls.refine(q, k, c, wr=2, k=3, heads=2), self.leaf(1, 2, 4, 3, 2), self.leaf(1, 2, 4, 3, 2),
                   centre)

    def test_flow_compose(self):
        self.check(lambda a, b: snls.flow_compose(a, b, 1), self.leaf(1, 3, 3, 4, 2), self.leaf(1, 3, 3, 4, 2))

    def test_weights(self):
        self.check(snls.weights, self.leaf(1, 1, 2, 2, 2, 4))

    def test_aggregation(self):
        value, weight, offset = self.leaf(1, 2, 4, 3, 2), self.leaf(1, 2, 2, 4, 3, 2), self.leaf(1, 2, 2, 4, 3, 2, 3, scale=0.4)
        for name in ("gather", "gather_add", "scatter_add"):
            self.check(lambda *a: getattr(snls, name)(*a, ps=3), value, weight, offset)

    def test_end_to_end(self):
        """From the loss through aggregation, weights and search to frame-to-frame flow."""
        def attend(v, f, b):
            flow = snls.flow_compose(f, b, 1)
            dist, offset = snls.search(v, v * 0.9, flow, ws=2, wt=1, k=2)
            return snls.gather_add(v, snls.weights(dist, 2.0), offset)
        self.check(attend, self.leaf(1, 3, 3, 4, 2), self.leaf(1, 3, 3, 4, 2), self.leaf(1, 3, 3, 4, 2))

    def test_gradients_are_added_up(self):
        q = rand(1, 1, 4, 4, 2, grad=True)
        snls.search(q, q, ws=3, k=2)[0].sum().backward()
        once = q.grad.clone()
        snls.search(q, q, ws=3, k=2)[0].sum().backward()
        self.assertTrue(torch.allclose(q.grad, 2 * once))

    def test_only_what_is_asked_for(self):
        for device in DEVICES:
            q, k = rand(1, 1, 4, 4, 2, device=device), rand(1, 1, 4, 4, 2, device=device, grad=True)
            k.retain_grad()
            dist, offset = snls.search(q, k, ws=3, k=2)
            self.assertTrue(dist.requires_grad)
            self.assertFalse(offset.requires_grad)  # no flow: nothing to follow
            still = torch.zeros(1, 1, 1, 4, 4, 2, device=device)
            self.assertFalse(snls.search(q, k, still, ws=3)[1].requires_grad)
            self.assertTrue(snls.search(q, k, still.requires_grad_(True), ws=3)[1].requires_grad)
            dist.sum().backward()
            self.assertIsNone(q.grad)
            self.assertEqual(k.grad.shape, k.shape)

    def test_names_of_nodes(self):
        """A graph says which operator made it, by either way."""
        v = rand(1, 1, 4, 4, 2, grad=True)
        dist, offset = snls.search(v, v.detach(), ws=3)
        for tensor, name in ((dist, "search"), (snls.weights(dist), "weights"), (snls.gather_add(v, snls.weights(dist), offset), "gather_add"),
                             (torch.ops.snls.search(v, v)[0], "search")):
            self.assertEqual(tensor.grad_fn.name(), "Snls_%sBackward" % name)

    def test_no_second_derivative(self):
        q = rand(1, 1, 4, 4, 2, grad=True)
        (g,) = torch.autograd.grad(snls.search(q, q.detach(), ws=3)[0].sum(), q, create_graph=True)
        with self.assertRaisesRegex(NotImplementedError, "first derivatives only"):
            (g * q).sum().backward()

    def test_no_forward_mode(self):
        v = rand(1, 1, 4, 4, 2)
        with torch.autograd.forward_ad.dual_level():
            snls.search(v, v)
            with self.assertRaisesRegex(NotImplementedError, "not in forward mode"):
                snls.search(torch.autograd.forward_ad.make_dual(v, v), v)

    def test_nearest_has_no_flow_gradient(self):
        q, flow = rand(1, 1, 4, 4, 2, grad=True), rand(1, 1, 1, 4, 4, 2, grad=True)
        dist, _ = snls.search(q, q, flow, ws=3, interp="nearest")
        with self.assertRaisesRegex(NotImplementedError, "no gradient to flow"):
            dist.sum().backward()


@needs_torch
class Types(unittest.TestCase):
    def test_devices(self):
        with self.assertRaises((RuntimeError, TypeError)):
            snls.search(rand(1, 1, 4, 4, 1).to_sparse(), rand(1, 1, 4, 4, 1))
        shapes = torch.ops.snls.search(rand(1, 3, 4, 4, 2, device="meta"), rand(1, 3, 4, 4, 2, device="meta"), None, 3, 1)
        self.assertEqual(([tuple(t.shape) for t in shapes], shapes[0].device.type), ([(1, 1, 3, 4, 4, 1), (1, 1, 3, 4, 4, 1, 3),
                                                                                      (1, 1, 3, 4, 4, 1)], "meta"))

    def refused_alike(self, function, tensors):
        """With data and without: the same error, the same sentence."""
        with self.assertRaises((ValueError, TypeError)) as real:
            function(*tensors)
        with self.assertRaises(type(real.exception)) as meta:
            function(*[t.to("meta") for t in tensors])
        self.assertEqual(str(meta.exception), str(real.exception))

    def test_what_is_refused_without_data(self):
        """Meta and fake tensors hear the same sentences as others."""
        v, flow, weight = rand(1, 3, 4, 5, 2), rand(1, 3, 2, 4, 5, 2), rand(1, 1, 3, 4, 5, 2)
        offset, first = rand(1, 1, 3, 4, 5, 2, 3), v.permute(0, 1, 4, 2, 3)
        cases = [(lambda v, k: snls.search(v, k), (v, v[:, :, :3])), (lambda v: snls.search(v, v, wt=9), (v,)),
                 (lambda v: snls.search(v, v, dist="foo"), (v,)), (lambda v: snls.search(v, v), (v[0],)),
                 (lambda v: snls.search(v, v, ws=0), (v,)), (lambda v: snls.search(v, v, heads=3), (v,)),
                 (lambda v: snls.search(v, v), (v.long(),)), (lambda v, k: snls.search(v, k), (v, v.half())),
                 (lambda v, f: snls.search(v, v, f, wt=1), (v, flow.half())), (lambda v, f: snls.search_all(v, v, f), (v, flow)),
                 (lambda v, f: snls.search(v, v, f, wt=1), (v, flow[..., :1])),
                 (lambda v, f: snls.search(v, v, f, wt=1, heads=2), (v, flow[:, None])),
                 (lambda v, f: snls.search(v, v, f, wt=1, layout="BTCHW"), (first, flow)),
                 (lambda v, k: snls.search(v, k, layout="BTCHW"), (first, first[..., 1:])),
                 (lambda v, c: snls.refine(v, v, c), (v, offset[..., :2])), (lambda v: snls.weights(v), (v,)),
                 (lambda f, b: snls.flow_compose(f, b, 1), (v, v[:, :2])), (lambda *a: snls.gather(*a), (v, weight, offset[..., :1, :])),
                 (lambda *a: snls.gather_add(*a, stride0=2), (v, weight, offset)), (lambda *a: snls.scatter_add(*a, heads=2), (v, weight, offset))]
        for function, tensors in cases:
            self.refused_alike(function, tensors)
        for flow in (flow, flow[:, None], flow.repeat(1, 1, 2, 1, 1, 1)[:, :, :3]):
            shapes = [[o.shape for o in snls.search(v.to(d), v.to(d), flow.to(d), wt=1)] for d in ("cpu", "meta")]
            self.assertEqual(*shapes)

    def test_what_backward_refuses_without_data(self):
        v, weight, frames = rand(1, 3, 4, 5, 2), rand(1, 1, 3, 4, 5, 2), rand(1, 3, 4, 5, 2)
        offset, index, ops = rand(1, 1, 3, 4, 5, 2, 3), torch.zeros(1, 1, 3, 4, 5, 2, dtype=torch.int32), torch.ops.snls
        search = lambda grad, grad_offset, q, k, index, *params: ops.search_backward(grad, grad_offset, q, k, None, index, 3, *(params or (3, 0, 1, 2)))
        cases = [(search, (weight[..., :1], offset, v, v, index)), (search, (weight[0], offset, v, v, index)), (search, (weight.half(), offset, v, v, index)),
                 (search, (weight.double(), offset, v, v, index)), (search, (weight, offset[..., :2], v, v, index)),
                 (search, (weight, offset, v, v, index[..., :1])), (search, (weight, offset, v, v, weight)), (search, (weight, offset, v, v[:, :2], index)),
                 (lambda *t: search(*t, 0, 0, 1, 2), (weight, offset, v, v, index)), (lambda *t: search(*t, 3, 0, 1, 3), (weight, offset, v, v, index)),
                 (lambda *t: ops.weights_backward(*t, 1), (weight, weight, weight[..., :1])), (lambda *t: ops.weights_backward(*t, 1), (weight[:, :, :2], weight, weight)),
                 (lambda *t: ops.gather_add_backward(*t, 7), (v[:, :, :2], v, weight, offset)), (lambda *t: ops.gather_add_backward(*t, 7), (v.double(), v, weight, offset)),
                 (lambda *t: ops.scatter_add_backward(*t, 7), (v, v[..., :1], v, weight[..., :1, :], offset)),
                 (lambda *t: ops.flow_compose_backward(*t, 3, 1), (rand(1, 3, 2, 4, 4, 2), frames, frames))]
        for function, tensors in cases:
            self.refused_alike(function, tensors)
        with self.assertRaisesRegex(RuntimeError, "one device, but query is on cpu and gradient of dist on meta"):
            search(weight.to("meta"), offset, v, v, index)
        with self.assertRaisesRegex(TypeError, "search: gradient of dist is int64"):
            search(weight.long(), offset, v, v, index)
        dist = snls.search(v.clone().requires_grad_(True), v)[0]
        with self.assertRaisesRegex(TypeError, "search: gradient of dist is torch.sparse_coo"):
            dist.backward(torch.ones_like(dist).to_sparse())
        for d in ("cpu", "meta"):  # what may be: a gradient of another type than a video of halves, and none
            found = ops.gather_add_backward(v.to(d), v.half().to(d), weight.to(d), offset.to(d), 7)
            self.assertEqual([tuple(t.shape) for t in found], [v.shape, weight.shape, offset.shape])
            self.assertEqual(search(None, offset.to(d), v.to(d), v.to(d), index.to(d))[0].shape, v.shape)
            self.assertEqual(search(weight.to(d), None, v.double().to(d), v.double().to(d), index.to(d))[0].shape, v.shape)

    def test_a_tensor_without_data(self):
        """Among others: not shapes filled with what was in memory."""
        v = rand(1, 1, 4, 4, 1)
        for query, key in ((v, v.to("meta")), (v.to("meta"), v)):
            with self.assertRaisesRegex(RuntimeError, "one device, but query is on"):
                snls.search(query, key)

    @needs_cuda
    def test_two_devices(self):
        with self.assertRaisesRegex(RuntimeError, "one device, but query is on cuda:0 and key on cpu"):
            snls.search(rand(1, 1, 4, 4, 1, device="cuda"), rand(1, 1, 4, 4, 1))
        with self.assertRaisesRegex(RuntimeError, "works in CPU memory"):
            snls.flow(rand(40, 40, 3, device="cuda"), rand(40, 40, 3, device="cuda"))

    def test_wrong_types(self):
        v = rand(1, 1, 4, 4, 2)
        for query, key, sentence in ((v, v.half(), "query is float32 and key is float16"), (v.int(), v.int(), "query is int32, must be float32"),
                                     (v.long(), v.long(), "query is int64, must be float32, float16")):
            for device in DEVICES:
                with self.assertRaisesRegex(TypeError, sentence):
                    snls.search(query.to(device), key.to(device))
        with self.assertRaisesRegex(TypeError, "flow is float16"):
            snls.search(v, v, torch.zeros(1, 1, 1, 4, 4, 2).half())
        with self.assertRaisesRegex(ValueError, r"k is tensor\(2\), must be a whole number"):
            snls.search(v, v, k=torch.tensor(2))
        with self.assertRaisesRegex(TypeError, "mixed with others in one call, and a ndarray"):
            snls.search(v, v.numpy())
        with self.assertRaisesRegex(ValueError, r"\(1,1,1,4,3,2\), must be .* in the order of layout BTHWC"):
            snls.search(v, v, torch.zeros(1, 1, 1, 2, 4, 3), layout="BTCHW")
        with self.assertRaisesRegex(TypeError, "mixed"):
            snls.search(v.numpy(), v)

    def test_gradients_of_nothing(self):
        """Bits of a mask that name no tensor are not looked at."""
        v, index = rand(1, 1, 4, 4, 2), torch.zeros(1, 1, 1, 4, 4, 1, dtype=torch.int32)
        found = torch.ops.snls.search_backward(rand(1, 1, 1, 4, 4, 1), None, v, v, None, index, 255, 3)
        self.assertEqual([tuple(t.shape) for t in found], [tuple(v.shape), tuple(v.shape), (0,)])

    def test_memory(self):
        """What PyTorch cannot allocate it says itself."""
        huge = torch.zeros(1, 1, 1, 1, 1).expand(1, 1, 2**20, 2**20, 1)
        with self.assertRaises(RuntimeError):
            snls.search(huge, huge, k=1000)

    def test_errors_pass_through_the_dispatcher(self):
        v = rand(1, 1, 4, 4, 2, grad=True)
        for device in DEVICES:
            for tensor in (v.to(device), v.detach().to(device)):
                with self.assertRaisesRegex(ValueError, "search: ws is 0"):
                    torch.ops.snls.search(tensor, tensor, None, 0)
                with self.assertRaisesRegex(ValueError, "must divide"):
                    snls.search(tensor, tensor, heads=3)

    def test_empty(self):
        for device in DEVICES:
            v = torch.zeros(0, 3, 4, 4, 2, device=device, requires_grad=True)
            dist, offset = snls.search(v, v, wt=1, ws=3, k=2)
            out = snls.gather_add(v, snls.weights(dist), offset)
            self.assertEqual(out.shape, v.shape)
            out.sum().backward()
            self.assertEqual(v.grad.shape, v.shape)
            v = rand(1, 1, 4, 4, 2, device=device)  # a flow without slots is no flow
            none = torch.zeros(1, 1, 0, 4, 4, 2, device=device)
            self.assertTrue(torch.equal(snls.search(v, v, none, ws=3)[0], snls.search(v, v, ws=3)[0]))

    def test_dlpack(self):
        v = rand(1, 1, 4, 4, 2)
        array = snls.Array(snls._plan.View((3,), (1,), 0))
        self.assertEqual(torch.from_dlpack(array).shape, (3,))
        lent = type("Lent", (), {"__dlpack__": lambda self, **k: v.__dlpack__(), "__dlpack_device__": lambda self: (1, 0)})()
        self.assertTrue((snls.search(lent, lent, ws=3)[0] == snls.search(v, v, ws=3)[0].numpy()).all())

    @needs_cuda
    def test_dlpack_on_a_gpu(self):
        v = rand(1, 3, 8, 8, 4, device="cuda")
        lent = type("Lent", (), {"__dlpack__": lambda self, stream=None: v.__dlpack__(stream=stream),
                                 "__dlpack_device__": lambda self: (2, 0)})()
        got = snls.search(lent, lent, ws=3, wt=1, k=2)
        self.assertEqual((type(got[0]), got[0].device), (snls.Array, "cuda:0"))
        self.assertTrue(torch.equal(torch.from_dlpack(got[0]), snls.search(v, v, ws=3, wt=1, k=2)[0]))


@needs_torch
class Modes(unittest.TestCase):
    def test_autocast(self):
        for device in DEVICES:
            q, k = rand(1, 3, 8, 8, 4, device=device, grad=True), rand(1, 3, 8, 8, 4, device=device).bfloat16()
            flow = torch.zeros(1, 3, 2, 8, 8, 2, device=device).bfloat16()
            with torch.autocast(device, dtype=torch.bfloat16):
                dist, offset = snls.search(q, k, flow, ws=3, wt=1, k=3)
                out = snls.gather_add(q, snls.weights(dist), offset)
                plain = snls.gather_add(q.detach(), snls.weights(dist.detach()), offset.detach())
            self.assertEqual((dist.dtype, out.dtype, plain.dtype), (torch.float32, torch.bfloat16, torch.bfloat16))
            want = snls.search(q.bfloat16(), k, flow.float(), ws=3, wt=1, k=3)[0]
            self.assertTrue(torch.equal(dist, want))
            out.float().sum().backward()
            self.assertEqual(q.grad.dtype if q.is_leaf else torch.float32, torch.float32)

    def test_import_inside_a_mode(self):
        code = """
import torch
with torch.autocast("cpu", dtype=torch.bfloat16):
    import snls
v = torch.rand(1, 1, 4, 4, 2)
with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
    dist, offset = snls.search(v, v, ws=3)
    print(snls.gather_add(v, snls.weights(dist), offset).dtype)
"""
        self.assertIn("torch.bfloat16", run_python(code))

    def test_deterministic(self):
        for device in DEVICES:
            q, k = rand(1, 3, 16, 16, 8, device=device), rand(1, 3, 16, 16, 8, device=device)
            flow = 3 * rand(1, 3, 2, 16, 16, 2, device=device)

            def gradient():
                leaves = [x.detach().clone().requires_grad_(True) for x in (q, k, flow)]
                dist, offset = snls.search(*leaves, ws=5, wt=1, k=8)
                snls.gather_add(leaves[1], snls.weights(dist, 1.0), offset, ps=3).square().sum().backward()
                return [x.grad for x in leaves]
            try:
                torch.use_deterministic_algorithms(True)
                first = gradient()
                for _ in range(3):
                    self.assertTrue(all(torch.equal(a, b) for a, b in zip(first, gradient())))
            finally:
                torch.use_deterministic_algorithms(False)
            self.assertTrue(all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(first, gradient())))

    @needs_cuda
    def test_streams(self):
        v = rand(1, 3, 64, 64, 16, device="cuda")
        want = snls.search(v, v, ws=5, wt=1, k=4)[0]
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                late = v * 0
                torch.cuda._sleep(2_000_000)  # the stream is busy; a call on another one would read zeros
                late += v
                got = snls.search(late, late, ws=5, wt=1, k=4)[0] + 0
        stream.synchronize()
        self.assertTrue(torch.equal(got, want))

    @needs_cuda
    def test_a_graph_keeps_its_scratch(self):
        q = rand(1, 3, 32, 32, 32, device="cuda").bfloat16()  # copied to float32 in scratch
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            want = snls.search(q, q.flip(1), ws=5, k=3)[0].clone()
            with torch.cuda.graph(graph, stream=stream):
                got = snls.search(q, q.flip(1), ws=5, k=3)[0]
            large = rand(1, 3, 256, 256, 32, device="cuda").bfloat16()
            snls.search(large, large, ws=5, k=3)
            snls.release()
            others = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(32)]
            got.zero_()
            graph.replay()
        stream.synchronize()
        self.assertTrue(torch.equal(got, want))
        self.assertTrue(all(bool((t == 7).all()) for t in others))

    def test_threads(self):
        wrong = []

        def work(seed):
            for device in DEVICES:
                g = torch.Generator().manual_seed(seed)
                v = torch.rand(1, 3, 16, 16, 4, generator=g).to(device).requires_grad_(True)
                dist, offset = snls.search(v, v, ws=3, wt=1, k=4)
                snls.gather_add(v, snls.weights(dist), offset).sum().backward()
                if not torch.isfinite(v.grad).all():
                    wrong.append(device)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_a_call_inside_the_same_call(self):
        """On one thread, as a signal handler or a finaliser makes it; both ways, forward and backward."""
        for device in DEVICES:
            a, b = (rand(1, 1, 6, 6, 4, device=device, grad=True) for _ in range(2))
            once = torch.rand(1, 1, 1, 6, 6, 2).to(device)

            @torch.enable_grad()  # which is off in a backward pass
            def both(search, v):
                dist = search(v, v.detach().flip(2), None, ws=3, k=2)[0]
                return (dist.detach(), *torch.autograd.grad(dist, v, once))

            def by_the_ops(v):
                query, key = v.detach(), v.detach().flip(2)
                dist, _, index = torch.ops.snls.search(query, key, None, ws=3, k=2)
                return dist, torch.ops.snls.search_backward(once, None, query, key, None, index, 1, ws=3, k=2)[0]
            for search, other in ((snls.search, lambda: both(snls.search, b)), (torch.ops.snls.search, lambda: by_the_ops(b))):
                want, want_other, found = both(search, a), other(), []
                for place, name in ((snls._torch, "context_of"), (snls._short, "context_of"), (snls._torch, "run_backward"),
                                    (snls._short, "run_backward"), (snls._plan.Plan, "run"), (snls._plan.BackwardPlan, "run")):
                    with inside(place, name, lambda: found.append(other())):
                        got = both(search, a)
                    for x, y in [(got, want)] + [(f, want_other) for f in found]:
                        self.assertTrue(all(torch.equal(m, n) for m, n in zip(x, y)), (name, search))
                    found.clear()

    def test_workers_of_a_loader(self):
        code = """
import torch, snls
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i):
        v = torch.rand(1, 3, 32, 32, 8, generator=torch.Generator().manual_seed(i))
        return snls.search(v, v, ws=5, wt=1, ps=3, k=4)[0]
if __name__ == "__main__":
    here = [Data()[i] for i in range(4)]  # the parent has used its threads before it forks
    there = list(torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=2, multiprocessing_context="fork"))
    assert all(torch.equal(a, b) for a, b in zip(here, there))
    print("well")
"""
        self.assertIn("well", run_python(code))

    def test_the_short_way_is_the_long_way(self):
        """Calls that skip the dispatcher give what it gives; subclasses, modes and profilers still see every call."""
        v = rand(1, 3, 8, 8, 4)
        short, long = snls.search(v, v, wt=1), torch.ops.snls.search(v, v, wt=1)[:2]
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(short, long)))
        with torch.autograd.profiler.profile() as profile:
            snls.search(v, v, wt=1)
        self.assertIn("snls::search", [event.name for event in profile.function_events])
        seen = []

        class Watched(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                seen.append(str(function))
                return super().__torch_function__(function, types, args, kwargs or {})
        snls.search(v.as_subclass(Watched), v, wt=1)
        self.assertTrue(any("snls" in name for name in seen))

    def searches(self, device):
        """(operator, arguments, options), each with an index."""
        q, k, flow = rand(1, 3, 8, 8, 4, device=device), rand(1, 3, 8, 8, 4, device=device), 2 * rand(1, 3, 2, 8, 8, 2, device=device)
        offset = snls.search(q, k, flow, wt=1, ws=3, k=3)[1]
        return (("search", (q, k, flow), dict(wt=1, ws=3, k=5)), ("search_all", (q, k), dict(ws=3)),
                ("refine", (q, k, offset), dict(wr=2, k=4)), ("search", (q[:0], k[:0]), dict(ws=3, k=2)))

    def test_no_index_that_nobody_reads(self):
        """Numbers of candidates are made where they are asked for or a gradient needs them; all else is the same bits."""
        made, real = [], snls._short.run_forward

        def watch(*args):
            outputs = real(*args)
            made.append(len(outputs))
            return outputs
        snls._short.run_forward = watch
        try:
            for device in DEVICES:
                for name, inputs, options in self.searches(device):
                    function = getattr(snls.functional, name)
                    made.clear()
                    want = function(*inputs, **options, with_index=True)
                    for got in (function(*inputs, **options), function(*inputs, **options, with_index=True)):
                        self.assertTrue(all(torch.equal(a, b) for a, b in zip(got, want)), name)
                    leaves = [t.clone().requires_grad_(True) for t in inputs]
                    got = function(*leaves, **options)
                    with torch.no_grad():
                        self.assertEqual(len(function(*leaves, **options)), 2)
                    self.assertEqual((len(want), len(got), made), (3, 2, [3, 2, 3, 3, 2]))
                    got[0].sum().backward()  # reads the index
                    self.assertTrue(torch.equal(got[0], want[0]) and leaves[0].grad is not None)
        finally:
            snls._short.run_forward = real

    def test_an_op_without_index(self):
        for device in DEVICES:
            for name, inputs, options in self.searches(device):
                op = getattr(torch.ops.snls, name)
                for grad in (False, True):
                    leaves = [t.clone().requires_grad_(grad) for t in inputs]
                    want, got = op(*leaves, **options), op(*leaves, **options, with_index=False)
                    self.assertTrue(all(torch.equal(a, b) for a, b in zip(got[:2], want)), name)
                    self.assertEqual((tuple(got[2].shape), got[2].dtype, got[2].device), ((0,), torch.int32, want[2].device))
                    if grad:
                        self.assertTrue(torch.equal(torch.autograd.grad(got[0].sum(), leaves[0])[0],
                                                    torch.autograd.grad(want[0].sum(), leaves[0])[0]), name)
                shapes = op(*[t.to("meta") for t in inputs], **options, with_index=False)
                self.assertEqual([t.shape for t in shapes], [t.shape for t in got])
        v = rand(1, 1, 8, 8, 4)
        with torch.autocast("cpu", torch.bfloat16), torch.no_grad():  # goes by the op
            dist, offset, index = snls.search(v, v, ws=3, with_index=True)
            for a, b in zip(snls.search(v, v, ws=3), (dist, offset)):
                self.assertTrue(torch.equal(a, b))
            self.assertEqual(index.shape, dist.shape)

    def test_the_short_way_is_taken_back(self):
        """An eager backward pass does not go through the dispatcher, and gives the same gradients as one that does; saved
        tensors that come back with other strides are taken as they are."""
        class Seen(Exception):
            pass

        def refuse(*args):
            raise Seen
        v, flow = rand(1, 3, 8, 8, 4), 2 * rand(1, 3, 2, 8, 8, 2)
        turned = lambda t: t.transpose(0, -1).contiguous().transpose(0, -1)

        def gradients(search, hooks, watch=contextlib.nullcontext):
            q, f = v.clone().requires_grad_(True), flow.clone().requires_grad_(True)
            with torch.autograd.graph.saved_tensors_hooks(*hooks):
                dist, offset = search(q, q, f, wt=1, ws=3)[:2]
            weights = torch.linspace(0, 1, offset.numel()).to(offset.device).view_as(offset)
            with watch():
                return torch.autograd.grad(dist.sum() + (offset * weights).sum(), (q, f))
        same = (lambda t: t, lambda t: t)
        long = gradients(torch.ops.snls.search, same)
        real, snls._short.long_backward = snls._short.long_backward, refuse
        try:
            for hooks in (same, (turned, lambda t: t)):
                for a, b in zip(gradients(snls.search, hooks), long):
                    self.assertTrue(torch.allclose(a, b, rtol=1e-5, atol=1e-6))
            with self.assertRaises(Seen):
                gradients(snls.search, same, torch.autograd.profiler.profile)
        finally:
            snls._short.long_backward = real

    def test_what_is_saved_is_read_once(self):
        """By either way: a checkpoint (use_reentrant=False) has each saved tensor for one reading, autocast inside it or not."""
        from torch.utils.checkpoint import checkpoint
        v, read = rand(1, 3, 8, 8, 4), []

        def unpack(packed):
            read.append(packed[0])
            return packed[1]
        for name, inputs, options in (*self.searches("cpu"), ("weights", (rand(1, 1, 1, 4, 4, 3),), {}),
                                      ("gather_add", (v, rand(1, 1, 3, 8, 8, 2), rand(1, 1, 3, 8, 8, 2, 3)), {})):
            for function in (getattr(snls, name), getattr(torch.ops.snls, name)):
                leaves, number = [t.clone().requires_grad_(True) for t in inputs], iter(range(99))
                with torch.autograd.graph.saved_tensors_hooks(lambda t: (next(number), t.detach()), unpack):
                    out = function(*leaves, **options)
                read.clear()
                (out if isinstance(out, torch.Tensor) else out[0]).sum().backward()
                self.assertEqual(sorted(read), sorted(set(read)), name)
                self.assertTrue(read)
        clip = v.clone().requires_grad_(True)
        with torch.autocast("cpu", torch.bfloat16):
            out = checkpoint(lambda t: snls.search(t, t, ws=3, k=2)[0], clip, use_reentrant=False)
        out.sum().backward()
        self.assertEqual(clip.grad.shape, clip.shape)


if __name__ == "__main__":
    unittest.main()
