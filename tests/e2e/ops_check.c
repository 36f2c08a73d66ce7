// SPDX-License-Identifier: Apache-2.0
// Memory, values and comparisons of op cases. See ops_check.h.
#include "ops_check.h"
#include "ir/text/text.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

Graph *ops_parse(Arena *a, const OpsCase *c)
{
    Diag *d = ARENA_NEW(a, Diag);
    Graph *g = NULL;
    *d = diag_new(a);
    const char *text = ops_text(a, c);
    const uint32_t file = diag_add_file(d, c->name, text, strlen(text));
    if (graph_parse(a, d, file, &g))
        return g;
    diag_print(d, stderr, DIAG_PLAIN);
    exit(1);
}

// --- memory of a run ---

// n bytes whose end, in steps of so many, is the end of what may be touched.
static char *map_bytes(Memory *m, uint64_t n, size_t step)
{
    const size_t page = 4096, body = ((size_t)n + page) / page * page;
    char *p = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rlx_assert(p != MAP_FAILED && m->n_blocks < 1024);
    rlx_assert(mprotect(p + body, page, PROT_NONE) == 0);
    m->block[m->n_blocks] = p;
    m->size[m->n_blocks++] = body + page;
    memset(p, 0xff, body);
    return p + body - ((size_t)n + step - 1) / step * step;
}

static void fill_persistent(const Plan *p, const Memory *m)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (m->buffer[b] == NULL || buf->region == REGION_ARENA)
            continue;
        const void *bytes = plan_buffer_bytes(buf, p->arena);
        if (bytes != NULL)
            memcpy(m->buffer[b], bytes, buf->bytes);
        else
            memset(m->buffer[b], 0, buf->bytes);
    }
}

// region: NULL where every buffer is apart.
static void place_buffers(const Plan *p, Memory *m, char *const *region)
{
    const size_t step = p->caps->shared_bytes != 0 ? 16 : 1; // such targets access 16 bytes at once
    for (BufId b = 1; b < m->n; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        const bool is_unused = buf->region == REGION_WEIGHTS && buf->first == UINT32_MAX;
        if (!is_unused && buf->shares == 0)
            m->buffer[b] =
                region != NULL ? region[buf->region] + buf->offset : map_bytes(m, buf->bytes, step);
    }
    for (BufId b = 1; b < m->n; b++)
        if (p->buffers.data[b].shares != 0)
            m->buffer[b] = m->buffer[p->buffers.data[b].shares];
    fill_persistent(p, m);
}

Memory ops_make_memory(Arena *a, const Plan *p, Placing placing)
{
    Memory m = {.n = p->buffers.len, .buffer = ARENA_ARRAY(a, char *, p->buffers.len)};
    char *region[REGION_COUNT];
    for (uint32_t r = 0; r < REGION_COUNT && placing == PLACE_PLANNED; r++)
        region[r] = map_bytes(&m, p->region_bytes[r], 64);
    place_buffers(p, &m, placing == PLACE_PLANNED ? region : NULL);
    return m;
}

Memory ops_make_memory_in(Arena *a, const Plan *p, OpsGive give, void *ctx)
{
    Memory m = {.n = p->buffers.len, .buffer = ARENA_ARRAY(a, char *, p->buffers.len)};
    char *region[REGION_COUNT];
    for (uint32_t r = 0; r < REGION_COUNT; r++) {
        region[r] = give(ctx, p->region_bytes[r]);
        memset(region[r], 0xff, p->region_bytes[r]);
    }
    place_buffers(p, &m, region);
    return m;
}

void ops_free_memory(Memory *m)
{
    for (uint32_t i = 0; i < m->n_blocks; i++)
        munmap(m->block[i], m->size[i]);
}

// --- values ---

static double tolerance_of(DType t, OpsTolerance o)
{
    const double own = t == DTYPE_f64 ? 1e-12 : t == DTYPE_f16 ? 2e-3 : t == DTYPE_bf16 ? 2e-2 : o.f32;
    return o.f32 > 1e-5 ? fmax(o.f32, own) : own;
}

// NULL when equal: exactly for integers, relative to the largest magnitude for floats.
static const char *compare(Arena *arena, const Tensor *want, const void *bytes, const char *name,
                           OpsTolerance o)
{
    Tensor got = *want;
    memcpy(&got.data, &bytes, sizeof bytes);
    if (memcmp(want->data, bytes, (size_t)want->numel * dtype_info[want->dtype].bytes) == 0)
        return NULL;
    const bool is_float = dtype_info[want->dtype].cls == DCLASS_FLOAT;
    double largest = 1e-30;
    for (int64_t i = 0; is_float && i < want->numel; i++)
        if (isfinite(tensor_get_f64(want, i)) && fabs(tensor_get_f64(want, i)) > largest)
            largest = fabs(tensor_get_f64(want, i));
    for (int64_t i = 0; i < want->numel; i++) {
        if (!is_float && tensor_get_i64(&got, i) != tensor_get_i64(want, i))
            return arena_printf(arena, "%s[%lld] is %lld, expected %lld", name, (long long)i,
                                (long long)tensor_get_i64(&got, i), (long long)tensor_get_i64(want, i));
        const double a = tensor_get_f64(&got, i), b = tensor_get_f64(want, i);
        const bool is_equal = !is_float || a == b || (isnan(a) && isnan(b)) ||
                              fabs(a - b) <= tolerance_of(want->dtype, o) * largest;
        const bool is_spread = o.may_spread && !isfinite(a);
        if (!is_equal && !(is_spread && strcmp(name, "special") == 0)) {
            Str s = str_new(arena);
            str_printf(&s, "%s[%lld] of %lld is ", name, (long long)i, (long long)want->numel);
            str_f64(&s, a);
            str_add(&s, ", expected ");
            str_f64(&s, b);
            return str_text(&s);
        }
    }
    return NULL;
}

Reference ops_begin(Arena *a, const OpsCase *c)
{
    return (Reference){.arena = a, .g = ops_parse(a, c)};
}

void ops_complete(Reference *ref, uint32_t n)
{
    Graph *g = ref->g;
    rlx_assert(n <= OPS_RUNS);
    for (uint32_t i = ref->n_runs; i < n; i++) {
        EvalRun *run = &ref->run[i];
        *run = eval_begin(g, ref->arena, (DimValues){0});
        for (uint32_t k = 0; k < g->inputs.len; k++)
            run->value[g->inputs.data[k]] = ops_random_tensor(ref->arena, g, g->inputs.data[k], i + 1);
        for (uint32_t k = 0; i > 0 && k < g->states.len; k++)
            run->value[g->states.data[k].node] = ref->run[i - 1].value[g->states.data[k].next];
        if (!eval_graph(run)) {
            diag_print(g->diag, stderr, DIAG_PLAIN);
            exit(1);
        }
    }
    ref->n_runs = n > ref->n_runs ? n : ref->n_runs;
}

Reference ops_evaluate(Arena *a, const OpsCase *c)
{
    Reference ref = ops_begin(a, c);
    ops_complete(&ref, OPS_RUNS);
    return ref;
}

static const Tensor *find_value(const Reference *ref, uint32_t run, const char *name)
{
    for (NodeId id = 1; id < ref->g->nodes.len; id++)
        if (op_info[graph_node(ref->g, id)->op].kind == OPKIND_LEAF &&
            graph_node(ref->g, id)->op != OP_const && str_equal(node_name(ref->g, id), name))
            return &ref->run[run].value[id];
    return NULL;
}

const char *ops_check_results(Arena *a, const Plan *p, const Memory *m, const Reference *ref, uint32_t run,
                              OpsTolerance o)
{
    const char *wrong = NULL;
    for (uint32_t i = 0; i < p->outputs.len && wrong == NULL; i++) {
        const PlanIo *io = &p->outputs.data[i];
        const Tensor *want = &ref->run[run].value[ref->g->outputs.data[i].node];
        wrong = compare(a, want, m->buffer[io->buf] + io->byte_offset, io->name, o);
    }
    for (uint32_t i = 0; i < p->states.len && wrong == NULL; i++) {
        const PlanIo *io = &p->states.data[i];
        for (uint32_t k = 0; k < ref->g->states.len && wrong == NULL; k++)
            if (str_equal(node_name(ref->g, ref->g->states.data[k].node), io->name))
                wrong = compare(a, &ref->run[run].value[ref->g->states.data[k].next],
                                m->buffer[io->buf] + io->byte_offset, io->name, o);
    }
    return wrong;
}

void ops_set_inputs(const Plan *p, const Memory *m, const Reference *ref, uint32_t run)
{
    for (uint32_t i = 0; i < p->inputs.len; i++) {
        const PlanIo *io = &p->inputs.data[i];
        memcpy(m->buffer[io->buf] + io->byte_offset, find_value(ref, run, io->name)->data, io->bytes);
    }
}

// --- crashes -------------------------------------------------------------------------------------

const char *ops_running = "";

static void on_signal(int number)
{
    const char *text = number == SIGTERM ? "\n# stopped, as for taking too long, in " : "\n# crashed in ";
    ssize_t written = write(1, text, strlen(text));
    written += write(1, ops_running, strlen(ops_running));
    written += write(1, "\n", 1);
    _exit(number == SIGSEGV && written > 0 ? 2 : 3);
}

void ops_name_crashes(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGTERM};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], on_signal);
}
