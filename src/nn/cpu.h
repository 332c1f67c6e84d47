/* cpu.h: layers of backend cpu that are our own: rows of f32, or of bf16 that become f32 one row at a time. */
#ifndef SNLS_NN_CPU_H
#define SNLS_NN_CPU_H

#include "nn/nn.h"
#include <string.h>

NnFunction snls_nn_cpu_conv_forward, snls_nn_cpu_conv_backward;
void       snls_nn_cpu_release(SnlsContext *ctx, NnStep *step);
int64_t    snls_nn_cpu_room(SnlsContext *ctx, const NnStep *step);
int64_t    snls_nn_cpu_own(const NnStep *step);
bool       snls_nn_cpu_conv_by_blas(void); /* some convolutions are */

NnFunction snls_nn_cpu_norm_forward, snls_nn_cpu_norm_backward, snls_nn_cpu_act_forward, snls_nn_cpu_act_backward;
NnFunction snls_nn_cpu_eca_forward, snls_nn_cpu_eca_backward, snls_nn_cpu_add_forward, snls_nn_cpu_add_backward;
NnFunction snls_nn_cpu_attend_forward, snls_nn_cpu_attend_backward, snls_nn_cpu_gather_forward;
NnFunction snls_nn_cpu_shuffle_forward, snls_nn_cpu_concat_forward, snls_nn_cpu_pad_forward, snls_nn_cpu_pool_forward;
NnFunction snls_nn_cpu_shuffle_backward, snls_nn_cpu_concat_backward, snls_nn_cpu_pad_backward, snls_nn_cpu_pool_backward;

/* n elements of t from number at, as f32: where they lie, or converted into room. */
static inline const float *snls_nn_row(const SnlsTensor *t, int64_t at, int64_t n, float *room)
{
    if (t->dtype == SNLS_F32) return (const float *)t->data + at;
    const uint16_t *from = (const uint16_t *)t->data + at;
    for (int64_t i = 0; i < n; i++) room[i] = snls_bf16_to_float(from[i]);
    return room;
}

static inline void snls_nn_put_row(const SnlsTensor *t, int64_t at, int64_t n, const float *row)
{
    if (t->dtype == SNLS_F32) {
        memcpy((float *)t->data + at, row, (size_t)n * sizeof *row);
        return;
    }
    uint16_t *to = (uint16_t *)t->data + at;
    for (int64_t i = 0; i < n; i++) { /* round to nearest even; a NaN stays one */
        const uint32_t u = snls_float_bits(row[i]);
        to[i] = (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40 : (u + 0x7fffu + (u >> 16 & 1)) >> 16);
    }
}

#endif
