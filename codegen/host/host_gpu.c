// SPDX-License-Identifier: Apache-2.0
// Models that run on a GPU: what their host code has besides that of every model. The plan's arena is the
// device's; the host's arena block holds inputs, outputs and what else the host reads, side by side, and its
// state block a copy of the device's, and behind that the record of the device (runtime-lite/rlx_gpu.h).
#include "codegen/host/host_parts.h"
#include "codegen/target/prelude.h"
#include <string.h>

enum { BLOCK = 64, MEMORY_BLOCK = 256 };
enum { RECORD_BYTES = 1024, GRAPH_BYTES = 80, MAX_GRAPHS = 64 }; // RLX_GPU_RECORD ...
enum { LOOPS = 0x2000 };                                          // RLX_CUDA_LOOPS

// Copies between the host's memory and the device's: a launch costs the host less than a copy of the
// driver's (rlx_cuda_graph.h). All arguments are addresses, as those of other kernels; to and from are
// multiples of 16.
static const char cuda_copier[] =
    "extern \"C\" __global__ void __launch_bounds__(256) rlx_copier(\n"
    "    unsigned char *to, const unsigned char *from, const unsigned char *end)\n"
    "{\n"
    "    const unsigned long long words = (unsigned long long)(end - from) / 16;\n"
    "    const unsigned long long i = blockIdx.x * 256ull + threadIdx.x, at = words * 15 + i;\n"
    "    if (i < words)\n"
    "        ((uint4 *)to)[i] = ((const uint4 *)from)[i];\n"
    "    else if (from + at < end)\n"
    "        to[at] = from[at];\n"
    "}\n";

static const GpuHost hosts[] = {
    [DEVICE_CUDA] = {"rlx_cuda", "cu", true, cuda_copier, prelude_cuda_loops},
    [DEVICE_VULKAN] = {"rlx_vulkan", "comp", false, NULL, NULL},
    [DEVICE_METAL] = {"rlx_metal", "metal", false, NULL, NULL},
};

static uint64_t align_to(uint64_t n, uint64_t block)
{
    return (n + block - 1) / block * block;
}

// --- where things are ----------------------------------------------------------------------------

uint64_t host_gpu_state_offset(const Plan *device)
{
    return align_to(device->region_bytes[REGION_ARENA], MEMORY_BLOCK);
}

uint64_t host_gpu_weights_offset(const Plan *device)
{
    return host_gpu_state_offset(device) + align_to(plan_state_bytes(device), MEMORY_BLOCK);
}

// Where the host has a buffer that it exchanges with the device (Plan.gpu.staged).
static void stage_buffer(Plan *p, BufId b)
{
    PlanBuffer *buf = &p->buffers.data[b];
    if (buf->region != REGION_ARENA || buf->offset < p->gpu.staged)
        return;
    buf->offset -= p->gpu.staged;
    const uint64_t end = buf->offset + align_to(buf->bytes, BLOCK);
    uint64_t *bytes = &p->region_bytes[REGION_ARENA];
    *bytes = end > *bytes && buf->first != UINT32_MAX ? end : *bytes;
}

static Plan *stage_plan(Arena *a, const Plan *device)
{
    rlx_assert(device->buckets == NULL || device->buckets->n >= 1);
    Plan *p = ARENA_NEW(a, Plan);
    *p = *device;
    p->buffers.data = ARENA_ARRAY(a, PlanBuffer, device->buffers.len + 1);
    p->buffers.cap = device->buffers.len + 1;
    memcpy(p->buffers.data, device->buffers.data, device->buffers.len * sizeof *p->buffers.data);
    p->region_bytes[REGION_ARENA] = p->page != 0 ? align_to(p->buffers.data[p->page].bytes, BLOCK) : 0;
    for (BufId b = 1; b < p->buffers.len; b++)
        stage_buffer(p, b);
    return p;
}

// All plans have one arena block.
static Plan *stage_buckets(Arena *a, const Plan *device)
{
    PlanBuckets *b = ARENA_NEW(a, PlanBuckets);
    uint64_t arena = 0;
    *b = *device->buckets;
    for (uint32_t i = 0; i < b->n; i++) {
        b->plan[i] = stage_plan(a, device->buckets->plan[i]);
        b->plan[i]->buckets = b;
        arena =
            b->plan[i]->region_bytes[REGION_ARENA] > arena ? b->plan[i]->region_bytes[REGION_ARENA] : arena;
    }
    for (uint32_t i = 0; i < b->n; i++)
        b->plan[i]->region_bytes[REGION_ARENA] = arena;
    return b->plan[b->n - 1];
}

void host_gpu_begin(HostEmit *e, Plan *device)
{
    rlx_assert(device->caps->is_gpu);
    e->device = device;
    e->plan = device->buckets != NULL ? stage_buckets(e->arena, device) : stage_plan(e->arena, device);
    e->gpu = ARENA_NEW(e->arena, HostGpu);
    rlx_assert(e->target->device != DEVICE_HOST && e->target->device < sizeof hosts / sizeof *hosts);
    e->gpu->host = &hosts[e->target->device];
}

// --- functions -----------------------------------------------------------------------------------

typedef struct Counter {
    HostGpu *gpu;
    Arena *arena;
} Counter;

// rlx_gpu_loop.cell
static void place_cell(HostGpu *g, PlanLoop *l)
{
    const uint32_t n = l->moves.len;
    const uint64_t words = l->is_unrolled ? (uint64_t)l->max_trips : l->is_on_device ? 2 + 4 * n : 1;
    l->cell = g->cell_bytes;
    g->cell_bytes += 8 * words;
    g->has_loops = g->has_loops || (l->is_on_device && !l->is_unrolled);
    g->max_args = n + 1 > g->max_args ? n + 1 : g->max_args;
}

static void count_kernel(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    const Counter *c = ctx;
    HostGpu *g = c->gpu;
    uint64_t seen = 0;
    (void)p, (void)times;
    g->max_args = k->args.len > g->max_args ? k->args.len : g->max_args;
    if (k->loop != NULL)
        place_cell(g, k->loop);
    if (k->loop != NULL || map_get_str(&g->functions, k->function, &seen))
        return;
    map_put_str(c->arena, &g->functions, k->function, g->names.len);
    vec_push(c->arena, &g->names, k->function);
}

// Loops in loops. Recursion: as deep as the model nests them.
static uint32_t loop_depth(const Plan *p)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        const uint32_t depth =
            p->kernels.data[i].loop != NULL ? 1 + loop_depth(p->kernels.data[i].loop->body) : 0;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

// One graph for every plan, and for every set of outputs unless these are too many.
static uint64_t count_graphs(const HostEmit *e)
{
    const uint64_t n = host_n_plans(e->plan), all = n * (1 + (uint64_t)e->plan->sets.len);
    return all <= MAX_GRAPHS ? all : n;
}

// Sizes that need all kernels; then those of the host's blocks are known as well.
static void measure(HostEmit *e)
{
    HostGpu *g = e->gpu;
    Counter c = {g, e->arena};
    for (uint32_t i = 0; i < host_n_plans(e->device); i++) {
        const Plan *p = host_plan(e->device, i);
        const uint32_t depth = loop_depth(p);
        const uint64_t end = host_gpu_weights_offset(p) + align_to(plan_weight_bytes(p), MEMORY_BLOCK);
        plan_walk(p, count_kernel, &c);
        g->depth = depth > g->depth ? depth : g->depth;
        g->max_steps = plan_count_kernels(p) > g->max_steps ? plan_count_kernels(p) : g->max_steps;
        g->experts = end > g->experts ? end : g->experts;
    }
    g->cells = g->experts + align_to(host_moe_device_bytes(e->device), MEMORY_BLOCK);
    g->memory_bytes = g->cells + align_to(g->cell_bytes + 1, MEMORY_BLOCK);
    for (uint32_t i = 0; i < host_n_plans(e->device); i++) {
        g->maps[i] = g->memory_bytes;
        g->memory_bytes += align_to(host_plan(e->device, i)->region_bytes[REGION_MAPS], MEMORY_BLOCK);
    }
    g->record_bytes = RECORD_BYTES +
                            8 * ((uint64_t)g->names.len + g->max_steps) + GRAPH_BYTES * count_graphs(e) +
                            8 * (uint64_t)(g->max_args + 1) * (g->depth + 1);
    g->record_bytes = align_to(g->record_bytes, BLOCK);
    rlx_assert(g->cells >= g->experts && g->memory_bytes % MEMORY_BLOCK == 0);
}

// --- code ----------------------------------------------------------------------------------------

// Indices are of 32 bits unless something is larger than they can count.
static void find_wide(const Plan *p, PlanKernel *k, uint64_t times, void *ctx)
{
    (void)times;
    rlx_assert(k->loop != NULL || k->args.len == k->kernel->params.len);
    for (uint32_t i = 0; i < k->args.len && k->loop == NULL; i++) {
        const PlanArg *arg = &k->args.data[i];
        const bool is_slot = p->experts.slots > 0 && p->buffers.data[arg->buf].region == REGION_EXPERTS;
        const uint64_t bytes = is_slot ? host_moe_device_bytes(p) : arg->end - arg->begin;
        *(bool *)ctx |= bytes / dtype_info[k->kernel->params.data[i].dtype].bytes >= INT32_MAX;
    }
    *(bool *)ctx |= k->loop == NULL && kernel_grid(k->kernel).threads >= INT32_MAX - GRID_GROUP_X;
}

static const char *kernels_text(HostEmit *e, const Str *kernels)
{
    Str text = str_new(e->arena);
    bool is_wide = false;
    for (uint32_t i = 0; i < host_n_plans(e->device); i++)
        plan_walk(host_plan(e->device, i), find_wide, &is_wide);
    str_printf(&text,
               "// %s.%s, generated by %s from graph \"%s\". Do not edit; this code belongs to its user.\n",
               e->options->name, e->gpu->host->extension, e->options->compiler,
               host_comment_text(e->arena, e->device->graph->name));
    if (is_wide)
        str_add(&text, "#define RLX_WIDE_INDEX\n");
    target_print_prelude(e->target, str_text(kernels), &text);
    str_printf(&text, "\n%s", str_text(kernels));
    if (e->gpu->host->kernels != NULL)
        str_printf(&text, "\n%s", e->gpu->host->kernels);
    return str_text(&text);
}

// What goes around loops on the device, where the model has any; else nothing.
static const char *loops_text(const HostEmit *e)
{
    Str text = str_new(e->arena);
    const char *const *line = e->gpu->host->loops;
    for (; line != NULL && *line != NULL && e->gpu->has_loops; line++)
        str_add(&text, *line);
    return str_text(&text);
}

static bool compile_text(const HostEmit *e, const char *text, const char *const *names, uint32_t n,
                         GpuImages *out)
{
    const HostOptions *o = e->options;
    return n == 0 || o->compile_gpu == NULL || o->compile_gpu(o->compile_gpu_ctx, text, names, n, out);
}

// The model's kernels, and behind these images those of its loops.
static bool compile_all(const HostEmit *e, const char *text, GpuImages *out)
{
    static const char *const names[] = {"rlx_loop_begin", "rlx_loop_next", "rlx_loop_clear"};
    const char *loops = loops_text(e);
    if (!compile_text(e, text, e->gpu->names.data, e->gpu->names.len, out))
        return false;
    const uint32_t n = out->len;
    if (*loops != '\0' && !compile_text(e, arena_printf(e->arena, "#define RLX_LOOPS\n%s", loops), names,
                                        sizeof names / sizeof *names, out))
        return false;
    for (uint32_t i = n; i < out->len; i++) {
        out->data[i].kind |= LOOPS;
        out->data[i].label = arena_printf(e->arena, "loops_%s", out->data[i].label);
    }
    return true;
}

// Compiled code as C: in the text when it is short, else as a file that the assembler takes in.
static void emit_images(HostEmit *e, const GpuImages *images, Str *out)
{
    Str list = str_new(e->arena);
    for (uint32_t i = 0; i < images->len; i++) {
        const GpuImage *m = &images->data[i];
        char *bytes = ARENA_ARRAY(e->arena, char, align_to(m->len + 1, BLOCK));
        memcpy(bytes, m->data, m->len);
        const EmittedFile content = {
            .name = m->label, .data = bytes, .len = (size_t)align_to(m->len + 1, BLOCK)};
        const char *symbol = arena_printf(e->arena, "image_%s", m->label);
        if (content.len > HOST_TEXT_MAX_BYTES && e->options->weights != WEIGHTS_RODATA)
            symbol = host_emit_blob(e, m->label, content);
        else
            host_emit_words(symbol, &content, out);
        str_printf(&list, "    {0x%xu, %zuu, %s},\n", m->kind, m->len, symbol);
    }
    if (images->len != 0)
        str_printf(out, "static const rlx_gpu_image images[] = {\n%s};\n\n", str_text(&list));
    e->gpu->images = arena_printf(e->arena, "%uu, %s", images->len, images->len != 0 ? "images" : "NULL");
}

static void emit_functions(const HostEmit *e, Str *out)
{
    if (e->gpu->names.len == 0)
        return;
    str_add(out, "static const char *const functions[] = {\n");
    for (uint32_t i = 0; i < e->gpu->names.len; i++)
        str_printf(out, "    \"%s\",\n", e->gpu->names.data[i]);
    str_add(out, "};\n\n");
}

bool host_gpu_emit_code(HostEmit *e, const Str *kernels, Str *out)
{
    rlx_assert(e->gpu != NULL);
    GpuImages images = {0};
    const char *text = kernels_text(e, kernels);
    measure(e);
    const char *whole = arena_printf(e->arena, "%s%s", text, loops_text(e));
    const EmittedFile file = {.name =
                                  arena_printf(e->arena, "%s.%s", e->options->name, e->gpu->host->extension),
                              .data = whole,
                              .len = strlen(whole)};
    if (!compile_all(e, text, &images))
        return false;
    if (!e->options->is_one_file || images.len == 0)
        vec_push(e->arena, &e->out->files, file);
    emit_images(e, &images, out);
    emit_functions(e, out);
    host_gpu_emit_runs(e, out);
    for (uint32_t i = 0; i < host_n_plans(e->plan); i++) {
        const HostEmit v = host_variant(e, i);
        host_gpu_emit_program(&v, out);
    }
    return true;
}

void host_gpu_emit_header(const HostEmit *e, Str *out)
{
    if (e->gpu != NULL)
        str_printf(out,
                   "\n// Memory on the device that %s_init takes for a context, and rlx_close gives back.\n"
                   "#define %s_DEVICE_BYTES %lluu\n",
                   e->options->name, e->upper, (unsigned long long)e->gpu->memory_bytes);
}
