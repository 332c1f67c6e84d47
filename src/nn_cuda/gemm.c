/* gemm.c: products of matrices by cuBLAS. */
#include "nn_cuda/shared.h"

static cudaDataType_t type_of(int32_t dtype) { return dtype == SNLS_BF16 ? CUDA_R_16BF : CUDA_R_32F; }

/* cuBLAS stores by columns: it is asked for the transposed product, b's transpose times a's. */
SnlsStatus snls_nn_cuda_product(SnlsContext *ctx, NnCudaShared *shared, const Product *p)
{
    const float alpha = 1, beta = p->add ? 1 : 0;
    const cublasStatus_t status =
        cublasGemmEx_64(shared->cublas, p->b_by_columns ? CUBLAS_OP_T : CUBLAS_OP_N, p->a_by_columns ? CUBLAS_OP_T : CUBLAS_OP_N, p->n, p->m, p->k, &alpha, p->b, type_of(p->dtype),
                        p->b_by_columns ? p->k : p->n, p->a, type_of(p->dtype), p->a_by_columns ? p->m : p->k, &beta, p->c, type_of(p->c_dtype), p->n, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
    SNLS_REQUIRE(ctx, status == CUBLAS_STATUS_SUCCESS, SNLS_ERR_DEVICE, "network: cuBLAS says %s to a product of %lldx%lldx%lld", cublasGetStatusString(status), (long long)p->m,
                 (long long)p->n, (long long)p->k);
    return SNLS_OK;
}
