#!/usr/bin/env python3
"""python_page.py: runs docs/python.md: its Python blocks, one after the other, as one program.

    python3 tools/python_page.py            makes the page's pictures anew, docs/python-*.png
    python3 tools/python_page.py --check    makes them elsewhere, and compares what is printed with the page

A block ```text after a block is what it prints; numbers with decimals may differ by one in the last of them. Blocks ```python torch are left out where
PyTorch is not installed. show(name, picture, ...) writes pictures side by side, enlarged to be seen. Exit status 1: a block
failed or prints something else; 77: there is no NumPy.
"""
import contextlib
import importlib.util
import io
import os
import re
import sys
import tempfile
import traceback

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PAGE = os.path.join(ROOT, "docs", "python.md")


def blocks(text):
    """(line, words after ```, code, expected output or None) of each Python block."""
    pattern = re.compile(r"^```python( torch)?\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.M | re.S)
    for m in pattern.finditer(text):
        yield text.count("\n", 0, m.start()) + 2, m.group(1) or "", m.group(2), m.group(3)


def last_place(number):
    """What one in the last decimal is worth; 0 where there are none."""
    digits, _, power = number.partition("e")
    decimals = len(digits.partition(".")[2])
    return 10.0 ** (int(power or 0) - decimals) if decimals else 0.0


def same(got, want):
    """Equal words and whole numbers; others may be rounded to either side, as sums in another order are on other machines."""
    number = r"-?\d+\.?\d*(?:e[-+]?\d+)?"
    if re.sub(number, "#", got).split() != re.sub(number, "#", want).split():
        return False
    pairs = zip(re.findall(number, got), re.findall(number, want))
    return all(abs(float(a) - float(b)) <= 1.001 * last_place(b) for a, b in pairs)


def make_show(folder):
    import numpy as np
    import snls

    def picture(p):
        p = np.asarray(p, np.float32)
        p = p[..., None] if p.ndim == 2 else p
        p = np.repeat(p, 3, 2) if p.shape[2] == 1 else p
        return np.repeat(np.repeat(p, 2, 0), 2, 1)

    def show(name, *pictures):
        shown = [picture(p) for p in pictures]
        gap = np.full((shown[0].shape[0], 6, 3), 255, np.float32)
        row = [part for p in shown for part in (p, gap)][:-1]
        try:
            snls.png_write(os.path.join(folder, name), np.concatenate(row, 1))
        except NotImplementedError as error:  # this build writes no pictures
            print(error, file=sys.stderr)
    return show


def run(folder, check):
    names, failures, count = {"show": make_show(folder)}, 0, 0
    has_torch = importlib.util.find_spec("torch") is not None
    with open(PAGE) as file:
        text = file.read()
    for line, words, code, want in blocks(text):
        if "torch" in words and not has_torch:
            print("line %d: left out, there is no PyTorch" % line)
            continue
        out, count = io.StringIO(), count + 1
        try:
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * (line - 1) + code, PAGE, "exec"), names)
        except Exception:
            traceback.print_exc()
            failures += 1
        if not check and out.getvalue():
            print("line %d prints:\n%s" % (line, out.getvalue()), end="")
        elif check and not same(out.getvalue(), want or ""):
            failures += 1
            print("line %d prints\n%swhere the page says\n%s" % (line, out.getvalue(), want or "nothing\n"))
    print("python_page: %d blocks, %d failures" % (count, failures))
    return 1 if failures or not count else 0


def main():
    if importlib.util.find_spec("numpy") is None:
        print("python_page: there is no NumPy")
        return 77
    sys.path.insert(0, os.path.join(ROOT, "bindings", "python"))
    if "--check" not in sys.argv[1:]:
        return run(os.path.join(ROOT, "docs"), False)
    with tempfile.TemporaryDirectory() as folder:
        return run(folder, True)


if __name__ == "__main__":
    sys.exit(main())
