// SPDX-License-Identifier: Apache-2.0
// The API of a generated model: NAME.h (sizes, shapes, entry points), the descriptor and the typed entry
// point. Separate from host.c, which writes what runs.
#include "codegen/host/host_parts.h"
#include <ctype.h>
#include <string.h>

static const char *const c_types[DTYPE_COUNT] = {
    [DTYPE_f32] = "float",      [DTYPE_f16] = "uint16_t",       [DTYPE_bf16] = "uint16_t",
    [DTYPE_f64] = "double",     [DTYPE_i64] = "int64_t",        [DTYPE_i32] = "int32_t",
    [DTYPE_i16] = "int16_t",    [DTYPE_i8] = "int8_t",          [DTYPE_u64] = "uint64_t",
    [DTYPE_u32] = "uint32_t",   [DTYPE_u16] = "uint16_t",       [DTYPE_u8] = "uint8_t",
    [DTYPE_bool] = "uint8_t",   [DTYPE_f8e4m3fn] = "uint8_t",   [DTYPE_f8e4m3fnuz] = "uint8_t",
    [DTYPE_f8e5m2] = "uint8_t", [DTYPE_f8e5m2fnuz] = "uint8_t", [DTYPE_f8e8m0] = "uint8_t",
    [DTYPE_f4e2m1] = "uint8_t", [DTYPE_i4] = "int8_t",          [DTYPE_u4] = "uint8_t",
    [DTYPE_i2] = "int8_t",      [DTYPE_u2] = "uint8_t"};

const char *host_upper(Arena *a, const char *name)
{
    char *s = arena_strdup(a, name);
    for (char *c = s; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    return s;
}

const char *host_comment_text(Arena *a, const char *text)
{
    Str s = str_new(a);
    for (const char *c = text; *c != '\0'; c++)
        str_char(&s, isascii((unsigned char)*c) && isprint((unsigned char)*c) && *c != '\\' && *c != '"' &&
                             *c != '?'
                         ? *c
                         : '_');
    return str_text(&s);
}

const char *host_string_literal(Arena *a, const char *text)
{
    Str s = str_new(a);
    str_char(&s, '"');
    for (const char *c = text; *c != '\0'; c++)
        if (isascii((unsigned char)*c) && isprint((unsigned char)*c))
            str_printf(&s, "%s%c", strchr("\\\"?", *c) != NULL ? "\\" : "", *c);
        else
            str_printf(&s, "\\%03o", (unsigned char)*c);
    str_char(&s, '"');
    return str_text(&s);
}

const char *host_note_literal(Arena *a, const char *text)
{
    enum { MOST = 4000 };
    const bool is_cut = strlen(text) > MOST;
    return host_string_literal(a, is_cut ? arena_printf(a, "%.*s ...", (int)MOST, text) : text);
}

unsigned host_used_threads(const HostEmit *e)
{
    bool is_shared = e->plan->is_shared;
    for (uint32_t i = 0; i < host_n_plans(e->plan); i++)
        is_shared = is_shared || host_plan(e->plan, i)->is_shared;
    return is_shared ? e->plan->caps->threads : 1u;
}

// What GPUs prepare begins with one of their lines (memplan.c).
uint64_t host_region_base(const Plan *p, Region r)
{
    rlx_assert(r < REGION_COUNT);
    const bool is_behind = r == REGION_EXPERTS && p->experts.slots == 0;
    const uint64_t block = p->caps->is_gpu ? 256 : 64;
    return r == REGION_PARAM      ? p->region_bytes[REGION_STATE]
           : r == REGION_PREPARED ? (host_initial_bytes(p) + block - 1) / block * block
           : is_behind            ? p->region_bytes[REGION_WEIGHTS]
                                  : 0;
}

uint64_t host_flags_offset(const Plan *p)
{
    return p->region_bytes[REGION_STATE] + p->region_bytes[REGION_PARAM];
}

uint64_t host_initial_bytes(const Plan *p)
{
    return host_flags_offset(p) + (p->params.len + p->prepare.n_marks + 63u) / 64u * 64u;
}

// --- the typed entry point -----------------------------------------------------------------------

// "1 * 3 * 8": the number of elements with the shape still visible; at least one element.
static void print_extent(const PlanIo *io, Str *out)
{
    bool is_empty = io->rank == 0;
    double product = 1;
    for (uint32_t i = 0; i < io->rank; i++) {
        is_empty = is_empty || io->dim[i] == 0;
        product *= (double)io->dim[i];
    }
    if (is_empty) {
        str_char(out, '1');
        return;
    }
    for (uint32_t i = 0; i < io->rank; i++)
        str_printf(out, "%s%lld%s", i == 0 ? "" : " * ", (long long)io->dim[i],
                   i == 0 && product > INT32_MAX ? "LL" : ""); // int would overflow
}

// Arrays whose size depends on symbols are pointers: compilers would warn of what is smaller than the
// largest.
static void print_argument(const HostEmit *e, bool is_output, uint32_t slot, Str *out)
{
    const PlanIo *io = is_output ? &e->plan->outputs.data[slot] : &e->plan->inputs.data[slot];
    const char *name = (is_output ? e->output_names : e->input_names)[slot];
    const bool is_open = host_open_shape(e, is_output, slot) != NULL;
    str_printf(out, ", %s%s %s%s%s", is_output ? "" : "const ", c_types[io->dtype], is_open ? "*" : "", name,
               is_open ? "" : "[");
    if (is_open)
        return;
    print_extent(io, out);
    str_char(out, ']');
}

static void print_prototype(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    str_printf(out, "rlx_status %s(rlx_ctx *ctx", e->options->name);
    for (uint32_t i = 0; i < p->inputs.len; i++)
        print_argument(e, false, i, out);
    for (uint32_t i = 0; i < p->outputs.len; i++)
        print_argument(e, true, i, out);
    str_char(out, ')');
}

static void print_feed_prototype(const HostEmit *e, Str *out)
{
    const uint32_t slot = e->plan->rows.input - 1;
    str_printf(out, "rlx_status %s_feed_%s(rlx_ctx *ctx, const %s *rows, size_t n_rows)", e->options->name,
               e->input_names[slot], c_types[e->plan->inputs.data[slot].dtype]);
}

// The call for an input that comes row by row.
static void emit_feed_header(const HostEmit *e, Str *out)
{
    const PlanRows *r = &e->plan->rows;
    if (r->input == 0)
        return;
    const PlanIo *io = &e->plan->inputs.data[r->input - 1];
    const char *name = e->input_names[r->input - 1];
    const uint64_t row = io->bytes / (uint64_t)r->n_rows / dtype_info[io->dtype].bytes;
    str_printf(out,
               "// %s comes row by row: so many rows of so many elements, in order.\n"
               "// In the model they follow each other along axis %u.\n"
               "#define %s_ROWS_%s %lldu\n#define %s_ROW_%s %lluu\n"
               "// Takes the next rows, any number, and computes as far as they allow. After the last row "
               "rlx_run does the rest.\n",
               name, r->axis, e->upper, name, (long long)r->n_rows, e->upper, name, (unsigned long long)row);
    print_feed_prototype(e, out);
    str_add(out, ";\n\n");
}

// The bytes that the entry point copies: a number, or what the symbols say.
static const char *bytes_text(const HostEmit *e, bool is_output, uint32_t slot)
{
    const PlanIo *io = is_output ? &e->plan->outputs.data[slot] : &e->plan->inputs.data[slot];
    if (host_open_shape(e, is_output, slot) != NULL)
        return arena_printf(e->arena, "rlx_%s(ctx, %uu)", is_output ? "output_room" : "input_bytes", slot);
    return arena_printf(e->arena, "%llu", (unsigned long long)io->bytes);
}

// Where the entry point copies them to or from.
static const char *place_text(const HostEmit *e, bool is_output, uint32_t slot)
{
    const PlanIo *io = is_output ? &e->plan->outputs.data[slot] : &e->plan->inputs.data[slot];
    if (e->plan->buckets != NULL || e->fallback != NULL)
        return arena_printf(e->arena, "rlx_%s(ctx, %uu)", is_output ? "output" : "input", slot);
    return arena_printf(e->arena, "ctx->arena + %llu",
                        (unsigned long long)(e->plan->buffers.data[io->buf].offset + io->byte_offset));
}

const char *host_foreign_model(const HostEmit *e)
{
    const char *own = e->plan->buckets == NULL ? "model" : "model->buckets";
    const char *its = e->plan->buckets == NULL ? "model" : "buckets";
    Str out = str_new(e->arena);
    if (e->plan->buckets != NULL)
        str_add(&out, "ctx->model == NULL || ");
    if (e->fallback == NULL)
        str_printf(&out, "ctx->%s != &%s_%s", own, e->options->name, its);
    else
        str_printf(&out, "(ctx->%s != &%s_%s && ctx->%s != &%s_%s" HOST_FALLBACK ")", own, e->options->name,
                   its, own, e->options->name, its);
    return str_text(&out);
}

// The larger of both sides.
unsigned long long host_arena_bytes(const HostEmit *e)
{
    const uint64_t own = e->plan->region_bytes[REGION_ARENA];
    const uint64_t other = e->fallback != NULL ? e->fallback->plan->region_bytes[REGION_ARENA] : 0;
    return own > other ? own : other;
}

unsigned long long host_whole_state_bytes(const HostEmit *e)
{
    const uint64_t own = e->gpu != NULL ? host_initial_bytes(e->plan) + e->gpu->record_bytes
                                        : plan_state_bytes(e->plan);
    const uint64_t other = e->fallback != NULL ? plan_state_bytes(e->fallback->plan) : 0;
    return own > other ? own : other;
}

// Which of them is NULL, for calls that say what they failed at.
static void print_null_checks(const char *const *names, uint32_t n, bool is_output, Str *out)
{
    for (uint32_t i = 0; i < n; i++)
        str_printf(out,
                   "    if (%s == NULL)\n        return rlx_fail(ctx, RLX_ERR_NULL, RLX_ABOUT_%s, "
                   "ctx->model->%s[%u].name, 0, 0);\n",
                   names[i], is_output ? "OUTPUT" : "INPUT", is_output ? "outputs" : "inputs", i);
}

// As a part of a condition, in lines of about 100 columns.
static void print_null_conditions(const char *const *names, uint32_t n, size_t *column, Str *out)
{
    for (uint32_t i = 0; i < n; i++) {
        const size_t width = strlen(names[i]) + strlen(" ||  == NULL");
        const bool is_full = *column + width > 100;
        str_printf(out, " ||%s%s == NULL", is_full ? "\n        " : " ", names[i]);
        *column = is_full ? 8 + width : *column + width;
    }
}

static void print_argument_checks(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    const char *foreign = host_foreign_model(e);
    size_t column = strlen("    if (ctx == NULL || ") + strlen(foreign);
    str_printf(out, "    if (ctx == NULL || %s", foreign);
    if (!host_tells_errors(e)) {
        print_null_conditions(e->input_names, p->inputs.len, &column, out);
        print_null_conditions(e->output_names, p->outputs.len, &column, out);
    }
    str_add(out, ")\n        return RLX_ERR_NULL;\n");
    if (host_tells_errors(e)) {
        print_null_checks(e->input_names, p->inputs.len, false, out);
        print_null_checks(e->output_names, p->outputs.len, true, out);
    }
}

static void emit_static_storage(HostEmit *e, Str *out)
{
    const char *name = e->options->name;
    const unsigned long long arena = host_arena_bytes(e), state = host_whole_state_bytes(e);
    const PlanBank *bank = host_state_bank(e->plan);
    if (host_has_banks(e)) {
        host_emit_bank_blocks(e, out);
    } else {
        if (bank != NULL)
            host_emit_section(e, bank, out);
        str_printf(out, "static RLX_ALIGNED unsigned char arena_block[%llu];\n", arena == 0 ? 1 : arena);
    }
    if (bank != NULL)
        host_emit_section(e, bank, out);
    str_printf(out, "static RLX_ALIGNED unsigned char state_block[%llu];\nstatic rlx_ctx static_ctx;\n\n",
               state == 0 ? 1 : state);
    if (host_has_banks(e)) {
        str_printf(out,
                   "rlx_ctx *%s_static(void)\n{\n    if (static_ctx.model == NULL && "
                   "%s_init_banks(&static_ctx, arena_blocks, state_block, sizeof state_block) != RLX_OK)\n"
                   "        return NULL;\n    return &static_ctx;\n}\n\n",
                   name, name);
        return;
    }
    str_printf(
        out,
        "rlx_ctx *%s_static(void)\n{\n    if (static_ctx.model == NULL && rlx_init(&static_ctx, &%s_model, "
        "arena_block, sizeof arena_block,\n"
        "                                             state_block, sizeof state_block, NULL, 0) != RLX_OK)\n"
        "        return NULL;\n    return &static_ctx;\n}\n\n",
        name, name);
}

void host_emit_entry(HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    const char *name = e->options->name;
    host_emit_init_banks(e, out);
    if (e->options->arena == ARENA_STATIC)
        emit_static_storage(e, out);
    host_emit_init(e, out);
    if (host_has_pool(e))
        str_printf(out,
                   "rlx_status %s_threads_start(rlx_ctx *ctx, rlx_pool *pool)\n{\n"
                   "    return rlx_threads_start(ctx, pool, rlx_threads_useful(%s_THREADS));\n}\n\n"
                   "void %s_threads_stop(rlx_ctx *ctx)\n{\n    rlx_threads_stop(ctx);\n}\n\n",
                   name, e->upper, name);
    host_emit_symbol_entry(e, out);
    if (p->rows.input != 0) {
        print_feed_prototype(e, out);
        str_printf(out,
                   "\n{\n    if (ctx == NULL || %s)\n        return RLX_ERR_NULL;\n"
                   "    return rlx_feed_rows(ctx, rows, n_rows);\n}\n\n",
                   host_foreign_model(e));
    }
    print_prototype(e, out);
    str_add(out, "\n{\n    rlx_status status;\n");
    print_argument_checks(e, out);
    if (host_checks_copied(e))
        str_add(out,
                "    status = rlx_check_copied(ctx);\n    if (status != RLX_OK)\n        return status;\n");
    for (uint32_t i = 0; i < p->inputs.len; i++)
        if (p->rows.input == i + 1)
            str_printf(out, "    ctx->whole = (const unsigned char *)%s;\n", e->input_names[i]);
        else
            str_printf(out, "    memcpy(%s, %s, %s);\n", place_text(e, false, i), e->input_names[i],
                       bytes_text(e, false, i));
    str_add(out, "    status = rlx_run_given(ctx);\n    if (status != RLX_OK)\n        return status;\n");
    for (uint32_t i = 0; i < p->outputs.len; i++)
        str_printf(out, "    memcpy(%s, %s, %s);\n", e->output_names[i], place_text(e, true, i),
                   bytes_text(e, true, i));
    str_add(out, "    return RLX_OK;\n}\n");
}

// --- header --------------------------------------------------------------------------------------

static void emit_slots(const HostEmit *e, const char *kind, const char *const *names, uint32_t n, Str *out)
{
    for (uint32_t i = 0; i < n; i++)
        str_printf(out, "#define %s_%s_%s %uu\n", e->upper, kind, names[i], i);
}

// Numbers for rlx_run_set, of kernels, and what a snapshot takes.
static void emit_set_slots(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->sets.len; i++)
        str_printf(out, "#define %s_SET_%s %uu\n", e->upper, p->sets.data[i].name, i);
    for (uint32_t i = 0; i < p->outputs.len; i++)
        bytes += 64 + (p->outputs.data[i].bytes + 63u) / 64u * 64u;
    const uint32_t own = host_listed_kernels(e);
    const uint32_t other = e->fallback != NULL ? host_count_kernels(e->fallback) : 0;
    if (own + other != 0)
        str_printf(out, "#define %s_KERNELS %uu\n", e->upper, own > other ? own : other);
    if (e->options->api == API_FULL)
        str_printf(out, "#define %s_SNAPSHOT_BYTES %lluu // rlx_take_snapshot\n", e->upper,
                   (unsigned long long)bytes);
}

static void emit_thread_prototypes(const HostEmit *e, Str *out)
{
    const char *name = e->options->name;
    if (host_is_parallel(e))
        str_printf(out,
                   "// The largest number of parts that runs can be shared in (rlx_set_parallel_for).\n"
                   "#define %s_THREADS %u\n\n",
                   e->upper, host_used_threads(e));
    if (host_has_pool(e))
        str_printf(
            out,
            "// From now on up to %s_THREADS threads (no more than there are processors) share the runs "
            "of the\n// context. pool: memory of the caller, that stays until %s_threads_stop. Without "
            "this, runs are\n// the caller's alone, and the results are the same.\n"
            "rlx_status %s_threads_start(rlx_ctx *ctx, rlx_pool *pool);\n"
            "// Before the context, its memory or the pool goes away.\n"
            "void %s_threads_stop(rlx_ctx *ctx);\n\n",
            e->upper, name, name, name);
}

static void emit_entry_prototype(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    str_add(out, "// Copies the inputs in, runs, copies the outputs out.\n");
    for (uint32_t i = 0; i < p->outputs.len; i++)
        if (p->outputs.data[i].sizes)
            str_printf(
                out,
                "// The size of %s is known only after a run: rlx_output_shape gives it. Its elements are "
                "dense "
                "in that shape,\n// the rest of the array, which has room for the largest, has no meaning.\n",
                e->output_names[i]);
    print_prototype(e, out);
}

void host_emit_header(const HostEmit *e, Str *out)
{
    str_printf(out, "#ifndef %s_MODEL_H\n#define %s_MODEL_H\n\n", e->upper, e->upper);
    host_emit_includes(e, out);
    str_printf(out, "%s\n#endif\n", e->uses[1]);
}

void host_emit_own_header(const HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    const char *name = e->options->name;
    str_printf(out,
               "// Sizes of the memory blocks, exact. Blocks start at a multiple of RLX_ALIGNMENT.\n#define "
               "%s_ARENA_BYTES %lluu\n",
               e->upper, host_arena_bytes(e));
    str_printf(out, "#define %s_STATE_BYTES %lluu\n#define %s_WEIGHT_BYTES %lluu\n\n", e->upper,
               host_whole_state_bytes(e), e->upper, (unsigned long long)host_weight_bytes(e));
    emit_slots(e, "INPUT", e->input_names, p->inputs.len, out);
    emit_slots(e, "OUTPUT", e->output_names, p->outputs.len + host_n_held(e), out);
    emit_set_slots(e, out);
    host_emit_symbol_header(e, out);
    host_emit_bucket_header(e, out);
    host_emit_moe_header(e, out);
    host_gpu_emit_header(e, out);
    host_emit_file_header(e, out);
    host_emit_bank_header(e, out);
    str_add(out, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    str_printf(out, "// The descriptor, for the rlx_ functions.\nextern const rlx_model %s_model;\n",
               name);
    if (p->buckets != NULL)
        str_printf(out, "extern const rlx_buckets %s_buckets;\n", name);
    if (e->fallback != NULL)
        str_printf(out,
                   "// That of contexts that run on the CPU: no device was found.\n"
                   "extern const rlx_model %s_model" HOST_FALLBACK ";\n",
                   name);
    if (e->fallback != NULL && p->buckets != NULL)
        str_printf(out, "extern const rlx_buckets %s_buckets" HOST_FALLBACK ";\n", name);
    str_char(out, '\n');
    str_printf(out,
               "// Binds a context to an arena of at least %s_ARENA_BYTES and a state block of at least "
               "%s_STATE_BYTES (NULL when 0).\n",
               e->upper, e->upper);
    str_printf(out,
               "rlx_status %s_init(rlx_ctx *ctx, void *arena, size_t arena_bytes, void *state, size_t "
               "state_bytes);\n\n",
               name);
    host_emit_bank_prototype(e, out);
    host_emit_symbol_prototypes(e, out);
    if (e->options->arena == ARENA_STATIC)
        str_printf(
            out,
            "// The one context on static storage; NULL if it cannot be made.\nrlx_ctx *%s_static(void);\n\n",
            name);
    emit_thread_prototypes(e, out);
    emit_feed_header(e, out);
    emit_entry_prototype(e, out);
    str_add(out, ";\n\n#ifdef __cplusplus\n}\n#endif\n");
}
