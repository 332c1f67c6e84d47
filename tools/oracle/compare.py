#!/usr/bin/env python3
"""Random comparison of the snls command line with oracle.py. See README.md.

    compare.py --snls build/snls --cases 300 --seed 1 [--backend ref,cpu] [--only search] [--jobs 8]
    compare.py --snls build/snls --bad          wrong inputs: exit codes, one line on stderr, nothing left behind
    compare.py --self-test                      the oracle itself, without snls
"""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from harness import Failure  # noqa: E402
from match_cases import run_search, run_search_all  # noqa: E402
from other_cases import run_aggregate, run_compose, run_weights  # noqa: E402

OPS = {"search": 9, "refine": 3, "compose": 2, "weights": 1, "gather": 2, "gather-add": 3, "scatter-add": 2, "search-all": 2}


def run_case(args, seed):
    """None, or what went wrong"""
    rng = np.random.default_rng(seed)
    names, odds = list(OPS), np.array(list(OPS.values()), float)
    op = names[int(rng.choice(len(names), p=odds / odds.sum()))]
    op = args.only or op
    folder = tempfile.mkdtemp(prefix="snls-oracle-")
    backends = args.backend.split(",")
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            if op in ("search", "refine"):
                run_search(rng, args, folder, backends, op == "refine")
            elif op == "search-all":
                run_search_all(rng, args, folder, backends)
            elif op == "compose":
                run_compose(rng, args, folder, backends)
            elif op == "weights":
                run_weights(rng, args, folder, backends)
            else:
                run_aggregate(rng, args, folder, backends, op)
    except Failure as e:
        return f"{op}: {e}"
    except subprocess.TimeoutExpired:
        return f"{op}: no answer within 120 s"
    except Exception as e:                                      # the oracle's own fault, or output that cannot be read
        if args.trace:
            raise
        return f"{op}: {type(e).__name__}: {e}"
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return None


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--snls", default="build/snls")
    a.add_argument("--cases", type=int, default=300)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--backend", default="ref")
    a.add_argument("--only", choices=list(OPS))
    a.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    a.add_argument("--stop", type=int, default=10, help="stop after so many failures")
    a.add_argument("--keep", action="store_true", help="keep the temporary folders")
    a.add_argument("--trace", action="store_true", help="show Python's traceback of an unexpected exception")
    a.add_argument("--bad", action="store_true")
    a.add_argument("--self-test", action="store_true")
    args = a.parse_args()
    if args.self_test:
        import selftest
        return selftest.run()
    args.snls = os.path.abspath(args.snls)
    if not os.access(args.snls, os.X_OK):
        sys.exit(f"compare.py: {args.snls} is not a program; build it, or name it with --snls")
    if args.bad:
        import badinput
        return badinput.run(args.snls, args.backend.split(",")[0])
    passed = failed = 0
    pool = concurrent.futures.ProcessPoolExecutor(args.jobs) if args.jobs > 1 and args.cases > 1 else None
    seeds = range(args.seed, args.seed + args.cases)
    results = pool.map(run_case, [args] * args.cases, seeds, chunksize=4) if pool else (run_case(args, s) for s in seeds)
    for seed, result in zip(seeds, results):
        passed, failed = passed + (result is None), failed + (result is not None)
        if result is not None:
            only = f" --only {args.only}" if args.only else ""
            print(f"{result}\n    repeat with: {sys.argv[0]} --snls {args.snls} --backend {args.backend}{only} --seed {seed} --cases 1", flush=True)
            if failed >= args.stop:
                break
    if pool:
        pool.shutdown(cancel_futures=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
