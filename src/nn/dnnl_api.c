/* dnnl_api.c: oneDNN's C API as version 2 has it, and as version 3 has it. */
#ifdef SNLS_HAVE_DNNL
#include "nn/dnnl_api.h"

static dnnl_prop_kind_t kind_of(const DnnlConvPlan *p) { return p->training ? dnnl_forward_training : dnnl_forward_inference; }

#if DNNL_VERSION_MAJOR >= 3

DnnlView snls_dnnl_view(const DnnlDesc *desc) { return *desc; }

dnnl_status_t snls_dnnl_desc_tag(DnnlDesc *desc, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(desc, ndims, dims, type, tag);
}

dnnl_status_t snls_dnnl_desc_strides(DnnlDesc *desc, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(desc, ndims, dims, type, strides);
}

dnnl_status_t snls_dnnl_desc_copy(DnnlDesc *to, DnnlView from) { return dnnl_memory_desc_clone(to, from); }

void snls_dnnl_desc_free(DnnlDesc *desc)
{
    if (*desc) dnnl_memory_desc_destroy(*desc);
    *desc = NULL;
}

dnnl_status_t snls_dnnl_post_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha) { return dnnl_post_ops_append_eltwise(ops, kind, alpha, 0); }
dnnl_status_t snls_dnnl_post_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef); }

static const dnnl_dims_t undilated = { 0 };

dnnl_status_t snls_dnnl_plan_forward(dnnl_primitive_desc_t *made, const DnnlConvPlan *p)
{
    if (p->transposed)
        return dnnl_deconvolution_forward_primitive_desc_create(made, p->engine, kind_of(p), dnnl_deconvolution_direct, p->in, p->weight, p->bias, p->out, p->stride, undilated, p->pad, p->pad, p->attr);
    return dnnl_convolution_forward_primitive_desc_create(made, p->engine, kind_of(p), dnnl_convolution_direct, p->in, p->weight, p->bias, p->out, p->stride, undilated, p->pad, p->pad, p->attr);
}

dnnl_status_t snls_dnnl_plan_by_data(dnnl_primitive_desc_t *made, const DnnlConvPlan *p)
{
    if (p->transposed)
        return dnnl_deconvolution_backward_data_primitive_desc_create(made, p->engine, dnnl_deconvolution_direct, p->in, p->weight, p->out, p->stride, undilated, p->pad, p->pad, p->forward, p->attr);
    return dnnl_convolution_backward_data_primitive_desc_create(made, p->engine, dnnl_convolution_direct, p->in, p->weight, p->out, p->stride, undilated, p->pad, p->pad, p->forward, p->attr);
}

dnnl_status_t snls_dnnl_plan_by_weights(dnnl_primitive_desc_t *made, const DnnlConvPlan *p)
{
    if (p->transposed)
        return dnnl_deconvolution_backward_weights_primitive_desc_create(made, p->engine, dnnl_deconvolution_direct, p->in, p->weight, p->bias, p->out, p->stride, undilated, p->pad, p->pad, p->forward, p->attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(made, p->engine, dnnl_convolution_direct, p->in, p->weight, p->bias, p->out, p->stride, undilated, p->pad, p->pad, p->forward, p->attr);
}

#else

DnnlView snls_dnnl_view(const DnnlDesc *desc) { return desc; }

dnnl_status_t snls_dnnl_desc_tag(DnnlDesc *desc, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(desc, ndims, dims, type, tag);
}

dnnl_status_t snls_dnnl_desc_strides(DnnlDesc *desc, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(desc, ndims, dims, type, strides);
}

dnnl_status_t snls_dnnl_desc_copy(DnnlDesc *to, DnnlView from)
{
    *to = *from;
    return dnnl_success;
}

void snls_dnnl_desc_free(DnnlDesc *desc) { (void)desc; }

dnnl_status_t snls_dnnl_post_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float alpha) { return dnnl_post_ops_append_eltwise(ops, 1, kind, alpha, 0); }
dnnl_status_t snls_dnnl_post_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1); }

/* A deconvolution's description is the same struct as a convolution's. */
static dnnl_status_t plan(dnnl_primitive_desc_t *made, const DnnlConvPlan *p, dnnl_status_t described, const dnnl_convolution_desc_t *desc)
{
    return described == dnnl_success ? dnnl_primitive_desc_create(made, desc, p->attr, p->engine, p->forward) : described;
}

dnnl_status_t snls_dnnl_plan_forward(dnnl_primitive_desc_t *made, const DnnlConvPlan *p)
{
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = p->transposed
        ? dnnl_deconvolution_forward_desc_init(&desc, kind_of(p), dnnl_deconvolution_direct, p->in, p->weight, p->bias, p->out, p->stride, p->pad, p->pad)
        : dnnl_convolution_forward_desc_init(&desc, kind_of(p), dnnl_convolution_direct, p->in, p->weight, p->bias, p->out, p->stride, p->pad, p->pad);
    return plan(made, p, status, &desc);
}

dnnl_status_t snls_dnnl_plan_by_data(dnnl_primitive_desc_t *made, const DnnlConvPlan *p)
{
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = p->transposed
        ? dnnl_deconvolution_backward_data_desc_init(&desc, dnnl_deconvolution_direct, p->in, p->weight, p->out, p->stride, p->pad, p->pad)
        : dnnl_convolution_backward_data_desc_init(&desc, dnnl_convolution_direct, p->in, p->weight, p->out, p->stride, p->pad, p->pad);
    return plan(made, p, status, &desc);
}

dnnl_status_t snls_dnnl_plan_by_weights(dnnl_primitive_desc_t *made, const DnnlConvPlan *p)
{
    dnnl_convolution_desc_t desc;
    const dnnl_status_t status = p->transposed
        ? dnnl_deconvolution_backward_weights_desc_init(&desc, dnnl_deconvolution_direct, p->in, p->weight, p->bias, p->out, p->stride, p->pad, p->pad)
        : dnnl_convolution_backward_weights_desc_init(&desc, dnnl_convolution_direct, p->in, p->weight, p->bias, p->out, p->stride, p->pad, p->pad);
    return plan(made, p, status, &desc);
}

#endif
#else
typedef int snls_nn_no_dnnl_api; /* a file must hold something */
#endif
