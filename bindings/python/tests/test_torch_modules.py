"""test_torch_modules.py: the modules, under the names of stnls."""
import copy
import pickle
import unittest
import warnings
from fractions import Fraction

import numpy as np

from common import DEVICES, has, needs_torch, snls, torch
from test_torch import rand


@needs_torch
class Modules(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)

    def test_names_of_stnls(self):
        from snls.search import NonLocalSearch, PairedSearch, RefineSearch
        self.assertIs(snls.search.NonLocalSearch, NonLocalSearch)
        self.assertIs(snls.agg.NonLocalGather, snls.NonLocalGather)
        for device in DEVICES:
            v, f = rand(1, 3, 4, 9, 8, device=device), rand(1, 3, 2, 9, 8, device=device)
            flows = snls.nn.search_flow(f, -f, 1, 1)
            search = NonLocalSearch(3, 1, 3, 5, nheads=2, stride0=1, stride1=0.5, self_action="anchor")
            dists, offsets = search(v, v, flows)
            self.assertEqual((dists.shape, offsets.shape), ((1, 2, 3, 9, 8, 5), (1, 2, 3, 9, 8, 5, 3)))
            self.assertTrue((offsets[..., 0, :] == 0).all())
            for other in (search(v, v, flow=flows), search(v, v, f, -f), search(v, v, fflow=f, bflow=-f), search(v, v, f, bflow=-f)):
                self.assertTrue(torch.equal(other[0], dists))
            for wrong in (dict(fflow=f), dict(bflow=f), dict(flow=flows, fflow=f, bflow=f)):
                with self.assertRaisesRegex(TypeError, "give flow, or fflow and bflow"):
                    search(v, v, **wrong)
            again, _ = RefineSearch(3, 1, 1, 5, -1, 3, nheads=2, stride0=1)(v, v, offsets)
            self.assertTrue(torch.allclose(again, dists.sort(-1).values, atol=1e-4))
            self.assertEqual(RefineSearch(3, 1, 1, 2, 0.5, 3, 2, stride0=1)(v, v, offsets)[0].shape[-1], 2)
            weights = snls.SoftmaxWeights()(dists)
            self.assertTrue(torch.allclose(weights, torch.softmax(-10 * dists, -1), atol=1e-6))
            self.assertEqual(snls.NonLocalGather(3, 1)(v, weights, offsets).shape, (1, 2, 5, 3, 2, 9, 8))
            for module in (snls.NonLocalGatherAdd(3, 1, 1), snls.WeightedPatchSum(3, 1)):
                self.assertEqual(module(v, weights, offsets).shape, v.shape)
            out, total = snls.NonLocalScatterAdd(3, 1, 1)(v, weights, offsets)
            self.assertEqual((out.shape, total.shape), (v.shape, (1, 3, 2, 9, 8)))
            paired = PairedSearch(3, 3, 2, nheads=2, stride0=1)
            dists, offsets = paired(v[:, 0], v[:, 1], f[:, 0])
            self.assertEqual((dists.shape, offsets.shape), ((1, 2, 1, 9, 8, 2), (1, 2, 1, 9, 8, 2, 3)))
            self.assertTrue(torch.equal(paired(v, v.flip(1), f)[0].shape and paired(v[:, :1], v[:, 1:2], f[:, :1])[0], dists))
            self.assertEqual(NonLocalSearch(3, 1, 1, -1, stride0=1)(v, v)[0].shape[-1], 27)

    def test_all_candidates(self):
        v = rand(1, 3, 4, 9, 8)
        want = snls.search_all(v, v.flip(1), ws=3, stride0=2, layout="BTCHW")
        for got in (snls.PairedSearch(3, 1, -1, stride0=2)(v, v.flip(1)), snls.NonLocalSearch(3, 0, 1, -1, stride0=2)(v, v.flip(1))):
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(got, want)))
        dist, _ = snls.RefineSearch(3, 0, 2, -1, -1, 1, stride0=2)(v, v, want[1])
        self.assertEqual(dist.shape[-1], 9 * 2 * 2)
        self.assertTrue((dist[..., 1:] >= dist[..., :-1]).all())
        for module in (snls.NonLocalSearch, snls.PairedSearch):
            places = (3, 0, 1) if module is snls.NonLocalSearch else (3, 1)
            with self.assertRaisesRegex(ValueError, "must not anchor"):
                module(*places, -1, self_action="anchor")

    def test_order_of_arguments(self):
        """PairedSearch(..., k_agg, off_Hq, off_Wq, itype), as stnls."""
        usual = (3, 1, 2, 1, "l2", 4, 1, 1, 1, True, True, None, False, False, -1)
        self.assertEqual(snls.PairedSearch(*usual, 0, 0, "int").options["interp"], "nearest")
        self.assertEqual(repr(snls.PairedSearch(3, 1, 2, off_Hq=0, off_Wq=0)), repr(snls.PairedSearch(3, 1, 2)))
        with self.assertRaisesRegex(ValueError, "PairedSearch: off_Wq is 1, only 0 is supported"):
            snls.PairedSearch(3, 1, 2, off_Wq=1)

    def test_what_is_not_there(self):
        for name, other in (("NonLocalScatter", "NonLocalScatterAdd"), ("PooledPatchSum", "WeightedPatchSum")):
            with self.assertRaisesRegex(AttributeError, "no %s; there is %s" % (name, other)):
                getattr(snls.agg, name)

    def test_channels_last(self):
        v = rand(1, 3, 9, 8, 4)
        last = snls.NonLocalSearch(3, 1, 3, 5, stride0=1, layout="BTHWC")
        first = snls.NonLocalSearch(3, 1, 3, 5, stride0=1)
        self.assertTrue(torch.equal(last(v, v)[0], first(v.permute(0, 1, 4, 2, 3), v.permute(0, 1, 4, 2, 3))[0]))

    def test_what_the_arguments_mean(self):
        v = rand(1, 3, 4, 9, 8)
        built = lambda **options: snls.NonLocalSearch(3, 1, 3, 9, stride0=1, **options)(v, v)
        plain = lambda **options: snls.search(v, v, ws=3, wt=1, ps=3, k=9, layout="BTCHW", **options)
        same = lambda a, b: torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])
        for ours, theirs in (({}, {}), (dict(self_action="anchor_each"), dict(anchor="each")),
                             (dict(self_action="remove"), dict(exclude="self")), (dict(dist_type="prod"), dict(dist="prod")),
                             (dict(self_action="remove_ref_frame"), dict(exclude="frame")), (dict(full_ws=False), dict(window="cut")),
                             (dict(reflect_bounds=False), dict(border="drop")), (dict(topk_mode="each"), dict(topk="each")),
                             (dict(dilation=2), dict(dilation=2)), (dict(stride1=0.5), dict(stride1=0.5))):
            self.assertTrue(same(built(**ours), plain(**theirs)), ours)
            self.assertEqual(same(built(**ours), built()), not ours, ours)
        self.assertFalse((built(self_action="remove")[1] == 0).all(-1).any())
        offset = built()[1] + 0.3
        weight = torch.rand(offset.shape[:-1])
        for name, function in (("NonLocalGather", snls.gather), ("WeightedPatchSum", snls.gather_add)):
            for ours, theirs in ((dict(), dict()), (dict(itype="int"), dict(interp="nearest")),
                                 (dict(reflect_bounds=False), dict(border="drop")), (dict(dilation=2), dict(dilation=2))):
                got = getattr(snls, name)(3, 1, **ours)(v, weight, offset)
                self.assertTrue(torch.equal(got, function(v, weight, offset, ps=3, layout="BTCHW", **theirs)))
                self.assertEqual(torch.equal(got, getattr(snls, name)(3, 1)(v, weight, offset)), not ours)

    def test_a_warning_names_the_callers_line(self):
        v = rand(1, 1, 4, 8, 8)
        dists, offsets = snls.NonLocalSearch(3, 0, 1, 2, stride0=4)(v, v)
        weights = snls.weights(dists)
        net = torch.nn.Module()
        net.sum = snls.WeightedPatchSum(1, 4)
        for call in (lambda: net.sum(v, weights, offsets), lambda: snls.gather_add(v, weights, offsets, stride0=4, layout="BTCHW"),
                     lambda: torch.ops.snls.gather_add(v, weights, offsets, 1, 4, channels_first=True),
                     lambda: snls.gather_add(v.clone().requires_grad_(True), weights, offsets, stride0=4, layout="BTCHW")):
            with self.assertWarnsRegex(UserWarning, "under no query patch") as seen:
                call()
            self.assertEqual(seen.filename, __file__)

    def test_numbers_of_every_kind(self):
        """NumPy's integers and whole floats, by every way that a call may go; modules keep plain numbers."""
        v = rand(1, 3, 8, 7, 4)
        ways = [lambda f: f(v), lambda f: f(v.clone().requires_grad_(True)), lambda f: f(v.to("meta"))]
        if has(2, 0):
            ways.append(lambda f: torch.func.vmap(f)(v[None]))
        for options in (dict(k=3), dict(ws=16, k=2), dict(wt=1, k=100, ws=6, topk="each"), dict(heads=2, stride0=2)):
            for kind in (np.int64, np.uint8, float):
                given = {name: n if name == "topk" else kind(n) for name, n in options.items()}
                for way in ways:
                    snls.release()
                    got, want = (way(lambda v: snls.search(v, v, **o)[0]) for o in (given, options))
                    self.assertEqual(got.shape, want.shape, given)
                    self.assertTrue(got.is_meta or torch.equal(got, want), given)
        first = v.permute(0, 1, 4, 2, 3)
        self.assertEqual(snls.NonLocalSearch(np.uint8(16), 0, 1, np.int8(-1), stride0=1)(first, first)[0].shape[-1], 256)
        refine = snls.RefineSearch(3, 0, np.uint8(16), -1, -1, 1, stride0=1)
        self.assertEqual(refine(first, first, torch.zeros(1, 1, 3, 8, 7, 2, 3))[0].shape[-1], 512)
        self.assertEqual({type(n) for n in refine.options.values()}, {int, float, str})

    def test_how_many_places(self):
        """kr: a whole number of any kind is a count, any other a share."""
        v, offsets = rand(1, 3, 4, 8, 7), torch.zeros(1, 1, 3, 8, 7, 4, 3)
        for kr, used in ((2, 2), (np.int64(2), 2), (np.array(1), 1), (torch.tensor(1), 1), (np.True_, 1), (9, 4), (True, 1), (0.5, 2), (np.float32(0.5), 2),
                         (np.array(0.5), 2), (torch.tensor(0.5), 2), (Fraction(1, 2), 2), (0.01, 1), (1.0, 4), (0, 4), (-1, 4), (-1.0, 4)):
            module = snls.RefineSearch(3, 0, 1, -1, kr, 1, stride0=1)
            self.assertEqual(module(v, v, offsets)[0].shape[-1], used, kr)
            self.assertIn(type(module.kr), (int, float))
            self.assertIn("kr=%r" % module.kr, repr(module))

    def test_what_is_shown(self):
        self.assertIn("k=-1", repr(snls.NonLocalSearch(3, 0, 1, -1)))
        self.assertIn("k=-1", repr(snls.PairedSearch(3, 1, -1)))
        self.assertIn("k=5", repr(snls.NonLocalSearch(3, 0, 1, 5)))

    def test_copies(self):
        v = rand(1, 3, 4, 9, 8)
        search = torch.nn.Sequential(snls.NonLocalSearch(3, 1, 3, 5, stride0=1), snls.SoftmaxWeights())
        for other in (copy.deepcopy(search), pickle.loads(pickle.dumps(search))):
            self.assertEqual(repr(other), repr(search))
            self.assertTrue(torch.equal(other[0](v, v)[0], search[0](v, v)[0]))
        self.assertEqual(list(search.parameters()), [])

    def test_traced(self):
        """torch.fx.symbolic_trace and torch.jit.trace write the operators down, for videos of any size."""
        class Attention(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.search, self.refine = snls.NonLocalSearch(3, 1, 3, 5, stride0=1), snls.RefineSearch(3, 1, 2, 3, -1, 3, stride0=1)
                self.weights, self.sum, self.scatter = snls.SoftmaxWeights(), snls.WeightedPatchSum(3, 1), snls.NonLocalScatterAdd(1, 1)

            def forward(self, video, fflow, bflow):
                dists, offsets = self.search(video, 2 * video, fflow, bflow)
                dists, offsets = self.refine(video, video, offsets)
                out, total = self.scatter(video, self.weights(dists), offsets)
                return self.sum(video, self.weights(dists), offsets) + out, total, snls.search_all(video, video, ws=2, layout="BTCHW")[0]
        inputs = lambda h, w: (rand(1, 3, 4, h, w), rand(1, 3, 2, h, w), rand(1, 3, 2, h, w))
        module = Attention()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # newer ones would rather have torch.export
            traced = torch.fx.symbolic_trace(module), torch.jit.trace(module, inputs(8, 7))
        for given in (inputs(8, 7), inputs(6, 9)):
            for other in traced:
                for a, b in zip(other(*given), module(*given)):
                    self.assertTrue(torch.equal(a, b))
        with self.assertRaises(torch.fx.proxy.TraceError):  # by the number of axes it decides what to do
            torch.fx.symbolic_trace(snls.PairedSearch(3, 1, 1))

    def test_axes_of_pairs(self):
        """Sentences count the axes that were given."""
        v, search = rand(1, 3, 4, 9, 8), snls.PairedSearch(3, 1, 1)
        for kind, sentence, tensors in ((TypeError, "query is missing", (None, None)), (TypeError, "key is missing", (v, None)),
                                        (ValueError, "query has 3 axes, must have 4 or 5", (v[0, 0], v[0, 0])), (ValueError, "query has 0 axes", ([1], v)),
                                        (ValueError, "key has 5 axes, must have 4 as query", (v[0], v)),
                                        (ValueError, "flow has 6 axes, must have 5 as query", (v, v, rand(1, 3, 1, 2, 3, 2)))):
            with self.assertRaisesRegex(kind, "PairedSearch: " + sentence):
                search(*tensors)

    def test_refused(self):
        for build in (lambda: snls.NonLocalSearch(3, 1, 3, 5, pt=2), lambda: snls.NonLocalSearch(3, 1, 3, 5, self_action="x"),
                      lambda: snls.NonLocalSearch(3, 1, 3, 5, itype="cubic"), lambda: snls.NonLocalGatherAdd(3, 1, 2),
                      lambda: snls.NonLocalSearch(3, 1, 3, -1, self_action="anchor"), lambda: snls.NonLocalGather(3, 1, layout="NCHW")):
            with self.assertRaises(ValueError):
                build()
        for sentence, build in (("NonLocalSearch: k is '1', must be a whole number", lambda: snls.NonLocalSearch(3, 0, 1, "1")),
                                ("PairedSearch: k is None, must be", lambda: snls.PairedSearch(3, 1, None)),
                                ("RefineSearch: k is 1.5, must be", lambda: snls.RefineSearch(3, 0, 1, 1.5, -1, 1)),
                                ("RefineSearch: kr is nan, must be", lambda: snls.RefineSearch(3, 0, 1, 1, float("nan"), 1)),
                                ("RefineSearch: kr is 1.5, must be a whole number, or a share", lambda: snls.RefineSearch(3, 0, 1, 1, 1.5, 1)),
                                ("RefineSearch: kr is 2.0, must be", lambda: snls.RefineSearch(3, 0, 1, 1, 2.0, 1)),
                                ("RefineSearch: kr is '1', must be a number", lambda: snls.RefineSearch(3, 0, 1, 1, "1", 1)),
                                ("RefineSearch: kr is array\\(\\[1, 2\\]\\), must be a number", lambda: snls.RefineSearch(3, 0, 1, 1, np.array([1, 2]), 1)),
                                ("RefineSearch: kr is None, must be a number", lambda: snls.RefineSearch(3, 0, 1, 1, None, 1)),
                                ("self_action is \\[\\], must be one of", lambda: snls.NonLocalSearch(3, 0, 1, 1, self_action=[])),
                                ("self_action is array\\(\\[1, 2\\]\\), must be one of", lambda: snls.NonLocalSearch(3, 0, 1, 1, self_action=np.array([1, 2]))),
                                ("dist_type is array\\(\\[1, 2\\]\\), must be one of", lambda: snls.NonLocalSearch(3, 0, 1, 1, dist_type=np.array([1, 2]))),
                                ("NonLocalSearch: stride1 is 'x', must be a number", lambda: snls.NonLocalSearch(3, 0, 1, 1, stride1="x")),
                                ("NonLocalSearch: stride1 is '1', must be a number", lambda: snls.NonLocalSearch(3, 0, 1, 1, stride1="1")),
                                ("NonLocalSearch: dist_type is 'l3', must be one of l2, prod", lambda: snls.NonLocalSearch(3, 0, 1, 1, dist_type="l3")),
                                ("NonLocalSearch: ws is 0, must be a whole number from 1 to", lambda: snls.NonLocalSearch(0, 0, 1, -1)),
                                ("NonLocalSearch: nheads is 1.5, must be a whole number", lambda: snls.NonLocalSearch(3, 0, 1, 1, nheads=1.5)),
                                ("NonLocalSearch: topk_mode is 'some', must be one of", lambda: snls.NonLocalSearch(3, 0, 1, 1, topk_mode="some")),
                                ("NonLocalSearch: wt is \\[1\\], must be a whole number", lambda: snls.NonLocalSearch(3, [1], 1, 1)),
                                ("PairedSearch: ws is 'x', must be a whole number", lambda: snls.PairedSearch("x", 1, 1)),
                                ("PairedSearch: dist_type is None, must be one of", lambda: snls.PairedSearch(3, 1, 1, dist_type=None)),
                                ("RefineSearch: wr is -1, must be a whole number", lambda: snls.RefineSearch(3, 0, -1, 1, -1, 1)),
                                ("RefineSearch: dist_type is 'l1', must be one of", lambda: snls.RefineSearch(3, 0, 1, 1, -1, 1, dist_type="l1")),
                                ("NonLocalGather: ps is 0, must be a whole number", lambda: snls.NonLocalGather(0, 1)),
                                ("WeightedPatchSum: stride0 is 0, must be a whole number", lambda: snls.WeightedPatchSum(1, 0)),
                                ("NonLocalScatterAdd: dilation is 0.5, must be a whole number", lambda: snls.NonLocalScatterAdd(1, 1, dilation=0.5)),
                                ("SoftmaxWeights: dist_type is 'l3', must be one of l2, prod", lambda: snls.SoftmaxWeights(1, "l3")),
                                ("SoftmaxWeights: scale is None, must be a number", lambda: snls.SoftmaxWeights(None))):
            with self.subTest(sentence), self.assertRaisesRegex(ValueError, sentence):
                build()


if __name__ == "__main__":
    unittest.main()
