/* stan_s_stream.h: STAN-S frame after frame, in memory that depends on the size of a frame alone. */
#ifndef SNLS_STAN_S_STREAM_H
#define SNLS_STAN_S_STREAM_H

#include "model/model.h"

enum { STAN_S_WT_MOST = 2 };

typedef struct StanSStream StanSStream;

bool       snls_stan_s_streams(const SnlsModel *m); /* this network, on this processor */
SnlsStatus snls_stan_s_stream_open(StanSStream **s, SnlsModel *m, const SnlsModelStreamParams *p); /* what a failure leaves in *s is the caller's to close */
int64_t    snls_stan_s_stream_memory(SnlsModel *m, const SnlsModelStreamParams *p);                /* bytes, -1: a size that cannot be */
SnlsStatus snls_stan_s_stream_push(StanSStream *s, const float *pixels, double sigma);
SnlsStatus snls_stan_s_stream_finish(StanSStream *s);
SnlsStatus snls_stan_s_stream_pull(StanSStream *s, float *out); /* NULL: past the frame */
void       snls_stan_s_stream_restart(StanSStream *s); /* forgets what was pushed */
int64_t    snls_stan_s_stream_delay(const StanSStream *s);
void       snls_stan_s_stream_close(StanSStream **s);

#endif
