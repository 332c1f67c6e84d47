#!/usr/bin/env python3
"""learn_offsets.py: learns to correct a wrong optical flow by gradient descent through the search.

    python3 examples/learn_offsets.py [--device cpu|cuda] [--steps 200] [--side 48]

A texture turns and grows a little between two frames; the flow that a search starts from is off by about 1.5 pixels,
differently in every part of the picture. A grid of 8x8 vectors, enlarged to the frame, is added to it, and learned by Adam: the
loss is the mean distance at the places that the corrected flow points to, whose gradient reaches the vectors through
dist -> sub-pixel reading of the key -> flow. What is printed is the mean end-point error against the true motion. Needs PyTorch.
"""
import argparse

import torch

import snls


def texture(y, x):
    """A smooth picture of 3 channels at any place: a sum of waves, from 5 to 14 pixels long."""
    generator = torch.Generator().manual_seed(3)
    total = 0
    for _ in range(24):
        angle, length, phase = torch.rand(3, generator=generator)
        color, angle, wave = torch.rand(3, generator=generator), 6.2832 * angle, 6.2832 / (5 + 9 * length)
        total = total + torch.sin(wave * (torch.cos(angle) * x + torch.sin(angle) * y) + 6.2832 * phase)[..., None] * color
    return total / 24


def motion(side):
    """True flow (side,side,2), (x, y): a turn by 4 degrees and growth by 3 percent about the centre, and a shift."""
    y, x = torch.meshgrid(torch.arange(side).float(), torch.arange(side).float(), indexing="ij")
    u, v, angle = x - side / 2, y - side / 2, torch.tensor(0.07)
    c, s = 1.03 * torch.cos(angle), 1.03 * torch.sin(angle)
    return torch.stack((c * u - s * v - u + 1.3, s * u + c * v - v - 0.8), -1), y, x


def frames(side):
    """Two frames (1,1,H,W,C) and the true flow from the first to the second: second(x + flow(x)) = first(x)."""
    flow, y, x = motion(side)
    first = texture(y + flow[..., 1], x + flow[..., 0])
    return first[None, None], texture(y, x)[None, None], flow


def enlarge(grid, side):
    """(h,w,2) to (side,side,2), smooth."""
    big = torch.nn.functional.interpolate(grid.permute(2, 0, 1)[None], (side, side), mode="bicubic", align_corners=True)
    return big[0].permute(1, 2, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--side", type=int, default=48)
    args = parser.parse_args()
    first, second, truth = (t.to(args.device) for t in frames(args.side))
    wrong = truth + enlarge(1.5 * torch.randn(5, 5, 2, generator=torch.Generator().manual_seed(1)), args.side).to(args.device)
    correction = torch.zeros(8, 8, 2, device=args.device, requires_grad=True)
    optimiser = torch.optim.Adam([correction], lr=0.1)
    inside = slice(4, -4)  # at the border the true motion leaves the frame
    for step in range(args.steps + 1):
        flow = wrong + enlarge(correction, args.side)
        error = (flow - truth).norm(dim=-1)[inside, inside].mean().item()
        dist, _ = snls.search(first, second, flow[None, None, None], ws=1, ps=5)  # one place: where the flow points
        loss = dist[:, :, :, inside, inside].mean()
        if step % (args.steps // 10 or 1) == 0:
            print("step %4d   distance %8.4f   error of the flow %.3f pixels" % (step, loss.item(), error))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


if __name__ == "__main__":
    main()
