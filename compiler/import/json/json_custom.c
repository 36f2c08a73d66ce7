// SPDX-License-Identifier: Apache-2.0
// See json_custom.h. Everything that a declaration says is checked where it stands, so that messages about
// nodes are about nodes.
#include "compiler/import/json/json_custom.h"
#include "compiler/system/rawfile.h"

#include <string.h>

enum {
    D_name,
    D_operands,
    D_results,
    D_attributes,
    D_scratch,
    D_elements,
    D_c,
    D_cuda,
    D_glsl,
    D_msl,
    D_COUNT
};

// One declaration as it is read.
typedef struct DeclReader {
    JsonReader *r;
    JsonMember m[D_COUNT];
    CustomDecl *d;
    CustomNames names; // constants, then sizes of operands
    CustomTensors tensors;
} DeclReader;

static bool wrong(DeclReader *dr, const JsonPlace *p, const char *why)
{
    return why == NULL || json_error(dr->r, p, E0203, "%s", why);
}

static void set(DeclReader *dr, AttrId id, const char *text)
{
    rlx_assert(id < ATTR_COUNT && text != NULL);
    dr->d->text[id] = (AttrVal){.id = id, .u.str = text};
}

// --- tensors -------------------------------------------------------------------------------------

// The sizes of an operand that are names become known; others, and those of results, must be made of them.
static const char *check_sizes(DeclReader *dr, const CustomTensor *t, bool is_operand)
{
    DimTable *dims = dr->r->dims;
    for (uint32_t i = 0; i < t->rank; i++) {
        const char *why = NULL, *text = t->dim[i];
        const TensorType any = {.shape = {.rank = 1, .dim = {1}}};
        CustomTensor axis = {.name = t->name, .rank = 1, .dim = {text}};
        Dim unused = 0;
        if (is_operand && custom_is_name(text))
            why = custom_match(dims, dr->r->arena, &axis, &any.shape, &dr->names);
        if (why == NULL || !is_operand || !custom_is_name(text))
            why = custom_size(dims, dr->r->arena, text, &dr->names, &unused);
        if (why != NULL)
            return why;
    }
    return NULL;
}

// "x: f32[n, k]", each an entry of a list.
static bool read_tensors(DeclReader *dr, uint32_t member, AttrId id)
{
    const JsonPlace *section = &dr->m[member].place;
    Str all = str_new(dr->r->arena);
    JsonPlace child = {0};
    uint32_t n = 0;
    if (section->item && !json_list(dr->r, section, "a list of tensors, as \"x: f32[n, 4]\"", &n))
        return false;
    while (section->item && json_next(section, &child)) {
        const char *text = NULL;
        CustomTensors one;
        if (!json_string(dr->r, &child, "a tensor, as \"x: f32[n, 4]\"", &text))
            return false;
        const char *why = custom_read_tensors(dr->r->arena, text, &one);
        if (why == NULL && one.n != 1)
            why = "expected one tensor, as x: f32[n, 4]";
        if (why == NULL)
            why = check_sizes(dr, &one.at[0], member == D_operands);
        if (!wrong(dr, &child, why))
            return false;
        str_add(&all, all.len == 0 ? "" : "; ");
        str_add(&all, text);
    }
    if (member == D_operands)
        dr->d->n_operands = n;
    set(dr, id, str_text(&all));
    return member != D_results || n > 0 ||
           json_error(dr->r, section, E0102, "there must be at least one result");
}

static bool read_elements(DeclReader *dr)
{
    const JsonPlace *p = &dr->m[D_elements].place;
    const char *text = "1";
    Dim unused = 0;
    if (cJSON_IsNumber(p->item)) {
        int64_t v = 0;
        if (!json_int(dr->r, p, "a size", &v))
            return false;
        text = arena_printf(dr->r->arena, "%lld", (long long)v);
    } else if (p->item && !json_string(dr->r, p, "a size: a number, or an expression over sizes", &text)) {
        return false;
    }
    set(dr, A_custom_elements, arena_strdup(dr->r->arena, text));
    return wrong(dr, p, custom_size(dr->r->dims, dr->r->arena, text, &dr->names, &unused));
}

// --- constants -----------------------------------------------------------------------------------

static bool read_attr(DeclReader *dr, const JsonPlace *p)
{
    enum { TYPE, DEFAULT };
    JsonReader *r = dr->r;
    JsonMember m[] = {{.name = "type", .is_required = true}, {.name = "default"}};
    CustomAttr a = {.name = arena_strdup(r->arena, p->item->string)};
    const char *type = NULL;
    if (!custom_is_name(a.name))
        return json_error(r, p, E0102,
                          "'%s' cannot name a constant: expected an identifier that is not a word of C",
                          a.name);
    if (!json_members(r, p, "a constant", E0102, m, 2) ||
        !json_string(r, &m[TYPE].place, "float or int", &type))
        return false;
    a.is_float = strcmp(type, "float") == 0;
    if (!a.is_float && strcmp(type, "int") != 0)
        return json_error(r, &m[TYPE].place, E0203, "the type is '%s', expected float or int", type);
    const JsonPlace *dflt = &m[DEFAULT].place;
    a.is_required = dflt->item == NULL;
    if (dflt->item && !(a.is_float ? json_float(r, dflt, &a.number)
                                   : json_int(r, dflt, "a whole number", &a.whole)))
        return false;
    vec_push(r->arena, &dr->d->attrs, a);
    if (dr->names.n == CUSTOM_MAX_NAMES)
        return json_error(r, p, E0004, "there are more than %d names", CUSTOM_MAX_NAMES);
    dr->names.at[dr->names.n++] = (CustomName){a.name, a.is_float, 1, 1};
    return true;
}

static bool read_attrs(DeclReader *dr)
{
    const JsonPlace *section = &dr->m[D_attributes].place;
    JsonPlace child = {0};
    enum { MOST = BUILD_MAX_ATTRS };
    if (!section->item)
        return true;
    if (!cJSON_IsObject(section->item))
        return json_wrong(dr->r, section, "an object: name to {\"type\", \"default\"}");
    while (json_next(section, &child))
        if (!read_attr(dr, &child))
            return false;
    return dr->d->attrs.len <= MOST ||
           json_error(dr->r, section, E0004, "at most %d constants are possible", MOST);
}

// --- texts ---------------------------------------------------------------------------------------

static bool read_lines(DeclReader *dr, const JsonPlace *p, const char **out)
{
    Str all = str_new(dr->r->arena);
    JsonPlace child = {0};
    while (json_next(p, &child)) {
        const char *line = NULL;
        if (!json_string(dr->r, &child, "a line of the text", &line))
            return false;
        str_printf(&all, "%s%s", child.index == 0 ? "" : "\n", line);
    }
    *out = str_text(&all);
    return true;
}

static bool read_text_file(DeclReader *dr, const JsonPlace *p, const char **out)
{
    JsonMember m[] = {{.name = "file", .is_required = true}};
    const char *name = NULL;
    RawFile f;
    if (!json_members(dr->r, p, "a text", E0102, m, 1) ||
        !json_string(dr->r, &m[0].place, "the name of a file", &name))
        return false;
    const char *path = rawfile_resolve(dr->r->arena, dr->r->dir, name);
    if (path == NULL)
        return json_error(dr->r, &m[0].place, E0002,
                          "a relative file must stay in the folder of the model: no '..', no link out of it");
    if (!rawfile_open(dr->r->arena, dr->r->diag, json_span(dr->r, p), path, &f))
        return false;
    if (f.len != 0 && memchr(f.data, 0, f.len) != NULL)
        return json_error(dr->r, &m[0].place, E0203, "%s is not a text file", path);
    *out = arena_strndup(dr->r->arena, f.data, f.len);
    return true;
}

static bool read_text(DeclReader *dr, uint32_t member, AttrId id)
{
    const JsonPlace *p = &dr->m[member].place;
    const char *text = "";
    bool ok = true;
    if (cJSON_IsArray(p->item))
        ok = read_lines(dr, p, &text);
    else if (cJSON_IsObject(p->item))
        ok = read_text_file(dr, p, &text);
    else if (p->item)
        ok = json_string(dr->r, p, "a text, a list of lines, or {\"file\": NAME}", &text);
    set(dr, id, arena_strdup(dr->r->arena, text));
    return ok && wrong(dr, p, custom_check_text(dr->r->arena, id, text));
}

// --- declarations --------------------------------------------------------------------------------

static bool read_name(DeclReader *dr, CustomDecls *decls)
{
    const JsonPlace *p = &dr->m[D_name].place;
    OpId op;
    if (!json_string(dr->r, p, "the name of the op", &dr->d->name))
        return false;
    dr->d->name = arena_strdup(dr->r->arena, dr->d->name);
    if (!custom_is_name(dr->d->name))
        return json_error(dr->r, p, E0102,
                          "'%s' cannot name an op: expected an identifier that is not a word of C",
                          dr->d->name);
    if (op_parse(dr->d->name, &op) || custom_decl_find(decls, dr->d->name) != NULL)
        return json_error(dr->r, p, E0104, "there is already an op '%s'", dr->d->name);
    set(dr, A_custom_function, dr->d->name);
    return true;
}

static void read_decl(JsonReader *r, const JsonPlace *p, CustomDecls *out)
{
    static const char *const names[D_COUNT] = {
        [D_name] = "name",       [D_operands] = "operands", [D_results] = "results",
        [D_attributes] = "attributes", [D_scratch] = "scratch",   [D_elements] = "elements",
        [D_c] = "c",             [D_cuda] = "cuda",         [D_glsl] = "glsl",
        [D_msl] = "msl"};
    DeclReader dr = {.r = r, .d = ARENA_NEW(r->arena, CustomDecl)};
    for (uint32_t i = 0; i < D_COUNT; i++)
        dr.m[i] = (JsonMember){.name = names[i], .is_required = i <= D_results};
    for (uint32_t i = 0; i < ATTR_COUNT; i++)
        dr.d->text[i].id = ATTR_COUNT;
    if (!json_members(r, p, "a custom op", E0102, dr.m, D_COUNT) || !read_name(&dr, out))
        return;
    vec_push(r->arena, &out->list, dr.d); // also when it is wrong: nodes need not be reported, too
    if (!read_attrs(&dr) || !read_tensors(&dr, D_operands, A_custom_operands) ||
        !read_tensors(&dr, D_results, A_custom_results) || !read_tensors(&dr, D_scratch, A_custom_scratch) ||
        !read_elements(&dr) || !read_text(&dr, D_c, A_custom_c) || !read_text(&dr, D_cuda, A_custom_cuda) ||
        !read_text(&dr, D_glsl, A_custom_glsl))
        return;
    read_text(&dr, D_msl, A_custom_msl);
}

void json_custom(JsonReader *r, const JsonPlace *section, CustomDecls *out)
{
    JsonPlace child = {0};
    uint32_t n = 0;
    if (!section->item || !json_list(r, section, "a list of custom ops", &n))
        return;
    while (json_next(section, &child) && !json_is_hopeless(r)) {
        if (cJSON_IsObject(child.item))
            read_decl(r, &child, out);
        else
            json_wrong(r, &child, "an object that declares an op");
    }
}

const CustomDecl *custom_decl_find(const CustomDecls *decls, const char *name)
{
    for (uint32_t i = 0; decls != NULL && i < decls->list.len; i++)
        if (strcmp(decls->list.data[i]->name, name) == 0)
            return decls->list.data[i];
    return NULL;
}

void custom_decl_set(Arena *a, const CustomDecl *d, const CustomAttr *values, NodeBuild *b)
{
    rlx_assert(d->attrs.len <= BUILD_MAX_ATTRS);
    Str constants = str_new(a);
    for (uint32_t i = 0; i < d->attrs.len; i++) {
        str_printf(&constants, "%s%s = ", i == 0 ? "" : "; ", d->attrs.data[i].name);
        if (d->attrs.data[i].is_float)
            str_f64(&constants, values[i].number);
        else
            str_printf(&constants, "%lld", (long long)values[i].whole);
    }
    for (uint32_t i = 0; i < ATTR_COUNT; i++)
        if (d->text[i].id != ATTR_COUNT)
            node_str(b, d->text[i].id, d->text[i].u.str);
    node_str(b, A_custom_constants, str_text(&constants));
}
