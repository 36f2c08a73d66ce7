// SPDX-License-Identifier: Apache-2.0
// Writes NAME.c: prelude, kernels (equal texts once), weights, the descriptor and the dispatch list. See
// host.h.
#include "codegen/host.h"
#include "base/map.h"
#include "codegen/host_parts.h"
#include <stdlib.h>
#include <string.h>

// --- bytes of the weights ------------------------------------------------------------------------

typedef struct Stream {
    EmitSink sink;
    void *ctx;
    uint64_t at; // bytes given so far
} Stream;

static bool stream_bytes(Stream *s, const void *bytes, uint64_t n)
{
    s->at += n;
    return n == 0 || s->sink(s->ctx, bytes, (size_t)n);
}

static bool stream_gap(Stream *s, uint64_t to)
{
    static const unsigned char zeros[256];
    bool ok = true;
    while (ok && s->at < to) {
        const uint64_t gap = to - s->at;
        ok = stream_bytes(s, zeros, gap < sizeof zeros ? gap : sizeof zeros);
    }
    return ok;
}

static bool stream_buffer(Stream *s, const PlanBuffer *b, uint64_t base)
{
    Arena scratch = {0};
    const bool ok =
        stream_gap(s, base + b->offset) && stream_bytes(s, plan_buffer_bytes(b, &scratch), b->bytes);
    arena_free(&scratch);
    return ok;
}

static int by_offset(const void *a, const void *b)
{
    const PlanBuffer *x = *(const PlanBuffer *const *)a, *y = *(const PlanBuffer *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

typedef VEC(const PlanBuffer *) Buffers;

static void find_constants(const Plan *p, Region region, Arena *a, Buffers *out)
{
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if (buf->region == region && buf->first != UINT32_MAX && buf->bytes > 0)
            vec_push(a, out, buf);
    }
}

// All buffers of a region, which begins at byte `base`.
static bool stream_region(Stream *s, const Plan *p, Region region, uint64_t base)
{
    Arena scratch = {0};
    Buffers list = {0};
    for (uint32_t i = 0; i < host_n_plans(p); i++)
        find_constants(host_plan(p, i), region, &scratch, &list);
    if (list.len != 0)
        qsort(list.data, list.len, sizeof *list.data, by_offset);
    bool ok = true;
    for (uint32_t i = 0; i < list.len && ok; i++)
        if (i == 0 || list.data[i]->offset != list.data[i - 1]->offset) // plans share constants
            ok = stream_buffer(s, list.data[i], base);
    arena_free(&scratch);
    return ok && stream_gap(s, base + p->region_bytes[region]);
}

static bool stream_weights_of(Stream *s, const Plan *p, uint64_t base)
{
    return stream_region(s, p, REGION_WEIGHTS, base) &&
           (p->moe_slots > 0 || stream_region(s, p, REGION_EXPERTS, base + p->region_bytes[REGION_WEIGHTS]));
}

// The weights, or the experts where they are a file of their own.
static bool stream_weights(const EmittedFile *f, EmitSink sink, void *ctx)
{
    const Plan *p = f->plan;
    Stream s = {.sink = sink, .ctx = ctx};
    if (f->is_experts)
        return stream_region(&s, p, REGION_EXPERTS, 0) &&
               (f->fallback == NULL ||
                stream_region(&s, f->fallback, REGION_EXPERTS, p->region_bytes[REGION_EXPERTS]));
    return stream_weights_of(&s, p, 0) &&
           (f->fallback == NULL ||
            stream_weights_of(&s, f->fallback, f->len - plan_weight_bytes(f->fallback)));
}

bool host_stream(const EmittedFile *f, EmitSink sink, void *ctx)
{
    return f->data != NULL ? sink(ctx, f->data, f->len) : stream_weights(f, sink, ctx);
}

// --- kernels -------------------------------------------------------------------------------------

typedef struct Printed {
    Map seen; // texts without name and comment: the function's name
    Str *out;
} Printed;

// One function of it: of a kernel that is cut, that of a phase.
static void print_function(const HostEmit *e, const PlanKernel *pk, const Kernel *k, Str *out)
{
    if (pk->loop != NULL)
        host_print_loop(pk, out);
    else
        cfamily_print_kernel(e->target, k, out);
}

void host_print_functions(const HostEmit *e, const PlanKernel *pk, Str *out)
{
    if (pk->phases.len == 0)
        print_function(e, pk, pk->kernel, out);
    for (uint32_t i = 0; i < pk->phases.len; i++)
        print_function(e, pk, pk->phases.data[i].kernel, out);
}

// The function for a text: a new one, or an earlier one that is equal but for name and comment.
static const char *emit_once(HostEmit *e, const PlanKernel *pk, Kernel *k, Printed *p)
{
    const Kernel own = *k;
    uint64_t first = 0;
    Str text = str_new(e->arena);
    k->name = "k";
    k->comment = "";
    print_function(e, pk, k, &text);
    *k = own;
    if (map_get(&p->seen, text.data, text.len, &first))
        return (const char *)(uintptr_t)first;
    map_put(e->arena, &p->seen, text.data, text.len, (uint64_t)(uintptr_t)k->name);
    print_function(e, pk, k, p->out);
    str_char(p->out, '\n');
    e->out->n_functions++;
    return k->name;
}

static void emit_functions(HostEmit *e, PlanKernel *pk, Printed *p)
{
    pk->function = pk->kernel->name;
    if (pk->phases.len == 0)
        pk->function = emit_once(e, pk, pk->kernel, p);
    for (uint32_t i = 0; i < pk->phases.len; i++)
        pk->phases.data[i].function = emit_once(e, pk, pk->phases.data[i].kernel, p);
}

// A loop on a GPU is no function: the runtime walks its table.
static bool is_only_table(const HostEmit *e, const PlanKernel *pk)
{
    return pk->loop != NULL && e->device != NULL;
}

// Prints every kernel; kernels whose text is equal but for name and comment are printed once. Those of a
// loop's body come before the loop.
static bool emit_kernels(HostEmit *e, const Plan *plan, Printed *p)
{
    for (uint32_t i = 0; i < plan->kernels.len; i++) {
        PlanKernel *pk = &plan->kernels.data[i];
        const char *lacks = target_lacks(e->target, pk->kernel);
        if (lacks != NULL)
            return diag_error(e->diag, node_span(plan->graph, pk->root), E0302, "%s: %s", pk->kernel->name,
                              lacks);
        if (pk->loop != NULL && !emit_kernels(e, pk->loop->body, p))
            return false;
        if (!is_only_table(e, pk))
            emit_functions(e, pk, p);
    }
    return true;
}

// --- weights -------------------------------------------------------------------------------------

typedef struct WordText {
    Str *out;
    uint64_t n;    // bytes so far
    uint32_t word; // the bytes of the word that is not complete yet
} WordText;

static bool print_words(void *ctx, const void *bytes, size_t n)
{
    WordText *t = ctx;
    for (size_t i = 0; i < n; i++, t->n++) {
        memcpy((unsigned char *)&t->word + t->n % 4, (const unsigned char *)bytes + i, 1);
        if (t->n % 4 == 3)
            str_printf(t->out, "%s0x%08xu,", t->n % 32 == 3 ? "\n    " : " ", t->word);
    }
    return true;
}

void host_emit_words(const char *name, const EmittedFile *content, Str *out)
{
    WordText t = {.out = out};
    str_printf(out, "static RLX_ALIGNED const uint32_t %s[%zu] = {", name, content->len / 4);
    host_stream(content, print_words, &t);
    str_add(out, "\n};\n\n");
}

const char *host_emit_blob(HostEmit *e, const char *kind, EmittedFile content, Str *out)
{
    const char *name = e->options->name, *upper = e->upper, *kind_upper = host_upper(e->arena, kind);
    const char *file = arena_printf(e->arena, "%s.%s", name, kind);
    const char *path = arena_printf(e->arena, "%s_%s_PATH", upper, kind_upper);
    const char *symbol = arena_printf(e->arena, "%s_%s_blob", name, kind);
    content.name = file;
    vec_push(e->arena, &e->out->files, content);
    str_printf(out,
               "// %s is taken in by the assembler: compile in its folder, or say where it is with\n"
               "// -D%s='\"/path/%s\"'.\n#ifndef %s\n#define %s \"%s\"\n#endif\n",
               file, path, file, path, path, file);
    str_add(out, "#ifndef RLX_SYM\n#if defined(__APPLE__)\n#define RLX_SYM \"_\"\n#define RLX_RODATA "
                 "\".const_data\"\n#define RLX_HIDDEN \".private_extern\"\n"
                 "#else\n#define RLX_SYM \"\"\n#define RLX_RODATA \".section .rodata\"\n#define "
                 "RLX_HIDDEN \".hidden\"\n#endif\n#endif\n");
    str_printf(out,
               "#ifdef __cplusplus\nextern \"C\" {\n#endif\n"
               "extern const unsigned char %s[] __attribute__((visibility(\"hidden\")));\n"
               "#ifdef __cplusplus\n}\n#endif\n",
               symbol);
    str_printf(out,
               "__asm__(RLX_RODATA \"\\n.balign 64\\n.globl \" RLX_SYM \"%s\\n\" RLX_HIDDEN \" \" RLX_SYM "
               "\"%s\\n\"\n"
               "        RLX_SYM \"%s:\\n.incbin \\\"\" %s \"\\\"\\n.text\\n\");\n\n",
               symbol, symbol, symbol, path);
    return symbol;
}

static WeightsMode weights_mode(const HostEmit *e)
{
    if (e->options->weights != WEIGHTS_AUTO && e->options->weights != WEIGHTS_INPLACE)
        return e->options->weights;
    return plan_weight_bytes(e->plan) <= HOST_TEXT_MAX_BYTES ? WEIGHTS_RODATA : WEIGHTS_INCBIN;
}

// The C expression for the built-in weights: NULL when there are none or the caller brings them.
static const char *emit_weights(HostEmit *e, Str *out)
{
    const WeightsMode mode = weights_mode(e);
    const bool is_whole = mode == WEIGHTS_FILE; // one file for both sides
    const EmittedFile weights = {
        .name = arena_printf(e->arena, "%s.weights", e->options->name),
        .plan = e->plan,
        .fallback = is_whole && e->fallback != NULL ? e->fallback->plan : NULL,
        .len = (size_t)(is_whole ? host_weight_bytes(e) : plan_weight_bytes(e->plan))};
    const char *name = arena_printf(e->arena, "weights%s", e->side);
    if (weights.len == 0 || (is_whole && e->side[0] != '\0'))
        return "NULL";
    if (mode == WEIGHTS_RODATA) {
        host_emit_words(name, &weights, out);
        return name;
    }
    if (mode == WEIGHTS_INCBIN)
        return host_emit_blob(e, name, weights, out);
    vec_push(e->arena, &e->out->files, weights);
    return "NULL";
}

// Experts that the program maps.
static void emit_experts(HostEmit *e)
{
    const EmittedFile f = {.name = arena_printf(e->arena, "%s.experts", e->options->name),
                           .plan = e->plan,
                           .fallback = e->fallback != NULL ? e->fallback->plan : NULL,
                           .len = (size_t)host_moe_bytes(e),
                           .is_experts = true};
    if (e->plan->moe_slots > 0 && f.len > 0 && e->first == NULL)
        vec_push(e->arena, &e->out->files, f);
}

// --- the file ------------------------------------------------------------------------------------

static void emit_banner(HostEmit *e, const char *suffix, Str *out)
{
    str_printf(out,
               "// %s.%s, generated by %s for cpu %s from graph \"%s\". Do not edit; this code belongs to "
               "its user.\n",
               e->options->name, suffix, e->options->compiler, e->options->cpu,
               host_comment_text(e->arena, e->plan->graph->name));
}

// Kernels, what they need in front, and the functions that call them.
static bool emit_code(HostEmit *e, const Str *kernels, Str *out)
{
    Str body = str_new(e->arena);
    if (e->device != NULL)
        return host_gpu_emit_code(e, kernels, out);
    for (uint32_t i = 0; i < host_n_plans(e->plan); i++) {
        const HostEmit v = host_variant(e, i);
        host_emit_dispatch(&v, &body);
    }
    Str all = str_new(e->arena);
    str_printf(&all, "%s%s", str_text(kernels), str_text(&body));
    target_print_prelude(e->target, str_text(&all), out);
    str_char(out, '\n');
    if (e->plan->probe != 0)
        str_add(out, "extern void (*rlx_probe)(unsigned);\nvoid (*rlx_probe)(unsigned);\n\n");
    str_add(out, str_text(&all));
    return true;
}

// What runs, and its descriptor.
static bool emit_side(HostEmit *e, Str *out)
{
    Str kernels = str_new(e->arena);
    Printed printed = {.out = &kernels};
    for (uint32_t i = 0; i < host_n_plans(e->plan); i++)
        if (!emit_kernels(e, host_plan(e->plan, i), &printed))
            return false;
    if (e->plan->file != NULL) // what runs names them
        e->rest = emit_weights(e, out);
    if (!emit_code(e, &kernels, out))
        return false;
    const char *weights = e->plan->file != NULL ? "NULL" : emit_weights(e, out);
    emit_experts(e);
    host_emit_descriptor(e, weights, out);
    return true;
}

static bool emit_c(HostEmit *e, Str *out)
{
    emit_banner(e, "c", out);
    str_printf(out, "// Compile with: cc -O3 %s%s-c %s.c\n", e->options->cc_flags,
               e->options->cc_flags[0] != '\0' ? " " : "", e->options->name);
    str_printf(out, "#include \"%s.h\"\n\n", e->options->name);
    if ((e->fallback != NULL && !emit_side(e->fallback, out)) || !emit_side(e, out))
        return false;
    host_emit_entry(e, out);
    return true;
}

uint64_t host_fallback_weights(const HostEmit *e)
{
    return (plan_weight_bytes(e->plan) + 63u) / 64u * 64u;
}

uint64_t host_weight_bytes(const HostEmit *e)
{
    return e->plan->file != NULL ? e->plan->file->len
           : e->fallback == NULL ? plan_weight_bytes(e->plan)
                               : host_fallback_weights(e) + plan_weight_bytes(e->fallback->plan);
}

static void begin(HostEmit *e)
{
    if (e->target->caps.is_gpu)
        host_gpu_begin(e, e->plan);
    host_name_tensors(e);
    host_name_variants(e);
    host_number_kernels(e);
}

bool host_emit(Arena *a, Diag *d, const Target *t, Plan *plan, const HostOptions *options, Emitted *out)
{
    *out = (Emitted){0};
    HostEmit e = {.arena = a,
                  .diag = d,
                  .target = t,
                  .plan = plan,
                  .options = options,
                  .out = out,
                  .suffix = "",
                  .side = "",
                  .sources = ARENA_NEW(a, Map),
                  .upper = host_upper(a, options->name)};
    HostEmit fallback = e;
    Str c = str_new(a), h = str_new(a);
    begin(&e);
    if (options->fallback != NULL) {
        fallback.target = &target_c;
        fallback.plan = options->fallback;
        fallback.side = fallback.suffix = HOST_FALLBACK;
        fallback.sources = ARENA_NEW(a, Map);
        begin(&fallback);
        e.fallback = &fallback;
        fallback.first = &e;
    }
    if (!emit_c(&e, &c))
        return false;
    emit_banner(&e, "h", &h);
    host_emit_header(&e, &h);
    vec_push(a, &out->files,
             ((EmittedFile){arena_printf(a, "%s.h", options->name), str_text(&h), NULL, NULL, h.len, false}));
    vec_push(a, &out->files,
             ((EmittedFile){arena_printf(a, "%s.c", options->name), str_text(&c), NULL, NULL, c.len, false}));
    out->code_bytes = c.len;
    out->weight_bytes = (size_t)(plan->file != NULL ? plan_weight_bytes(plan) : host_weight_bytes(&e));
    out->state_bytes = (size_t)host_whole_state_bytes(&e);
    out->arena_bytes = (size_t)host_arena_bytes(&e);
    out->device_bytes = e.gpu != NULL ? (size_t)e.gpu->memory_bytes : 0;
    return true;
}
