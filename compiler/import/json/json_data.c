// SPDX-License-Identifier: Apache-2.0
// Tensors in JSON: type, shape, and values from the text or from a file. Nothing is allocated for a size that
// the text only claims: the values are counted, or the file is measured, first.
#include "compiler/import/json/json_reader.h"
#include "compiler/import/tensors/npy.h"
#include "compiler/system/rawfile.h"
#include "compiler/import/tensors/shards.h"
#include "compiler/import/tensors/tensor_bytes.h"

#include <string.h>

typedef enum Member { M_dtype, M_shape, M_data, M_file, M_tensor, M_offset, M_next, M_COUNT } Member;

typedef struct Source {
    JsonReader *r;
    const JsonPlace *p; // the entry
    JsonMember *m;
    bool has_dtype, has_shape;
    JsonTensor *out;
    Tensor t; // the values
} Source;

static const char *type_text(const Source *s, DType dtype, const Shape *shape)
{
    Str text = str_new(s->r->arena);
    shape_print(s->r->dims, dtype, shape, &text);
    return str_text(&text);
}

// --- values in the text --------------------------------------------------

// The shape that nested lists have along their first elements.
static bool measure(const Source *s, const JsonPlace *data, Shape *shape)
{
    JsonPlace level[SHAPE_MAX_RANK + 1] = {*data};
    *shape = (Shape){0};
    while (cJSON_IsArray(level[shape->rank].item)) {
        const JsonPlace *p = &level[shape->rank];
        if (shape->rank == SHAPE_MAX_RANK)
            return json_error(s->r, p, E0004,
                              "lists are nested more than %d deep; a tensor has at most %d axes",
                              SHAPE_MAX_RANK, SHAPE_MAX_RANK);
        uint32_t n = 0;
        if (!json_list(s->r, p, "a list", &n))
            return false;
        shape->dim[shape->rank++] = n;
        if (!json_next(p, &level[shape->rank]))
            break;
    }
    return true;
}

// Stores the elements of p, which has the axes of the shape from `axis` on. Recursion: at most
// SHAPE_MAX_RANK.
static bool fill(Source *s, const JsonPlace *p, const Shape *shape, uint32_t axis, int64_t *at)
{
    rlx_assert(axis <= shape->rank && *at <= s->t.numel);
    uint32_t n = 0;
    JsonPlace child = {0};
    if (axis == shape->rank)
        return json_element(s->r, p, &s->t, (*at)++);
    if (!json_list(s->r, p, "a list, as its neighbours are", &n))
        return false;
    if (n != shape->dim[axis])
        return json_error(s->r, p, E0204, "this list has the length %u, the first one of its kind %lld", n,
                          (long long)shape->dim[axis]);
    while (json_next(p, &child))
        if (!fill(s, &child, shape, axis + 1, at))
            return false;
    return true;
}

// The declared shape must be that of the lists; a flat list of all elements will do too.
static bool fit_shape(const Source *s, const JsonPlace *data, const Shape *listed)
{
    const Shape *shape = &s->out->shape;
    if (shape_equal(shape, listed) || (listed->rank == 1 && shape_numel(shape) == listed->dim[0]))
        return true;
    if (listed->rank != 1)
        return json_error(s->r, data, E0204, "data has the shape %s, but the shape is given as %s",
                          type_text(s, s->out->dtype, listed), type_text(s, s->out->dtype, shape));
    return json_error(s->r, data, E0204, "data has the length %lld, but %s needs %lld",
                      (long long)listed->dim[0], type_text(s, s->out->dtype, shape),
                      (long long)shape_numel(shape));
}

// The elements in the lists: what the text holds, whatever shape it claims.
static int64_t count_scalars(const cJSON *item)
{
    if (!cJSON_IsArray(item))
        return 1;
    int64_t n = 0;
    for (const cJSON *child = item->child; child; child = child->next)
        n += count_scalars(child);
    return n;
}

static bool read_data(Source *s)
{
    const JsonPlace *data = &s->m[M_data].place;
    Shape listed;
    int64_t at = 0;
    if (!s->has_dtype)
        return json_error(s->r, s->p, E0102, "values in the text need the member 'dtype'");
    if (!measure(s, data, &listed))
        return false;
    if (!s->has_shape)
        s->out->shape = listed;
    else if (!fit_shape(s, data, &listed))
        return false;
    int64_t numel = count_scalars(data->item);
    s->t = tensor_new(s->r->arena, s->out->dtype, 1, &numel);
    return fill(s, data, &listed, 0, &at);
}

// --- values in a file --------------------------------------------------

// Each file is opened, and complained about, once.
static bool open_safetensors(Source *s, const char *path, const SafeTensors **out)
{
    uint64_t known = 0;
    JsonReader *r = s->r;
    if (!map_get_str(&r->weight_files, path, &known)) {
        SafeTensors *file = ARENA_NEW(r->arena, SafeTensors);
        if (!safetensors_open(r->arena, r->diag, json_span(r, &s->m[M_file].place), path, file))
            file = NULL;
        known = r->opened.len;
        map_put_str(r->arena, &r->weight_files, path, known);
        vec_push(r->arena, &r->opened, file);
    }
    rlx_assert(known < r->opened.len);
    *out = r->opened.data[known];
    return *out != NULL;
}

static bool find_tensor(Source *s, const char *path)
{
    const SafeTensors *file = NULL;
    const char *name = s->p->item->string;
    const JsonPlace *place = s->m[M_tensor].place.item ? &s->m[M_tensor].place : s->p;
    if (s->m[M_tensor].place.item && !json_string(s->r, place, "the name of a tensor", &name))
        return false;
    if (shards_is_index(path)) {
        path = shards_find(s->r->arena, s->r->diag, json_span(s->r, place), path, name, &s->r->indexes);
        if (!path)
            return false;
    }
    if (!open_safetensors(s, path, &file))
        return false;
    const SafeTensor *found = safetensors_find(file, name);
    if (!found) {
        const char **names = ARENA_ARRAY(s->r->arena, const char *, file->tensors.len);
        for (uint32_t i = 0; i < file->tensors.len; i++)
            names[i] = file->tensors.data[i].name;
        return json_error(s->r, place, E0105, "'%s' holds no tensor '%s' of a type that rlxc knows%s", path,
                          name, json_hint(s->r, name, names, file->tensors.len));
    }
    s->t = found->tensor;
    if (tensor_set_bytes(s->r->arena, &s->t, found->tensor.data))
        return true;
    return json_error(s->r, place, E0105, "'%s' of '%s' holds %s", name, path, tensor_dirt(s->t.dtype));
}

static bool read_npy(Source *s, const char *path)
{
    RawFile file;
    Span where = json_span(s->r, &s->m[M_file].place);
    if (!rawfile_open_once(s->r->diag, where, path, &file) ||
        !npy_read(s->r->arena, s->r->diag, where, path, file.data, file.len, &s->t))
        return false;
    if (s->has_dtype)
        npy_retype(s->r->arena, &s->t, s->out->dtype);
    else if (dtype_is_narrow(s->t.dtype))
        return json_error(
            s->r, &s->m[M_file].place, E0102,
            "'%s' holds bytes of a type that NumPy itself does not have; add the member 'dtype'", path);
    return true;
}

static bool read_raw(Source *s, const char *path)
{
    RawFile file;
    const JsonPlace *place = &s->m[M_file].place;
    int64_t offset = 0;
    if (!s->has_dtype || !s->has_shape)
        return json_error(s->r, s->p, E0102, "values in a raw file need the member '%s'",
                          s->has_dtype ? "shape" : "dtype");
    if (s->m[M_offset].place.item && !json_int(s->r, &s->m[M_offset].place, "an offset in bytes", &offset))
        return false;
    if (offset < 0)
        return json_error(s->r, &s->m[M_offset].place, E0102, "the offset must not be negative");
    if (!rawfile_open_once(s->r->diag, json_span(s->r, place), path, &file))
        return false;
    uint64_t wanted = type_bytes(s->out->dtype, &s->out->shape);
    if ((uint64_t)offset > file.len || wanted > file.len - (uint64_t)offset)
        return json_error(s->r, place, E0105, "%s needs %llu bytes from offset %lld, but '%s' has %zu",
                          type_text(s, s->out->dtype, &s->out->shape), (unsigned long long)wanted,
                          (long long)offset, path, file.len);
    s->t = (Tensor){.dtype = s->out->dtype, .rank = s->out->shape.rank, .numel = shape_numel(&s->out->shape)};
    memcpy(s->t.dim, s->out->shape.dim, sizeof s->t.dim);
    return tensor_set_bytes(s->r->arena, &s->t, file.data + offset) ||
           json_error(s->r, place, E0105, "'%s' holds %s", path, tensor_dirt(s->t.dtype));
}

// The file's type must be the declared one, where it is declared.
static bool fit_type(Source *s, const char *path)
{
    Shape held = shape_of(s->t.rank, s->t.dim);
    if (s->has_dtype && s->out->dtype != s->t.dtype)
        return json_error(s->r, &s->m[M_dtype].place, E0105, "the dtype is given as %s, but '%s' holds %s",
                          dtype_info[s->out->dtype].name, path, type_text(s, s->t.dtype, &held));
    if (s->has_shape && !shape_equal(&s->out->shape, &held))
        return json_error(s->r, &s->m[M_shape].place, E0105, "the shape is given as %s, but '%s' holds %s",
                          type_text(s, s->t.dtype, &s->out->shape), path, type_text(s, s->t.dtype, &held));
    s->out->dtype = s->t.dtype;
    s->out->shape = held;
    return true;
}

static bool refuse_member(const Source *s, Member which, const char *of)
{
    const JsonPlace *place = &s->m[which].place;
    return !place->item ||
           json_error(s->r, place, E0102, "the member '%s' is for %s only", s->m[which].name, of);
}

static bool read_file(Source *s)
{
    const JsonPlace *place = &s->m[M_file].place;
    const char *name = NULL;
    if (!json_string(s->r, place, "the name of a file", &name))
        return false;
    const char *path = rawfile_resolve(s->r->arena, s->r->dir, name);
    if (!path)
        return json_error(s->r, place, E0102,
                          "a relative file must stay in the folder of the model: no '..', no link "
                          "out of it, and not empty");
    bool is_npy = str_ends_with(name, ".npy"),
         is_safetensors = str_ends_with(name, ".safetensors") || shards_is_index(name);
    if (!is_safetensors && !refuse_member(s, M_tensor, ".safetensors files"))
        return false;
    if ((is_npy || is_safetensors) && !refuse_member(s, M_offset, "raw files"))
        return false;
    if (!(is_safetensors ? find_tensor(s, path) : is_npy ? read_npy(s, path) : read_raw(s, path)))
        return false;
    return fit_type(s, path);
}

// --- whole entries --------------------------------------------------

static bool read_type(Source *s)
{
    bool ok = true;
    s->has_dtype = s->m[M_dtype].place.item != NULL;
    s->has_shape = s->m[M_shape].place.item != NULL;
    if (s->has_dtype)
        ok = json_dtype(s->r, &s->m[M_dtype].place, &s->out->dtype);
    if (s->has_shape)
        ok &= json_shape(s->r, &s->m[M_shape].place, &s->out->shape);
    return ok;
}

static bool read_values(Source *s, JsonRole role)
{
    bool has_data = s->m[M_data].place.item != NULL, has_file = s->m[M_file].place.item != NULL;
    if (has_data && has_file)
        return json_error(s->r, &s->m[M_file].place, E0102,
                          "values come from 'data' or from 'file', not from both");
    if (!has_file &&
        (!refuse_member(s, M_tensor, "values in a file") || !refuse_member(s, M_offset, "values in a file")))
        return false;
    if (!has_data && !has_file) {
        if (role == JSON_WEIGHT)
            return json_error(s->r, s->p, E0102, "a weight needs the member 'data' or 'file'");
        return (s->has_dtype && s->has_shape) ||
               json_error(s->r, s->p, E0102, "the member '%s' is missing", s->has_dtype ? "shape" : "dtype");
    }
    if (s->has_shape && !shape_is_const(&s->out->shape))
        return json_error(s->r, &s->m[M_shape].place, E0207, "a tensor with values needs a constant shape");
    if (!(has_data ? read_data(s) : read_file(s)))
        return false;
    rlx_assert(s->t.dtype == s->out->dtype && s->t.numel == shape_numel(&s->out->shape));
    s->out->has_values = true;
    s->out->data = s->t.data;
    s->out->bytes = (uint64_t)s->t.numel * dtype_info[s->t.dtype].bytes;
    return true;
}

bool json_tensor(JsonReader *r, const JsonPlace *p, JsonRole role, JsonTensor *out, JsonPlace *next)
{
    static const struct {
        const char *owner;
        uint32_t n_members;
    } roles[] = {{"an input", M_shape + 1},
                 {"a weight", M_offset + 1},
                 {"a param", M_offset + 1},
                 {"a state", M_COUNT}};
    JsonMember m[M_COUNT] = {
        {.name = "dtype", .is_required = role == JSON_INPUT},
        {.name = "shape", .is_required = role == JSON_INPUT},
        {.name = "data"},
        {.name = "file"},
        {.name = "tensor"},
        {.name = "offset"},
        {.name = "next", .is_required = true},
    };
    rlx_assert((size_t)role < sizeof roles / sizeof *roles);
    *out = (JsonTensor){0};
    if (!json_members(r, p, roles[role].owner, E0102, m, roles[role].n_members))
        return false;
    Source s = {.r = r, .p = p, .m = m, .out = out};
    if (next)
        *next = m[M_next].place;
    return read_type(&s) && read_values(&s, role);
}
