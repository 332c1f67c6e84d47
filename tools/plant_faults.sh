#!/bin/bash
# Plants faults, one at a time, in a copy of the tree, and tells which test catches each: a suite that cannot fail proves
# nothing. Not part of `make test` (every fault is a rebuild).
#   tools/plant_faults.sh [FIRST [LAST]]        numbers of the list below; all without arguments
# Exit 1 when a fault survives.
set -u
source=$(cd "$(dirname "$0")/.." && pwd) || exit 2
copy=$(mktemp -d) || exit 2
trap 'rm -rf "$copy"' EXIT
git -C "$source" ls-files -z | (cd "$source" && xargs -0 tar -cf -) | tar -xf - -C "$copy" || exit 2
cmake -S "$copy" -B "$copy/build" -DCMAKE_BUILD_TYPE=Release -DSNLS_BUILD_CLI=OFF >/dev/null || exit 2

# name | file | text | planted text | test and its arguments
faults=$(cat <<'LIST'
window off by one|src/op/geometry.h|double o = (double)((side - 1) / 2);|double o = (double)(side / 2);|test_ops --op search 1 60
frames of the past in the wrong order|src/op/geometry.h|: last - slot;|: t - 1 - (2 * wt - slot);|test_spec
a place at the last pixel is outside|src/op/geometry.h|return x >= 0 && x <= (double)(n - 1); }|return x >= 0 \&\& x < (double)(n - 1); }|test_ops --op search 1 60
reflection loses its sign|src/op/geometry.h|return (folded < last) == (x > 0) ? 1 : -1;|return 1;|test_grad
one patch too many at the border|src/op/geometry.h|count += query >= 0 \&\& query < n|count += query >= 0 \&\& query <= n|test_spec_aggregate
gradient of the flow with the wrong sign|src/ref/match_grad.c|w.slope_y * pull.place_y|-w.slope_y * pull.place_y|test_grad
gradient of the key with the wrong sign|src/ref/match_grad.c|(m->prod ? a : -2 * (a - b))|(m->prod ? a : 2 * (a - b))|test_grad
weights of the taps swapped in the gradient|src/ref/ref.c|if (weight != 0) snls_ref_add(sum, base + read->y.at[a]|if (weight != 0) snls_ref_add(sum, base + read->y.at[1 - a]|test_grad
ties broken by the larger index|src/ref/match.c|return a->id < b->id;|return a->id > b->id;|test_ops --op search 1 60
softmax of the wrong sign|src/ref/weights.c|p->scale : -p->scale|-p->scale : p->scale|test_ops --op weights 1 20
last element of a vector's tail dropped|src/simd/dsp_avx512.c|return r >= 16 ? 0xffff : r <= 0 ? 0 : (__mmask16)((1u << r) - 1);|return r >= 16 ? 0xffff : r <= 0 ? 0 : (__mmask16)((1u << r) - 1) >> 1;|test_dsp
one write too many|src/simd/tile_window.h|for (ptrdiff_t i = 0; i < k; i++) {|for (ptrdiff_t i = 0; i <= k; i++) {|test_ops --op search 1 60
a row of the patch left out|src/simd/tile_patch.h|for (int a = 3; a < side; a += 2) same|for (int a = 5; a < side; a += 2) same|test_tile 1 40
products missing where patches reach into the next vector|src/cpu/tile_patch.c|l0 >= tile->lanes|beside > 0|test_tile 1 40
scores of queries in other boxes not taken away|src/cpu/tile.c|value[i] = from ? from[i] : NAN;|value[i] = from ? from[i] : 0;|test_tile --rough 1 6
a box begins in the wrong row|src/cpu/tile_patch.c|p->i0 + s->row - tile->planes.before|p->i0 - tile->planes.before|test_tile --rough 1 6
products of a tile above kept at shifts it did not look at|src/cpu/tile_patch.c|bands(tile, n, \&left, \&rows, s);|(void)left;|test_tile --stacks 1 6
keys of another frame kept by rows|src/cpu/tile_patch_key.c|if (frame != k->frame|if (k->frame < 0|test_tile --frames 1 12
mirrored keys taken again from the wrong pixel|src/cpu/tile_patch_key.c|at - step * more, step}|at, step}|test_tile --patches 1 8
keys of a row that is held taken for another's|src/cpu/tile_patch_key.c|if (held->y != y) *held|if (held->y == INT64_MIN) *held|test_corners
products of another slot kept|src/cpu/tile.c|s->carried.row = -1;||test_tile --stacks 1000 24
fractions of queries in other boxes lost|src/cpu/tile_boxes.c|            memcpy(a->fraction, k->fraction, n * sizeof *a->fraction);||test_tile --rough 1 6
lost digits of distances from norms not seen|src/cpu/tile.h|return value * (float)(m->ps * m->ps) < 1.5f * norm + value + most;|return value + most < 0 \&\& norm < 0 \&\& m->ps < 0;|test_tile --norms 40 8
distances from norms at a pixel taken as they are|src/cpu/tile_pick.c|if (!tile->norms \&\& at.y == floor|if (at.y == floor|test_tile --norms 40 8
bars too low where norms lose digits|src/cpu/tile_pick.c|4 * (most + norm)|4 * (most + 0 * norm)|test_tile --norms 40 8
a row of a patch summed anew twice|src/simd/tile_exact_avx512.h|            if (!next) above = patch_row(there, key, right, fx);||test_tile --rough 1 40
the next box begun too far|src/simd/sieve_make_amx.h|begun = wanted - rows < AHEAD ? wanted - rows : AHEAD;|begun = wanted - rows;|test_tile --frames 1000 40
the pixel beside a cell not looked at|src/simd/sieve_scan_avx512.h|    b = _mm512_mask_mov_ps(b, right, here->least[2]);||test_tile --steps 1000 60
lanes whose cells lack a neighbour taken as if they had it|src/simd/sieve_scan_avx512.h|    *lanes = _mm512_mask_cmplt_epi32_mask(*lanes, until, _mm512_loadu_si512(axis->end));||test_tile --apart 1000 100
the lower tile of a group a row too high|src/cpu/sieve.c|n * v->down % SIEVE_DOWN|n * v->down / 2 % SIEVE_DOWN|test_tile --even 1 14
the last two units of a box taken for one|src/simd/sieve_make_amx.h|case 2: make_many(m, 2); break;|case 2: make_many(m, 1); break;|test_tile --even 1 14
queries of the first lanes taken for others|src/simd/sieve_make_bf16.h|*query = m->query + first * 4;|*query = m->query;|test_tile --frames 1000 40
rows of cells that nobody looks into not cleared|src/simd/sieve_scan_bf16.c|    else note_nothing(s, cell, h);||test_tile --frames 1000 40
the last feature of a pixel left out|src/simd/sieve_bf16.c|i < left; i++) part[i]|i + 1 < left; i++) part[i]|test_tile --frames 1000 40
the low part of keys left out|src/simd/sieve_make_bf16.h|        add_part(sum, key + 2 * features, k->right, query, features, keys, twos);||test_close 1 16
the pixel beside a cell taken as none|src/simd/sieve_hits_bf16.c|vandq_u16(vorrq_u16(beside_it, no_right), vorrq_u16(below_it, no_down))|vorrq_u16(below_it, no_down)|test_tile --steps 1000 60
grains so fine that 16 bits do not hold them|src/simd/sieve_bf16.h|0x1.08p-14f|0x1.08p-16f|test_close 1 16
windows that end between pixels taken to end at one|src/simd/sieve_prod_bf16.c|more_y = ends_with_half(\&s->y)|more_y = 0|test_tile --steps 1000 120
candidates of lanes eight and on lost|src/simd/tile_neon.c|vaddv_u8(vget_high_u8(bits)) << 8|vaddv_u8(vget_high_u8(bits)) << 9|test_tile 1 60
what rounding takes off distances forgotten|src/cpu/sieve_pick.c|less[l] = of_query + k->lost;|less[l] = 0 * of_query;|test_close 1 16
what rounding takes off products forgotten|src/cpu/sieve_pick.c|product[l] = query[l] * k->lost + of_query * (k->length + k->lost);|product[l] = 0x1.9p-17f * query[l] * k->length;|test_close 1 16
what rounding takes off products taken for half of it|src/cpu/sieve_pick.c|product[l] = query[l] * k->lost + of_query|product[l] = 0.4f * query[l] * k->lost + 0.4f * of_query|test_close --worst 1 12
what rounding takes off distances taken for half of it|src/cpu/sieve_pick.c|less[l] = of_query + k->lost;|less[l] = 0.4f * (of_query + k->lost);|test_close --worst 1 12
box of shifts one column short|src/cpu/tile_window.c|(between ? 2 : 1)|1|test_tile 1 20
interpolated l2 without its correction|src/cpu/tile_score.c|bend \&\& y->between ? lower : NULL|NULL|test_tile 1 20
distances never summed anew|src/cpu/tile_pick.c|return tile->planes.bend \&\& (terms < 8|return 0 \&\& (terms < 8|test_tile 1 60
a tap left out of what is summed anew|src/simd/tile_exact_avx512.h|_mm512_mask_add_epi64(below, between_x, below, right)|below|test_tile 1 60
candidates summed anew in another slot|src/simd/tile_exact.h|in->frame[slot] +|in->frame[0] +|test_tile 1 60
bands of keys overlap by a row|src/cpu/match_grad_key.c|.first = band * m->height / bands,|.first = band * m->height / bands - (band > 0),|test_bands 1 16
bands of queries overlap by a row|src/cpu/match_grad_query.c|band.at.first = number * m->height / bands;|band.at.first = number * m->height / bands - (number > 0);|test_bands 1 16
patches at the border add to rows of another band|src/cpu/match_grad_edge.c|if (y < band->first|if (y < 0|test_bands 1 16
slopes at whole pixels beyond the border from the wrong side|src/cpu/match_grad_edge.c|if (in->grid.shape != 3 \&\&|if (in->grid.shape > 3 \&\&|test_grad
rows at the border reach as far as their flow only|src/cpu/match_grad_query.c|low = 0, high = fmax(high, back);|low = 0;|test_bands 1 12
a cut patch without the row above the band|src/cpu/match_grad_key.c|in->key_y - (in->grid.shape >> 1), first|in->key_y, first|test_bands 1 24
patches at the border left out where only their taps below are the band's|src/cpu/match_grad.h|top + m->dilation * (m->ps - 1) + 1);|top + m->dilation * (m->ps - 1) - 1);|test_bands 1 24
planes of frames searched together overwritten|src/cpu/tile.c|tile->planes.frames = held < m->frames ? held : m->frames;|tile->planes.frames = held < m->frames ? held - (tile->together > 1) : m->frames;|test_tile --frames 1 12
bands of sources overlap by a row|src/cpu/scatter.c|first = u % bands * rows;|first = u % bands * rows - (u % bands > 0);|test_bands 1 16
a column too many divided|src/cpu/gather.c|divide = band->right * a->stride0 - before;|divide = band->right * a->stride0 - before + 1;|test_bands 1 40
a column too few cleared|src/cpu/gather.c|* a->stride0 + after + 1, divide|* a->stride0 + after, divide|test_bands 1 40
TV-L1 waves one row too close|src/flow/tvl1_solve.c|band_step(job, s, b, k, front - k, k == count - 1);|band_step(job, s, b, k, front, k == count - 1);|test_flow_solver
TV-L1 bands not exchanged|src/flow/tvl1_solve.c|for (int i = 0; i < s->bands; i++) exchange(s, \&s->band[i]);||test_flow_solver
divergence takes the pixel to the right|src/simd/flow_body.h|PRIMAL(x, p0[x - 1], p2[x - 1]);|PRIMAL(x, p0[x], p2[x]);|test_flow_solver
second derivative of the expansion without its mean|src/flow/farneback.c|(x * x - a) * g|(x * x) * g|test_flow
flow enlarged without being scaled|src/flow/farneback.c|(float)(1 / f->params.pyr_scale)|1|test_flow
TV-L1 flow enlarged without being scaled|src/flow/tvl1.c|s + 1, s, 1 / p->zfactor|s + 1, s, 1|test_flow
DIS flow enlarged without being scaled|src/flow/dis.c|\&coarse[c], 2)|\&coarse[c], 1)|test_flow
a step of descent in the wrong direction|src/flow/dis.c|u -= step[0];|u += step[0];|test_flow
patches that do not try what their neighbours found|src/flow/dis.c|int count = 0;|return 0; int count = 0;|test_flow
patches that follow noise|src/flow/dis_still.c|if (!(s->noise > 0)) return;|return;|test_flow
motion taken for noise|src/flow/dis_still.c|lowest_tenth(rough) / 0.63f|lowest_tenth(rough) * 1e6f|test_flow
a refinement that takes brightness for motion|src/flow/dis.c|even_light(job, e, \&flow[2]);|(void)even_light;|test_flow
round trip read at the wrong place|src/flow/field.c|read_bilinear(backward, py, px, 0)|read_bilinear(backward, (double)y, (double)x, 0)|test_flow
KITTI's components swapped|src/io/image.c|to[c] = from[2] ? ((float)from[c]|to[c] = from[2] ? ((float)from[1 - c]|test_image
end of a PNG not looked for|src/io/png_read.c|png_read_end(png, NULL);||test_image
what bytes lose taken for nothing|src/simd/sieve_vnni.c|    sum->lost = _mm512_fmadd_ps(lost, lost, sum->lost);|    (void)lost;|test_tile --frames 1000 40
the second row of keys taken for the first|src/simd/sieve_scan_vnni.c|*at[2] = {key, key + down};|*at[2] = {key, key};|test_tile --frames 1000 40
the 128 of a query not taken off|src/simd/sieve_vnni.c|said)), 7));|said)), 6));|test_tile --frames 1000 40
an anchor that is not among the best left out|src/cpu/match_anchor.c|        if (at == m->k) at--;|        if (at == m->k) return;|test_ops --op search 1 60
anchors in the wrong order|src/cpu/match_anchor.c|for (int64_t window = m->windows - 1; window >= 0; window--)|for (int64_t window = 0; window < m->windows; window++)|test_ops --op search 1 60
the query itself left in its list|src/cpu/tile_pick.c|number[i * lanes] != (float)self) i++;|number[i * lanes] != (float)(self + 1)) i++;|test_ops --op search 1 60
cells two pixels apart taken for neighbours|src/cpu/match_score.c|at += x->step * c->key.step[3]|at += c->key.step[3]|test_ops --op refine 1 60
a row of a patch left out of its reads|src/cpu/match_score.c|.next_down = m->dilation * down|.next_down = (m->dilation - 1) * down|test_ops --op refine 1 60
SSIM with population covariance|src/metrics/ssim.c|scale = (double)AREA / (AREA - 1);|scale = 1;|test_metrics
LIST
)

number=0 survived=0
while IFS='|' read -r name file text planted test; do
    number=$((number + 1))
    [ $number -ge "${1:-1}" ] && [ $number -le "${2:-${1:-999}}" ] || continue
    case $file in # no build of another architecture looks at these
    *_avx*|*_vnni*|*_amx*) machine=x86_64 ;;
    *_neon*|*_bf16*) machine=aarch64 ;;
    *) machine=$(uname -m) ;;
    esac
    [ "$machine" = "$(uname -m)" ] || { echo "$number: $name: for $machine only"; continue; }
    text=${text//\\&/"&"} planted=${planted//\\&/"&"} # quoted: a bare & is the match itself since bash 5.2
    cp "$copy/$file" "$copy/held"
    grep -qF -- "$text" "$copy/$file" || { echo "$number: $file no longer holds: $text"; survived=1; continue; }
    python3 - "$copy/$file" "$text" "$planted" <<'PLANT'
import sys
path, text, planted = sys.argv[1:]
content = open(path).read()
open(path, "w").write(content.replace(text, planted, 1))
PLANT
    program=${test%% *}
    if ! cmake --build "$copy/build" --target "$program" >"$copy/log" 2>&1; then
        echo "$number: $name: does not compile"; tail -n 5 "$copy/log"; survived=1
    # shellcheck disable=SC2086 # the test's arguments are words
    elif timeout 300 "$copy/build/tests/"$test >"$copy/log" 2>&1; then
        echo "$number: $name: SURVIVED ($test)"; survived=1
    else
        echo "$number: $name: caught by $test ($(tail -n 1 "$copy/log"))"
    fi
    cp "$copy/held" "$copy/$file"
done <<<"$faults"
exit $survived
