#!/usr/bin/env python3
"""Writes the manifest of a file of weights: what it is, how it was made, what it reaches, and its checksum.

  tools/model_manifest.py weights/stan-s.safetensors weights/stan-s.json --data "60 clips ..." \\
      --command "snls train ..." --command "snls train ... --init ..." --eval set8.json --eval davis.json

--eval takes what `snls eval --json` printed; every row of a mean goes into the manifest, under the file's name."""
import argparse
import hashlib
import json
import os
import struct


def header_of(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        return json.loads(f.read(size))


def count(header):
    total = 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        elements = 1
        for side in tensor["shape"]:
            elements *= side
        total += elements
    return total


def means_of(path):
    with open(path) as f:
        rows = json.load(f)["rows"]
    keep = ("sigma", "psnr_noisy", "psnr", "ssim", "strred")
    return [{k: round(r[k], 4) for k in keep} for r in rows if r["clip"] == "mean"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("weights")
    p.add_argument("out")
    p.add_argument("--data", required=True)
    p.add_argument("--command", action="append", default=[], required=True)
    p.add_argument("--eval", action="append", default=[])
    a = p.parse_args()
    header = header_of(a.weights)
    metadata = header.get("__metadata__", {})
    types = sorted({t["dtype"] for n, t in header.items() if n != "__metadata__"})
    with open(a.weights, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    manifest = {
        "file": os.path.basename(a.weights),
        "architecture": metadata.get("architecture"),
        "settings": {k: metadata[k] for k in ("width", "blocks", "ws", "wt") if k in metadata},
        "parameters": count(header),
        "stored_as": types,
        "training": {"commands": a.command, "data": a.data},
        "results": {os.path.splitext(os.path.basename(e))[0]: means_of(e) for e in a.eval},
        "sha256": digest,
    }
    with open(a.out, "w") as f:
        json.dump(manifest, f, indent=2)
        f.write("\n")


if __name__ == "__main__":
    main()
