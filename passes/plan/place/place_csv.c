// SPDX-License-Identifier: Apache-2.0
// Reads a table of placement items: comma-separated, a header line that names the columns in any order, one
// item a line. Separate because it is the only part of the library that meets text written by others.
//   id          any text without comma or quote; optional
//   lower       first time at which the item is alive, an integer
//   upper       first time at which it is not any more, > lower
//   size        bytes, 0 .. 2^62
//   alignment   bytes, 1 .. 2^62; optional, 1
//   offset      the offset it must have, a multiple of the alignment; optional, may be left empty
#include "base/str.h"
#include "passes/plan/place/place.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum Column {
    COLUMN_id,
    COLUMN_lower,
    COLUMN_upper,
    COLUMN_size,
    COLUMN_alignment,
    COLUMN_offset
} Column;
enum { N_COLUMNS = COLUMN_offset + 1, MAX_ROWS = 1 << 24 };

typedef struct ColumnRule {
    const char *name;
    int64_t least, most, missing; // range of its numbers; value where the column or the field is missing
    bool is_needed, is_number, may_be_empty;
} ColumnRule;

#define MOST_BYTES ((int64_t)1 << 62)
static const ColumnRule column_rules[N_COLUMNS] = {
    [COLUMN_id] = {"id", 0, 0, 0, false, false, true},
    [COLUMN_lower] = {"lower", INT64_MIN, INT64_MAX, 0, true, true, false},
    [COLUMN_upper] = {"upper", INT64_MIN, INT64_MAX, 0, true, true, false},
    [COLUMN_size] = {"size", 0, MOST_BYTES, 0, true, true, false},
    [COLUMN_alignment] = {"alignment", 1, MOST_BYTES, 1, false, true, true},
    [COLUMN_offset] = {"offset", 0, MOST_BYTES, -1, false, true, true},
};

typedef struct Row {
    int64_t value[N_COLUMNS];
} Row;

typedef struct Csv {
    Arena *arena;
    Diag *diag;
    uint32_t file;
    const char *text;
    size_t len, pos;
    Column columns[N_COLUMNS]; // of the fields of a line
    uint32_t n_fields;
    VEC(Row) rows;
} Csv;

typedef struct Field {
    const char *text;
    size_t len;
    Span span;
} Field;

static Span span_at(const Csv *c, size_t begin, size_t end)
{
    return (Span){.file = c->file, .begin = (uint32_t)begin, .end = (uint32_t)end};
}

static bool at_line_end(const Csv *c)
{
    return c->pos == c->len || c->text[c->pos] == '\n' ||
           (c->text[c->pos] == '\r' && c->pos + 1 < c->len && c->text[c->pos + 1] == '\n');
}

static void skip_line_end(Csv *c)
{
    if (c->pos < c->len && c->text[c->pos] == '\r')
        c->pos++;
    if (c->pos < c->len)
        c->pos++;
}

// Reads up to the comma or the end of the line, without blanks around it.
static Field read_field(Csv *c)
{
    size_t begin = c->pos;
    while (!at_line_end(c) && c->text[c->pos] != ',')
        c->pos++;
    size_t end = c->pos;
    while (begin < end && (c->text[begin] == ' ' || c->text[begin] == '\t'))
        begin++;
    while (begin < end && (c->text[end - 1] == ' ' || c->text[end - 1] == '\t'))
        end--;
    return (Field){c->text + begin, end - begin, span_at(c, begin, end)};
}

static bool find_column(const Csv *c, const Field *f, Column *column)
{
    for (uint32_t k = 0; k < N_COLUMNS; k++) {
        const char *name = column_rules[k].name;
        if (strlen(name) == f->len && memcmp(name, f->text, f->len) == 0) {
            *column = (Column)k;
            return true;
        }
    }
    return diag_error(c->diag, f->span, E0109,
                      "expected a column name (id, lower, upper, size, alignment or offset)");
}

static bool read_header(Csv *c)
{
    bool is_named[N_COLUMNS] = {false};
    for (;;) {
        Field f = read_field(c);
        Column column = COLUMN_id;
        if (!find_column(c, &f, &column))
            return false;
        if (is_named[column])
            return diag_error(c->diag, f.span, E0109, "column '%s' is named twice",
                              column_rules[column].name);
        is_named[column] = true;
        c->columns[c->n_fields++] = column;
        if (at_line_end(c))
            break;
        c->pos++;
    }
    for (uint32_t k = 0; k < N_COLUMNS; k++) {
        if (column_rules[k].is_needed && !is_named[k])
            return diag_error(c->diag, span_at(c, 0, c->pos), E0109, "the header names no column '%s'",
                              column_rules[k].name);
    }
    skip_line_end(c);
    return true;
}

static bool read_value(const Csv *c, const Field *f, Column column, int64_t *value)
{
    const ColumnRule *rule = &column_rules[column];
    if (!rule->is_number || (f->len == 0 && rule->may_be_empty))
        return true;
    if (!str_parse_i64(f->text, f->len, value))
        return diag_error(c->diag, f->span, E0109, "expected a 64-bit integer for '%s'", rule->name);
    if (*value < rule->least || *value > rule->most)
        return diag_error(c->diag, f->span, E0109, "'%s' is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                          rule->name, *value, rule->least, rule->most);
    return true;
}

static bool check_row(const Csv *c, const Row *row, Span line)
{
    const int64_t *v = row->value;
    if (v[COLUMN_upper] <= v[COLUMN_lower])
        return diag_error(c->diag, line, E0109,
                          "'upper' (%" PRId64 ") must be greater than 'lower' (%" PRId64 ")", v[COLUMN_upper],
                          v[COLUMN_lower]);
    if (v[COLUMN_offset] >= 0 && v[COLUMN_offset] % v[COLUMN_alignment] != 0)
        return diag_error(c->diag, line, E0109,
                          "'offset' (%" PRId64 ") is not a multiple of 'alignment' (%" PRId64 ")",
                          v[COLUMN_offset], v[COLUMN_alignment]);
    return true;
}

static bool read_row(Csv *c)
{
    Row row;
    size_t begin = c->pos;
    for (uint32_t k = 0; k < N_COLUMNS; k++)
        row.value[k] = column_rules[k].missing;
    for (uint32_t k = 0; k < c->n_fields; k++) {
        if (k > 0 && at_line_end(c))
            return diag_error(c->diag, span_at(c, begin, c->pos), E0109,
                              "the line has %u fields, the header %u", k, c->n_fields);
        c->pos += k > 0;
        Field f = read_field(c);
        if (!read_value(c, &f, c->columns[k], &row.value[c->columns[k]]))
            return false;
    }
    if (!at_line_end(c))
        return diag_error(c->diag, span_at(c, c->pos, c->pos + 1), E0109, "the line has more than %u fields",
                          c->n_fields);
    if (!check_row(c, &row, span_at(c, begin, c->pos)))
        return false;
    skip_line_end(c);
    if (c->rows.len == MAX_ROWS)
        return diag_error(c->diag, span_at(c, begin, c->pos), E0004, "more than %d items", MAX_ROWS);
    vec_push(c->arena, &c->rows, row);
    return true;
}

static int compare_times(const void *pa, const void *pb)
{
    const int64_t *a = pa, *b = pb;
    return (*a > *b) - (*a < *b);
}

// Numbers the times from 0: by their distance where that fits 32 bits (how long an item lives is a hint to
// the placers), else by their rank.
static void set_steps(const Csv *c, PlaceItem *items)
{
    uint32_t n_times = 2 * c->rows.len, n = 0;
    int64_t *times = ARENA_ARRAY(c->arena, int64_t, n_times);
    for (uint32_t i = 0; i < c->rows.len; i++) {
        times[(size_t)2 * i] = c->rows.data[i].value[COLUMN_lower];
        times[(size_t)2 * i + 1] = c->rows.data[i].value[COLUMN_upper];
    }
    qsort(times, n_times, sizeof *times, compare_times);
    bool is_dense = (uint64_t)times[n_times - 1] - (uint64_t)times[0] <= UINT32_MAX;
    for (uint32_t k = 0; k < n_times; k++) {
        if (k == 0 || times[k] != times[n - 1])
            times[n++] = times[k];
    }
    for (uint32_t i = 0; i < c->rows.len; i++) {
        uint64_t step[2];
        for (int k = 0; k < 2; k++) {
            const int64_t *time = &c->rows.data[i].value[k == 0 ? COLUMN_lower : COLUMN_upper];
            const int64_t *found = bsearch(time, times, n, sizeof *times, compare_times);
            step[k] = is_dense ? (uint64_t)*time - (uint64_t)times[0] : (uint64_t)(found - times);
        }
        items[i].first = (uint32_t)step[0];
        items[i].last = (uint32_t)(step[1] - 1);
    }
}

// All items stacked, each after the worst gap, and all fixed offsets together must stay below 2^62.
static bool check_total(const Csv *c, const PlaceItem *items)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < c->rows.len; i++) {
        const PlaceItem *it = &items[i];
        total += it->size + (it->align - 1) + (it->fixed > 0 ? (uint64_t)it->fixed : 0);
        if (total >= (uint64_t)MOST_BYTES)
            return diag_error(c->diag, span_at(c, 0, 0), E0004,
                              "sizes, alignments and offsets add up to 2^62 bytes or more");
    }
    return true;
}

// Reads all lines under the header; a wrong one is reported and skipped, so that all of them are.
static bool read_rows(Csv *c)
{
    uint32_t n_wrong = 0;
    while (c->pos < c->len && n_wrong < DIAG_MAX_ERRORS) {
        size_t begin = c->pos;
        if (at_line_end(c)) {
            skip_line_end(c);
        } else if (!read_row(c)) {
            n_wrong++;
            const char *end = memchr(c->text + begin, '\n', c->len - begin);
            c->pos = end != NULL ? (size_t)(end - c->text) + 1 : c->len;
        }
    }
    return n_wrong == 0;
}

bool place_read_csv(Arena *a, Diag *d, const char *file_name, const char *text, size_t len, PlaceItem **items,
                    uint32_t *n)
{
    rlx_assert(text != NULL && items != NULL && n != NULL);
    Csv c = {.arena = a, .diag = d, .text = text, .len = len};
    c.file = diag_add_file(d, file_name, text, len);
    if (len >= UINT32_MAX)
        return diag_error(d, span_at(&c, 0, 0), E0004, "the table has 4 GiB or more");
    if (!read_header(&c) || !read_rows(&c))
        return false;
    *n = c.rows.len;
    *items = ARENA_ARRAY(a, PlaceItem, *n);
    for (uint32_t i = 0; i < *n; i++) {
        const int64_t *v = c.rows.data[i].value;
        (*items)[i] = (PlaceItem){.size = (uint64_t)v[COLUMN_size],
                                  .align = (uint64_t)v[COLUMN_alignment],
                                  .fixed = v[COLUMN_offset]};
    }
    if (*n > 0)
        set_steps(&c, *items);
    return check_total(&c, *items);
}
