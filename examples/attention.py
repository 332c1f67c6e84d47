#!/usr/bin/env python3
"""attention.py: space-time attention as the listing in the paper's appendix has it, forward and backward; against the
authors' library only the import is another: `import snls as stnls` for `import stnls`.

    python3 examples/attention.py [--device cpu|cuda] [--side 128]

Needs PyTorch. The conv3d at the end is the learned reduction over the K neighbours.
"""
import argparse

import torch as th

import snls as stnls

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--device", default="cuda" if th.cuda.is_available() and stnls.has_cuda() else "cpu")
parser.add_argument("--side", type=int, default=128)
args = parser.parse_args()

# -- a video, and its queries, keys and values --
B, T = 1, 5                               # batch, frames
F, H, W = 16, args.side, args.side        # features, height, width
device = args.device
V_in = th.randn((B, T, F, H, W), device=device, requires_grad=True)


def project(video):
    """A 1x1 convolution of every frame with random weights."""
    weights = th.randn((F, F, 1, 1), device=device) / F ** 0.5
    return th.nn.functional.conv2d(video.reshape(-1, F, H, W), weights).view(video.shape)


q_vid, k_vid, v_vid = project(V_in), project(V_in), project(V_in)

# -- search info --
ws, wt = 5, 2                             # spatial window; temporal radius: W_t = 2*wt+1 frames
ps, K, HD = 3, 10, 2                      # patch size, neighbours, heads
stride0, stride1 = 1, 0.5                 # query and key stride

# -- accumulate optical flows --
fflow, bflow = th.randn((B, T, 2, H, W), device=device), th.randn((B, T, 2, H, W), device=device)
flows = stnls.nn.search_flow(fflow, bflow, wt, stride0)
print("flows", tuple(flows.shape))        # B,T,W_t-1,2,nH,nW

# -- search --
search = stnls.search.NonLocalSearch(ws, wt, ps, K, nheads=HD, stride0=stride0, stride1=stride1, self_action="anchor",
                                     itype="float")
dists, srch_flows = search(q_vid, k_vid, flows)
print("dists", tuple(dists.shape), "offsets", tuple(srch_flows.shape))  # B,HD,T,nH,nW,K and B,HD,T,nH,nW,K,3

# -- normalize --
weights = th.nn.functional.softmax(-10 * dists, -1)

# -- aggregate --
stack = stnls.agg.NonLocalStack(5, stride0)                             # the patch size may be another one
stacked = stack(v_vid, weights, srch_flows)
print("stack", tuple(stacked.shape))                                    # B,HD,K,T,F/HD,H,W
V_out = stacked.permute(0, 3, 1, 4, 2, 5, 6).reshape(B * T, F, K, H, W)
V_out = th.nn.functional.conv3d(V_out, th.randn((F, F, K, 1, 1), device=device), stride=(K, 1, 1))
V_out = V_out.reshape(B, T, F, H, W)
print("V_out", tuple(V_out.shape))

# -- backward --
th.autograd.backward(V_out, th.randn_like(V_out))
print("gradient", tuple(V_in.grad.shape), "finite" if th.isfinite(V_in.grad).all() else "NOT FINITE")
