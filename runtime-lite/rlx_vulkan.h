// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: models on Vulkan devices. Pasted after rlx_vulkan_commands.h for --target vulkan.
//
// The launches of a model without loops and checks are recorded once, when the context is made, one list for
// each variant of the model; other runs, those for a set of outputs, and timed ones are recorded as they go.
#ifndef RLX_VULKAN_H
#define RLX_VULKAN_H

#include "rlx_vulkan_commands.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- kernels -------------------------------------------------------------------------------------

// A kernel of SPIR-V.
static inline int rlx_vulkan_make_kernel(rlx_vulkan *v, const uint32_t *code, size_t bytes, uint64_t *out)
{
    rlx_vk_module_info module;
    rlx_vk_pipeline_info info;
    uint64_t made = 0;
    int status;
    memset(&module, 0, sizeof module);
    memset(&info, 0, sizeof info);
    module.head.type = 16;
    module.bytes = bytes;
    module.code = code;
    if (v->api.create_module(v->device, &module, NULL, &made) != 0)
        return RLX_VULKAN_FAILED;
    info.head.type = 29;
    info.stage.head.type = 18;
    info.stage.stage = 0x20u;
    info.stage.module = made;
    info.stage.name = "main";
    info.layout = v->layout;
    status = v->api.create_pipelines(v->device, 0, 1, &info, NULL, out);
    v->api.destroy_module(v->device, made, NULL);
    return status == 0 ? RLX_VULKAN_OK : RLX_VULKAN_FAILED;
}

static inline void rlx_vulkan_free_kernel(rlx_vulkan *v, uint64_t kernel)
{
    v->api.destroy_pipeline(v->device, kernel, NULL);
}

// The record in the state block; behind it the functions: kernels, as numbers of 64 bits, then the lists that
// are recorded once, or NULL.
typedef struct rlx_vulkan_record {
    rlx_vulkan device;
    const rlx_gpu_program *program;
    uint32_t n_variants;
    int is_fetching; // outputs of the last run have not come yet
    void **recorded;    // in a run: the list of the variant
    rlx_gpu_span given; // and what it copies
} rlx_vulkan_record;

// The record must fit: an array of -1 elements does not compile.
typedef char rlx_vulkan_fits[sizeof(rlx_vulkan_record) <= RLX_GPU_RECORD ? 1 : -1];

static inline uint64_t *rlx_vulkan_kernels(unsigned char *record)
{
    return (uint64_t *)(void *)(record + RLX_GPU_RECORD);
}

static inline void **rlx_vulkan_lists(rlx_vulkan_record *r)
{
    return (void **)(void *)(rlx_vulkan_kernels((unsigned char *)r) + r->program->n_functions);
}

static inline rlx_status rlx_vulkan_status(int result)
{
    return result == RLX_VULKAN_OK ? RLX_OK : result == RLX_VULKAN_NONE ? RLX_ERR_NO_DEVICE : RLX_ERR_DEVICE;
}

static inline void rlx_vulkan_free_kernels(rlx_vulkan *v, const uint64_t *kernels, uint32_t n)
{
    uint32_t i;
    for (i = 0; i < n; i++)
        rlx_vulkan_free_kernel(v, kernels[i]);
}

// --- times ---------------------------------------------------------------------------------------

// The run that begins is timed.
static inline int rlx_vulkan_time(rlx_vulkan *v, int is_timed)
{
    rlx_vk_query_info info;
    memset(&info, 0, sizeof info);
    info.head.type = 11;
    info.kind = 2; // timestamps
    info.count = 2;
    v->is_timed = is_timed && v->timestamp_bits != 0;
    if (v->is_timed && v->queries == 0 &&
        v->api.create_queries(v->device, &info, NULL, &v->queries) != 0)
        return RLX_VULKAN_FAILED;
    return RLX_VULKAN_OK;
}

// Nanoseconds of the last launch, which has ended.
static inline double rlx_vulkan_spent(const rlx_vulkan *v)
{
    uint64_t at[2] = {0, 0}, properties[RLX_VK_PROPERTIES];
    float period = 0;
    if (!v->is_timed || v->api.query(v->device, v->queries, 0, 2, sizeof at, at, sizeof *at, 3) != 0)
        return 0;
    v->instance_api.properties(v->physical, properties);
    memcpy(&period, (const unsigned char *)properties + RLX_VK_TIMESTAMP_PERIOD, sizeof period);
    at[1] -= at[0];
    if (v->timestamp_bits < 64u)
        at[1] &= ((uint64_t)1 << v->timestamp_bits) - 1u;
    return (double)at[1] * (double)period;
}

// --- rlx_gpu_driver ------------------------------------------------------------------------------

// self: the record.
static inline rlx_status rlx_vulkan_do_launch(void *self, const rlx_gpu_step *step, const uint64_t *args)
{
    rlx_vulkan_record *const r = (rlx_vulkan_record *)self;
    const uint64_t kernel = rlx_vulkan_kernels((unsigned char *)self)[step->function];
    return rlx_vulkan_status(rlx_vulkan_launch(&r->device, kernel, step->groups, args, step->n_args));
}

static inline rlx_status rlx_vulkan_do_clear(void *self, uint64_t address, uint64_t bytes)
{
    return rlx_vulkan_status(rlx_vulkan_clear(&((rlx_vulkan_record *)self)->device, address, bytes));
}

static inline rlx_status rlx_vulkan_do_write(void *self, uint64_t address, const void *data, size_t bytes)
{
    return rlx_vulkan_status(rlx_vulkan_write(&((rlx_vulkan_record *)self)->device, address, data, bytes));
}

static inline rlx_status rlx_vulkan_do_read(void *self, void *data, uint64_t address, size_t bytes)
{
    return rlx_vulkan_status(rlx_vulkan_read(&((rlx_vulkan_record *)self)->device, data, address, bytes));
}

static inline rlx_status rlx_vulkan_do_wait(void *self)
{
    return rlx_vulkan_status(rlx_vulkan_wait(&((rlx_vulkan_record *)self)->device));
}

static inline void rlx_vulkan_do_barrier(void *self)
{
    rlx_vulkan_barrier(&((rlx_vulkan_record *)self)->device);
}

// Lists that are made once are of one piece.
static inline rlx_status rlx_vulkan_do_submit(void *self)
{
    rlx_vulkan *const v = &((rlx_vulkan_record *)self)->device;
    if (v->commands != v->lists[0] && v->commands != v->lists[1])
        return RLX_OK;
    return rlx_vulkan_status(rlx_vulkan_submit(v));
}

static inline double rlx_vulkan_do_spent(void *self)
{
    return rlx_vulkan_spent(&((rlx_vulkan_record *)self)->device);
}

static inline rlx_gpu_frame rlx_vulkan_frame(rlx_ctx *ctx, rlx_vulkan_record *r)
{
    static const rlx_gpu_driver driver = {rlx_vulkan_do_launch, rlx_vulkan_do_clear, rlx_vulkan_do_write,
                                          rlx_vulkan_do_read,   rlx_vulkan_do_wait,  rlx_vulkan_do_barrier,
                                          rlx_vulkan_do_submit, rlx_vulkan_do_spent, NULL};
    void **const behind = rlx_vulkan_lists(r) + r->n_variants;
    return rlx_gpu_begin(ctx, &driver, r, r->device.address, (uint64_t *)(void *)behind);
}

// --- contexts ------------------------------------------------------------------------------------

// What a recorded run copies to where the host reads fast, as bytes of the device's memory: all that the host
// takes, if that fits and is more than it reads fast as it is.
static inline rlx_gpu_span rlx_vulkan_given(const rlx_model *model, const rlx_vulkan_record *r)
{
    rlx_gpu_span given = {0, 0};
    rlx_ctx ctx;
    int is_waste = 0;
    memset(&ctx, 0, sizeof ctx);
    ctx.model = model;
    if (r->device.stage != NULL && model->symbols == NULL)
        given = rlx_gpu_whole(&ctx, 1, &is_waste);
    if (is_waste || given.end - given.begin > RLX_VULKAN_STAGE ||
        (r->device.host != NULL && given.end - given.begin <= RLX_VULKAN_FEW))
        given.begin = given.end = 0;
    given.begin += (size_t)rlx_gpu_program_of(model)->block;
    given.end += (size_t)rlx_gpu_program_of(model)->block;
    return given;
}

// The launches of a variant as a list; NULL: they are recorded in every run.
static inline void *rlx_vulkan_record_list(const rlx_model *model, rlx_vulkan_record *r)
{
    const rlx_gpu_span given = rlx_vulkan_given(model, r);
    rlx_vulkan *const v = &r->device;
    rlx_ctx ctx;
    rlx_gpu_frame f;
    rlx_status status;
    void *list = NULL;
    memset(&ctx, 0, sizeof ctx);
    ctx.model = model;
    if (!rlx_gpu_is_straight(model, 0) || rlx_vulkan_make_list(v, &list) != RLX_VULKAN_OK ||
        rlx_vulkan_begin_list(v, list, 4) != RLX_VULKAN_OK)
        return NULL;
    f = rlx_vulkan_frame(&ctx, r);
    status = rlx_gpu_steps(&f, f.program->n_prepare, f.program->n_steps);
    if (status == RLX_OK && given.begin != given.end)
        status = rlx_vulkan_status(rlx_vulkan_give(v, given.begin, given.end - given.begin));
    if (rlx_vulkan_end_list(v) != RLX_VULKAN_OK || status != RLX_OK)
        list = NULL;
    v->commands = v->lists[0];
    return list;
}

// The code of a function: those with cooperative matrices are behind the others. Those of bf16 have their
// kind plus RLX_VULKAN_BF16.
#define RLX_VULKAN_BF16 65536u
static inline const rlx_gpu_image *rlx_vulkan_image(const rlx_vulkan_record *r, uint32_t function)
{
    const rlx_gpu_program *const p = r->program;
    const uint32_t of_bf16 = r->device.has_bf16 ? function + RLX_VULKAN_BF16 : function;
    uint32_t i;
    for (i = p->n_functions; r->device.has_coop && i < p->n_images; i++)
        if (p->images[i].kind == function || p->images[i].kind == of_bf16)
            return &p->images[i];
    return &p->images[function];
}

static inline int rlx_vulkan_fill(const rlx_model *model, rlx_vulkan_record *r, unsigned char *record,
                                  const void *weights)
{
    const rlx_gpu_program *const p = r->program;
    uint64_t *const kernels = rlx_vulkan_kernels(record);
    uint32_t i, n = 0;
    int status = RLX_VULKAN_OK;
    for (i = 0; i < p->n_functions && status == RLX_VULKAN_OK; i++) {
        const rlx_gpu_image *const image = rlx_vulkan_image(r, i);
        uint64_t kernel = 0;
        status = rlx_vulkan_make_kernel(&r->device, (const uint32_t *)image->data, image->bytes, &kernel);
        if (status == RLX_VULKAN_OK)
            kernels[n++] = kernel;
        else
            status = RLX_VULKAN_NONE; // the device lacks what a kernel needs
    }
    if (status == RLX_VULKAN_OK)
        status = rlx_vulkan_write(&r->device, r->device.address + p->weights, weights,
                                  model->weight_bytes - model->weights_seal);
    if (status != RLX_VULKAN_OK)
        rlx_vulkan_free_kernels(&r->device, kernels, n);
    return status;
}

// The record is written when nothing can fail any more; the kernels stand behind it already.
static inline rlx_status rlx_vulkan_open(const rlx_model *model, unsigned char *arena, unsigned char *record,
                                         const void *weights, uint32_t ordinal)
{
    rlx_vulkan_record r, *const own = (rlx_vulkan_record *)(void *)record;
    uint32_t i;
    int status;
    (void)arena;
    memset(&r, 0, sizeof r);
    r.program = rlx_gpu_program_of(model);
    r.n_variants = model->buckets != NULL ? model->buckets->n : 1u;
    status = rlx_vulkan_begin(&r.device, ordinal, r.program->bytes);
    if (status != RLX_VULKAN_OK)
        return rlx_vulkan_status(status);
    status = rlx_vulkan_fill(model, &r, record, weights);
    if (status != RLX_VULKAN_OK) {
        rlx_vulkan_end(&r.device);
        return rlx_vulkan_status(status);
    }
    memcpy(record, &r, sizeof r);
    for (i = 0; i < r.n_variants; i++)
        rlx_vulkan_lists(own)[i] =
            rlx_vulkan_record_list(model->buckets != NULL ? model->buckets->models[i] : model, own);
    return RLX_OK;
}

static inline rlx_vulkan_record *rlx_vulkan_of(const rlx_ctx *ctx)
{
    return (rlx_vulkan_record *)(void *)(ctx->state + ctx->model->device->record);
}

static inline void rlx_vulkan_close(const rlx_ctx *ctx)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    (void)rlx_vulkan_wait(&r->device);
    rlx_vulkan_free_kernels(&r->device, rlx_vulkan_kernels((unsigned char *)r), r->program->n_functions);
    rlx_vulkan_end(&r->device);
}

static inline rlx_status rlx_vulkan_bring(const rlx_ctx *ctx, uint64_t to, const void *data, size_t bytes)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    return rlx_vulkan_status(rlx_vulkan_write(&r->device, r->device.address + to, data, bytes));
}

static inline rlx_status rlx_vulkan_get(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    return rlx_vulkan_status(rlx_vulkan_read(&r->device, ctx->state + offset,
                                             r->device.address + r->program->state + offset, bytes));
}

static inline rlx_status rlx_vulkan_fetch_part(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    const uint64_t from = r->device.address + rlx_gpu_program_of(ctx->model)->block + offset;
    return rlx_vulkan_status(rlx_vulkan_read(&r->device, ctx->arena + offset, from, bytes));
}

static inline rlx_status rlx_vulkan_move(const rlx_ctx *ctx, const rlx_pieces *p)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    const rlx_gpu_program *const program = rlx_gpu_program_of(ctx->model);
    return rlx_vulkan_status(
        rlx_vulkan_move_pieces(&r->device, program->state + p->to, program->block + p->from, p));
}

// --- runs ----------------------------------------------------------------------------------------

static inline rlx_status rlx_vulkan_submit_all(void *self)
{
    rlx_vulkan_record *const r = (rlx_vulkan_record *)self;
    rlx_vulkan *const v = &r->device;
    int status = rlx_vulkan_submit(v);
    if (status == RLX_VULKAN_OK)
        status = rlx_vulkan_submit_list(v, r->recorded);
    if (status == RLX_VULKAN_OK) {
        v->staged = r->given.begin;
        v->staged_bytes = r->given.end - r->given.begin;
    }
    return rlx_vulkan_status(status);
}

// What was fetched comes when it is there.
static inline rlx_status rlx_vulkan_collect(rlx_ctx *ctx, rlx_vulkan_record *r)
{
    const rlx_gpu_frame f = rlx_vulkan_frame(ctx, r);
    const rlx_status status = r->is_fetching ? rlx_gpu_take_outputs(&f) : RLX_OK;
    r->is_fetching = 0;
    return status;
}

// Inputs are taken before it returns, as the outputs of the run before.
static inline rlx_status rlx_vulkan_start(rlx_ctx *ctx, rlx_turn turn)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    const rlx_gpu_frame f = rlx_vulkan_frame(ctx, r);
    void **const list = &rlx_vulkan_lists(r)[ctx->model->bucket];
    const int is_recorded = *list != NULL && ctx->outputs == 0 && ctx->profile == NULL;
    rlx_status status = rlx_vulkan_collect(ctx, r);
    (void)turn;
    r->recorded = list;
    r->given = rlx_vulkan_given(ctx->model, r);
    if (status == RLX_OK)
        status = rlx_vulkan_status(rlx_vulkan_time(&r->device, rlx_gpu_is_timed(ctx)));
    if (status == RLX_OK)
        status = rlx_gpu_give_inputs(&f);
    if (status == RLX_OK)
        status = rlx_gpu_compute(&f, is_recorded ? rlx_vulkan_submit_all : NULL);
    if (status == RLX_OK)
        status = rlx_vulkan_status(rlx_vulkan_submit(&r->device));
    if (status != RLX_OK)
        (void)rlx_vulkan_wait(&r->device);
    return status;
}

static inline rlx_status rlx_vulkan_fetch(rlx_ctx *ctx)
{
    rlx_vulkan_of(ctx)->is_fetching = 1;
    return RLX_OK;
}

static inline rlx_status rlx_vulkan_wait_for(rlx_ctx *ctx, rlx_awaited what, int *is_done)
{
    rlx_vulkan_record *const r = rlx_vulkan_of(ctx);
    if (is_done != NULL)
        *is_done = what == RLX_WAIT_INPUTS || rlx_vulkan_has_ended(&r->device, r->device.submitted);
    return is_done != NULL || what == RLX_WAIT_INPUTS ? RLX_OK : rlx_vulkan_collect(ctx, r);
}

#ifdef __cplusplus
}
#endif

#endif
