// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: models on NVIDIA GPUs, through the driver (libcuda), which is looked for when a context is
// made: nothing is linked. Pasted after rlx_cuda_queue.h for --target cuda.
//
// A context has a module, a stream and one block of device memory of its own, on the first device of the
// process (CUDA_VISIBLE_DEVICES) or another one (rlx_init_on), in its primary context. Contexts may be used
// by any thread, one at a time, but not by the children of a process that has loaded the driver.
#ifndef RLX_CUDA_H
#define RLX_CUDA_H

#include "rlx_cuda_devices.h"
#include "rlx_cuda_queue.h"

#ifdef __cplusplus
extern "C" {
#endif

// A byte for memory that nobody has written. No result depends on it: tests have 255 there, which is NaN.
#ifndef RLX_CUDA_FILL
#define RLX_CUDA_FILL 0
#endif

#define RLX_CUDA_PITCH 0x7fffffffu

// --- tensor maps ---------------------------------------------------------------------------------

// CUtensorMap of a map of the program; its type only says how long an element is.
static inline rlx_status rlx_cuda_encode(const rlx_cuda *c, const rlx_gpu_program *p, const rlx_gpu_map *m,
                                         void *out)
{
    typedef int encode_function(void *out, int type, uint32_t rank, void *address, const uint64_t *dim,
                                const uint64_t *stride, const uint32_t *box, const uint32_t *step,
                                int interleave, int swizzle, int promotion, int fill);
    typedef int image_function(void *out, int type, uint32_t rank, void *address, const uint64_t *dim,
                               const uint64_t *stride, const int *low, const int *high, uint32_t channels,
                               uint32_t pixels, const uint32_t *step, int interleave, int swizzle,
                               int promotion, int fill);
    const int is_image = m->step[0] != 0;
    const uint32_t step[5] = {1, is_image ? m->step[0] : 1, is_image ? m->step[1] : 1, 1, 1};
    void *const found = dlsym(c->library, is_image ? "cuTensorMapEncodeIm2col" : "cuTensorMapEncodeTiled");
    const int type = m->element_bytes == 1 ? 0 : m->element_bytes == 2 ? 1 : 2; // UINT8, UINT16, UINT32
    const int swizzle = m->swizzle == 128 ? 3 : m->swizzle == 64 ? 2 : m->swizzle == 32 ? 1 : 0;
    uint64_t address = c->memory + m->at.offset;
    encode_function *encode;
    image_function *encode_image;
    if (found == NULL)
        return RLX_ERR_NO_DEVICE;
    memcpy(&encode, &found, sizeof encode);
    memcpy(&encode_image, &found, sizeof encode_image);
    address += m->at.base == (uint32_t)RLX_GPU_STATE     ? p->state
               : m->at.base == (uint32_t)RLX_GPU_WEIGHTS ? p->weights
                                                         : 0u;
    if (is_image)
        return rlx_cuda_status(encode_image(out, type, m->rank, (void *)(uintptr_t)address, m->dim,
                                            m->stride + 1, m->low, m->high, m->box[0], m->box[1], step, 0,
                                            swizzle, 3, 0));
    return rlx_cuda_status(encode(out, type, m->rank, (void *)(uintptr_t)address, m->dim, m->stride + 1,
                                  m->box, step, 0, swizzle, 3, 0));
}

// The maps of one variant. GPUs before Hopper have no copy engine, and code for them reads no maps.
static inline rlx_status rlx_cuda_put_maps(const rlx_cuda *c, const rlx_gpu_program *p)
{
    uint64_t room[2 * RLX_GPU_MAP_BYTES / sizeof(uint64_t)];
    unsigned char *const out =
        (unsigned char *)room + (RLX_GPU_MAP_BYTES - (uintptr_t)room % RLX_GPU_MAP_BYTES) % RLX_GPU_MAP_BYTES;
    rlx_status status = RLX_OK;
    uint32_t i;
    int major = 0;
    if (p->n_maps == 0 || c->api.attribute(&major, 75, c->device) != 0 || major < 9)
        return RLX_OK;
    for (i = 0; i < p->n_maps && status == RLX_OK; i++) {
        memset(out, 0, RLX_GPU_MAP_BYTES);
        status = rlx_cuda_encode(c, p, &p->maps[i], out);
        if (status == RLX_OK &&
            (c->api.write(c->memory + p->maps_at + (uint64_t)i * RLX_GPU_MAP_BYTES, out, RLX_GPU_MAP_BYTES,
                          c->stream) != 0 ||
             c->api.stream_wait(c->stream) != 0))
            status = RLX_ERR_DEVICE;
    }
    return status;
}

// Gives back what there is. The driver itself stays loaded: it does not like to be unloaded.
static inline void rlx_cuda_end(rlx_cuda *c)
{
    void *before;
    if (c->stream != NULL) {
        c->api.stream_wait(c->stream);
        c->api.stream_destroy(c->stream);
    }
    if (c->taken != NULL)
        c->api.event_destroy(c->taken);
    if (c->fetched != NULL)
        c->api.event_destroy(c->fetched);
    if (c->begun != NULL)
        c->api.event_destroy(c->begun);
    if (c->ended != NULL)
        c->api.event_destroy(c->ended);
    if (c->used[0] != NULL)
        c->api.event_destroy(c->used[0]);
    if (c->used[1] != NULL)
        c->api.event_destroy(c->used[1]);
    if (c->stage != NULL)
        c->api.release_pinned(c->stage);
    if (c->pinned != NULL)
        c->api.unpin(c->pinned);
    if (c->memory != 0)
        c->api.release_memory(c->memory);
    if (c->loops != NULL)
        c->api.unload(c->loops);
    if (c->module != NULL)
        c->api.unload(c->module);
    if (c->context != NULL) {
        c->api.pop(&before);
        c->api.release(c->device);
    }
}

// What goes around loops, where the driver can and there are any. image: NULL: none.
static inline void rlx_cuda_find_loops(rlx_cuda *c, const rlx_gpu_image *image)
{
    if (image == NULL || c->api.graph_condition == NULL || c->api.graph_node == NULL ||
        c->api.load(&c->loops, image->data) != 0) {
        c->loops = NULL;
        return;
    }
    if (c->api.function(&c->loop_begin, c->loops, "rlx_loop_begin") == 0 &&
        c->api.function(&c->loop_next, c->loops, "rlx_loop_next") == 0 &&
        c->api.function(&c->loop_clear, c->loops, "rlx_loop_clear") == 0)
        return;
    c->api.unload(c->loops);
    c->loops = NULL;
}

// The device of that number and its context, which is current afterwards.
static inline rlx_status rlx_cuda_begin(rlx_cuda *c, const rlx_gpu_program *p, uint32_t ordinal)
{
    int major = 0, minor = 0, shared = 0;
    const rlx_gpu_image *image;
    c->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (c->library == NULL || rlx_cuda_find(&c->api, c->library) != RLX_OK || c->api.init(0) != 0 ||
        c->api.device_get(&c->device, (int)ordinal) != 0 || c->api.attribute(&major, 75, c->device) != 0 ||
        c->api.attribute(&minor, 76, c->device) != 0 ||
        c->api.attribute(&shared, 97, c->device) != 0)
        return RLX_ERR_NO_DEVICE;
    c->shared_bytes = (unsigned)shared;
    image = rlx_cuda_image(p, 0, major, minor);
    if (image == NULL && p->n_functions != 0)
        return RLX_ERR_NO_DEVICE;
    if (c->api.retain(&c->context, c->device) != 0) {
        c->context = NULL;
        return RLX_ERR_DEVICE;
    }
    if (c->api.push(c->context) != 0) {
        c->api.release(c->device);
        c->context = NULL;
        return RLX_ERR_DEVICE;
    }
    if (image == NULL) // nothing is computed
        return RLX_OK;
    // The text of kernels waits where it was compiled for these GPUs; PTX is of earlier ones.
    c->is_programmatic = (image->kind & (RLX_CUDA_EXACT - 1u)) >= 90u && c->api.graph_programmatic != NULL;
    if (c->api.load(&c->module, image->data) != 0)
        return RLX_ERR_NO_DEVICE;
    rlx_cuda_find_loops(c, rlx_cuda_image(p, RLX_CUDA_LOOPS, major, minor));
    return RLX_OK;
}

static inline rlx_status rlx_cuda_fill(rlx_cuda *c, const rlx_model *model, const rlx_gpu_program *p,
                                       const void *weights)
{
    void *function;
    uint64_t filled;
    uint32_t i;
    for (i = 0; i < p->n_functions; i++)
        if (c->api.function(&function, c->module, p->functions[i]) != 0)
            return RLX_ERR_NO_DEVICE;
    if (c->api.stream_create(&c->stream, 1u) != 0 || c->api.event_create(&c->taken, 2u) != 0 ||
        c->api.event_create(&c->fetched, 2u) != 0 || c->api.alloc(&c->memory, (size_t)p->bytes) != 0)
        return RLX_ERR_DEVICE;
    // What no run writes comes from nobody else: bytes between outputs are copied with them, and where sizes
    // are open kernels also load what lies behind the live elements, which reaches no result.
    filled = model->symbols != NULL ? 0 : p->block;
    if (p->state != filled &&
        c->api.fill(c->memory + filled, RLX_CUDA_FILL, (size_t)(p->state - filled), c->stream) != 0)
        return RLX_ERR_DEVICE;
    if (model->weight_bytes != 0 &&
        c->api.write(c->memory + p->weights, weights, model->weight_bytes - model->weights_seal,
                     c->stream) != 0)
        return RLX_ERR_DEVICE;
    for (i = 0; i < c->n_variants; i++) {
        const rlx_model *const m = model->buckets != NULL ? model->buckets->models[i] : model;
        const rlx_status status = rlx_cuda_put_maps(c, rlx_gpu_program_of(m));
        if (status != RLX_OK)
            return status;
    }
    return rlx_cuda_status(c->api.stream_wait(c->stream));
}

// Small blocks are copied by a kernel, where the device sees the host's memory at the host's addresses.
static inline void rlx_cuda_find_copier(rlx_cuda *c, const rlx_model *model)
{
    enum { SAME_ADDRESSES = 91, MOST = 1 << 20 };
    int is_same = 0;
    if (c->pinned == NULL || c->module == NULL || model->arena_bytes > MOST ||
        c->api.attribute(&is_same, SAME_ADDRESSES, c->device) != 0 || !is_same ||
        c->api.function(&c->copier, c->module, "rlx_copier") != 0)
        c->copier = NULL;
}

// Memory for two sets of inputs (rlx_cuda.stage).
static inline void rlx_cuda_make_stage(rlx_cuda *c, const rlx_model *model)
{
    enum { SHARED_BY_CONTEXTS = 1, SEEN_BY_DEVICE = 2 };
    const rlx_model *const m = model->buckets != NULL ? model->buckets->models[c->n_variants - 1u] : model;
    size_t bytes = m->symbols != NULL ? m->symbols->n * sizeof(int64_t) : 0;
    void *memory = NULL;
    uint32_t i;
    for (i = 0; i < m->n_inputs; i++)
        if (m->inputs[i].offset + m->inputs[i].bytes > bytes)
            bytes = m->inputs[i].offset + m->inputs[i].bytes;
    bytes = (bytes + RLX_ALIGNMENT) / RLX_ALIGNMENT * RLX_ALIGNMENT;
    bytes = bytes < RLX_CUDA_STAGE + RLX_GPU_WASTE ? bytes : RLX_CUDA_STAGE + RLX_GPU_WASTE;
    if (c->api.event_create(&c->used[0], 2u) != 0 || c->api.event_create(&c->used[1], 2u) != 0 ||
        c->api.alloc_pinned(&memory, 2u * bytes, SHARED_BY_CONTEXTS | SEEN_BY_DEVICE) != 0)
        return;
    c->stage = (unsigned char *)memory;
    c->stage_bytes = bytes;
}

// The arena block is pinned, so that copies from and to it need no time of the host. Where the system does
// not let it, they are as right, but slower.
static inline rlx_status rlx_cuda_open(const rlx_model *model, unsigned char *arena, unsigned char *record,
                                       const void *weights, uint32_t ordinal)
{
    const rlx_gpu_program *const p = rlx_gpu_program_of(model);
    rlx_cuda c;
    void *before;
    uint32_t i, n;
    rlx_status status;
    memset(&c, 0, sizeof c);
    c.program = p;
    c.n_variants = model->buckets != NULL ? model->buckets->n : 1u;
    c.n_sets = c.n_variants * (1u + model->n_sets) <= RLX_GPU_MAX_GRAPHS ? model->n_sets : 0u;
    status = rlx_cuda_begin(&c, p, ordinal);
    if (status == RLX_OK)
        status = rlx_cuda_fill(&c, model, p, weights);
    if (status != RLX_OK) {
        rlx_cuda_end(&c);
        return status;
    }
    if (model->arena_bytes != 0 && c.api.pin(arena, model->arena_bytes, 0) == 0)
        c.pinned = arena;
    rlx_cuda_find_copier(&c, model);
    rlx_cuda_make_stage(&c, model);
    for (i = 0; i < p->n_functions; i++) // they were all found before
        c.api.function(&rlx_cuda_functions(record)[i], c.module, p->functions[i]);
    memcpy(record, &c, sizeof c);
    n = rlx_cuda_n_graphs(&c);
    for (i = 0; i < n; i++)
        rlx_cuda_make_graph(model->buckets != NULL ? model->buckets->models[i / (1u + c.n_sets)] : model,
                            i % (1u + c.n_sets), record, &rlx_cuda_graphs(record)[i]);
    c.api.pop(&before);
    return RLX_OK;
}

static inline rlx_cuda *rlx_cuda_of(const rlx_ctx *ctx)
{
    return (rlx_cuda *)(void *)(ctx->state + ctx->model->device->record);
}

static inline void rlx_cuda_close(const rlx_ctx *ctx)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    uint32_t i;
    c->api.push(c->context);
    c->api.stream_wait(c->stream);
    for (i = 0; i < rlx_cuda_n_graphs(c); i++) {
        const rlx_cuda_exec *const x = &rlx_cuda_graphs((unsigned char *)c)[i];
        if (x->exec == NULL)
            continue;
        c->api.graph_release(x->exec);
        c->api.graph_destroy(x->graph);
    }
    rlx_cuda_end(c);
}

static inline rlx_status rlx_cuda_bring(const rlx_ctx *ctx, uint64_t to, const void *data, size_t bytes)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    void *before;
    int result;
    if (bytes == 0)
        return RLX_OK;
    if (c->api.push(c->context) != 0)
        return RLX_ERR_DEVICE;
    result = c->api.write(c->memory + to, data, bytes, c->stream);
    c->api.pop(&before);
    return rlx_cuda_status(result);
}

// Bytes of the device's memory, which are there when it returns.
static inline rlx_status rlx_cuda_read_now(const rlx_ctx *ctx, void *data, uint64_t from, size_t bytes)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    void *before;
    int result;
    if (bytes == 0)
        return RLX_OK;
    if (c->api.push(c->context) != 0)
        return RLX_ERR_DEVICE;
    result = c->api.read(data, c->memory + from, bytes, c->stream);
    if (result == 0)
        result = c->api.stream_wait(c->stream);
    c->api.pop(&before);
    return rlx_cuda_status(result);
}

static inline rlx_status rlx_cuda_get(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    return rlx_cuda_read_now(ctx, ctx->state + offset, rlx_cuda_of(ctx)->program->state + offset, bytes);
}

static inline rlx_status rlx_cuda_fetch_part(const rlx_ctx *ctx, size_t offset, size_t bytes)
{
    return rlx_cuda_read_now(ctx, ctx->arena + offset, rlx_gpu_program_of(ctx->model)->block + offset, bytes);
}

// Pieces as one copy, whose rows are what lies apart. The driver takes rows up to 2 GB apart.
static inline int rlx_cuda_move_rows(const rlx_cuda *c, uint64_t to, uint64_t from, const rlx_pieces *m)
{
    enum { DEVICE = 2 };
    rlx_cuda_copy copy;
    size_t i, j;
    int result = 0;
    memset(&copy, 0, sizeof copy);
    copy.from_kind = copy.to_kind = DEVICE;
    copy.from_device = from;
    copy.to_device = to;
    copy.bytes = copy.from_pitch = m->bytes;
    copy.height = copy.from_height = m->n_rows;
    copy.depth = m->n_layers;
    copy.to_pitch = m->row;
    copy.to_height = m->n_layers > 1u ? m->layer / m->row : m->n_rows;
    if (m->row <= RLX_CUDA_PITCH)
        return c->api.move_pieces(&copy, c->stream);
    for (j = 0; j < m->n_layers; j++)
        for (i = 0; i < m->n_rows && result == 0; i++)
            result = c->api.move(to + j * m->layer + i * m->row, from + (j * m->n_rows + i) * m->bytes,
                                 m->bytes, c->stream);
    return result;
}

static inline rlx_status rlx_cuda_move(const rlx_ctx *ctx, const rlx_pieces *m)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    const rlx_gpu_program *const p = rlx_gpu_program_of(ctx->model);
    const uint64_t to = c->memory + p->state + m->to, from = c->memory + p->block + m->from;
    void *before;
    int result;
    if (c->api.push(c->context) != 0)
        return RLX_ERR_DEVICE;
    result = m->n_rows == 1u && m->n_layers == 1u ? c->api.move(to, from, m->bytes, c->stream)
                                                  : rlx_cuda_move_rows(c, to, from, m);
    c->api.pop(&before);
    return rlx_cuda_status(result);
}

// --- runs ----------------------------------------------------------------------------------------

static inline rlx_gpu_frame rlx_cuda_frame(rlx_ctx *ctx, rlx_cuda *c)
{
    return rlx_gpu_begin(ctx, rlx_cuda_driver(), c, c->memory, rlx_cuda_args((unsigned char *)c));
}

// The graph for what a run has to do, or NULL. What is timed is launched in order.
static inline rlx_cuda_exec *rlx_cuda_graph_of(const rlx_ctx *ctx, rlx_cuda *c)
{
    rlx_cuda_exec *x;
    if (rlx_times_kernels(ctx) || ctx->outputs > c->n_sets)
        return NULL;
    x = &rlx_cuda_graphs((unsigned char *)c)[ctx->model->bucket * (1u + c->n_sets) + ctx->outputs];
    return x->exec != NULL ? x : NULL;
}

// What the copies in the graph do. Those of runs in turn are not in it: others wait for them.
static inline rlx_status rlx_cuda_aim_copies(const rlx_gpu_frame *f, rlx_cuda *c, int *is_given)
{
    int way;
    rlx_status status = RLX_OK;
    for (way = 0; way < 2 && status == RLX_OK; way++) {
        int is_waste = 0;
        rlx_gpu_span s = rlx_gpu_whole(f->ctx, way, &is_waste);
        const int is_in = c->launched->copy[way] != NULL && !c->in_turn && !is_waste;
        unsigned char *host = NULL;
        if (!is_in)
            s.begin = s.end = 0;
        else
            host = way == 0 && c->is_staged ? rlx_cuda_set(c) : (unsigned char *)c->pinned + s.begin;
        status = rlx_cuda_aim(c, f->program, way, s, host);
        *(way == 0 ? is_given : &c->is_fetched) = is_in;
    }
    return status;
}

// Inputs that the graph does not copy.
static inline rlx_status rlx_cuda_give_inputs(const rlx_gpu_frame *f, rlx_cuda *c)
{
    int is_waste = 0;
    rlx_gpu_span s;
    if (!c->is_staged)
        return rlx_gpu_give_inputs(f);
    s = rlx_gpu_whole(f->ctx, 0, &is_waste);
    return is_waste ? rlx_cuda_move_parts(f, c, 1, 0, 1)
                    : rlx_cuda_write(c, f->base[RLX_GPU_ARENA] + f->program->block + s.begin, rlx_cuda_set(c),
                                     s.end - s.begin);
}

static inline rlx_status rlx_cuda_begin_run(const rlx_gpu_frame *f, rlx_cuda *c)
{
    int is_given = 0;
    rlx_status status = RLX_OK;
    c->is_fetched = 0;
    c->launched = rlx_cuda_graph_of(f->ctx, c);
    if (c->launched != NULL)
        status = rlx_cuda_aim_copies(f, c, &is_given);
    if (status == RLX_OK && is_given)
        rlx_gpu_set_page(f->ctx);
    else if (status == RLX_OK)
        status = rlx_cuda_give_inputs(f, c);
    if (status == RLX_OK && c->in_turn)
        status = rlx_cuda_status(c->api.event_record(c->taken, c->stream));
    return status == RLX_OK ? rlx_gpu_compute(f, c->launched != NULL ? rlx_cuda_launch_all : NULL) : status;
}

static inline rlx_status rlx_cuda_start(rlx_ctx *ctx, rlx_turn turn)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    void *before;
    rlx_gpu_frame f;
    rlx_status status;
    if (c->api.push(c->context) != 0)
        return RLX_ERR_DEVICE;
    f = rlx_cuda_frame(ctx, c);
    c->is_staged = 0;
    status = rlx_cuda_time(c, rlx_gpu_is_timed(ctx));
    if (status == RLX_OK && turn == RLX_QUEUED)
        status = rlx_cuda_put_aside(&f, c);
    if (status == RLX_OK)
        status = rlx_cuda_follow(&f, c);
    c->in_turn = turn != RLX_ALONE && !c->is_staged;
    if (status == RLX_OK)
        status = rlx_cuda_begin_run(&f, c);
    if (status == RLX_OK && c->is_staged) {
        c->oldest = c->n_queued == 0 ? ctx->committed : c->oldest;
        c->n_queued = c->n_queued == 0 ? 1 : 2;
    }
    c->in_turn = c->in_turn && status == RLX_OK; // else there are no outputs to wait for, but all
    c->api.pop(&before);
    return status;
}

static inline rlx_status rlx_cuda_fetch(rlx_ctx *ctx)
{
    rlx_cuda *const c = rlx_cuda_of(ctx);
    void *before;
    rlx_gpu_frame f;
    rlx_status status;
    if (c->is_fetched)
        return RLX_OK;
    if (c->api.push(c->context) != 0)
        return RLX_ERR_DEVICE;
    f = rlx_cuda_frame(ctx, c);
    status = rlx_gpu_take_outputs(&f);
    if (status == RLX_OK && c->in_turn)
        status = rlx_cuda_status(c->api.event_record(c->fetched, c->stream));
    c->in_turn = c->in_turn && status == RLX_OK;
    c->api.pop(&before);
    return status;
}

static inline rlx_status rlx_cuda_wait_for(rlx_ctx *ctx, rlx_awaited what, int *is_done)
{
    enum { NOT_READY = 600 };
    rlx_cuda *const c = rlx_cuda_of(ctx);
    void *const event = what == RLX_WAIT_INPUTS ? c->taken : c->fetched;
    void *before;
    rlx_status status;
    int result;
    if (what == RLX_WAIT_INPUTS && c->is_staged && is_done == NULL)
        return RLX_OK;
    if (c->api.push(c->context) != 0)
        return RLX_ERR_DEVICE;
    if (is_done == NULL && ctx->times != NULL && c->n_queued == 2 &&
        c->api.event_wait(c->used[1 - c->turn]) == 0) // the first of two
        rlx_time_ends(ctx, 1, RLX_OK);
    if (is_done != NULL)
        result = c->in_turn ? c->api.event_ask(event) : c->api.stream_ask(c->stream);
    else
        result = c->in_turn ? c->api.event_wait(event) : c->api.stream_wait(c->stream);
    if (what == RLX_WAIT_INPUTS && is_done == NULL && result == 0) // they come behind the run before
        rlx_time_ends(ctx, 1, RLX_OK);
    c->api.pop(&before);
    if (is_done != NULL) {
        *is_done = result != NOT_READY;
        return rlx_cuda_status(result == NOT_READY ? 0 : result);
    }
    status = rlx_cuda_blame(ctx, c, result);
    c->n_queued = 0;
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
