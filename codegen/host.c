// SPDX-License-Identifier: Apache-2.0
// Writes NAME.c: prelude, kernels (equal texts once), weights, the descriptor and the dispatch list. See
// host.h.
#include "codegen/host.h"
#include "base/map.h"
#include "codegen/host_parts.h"
#include <string.h>

unsigned char *host_weights(Arena *a, const Plan *plan)
{
    unsigned char *bytes = arena_alloc(a, plan->region_bytes[REGION_WEIGHTS]);
    for (BufId b = 1; b < plan->buffers.len; b++) {
        const PlanBuffer *buf = &plan->buffers.data[b];
        if (buf->region == REGION_WEIGHTS && buf->first != UINT32_MAX && buf->bytes > 0)
            memcpy(bytes + buf->offset, buf->data, buf->bytes);
    }
    return bytes;
}

// --- kernels -------------------------------------------------------------------------------------

// Prints every kernel; kernels whose text is equal but for name and comment are printed once.
static bool emit_kernels(HostEmit *e, Str *out)
{
    Map seen = {0};
    Plan *p = e->plan;
    for (uint32_t i = 0; i < p->kernels.len; i++) {
        PlanKernel *pk = &p->kernels.data[i];
        Kernel bare = *pk->kernel;
        const char *lacks = target_lacks(e->target, pk->kernel);
        if (lacks != NULL)
            return diag_error(e->diag, node_span(p->graph, pk->root), E0302, "%s: %s", pk->kernel->name,
                              lacks);
        bare.name = "k";
        bare.comment = "";
        Str text = str_new(e->arena);
        cfamily_print_kernel(e->target, &bare, &text);
        uint64_t first = 0;
        if (map_get(&seen, text.data, text.len, &first)) {
            pk->same_text_as = (uint32_t)first + 1;
            continue;
        }
        map_put(e->arena, &seen, text.data, text.len, i);
        cfamily_print_kernel(e->target, pk->kernel, out);
        str_char(out, '\n');
        e->out->n_functions++;
    }
    return true;
}

static const char *function_name(const Plan *p, uint32_t i)
{
    const PlanKernel *k = &p->kernels.data[i];
    return p->kernels.data[k->same_text_as != 0 ? k->same_text_as - 1 : i].kernel->name;
}

static void emit_call(HostEmit *e, uint32_t i, Str *out)
{
    static const char *const base[REGION_COUNT] = {"a", "s", "s", "w"};
    const PlanKernel *k = &e->plan->kernels.data[i];
    str_printf(out, "    %s(", function_name(e->plan, i));
    for (uint32_t j = 0; j < k->args.len; j++) {
        const PlanArg *arg = &k->args.data[j];
        const PlanBuffer *b = &e->plan->buffers.data[arg->buf];
        const KParam *param = &k->kernel->params.data[j];
        const uint64_t at = host_region_base(e->plan, b->region) + b->offset + arg->byte_offset;
        str_printf(out, "%s(%srlx_%s *)(%s + %llu)", j == 0 ? "" : ", ", param->is_written ? "" : "const ",
                   dtype_info[param->dtype].name, base[b->region], (unsigned long long)at);
    }
    str_add(out, ");\n");
}

static void emit_dispatch(HostEmit *e, Str *out)
{
    bool used[REGION_COUNT] = {false};
    for (uint32_t i = 0; i < e->plan->kernels.len; i++)
        for (uint32_t j = 0; j < e->plan->kernels.data[i].args.len; j++)
            used[e->plan->buffers.data[e->plan->kernels.data[i].args.data[j].buf].region] = true;
    str_add(out, "static void dispatch(rlx_ctx *ctx)\n{\n");
    if (used[REGION_ARENA])
        str_add(out, "    unsigned char *const a = ctx->arena;\n");
    if (used[REGION_STATE] || used[REGION_PARAM])
        str_add(out, "    unsigned char *const s = ctx->state;\n");
    if (used[REGION_WEIGHTS])
        str_add(out, "    const unsigned char *const w = ctx->weights;\n");
    if (!used[REGION_ARENA] && !used[REGION_STATE] && !used[REGION_PARAM] && !used[REGION_WEIGHTS])
        str_add(out, "    (void)ctx;\n");
    for (uint32_t i = 0; i < e->plan->kernels.len; i++)
        emit_call(e, i, out);
    str_add(out, "}\n\n");
}

// --- weights -------------------------------------------------------------------------------------

static void emit_rodata(HostEmit *e, const unsigned char *bytes, size_t n, Str *out)
{
    str_printf(out, "static RLX_ALIGNED const uint32_t weights[%zu] = {", n / 4);
    for (size_t i = 0; i < n / 4; i++) {
        uint32_t word = 0;
        memcpy(&word, bytes + 4 * i, 4);
        str_printf(out, "%s0x%08xu,", i % 8 == 0 ? "\n    " : " ", word);
    }
    str_add(out, "\n};\n\n");
    (void)e;
}

const char *host_emit_blob(HostEmit *e, const char *kind, const void *bytes, size_t n, Str *out)
{
    const char *name = e->options->name, *upper = e->upper, *kind_upper = host_upper(e->arena, kind);
    const char *file = arena_printf(e->arena, "%s.%s", name, kind);
    const char *path = arena_printf(e->arena, "%s_%s_PATH", upper, kind_upper);
    const char *symbol = arena_printf(e->arena, "%s_%s_blob", name, kind);
    vec_push(e->arena, &e->out->files, ((EmittedFile){file, bytes, n}));
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
    if (e->options->weights != WEIGHTS_AUTO)
        return e->options->weights;
    return e->plan->region_bytes[REGION_WEIGHTS] <= HOST_TEXT_MAX_BYTES ? WEIGHTS_RODATA : WEIGHTS_INCBIN;
}

// The C expression for the built-in weights: NULL when there are none or the caller brings them.
static const char *emit_weights(HostEmit *e, Str *out)
{
    const size_t n = (size_t)e->plan->region_bytes[REGION_WEIGHTS];
    if (n == 0)
        return "NULL";
    unsigned char *bytes = host_weights(e->arena, e->plan);
    const WeightsMode mode = weights_mode(e);
    if (mode == WEIGHTS_RODATA) {
        emit_rodata(e, bytes, n, out);
        return "weights";
    }
    if (mode == WEIGHTS_INCBIN)
        return host_emit_blob(e, "weights", bytes, n, out);
    vec_push(e->arena, &e->out->files,
             ((EmittedFile){arena_printf(e->arena, "%s.weights", e->options->name), bytes, n}));
    return "NULL";
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

static bool emit_c(HostEmit *e, Str *out)
{
    Str kernels = str_new(e->arena), body = str_new(e->arena);
    if (!emit_kernels(e, &kernels))
        return false;
    emit_banner(e, "c", out);
    str_printf(out, "// Compile with: cc -O3 %s%s-c %s.c\n", e->options->cc_flags,
               e->options->cc_flags[0] != '\0' ? " " : "", e->options->name);
    str_printf(out, "#include \"%s.h\"\n\n", e->options->name);
    emit_dispatch(e, &body);
    str_add(&kernels, str_text(&body));
    target_print_prelude(e->target, str_text(&kernels), out);
    str_char(out, '\n');
    str_add(out, str_text(&kernels));
    const char *weights = emit_weights(e, out);
    host_emit_descriptor(e, weights, out);
    host_emit_entry(e, out);
    return true;
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
                  .upper = host_upper(a, options->name)};
    Str c = str_new(a), h = str_new(a);
    host_name_tensors(&e);
    if (!emit_c(&e, &c))
        return false;
    emit_banner(&e, "h", &h);
    host_emit_header(&e, &h);
    vec_push(a, &out->files, ((EmittedFile){arena_printf(a, "%s.h", options->name), str_text(&h), h.len}));
    vec_push(a, &out->files, ((EmittedFile){arena_printf(a, "%s.c", options->name), str_text(&c), c.len}));
    out->code_bytes = c.len;
    out->weight_bytes = (size_t)plan->region_bytes[REGION_WEIGHTS];
    out->state_bytes = (size_t)host_state_bytes(plan);
    return true;
}
