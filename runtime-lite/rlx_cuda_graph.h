// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: what a model on an NVIDIA GPU is for the driver: the record of a context, launches, and what
// graphs of all that a run does copy. Pasted after rlx_cuda_api.h for --target cuda.
#ifndef RLX_CUDA_GRAPH_H
#define RLX_CUDA_GRAPH_H

#include "rlx_cuda_api.h"

#ifdef __cplusplus
extern "C" {
#endif

// All that runs of a variant do, with one set of outputs. exec == NULL: they are launched in order. The graph
// that it was made of stays as long: its nodes are named when their copies change.
typedef struct rlx_cuda_exec {
    void *exec, *graph;
    void *copy[2];        // nodes: of what goes to the device, of what comes from there; or NULL
    rlx_gpu_span span[2]; // what they copy; when it is empty, they do nothing
    const void *from;     // what goes to the device comes from here: the arena block, or a set of inputs
} rlx_cuda_exec;

// The record in the state block.
typedef struct rlx_cuda {
    rlx_cuda_api api;
    void *library, *context, *module, *stream;
    unsigned long long memory;
    int device;
    unsigned shared_bytes; // that a group can have
    const rlx_gpu_program *program;
    uint32_t n_variants, n_sets; // that there are graphs of
    // While a graph is made: that, the last one of its nodes, what all others wait for; of what, and which
    // launches are left out.
    // entry: where edges to the last node go, which is another one where a step is several nodes. whole: the
    // graph, where `graph` is the body of a loop in it.
    void *graph, *node, *entry, *first, *whole;
    int is_first_early; // `first` is a kernel, beside which those that wait themselves may begin
    const rlx_gpu_program *made_of;
    uint32_t skipped;
    int is_programmatic; // kernels wait themselves for those before (rlx_wait), so they may begin earlier
    rlx_cuda_exec *launched; // by the last run, or NULL
    int is_fetched;          // it has brought the outputs as well
    // Two sets of inputs of runs in a queue, side by side in pinned memory, and what is behind the last run
    // that needs each; NULL: there is no such memory. In set `turn` are those of the last run that was
    // queued; is_staged: it is the last run of all.
    unsigned char *stage;
    size_t stage_bytes; // of a set
    void *used[2];
    int turn, is_staged;
    int n_queued;    // runs with a set that may be under way
    uint64_t oldest; // of these: number of its commit
    void *pinned; // the arena block of the host, where the driver has taken it; or NULL
    void *loops;                             // the module that goes around loops, or NULL: the host does
    void *loop_begin, *loop_next, *loop_clear; // its kernels
    void *copier; // the kernel that copies from and to it in graphs; NULL: the driver does
    // Behind the inputs and behind the outputs of the last run, if the next one is given before its end.
    void *taken, *fetched;
    int in_turn;
    // Of a launch, where its run is timed; the events are made for the first one that is.
    int is_timed;
    void *begun, *ended;
} rlx_cuda;

// CUDA_KERNEL_NODE_PARAMS_v2
typedef struct rlx_cuda_node {
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    void *kernel, *context;
} rlx_cuda_node;

// The record must fit: an array of -1 elements does not compile.
typedef char rlx_cuda_fits[sizeof(rlx_cuda) <= RLX_GPU_RECORD ? 1 : -1];
typedef char rlx_cuda_exec_fits[sizeof(rlx_cuda_exec) <= RLX_GPU_GRAPH ? 1 : -1];

// CUDA_MEMCPY3D_v2.
typedef struct rlx_cuda_copy {
    size_t from_place[4];
    int from_kind;
    const void *from_host;
    unsigned long long from_device;
    void *from_array, *from_reserved;
    size_t from_pitch, from_height;
    size_t to_place[4];
    int to_kind;
    void *to_host;
    unsigned long long to_device;
    void *to_array, *to_reserved;
    size_t to_pitch, to_height;
    size_t bytes, height, depth;
} rlx_cuda_copy;

static inline void **rlx_cuda_functions(unsigned char *record)
{
    return (void **)(void *)(record + RLX_GPU_RECORD);
}

// By variant, and in each by set of outputs; the first one of all of them.
static inline rlx_cuda_exec *rlx_cuda_graphs(unsigned char *record)
{
    const rlx_cuda *const c = (const rlx_cuda *)(const void *)record;
    return (rlx_cuda_exec *)(void *)(rlx_cuda_functions(record) + c->program->n_functions);
}

static inline uint32_t rlx_cuda_n_graphs(const rlx_cuda *c)
{
    return c->n_variants * (1u + c->n_sets);
}

// --- rlx_gpu_driver ------------------------------------------------------------------------------

// What a step asks for, or all that a group can have here: code for GPUs with less uses less.
static inline rlx_status rlx_cuda_shared(const rlx_cuda *c, const rlx_gpu_step *step, void *f,
                                         unsigned *bytes)
{
    enum { MAX_DYNAMIC_SHARED = 8, WITHOUT_ASKING = 49152 };
    *bytes = step->shared_bytes < c->shared_bytes ? step->shared_bytes : c->shared_bytes;
    if (*bytes <= WITHOUT_ASKING)
        return RLX_OK;
    return rlx_cuda_status(c->api.function_set(f, MAX_DYNAMIC_SHARED, (int)*bytes));
}

// All parameters are addresses, so that the list is the buffer that the driver wants.
static inline void rlx_cuda_give(const uint64_t *args, size_t *bytes, void **extra)
{
    extra[0] = (void *)(uintptr_t)1; // CU_LAUNCH_PARAM_BUFFER_POINTER
    extra[1] = (void *)(uintptr_t)args;
    extra[2] = (void *)(uintptr_t)2; // CU_LAUNCH_PARAM_BUFFER_SIZE
    extra[3] = bytes;
    extra[4] = NULL;
}

// extra: what rlx_cuda_give wrote, or NULL.
static inline void rlx_cuda_set_node(rlx_cuda_node *n, void *function, unsigned groups, unsigned group,
                                     void **extra)
{
    memset(n, 0, sizeof *n);
    n->function = function;
    n->grid[0] = groups;
    n->block[0] = group;
    n->grid[1] = n->grid[2] = n->block[1] = n->block[2] = 1;
    n->extra = extra;
}

// --- groups that wait for each other -------------------------------------------------------------

enum { RLX_CUDA_COOPERATIVE = 2 }; // of an attribute
enum { RLX_CUDA_RESIDENT_ARGS = 64 };

// CUlaunchConfig with one CUlaunchAttribute.
typedef struct rlx_cuda_attribute {
    int id, unused;
    int value[16];
} rlx_cuda_attribute;

typedef struct rlx_cuda_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    rlx_cuda_attribute *attributes;
    unsigned n;
} rlx_cuda_config;

typedef char rlx_cuda_attribute_fits[sizeof(rlx_cuda_attribute) == 72 ? 1 : -1];

// Does the device run all groups of such a step at once?
static inline int rlx_cuda_is_resident(const rlx_cuda *c, const rlx_gpu_step *step, void *function,
                                       unsigned shared_bytes)
{
    enum { PROCESSORS = 16, COOPERATES = 95 };
    int processors = 0, can_be = 0, each = 0;
    return step->is_resident && c->api.launch_with != NULL && c->api.groups_at_once != NULL &&
           c->api.attribute(&processors, PROCESSORS, c->device) == 0 &&
           c->api.attribute(&can_be, COOPERATES, c->device) == 0 && can_be &&
           c->api.groups_at_once(&each, function, (int)step->group, shared_bytes) == 0 && each > 0 &&
           step->groups <= (uint64_t)each * (uint64_t)processors;
}

static inline int rlx_cuda_launch_resident(const rlx_cuda *c, const rlx_cuda_node *n)
{
    rlx_cuda_attribute cooperative;
    rlx_cuda_config config;
    memset(&cooperative, 0, sizeof cooperative);
    memset(&config, 0, sizeof config);
    cooperative.id = RLX_CUDA_COOPERATIVE;
    cooperative.value[0] = 1;
    memcpy(config.grid, n->grid, sizeof config.grid);
    memcpy(config.block, n->block, sizeof config.block);
    config.shared_bytes = n->shared_bytes;
    config.stream = c->stream;
    config.attributes = &cooperative;
    config.n = 1;
    return c->api.launch_with(&config, n->function, NULL, n->extra);
}

// Adds it as a node. Drivers (580) do not let a node be cooperative that takes its arguments as one buffer.
static inline int rlx_cuda_add_resident(rlx_cuda *c, const rlx_cuda_node *n, const uint64_t *args,
                                        uint32_t n_args)
{
    void *params[RLX_CUDA_RESIDENT_ARGS];
    rlx_cuda_node own = *n;
    int value[16], code;
    uint32_t i;
    if (c->api.graph_attribute == NULL || n_args > RLX_CUDA_RESIDENT_ARGS)
        return -1;
    for (i = 0; i < n_args; i++)
        params[i] = (void *)(uintptr_t)&args[i];
    own.params = params;
    own.extra = NULL;
    memset(value, 0, sizeof value);
    value[0] = 1;
    code = c->api.graph_kernel(&c->node, c->graph, NULL, 0, &own);
    return code != 0 ? code : c->api.graph_attribute(c->node, RLX_CUDA_COOPERATIVE, value);
}

// In a run it is launched; while a graph is made it becomes a node of it.
static inline rlx_status rlx_cuda_launch(void *self, const rlx_gpu_step *step, const uint64_t *args)
{
    rlx_cuda *const c = (rlx_cuda *)self;
    void *const f = rlx_cuda_functions((unsigned char *)self)[step->function];
    unsigned blocks = (unsigned)step->groups;
    int is_resident;
    size_t bytes = step->n_args * sizeof *args;
    unsigned shared = 0;
    void *extra[5];
    rlx_cuda_node n;
    int code = 0;
    rlx_cuda_give(args, &bytes, extra);
    if (step->groups > 0x7fffffffu || rlx_cuda_shared(c, step, f, &shared) != RLX_OK)
        return RLX_ERR_DEVICE;
    is_resident = rlx_cuda_is_resident(c, step, f, shared);
    blocks += step->is_resident && !is_resident;
    rlx_cuda_set_node(&n, f, blocks, (unsigned)step->group, step->n_args != 0 ? extra : NULL);
    n.shared_bytes = shared;
    if (c->graph == NULL) {
        code = c->is_timed ? c->api.event_record(c->begun, c->stream) : 0;
        if (code == 0)
            code = is_resident ? rlx_cuda_launch_resident(c, &n)
                               : c->api.launch(f, blocks, 1, 1, step->group, 1, 1, shared, c->stream, NULL,
                                               n.extra);
        if (code == 0 && c->is_timed)
            code = c->api.event_record(c->ended, c->stream);
        return rlx_cuda_status(code);
    }
    code = is_resident ? rlx_cuda_add_resident(c, &n, args, step->n_args)
                       : c->api.graph_kernel(&c->node, c->graph, NULL, 0, &n);
    c->entry = c->node;
    return rlx_cuda_status(code);
}

static inline double rlx_cuda_spent(void *self)
{
    rlx_cuda *const c = (rlx_cuda *)self;
    float ms = 0;
    return c->is_timed && c->api.event_between(&ms, c->begun, c->ended) == 0 ? (double)ms * 1e6 : 0.0;
}

// The run that begins is timed.
static inline rlx_status rlx_cuda_time(rlx_cuda *c, int is_timed)
{
    c->is_timed = 0;
    if (is_timed && c->begun == NULL && c->api.event_create(&c->begun, 0) != 0)
        return RLX_ERR_DEVICE;
    if (is_timed && c->ended == NULL && c->api.event_create(&c->ended, 0) != 0)
        return RLX_ERR_DEVICE;
    c->is_timed = is_timed;
    return RLX_OK;
}

static inline rlx_status rlx_cuda_clear(void *self, uint64_t address, uint64_t bytes)
{
    rlx_cuda *const c = (rlx_cuda *)self;
    return bytes == 0 ? RLX_OK : rlx_cuda_status(c->api.fill(address, 0, (size_t)bytes, c->stream));
}

static inline rlx_status rlx_cuda_write(void *self, uint64_t address, const void *data, size_t bytes)
{
    rlx_cuda *const c = (rlx_cuda *)self;
    return bytes == 0 ? RLX_OK : rlx_cuda_status(c->api.write(address, data, bytes, c->stream));
}

static inline rlx_status rlx_cuda_read(void *self, void *data, uint64_t address, size_t bytes)
{
    rlx_cuda *const c = (rlx_cuda *)self;
    return bytes == 0 ? RLX_OK : rlx_cuda_status(c->api.read(data, address, bytes, c->stream));
}

static inline rlx_status rlx_cuda_wait(void *self)
{
    rlx_cuda *const c = (rlx_cuda *)self;
    return rlx_cuda_status(c->api.stream_wait(c->stream));
}

// By step: the nodes of the graph that is made.
static inline void **rlx_cuda_nodes(unsigned char *record)
{
    const rlx_cuda *const c = (const rlx_cuda *)(const void *)record;
    return (void **)(void *)(rlx_cuda_graphs(record) + rlx_cuda_n_graphs(c));
}

static inline uint64_t *rlx_cuda_args(unsigned char *record)
{
    const rlx_cuda *const c = (const rlx_cuda *)(const void *)record;
    return (uint64_t *)(void *)(rlx_cuda_nodes(record) + c->program->max_steps);
}

static inline const rlx_gpu_driver *rlx_cuda_driver(void)
{
    static const rlx_gpu_driver driver = {
        rlx_cuda_launch, rlx_cuda_clear, rlx_cuda_write, rlx_cuda_read, rlx_cuda_wait, NULL, NULL,
        rlx_cuda_spent, NULL};
    return &driver;
}

// --- copies --------------------------------------------------------------------------------------

// The copy of part of the arena block. host: where it is, or what has its bytes instead.
static inline rlx_cuda_copy rlx_cuda_copy_of(const rlx_cuda *c, const rlx_gpu_program *p, int is_out,
                                             rlx_gpu_span s, void *host)
{
    enum { HOST = 1, DEVICE = 2 };
    const unsigned long long device = c->memory + p->block + s.begin;
    rlx_cuda_copy copy;
    memset(&copy, 0, sizeof copy);
    copy.from_kind = is_out ? DEVICE : HOST;
    copy.to_kind = is_out ? HOST : DEVICE;
    copy.from_host = is_out ? NULL : host;
    copy.from_device = is_out ? device : 0;
    copy.to_host = is_out ? host : NULL;
    copy.to_device = is_out ? 0 : device;
    copy.bytes = s.end - s.begin;
    copy.height = copy.depth = 1;
    return copy;
}

// The same as a launch, which costs the host less: the device reads and writes the host's memory.
typedef struct rlx_cuda_copier {
    rlx_cuda_node node;
    uint64_t args[3];
    size_t bytes;
    void *extra[5];
} rlx_cuda_copier;

static inline void rlx_cuda_copier_of(const rlx_cuda *c, const rlx_gpu_program *p, int is_out, rlx_gpu_span s,
                                      void *at, rlx_cuda_copier *l)
{
    enum { THREADS = 256, WORD = 16 };
    const uint64_t host = (uint64_t)(uintptr_t)at;
    const uint64_t device = c->memory + p->block + s.begin;
    const size_t n = s.end - s.begin, words = n / WORD + n % WORD;
    memset(l, 0, sizeof *l);
    l->args[0] = is_out ? host : device;
    l->args[1] = is_out ? device : host;
    l->args[2] = l->args[1] + n;
    l->bytes = sizeof l->args;
    rlx_cuda_give(l->args, &l->bytes, l->extra);
    rlx_cuda_set_node(&l->node, c->copier, (unsigned)((words + THREADS - 1u) / THREADS), THREADS, l->extra);
}

// The node copies these bytes from now on; none: it does nothing. host: as above.
static inline rlx_status rlx_cuda_aim(rlx_cuda *c, const rlx_gpu_program *p, int is_out, rlx_gpu_span s,
                                      void *host)
{
    rlx_cuda_exec *const x = c->launched;
    const rlx_gpu_span now = x->span[is_out];
    const int is_same = is_out || s.begin == s.end || x->from == host;
    const int is_on = now.begin != now.end, becomes_on = s.begin != s.end;
    rlx_cuda_copier copier;
    rlx_cuda_copy copy;
    int code = 0;
    if (x->copy[is_out] == NULL || (now.begin == s.begin && now.end == s.end && is_same))
        return RLX_OK;
    if (becomes_on && c->copier != NULL) {
        rlx_cuda_copier_of(c, p, is_out, s, host, &copier);
        code = c->api.graph_set_kernel(x->exec, x->copy[is_out], &copier.node);
    } else if (becomes_on) {
        copy = rlx_cuda_copy_of(c, p, is_out, s, host);
        code = c->api.graph_set_copy(x->exec, x->copy[is_out], &copy, c->context);
    }
    if (code == 0 && is_on != becomes_on)
        code = c->api.graph_enable(x->exec, x->copy[is_out], (unsigned)becomes_on);
    if (code == 0)
        x->span[is_out] = s;
    if (code == 0 && becomes_on && !is_out)
        x->from = host;
    return rlx_cuda_status(code);
}

static inline rlx_status rlx_cuda_launch_all(void *self)
{
    rlx_cuda *const c = (rlx_cuda *)self;
    return rlx_cuda_status(c->api.graph_launch(c->launched->exec, c->stream));
}

#ifdef __cplusplus
}
#endif

#endif
