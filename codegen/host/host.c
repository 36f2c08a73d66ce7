// SPDX-License-Identifier: Apache-2.0
// Writes NAME.c: prelude, kernels (equal texts once), weights, the descriptor and the dispatch list. See
// host.h.
#include "codegen/host/host.h"
#include "base/map.h"
#include "codegen/host/host_parts.h"
#include "codegen/host/host_split.h"
#include "codegen/host/object.h"
#include <stdlib.h>
#include <string.h>

// --- kernels -------------------------------------------------------------------------------------

typedef struct Printed {
    Map seen; // texts without name and comment: the function's name
    HostFunctions functions;
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
    rlx_assert(pk->kernel != NULL && pk->function != NULL);
    if (pk->threads.phases.len == 0)
        print_function(e, pk, pk->kernel, out);
    for (uint32_t i = 0; i < pk->threads.phases.len; i++)
        print_function(e, pk, pk->threads.phases.data[i].kernel, out);
}

static void add_function(HostEmit *e, const PlanKernel *pk, Kernel *k, Printed *p)
{
    const char *comment = k->comment;
    const char *signature = NULL;
    Str text = str_new(e->arena), plain = str_new(e->arena);
    print_function(e, pk, k, &text);
    if (e->options->parts > 1) {
        k->comment = "";
        print_function(e, pk, k, &plain);
        k->comment = comment;
        signature = arena_strndup(e->arena, plain.data, strcspn(str_text(&plain), "\n"));
    }
    vec_push(e->arena, &p->functions.list, ((HostFunction){signature, str_text(&text), text.len, 1}));
    e->out->n_functions++;
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
    // Where parts are compiled apart, the linker sees the name.
    const char *name = e->options->parts > 1
                           ? arena_printf(e->arena, "%s_%s", e->options->name, own.name)
                           : own.name;
    k->name = name;
    map_put(e->arena, &p->seen, text.data, text.len, (uint64_t)(uintptr_t)name);
    add_function(e, pk, k, p);
    k->name = own.name;
    return name;
}

static void emit_functions(HostEmit *e, PlanKernel *pk, Printed *p)
{
    pk->function = pk->kernel->name;
    if (pk->threads.phases.len == 0)
        pk->function = emit_once(e, pk, pk->kernel, p);
    for (uint32_t i = 0; i < pk->threads.phases.len; i++)
        pk->threads.phases.data[i].function = emit_once(e, pk, pk->threads.phases.data[i].kernel, p);
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
    rlx_assert(content->len % 4 == 0);
    WordText t = {.out = out};
    str_printf(out, "static RLX_ALIGNED const uint32_t %s[%zu] = {", name, content->len / 4);
    host_stream(content, print_words, &t);
    str_add(out, "\n};\n\n");
}

// The C expression for the built-in weights: NULL when there are none or the caller brings them.
static const char *emit_weights(HostEmit *e, Str *out)
{
    const bool is_whole = e->weights == WEIGHTS_FILE; // one file for both sides
    const bool has_other = is_whole && e->fallback != NULL;
    const uint64_t bytes = plan_weight_bytes(e->plan);
    EmittedFile weights = {.name = arena_printf(e->arena, "%s.weights", e->options->name),
                           .plan = e->plan,
                           .sum = e->weights_sum,
                           .fallback = has_other ? e->fallback->plan : NULL,
                           .fallback_sum = has_other ? e->fallback->weights_sum : NULL,
                           .len = (size_t)(is_whole ? host_weight_bytes(e) : bytes)};
    const char *name = arena_printf(e->arena, "weights%s", e->side);
    if (weights.len == 0 || (is_whole && e->side[0] != '\0'))
        return "NULL";
    if (e->weights == WEIGHTS_RODATA) {
        weights.sum = NULL;
        host_emit_words(name, &weights, out);
        *e->weights_sum = *host_sum_known(e->arena, host_sum_of(&weights));
        return name;
    }
    if (!is_whole)
        return host_emit_blob(e, name, weights);
    host_add_file(e, weights, e->weights_sum);
    if (has_other)
        e->fallback->weights_sum->file = e->weights_sum->file;
    return "NULL";
}

// Experts that the program maps.
static void emit_experts(HostEmit *e)
{
    const EmittedFile f = {.name = arena_printf(e->arena, "%s.experts", e->options->name),
                           .plan = e->plan,
                           .fallback = e->fallback != NULL ? e->fallback->plan : NULL,
                           .len = (size_t)host_moe_bytes(e),
                           .sum = e->experts_sum,
                           .is_experts = true};
    if (e->plan->experts.slots > 0 && f.len > 0 && e->first == NULL)
        host_add_file(e, f, e->experts_sum);
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
static bool emit_code(HostEmit *e, HostFunctions *functions, Str *out)
{
    const uint32_t parts = e->options->parts;
    Str body = str_new(e->arena), kernels = str_new(e->arena);
    host_split_share(e->arena, functions, parts);
    host_split_print(functions, e->upper, parts, &kernels);
    if (e->device != NULL)
        return host_gpu_emit_code(e, &kernels, out);
    for (uint32_t i = 0; i < host_n_plans(e->plan); i++) {
        const HostEmit v = host_variant(e, i);
        host_emit_dispatch(&v, &body);
    }
    Str all = str_new(e->arena);
    str_printf(&all, "%s", str_text(&kernels));
    host_split_open(e->upper, parts, 1, &all); // to the end of the file
    str_add(&all, str_text(&body));
    target_print_prelude(e->target, str_text(&all), out);
    str_char(out, '\n');
    host_split_prototypes(functions, e->upper, parts, out);
    if (e->plan->probe != 0)
        str_add(out, "extern void (*rlx_probe)(unsigned);\nvoid (*rlx_probe)(unsigned);\n\n");
    str_add(out, str_text(&all));
    return true;
}

// What runs, and its descriptor.
static bool emit_side(HostEmit *e, Str *out)
{
    Printed printed = {0};
    for (uint32_t i = 0; i < host_n_plans(e->plan); i++)
        if (!emit_kernels(e, host_plan(e->plan, i), &printed))
            return false;
    if (e->plan->file != NULL) { // what runs names them
        host_split_open(e->upper, e->options->parts, 1, out);
        e->rest = emit_weights(e, out);
        host_split_close(e->options->parts, out);
    }
    if (!emit_code(e, &printed.functions, out))
        return false;
    const char *weights = e->plan->file != NULL ? "NULL" : emit_weights(e, out);
    emit_experts(e);
    host_emit_descriptor(e, weights, out);
    return true;
}

// Behind the first `at` bytes of the text, in part 1.
static void insert_blobs(const HostEmit *e, size_t at, Str *out)
{
    const size_t n = out->len - at;
    const char *rest = arena_strndup(e->arena, out->data + at, n);
    if (e->blobs->len == 0)
        return;
    out->len = at;
    host_split_open(e->upper, e->options->parts, 1, out);
    str_add_n(out, e->blobs->data, e->blobs->len);
    host_split_close(e->options->parts, out);
    const size_t added = out->len - at;
    str_add_n(out, rest, n);
    for (uint32_t i = 0; i < e->out->places.len; i++)
        e->out->places.data[i].at += added;
}

static bool emit_c(HostEmit *e, Str *out)
{
    emit_banner(e, "c", out);
    str_printf(out, "// Compile with: cc -O3 %s%s-c %s.c%s\n", e->options->cc_flags,
               e->options->cc_flags[0] != '\0' ? " " : "", e->options->name,
               host_split_names(e->arena, e->options->name, e->options->parts));
    str_printf(out, "#include \"%s.h\"\n\n", e->options->name);
    host_split_begin(e->options->name, e->upper, e->options->parts, out);
    const size_t head = out->len;
    if ((e->fallback != NULL && !emit_side(e->fallback, out)) || !emit_side(e, out))
        return false;
    host_emit_entry(e, out);
    host_split_close(e->options->parts, out);
    insert_blobs(e, head, out);
    return true;
}

uint64_t host_fallback_weights(const HostEmit *e)
{
    return (host_block_bytes(e) + 63u) / 64u * 64u;
}

// The weights of one side, with the seal of a file.
uint64_t host_block_bytes(const HostEmit *e)
{
    const uint64_t n = plan_weight_bytes(e->plan);
    return e->plan->file != NULL         ? e->plan->file->len
           : e->weights == WEIGHTS_FILE ? host_sealed_bytes(n)
                                        : n;
}

uint64_t host_weight_bytes(const HostEmit *e)
{
    const uint64_t own = host_block_bytes(e);
    return e->fallback == NULL ? own : host_fallback_weights(e) + host_block_bytes(e->fallback);
}

// Chooses for both sides together, or for each where both fit into a program.
static void choose_weights(HostEmit *e)
{
    const WeightsMode given = e->options->weights;
    const uint64_t own = plan_weight_bytes(e->plan),
                   other = e->fallback != NULL ? plan_weight_bytes(e->fallback->plan) : 0;
    const bool is_free = given == WEIGHTS_AUTO || given == WEIGHTS_INPLACE;
    const WeightsMode whole = host_auto_weights(own + other);
    e->weights = !is_free                                           ? given
                 : whole == WEIGHTS_FILE && given == WEIGHTS_AUTO ? whole
                                                                    : host_auto_weights(own);
    if (given == WEIGHTS_INPLACE && e->weights == WEIGHTS_FILE)
        e->weights = WEIGHTS_INCBIN; // the caller maps one file
    if (e->fallback != NULL)
        e->fallback->weights =
            is_free && e->weights != WEIGHTS_FILE ? host_auto_weights(other) : e->weights;
    e->out->weights = e->weights;
}

static void begin(HostEmit *e)
{
    e->taken = ARENA_NEW(e->arena, HostTaken);
    e->weights_sum = ARENA_NEW(e->arena, EmittedSum);
    if (e->target->caps.is_gpu)
        host_gpu_begin(e, e->plan);
    host_name_tensors(e);
    host_name_variants(e);
    host_number_kernels(e);
}

static void add_text(HostEmit *e, const char *suffix, Str *text, SumPlaces places)
{
    const char *name = arena_printf(e->arena, "%s.%s", e->options->name, suffix);
    vec_push(e->arena, &e->out->files,
             ((EmittedFile){.name = name, .data = str_text(text), .len = text->len, .places = places}));
}

// Text of so many numbers takes compilers minutes and gigabytes; a format may have no room for them.
static bool check_weights(const HostEmit *e)
{
    enum { MAX_TEXT = 1 << 28, WARN_TEXT = 1 << 24, TEXT_PER_BYTE = 3 };
    const unsigned long long n = host_weight_bytes(e), text = n * TEXT_PER_BYTE >> 20;
    if (e->weights == WEIGHTS_OBJECT && n > object_most_bytes(e->options->object))
        return diag_error(e->diag, (Span){0}, E0003,
                          "--weights object: expected at most %llu bytes of weights in this format, found "
                          "%llu: use --weights file",
                          (unsigned long long)object_most_bytes(e->options->object), n);
    if (e->weights == WEIGHTS_RODATA && n > MAX_TEXT)
        return diag_error(e->diag, (Span){0}, E0003,
                          "--weights rodata: %llu bytes of weights would be %llu MiB of C; use --weights "
                          "file, object or incbin",
                          n, text);
    if (e->weights == WEIGHTS_RODATA && n > WARN_TEXT)
        diag_warning(e->diag, (Span){0}, E0003,
                     "--weights rodata: %llu bytes of weights are %llu MiB of C, which take the C compiler "
                     "seconds and gigabytes of memory",
                     n, text);
    if (e->weights == WEIGHTS_FILE && e->options->arena == ARENA_STATIC)
        return diag_error(e->diag, (Span){0}, E0003,
                          "--arena static: expected weights in the program, found %llu bytes, which are a "
                          "file of their own: use --weights object or incbin",
                          n);
    return true;
}

bool host_emit(Arena *a, Diag *d, const Target *t, Plan *plan, const HostOptions *options, Emitted *out)
{
    rlx_assert(t != NULL && plan != NULL && options->name != NULL);
    rlx_assert(plan->caps->is_gpu == t->caps.is_gpu);
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
    Str c = str_new(a), h = str_new(a), blobs = str_new(a);
    e.blobs = &blobs;
    HostEmit fallback = e;
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
    e.experts_sum = fallback.experts_sum = ARENA_NEW(a, EmittedSum);
    choose_weights(&e);
    if (!check_weights(&e) || !emit_c(&e, &c))
        return false;
    emit_banner(&e, "h", &h);
    host_emit_header(&e, &h);
    add_text(&e, "h", &h, (SumPlaces){0});
    add_text(&e, "c", &c, out->places);
    host_split_files(a, options->name, e.upper, options->parts, out);
    out->code_bytes = c.len;
    out->weight_bytes = (size_t)(plan->file != NULL ? plan_weight_bytes(plan) : host_weight_bytes(&e));
    out->state_bytes = (size_t)host_whole_state_bytes(&e);
    out->arena_bytes = (size_t)host_arena_bytes(&e);
    out->device_bytes = e.gpu != NULL ? (size_t)e.gpu->memory_bytes : 0;
    return true;
}
