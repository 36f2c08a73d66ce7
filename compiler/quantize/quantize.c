// SPDX-License-Identifier: Apache-2.0
// See quantize.h. Rows are read where they lie in the mapped file, and written one by one.
#include "compiler/quantize/quantize.h"
#include "compiler/quantize/encode.h"
#include "compiler/quantize/gguf_out.h"
#include "ir/graph/tensor.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

static const double most_f16 = 65504;

typedef struct Writer {
    const QuantizeJob *job;
    const GgufFile *from;
    GgufOut to;
    QuantizeReport *report;
    uint64_t done; // bytes of the first file
} Writer;

// What is the same for all rows of a tensor.
typedef struct Rows {
    Writer *writer;
    const GgufTensor *tensor;
    const GgufType *type;
    const BlockFormat *format; // NULL: plain numbers
    float *row, *back;         // numbers of a row, and what they have become
    unsigned char *bytes;      // of a row
    const float *weight;       // of columns; NULL: all are 1
    QuantizeSum *sum;
} Rows;

static bool fail(const QuantizeJob *j, const GgufTensor *t, const char *why)
{
    return diag_error(j->diag, (Span){0}, E0115, "%s: tensor '%s' %s", j->from, t->name, why);
}

// --- rows ----------------------------------------------------------------------------------------

// Whatever is finite and fits into the scales of blocks, which are f16.
static bool read_row(Rows *r, uint64_t at)
{
    const GgufTensor *t = r->tensor;
    const uint64_t k = t->dim[0];
    const Tensor v = {.dtype = t->type->dtype,
                      .rank = 1,
                      .dim = {(int64_t)k},
                      .numel = (int64_t)k,
                      .data = (void *)(uintptr_t)(t->data + at * k * t->type->bytes)};
    for (uint64_t i = 0; i < k; i++) {
        const double x = tensor_get_f64(&v, (int64_t)i);
        if (!(fabs(x) <= most_f16))
            return fail(r->writer->job, t, "has a number that is not finite or greater than 65504");
        r->row[i] = (float)x;
    }
    return true;
}

static void encode_row(Rows *r)
{
    const uint64_t k = r->tensor->dim[0];
    Tensor to = {.dtype = r->type->dtype, .rank = 1, .data = r->bytes};
    to.dim[0] = to.numel = (int64_t)k;
    for (uint64_t i = 0; r->format == NULL && i < k; i++) {
        tensor_set_f64(&to, (int64_t)i, (double)r->row[i]);
        r->back[i] = (float)tensor_get_f64(&to, (int64_t)i);
    }
    if (r->format == NULL)
        return;
    for (uint64_t i = 0, block = 0; i < k; i += r->format->elements, block++) {
        unsigned char *b = r->bytes + block * r->format->bytes;
        encode_block(r->format, r->row + i, r->weight != NULL ? r->weight + i : NULL, b);
        block_decode(r->format, b, r->back + i);
    }
}

static void add_errors(Rows *r)
{
    for (uint64_t i = 0; i < r->tensor->dim[0]; i++) {
        const double x = (double)r->row[i], off = x - (double)r->back[i];
        r->sum->error += off * off;
        r->sum->norm += x * x;
        r->sum->elements++;
    }
}

static void show_progress(Writer *w, uint64_t bytes)
{
    w->done += bytes;
    w->job->progress(w->done, w->report->bytes_before);
}

static bool write_rows(Rows *r)
{
    const GgufTensor *t = r->tensor;
    const Importance *importance = r->writer->job->importance;
    const uint64_t n = t->dim[2] * t->dim[3], rows = t->dim[1];
    const uint64_t bytes = gguf_type_bytes(r->type, t->dim, 1);
    for (uint64_t at = 0; at < rows * n; at++) {
        if (importance != NULL && at % rows == 0 &&
            !importance_of(importance, t->name, t->dim[0], at / rows, n, &r->weight))
            return false;
        if (!read_row(r, at))
            return false;
        encode_row(r);
        add_errors(r);
        if (!gguf_out_data(&r->writer->to, r->bytes, bytes))
            return true; // gguf_out_end reports it
        show_progress(r->writer, t->dim[0] * t->type->bytes);
    }
    return true;
}

// --- tensors -------------------------------------------------------------------------------------

static QuantizeSum *sum_of(Arena *a, QuantizeReport *report, const GgufType *type)
{
    for (uint32_t i = 0; i < report->sums.len; i++)
        if (report->sums.data[i].type == type)
            return &report->sums.data[i];
    vec_push(a, &report->sums, (QuantizeSum){.type = type});
    return &report->sums.data[report->sums.len - 1];
}

static bool check_tensor(const QuantizeJob *j, const GgufTensor *t, const GgufType *type)
{
    if (t->type == NULL)
        return fail(j, t, arena_printf(j->arena, "has a type that rlxc does not know, number %u", t->number));
    if (t->type == type || (t->type->elements == 1 && dtype_info[t->type->dtype].cls == DCLASS_FLOAT))
        return true;
    return fail(j, t,
                arena_printf(j->arena, "has the type %s; expected F32, F16, BF16 or F64: blocks are not "
                                       "quantised again",
                             t->type->name));
}

static bool convert(Writer *w, const GgufTensor *t, const GgufType *type, QuantizeSum *sum)
{
    Arena *a = w->job->arena;
    Rows r = {.writer = w, .tensor = t, .type = type, .sum = sum};
    r.format = type->format != NULL ? block_format(a, type->format) : NULL;
    r.row = ARENA_ARRAY(a, float, t->dim[0]);
    r.back = ARENA_ARRAY(a, float, t->dim[0]);
    r.bytes = arena_alloc(a, gguf_type_bytes(type, t->dim, 1));
    if (!write_rows(&r))
        return false;
    w->report->weighted += r.weight != NULL;
    return true;
}

static bool write_tensor(Writer *w, const GgufTensor *t)
{
    const GgufType *type = quantize_type(w->job->mix, w->from, t);
    const uint64_t bytes = gguf_type_bytes(type, t->dim, GGUF_MAX_RANK);
    QuantizeSum *sum = sum_of(w->job->arena, w->report, type);
    sum->tensors++;
    sum->bytes += bytes;
    if (type != t->type) {
        if (!convert(w, t, type, sum))
            return false;
    } else {
        (void)gguf_out_data(&w->to, t->data, t->bytes);
        show_progress(w, t->bytes);
    }
    (void)gguf_out_align(&w->to, bytes);
    return true;
}

// --- the file ------------------------------------------------------------------------------------

static bool is_replaced(const char *key)
{
    return strcmp(key, "general.file_type") == 0 || strcmp(key, "general.quantization_version") == 0 ||
           strncmp(key, "split.", 6) == 0 || strncmp(key, "quantize.imatrix.", 17) == 0;
}

static void describe(Writer *w)
{
    enum { BLOCKS_VERSION = 2 };
    const GgufFile *f = w->from;
    w->to.alignment = f->parts.data[0].alignment;
    for (uint32_t i = 0; i < f->entries.len; i++)
        if (!is_replaced(f->entries.data[i].key))
            gguf_out_copy(&w->to, &f->entries.data[i]);
    gguf_out_u32(&w->to, "general.file_type", w->job->mix->file_type);
    gguf_out_u32(&w->to, "general.quantization_version", BLOCKS_VERSION);
    if (w->job->importance != NULL)
        gguf_out_text(&w->to, "quantize.imatrix.file", w->job->importance->path);
    for (uint32_t i = 0; i < f->tensors.len; i++) {
        const GgufTensor *t = &f->tensors.data[i];
        const GgufType *type = quantize_type(w->job->mix, f, t);
        gguf_out_tensor(&w->to, t->name, t->rank, t->dim, type);
        w->report->bytes_before += t->bytes;
        w->report->bytes += gguf_type_bytes(type, t->dim, GGUF_MAX_RANK);
    }
}

// Is the file to write one that is read? It would be gone, and with it the numbers that blocks only round.
static bool is_own_file(const QuantizeJob *j)
{
    struct stat from, to;
    return stat(j->from, &from) == 0 && stat(j->to, &to) == 0 && from.st_dev == to.st_dev &&
           from.st_ino == to.st_ino;
}

bool quantize_file(const QuantizeJob *j, QuantizeReport *out)
{
    GgufFile f;
    *out = (QuantizeReport){0};
    if (!gguf_open(j->arena, j->diag, j->from, &f))
        return false;
    if (is_own_file(j))
        return diag_error(j->diag, (Span){0}, E0003, "-o %s: expected another file than the model", j->to);
    for (uint32_t i = 0; i < f.tensors.len; i++)
        if (!check_tensor(j, &f.tensors.data[i], quantize_type(j->mix, &f, &f.tensors.data[i])))
            return false;
    Writer w = {.job = j, .from = &f, .to = gguf_out_new(j->arena), .report = out};
    describe(&w);
    if (!gguf_out_begin(&w.to, j->diag, j->to))
        return false;
    bool is_complete = true;
    for (uint32_t i = 0; is_complete && i < f.tensors.len; i++)
        is_complete = write_tensor(&w, &f.tensors.data[i]);
    return gguf_out_end(&w.to, is_complete);
}

double quantize_rmse(const QuantizeSum *s)
{
    return s->elements != 0 ? sqrt(s->error / (double)s->elements) : 0;
}

double quantize_relative(const QuantizeSum *s)
{
    return s->norm > 0 ? sqrt(s->error / s->norm) : 0;
}
