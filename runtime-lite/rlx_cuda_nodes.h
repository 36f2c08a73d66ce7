// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: how the graph of all that runs of a model do is made: nodes of the steps, of their loops, and
// of the copies. Pasted after rlx_cuda_graph.h for --target cuda.
//
// A loop is a conditional node, whose body is a graph that is recorded once. What changes with the iteration
// lies in the loop's cell, where kernels read it. Words of a cell: the number of the iteration, the addresses
// of the n moves of the loop, the trip count, and for each move the place that its address is from (0: none),
// what is added to that, and the step.
#ifndef RLX_CUDA_NODES_H
#define RLX_CUDA_NODES_H

#include "rlx_cuda_graph.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_CUDA_LOOP_THREADS 128u

// --- edges ---------------------------------------------------------------------------------------

static inline int rlx_cuda_is_left_out(const rlx_cuda *c, uint32_t step)
{
    const rlx_gpu_step *const s = &c->made_of->steps[step];
    return (s->groups == 0 && s->loop == RLX_GPU_NONE) || (s->skipped_by & c->skipped) != 0;
}

// Is the node of a step a kernel, whose groups do not all wait for each other?
static inline int rlx_cuda_is_kernel(const rlx_cuda *c, uint32_t step)
{
    return c->made_of->steps[step].loop == RLX_GPU_NONE && !rlx_cuda_is_left_out(c, step) &&
           !c->made_of->steps[step].is_resident;
}

// From a kernel to one that waits itself.
static inline rlx_status rlx_cuda_link_early(rlx_cuda *c, void *from, void *to)
{
    static const unsigned char programmatic[8] = {1, 0, 1}; // CUgraphEdgeData: from_port, to_port, type
    return rlx_cuda_status(c->api.graph_programmatic(c->graph, &from, &to, programmatic, 1));
}

// The edges that lead to the node of a step. A programmatic one lets the groups of a kernel begin when all of
// the one before have, and wait where their text says so (rlx_wait). That wait is for the kernel before to
// end, which itself has waited, so all kernels on paths to it have ended then, too: edges that such a path
// replaces are not missed. It is for kernels with one edge. What several others lead to would begin when the
// last of these begins, and hold places on the device while the rest runs; what is no kernel does not wait.
static inline rlx_status rlx_cuda_link(void *self, uint32_t step, const uint32_t *after, uint32_t n_after)
{
    rlx_cuda *const c = (rlx_cuda *)self;
    void **const nodes = rlx_cuda_nodes((unsigned char *)self);
    int code = 0;
    uint32_t i;
    if (rlx_cuda_is_left_out(c, step)) { // nothing was launched, but others may come after it
        code = c->api.graph_empty(&c->node, c->graph, NULL, 0);
        c->entry = c->node;
    }
    nodes[step] = c->node;
    if (code == 0 && n_after == 0 && c->first != NULL)
        return c->is_first_early && rlx_cuda_is_kernel(c, step)
                   ? rlx_cuda_link_early(c, c->first, c->entry)
                   : rlx_cuda_status(c->api.graph_edge(c->graph, &c->first, &c->entry, 1));
    if (code == 0 && n_after == 1 && c->is_programmatic && rlx_cuda_is_kernel(c, step) &&
        rlx_cuda_is_kernel(c, *after))
        return rlx_cuda_link_early(c, nodes[*after], c->entry);
    for (i = 0; i < n_after && code == 0; i++)
        code = c->api.graph_edge(c->graph, &nodes[after[i]], &c->entry, 1);
    return rlx_cuda_status(code);
}

// Does no step before `end` wait for this one?
static inline int rlx_cuda_is_last(const rlx_gpu_program *p, uint32_t step, uint32_t end)
{
    uint32_t j, k;
    for (j = step + 1u; j < end; j++)
        for (k = 0; k < p->steps[j].n_after; k++)
            if (p->edges[p->steps[j].after + k] == step)
                return 0;
    return 1;
}

// `last` comes behind all of the steps that nothing else waits for.
static inline rlx_status rlx_cuda_link_last(rlx_cuda *c, uint32_t begin, uint32_t end, void *last)
{
    void **const nodes = rlx_cuda_nodes((unsigned char *)c);
    rlx_status status = RLX_OK;
    uint32_t i;
    for (i = begin; i < end && status == RLX_OK; i++)
        if (rlx_cuda_is_last(c->made_of, i, end))
            status = rlx_cuda_status(c->api.graph_edge(c->graph, &nodes[i], &last, 1));
    return status;
}

// How many of them there are. A single one is the last step.
static inline uint32_t rlx_cuda_count_last(const rlx_cuda *c, uint32_t begin, uint32_t end)
{
    uint32_t i, n = 0;
    for (i = begin; i < end; i++)
        n += rlx_cuda_is_last(c->made_of, i, end) != 0;
    return n;
}

// The same, where `last` is a kernel that waits itself.
static inline rlx_status rlx_cuda_link_next(rlx_cuda *c, uint32_t begin, uint32_t end, void *last)
{
    if (rlx_cuda_count_last(c, begin, end) == 1 && c->is_programmatic && rlx_cuda_is_kernel(c, end - 1u))
        return rlx_cuda_link_early(c, rlx_cuda_nodes((unsigned char *)c)[end - 1u], last);
    return rlx_cuda_link_last(c, begin, end, last);
}

// --- loops ---------------------------------------------------------------------------------------

// CUgraphNodeParams of a conditional node; the driver says which graph its body is.
typedef struct rlx_cuda_while {
    int type, reserved[3];
    unsigned long long condition;
    int kind;
    unsigned n_bodies;
    void **bodies, *context;
    unsigned long long room[26];
} rlx_cuda_while;

typedef char rlx_cuda_while_fits[sizeof(rlx_cuda_while) == 256 ? 1 : -1];

// A kernel of the runtime's own.
static inline rlx_status rlx_cuda_add_kernel(rlx_cuda *c, void *function, uint64_t groups, uint64_t *args,
                                             size_t n_args, void **node)
{
    size_t bytes = n_args * sizeof *args;
    void *extra[5];
    rlx_cuda_node n;
    rlx_cuda_give(args, &bytes, extra);
    rlx_cuda_set_node(&n, function, (unsigned)groups, RLX_CUDA_LOOP_THREADS, extra);
    if (groups > 0x7fffffffu)
        return RLX_ERR_DEVICE;
    return rlx_cuda_status(c->api.graph_kernel(node, c->graph, NULL, 0, &n));
}

// The words behind a cell's addresses: where each is from.
static inline rlx_status rlx_cuda_write_moves(const rlx_gpu_frame *f, const rlx_gpu_loop *around)
{
    const rlx_gpu_loop *const l = f->loop;
    rlx_status status = RLX_OK;
    uint32_t i;
    for (i = 0; i < l->n_moves && status == RLX_OK; i++) {
        const rlx_gpu_move *const m = &f->program->moves[l->moves + i];
        const int is_fixed = m->outer == RLX_GPU_NONE;
        const uint64_t at = f->memory + l->cell + (2u + l->n_moves + 3u * i) * sizeof(uint64_t);
        uint64_t from[3];
        from[0] = is_fixed ? 0 : f->memory + around->cell + (1u + m->outer) * sizeof *from;
        from[1] = (is_fixed ? f->loop_args[m->arg] : 0u) + (uint64_t)m->start;
        from[2] = (uint64_t)m->step;
        status = rlx_cuda_write(f->self, at, from, sizeof from);
    }
    return status;
}

// What is zeroed before the loop, behind `begin` and before the loop itself. These moves are the last ones of
// those that come first.
static inline rlx_status rlx_cuda_add_clears(const rlx_gpu_frame *f, uint32_t first, void *begin, void *loop)
{
    rlx_cuda *const c = (rlx_cuda *)f->self;
    const rlx_gpu_loop *const l = f->loop;
    rlx_status status = rlx_cuda_status(c->api.graph_edge(c->graph, &begin, &loop, 1));
    uint32_t i;
    for (i = 0; i < l->n_clears && status == RLX_OK; i++) {
        const uint64_t bytes = f->program->clears[l->clears + i].bytes;
        const uint64_t groups = (bytes + RLX_CUDA_LOOP_THREADS - 1u) / RLX_CUDA_LOOP_THREADS;
        uint64_t args[2];
        void *node;
        args[0] = f->memory + l->cell + (1u + first + i) * sizeof *args;
        args[1] = bytes;
        if (bytes == 0)
            continue;
        status = rlx_cuda_add_kernel(c, c->loop_clear, groups, args, 2, &node);
        if (status == RLX_OK)
            status = rlx_cuda_status(c->api.graph_edge(c->graph, &begin, &node, 1));
        if (status == RLX_OK)
            status = rlx_cuda_status(c->api.graph_edge(c->graph, &node, &loop, 1));
    }
    return status;
}

// All nodes of the body, and behind them what asks for the next iteration.
static inline rlx_status rlx_cuda_fill_body(const rlx_gpu_frame *f, void *body, uint64_t *next)
{
    rlx_cuda *const c = (rlx_cuda *)f->self;
    const rlx_gpu_loop *const l = f->loop;
    void *const graph = c->graph, *const first = c->first;
    void *last;
    rlx_status status;
    c->graph = body;
    c->first = NULL; // an iteration begins when all of the last one has ended
    status = rlx_gpu_nodes(f, l->steps, l->steps + l->n_steps, rlx_cuda_link);
    if (status == RLX_OK)
        status = rlx_cuda_add_kernel(c, c->loop_next, 1, next, 5, &last);
    if (status == RLX_OK)
        status = rlx_cuda_link_next(c, l->steps, l->steps + l->n_steps, last);
    c->graph = graph;
    c->first = first;
    return status;
}

// What comes next comes behind all of these steps: the only one of them that nothing else waits for, or a
// node for that.
static inline rlx_status rlx_cuda_join(rlx_cuda *c, uint32_t begin, uint32_t end)
{
    const uint32_t n = rlx_cuda_count_last(c, begin, end);
    c->is_first_early = n == 1 && c->is_programmatic && rlx_cuda_is_kernel(c, end - 1u);
    if (n == 1)
        c->first = rlx_cuda_nodes((unsigned char *)c)[end - 1u];
    else if (c->api.graph_empty(&c->first, c->graph, NULL, 0) != 0)
        return RLX_ERR_DEVICE;
    return n == 1 ? RLX_OK : rlx_cuda_link_last(c, begin, end, c->first);
}

// A loop that is the same in all runs is the nodes of all its iterations, one behind the other.
static inline rlx_status rlx_cuda_unroll(rlx_gpu_frame *f)
{
    rlx_cuda *const c = (rlx_cuda *)f->self;
    const rlx_gpu_loop *const l = f->loop;
    void *const first = c->first;
    const int is_first_early = c->is_first_early;
    void *entry = NULL;
    int64_t i;
    rlx_status status = rlx_cuda_status(c->api.graph_empty(&entry, c->graph, NULL, 0));
    c->first = entry;
    c->is_first_early = 0;
    for (i = 0; i < l->max_trips && status == RLX_OK; i++) {
        f->iteration = i;
        status = rlx_gpu_set_cell(f);
        if (status == RLX_OK)
            status = rlx_gpu_nodes(f, l->steps, l->steps + l->n_steps, rlx_cuda_link);
        if (status == RLX_OK)
            status = rlx_cuda_join(c, l->steps, l->steps + l->n_steps);
    }
    c->entry = entry;
    c->node = c->first;
    c->first = first;
    c->is_first_early = is_first_early;
    return status;
}

// A loop is a kernel that begins it, and a node that launches a graph as long as a kernel in it says so.
static inline rlx_status rlx_cuda_add_loop(const rlx_gpu_frame *outer, const rlx_gpu_loop *l)
{
    enum { CONDITIONAL = 13, WHILE = 1 };
    rlx_cuda *const c = (rlx_cuda *)outer->self;
    rlx_gpu_frame f = rlx_gpu_enter(outer, l);
    const unsigned has_trips = l->trips != RLX_GPU_NONE, has_cond = l->cond != RLX_GPU_NONE,
                   has_count = l->count != RLX_GPU_NONE;
    uint64_t args[5];
    void *begin = NULL, *loop = NULL;
    rlx_cuda_while w;
    rlx_status status;
    if (l->is_unrolled)
        return rlx_cuda_unroll(&f);
    status = rlx_cuda_write_moves(&f, outer->loop);
    memset(&w, 0, sizeof w);
    w.type = CONDITIONAL;
    w.kind = WHILE;
    w.n_bodies = 1;
    w.context = c->context;
    if (status == RLX_OK)
        status = rlx_cuda_status(c->api.graph_condition(&w.condition, c->whole, c->context, 0, 0));
    args[0] = f.memory + l->cell;
    args[1] = l->n_moves;
    args[2] = has_trips | has_cond << 1 | has_count << 2;
    args[3] = (uint64_t)l->max_trips;
    args[4] = w.condition;
    if (status == RLX_OK)
        status = rlx_cuda_add_kernel(c, c->loop_begin, 1, args, 5, &begin);
    if (status == RLX_OK)
        status = rlx_cuda_status(c->api.graph_node(&loop, c->graph, NULL, 0, &w));
    if (status == RLX_OK)
        status = rlx_cuda_add_clears(&f, has_trips + has_cond + has_count, begin, loop);
    args[3] = l->has_cond ? f.base[RLX_GPU_ARENA] + l->cond_offset : 0;
    if (status == RLX_OK)
        status = rlx_cuda_fill_body(&f, w.bodies[0], args);
    c->entry = begin;
    c->node = loop;
    return status;
}

// What makes nodes where runs launch.
static inline const rlx_gpu_driver *rlx_cuda_maker(void)
{
    static const rlx_gpu_driver maker = {rlx_cuda_launch, NULL, rlx_cuda_write, NULL, NULL,
                                         NULL,            NULL, NULL,           rlx_cuda_add_loop};
    return &maker;
}

// --- graphs --------------------------------------------------------------------------------------

// A node that copies: of all of the block, until a run says what it needs.
static inline rlx_status rlx_cuda_add_copy(rlx_cuda *c, const rlx_model *model, rlx_cuda_exec *x, int is_out)
{
    rlx_gpu_span all = {0, 0};
    rlx_cuda_copier copier;
    rlx_cuda_copy copy;
    if (c->pinned == NULL)
        return RLX_OK;
    all.end = model->arena_bytes;
    x->span[is_out] = all;
    x->from = c->pinned;
    if (c->copier != NULL) {
        rlx_cuda_copier_of(c, c->made_of, is_out, all, c->pinned, &copier);
        return rlx_cuda_status(c->api.graph_kernel(&x->copy[is_out], c->graph, NULL, 0, &copier.node));
    }
    copy = rlx_cuda_copy_of(c, c->made_of, is_out, all, c->pinned);
    return rlx_cuda_status(c->api.graph_copy(&x->copy[is_out], c->graph, NULL, 0, &copy, c->context));
}

static inline rlx_status rlx_cuda_add_nodes(rlx_cuda *c, rlx_ctx *ctx, rlx_cuda_exec *x)
{
    const rlx_gpu_frame f =
        rlx_gpu_begin(ctx, rlx_cuda_maker(), c, c->memory, rlx_cuda_args((unsigned char *)c));
    rlx_status status = rlx_cuda_add_copy(c, ctx->model, x, 0);
    c->first = x->copy[0];
    c->is_first_early = 0;
    if (status == RLX_OK)
        status = rlx_gpu_nodes(&f, f.program->n_prepare, f.program->n_steps, rlx_cuda_link);
    if (status == RLX_OK)
        status = rlx_cuda_add_copy(c, ctx->model, x, 1);
    return status == RLX_OK && x->copy[1] != NULL
               ? rlx_cuda_link_last(c, f.program->n_prepare, f.program->n_steps, x->copy[1])
               : status;
}

// outputs: as in a context.
static inline void rlx_cuda_make_graph(const rlx_model *model, uint32_t outputs, unsigned char *record,
                                       rlx_cuda_exec *x)
{
    rlx_cuda *const c = (rlx_cuda *)(void *)record;
    rlx_ctx ctx;
    memset(x, 0, sizeof *x);
    memset(&ctx, 0, sizeof ctx);
    ctx.model = model;
    ctx.outputs = outputs;
    if (!rlx_gpu_is_straight(model, c->loops != NULL) || c->api.graph_create(&x->graph, 0) != 0)
        return;
    c->graph = c->whole = x->graph;
    c->made_of = rlx_gpu_program_of(model);
    c->skipped = outputs == 0 ? 0u : 1u << (outputs - 1u);
    if (rlx_cuda_add_nodes(c, &ctx, x) != RLX_OK || c->api.graph_make(&x->exec, x->graph, 0) != 0) {
        c->api.graph_destroy(x->graph);
        memset(x, 0, sizeof *x);
    }
    c->graph = NULL;
}

#ifdef __cplusplus
}
#endif

#endif
