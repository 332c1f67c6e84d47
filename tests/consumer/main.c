/* A program of somebody else: built against the installed library, shared and static. */
#include <snls/snls.h>
#include <stdio.h>

int main(void)
{
    SnlsContext *ctx = NULL;
    if (snls_api_version() != SNLS_API_VERSION) return 1;
    if (snls_open(&ctx, NULL) < 0) return 2;
    printf("snls %s, backend %s\n", snls_version(), snls_backend_name(ctx));
    snls_close(&ctx);
    return ctx ? 3 : 0;
}
