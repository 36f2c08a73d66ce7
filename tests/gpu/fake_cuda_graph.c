// SPDX-License-Identifier: Apache-2.0
// The libcuda of tests: modules, launches and graphs. See fake_cuda.c.
#define _GNU_SOURCE
#include "fake_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// --- modules and launches ----------------------------------------------------------------------------

int cuModuleLoadData(void **module, const void *image);
int cuModuleLoadData(void **module, const void *image)
{
    const char *path = getenv("FAKE_CUDA_KERNELS");
    MAY_FAIL;
    if (image == NULL || path == NULL)
        return INVALID;
    void *kernels = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (kernels == NULL)
        fake_stop(dlerror());
    *module = kernels;
    fake_count(1);
    return OK;
}

int cuModuleUnload(void *module);
int cuModuleUnload(void *module)
{
    (void)module; // another context may use it
    fake_count(-1);
    return OK;
}

int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetFunction(void **function, void *module, const char *name)
{
    static Function *list[4096]; // each once, as long as the process lives
    static int n;
    char symbol[160];
    MAY_FAIL;
    for (int i = 0; i < n; i++)
        if (strcmp(list[i]->name, name) == 0) {
            *function = list[i];
            return OK;
        }
    snprintf(symbol, sizeof symbol, "launch_%s", name);
    void *found = dlsym(module, symbol);
    snprintf(symbol, sizeof symbol, "barriers_%s", name);
    const int *barriers = dlsym(module, symbol);
    if (found == NULL || barriers == NULL || n == 4096)
        return NOT_FOUND;
    Function *f = fake_make(sizeof *f);
    memcpy(&f->run, &found, sizeof found);
    f->has_barrier = *barriers != 0;
    snprintf(f->name, sizeof f->name, "%s", name);
    *function = list[n++] = f;
    return OK;
}

// Kernels that read maps cannot run here: nothing is in them.
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *dim,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,
                           int swizzle, int promotion, int fill);
int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *dim,
                           const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,
                           int swizzle, int promotion, int fill)
{
    (void)map, (void)type, (void)rank, (void)address, (void)dim, (void)stride, (void)box, (void)step;
    (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    MAY_FAIL;
    return OK;
}

int cuFuncSetAttribute(void *function, int attribute, int value);
int cuFuncSetAttribute(void *function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    MAY_FAIL;
    return OK;
}

// Arguments are one buffer of addresses.
static int take_args(Launch *l, void **params, void **extra)
{
    const uint64_t *from = NULL;
    size_t bytes = 0;
    for (; extra != NULL && *extra != NULL; extra += 2) {
        if (*extra == (void *)1)
            from = extra[1];
        if (*extra == (void *)2)
            bytes = *(size_t *)extra[1];
    }
    l->n_args = (uint32_t)(bytes / sizeof *from);
    if (params != NULL || l->n_args > MAX_ARGS || (bytes != 0 && from == NULL))
        return INVALID;
    memcpy(l->args, from != NULL ? (const void *)from : l->args, bytes);
    return OK;
}

static int make_launch(Launch *l, void *function, const unsigned *grid, const unsigned *block, void **params,
                       void **extra)
{
    l->function = function;
    l->block = block[0];
    memcpy(l->grid, grid, sizeof l->grid);
    if (function == NULL || block[1] != 1 || block[2] != 1 || block[0] == 0 || block[0] > 1024 ||
        grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[1] > 65535)
        return INVALID;
    return take_args(l, params, extra);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared_bytes, void *stream, void **params, void **extra);
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared_bytes, void *stream, void **params, void **extra)
{
    const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    Command c = {.kind = LAUNCH};
    (void)shared_bytes;
    MAY_FAIL;
    if (!fake_is_usable(stream))
        return INVALID;
    const int result = make_launch(&c.launch, function, grid, block, params, extra);
    if (result == OK)
        fake_add_command(c);
    return result;
}

// --- graphs --------------------------------------------------------------------------------------------

int cuGraphCreate(void **graph, unsigned flags);
int cuGraphCreate(void **graph, unsigned flags)
{
    (void)flags;
    MAY_FAIL;
    *graph = fake_make(sizeof(Graph));
    fake_count(1);
    return OK;
}

// Recursion: as deep as bodies nest.
void fake_free_graph(Graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].kind == WHILE)
            fake_free_graph(g->nodes[i].graph);
    free(g->nodes);
    free(g->edges);
    free(g);
    fake_count(-1);
}

static Graph *copy_graph(const Graph *g)
{
    Graph *copy = fake_make(sizeof *copy);
    *copy = *g;
    copy->nodes = fake_make((g->n_nodes + 1) * sizeof *g->nodes);
    copy->edges = fake_make((g->n_edges + 1) * sizeof *g->edges);
    memcpy(copy->nodes, g->nodes != NULL ? g->nodes : copy->nodes, g->n_nodes * sizeof *g->nodes);
    memcpy(copy->edges, g->edges != NULL ? g->edges : copy->edges, g->n_edges * sizeof *g->edges);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].kind == WHILE)
            copy->nodes[i].graph = copy_graph(g->nodes[i].graph);
    fake_count(1);
    return copy;
}

int cuGraphDestroy(void *graph);
int cuGraphDestroy(void *graph)
{
    fake_free_graph(graph);
    return OK;
}

// Nodes are numbers, from 1 on.
static int add_edge(Graph *g, const void *from, const void *to)
{
    const Edge e = {(uint32_t)(uintptr_t)from - 1, (uint32_t)(uintptr_t)to - 1};
    if (e.from >= g->n_nodes || e.to >= g->n_nodes)
        return INVALID;
    g->edges = realloc(g->edges, (g->n_edges + 1) * sizeof e);
    g->edges[g->n_edges++] = e;
    return OK;
}

static int add_node(void **node, Graph *g, void *const *after, size_t n, Command c)
{
    int result = OK;
    g->nodes = realloc(g->nodes, (g->n_nodes + 1) * sizeof c);
    g->nodes[g->n_nodes++] = c;
    *node = (void *)(uintptr_t)g->n_nodes;
    for (size_t i = 0; i < n && result == OK; i++)
        result = add_edge(g, after[i], *node);
    return result;
}

typedef struct NodeParams { // CUDA_KERNEL_NODE_PARAMS_v2
    void *function;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
} NodeParams;

int cuGraphAddKernelNode_v2(void **node, void *graph, void *const *after, size_t n, const void *params);
int cuGraphAddKernelNode_v2(void **node, void *graph, void *const *after, size_t n, const void *params)
{
    const NodeParams *p = params;
    Command c = {.kind = LAUNCH};
    MAY_FAIL;
    const int result = make_launch(&c.launch, p->function, p->grid, p->block, p->params, p->extra);
    return result == OK ? add_node(node, graph, after, n, c) : result;
}

int cuGraphAddEmptyNode(void **node, void *graph, void *const *after, size_t n);
int cuGraphAddEmptyNode(void **node, void *graph, void *const *after, size_t n)
{
    MAY_FAIL;
    return add_node(node, graph, after, n, (Command){.kind = NOTHING});
}

// --- conditions -------------------------------------------------------------------------------------

enum { MAX_CONDITIONS = 256, UNSET = 2 };
static unsigned condition[MAX_CONDITIONS]; // UNSET: nobody has said yet whether the node runs
static uint64_t n_conditions;

int cuGraphConditionalHandleCreate(uint64_t *handle, void *graph, void *context, unsigned value,
                                   unsigned flags);
int cuGraphConditionalHandleCreate(uint64_t *handle, void *graph, void *context, unsigned value,
                                   unsigned flags)
{
    (void)graph, (void)context, (void)value;
    MAY_FAIL;
    if (n_conditions == MAX_CONDITIONS || flags != 0)
        return INVALID;
    condition[n_conditions] = UNSET;
    *handle = ++n_conditions;
    return OK;
}

typedef struct WhileParams { // CUgraphNodeParams
    int type, reserved[3];
    uint64_t condition;
    int kind;
    unsigned n_bodies;
    Graph **bodies;
    void *context;
} WhileParams;

int cuGraphAddNode(void **node, void *graph, void *const *after, size_t n, void *params);
int cuGraphAddNode(void **node, void *graph, void *const *after, size_t n, void *params)
{
    static Graph *body; // the caller may look at it until the next call
    WhileParams *p = params;
    MAY_FAIL;
    if (p->type != 13 || p->kind != 1 || p->n_bodies != 1 || p->condition == 0 || p->condition > n_conditions)
        return INVALID;
    body = fake_make(sizeof *body);
    fake_count(1);
    p->bodies = &body;
    return add_node(node, graph, after, n,
                    (Command){.kind = WHILE, .graph = body, .condition = p->condition});
}

void fake_set_condition(uint64_t number, unsigned value)
{
    if (number == 0 || number > n_conditions)
        fake_stop("a kernel sets a condition that is none");
    condition[number - 1] = value != 0;
}

// Every iteration must say whether there is one more.
void fake_run_while(const Command *c)
{
    unsigned *const value = &condition[c->condition - 1];
    while (*value == 1) {
        *value = UNSET;
        fake_run_graph(c->graph);
    }
    if (*value == UNSET)
        fake_stop("nobody has set the condition of a loop");
    *value = UNSET;
}

// --- more of graphs ---------------------------------------------------------------------------------

typedef struct CopyParams { // CUDA_MEMCPY3D_v2
    size_t from_place[4];
    int from_kind;
    void *from_host;
    uint64_t from_device;
    void *from_other[2];
    size_t from_pitch[2], to_place[4];
    int to_kind;
    void *to_host;
    uint64_t to_device;
    void *to_other[2];
    size_t to_pitch[2], bytes, height, depth;
} CopyParams;

static int make_copy(Command *c, const CopyParams *p)
{
    const bool is_out = p->from_kind == 2;
    void *const host = is_out ? p->to_host : p->from_host;
    void *const device = (void *)(uintptr_t)(is_out ? p->from_device : p->to_device);
    *c = (Command){.kind = COPY,
                   .to = is_out ? host : device,
                   .from = is_out ? device : host,
                   .bytes = p->bytes,
                   .is_off = c->is_off};
    return p->from_kind + p->to_kind == 3 && p->height == 1 && p->depth == 1 && p->bytes != 0 &&
                   fake_is_pinned(host, p->bytes) && fake_is_device(device, p->bytes)
               ? OK
               : INVALID;
}

int cuGraphAddMemcpyNode(void **node, void *graph, void *const *after, size_t n, const void *params,
                         void *context);
int cuGraphAddMemcpyNode(void **node, void *graph, void *const *after, size_t n, const void *params,
                         void *context)
{
    Command c = {.kind = COPY};
    (void)context;
    MAY_FAIL;
    const int result = make_copy(&c, params);
    return result == OK ? add_node(node, graph, after, n, c) : result;
}

// Rows from one part of the device's memory to another, each a command.
int cuMemcpy3DAsync_v2(const void *params, void *stream);
int cuMemcpy3DAsync_v2(const void *params, void *stream)
{
    const CopyParams *p = params;
    const size_t rows = p->height * p->depth;
    MAY_FAIL;
    if (!fake_is_usable(stream) || p->from_kind != 2 || p->to_kind != 2 || p->bytes == 0 || rows == 0 ||
        p->bytes > p->from_pitch[0] || p->bytes > p->to_pitch[0] || p->height > p->from_pitch[1] ||
        p->height > p->to_pitch[1])
        return INVALID;
    for (size_t i = 0; i < rows; i++) {
        const size_t layer = i / p->height, row = i % p->height;
        char *const to = (char *)(uintptr_t)p->to_device;
        const char *const from = (const char *)(uintptr_t)p->from_device;
        Command c = {.kind = COPY,
                     .to = to + (layer * p->to_pitch[1] + row) * p->to_pitch[0],
                     .from = from + (layer * p->from_pitch[1] + row) * p->from_pitch[0],
                     .bytes = p->bytes};
        if (!fake_is_device(c.to, c.bytes) || !fake_is_device(c.from, c.bytes))
            return INVALID;
        fake_add_command(c);
    }
    return OK;
}

static Command *node_of(void *exec, const void *node)
{
    Graph *g = exec;
    const uint32_t number = (uint32_t)(uintptr_t)node - 1;
    return number < g->n_nodes ? &g->nodes[number] : NULL;
}

int cuGraphExecMemcpyNodeSetParams(void *exec, void *node, const void *params, void *context);
int cuGraphExecMemcpyNodeSetParams(void *exec, void *node, const void *params, void *context)
{
    Command *c = node_of(exec, node);
    (void)context;
    MAY_FAIL;
    return c != NULL && c->kind == COPY ? make_copy(c, params) : INVALID;
}

int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const void *params);
int cuGraphExecKernelNodeSetParams_v2(void *exec, void *node, const void *params)
{
    const NodeParams *p = params;
    Command *c = node_of(exec, node);
    MAY_FAIL;
    return c != NULL && c->kind == LAUNCH && c->launch.function == p->function
               ? make_launch(&c->launch, p->function, p->grid, p->block, p->params, p->extra)
               : INVALID;
}

int cuGraphNodeSetEnabled(void *exec, void *node, unsigned is_enabled);
int cuGraphNodeSetEnabled(void *exec, void *node, unsigned is_enabled)
{
    Command *c = node_of(exec, node);
    MAY_FAIL;
    if (c == NULL)
        return INVALID;
    c->is_off = is_enabled == 0;
    return OK;
}

int cuGraphAddDependencies(void *graph, void *const *from, void *const *to, size_t n);
int cuGraphAddDependencies(void *graph, void *const *from, void *const *to, size_t n)
{
    int result = OK;
    MAY_FAIL;
    for (size_t i = 0; i < n && result == OK; i++)
        result = add_edge(graph, from[i], to[i]);
    return result;
}

// A programmatic edge lets the second node begin early, but not go on before the first one has ended.
int cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const void *data, size_t n);
int cuGraphAddDependencies_v2(void *graph, void *const *from, void *const *to, const void *data, size_t n)
{
    (void)data;
    return cuGraphAddDependencies(graph, from, to, n);
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags);
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
    (void)flags;
    MAY_FAIL;
    *exec = copy_graph(graph);
    return OK;
}

int cuGraphExecDestroy(void *exec);
int cuGraphExecDestroy(void *exec)
{
    fake_run_all();
    fake_free_graph(exec);
    return OK;
}

static uint64_t next_number(void)
{
    const uint64_t n = fake_seed() * UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t x = (n ^ (n >> 31)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 29);
}

// Any order in which no node comes before one that it waits for.
void fake_run_graph(const Graph *g)
{
    uint32_t *waits = fake_make((g->n_nodes + 1) * sizeof *waits);
    uint32_t *ready = fake_make((g->n_nodes + 1) * sizeof *ready);
    uint32_t n_ready = 0, n_done = 0;
    for (uint32_t i = 0; i < g->n_edges; i++)
        waits[g->edges[i].to]++;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (waits[i] == 0)
            ready[n_ready++] = i;
    for (; n_ready != 0; n_done++) {
        const uint32_t pick = (uint32_t)(next_number() % n_ready), node = ready[pick];
        ready[pick] = ready[--n_ready];
        if (!g->nodes[node].is_off)
            fake_run_command(&g->nodes[node]);
        for (uint32_t i = 0; i < g->n_edges; i++)
            if (g->edges[i].from == node && --waits[g->edges[i].to] == 0)
                ready[n_ready++] = g->edges[i].to;
    }
    if (n_done != g->n_nodes)
        fake_stop("a graph has a cycle");
    free(waits);
    free(ready);
}

int cuGraphLaunch(void *exec, void *stream);
int cuGraphLaunch(void *exec, void *stream)
{
    MAY_FAIL;
    if (!fake_is_usable(stream))
        return INVALID;
    fake_add_command((Command){.kind = GRAPH, .graph = copy_graph(exec)}); // as it is now, whatever comes
    return OK;
}
