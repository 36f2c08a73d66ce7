// SPDX-License-Identifier: Apache-2.0
// See feeds.h.
#include "compiler/feeds.h"
#include "compiler/import/npy.h"
#include "compiler/import/rawfile.h"
#include "compiler/interface.h"
#include "compiler/open_sizes.h"
#include <inttypes.h>
#include <string.h>

static const char *shape_text(Job *j, DType t, uint32_t rank, const int64_t *dim)
{
    Str s = str_new(j->cli->arena);
    const Shape shape = shape_of(rank, dim);
    shape_print(j->graph->dims, t, &shape, &s);
    return str_text(&s);
}

static int32_t find_input(const Plan *p, const char *name, size_t len)
{
    for (uint32_t i = 0; i < p->inputs.len; i++)
        if (strlen(p->inputs.data[i].name) == len && memcmp(p->inputs.data[i].name, name, len) == 0)
            return (int32_t)i;
    return -1;
}

// An input with the shape that it has by the sizes that are set between runs.
static PlanIo io_now(const Job *j, uint32_t slot, const int64_t *sizes)
{
    PlanIo io = j->plan->inputs.data[slot];
    open_sizes_shape(j, false, slot, sizes, io.dim);
    return io;
}

static bool check_type(Job *j, const PlanIo *io, const Tensor *t, const char *file)
{
    bool same = t->dtype == io->dtype && t->rank == io->rank;
    for (uint32_t i = 0; same && i < io->rank; i++)
        same = t->dim[i] == io->dim[i];
    return same || diag_error(j->cli->diag, (Span){0}, E0402, "input '%s' is %s, but %s holds %s", io->name,
                              shape_text(j, io->dtype, io->rank, io->dim), file,
                              shape_text(j, t->dtype, t->rank, t->dim));
}

static bool unknown_input(Job *j, const char *name)
{
    diag_error(j->cli->diag, (Span){0}, E0402, "--input %s: the graph has no such input", name);
    for (uint32_t i = 0; i < j->plan->inputs.len; i++)
        diag_note(j->cli->diag, (Span){0}, "it has: %s", j->plan->inputs.data[i].name);
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
    if (interface_text(j, io->name, false) != NULL && npy_find_text(file.data, file.len, &text))
        return npy_convert_text(c->arena, c->diag, (Span){0}, path, &text, io->dim[io->rank - 1], out);
    if (!npy_read(c->arena, c->diag, (Span){0}, path, file.data, file.len, out))
        return false;
    npy_retype(c->arena, out, io->dtype);
    return true;
}

static bool read_given(Job *j, const char *arg, const int64_t *sizes, Tensor *out)
{
    // Input names may contain '=': the last one before the file name counts when the first does not name an
    // input.
    const char *eq = strchr(arg, '=');
    int32_t slot = -1;
    for (; eq != NULL; eq = strchr(eq + 1, '=')) {
        slot = find_input(j->plan, arg, (size_t)(eq - arg));
        if (slot >= 0)
            break;
    }
    if (strchr(arg, '=') == NULL)
        return diag_error(j->cli->diag, (Span){0}, E0003, "--input %s: expected NAME=FILE.npy", arg);
    if (slot < 0)
        return unknown_input(j, arg);
    if (out[slot].data != NULL)
        return diag_error(j->cli->diag, (Span){0}, E0003, "--input %s: given twice", arg);
    const PlanIo io = io_now(j, (uint32_t)slot, sizes);
    return read_file(j, &io, eq + 1, &out[slot]) && check_type(j, &io, &out[slot], eq + 1);
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
    for (int64_t i = 0; i < numel; i++) {
        if (dtype_info[io->dtype].cls == DCLASS_FLOAT)
            tensor_set_f64(out, i, tensor_get_f64(&v->value, i));
        else
            tensor_set_i64(out, i, tensor_get_i64(&v->value, i));
    }
    return true;
}

static bool fill_missing(Job *j, const char *random_seed, const int64_t *sizes, Tensor *t)
{
    int64_t seed = 0;
    bool complete = true;
    if (random_seed != NULL && !str_parse_i64(random_seed, strlen(random_seed), &seed))
        return diag_error(j->cli->diag, (Span){0}, E0003, "--random %s: expected a whole number",
                          random_seed);
    uint64_t state = (uint64_t)seed * UINT64_C(0x9E3779B97F4A7C15) + 88172645463325252u;
    for (uint32_t i = 0; i < j->plan->inputs.len; i++) {
        const PlanIo now = io_now(j, i, sizes), *io = &now;
        if (t[i].data != NULL || take_value(j, io, &t[i]))
            continue;
        if (random_seed == NULL) {
            complete = diag_error(j->cli->diag, (Span){0}, E0402,
                                  "input '%s' (%s) is missing: give --input %s=FILE.npy, or --random SEED",
                                  io->name, shape_text(j, io->dtype, io->rank, io->dim), io->name);
            continue;
        }
        t[i] = tensor_new(j->cli->arena, io->dtype, io->rank, io->dim);
        if (interface_text(j, io->name, false) != NULL)
            fill_words(&t[i], &state);
        else
            fill_random(&t[i], &state);
    }
    return complete;
}

bool feeds_read(Job *j, const char *random_seed, const int64_t *sizes, Tensor **out)
{
    *out = ARENA_ARRAY(j->cli->arena, Tensor, j->plan->inputs.len + 1);
    for (uint32_t i = 0; i < j->cli->options.inputs.len; i++)
        if (!read_given(j, j->cli->options.inputs.data[i], sizes, *out))
            return false;
    return fill_missing(j, random_seed, sizes, *out);
}
