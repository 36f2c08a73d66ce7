// SPDX-License-Identifier: Apache-2.0
// The descriptor of a generated model (rlx_model of runtime-lite/rlx_types.h) and the tables that it
// points to.
#include "codegen/host/host_parts.h"
#include <string.h>

// The largest part of the arena in which nothing is between runs.
static void find_scratch(const Plan *p, uint64_t *begin, uint64_t *bytes)
{
    *begin = *bytes = 0;
    const uint64_t all = host_first_bytes(p);
    for (uint64_t at = 0, next = 0; at < all; at = next) {
        uint64_t free_to = all; // from `at` on
        next = free_to;
        for (uint32_t i = 0; plan_io(p, i) != NULL; i++) {
            const PlanBuffer *b = &p->buffers.data[plan_io(p, i)->buf];
            const uint64_t end = (b->offset + b->bytes + 63u) / 64u * 64u;
            if (b->region != REGION_ARENA || b->bytes == 0 || end <= at)
                continue;
            free_to = b->offset < free_to ? b->offset : free_to;
            next = end < next ? end : next;
        }
        if (free_to > at && free_to - at > *bytes) {
            *begin = at;
            *bytes = free_to - at;
        }
    }
}

static void emit_tensors(HostEmit *e, const char *list, const char *suffix, const PlanIo *io, uint32_t n,
                         Str *out)
{
    if (n == 0)
        return;
    str_printf(out, "static const rlx_tensor %s%s[] = {\n", list, suffix);
    for (uint32_t i = 0; i < n; i++) {
        rlx_assert(io[i].buf < e->plan->buffers.len && io[i].rank <= SHAPE_MAX_RANK);
        const PlanBuffer *b = &e->plan->buffers.data[io[i].buf];
        str_printf(out, "    {%s, RLX_%s, %u, {", host_string_literal(e->arena, io[i].name),
                   host_upper(e->arena, dtype_info[io[i].dtype].name), io[i].rank);
        for (uint32_t j = 0; j < SHAPE_MAX_RANK; j++)
            str_printf(out, "%s%lld", j == 0 ? "" : ", ", j < io[i].rank ? (long long)io[i].dim[j] : 0LL);
        str_printf(out, "}, %llu, %llu},\n",
                   (unsigned long long)(host_region_base(e->plan, b->region) + b->offset + io[i].byte_offset),
                   (unsigned long long)io[i].bytes);
    }
    str_add(out, "};\n\n");
}

// Outputs that are read from states.
static void emit_held(HostEmit *e, Str *out)
{
    VEC(PlanIo) held = {0};
    for (uint32_t i = 0; i < host_n_held(e); i++) {
        PlanIo io = e->plan->states.data[host_held_state(e, i)];
        io.name = e->plan->graph->states.data[host_held_state(e, i)].output;
        vec_push(e->arena, &held, io);
    }
    emit_tensors(e, "held", e->side, held.data, held.len, out);
}

// Initial bytes of the state block, when any state or param has some: the C expression for them, or NULL.
static const char *emit_state_init(HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    const uint64_t n = host_initial_bytes(p);
    unsigned char *bytes = arena_alloc(e->arena, n + 1);
    bool any = false;
    for (BufId b = 1; b < p->buffers.len; b++) {
        const PlanBuffer *buf = &p->buffers.data[b];
        if ((buf->region != REGION_STATE && buf->region != REGION_PARAM) || buf->data == NULL ||
            buf->bytes == 0 || b == p->page) // rlx_init sets symbols
            continue;
        rlx_assert(host_region_base(p, buf->region) + buf->offset + buf->bytes <= n);
        memcpy(bytes + host_region_base(p, buf->region) + buf->offset, buf->data, buf->bytes);
        any = true;
    }
    if (!any)
        return "NULL";
    if (n > HOST_TEXT_MAX_BYTES && e->options->weights != WEIGHTS_RODATA)
        return host_emit_blob(e, arena_printf(e->arena, "state%s", e->side),
                              (EmittedFile){.data = bytes, .len = (size_t)n});
    str_printf(out, "static RLX_ALIGNED const unsigned char state_init%s[%llu] = {", e->side,
               (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++)
        str_printf(out, "%s%u,", i % 24 == 0 ? "\n    " : " ", bytes[i]);
    str_add(out, "\n};\n\n");
    return arena_printf(e->arena, "state_init%s", e->side);
}

static void emit_param_flags(HostEmit *e, Str *out)
{
    if (e->plan->params.len == 0)
        return;
    str_printf(out, "static const unsigned char param_has_init%s[] = {", e->side);
    for (uint32_t i = 0; i < e->plan->params.len; i++) {
        const PlanIo *io = &e->plan->params.data[i];
        const bool is_set = e->plan->buffers.data[io->buf].data != NULL || io->bytes == 0;
        str_printf(out, "%s%d", i == 0 ? "" : ", ", is_set);
    }
    str_add(out, "};\n\n");
}

static void emit_checks(HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    if (p->checks.len == 0)
        return;
    str_printf(out, "static const rlx_check checks%s[] = {\n", e->suffix);
    for (uint32_t i = 0; i < p->checks.len; i++) {
        const PlanCheck *c = &p->checks.data[i];
        rlx_assert(c->buf != 0 && c->buf < p->buffers.len && c->message != NULL);
        const PlanBuffer *b = &p->buffers.data[c->buf];
        const bool is_range = strncmp(c->message, GRAPH_RANGE, strlen(GRAPH_RANGE)) == 0;
        str_printf(out, "    {%s, %d, %llu, %s},\n", host_string_literal(e->arena, c->message),
                   b->region != REGION_ARENA,
                   (unsigned long long)(host_region_base(p, b->region) + b->offset + c->byte_offset),
                   is_range ? "RLX_ERR_RANGE" : "RLX_ERR_VALUE");
    }
    str_add(out, "};\n\n");
}

// By output: where in the arena its sizes are after a run.
static const char *emit_output_sizes(HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    if (p->sizes.len == 0)
        return "NULL";
    str_printf(out, "static const size_t output_sizes%s[] = {", e->suffix);
    for (uint32_t i = 0; i < p->outputs.len; i++) {
        const PlanIo *sizes = p->outputs.data[i].sizes ? &p->sizes.data[p->outputs.data[i].sizes - 1] : NULL;
        if (sizes)
            str_printf(out, "%s%llu", i == 0 ? "" : ", ",
                       (unsigned long long)(p->buffers.data[sizes->buf].offset + sizes->byte_offset));
        else
            str_printf(out, "%s(size_t)-1", i == 0 ? "" : ", ");
    }
    str_add(out, "};\n\n");
    return arena_printf(e->arena, "output_sizes%s", e->suffix);
}

static void emit_sets(HostEmit *e, Str *out)
{
    const Plan *p = e->plan;
    for (uint32_t i = 0; i < p->sets.len; i++) {
        str_printf(out, "static const unsigned char set%u%s[] = {", i, e->side);
        for (uint32_t j = 0; j < p->outputs.len; j++)
            str_printf(out, "%s%u", j == 0 ? "" : ", ", p->sets.data[i].has[j]);
        str_add(out, "};\n");
    }
    if (p->sets.len == 0)
        return;
    str_printf(out, "static const rlx_output_set sets%s[] = {", e->side);
    for (uint32_t i = 0; i < p->sets.len; i++)
        str_printf(out, "%s{\"%s\", set%u%s}", i == 0 ? "" : ", ", p->sets.data[i].name, i, e->side);
    str_add(out, "};\n\n");
}

// A table that all plans share.
static const char *list_or_null(const HostEmit *e, const char *name, uint32_t n)
{
    return n != 0 ? arena_printf(e->arena, "%s%s", name, e->side) : "NULL";
}

// A table of the plan.
static const char *own_list(const HostEmit *e, const char *name, uint32_t n)
{
    return n != 0 ? arena_printf(e->arena, "%s%s", name, e->suffix) : "NULL";
}

// What the descriptors of all plans have in common: C expressions.
typedef struct Common {
    const char *weights, *state_init, *symbols, *file, *taken;
} Common;

// One member of the descriptor, a C expression.
static void member(Str *out, const char *name, const char *value)
{
    str_printf(out, "    %s, // %s\n", value, name);
}

static void number(Str *out, const char *name, uint64_t value)
{
    str_printf(out, "    %lluu, // %s\n", (unsigned long long)value, name);
}

static void emit_sizes(const HostEmit *e, const Common *c, Str *out)
{
    member(out, "name", host_string_literal(e->arena, e->options->name));
    member(out, "compiler", host_string_literal(e->arena, e->options->compiler));
    number(out, "arena_bytes", host_arena_bytes(e));
    number(out, "state_bytes", host_whole_state_bytes(e));
    number(out, "weight_bytes", host_block_bytes(e));
    member(out, "weights", c->weights);
    member(out, "state_init", c->state_init);
    number(out, "flags_offset", host_flags_offset(e->plan));
}

static void emit_lists(const HostEmit *e, const HostEmit *largest, Str *out)
{
    const Plan *p = e->plan;
    const uint32_t kernels = host_listed_kernels(largest);
    number(out, "n_inputs", p->inputs.len);
    number(out, "n_outputs", p->outputs.len);
    number(out, "n_params", p->params.len);
    number(out, "n_states", p->states.len);
    number(out, "n_kernels", kernels);
    member(out, "inputs", own_list(e, "inputs", p->inputs.len));
    member(out, "outputs", own_list(e, "outputs", p->outputs.len));
    member(out, "params", list_or_null(e, "params", p->params.len));
    member(out, "states", list_or_null(e, "states", p->states.len));
    member(out, "param_has_init", list_or_null(e, "param_has_init", p->params.len));
    member(out, "kernels", list_or_null(e, "kernels", kernels));
    member(out, "dispatch", arena_printf(e->arena, "dispatch%s", e->suffix));
}

// What a run tests, which outputs it can be limited to, and what stays of it.
static void emit_runs(const HostEmit *e, const HostEmit *largest, const Common *c, const char *sizes,
                      Str *out)
{
    const Plan *p = e->plan;
    uint64_t scratch = 0, scratch_bytes = 0;
    find_scratch(p, &scratch, &scratch_bytes);
    number(out, "n_checks", p->checks.len);
    member(out, "checks", own_list(e, "checks", p->checks.len));
    member(out, "output_sizes", sizes);
    number(out, "threads", host_used_threads(largest));
    number(out, "n_sets", p->sets.len);
    member(out, "sets", list_or_null(e, "sets", p->sets.len));
    member(out, "symbols", c->symbols);
    number(out, "n_kept", p->kept.len);
    member(out, "kept", own_list(e, "kept", p->kept.len));
    number(out, "scratch_offset", scratch);
    number(out, "scratch_bytes", scratch_bytes);
    member(out, "has_profile", e->options->has_profile ? "1" : "0");
}

// Other descriptors, and what runs elsewhere.
static void emit_variants(const HostEmit *e, const HostEmit *largest, const char *moe, uint32_t bucket,
                          Str *out)
{
    const bool has_buckets = largest->plan->buckets != NULL, has_fallback = e->fallback != NULL;
    const char *name = e->options->name;
    member(out, "buckets", has_buckets ? arena_printf(e->arena, "&%s_buckets%s", name, e->side) : "NULL");
    number(out, "bucket", has_buckets ? bucket : 0);
    member(out, "moe", moe);
    member(out, "device", e->device != NULL ? arena_printf(e->arena, "&device%s", e->suffix) : "NULL");
    member(out, "fallback", has_fallback ? arena_printf(e->arena, "&%s_model" HOST_FALLBACK, name) : "NULL");
    number(out, "fallback_weights", has_fallback ? host_fallback_weights(e) : 0);
}

static void emit_weight_members(const HostEmit *e, const Common *c, Str *out)
{
    const Plan *p = e->plan;
    const bool has_seal = p->file == NULL && e->weights == WEIGHTS_FILE && plan_weight_bytes(p) != 0;
    member(out, "file", c->file);
    str_add(out, "    ");
    host_print_sum(e, e->weights_sum, out);
    str_add(out, ", // weights_hash\n");
    if (e->weights == WEIGHTS_LOAD)
        number(out, "weights_seal", e->options->load->bytes);
    else
        member(out, "weights_seal", has_seal ? "RLX_SEAL_BYTES" : "0u");
    number(out, "n_taken", e->taken->len);
    member(out, "taken", c->taken);
}

static void emit_model(HostEmit *e, const HostEmit *largest, const Common *c, uint32_t bucket, Str *out)
{
    const Plan *p = e->plan;
    const bool is_public = p == largest->plan;
    emit_tensors(e, "inputs", e->suffix, p->inputs.data, p->inputs.len, out);
    emit_tensors(e, "outputs", e->suffix, p->outputs.data, p->outputs.len, out);
    emit_tensors(e, "kept", e->suffix, p->kept.data, p->kept.len, out);
    emit_checks(e, out);
    const char *sizes = emit_output_sizes(e, out), *moe = host_emit_moe(e, out);
    const char *tables = host_emit_tables(e, host_count_kernels(largest) != 0, out);
    str_printf(out, "%sconst rlx_model %s%s%s = {\n", is_public ? "" : "static ",
               is_public ? e->options->name : "", is_public ? "_model" : "model", e->suffix);
    emit_sizes(e, c, out);
    emit_lists(e, largest, out);
    emit_runs(e, largest, c, sizes, out);
    emit_variants(e, largest, moe, bucket, out);
    emit_weight_members(e, c, out);
    member(out, "tables", tables);
    number(out, "n_held", host_n_held(e));
    member(out, "held", list_or_null(e, "held", host_n_held(e)));
    member(out, "rows", p->rows.input != 0 ? "&rows_input" : "NULL");
    str_add(out, "};\n\n");
}

void host_emit_descriptor(HostEmit *e, const char *weights, Str *out)
{
    const Plan *p = e->plan;
    emit_tensors(e, "params", e->side, p->params.data, p->params.len, out);
    emit_tensors(e, "states", e->side, p->states.data, p->states.len, out);
    emit_held(e, out);
    host_emit_kernel_table(e, out);
    emit_param_flags(e, out);
    emit_sets(e, out);
    const char *state_init = emit_state_init(e, out);
    const Common common = {weights, state_init, host_emit_symbols(e, out), host_emit_file(e, out),
                           host_emit_taken(e, out)};
    host_emit_moe_parts(e, out);
    host_emit_grids(e, out);
    for (uint32_t i = 0; i < host_n_plans(p); i++) {
        HostEmit v = host_variant(e, i);
        emit_model(&v, e, &common, i, out);
    }
    host_emit_buckets(e, out);
}
