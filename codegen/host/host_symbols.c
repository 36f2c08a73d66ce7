// SPDX-License-Identifier: Apache-2.0
// Sizes that are set between runs, in the API of a generated model: the slots of symbols, the sizes of inputs
// and outputs as functions of them, and the table of the descriptor. Nothing of it for models without
// symbols.
#include "codegen/host/host_parts.h"
#include "ir/graph/dim_expr.h"

static const GraphSymbols *symbols_of(const HostEmit *e)
{
    return e->plan->graph->symbols;
}

const Shape *host_open_shape(const HostEmit *e, bool is_output, uint32_t slot)
{
    const GraphSymbols *s = symbols_of(e);
    const uint32_t n = e->plan->outputs.len;
    if (s == NULL)
        return NULL;
    if (is_output && slot >= n)
        return s->states[host_held_state(e, slot - n)];
    return is_output ? s->outputs[slot] : s->inputs[slot];
}

static uint64_t page_offset(const HostEmit *e)
{
    const PlanBuffer *b = &e->plan->buffers.data[e->plan->page];
    return host_region_base(e->plan, b->region) + b->offset;
}

// --- sizes as C ----------------------------------------------------------------------------------

static int32_t slot_of(const HostEmit *e, uint32_t symbol)
{
    const GraphSymbols *s = symbols_of(e);
    for (uint32_t i = 0; i < s->n; i++)
        if (dim_as_symbol(e->plan->graph->dims, s->dim[i]) == (int32_t)symbol)
            return (int32_t)i;
    return -1;
}

static void print_dim(const HostEmit *e, Dim d, Str *out);

static void print_sum(const HostEmit *e, const DimExpr *x, Str *out)
{
    str_char(out, '(');
    for (uint32_t i = 0; i < x->n_terms; i++) {
        str_add(out, i == 0 ? "" : " + ");
        if (x->terms[i].coef != 1)
            str_printf(out, "(int64_t)%lld * ", (long long)x->terms[i].coef);
        for (uint32_t k = 0; k < x->terms[i].n; k++) {
            str_add(out, k == 0 ? "" : " * ");
            print_dim(e, x->terms[i].atom[k], out);
        }
    }
    if (x->constant != 0)
        str_printf(out, " %c %lld", x->constant < 0 ? '-' : '+',
                   (long long)(x->constant < 0 ? -x->constant : x->constant));
    str_char(out, ')');
}

// Recursion: expressions are bounded by DIM_MAX_SIZE.
static void print_dim(const HostEmit *e, Dim d, Str *out)
{
    static const char *const functions[DIM_KIND_COUNT] = {
        [DIM_FLOOR_DIV] = "floor", [DIM_MOD] = "mod", [DIM_MIN] = "min", [DIM_MAX] = "max"};
    if (dim_is_const(d)) {
        str_printf(out, "%lld", (long long)d);
        return;
    }
    const DimExpr *x = dim_expr(e->plan->graph->dims, d);
    if (x->kind == DIM_SYMBOL) {
        str_printf(out, "((int64_t)(%s))", e->symbol_names[slot_of(e, x->symbol)]);
    } else if (x->kind == DIM_SUM) {
        print_sum(e, x, out);
    } else {
        str_printf(out, "rlx_dim_%s(", functions[x->kind]);
        print_dim(e, x->a, out);
        str_add(out, ", ");
        print_dim(e, x->b, out);
        str_char(out, ')');
    }
}

static bool uses(const HostEmit *e, Dim d, uint32_t slot)
{
    const GraphSymbols *s = symbols_of(e);
    int64_t *value = ARENA_ARRAY(e->arena, int64_t, e->plan->graph->dims->symbols.len), size = 0;
    for (uint32_t i = 0; i < s->n; i++)
        value[dim_as_symbol(e->plan->graph->dims, s->dim[i])] = i == slot ? -1 : s->symbol[i].max;
    return !dim_eval(e->plan->graph->dims, d, (DimValues){value, e->plan->graph->dims->symbols.len}, &size);
}

// KWS_OUTPUT_y_DIM1(past, seq): the symbols that the size depends on, in their order. text: by symbol, what
// stands for it.
static void print_call(const HostEmit *e, bool is_output, uint32_t slot, uint32_t axis,
                       const char *const *text, Str *out)
{
    const Dim d = host_open_shape(e, is_output, slot)->dim[axis];
    const char *comma = "";
    str_printf(out, "%s_%s_%s_DIM%u(", e->upper, is_output ? "OUTPUT" : "INPUT",
               (is_output ? e->output_names : e->input_names)[slot], axis);
    for (uint32_t i = 0; i < symbols_of(e)->n; i++) {
        if (!uses(e, d, i))
            continue;
        str_printf(out, "%s%s", comma, text[i]);
        comma = ", ";
    }
    str_char(out, ')');
}

typedef void (*AxisFn)(const HostEmit *e, bool is_output, uint32_t slot, uint32_t axis, Str *out);

static void for_axes(const HostEmit *e, bool is_output, uint32_t slot, AxisFn fn, Str *out)
{
    const Shape *s = host_open_shape(e, is_output, slot);
    for (uint32_t i = 0; s != NULL && i < s->rank; i++)
        if (!dim_is_const(s->dim[i]))
            fn(e, is_output, slot, i, out);
}

// --- header --------------------------------------------------------------------------------------

static void print_macro(const HostEmit *e, bool is_output, uint32_t slot, uint32_t axis, Str *out)
{
    Str text = str_new(e->arena);
    print_dim(e, host_open_shape(e, is_output, slot)->dim[axis], &text);
    str_add(out, "#define ");
    print_call(e, is_output, slot, axis, e->symbol_names, out);
    str_printf(out, " %s\n", str_text(&text));
}

static void print_slots(const HostEmit *e, Str *out)
{
    const GraphSymbols *s = symbols_of(e);
    for (uint32_t i = 0; i < s->n; i++) {
        str_printf(out, "#define %s_SYM_%s %uu // %lld to %lld", e->upper, e->symbol_names[i], i,
                   (long long)s->symbol[i].min, (long long)s->symbol[i].max);
        if (s->symbol[i].multiple > 1)
            str_printf(out, ", a multiple of %lld", (long long)s->symbol[i].multiple);
        str_printf(out, "; at first %lld\n", (long long)s->symbol[i].dflt);
    }
}

void host_emit_symbol_header(const HostEmit *e, Str *out)
{
    if (symbols_of(e) == NULL)
        return;
    str_printf(out, "\n// Sizes that are set between runs (%s_set_symbol).\n", e->options->name);
    print_slots(e, out);
    str_add(out, "\n// Sizes of inputs and outputs that depend on them.\n");
    for (uint32_t i = 0; i < e->plan->inputs.len; i++)
        for_axes(e, false, i, print_macro, out);
    for (uint32_t i = 0; i < e->plan->outputs.len + host_n_held(e); i++)
        for_axes(e, true, i, print_macro, out);
}

void host_emit_symbol_prototypes(const HostEmit *e, Str *out)
{
    if (symbols_of(e) != NULL)
        str_printf(out,
                   "// Sets %s_SYM_...: RLX_ERR_SYMBOL or RLX_ERR_RANGE, and nothing changes, where there is "
                   "no such symbol\n// or it cannot have the value. Inputs and outputs have the sizes above "
                   "from then on.\n"
                   "rlx_status %s_set_symbol(rlx_ctx *ctx, uint32_t symbol, int64_t value);\n\n",
                   e->upper, e->options->name);
}

// --- descriptor ----------------------------------------------------------------------------------

static void print_axis(const HostEmit *e, bool is_output, uint32_t slot, uint32_t axis, Str *out)
{
    const char **text = ARENA_ARRAY(e->arena, const char *, symbols_of(e)->n);
    for (uint32_t i = 0; i < symbols_of(e)->n; i++)
        text[i] = arena_printf(e->arena, "v[%u]", i);
    str_printf(out, "        shape[%u] = ", axis);
    print_call(e, is_output, slot, axis, text, out);
    str_add(out, ";\n");
}

static void print_shapes(const HostEmit *e, bool is_output, uint32_t n, Str *out)
{
    for (uint32_t i = 0; i < n; i++) {
        if (host_open_shape(e, is_output, i) == NULL)
            continue;
        str_printf(out, "    if (%sis_output && slot == %uu) {\n", is_output ? "" : "!", i);
        for_axes(e, is_output, i, print_axis, out);
        str_add(out, "    }\n");
    }
}

const char *host_emit_symbols(const HostEmit *e, Str *out)
{
    const GraphSymbols *s = symbols_of(e);
    if (s == NULL)
        return "NULL";
    str_printf(out,
               "static void shape_now%s(const rlx_ctx *ctx, int is_output, uint32_t slot, int64_t *shape)\n"
               "{\n    int64_t v[%u];\n    memcpy(v, ctx->state + %llu, sizeof v);\n    (void)v;\n"
               "    (void)is_output;\n    (void)slot;\n    (void)shape;\n",
               e->side, s->n, (unsigned long long)page_offset(e));
    print_shapes(e, false, e->plan->inputs.len, out);
    print_shapes(e, true, e->plan->outputs.len + host_n_held(e), out);
    str_printf(out, "}\n\nstatic const rlx_symbol symbol_list%s[] = {\n", e->side);
    for (uint32_t i = 0; i < s->n; i++)
        str_printf(out, "    {%s, %lld, %lld, %lld, %lld},\n",
                   host_string_literal(e->arena, s->symbol[i].name), (long long)s->symbol[i].min,
                   (long long)s->symbol[i].max, (long long)s->symbol[i].multiple,
                   (long long)s->symbol[i].dflt);
    str_printf(out, "};\n\nstatic const rlx_symbols symbols%s = {%uu, symbol_list%s, %llu, shape_now%s};\n\n",
               e->side, s->n, e->side, (unsigned long long)page_offset(e), e->side);
    return arena_printf(e->arena, "&symbols%s", e->side);
}

void host_emit_symbol_entry(const HostEmit *e, Str *out)
{
    if (symbols_of(e) != NULL)
        str_printf(out,
                   "rlx_status %s_set_symbol(rlx_ctx *ctx, uint32_t symbol, int64_t value)\n{\n"
                   "    return ctx == NULL || %s ? RLX_ERR_NULL\n"
                   "           : rlx_set_symbol(ctx, symbol, value);\n}\n\n",
                   e->options->name, host_foreign_model(e));
}
