// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: what runs a model on a device, whatever the device: the table of launches that the compiler
// made, and the loops whose trip counts the model computes. Pasted after rlx.h with the file of the device
// (rlx_cuda.h ...), which brings an rlx_gpu_driver.
//
// The device has one block of memory: arena, state, weights, cells. All that kernels are given are addresses
// in it. The arena block of the host is a copy of the end of the arena: the values of the symbols (the page),
// inputs, outputs and what else the host reads, side by side. A run copies page and inputs to the device, all
// at once where few bytes lie between, launches the kernels, and copies the outputs back.
#ifndef RLX_GPU_H
#define RLX_GPU_H

#include "rlx_profile.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_GPU_NONE 0xffffffffu
// Bytes of the record that are the driver's; after them are one pointer for every function, room for a graph
// for every variant of the model (buckets), in each also one for every set of outputs unless these are too
// many, one pointer for every step (of the variant that has most), then addresses of the arguments of a
// launch, or words of a cell, once for every depth of loops.
#define RLX_GPU_RECORD     1024u
#define RLX_GPU_GRAPH      80u
#define RLX_GPU_MAX_GRAPHS 64u

// What the offset of an argument counts from.
enum { RLX_GPU_ARENA, RLX_GPU_STATE, RLX_GPU_WEIGHTS, RLX_GPU_MAPS, RLX_GPU_SLOT };
#define RLX_GPU_MOVED 0x80000000u

typedef struct rlx_gpu_arg {
    uint32_t base; // RLX_GPU_SLOT + i: slot i of the loop around it; RLX_GPU_MOVED + i: the argument is where
                   // the kernel reads its address, word 1 + i in the loop's cell
    uint64_t offset;
} rlx_gpu_arg;

typedef struct rlx_gpu_step {
    uint32_t function;     // number of a kernel; of a loop RLX_GPU_NONE
    uint32_t loop;         // number of a loop; of a kernel RLX_GPU_NONE
    uint32_t args, n_args; // in the list of arguments
    uint32_t group;        // threads of a group
    uint64_t groups;       // more do no harm
    uint32_t shared_bytes; // of memory that a group has beside its arrays
    uint32_t skipped_by;   // bit s: nothing that set s of the outputs wants depends on it
    uint32_t row;          // in the table of kernels
    uint32_t waits;        // for all steps before; without it, only for those before the last one that waits
    uint32_t after,
        n_after; // in the list of edges: steps that it waits for, unless a path of others leads there
    uint32_t layer; // 0, or 1 + the layer of experts whose weights the host brings first
    uint32_t is_resident; // its groups wait for each other: all run at once, or one more of them is launched
} rlx_gpu_step;

// Where memory of a loop's body begins in iteration i: argument `arg` of the loop + start + i * step.
// RLX_GPU_NONE: the number of the iteration itself, an int64_t in the loop's cell.
typedef struct rlx_gpu_slot {
    uint32_t arg;
    int64_t start, step;
} rlx_gpu_slot;

// An address that kernels of a loop's body read: as a slot's. outer: the move of the loop around that the
// argument is, or RLX_GPU_NONE.
typedef struct rlx_gpu_move {
    uint32_t arg, outer;
    int64_t start, step;
} rlx_gpu_move;

typedef struct rlx_gpu_clear {
    uint32_t arg;
    uint64_t bytes;
} rlx_gpu_clear;

// Numbers of arguments are RLX_GPU_NONE where there is none.
typedef struct rlx_gpu_loop {
    uint32_t steps, n_steps; // of the body, in the list of steps
    uint32_t slots, n_slots;
    uint32_t clears, n_clears; // arguments that are zeroed first
    uint32_t moves, n_moves;   // first of those that exist of trips, cond, count and of what is zeroed
    int64_t max_trips;
    uint32_t trips, cond;    // trip count (int64_t) and first condition (a byte)
    uint32_t arena, weights; // memory of the body
    uint32_t count;          // gets the iterations done (int64_t)
    int has_cond;            // the body decides whether it goes on, by a byte in its arena
    int is_unrolled;         // the cell is a word for the number of each iteration, and there are no moves
    uint64_t cond_offset;
    // In the memory of the device: words for the number of the iteration and the addresses of the moves.
    // After them, where the device goes around by itself, the trip count and 3 words for every move
    // (rlx_cuda_nodes.h).
    uint64_t cell;
} rlx_gpu_loop;

// A tensor as a copy engine sees it: the driver makes its own form of it, RLX_GPU_MAP_BYTES in the device's
// memory, when the model is opened. Axis 0 is the innermost one; strides and swizzle are in bytes.
#define RLX_GPU_MAP_BYTES 128u
typedef struct rlx_gpu_map {
    rlx_gpu_arg at;
    uint32_t element_bytes, rank, swizzle;
    uint64_t dim[5], stride[5];
    uint32_t box[5];
    // Of an image [C, W, H, N]: box is channels and pixels; corners of the places of the first tap, and
    // steps, along W and H. Steps of 0: it is none.
    int32_t low[2], high[2];
    uint32_t step[2];
} rlx_gpu_map;

// Bytes of the arena block of the host.
typedef struct rlx_gpu_span {
    size_t begin, end;
} rlx_gpu_span;

// Compiled code. What `kind` means is the driver's.
typedef struct rlx_gpu_image {
    uint32_t kind;
    size_t bytes;
    const void *data;
} rlx_gpu_image;

struct rlx_gpu_frame;

typedef struct rlx_gpu_program {
    uint64_t state, weights,
        bytes;      // where these begin in the memory of the device (the arena at 0), and its size
    uint64_t block; // where in the arena the host's arena block is
    uint32_t n_images;
    const rlx_gpu_image *images;
    uint32_t n_functions;
    const char *const *functions;
    uint32_t max_args;  // of a step
    uint32_t max_steps; // of all variants
    uint32_t n_steps;   // that are not in a loop: the first ones of the list
    uint32_t n_prepare; // the first ones of these: what a run begins with when a parameter was set before it
    uint32_t n_checked; // the checks are tested after so many
    uint32_t split;     // a first part of so many is worth a submission of its own; 0: all at once
    const rlx_gpu_step *steps;
    const uint32_t *edges;
    const rlx_gpu_arg *args;
    const rlx_gpu_loop *loops;
    const rlx_gpu_slot *slots;
    const rlx_gpu_clear *clears;
    const rlx_gpu_move *moves;
    uint32_t n_marks, mark; // after the flags of the parameters: one for each preparation of the variants,
                            // and which is this one's; 0 marks: there is one variant
    uint32_t n_maps;
    const rlx_gpu_map *maps;
    uint64_t maps_at; // in the memory of the device
    // What runs leave in the arena block beside outputs (rlx_moe.h), and what brings the weights of a layer.
    uint32_t n_spans;
    const rlx_gpu_span *spans;
    rlx_status (*experts)(const struct rlx_gpu_frame *f, uint32_t layer);
} rlx_gpu_program;

// What a device does, in order. `self` is the record; addresses are what `args` of a launch are made of.
typedef struct rlx_gpu_driver {
    rlx_status (*launch)(void *self, const rlx_gpu_step *step, const uint64_t *args);
    rlx_status (*clear)(void *self, uint64_t address, uint64_t bytes);
    // From the arena block, which may not change before the next wait, and from other memory.
    rlx_status (*write)(void *self, uint64_t address, const void *data, size_t bytes);
    rlx_status (*read)(void *self, void *data, uint64_t address,
                       size_t bytes); // is there after the next wait
    rlx_status (*wait)(void *self);
    // What comes next waits for all before. NULL: every launch does.
    void (*barrier)(void *self);
    // All so far begins, while the host goes on. NULL: it has begun.
    rlx_status (*submit)(void *self);
    // Nanoseconds of the last launch, which has ended, where the frame is timed; 0: the device does not say.
    double (*spent)(void *self);
    // Takes a loop whole. NULL: the host goes around.
    rlx_status (*loop)(const struct rlx_gpu_frame *outer, const rlx_gpu_loop *l);
} rlx_gpu_driver;

// A run, or an iteration of a loop in it.
typedef struct rlx_gpu_frame {
    rlx_ctx *ctx;
    const rlx_gpu_program *program;
    const rlx_gpu_driver *driver;
    void *self;
    uint64_t memory;          // address of the device's memory
    uint64_t base[4];         // RLX_GPU_ARENA, STATE, WEIGHTS, MAPS
    const rlx_gpu_loop *loop; // NULL: it is the run
    const uint64_t *loop_args;
    int64_t iteration;
    uint64_t *args; // memory for those of its launches; after it for those of loops inside
} rlx_gpu_frame;

// Where the number of the iteration is.
static inline uint64_t rlx_gpu_cell(const rlx_gpu_frame *f)
{
    const uint64_t at = f->loop->is_unrolled ? (uint64_t)f->iteration : 0u;
    return f->memory + f->loop->cell + at * sizeof(uint64_t);
}

static inline uint64_t rlx_gpu_address(const rlx_gpu_frame *f, const rlx_gpu_arg *a)
{
    const rlx_gpu_slot *s;
    if (a->base < (uint32_t)RLX_GPU_SLOT)
        return f->base[a->base] + a->offset;
    if (a->base >= RLX_GPU_MOVED)
        return f->memory + f->loop->cell + (1u + a->base - RLX_GPU_MOVED) * sizeof(uint64_t);
    s = &f->program->slots[f->loop->slots + (a->base - (uint32_t)RLX_GPU_SLOT)];
    if (s->arg == RLX_GPU_NONE)
        return rlx_gpu_cell(f) + a->offset;
    return f->loop_args[s->arg] + (uint64_t)s->start + (uint64_t)f->iteration * (uint64_t)s->step + a->offset;
}

static inline rlx_status rlx_gpu_steps(const rlx_gpu_frame *f, uint32_t begin, uint32_t end);

// What a loop has to know before its first iteration: how many there are at most, and whether it goes on.
static inline rlx_status rlx_gpu_loop_begin(const rlx_gpu_frame *f, int64_t *trips, unsigned char *go)
{
    const rlx_gpu_loop *l = f->loop;
    const uint64_t *args = f->loop_args;
    rlx_status status = RLX_OK;
    uint32_t i;
    *trips = l->max_trips;
    *go = 1;
    if (l->trips != RLX_GPU_NONE)
        status = f->driver->read(f->self, trips, args[l->trips], sizeof *trips);
    if (status == RLX_OK && l->cond != RLX_GPU_NONE)
        status = f->driver->read(f->self, go, args[l->cond], 1);
    if (status == RLX_OK && (l->trips != RLX_GPU_NONE || l->cond != RLX_GPU_NONE))
        status = f->driver->wait(f->self);
    *trips = *trips < l->max_trips ? *trips : l->max_trips;
    for (i = 0; i < l->n_clears && status == RLX_OK; i++)
        status = f->driver->clear(f->self, args[f->program->clears[l->clears + i].arg],
                                  f->program->clears[l->clears + i].bytes);
    return status;
}

// What kernels of the body read of the iteration: its number, and addresses.
static inline rlx_status rlx_gpu_set_cell(const rlx_gpu_frame *f)
{
    const rlx_gpu_loop *l = f->loop;
    int is_read = l->n_moves != 0;
    uint32_t i;
    for (i = 0; i < l->n_slots && !is_read; i++)
        is_read = f->program->slots[l->slots + i].arg == RLX_GPU_NONE;
    f->args[0] = (uint64_t)f->iteration;
    for (i = 0; i < l->n_moves; i++) {
        const rlx_gpu_move *const m = &f->program->moves[l->moves + i];
        f->args[1u + i] =
            f->loop_args[m->arg] + (uint64_t)m->start + (uint64_t)f->iteration * (uint64_t)m->step;
    }
    return !is_read ? RLX_OK
                    : f->driver->write(f->self, rlx_gpu_cell(f), f->args,
                                       (1u + l->n_moves) * sizeof *f->args);
}

static inline rlx_status rlx_gpu_iteration(const rlx_gpu_frame *f, unsigned char *go)
{
    const rlx_gpu_loop *l = f->loop;
    rlx_status status = rlx_gpu_set_cell(f);
    if (status == RLX_OK)
        status = rlx_gpu_steps(f, l->steps, l->steps + l->n_steps);
    if (status == RLX_OK && l->has_cond)
        status = f->driver->read(f->self, go, f->base[RLX_GPU_ARENA] + l->cond_offset, 1);
    return status == RLX_OK && l->has_cond ? f->driver->wait(f->self) : status;
}

// The frame of the first iteration. outer->args holds the arguments of the loop.
static inline rlx_gpu_frame rlx_gpu_enter(const rlx_gpu_frame *outer, const rlx_gpu_loop *l)
{
    rlx_gpu_frame f = *outer;
    f.loop = l;
    f.loop_args = outer->args;
    f.args = outer->args + outer->program->max_args;
    f.iteration = 0;
    if (l->arena != RLX_GPU_NONE)
        f.base[RLX_GPU_ARENA] = f.loop_args[l->arena];
    if (l->weights != RLX_GPU_NONE)
        f.base[RLX_GPU_WEIGHTS] = f.loop_args[l->weights];
    return f;
}

static inline rlx_status rlx_gpu_loop_run(const rlx_gpu_frame *outer, const rlx_gpu_loop *l)
{
    rlx_gpu_frame f = rlx_gpu_enter(outer, l);
    int64_t trips, i;
    unsigned char go;
    rlx_status status = rlx_gpu_loop_begin(&f, &trips, &go);
    for (i = 0; status == RLX_OK && i < trips && go != 0; i++) {
        status = rlx_gpu_iteration(&f, &go);
        f.iteration++;
    }
    if (status == RLX_OK && l->count != RLX_GPU_NONE)
        status = f.driver->write(f.self, f.loop_args[l->count], &f.iteration, sizeof f.iteration);
    return status;
}

static inline rlx_status rlx_gpu_steps(const rlx_gpu_frame *f, uint32_t begin, uint32_t end)
{
    const rlx_gpu_program *p = f->program;
    const uint32_t skipped = f->ctx->outputs == 0 ? 0u : 1u << (f->ctx->outputs - 1u);
    rlx_status status = RLX_OK;
    uint64_t time = rlx_lap_begin(f->ctx->profile);
    uint32_t i, j;
    for (i = begin; i < end && status == RLX_OK; i++) {
        const rlx_gpu_step *s = &p->steps[i];
        const int is_skipped = f->loop == NULL && (s->skipped_by & skipped) != 0;
        if (s->layer != 0 && !is_skipped)
            status = p->experts(f, s->layer - 1u);
        if (f->driver->barrier != NULL && (s->waits != 0 || i == begin || s->layer != 0)) // also if skipped
            f->driver->barrier(f->self);
        if (status == RLX_OK && f->driver->submit != NULL && f->loop == NULL && i != 0 && i == p->split)
            status = f->driver->submit(f->self);
        if (status != RLX_OK || is_skipped)
            continue;
        for (j = 0; j < s->n_args; j++)
            f->args[j] = rlx_gpu_address(f, &p->args[s->args + j]);
        if (s->loop != RLX_GPU_NONE)
            status = f->driver->loop != NULL ? f->driver->loop(f, &p->loops[s->loop])
                                             : rlx_gpu_loop_run(f, &p->loops[s->loop]);
        else if (s->groups != 0)
            status = f->driver->launch(f->self, s, f->args);
        if (rlx_times_kernels(f->ctx) && status == RLX_OK) { // times of kernels, so each is waited for
            status = f->driver->wait(f->self);
            time = rlx_lap(f->ctx->profile, s->row, time);
            if (f->ctx->device_ns != NULL && s->loop == RLX_GPU_NONE && s->groups != 0 && status == RLX_OK)
                f->ctx->device_ns[s->row] += f->driver->spent(f->self);
        }
    }
    return status;
}

// --- between the blocks of host and device --------------------------------------------------------

// Bytes that are rather copied for nothing than that another copy begins; and that one copy may have in all.
#define RLX_GPU_GAP   16384u
#define RLX_GPU_WASTE 262144u

static inline const rlx_gpu_program *rlx_gpu_program_of(const rlx_model *m)
{
    return (const rlx_gpu_program *)m->device->program;
}

static inline uint32_t rlx_gpu_n_sizes(const rlx_model *m)
{
    return m->output_sizes != NULL ? m->n_outputs : 0u;
}

// Part i of what a run brings to the device, the page and its inputs, or takes from there: the set of outputs
// that it is limited to, kept values, sizes. An empty one: there is no such part any more, or nothing in it.
static inline rlx_gpu_span rlx_gpu_part(const rlx_ctx *ctx, int is_out, uint32_t i)
{
    const rlx_model *m = ctx->model;
    rlx_gpu_span s = {0, 0};
    if (!is_out && i == 0) {
        s.end = m->symbols == NULL ? 0 : m->symbols->n * sizeof(int64_t);
    } else if (!is_out) {
        s.begin = m->inputs[i - 1u].offset;
        s.end = s.begin + rlx_input_bytes(ctx, i - 1u);
    } else if (i < m->n_outputs) {
        const int is_left = i < 32u && (ctx->left >> i & 1u) != 0;
        if (!is_left && (ctx->outputs == 0 || m->sets[ctx->outputs - 1u].has[i])) {
            s.begin = m->outputs[i].offset;
            s.end = s.begin + rlx_output_room(ctx, i);
        }
    } else if (i - m->n_outputs < m->n_kept) {
        s.begin = m->kept[i - m->n_outputs].offset;
        s.end = s.begin + m->kept[i - m->n_outputs].bytes;
    } else if (i - m->n_outputs - m->n_kept < rlx_gpu_n_sizes(m)) {
        i -= m->n_outputs + m->n_kept;
        s.begin = m->output_sizes[i] != (size_t)-1 ? m->output_sizes[i] : 0;
        s.end = m->output_sizes[i] != (size_t)-1 ? s.begin + (size_t)m->outputs[i].rank * sizeof(int64_t) : 0;
    } else {
        s = rlx_gpu_program_of(m)->spans[i - m->n_outputs - m->n_kept - rlx_gpu_n_sizes(m)];
    }
    return s;
}

static inline uint32_t rlx_gpu_parts(const rlx_model *m, int is_out)
{
    if (!is_out)
        return m->n_inputs + 1u;
    return m->n_outputs + m->n_kept + rlx_gpu_n_sizes(m) + rlx_gpu_program_of(m)->n_spans;
}

// All parts in one piece; *is_waste: with much else in between.
static inline rlx_gpu_span rlx_gpu_whole(const rlx_ctx *ctx, int is_out, int *is_waste)
{
    const uint32_t n = rlx_gpu_parts(ctx->model, is_out);
    rlx_gpu_span all = {0, 0};
    size_t live = 0;
    uint32_t i;
    for (i = 0; i < n; i++) {
        const rlx_gpu_span s = rlx_gpu_part(ctx, is_out, i);
        if (s.begin == s.end)
            continue;
        live += s.end - s.begin;
        all.begin = all.begin == all.end || s.begin < all.begin ? s.begin : all.begin;
        all.end = s.end > all.end ? s.end : all.end;
    }
    *is_waste = all.end - all.begin > live + RLX_GPU_WASTE;
    return all;
}

static inline rlx_status rlx_gpu_copy(const rlx_gpu_frame *f, int is_out, rlx_gpu_span s)
{
    const uint64_t address = f->base[RLX_GPU_ARENA] + f->program->block + s.begin;
    if (s.begin == s.end)
        return RLX_OK;
    return is_out ? f->driver->read(f->self, f->ctx->arena + s.begin, address, s.end - s.begin)
                  : f->driver->write(f->self, address, f->ctx->arena + s.begin, s.end - s.begin);
}

// The page gets what the symbols are now.
static inline void rlx_gpu_set_page(const rlx_ctx *ctx)
{
    const rlx_symbols *symbols = ctx->model->symbols;
    if (symbols != NULL)
        memcpy(ctx->arena, ctx->state + symbols->offset, symbols->n * sizeof(int64_t));
}

// Copies all parts, those that lie close together at once.
static inline rlx_status rlx_gpu_exchange(const rlx_gpu_frame *f, int is_out)
{
    const uint32_t n = rlx_gpu_parts(f->ctx->model, is_out);
    rlx_gpu_span now = {0, 0};
    rlx_status status = RLX_OK;
    uint32_t i;
    if (!is_out)
        rlx_gpu_set_page(f->ctx);
    for (i = 0; i < n && status == RLX_OK; i++) {
        const rlx_gpu_span s = rlx_gpu_part(f->ctx, is_out, i);
        if (s.begin == s.end)
            continue;
        if (now.begin == now.end || s.begin < now.begin || s.begin > now.end + RLX_GPU_GAP) {
            status = rlx_gpu_copy(f, is_out, now);
            now = s;
        }
        now.end = s.end > now.end ? s.end : now.end;
    }
    return status == RLX_OK ? rlx_gpu_copy(f, is_out, now) : status;
}

static inline rlx_status rlx_gpu_give_inputs(const rlx_gpu_frame *f)
{
    return rlx_gpu_exchange(f, 0);
}

static inline rlx_status rlx_gpu_take_outputs(const rlx_gpu_frame *f)
{
    return rlx_gpu_exchange(f, 1);
}

static inline rlx_status rlx_gpu_test_checks(const rlx_gpu_frame *f)
{
    const rlx_model *m = f->ctx->model;
    rlx_status status = RLX_OK;
    uint32_t i;
    for (i = 0; i < m->n_checks && status == RLX_OK; i++) {
        const rlx_check *c = &m->checks[i];
        status = c->in_state
                     ? f->driver->read(f->self, f->ctx->state + c->offset, f->base[RLX_GPU_STATE] + c->offset,
                                       1)
                     : f->driver->read(f->self, f->ctx->arena + c->offset,
                                       f->base[RLX_GPU_ARENA] + f->program->block + c->offset, 1);
    }
    if (status == RLX_OK && m->n_checks != 0)
        status = f->driver->wait(f->self);
    return status == RLX_OK ? rlx_test_checks(f->ctx) : status;
}

// A frame of a run of the context's model. memory: the address of the device's memory; args: of the record.
static inline rlx_gpu_frame rlx_gpu_begin(rlx_ctx *ctx, const rlx_gpu_driver *driver, void *self,
                                          uint64_t memory, uint64_t *args)
{
    rlx_gpu_frame f;
    memset(&f, 0, sizeof f);
    f.ctx = ctx;
    f.program = rlx_gpu_program_of(ctx->model);
    f.driver = driver;
    f.self = self;
    f.memory = memory;
    f.base[RLX_GPU_ARENA] = memory;
    f.base[RLX_GPU_STATE] = memory + f.program->state;
    f.base[RLX_GPU_WEIGHTS] = memory + f.program->weights;
    f.base[RLX_GPU_MAPS] = memory + f.program->maps_at;
    f.args = args;
    return f;
}

// Are all runs of the model the same launches, so that they can be one? The host does nothing in between.
// takes_loops: the device goes around those that are not unrolled.
static inline int rlx_gpu_is_straight(const rlx_model *model, int takes_loops)
{
    const rlx_gpu_program *const p = rlx_gpu_program_of(model);
    uint32_t i;
    for (i = p->n_prepare; i < p->n_steps; i++) {
        const uint32_t loop = p->steps[i].loop;
        if ((loop != RLX_GPU_NONE && !takes_loops && !p->loops[loop].is_unrolled) || p->steps[i].layer != 0)
            return 0;
    }
    return p->n_steps != p->n_prepare && model->n_checks == 0;
}

// Steps of a straight model, or of a loop's body, as nodes of a graph. `node` is called after each: its own
// step, and those that it waits for.
static inline rlx_status rlx_gpu_nodes(const rlx_gpu_frame *f, uint32_t begin, uint32_t end,
                                       rlx_status (*node)(void *self, uint32_t step, const uint32_t *after,
                                                          uint32_t n_after))
{
    const rlx_gpu_program *p = f->program;
    rlx_status status = RLX_OK;
    uint32_t i;
    for (i = begin; i < end && status == RLX_OK; i++) {
        status = rlx_gpu_steps(f, i, i + 1u);
        if (status == RLX_OK)
            status = node(f->self, i, p->edges + p->steps[i].after, p->steps[i].n_after);
    }
    return status;
}

// --- runs ----------------------------------------------------------------------------------------

// Does the run ask for the device's times of its launches?
static inline int rlx_gpu_is_timed(const rlx_ctx *ctx)
{
    return rlx_times_kernels(ctx) && ctx->device_ns != NULL;
}

// What depends on parameters only is made before a run that finds one that was set (flag 1) since the last
// time; such a run clears the marks of all variants.
static inline rlx_status rlx_gpu_prepare(const rlx_gpu_frame *f)
{
    const rlx_gpu_program *const p = f->program;
    const uint32_t n = f->ctx->model->n_params;
    unsigned char *const flags = f->ctx->state + f->ctx->model->flags_offset, *const marks = flags + n;
    const int is_set = n != 0 && memchr(flags, 1, n) != NULL;
    rlx_status status;
    if (p->n_marks != 0 && is_set) {
        memset(flags, 2, n);
        memset(marks, 0, p->n_marks);
    }
    if (p->n_prepare == 0 || (p->n_marks != 0 ? marks[p->mark] != 0 : !is_set))
        return RLX_OK;
    status = rlx_gpu_steps(f, 0, p->n_prepare);
    if (status == RLX_OK && p->n_marks != 0)
        marks[p->mark] = 1;
    else if (status == RLX_OK)
        memset(flags, 2, n);
    return status;
}

// What comes between the copies of a run. launch_all: starts all launches of a straight model at once; or
// NULL.
static inline rlx_status rlx_gpu_compute(const rlx_gpu_frame *f, rlx_status (*launch_all)(void *self))
{
    rlx_ctx *const ctx = f->ctx;
    rlx_status status = rlx_gpu_prepare(f);
    if (status == RLX_OK && launch_all != NULL)
        return launch_all(f->self);
    if (status == RLX_OK && ctx->model->n_checks != 0) {
        status = rlx_gpu_steps(f, f->program->n_prepare, f->program->n_checked);
        status = status == RLX_OK ? rlx_gpu_test_checks(f) : status;
    }
    if (status == RLX_OK)
        status = rlx_gpu_steps(f, f->program->n_checked, f->program->n_steps);
    return status;
}

// One run in the pieces of an rlx_device, from the inputs to the outputs: what the generated code calls.
static inline rlx_status rlx_gpu_run(rlx_ctx *ctx, rlx_status (*start)(rlx_ctx *ctx, rlx_turn turn),
                                     rlx_status (*fetch)(rlx_ctx *ctx),
                                     rlx_status (*wait)(rlx_ctx *ctx, rlx_awaited what, int *is_done))
{
    const uint64_t begin = rlx_lap_begin(ctx->profile);
    uint64_t given;
    rlx_status status = start(ctx, RLX_ALONE);
    if (status == RLX_OK)
        status = fetch(ctx);
    given = rlx_lap_begin(ctx->profile);
    if (status == RLX_OK)
        status = wait(ctx, RLX_WAIT_OUTPUTS, NULL);
    if (status == RLX_OK)
        rlx_lap_run(ctx->profile, begin, given);
    return status;
}

#ifdef __cplusplus
}
#endif

#endif
