"""plain_torch.py: the operators of docs/operators.md once more, in PyTorch alone, for comparison: slow, differentiable,
channels last. Not all options: what a shifted attention uses."""
import torch


def reflect(x, n):
    """Triangle wave of period 2(n-1)."""
    if n == 1:
        return x * 0
    period = 2 * (n - 1)
    m = torch.remainder(x, period)
    return torch.where(m > n - 1, period - m, m)


def slot_frames(t, frames, wt):
    shift = min(0, t - wt) + max(0, t + wt - (frames - 1))
    last = min(frames - 1, t + wt - shift)
    return [t + s if t + s <= last else last - s for s in range(2 * wt + 1)]


def read(image, y, x):
    """image (H,W,C) at real places inside it; the tap beyond the last row or column is the mirrored one, of weight 0."""
    h, w = image.shape[:2]
    y0, x0 = torch.floor(y).detach(), torch.floor(x).detach()
    total = 0
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = reflect(y0 + dy, h).long(), reflect(x0 + dx, w).long()
            weight = (y - y0 if dy else 1 - (y - y0)) * (x - x0 if dx else 1 - (x - x0))
            total = total + weight[..., None] * image[row, column]
    return total


def grid(h, w, stride0, dtype):
    y, x = torch.arange(0, h, stride0, dtype=dtype), torch.arange(0, w, stride0, dtype=dtype)
    return torch.meshgrid(y, x, indexing="ij")


def window(a, ws, s1, n):
    """Places of a slid window along one axis: (..., ws)."""
    a0 = a.detach()
    o = torch.full_like(a0, (ws - 1) // 2)
    o = torch.where(a0 - s1 * o < 0, torch.floor(a0 / s1), o)
    o = torch.where(a0 + s1 * ((ws - 1) - o) > n - 1, torch.ceil((a0 - (n - 1)) / s1 + (ws - 1)), o)
    return a[..., None] + s1 * (torch.arange(ws, dtype=a.dtype) - o[..., None])


def patch_distance(query, key, qy, qx, y, x, ps, dilation, dist):
    """query pixels at (qy,qx), (nH,nW); key at (y,x), (nH,nW,n)."""
    h, w = query.shape[:2]
    total = 0
    for i in range(ps):
        for j in range(ps):
            dy, dx = dilation * (i - ps // 2), dilation * (j - ps // 2)
            q = query[reflect(qy + dy, h).long(), reflect(qx + dx, w).long()][:, :, None]
            k = read(key, reflect(y + dy, h), reflect(x + dx, w))
            total = total + (((q - k) ** 2).sum(-1) if dist == "l2" else (q * k).sum(-1))
    return total


def windows_of(centres, qy, qx, ws, s1, h, w):
    """Candidates of one slot: offsets dy, dx (nH,nW,ws*ws) and validity."""
    cy, cx = centres
    y, x = window(cy, ws, s1, h), window(cx, ws, s1, w)
    y = y[..., :, None].expand(*y.shape, ws).flatten(-2)
    x = x[..., None, :].expand(*x.shape[:-1], ws, ws).flatten(-2)
    return y, x, (y >= 0) & (y <= h - 1) & (x >= 0) & (x <= w - 1)


def best(dist, offset, valid, k, kind):
    worst = float("inf") if kind == "l2" else -float("inf")
    dist = torch.where(valid, dist, torch.full_like(dist, worst))
    if dist.shape[-1] < k:
        raise ValueError("too few candidates for this model")
    order = torch.sort(dist.detach(), dim=-1, stable=True, descending=kind == "prod").indices[..., :k]
    found = torch.gather(dist, -1, order)
    place = torch.gather(offset, -2, order[..., None].expand(*order.shape, 3))
    lost = torch.isinf(found)
    return found, torch.where(lost[..., None], torch.zeros_like(place), place)


def search(query, key, flow=None, ws=9, wt=0, ps=1, k=1, heads=1, stride0=1, stride1=1.0, dilation=1, dist="l2"):
    """dist (B,heads,T,nH,nW,k), offset (B,heads,T,nH,nW,k,3)."""
    b_all, t_all, h, w, c = query.shape
    f, out = c // heads, []
    qy, qx = grid(h, w, stride0, query.dtype)
    for b in range(b_all):
        for head in range(heads):
            part = slice(head * f, (head + 1) * f)
            for t in range(t_all):
                ds, os, vs = [], [], []
                for s, frame in enumerate(slot_frames(t, t_all, wt)):
                    cy, cx = qy, qx
                    if flow is not None:
                        at = s if flow.shape[-4] == 2 * wt + 1 else s - 1
                        if at >= 0:
                            shift = flow[b, t, at] if flow.dim() == 6 else flow[b, head, t, at]
                            cy, cx = reflect(qy + shift[..., 1], h), reflect(qx + shift[..., 0], w)
                    y, x, valid = windows_of((cy, cx), qy, qx, ws, stride1, h, w)
                    ds.append(patch_distance(query[b, t, ..., part], key[b, frame, ..., part], qy, qx, y, x, ps, dilation, dist))
                    dt = torch.full_like(y, frame - t)
                    os.append(torch.stack((dt, y - qy[..., None], x - qx[..., None]), -1))
                    vs.append(valid)
                out.append(best(torch.cat(ds, -1), torch.cat(os, -2), torch.cat(vs, -1), k, dist))
    lead = (b_all, heads, t_all)
    return (torch.stack([d for d, _ in out]).reshape(*lead, *out[0][0].shape),
            torch.stack([o for _, o in out]).reshape(*lead, *out[0][1].shape))


def refine(query, key, centre, wr=1, ps=1, k=1, heads=1, stride0=1, stride1=1.0, dilation=1, dist="l2"):
    b_all, t_all, h, w, c = query.shape
    f, out = c // heads, []
    qy, qx = grid(h, w, stride0, query.dtype)
    frames = reflect(torch.arange(t_all).view(t_all, 1, 1, 1) + torch.round(centre[..., 0]), t_all).long()
    for b in range(b_all):
        for head in range(heads):
            part = slice(head * f, (head + 1) * f)
            for t in range(t_all):
                ds, os, vs = [], [], []
                for g in range(centre.shape[-2]):
                    place, frame = centre[b, head, t, :, :, g], frames[b, head, t, :, :, g]
                    cy, cx = reflect(qy + place[..., 1], h), reflect(qx + place[..., 2], w)
                    y, x, valid = windows_of((cy, cx), qy, qx, wr, stride1, h, w)
                    d = sum(torch.where((frame == n)[..., None],
                                        patch_distance(query[b, t, ..., part], key[b, n, ..., part], qy, qx, y, x, ps, dilation,
                                                       dist), torch.zeros_like(y)) for n in range(t_all))
                    dt = (frame - t).to(y.dtype)[..., None].expand(y.shape)
                    ds.append(d)
                    os.append(torch.stack((dt, y - qy[..., None], x - qx[..., None]), -1))
                    vs.append(valid)
                out.append(best(torch.cat(ds, -1), torch.cat(os, -2), torch.cat(vs, -1), k, dist))
    lead = (b_all, heads, t_all)
    return (torch.stack([d for d, _ in out]).reshape(*lead, *out[0][0].shape),
            torch.stack([o for _, o in out]).reshape(*lead, *out[0][1].shape))


def flow_compose(fflow, bflow, wt, stride0=1):
    b_all, t_all, h, w, _ = fflow.shape
    qy, qx = grid(h, w, stride0, fflow.dtype)
    out = []
    for b in range(b_all):
        for t in range(t_all):
            y, x = qy, qx
            for s, frame in enumerate(slot_frames(t, t_all, wt)):
                if s == 0:
                    continue
                if frame == t - 1:
                    y, x = qy, qx
                step = fflow[b, frame - 1] if frame > t else bflow[b, frame + 1]
                move = read(step, reflect(y, h), reflect(x, w))
                y, x = y + move[..., 1], x + move[..., 0]
                out.append(torch.stack((x - qx, y - qy), -1))
    return torch.stack(out).reshape(b_all, t_all, 2 * wt, *qy.shape, 2)


def weights(dists, scale=10.0, dist="l2"):
    score = torch.where(torch.isfinite(dists), dists * (scale if dist == "prod" else -scale),
                        torch.full_like(dists, -float("inf")))
    top = score.max(-1, keepdim=True).values
    e = torch.exp(score - torch.where(torch.isfinite(top), top, torch.zeros_like(top)))
    return e / e.sum(-1, keepdim=True).clamp_min(1e-30)


def _ties(weight, offset, h, w, ps, stride0, dilation):
    """For every patch pixel: destination rows and columns, whether they are inside, and the sources' places."""
    t_all, kept = weight.shape[2], weight.shape[-1]
    qy, qx = grid(h, w, stride0, offset.dtype)
    frames = reflect(torch.arange(t_all).view(t_all, 1, 1, 1) + torch.round(offset[..., 0]), t_all).long()
    ny, nx = reflect(qy[..., None] + offset[..., 1], h), reflect(qx[..., None] + offset[..., 2], w)
    for i in range(ps):
        for j in range(ps):
            dy, dx = dilation * (i - ps // 2), dilation * (j - ps // 2)
            y, x = (qy + dy).long(), (qx + dx).long()
            inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
            yield y[inside], x[inside], inside, frames, reflect(ny + dy, h), reflect(nx + dx, w), kept


def gather(value, weight, offset, ps=1, stride0=1, dilation=1):
    """(B,heads,K,T,H,W,F)"""
    b_all, t_all, h, w, c = value.shape
    heads, kept = weight.shape[1], weight.shape[-1]
    f = c // heads
    out = value.new_zeros(b_all, heads, kept, t_all, h, w, f)
    cover = value.new_zeros(h, w)
    for y, x, inside, frames, sy, sx, _ in _ties(weight, offset, h, w, ps, stride0, dilation):
        cover[y, x] += 1
        for b in range(b_all):
            for head in range(heads):
                for t in range(t_all):
                    image = value[b, ..., head * f:(head + 1) * f]
                    seen = sum(torch.where((frames[b, head, t] == n)[..., None], read(image[n], sy[b, head, t], sx[b, head, t]),
                                           value.new_zeros(())) for n in range(t_all))
                    pushed = (weight[b, head, t][..., None] * seen)[inside]
                    out = out.clone()
                    out[b, head, :, t, y, x] = out[b, head, :, t, y, x] + pushed.transpose(0, 1)
    return out / cover.clamp_min(1)[..., None]


def gather_add(value, weight, offset, ps=1, stride0=1, dilation=1):
    stack = gather(value, weight, offset, ps, stride0, dilation).sum(2)
    return stack.permute(0, 2, 3, 4, 1, 5).flatten(-2)
