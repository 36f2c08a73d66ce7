// SPDX-License-Identifier: Apache-2.0
// See given.h.
#include "compiler/job/given.h"
#include "compiler/import/tensors/npy.h"
#include "compiler/system/rawfile.h"
#include <string.h>
#include <unistd.h>

enum { MAX_NUMBERS = 4096, MAX_SMALL_INPUT = 64 };

static bool wrong(Cli *c, const char *option, const char *value, const char *expected)
{
    return diag_error(c->diag, (Span){0}, E0003, "%s %s: expected %s", option, value, expected);
}

// NAME=REST; names may have '=' too, REST may not.
static const char *split(Cli *c, const char *arg, const char **name)
{
    const char *eq = strrchr(arg, '=');
    if (eq == NULL || eq == arg)
        return NULL;
    *name = arena_strndup(c->arena, arg, (size_t)(eq - arg));
    return eq + 1;
}

// --- sizes ---------------------------------------------------------------------------------------

// "past + 1": what the size is in terms of others.
static bool parse_relation(Cli *c, const char *text, ImportSize *out)
{
    DimTable trial = {.arena = c->arena};
    Dim d = 0;
    size_t error_at = 0;
    if (strlen(text) > 256 || !dim_parse(&trial, text, strlen(text), DIM_ADD_SYMBOLS, &d, &error_at) ||
        dim_is_const(d) || dim_is_unknown(&trial, d))
        return false;
    *out = (ImportSize){.name = out->name, .is_range = true, .is_open = true, .is = text};
    return true;
}

static bool parse_size(const char *text, ImportSize *out)
{
    const char *dots = strstr(text, "..");
    out->is_open = strcmp(text, "dynamic") == 0;
    out->is_range = dots != NULL || out->is_open;
    if (out->is_open)
        return true;
    if (dots != NULL && !str_parse_i64(text, (size_t)(dots - text), &out->min))
        return false;
    text = dots != NULL ? dots + 2 : text;
    return str_parse_i64(text, strlen(text), &out->value) && dim_from_size(out->value, &out->value) &&
           out->min >= 0 &&
           (!out->is_range || (out->min <= out->value && out->value > 0));
}

// --arena-at NAME=VALUE: what the buffers are made for.
static bool read_largest(Cli *c, Given *g)
{
    const Strings *list = &c->options.arena_at;
    for (uint32_t i = 0; i < list->len; i++) {
        ImportSize size = {0};
        const char *text = split(c, list->data[i], &size.name);
        if (text == NULL || !str_parse_i64(text, strlen(text), &size.value) || size.value < 1)
            return wrong(c, "--arena-at", list->data[i], "NAME=VALUE with a whole number above 0");
        vec_push(c->arena, &g->largest, size);
    }
    return true;
}

static bool read_sizes(Cli *c, Given *g)
{
    const Strings *list = &c->options.dims;
    for (uint32_t i = 0; i < list->len; i++) {
        ImportSize size = {0};
        const char *text = split(c, list->data[i], &size.name);
        if (text == NULL || (!parse_size(text, &size) && !parse_relation(c, text, &size)))
            return wrong(c, "--dim", list->data[i],
                         "NAME=VALUE with a whole number that is not negative, NAME=MIN..MAX, NAME=dynamic "
                         "or NAME=past+1");
        for (uint32_t k = 0; k < g->sizes.len; k++)
            if (strcmp(g->sizes.data[k].name, size.name) == 0)
                return diag_error(c->diag, (Span){0}, E0003, "--dim %s: given twice", size.name);
        vec_push(c->arena, &g->sizes, size);
    }
    return true;
}

static bool parse_shape(const char *text, ImportShape *out)
{
    int64_t size = 0;
    for (const char *end = text; *text != '\0'; text = *end == '\0' ? end : end + 1) {
        end = text + strcspn(text, ",");
        if (out->rank == SHAPE_MAX_RANK || !str_parse_i64(text, (size_t)(end - text), &size) ||
            !dim_from_size(size, &out->dim[out->rank++]))
            return false;
    }
    return true;
}

static bool read_shapes(Cli *c, Given *g)
{
    const Strings *list = &c->options.shapes;
    for (uint32_t i = 0; i < list->len; i++) {
        ImportShape shape = {.is_firm = true};
        const char *text = split(c, list->data[i], &shape.name);
        if (text == NULL || !parse_shape(text, &shape))
            return wrong(c, "--shape", list->data[i],
                         "NAME=2,3 with all sizes of the input (none: a scalar)");
        shape.origin = arena_printf(c->arena, "--shape %s", list->data[i]);
        vec_push(c->arena, &g->shapes, shape);
    }
    return true;
}

// --- values --------------------------------------------------------------------------------------

static bool read_file(Cli *c, const char *path, Tensor *out)
{
    RawFile file;
    return rawfile_open(c->arena, c->diag, (Span){0}, path, &file) &&
           npy_read(c->arena, c->diag, (Span){0}, path, file.data, file.len, out);
}

// A number, true or false.
static bool parse_number(const char *text, size_t len, int64_t *whole, double *number, bool *is_whole)
{
    static const char *const words[] = {"false", "true", "False", "True"};
    *is_whole = true;
    for (int i = 0; i < 4; i++)
        if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0) {
            *whole = i & 1;
            *number = i & 1;
            return true;
        }
    *is_whole = str_parse_i64(text, len, whole);
    if (*is_whole)
        *number = (double)*whole;
    return *is_whole || str_parse_f64(text, len, number);
}

// i64 while all numbers are whole, else f64.
static bool parse_list(Cli *c, const char *text, Tensor *out)
{
    int64_t whole[MAX_NUMBERS], n = 0;
    double number[MAX_NUMBERS];
    bool all_whole = true, is_whole = false;
    for (const char *end = text; *text != '\0'; text = *end == '\0' ? end : end + 1, n++) {
        end = text + strcspn(text, ",");
        if (n == MAX_NUMBERS || !parse_number(text, (size_t)(end - text), &whole[n], &number[n], &is_whole))
            return false;
        all_whole = all_whole && is_whole;
    }
    *out = tensor_new(c->arena, all_whole ? DTYPE_i64 : DTYPE_f64, 1, &n);
    for (int64_t i = 0; i < n; i++) {
        if (all_whole)
            tensor_set_i64(out, i, whole[i]);
        else
            tensor_set_f64(out, i, number[i]);
    }
    return true;
}

static bool read_values(Cli *c, Given *g)
{
    const Strings *list = &c->options.values;
    for (uint32_t i = 0; i < list->len; i++) {
        ImportValue v = {0};
        const char *at = strstr(list->data[i], "=@");
        const char *text = at != NULL ? at + 1 : split(c, list->data[i], &v.name);
        if (at != NULL)
            v.name = arena_strndup(c->arena, list->data[i], (size_t)(at - list->data[i]));
        v.is_list = at == NULL;
        if (text == NULL || (v.is_list && !parse_list(c, text, &v.value)))
            return wrong(c, "--value", list->data[i], "NAME=1,2,3 or NAME=@FILE.npy");
        if (!v.is_list && !read_file(c, text + 1, &v.value))
            return false;
        vec_push(c->arena, &g->values, v);
    }
    return true;
}

// --- files of a run ------------------------------------------------------------------------------

static bool has_value(const Given *g, const char *name)
{
    for (uint32_t i = 0; i < g->values.len; i++)
        if (strcmp(g->values.data[i].name, name) == 0)
            return true;
    return false;
}

static bool add_input(Cli *c, Given *g, const char *name, const char *path)
{
    ImportShape shape = {.name = name, .origin = path};
    ImportValue v = {.name = name, .is_optional = true};
    NpyText text;
    RawFile file;
    if (!rawfile_open(c->arena, c->diag, (Span){0}, path, &file))
        return false;
    const bool is_text = npy_find_text(file.data, file.len, &text);
    if (!is_text && !npy_read(c->arena, c->diag, (Span){0}, path, file.data, file.len, &v.value))
        return false;
    shape.rank = is_text ? text.rank : v.value.rank;
    rlx_assert(shape.rank <= SHAPE_MAX_RANK);
    for (uint32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = is_text ? text.dim[i] : v.value.dim[i];
    vec_push(c->arena, &g->shapes, shape);
    if (!is_text && v.value.numel <= MAX_SMALL_INPUT && !has_value(g, name))
        vec_push(c->arena, &g->values, v);
    return true;
}

// Names of inputs may have '=': what follows the right one is a file.
static bool read_inputs(Cli *c, Given *g)
{
    const Strings *list = &c->options.inputs;
    for (uint32_t i = 0; i < list->len; i++) {
        const char *arg = list->data[i], *first = strchr(arg, '='), *eq = first;
        RawFile file;
        if (first == NULL || first == arg)
            return wrong(c, "--input", arg, "NAME=FILE.npy");
        while (eq != NULL && access(eq + 1, R_OK) != 0)
            eq = strchr(eq + 1, '=');
        if (eq == NULL) // says why
            return rawfile_open(c->arena, c->diag, (Span){0}, first + 1, &file) && false;
        if (!add_input(c, g, arena_strndup(c->arena, arg, (size_t)(eq - arg)), eq + 1))
            return false;
    }
    return true;
}

bool given_read(Cli *c, Given *out)
{
    *out = (Given){0};
    return read_sizes(c, out) && read_largest(c, out) && read_shapes(c, out) && read_values(c, out) &&
           read_inputs(c, out) &&
           (c->options.custom == NULL ||
            import_custom(c->arena, c->diag, c->options.custom, &out->custom));
}

ImportOptions given_options(const Given *g, bool has_all_inputs)
{
    return (ImportOptions){.sizes = g->sizes.data,
                           .n_sizes = g->sizes.len,
                           .shapes = g->shapes.data,
                           .n_shapes = g->shapes.len,
                           .values = g->values.data,
                           .n_values = g->values.len,
                           .custom = g->custom,
                           .has_all_inputs = has_all_inputs};
}
