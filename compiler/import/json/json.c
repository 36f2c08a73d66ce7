// SPDX-License-Identifier: Apache-2.0
// A JSON model (docs/FORMAT.md) to a graph: the document as a whole and its symbols. The sections are read by
// json_graph.c and json_node.c, values by json_values.c and json_data.c.
#include "compiler/import/import.h"
#include "compiler/import/json/json_custom.h"
#include "compiler/system/rawfile.h"
#include "ir/shape/verify.h"

#include <string.h>

static bool check_range(JsonReader *r, const JsonPlace *p, const Symbol *s)
{
    if (s->min < 0 || s->max < s->min || s->max > DIM_MAX_VALUE)
        return json_error(r, p, E0208, "'%s' needs 0 <= min <= max <= 2^40, not min %lld and max %lld",
                          s->name, (long long)s->min, (long long)s->max);
    if (s->multiple < 1 || s->multiple > DIM_MAX_VALUE)
        return json_error(r, p, E0208, "'%s': multiple must be from 1 to 2^40, not %lld", s->name,
                          (long long)s->multiple);
    if (s->max / s->multiple * s->multiple < s->min)
        return json_error(r, p, E0208, "'%s': no multiple of %lld is from %lld to %lld", s->name,
                          (long long)s->multiple, (long long)s->min, (long long)s->max);
    return true;
}

static bool read_symbol(JsonReader *r, const JsonPlace *p)
{
    enum { MIN, MAX, MULTIPLE, DEFAULT, COUNT };
    JsonMember m[COUNT] = {{.name = "min"}, {.name = "max"}, {.name = "multiple"}, {.name = "default"}};
    Symbol s = {.name = p->item->string, .min = 1, .max = DIM_MAX_VALUE, .multiple = 1};
    int64_t *const fields[COUNT] = {&s.min, &s.max, &s.multiple, &s.dflt};
    if (!json_name(r, p, s.name))
        return false;
    if (dim_find_symbol(r->dims, s.name) >= 0)
        return json_error(r, p, E0104, "there is already a symbol '%s'", s.name);
    if (!json_members(r, p, "a symbol", E0102, m, COUNT))
        return false;
    for (uint32_t i = 0; i < COUNT; i++)
        if (m[i].place.item && !json_int(r, &m[i].place, "a whole number", fields[i]))
            return false;
    if (!check_range(r, p, &s))
        return false;
    s.has_dflt = m[DEFAULT].place.item != NULL;
    if (s.has_dflt && (s.dflt < s.min || s.dflt > s.max || s.dflt % s.multiple != 0))
        return json_error(r, &m[DEFAULT].place, E0208,
                          "the default must be within [%lld, %lld] and a multiple of %lld",
                          (long long)s.min, (long long)s.max, (long long)s.multiple);
    dim_symbol(r->dims, s.name, s.min, s.max, s.multiple);
    if (s.has_dflt)
        dim_set_default(r->dims, s.name, s.dflt);
    return true;
}

static void read_symbols(JsonReader *r, const JsonPlace *section)
{
    JsonPlace child = {0};
    if (!section->item)
        return;
    r->symbols = DIM_KNOWN_ONLY;
    if (!cJSON_IsObject(section->item)) {
        json_wrong(r, section, "an object: symbol to range");
        return;
    }
    while (json_next(section, &child) && !json_is_hopeless(r))
        read_symbol(r, &child);
}

static bool check_version(JsonReader *r, const JsonPlace *p)
{
    int64_t version = 0;
    if (!json_int(r, p, "the version of the format, 1", &version))
        return false;
    return version == 1 ||
           json_error(r, p, E0102, "this is version %lld of the format; this rlxc reads version 1",
                      (long long)version);
}

// The file's name without folder and extension.
static const char *default_name(Arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    const char *name = dot && dot > base ? arena_strndup(a, base, (size_t)(dot - base)) : base;
    return *name ? name : "model";
}

// What all files with weights say; of one name the first.
static const GraphNotes *collect_notes(const JsonReader *r)
{
    GraphNotes *notes = ARENA_NEW(r->arena, GraphNotes);
    Map known = {0};
    for (uint32_t i = 0; i < r->opened.len; i++) {
        const SafeTensors *file = r->opened.data[i];
        for (uint32_t k = 0; file != NULL && k < file->notes.list.len; k++)
            if (map_put_str(r->arena, &known, file->notes.list.data[k].name, 1))
                vec_push(r->arena, &notes->list, file->notes.list.data[k]);
    }
    return notes;
}

static bool read_model(JsonReader *r, const JsonPlace *root, Graph **out)
{
    enum { VERSION, NAME, SYMBOLS, INPUTS, WEIGHTS, PARAMS, STATES, NODES, OUTPUTS, CHECKS, EXTENTS };
    enum { CUSTOM = EXTENTS + 1, COUNT };
    JsonMember m[COUNT] = {{.name = "rlxc", .is_required = true},
                           {.name = "name"},
                           {.name = "symbols"},
                           {.name = "inputs"},
                           {.name = "weights"},
                           {.name = "params"},
                           {.name = "states"},
                           {.name = "nodes"},
                           {.name = "outputs", .is_required = true},
                           {.name = "checks"},
                           {.name = "extents"},
                           {.name = "custom"}};
    uint32_t n_errors = r->diag->n_errors;
    const char *name = default_name(r->arena, r->diag->files.data[r->file - 1].name);
    if (!json_members(r, root, "a model", E0102, m, COUNT) || !check_version(r, &m[VERSION].place))
        return false;
    if (m[NAME].place.item && (!json_string(r, &m[NAME].place, "the name of the model", &name) ||
                               !json_name(r, &m[NAME].place, name)))
        return false;
    Graph *g = graph_new(r->arena, r->diag, name);
    JsonScope s = {.r = r, .g = g};
    r->dims = g->dims;
    read_symbols(r, &m[SYMBOLS].place);
    json_custom(r, &m[CUSTOM].place, r->custom);
    if (r->diag->n_errors != n_errors) // shapes would complain about the symbol again
        return false;
    json_leaves(&s, &m[INPUTS].place, JSON_INPUT);
    json_leaves(&s, &m[WEIGHTS].place, JSON_WEIGHT);
    json_leaves(&s, &m[PARAMS].place, JSON_PARAM);
    json_leaves(&s, &m[STATES].place, JSON_STATE);
    json_nodes(&s, &m[NODES].place);
    json_next_values(&s);
    json_outputs(&s, &m[OUTPUTS].place);
    json_checks(&s, &m[CHECKS].place);
    json_extents(&s, &m[EXTENTS].place);
    g->notes = collect_notes(r);
    *out = g;
    rlx_assert(r->diag->n_errors != n_errors || graph_verify(g, STAGE_IMPORTED) == NULL);
    return r->diag->n_errors == n_errors;
}

// What every reader of a document begins with; scratch: for the tree. False: reported.
static bool parse(JsonReader *r, Arena *scratch, JsonPlace *root)
{
    size_t at = 0;
    const char *why = NULL;
    const JsonFault fault = json_check(r->text, r->len, &at, &why);
    if (fault != JSON_FINE)
        return diag_error(r->diag, (Span){r->file, (uint32_t)at, (uint32_t)at, NULL},
                          fault == JSON_BROKEN ? E0101 : E0004, "%s", why);
    r->path = str_new(scratch);
    *root = (JsonPlace){.item = json_parse(scratch, r->text, r->len, &at)};
    return root->item != NULL || diag_error(r->diag, (Span){r->file, (uint32_t)at, (uint32_t)at, NULL}, E0101,
                                            "this is not JSON");
}

static JsonReader reader_of(Arena *a, Diag *d, uint32_t file, const char *dir)
{
    rlx_assert(file >= 1 && file <= d->files.len);
    const DiagFile *f = &d->files.data[file - 1];
    return (JsonReader){.arena = a,
                        .diag = d,
                        .file = file,
                        .text = f->text,
                        .len = f->len,
                        .dir = dir,
                        .symbols = DIM_ADD_SYMBOLS,
                        .custom = ARENA_NEW(a, CustomDecls)};
}

bool import_json(Arena *a, Diag *d, uint32_t file, const char *dir, Graph **out)
{
    JsonReader r = reader_of(a, d, file, dir);
    Arena scratch = {0};
    JsonPlace root = {0};
    const bool ok = parse(&r, &scratch, &root) && read_model(&r, &root, out);
    arena_free(&scratch);
    return ok;
}

bool import_custom(Arena *a, Diag *d, const char *path, const CustomDecls **out)
{
    RawFile f;
    Arena scratch = {0};
    JsonPlace root = {0};
    JsonMember m[] = {{.name = "custom", .is_required = true}};
    if (!rawfile_open(a, d, (Span){0}, path, &f))
        return false;
    const uint32_t n_errors = d->n_errors;
    JsonReader r = reader_of(a, d, diag_add_file(d, path, f.data, f.len), rawfile_folder(a, path));
    r.dims = graph_new(a, d, "custom")->dims;
    if (parse(&r, &scratch, &root) && json_members(&r, &root, "a file of custom ops", E0102, m, 1))
        json_custom(&r, &m[0].place, r.custom);
    arena_free(&scratch);
    *out = r.custom;
    return d->n_errors == n_errors;
}
