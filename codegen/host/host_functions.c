// SPDX-License-Identifier: Apache-2.0
// The functions of kernels. Equal texts appear once, so kernels are first told apart by their texts without
// any names; then each text is printed. One that a single kernel has gets parameters that are named after the
// values they point to. Separate from host.c, which puts them into a file.
#include "base/map.h"
#include "codegen/host/host_parts.h"
#include "codegen/host/host_split.h"
#include "ir/plan/plan_table.h"
#include <string.h>

// A text, and the first kernel (or phase of one) that has it.
typedef struct Found {
    const Plan *plan;
    PlanKernel *pk;
    const PlanPhase *phase; // NULL: the whole kernel
    Kernel *kernel;
    const char *name;
    uint32_t n; // kernels that have it
} Found;

typedef struct Functions {
    HostEmit *e;
    Map seen; // texts without names and comment: 1 + index in `list`
    VEC(Found) list;
} Functions;

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
    if (pk->threads.phases.len == 0)
        print_function(e, pk, pk->kernel, out);
    for (uint32_t i = 0; i < pk->threads.phases.len; i++)
        print_function(e, pk, pk->threads.phases.data[i].kernel, out);
}

// --- which there are ------------------------------------------------------------------------------

// The text without what differs between kernels that can be one function.
static void print_bare(const HostEmit *e, const PlanKernel *pk, Kernel *k, Str *out)
{
    const char *const name = k->name, *const comment = k->comment, *const notes = k->notes;
    const char **params = ARENA_ARRAY(e->arena, const char *, (size_t)k->params.len + 1);
    k->name = "k";
    k->comment = "";
    k->notes = NULL;
    for (uint32_t i = 0; i < k->params.len && pk->loop == NULL; i++) {
        params[i] = k->params.data[i].name;
        k->params.data[i].name = arena_printf(e->arena, "p%u", i);
    }
    print_function(e, pk, k, out);
    for (uint32_t i = 0; i < k->params.len && pk->loop == NULL; i++)
        k->params.data[i].name = params[i];
    k->name = name;
    k->comment = comment;
    k->notes = notes;
}

// The function for a text: a new one, or an earlier one.
static const char *find_function(Functions *f, const Found *what)
{
    const HostEmit *e = f->e;
    uint64_t index = 0;
    Str text = str_new(e->arena);
    print_bare(e, what->pk, what->kernel, &text);
    if (map_get(&f->seen, text.data, text.len, &index)) {
        f->list.data[index - 1].n++;
        return f->list.data[index - 1].name;
    }
    vec_push(e->arena, &f->list, *what);
    Found *own = &f->list.data[f->list.len - 1];
    // Where parts are compiled apart, the linker sees the name.
    own->name = e->options->parts > 1 ? arena_printf(e->arena, "%s_%s", e->options->name, what->kernel->name)
                                      : what->kernel->name;
    own->n = 1;
    map_put(e->arena, &f->seen, text.data, text.len, f->list.len);
    return own->name;
}

static void find_functions(Functions *f, const Plan *plan, PlanKernel *pk)
{
    pk->function = pk->kernel->name;
    if (pk->threads.phases.len == 0)
        pk->function = find_function(f, &(Found){.plan = plan, .pk = pk, .kernel = pk->kernel});
    for (uint32_t i = 0; i < pk->threads.phases.len; i++) {
        PlanPhase *phase = &pk->threads.phases.data[i];
        phase->function =
            find_function(f, &(Found){.plan = plan, .pk = pk, .phase = phase, .kernel = phase->kernel});
    }
}

// A loop on a GPU is no function: the runtime walks its table.
static bool is_only_table(const HostEmit *e, const PlanKernel *pk)
{
    return pk->loop != NULL && e->device != NULL;
}

// Those of a loop's body come before the loop. Recursion: as deep as loops nest.
static bool find_all(Functions *f, const Plan *plan)
{
    for (uint32_t i = 0; i < plan->kernels.len; i++) {
        PlanKernel *pk = &plan->kernels.data[i];
        const char *lacks = target_lacks(f->e->target, pk->kernel);
        if (lacks != NULL)
            return diag_error(f->e->diag, node_span(plan->graph, pk->root), E0302, "%s: %s", pk->kernel->name,
                              lacks);
        if (pk->loop != NULL && !find_all(f, pk->loop->body))
            return false;
        if (!is_only_table(f->e, pk))
            find_functions(f, plan, pk);
    }
    return true;
}

// --- what they say --------------------------------------------------------------------------------

static const PlanArg *arg_of(const Found *f, uint32_t param)
{
    return &f->pk->args.data[f->phase != NULL ? f->phase->args[param] : param];
}

// In C; languages of GPUs have more words and macros than one knows.
static bool has_own_names(const HostEmit *e, const Found *f)
{
    return f->n == 1 && e->target == &target_c && f->pk->loop == NULL;
}

// "%64" is a number that the graph gave: the one of the parameter says as much.
static bool has_name(const PlanBuffer *b)
{
    return b->name != NULL && *b->name != '\0' && *b->name != '%';
}

static void name_params(const HostEmit *e, const Found *f)
{
    for (uint32_t i = 0; i < f->kernel->params.len; i++) {
        const PlanBuffer *b = &f->plan->buffers.data[arg_of(f, i)->buf];
        if (has_name(b))
            f->kernel->params.data[i].name = host_value_name(e->arena, b->name);
    }
}

// "conv1 f32[1, 16, 8, 8] channels last".
static void add_value(const Found *f, const PlanNodes *nodes, uint32_t param, Str *out)
{
    const BufId buf = arg_of(f, param)->buf;
    const PlanBuffer *b = &f->plan->buffers.data[buf];
    const NodeId id = plan_buffer_node(nodes, buf);
    const char *name = has_name(b) ? b->name : f->kernel->params.data[param].name;
    if (id == 0) { // scratch memory
        str_printf(out, "%s %s[%llu]", name, dtype_info[f->kernel->params.data[param].dtype].name,
                   (unsigned long long)(b->bytes / dtype_info[f->kernel->params.data[param].dtype].bytes));
        return;
    }
    const Node *n = graph_node(f->plan->graph, id);
    str_printf(out, "%s ", name);
    shape_print(f->plan->graph->dims, (DType)n->dtype, n->shape, out);
    if (f->plan->orders.data[id] == ORDER_CHANNELS_LAST && n->shape->rank > 2)
        str_add(out, " channels last");
}

static bool is_constant(const Found *f, uint32_t param)
{
    const Region r = f->plan->buffers.data[arg_of(f, param)->buf].region;
    return r == REGION_WEIGHTS || r == REGION_EXPERTS || r == REGION_FILE || r == REGION_MAPS;
}

// What it writes and reads, but for constants.
static const char *values_text(const HostEmit *e, const Found *f, const PlanNodes *nodes)
{
    Str out = str_new(e->arena);
    for (int is_read = 0; is_read < 2; is_read++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < f->kernel->params.len; i++) {
            if (f->kernel->params.data[i].is_written == (is_read != 0) || is_constant(f, i))
                continue;
            str_add(&out, n++ != 0 ? ", " : is_read ? " <- " : "");
            add_value(f, nodes, i, &out);
        }
    }
    return host_comment_text(e->arena, str_text(&out));
}

// Lines as long as they may be, of whole words; a word that is longer than a line is cut.
static void add_lines(const char *text, Str *out)
{
    enum { WIDTH = 104 };
    while (*text != '\0') {
        size_t n = strlen(text);
        if (n > WIDTH)
            for (n = WIDTH; n > 0 && text[n] != ' ';)
                n--;
        n = n != 0 ? n : WIDTH;
        str_printf(out, "  %.*s\n", (int)n, text);
        text += n + (text[n] == ' ');
    }
}

static const char *notes_of(const HostEmit *e, const Found *f, const PlanNodes *nodes)
{
    const PlanKernel *pk = f->pk;
    Str out = str_new(e->arena);
    add_lines(values_text(e, f, nodes), &out);
    if (pk->macs != 0)
        str_printf(&out, "  %llu multiply-adds%s", (unsigned long long)pk->macs, pk->schedule ? ", " : "\n");
    if (pk->schedule != NULL)
        str_printf(&out, "%s%s\n", pk->macs != 0 ? "" : "  ", pk->schedule);
    if (f->n > 1)
        str_printf(&out, "  for %u more kernels, on values of the same shapes\n", f->n - 1);
    return str_text(&out);
}

static void add_function(HostEmit *e, const Found *f, const PlanNodes *nodes, HostFunctions *out)
{
    Kernel *k = f->kernel;
    const char *const comment = k->comment, *const name = k->name;
    HostFunction made = {.part = 1};
    Str text = str_new(e->arena), plain = str_new(e->arena);
    k->name = f->name;
    if (has_own_names(e, f))
        name_params(e, f);
    if (e->options->parts > 1) {
        k->comment = "";
        k->notes = NULL;
        print_function(e, f->pk, k, &plain);
        made.signature = arena_strndup(e->arena, plain.data, strcspn(str_text(&plain), "\n"));
        k->comment = comment;
    }
    if (f->pk->loop == NULL)
        k->notes = notes_of(e, f, nodes);
    print_function(e, f->pk, k, &text);
    made.text = str_text(&text);
    made.len = text.len;
    k->name = name;
    vec_push(e->arena, &out->list, made);
    e->out->n_functions++;
}

bool host_name_functions(HostEmit *e, HostFunctions *out)
{
    Functions f = {.e = e};
    for (uint32_t i = 0; i < host_n_plans(e->plan); i++)
        if (!find_all(&f, host_plan(e->plan, i)))
            return false;
    PlanNodes nodes = {0};
    for (uint32_t i = 0; i < f.list.len; i++) {
        if (nodes.plan != f.list.data[i].plan)
            nodes = plan_nodes(f.list.data[i].plan, e->arena);
        add_function(e, &f.list.data[i], &nodes, out);
    }
    return true;
}
