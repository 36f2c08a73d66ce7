// SPDX-License-Identifier: Apache-2.0
// See feeds.h.
#include "compiler/job/feeds.h"
#include "compiler/import/tensors/npy.h"
#include "compiler/system/rawfile.h"
#include "compiler/job/interface.h"
#include "compiler/job/open_sizes.h"
#include <string.h>

static const char *shape_text(Job *j, DType t, uint32_t rank, const int64_t *dim)
{
    Str s = str_new(j->cli->arena);
    const Shape shape = shape_of(rank, dim);
    shape_print(j->graph->dims, t, &shape, &s);
    return str_text(&s);
}

// Inputs of the model, with the shapes that they have by the sizes that are set between runs, or parameters.
typedef struct Takers {
    const char *option, *word;
    const PlanIo *io;
    uint32_t n;
} Takers;

static Takers inputs_now(const Job *j, const int64_t *sizes)
{
    const uint32_t n = j->plan->inputs.len;
    PlanIo *io = ARENA_ARRAY(j->cli->arena, PlanIo, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        io[i] = j->plan->inputs.data[i];
        open_sizes_shape(j, false, i, sizes, io[i].dim);
    }
    return (Takers){"--input", "input", io, n};
}

// As the model declares them: their ranks, but no sizes.
static Takers inputs_declared(const Job *j)
{
    const uint32_t n = j->graph->inputs.len;
    PlanIo *io = ARENA_ARRAY(j->cli->arena, PlanIo, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const NodeId id = j->graph->inputs.data[i];
        io[i] = (PlanIo){.name = node_name(j->graph, id), .node = id};
    }
    return (Takers){"--input", "input", io, n};
}

static Takers params_of(const Job *j)
{
    return (Takers){"--param", "parameter", j->plan->params.data, j->plan->params.len};
}

static int32_t find(const Takers *to, const char *name, size_t len)
{
    for (uint32_t i = 0; i < to->n; i++)
        if (strlen(to->io[i].name) == len && memcmp(to->io[i].name, name, len) == 0)
            return (int32_t)i;
    return -1;
}

static bool check_type(Job *j, const char *word, const PlanIo *io, const Tensor *t, const char *file)
{
    bool same = t->dtype == io->dtype && t->rank == io->rank;
    for (uint32_t i = 0; same && i < io->rank; i++)
        same = t->dim[i] == io->dim[i];
    return same || diag_error(j->cli->diag, (Span){0}, E0402, "%s '%s' is %s, but %s holds %s", word,
                              io->name, shape_text(j, io->dtype, io->rank, io->dim), file,
                              shape_text(j, t->dtype, t->rank, t->dim));
}

static bool unknown(Job *j, const Takers *to, const char *arg)
{
    diag_error(j->cli->diag, (Span){0}, E0402, "%s %s: the graph has no such %s", to->option, arg, to->word);
    const char **names = ARENA_ARRAY(j->cli->arena, const char *, to->n + 1);
    for (uint32_t i = 0; i < to->n; i++)
        names[i] = to->io[i].name;
    const char *wanted = arena_strndup(j->cli->arena, arg, strcspn(arg, "="));
    diag_note_names(j->cli->diag, (Span){0}, wanted, names, NULL, to->n);
    return false;
}

// Strings in any form that NumPy has, or as bytes.
static bool read_file(Job *j, const PlanIo *io, const char *path, Tensor *out)
{
    RawFile file;
    NpyText text;
    Cli *c = j->cli;
    if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &file))
        return false;
    rlx_assert(interface_text(j, io->name, false) == NULL || io->rank >= 1);
    if (interface_text(j, io->name, false) != NULL && npy_find_text(file.data, file.len, &text))
        return npy_convert_text(c->arena, c->diag, (Span){0}, path, &text, io->dim[io->rank - 1], out);
    if (!npy_read(c->arena, c->diag, (Span){0}, path, file.data, file.len, out))
        return false;
    npy_retype(c->arena, out, io->dtype);
    return true;
}

// What NAME=FILE names, and the file; -1: nothing, which is reported. Names may contain '=': the last one
// before the file name counts when the first names nothing.
static int32_t find_given(Job *j, const Takers *to, const char *arg, const char **file)
{
    const char *eq = strchr(arg, '=');
    if (eq == NULL) {
        diag_error(j->cli->diag, (Span){0}, E0003, "%s %s: expected NAME=FILE.npy", to->option, arg);
        return -1;
    }
    for (; eq != NULL; eq = strchr(eq + 1, '=')) {
        const int32_t slot = find(to, arg, (size_t)(eq - arg));
        *file = eq + 1;
        if (slot >= 0)
            return slot;
    }
    unknown(j, to, arg);
    return -1;
}

static bool check_rank(Job *j, const ImportShape *given, NodeId input)
{
    const Node *n = graph_node(j->graph, input);
    Str declared = str_new(j->cli->arena);
    if (given->is_firm || n->shape->rank == given->rank || interface_text(j, given->name, false) != NULL)
        return true;
    shape_print(j->graph->dims, (DType)n->dtype, n->shape, &declared);
    return diag_error(j->cli->diag, (Span){0}, E0402, "input '%s' is %s, with %u axes, but %s has %u",
                      given->name, str_text(&declared), n->shape->rank, given->origin, given->rank);
}

bool feeds_check(Job *j)
{
    rlx_assert(j->graph != NULL);
    const Takers to = inputs_declared(j);
    for (uint32_t i = 0; i < j->cli->options.inputs.len; i++) {
        const char *file = NULL;
        const int32_t slot = find_given(j, &to, j->cli->options.inputs.data[i], &file);
        for (uint32_t k = 0; slot >= 0 && k < j->given.shapes.len; k++)
            if (str_equal(j->given.shapes.data[k].name, to.io[slot].name) &&
                !check_rank(j, &j->given.shapes.data[k], to.io[slot].node))
                return false;
        if (slot < 0)
            return false;
    }
    return true;
}

static bool read_given(Job *j, const Takers *to, const char *arg, Tensor *out)
{
    const char *file = NULL;
    const int32_t slot = find_given(j, to, arg, &file);
    if (slot < 0)
        return false;
    if (out[slot].data != NULL)
        return diag_error(j->cli->diag, (Span){0}, E0003, "%s %s: given twice", to->option, arg);
    const PlanIo *io = &to->io[slot];
    return read_file(j, io, file, &out[slot]) && check_type(j, to->word, io, &out[slot], file);
}

// xorshift64*: the same values on every machine.
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

// Floats near a normal distribution (sum of 12 uniforms), integers 0 or 1: valid as indices of anything.
static void fill_random(Tensor *t, uint64_t *state)
{
    for (int64_t i = 0; i < t->numel; i++) {
        if (dtype_info[t->dtype].cls != DCLASS_FLOAT) {
            tensor_set_i64(t, i, (int64_t)(next_random(state) >> 63));
            continue;
        }
        double sum = -6;
        for (int k = 0; k < 12; k++)
            sum += (double)(next_random(state) >> 11) * 0x1p-53;
        tensor_set_f64(t, i, sum);
    }
}

// Words of letters.
static void fill_words(Tensor *t, uint64_t *state)
{
    rlx_assert(t->rank >= 1 && t->dim[t->rank - 1] >= 1);
    const int64_t capacity = t->dim[t->rank - 1];
    for (int64_t i = 0; i < t->numel; i += capacity) {
        const int64_t length = (int64_t)(next_random(state) >> 33) % (capacity + 1);
        for (int64_t k = 0; k < length; k++)
            tensor_set_i64(t, i + k, 'a' + (int64_t)((next_random(state) >> 33) % 26));
    }
}

// What --value says about an input, which the import has checked. Such a model takes no other value.
static bool take_value(Job *j, const PlanIo *io, Tensor *out)
{
    int64_t numel = 1;
    const ImportValue *v = NULL;
    for (uint32_t i = 0; i < io->rank; i++)
        numel *= io->dim[i];
    for (uint32_t k = 0; k < j->given.values.len && v == NULL; k++)
        if (strcmp(j->given.values.data[k].name, io->name) == 0)
            v = &j->given.values.data[k];
    if (v == NULL || v->value.numel != numel)
        return false;
    *out = tensor_new(j->cli->arena, io->dtype, io->rank, io->dim);
    for (int64_t i = 0; i < numel; i++)
        tensor_set_from(out, i, &v->value);
    return true;
}

static bool read_seed(Job *j, const char *random_seed, uint64_t *state)
{
    int64_t seed = 0;
    if (random_seed != NULL && !str_parse_i64(random_seed, strlen(random_seed), &seed))
        return diag_error(j->cli->diag, (Span){0}, E0003, "--random %s: expected a whole number",
                          random_seed);
    *state = (uint64_t)seed * UINT64_C(0x9E3779B97F4A7C15) + 88172645463325252u;
    return true;
}

static bool missing(Job *j, const Takers *to, const PlanIo *io)
{
    return diag_error(j->cli->diag, (Span){0}, E0402,
                      "%s '%s' (%s) is missing: give %s %s=FILE.npy, or --random SEED", to->word, io->name,
                      shape_text(j, io->dtype, io->rank, io->dim), to->option, io->name);
}

// Inputs that no node reads (EfficientNetV2 as Keras exports it has some) are zeros unless they are given.
static bool fill_inputs(Job *j, const char *random_seed, const Takers *to, Tensor *t)
{
    uint64_t state = 0;
    bool complete = true;
    const uint32_t *n_uses = graph_count_uses(j->plan->graph, j->cli->arena);
    if (!read_seed(j, random_seed, &state))
        return false;
    for (uint32_t i = 0; i < to->n; i++) {
        const PlanIo *io = &to->io[i];
        rlx_assert(io->node < j->plan->graph->nodes.len);
        if (t[i].data != NULL || take_value(j, io, &t[i]))
            continue;
        if (random_seed == NULL && n_uses[io->node] != 0) {
            complete = missing(j, to, io);
            continue;
        }
        t[i] = tensor_new(j->cli->arena, io->dtype, io->rank, io->dim);
        if (random_seed == NULL)
            continue;
        if (interface_text(j, io->name, false) != NULL)
            fill_words(&t[i], &state);
        else
            fill_random(&t[i], &state);
    }
    return complete;
}

// --- parameters ----------------------------------------------------------------------------------

// Those with an initial value keep it, unless it is given. The values do not depend on how many inputs there
// are, nor those of inputs on parameters.
static bool fill_params(Job *j, const char *random_seed, const Takers *to, Tensor *t)
{
    uint64_t state = 0;
    bool complete = true;
    if (!read_seed(j, random_seed, &state))
        return false;
    state ^= UINT64_C(0xD1B54A32D192ED03);
    for (uint32_t i = 0; i < to->n; i++) {
        const PlanIo *io = &to->io[i];
        if (t[i].data != NULL || node_attr(graph_node(j->plan->graph, io->node), A_param_init)->len != 0)
            continue;
        if (random_seed == NULL) {
            complete = missing(j, to, io);
            continue;
        }
        t[i] = tensor_new(j->cli->arena, io->dtype, io->rank, io->dim);
        fill_random(&t[i], &state);
    }
    return complete;
}

// Once for a plan: sizes that are set between runs do not change them.
static bool read_params(Job *j, const char *random_seed)
{
    const Takers to = params_of(j);
    if (j->params != NULL)
        return true;
    j->params = ARENA_ARRAY(j->cli->arena, Tensor, to.n + 1);
    for (uint32_t i = 0; i < j->cli->options.params.len; i++)
        if (!read_given(j, &to, j->cli->options.params.data[i], j->params))
            return false;
    return fill_params(j, random_seed, &to, j->params);
}

const Tensor *feeds_param(const Job *j, const char *name)
{
    const Takers to = params_of(j);
    const int32_t slot = j->params != NULL ? find(&to, name, strlen(name)) : -1;
    return slot >= 0 && j->params[slot].data != NULL ? &j->params[slot] : NULL;
}

bool feeds_read(Job *j, const char *random_seed, const int64_t *sizes, Tensor **out)
{
    rlx_assert(j->plan != NULL);
    const Takers to = inputs_now(j, sizes);
    *out = ARENA_ARRAY(j->cli->arena, Tensor, to.n + 1);
    for (uint32_t i = 0; i < j->cli->options.inputs.len; i++)
        if (!read_given(j, &to, j->cli->options.inputs.data[i], *out))
            return false;
    return fill_inputs(j, random_seed, &to, *out) && read_params(j, random_seed);
}
