/* dnnl_api.h: what versions 2 and 3 of oneDNN's C API call differently. Descriptions of memory are structs in 2 and handles in 3; here they have an owner in both. */
#ifndef SNLS_NN_DNNL_API_H
#define SNLS_NN_DNNL_API_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

typedef dnnl_memory_desc_t DnnlDesc; /* made empty, as { 0 }; let go of by snls_dnnl_desc_free */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t DnnlView; /* what functions take, and what a primitive's description lends */
#else
typedef const dnnl_memory_desc_t *DnnlView;
#endif

DnnlView      snls_dnnl_view(const DnnlDesc *desc);
dnnl_status_t snls_dnnl_desc_tag(DnnlDesc *desc, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag);
dnnl_status_t snls_dnnl_desc_strides(DnnlDesc *desc, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides);
dnnl_status_t snls_dnnl_desc_copy(DnnlDesc *to, DnnlView from);
void          snls_dnnl_desc_free(DnnlDesc *desc);

dnnl_status_t snls_dnnl_post_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha);
dnnl_status_t snls_dnnl_post_sum(dnnl_post_ops_t ops);

/* A convolution without dilation, padded alike at both ends, or by `transposed` a deconvolution. Gradients take descriptions of what they are the gradient of. */
typedef struct DnnlConvPlan {
    dnnl_engine_t                engine;
    const_dnnl_primitive_attr_t  attr;
    const_dnnl_primitive_desc_t  forward; /* gradients: a hint */
    DnnlView                     in, weight, bias, out; /* bias: NULL for none */
    const dnnl_dim_t            *stride, *pad; /* two each */
    bool                         transposed, training;
} DnnlConvPlan;

dnnl_status_t snls_dnnl_plan_forward(dnnl_primitive_desc_t *made, const DnnlConvPlan *plan);
dnnl_status_t snls_dnnl_plan_by_data(dnnl_primitive_desc_t *made, const DnnlConvPlan *plan);
dnnl_status_t snls_dnnl_plan_by_weights(dnnl_primitive_desc_t *made, const DnnlConvPlan *plan);

#endif
