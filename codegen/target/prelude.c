// SPDX-License-Identifier: Apache-2.0
// Picks the prelude pieces that a text needs. The language of the files is in prelude.h.
#include "codegen/target/prelude.h"
#include "base/map.h"
#include "codegen/target/device.h"

#include <ctype.h>
#include <string.h>

enum { MIN_LANES = 4, MAX_LANES = 16, MAX_NAMES = 16, MAX_NUMBER = 31, NO_TYPE = -1 };

typedef struct Piece {
    const char *names[MAX_NAMES];
    uint32_t n_names;
    const char *const *lines; // those after the marker
    uint32_t n_lines;
    int lanes;  // of this instance; 0: the piece has no $L
    int type;   // of this instance; NO_TYPE: the piece has no $S
    int number; // of this instance; 0: the piece has no $D
    bool is_needed;
} Piece;

typedef struct Picker {
    const Target *t;
    Arena *arena;
    VEC(Piece) pieces;
    Map defined; // first names of pieces
    Map words;
} Picker;

// --- placeholders --------------------------------------------------------------------------------

// "from, from + 1, ... to - 1"
static void add_numbers(Str *out, int from, int to)
{
    for (int i = from; i < to; i++)
        str_printf(out, i == from ? "%d" : ", %d", i);
}

static const char *int_limit(Picker *p, int type, bool is_least)
{
    const uint32_t bits = dtype_info[type].bits;
    const bool is_signed = dtype_info[type].cls == DCLASS_INT;
    const uint64_t most = UINT64_MAX >> (64 - bits + is_signed);
    const char *literal = p->t->types[type].literal, *mark = strstr(literal, "$0");
    const char *digits =
        arena_printf(p->arena, "%llu", is_least && !is_signed ? 0ull : (unsigned long long)most);
    const char *text = arena_printf(p->arena, "%.*s%s%s", (int)(mark - literal), literal, digits, mark + 2);
    return is_least && is_signed ? arena_printf(p->arena, "(-%s - 1)", text) : text;
}

// 2^bits as a decimal float: what no value of the type reaches.
static const char *float_limit(Picker *p, int type)
{
    const uint32_t bits = dtype_info[type].bits - (dtype_info[type].cls == DCLASS_INT);
    Str s = str_new(p->arena);
    double v = 1;
    for (uint32_t i = 0; i < bits; i++)
        v *= 2;
    str_f64(&s, v);
    return str_text(&s);
}

// Half of the lanes of two vectors in turn, from the first on.
static void add_zipped(Str *out, int first, int lanes)
{
    for (int i = first; i < first + lanes / 2; i++)
        str_printf(out, "%s%d, %d", i > first ? ", " : "", i, lanes + i);
}

// Every second lane of two vectors, one behind the other.
static void add_unzipped(Str *out, int first, int lanes)
{
    for (int i = first; i < 2 * lanes; i += 2)
        str_printf(out, "%s%d", i > first ? ", " : "", i);
}

static void add_placeholder(Picker *p, const Piece *piece, char what, Str *out)
{
    const int lanes = piece->lanes;
    rlx_assert(strchr("STUMXFN", what) == NULL || piece->type != NO_TYPE);
    rlx_assert(strchr("LHBIJKYZVW", what) == NULL || lanes >= MIN_LANES);
    switch (what) {
    case 'L':
        str_printf(out, "%d", lanes);
        return;
    case 'H':
        str_printf(out, "%d", lanes / 2);
        return;
    case 'B':
        str_printf(out, "%d", lanes * 4);
        return;
    case 'I':
        add_numbers(out, 0, lanes);
        return;
    case 'J':
        add_numbers(out, lanes / 2, lanes);
        return;
    case 'K':
        add_numbers(out, 0, lanes / 2);
        return;
    case 'Y':
    case 'Z':
        add_zipped(out, what == 'Y' ? lanes / 2 : 0, lanes);
        return;
    case 'V':
    case 'W':
        add_unzipped(out, what == 'W', lanes);
        return;
    case 'S':
        str_add(out, dtype_info[piece->type].name);
        return;
    case 'T':
        str_add(out, p->t->types[piece->type].value);
        return;
    case 'U':
        str_add(out, p->t->types[piece->type].wide);
        return;
    case 'M':
        str_add(out, int_limit(p, piece->type, true));
        return;
    case 'X':
        str_add(out, int_limit(p, piece->type, false));
        return;
    case 'F':
        str_add(out, float_limit(p, piece->type));
        return;
    case 'N':
        str_printf(out, "%u", dtype_info[piece->type].bytes);
        return;
    case 'D':
        str_printf(out, "%d", piece->number);
        return;
    default:
        diag_bug(__FILE__, __LINE__, "unknown placeholder in a prelude");
    }
}

static const char *fill(Picker *p, const Piece *piece, const char *line)
{
    Str s = str_new(p->arena);
    for (const char *mark = strchr(line, '$'); mark; mark = strchr(line, '$')) {
        str_add_n(&s, line, (size_t)(mark - line));
        add_placeholder(p, piece, mark[1], &s);
        line = mark + 2;
    }
    str_add(&s, line);
    return str_text(&s);
}

// --- reading the files ---------------------------------------------------------------------------

// Unless an earlier piece has the name.
static void add_piece(Picker *p, const Piece *piece)
{
    if (!piece->n_names || map_put_str(p->arena, &p->defined, piece->names[0], 1))
        vec_push(p->arena, &p->pieces, *piece);
}

static void add_names(Picker *p, Piece *piece, const char *list)
{
    while (*list) {
        const size_t n = strcspn(list, " ");
        rlx_assert(piece->n_names < MAX_NAMES);
        piece->names[piece->n_names++] = fill(p, piece, arena_strndup(p->arena, list, n));
        list += n + strspn(list + n, " ");
    }
}

static void add_instances(Picker *p, Piece piece, const char *list)
{
    if (strstr(list, "$L")) {
        for (piece.lanes = MIN_LANES; piece.lanes <= MAX_LANES; piece.lanes *= 2) {
            Piece one = piece;
            add_names(p, &one, list);
            add_piece(p, &one);
        }
        return;
    }
    for (int i = 1; strstr(list, "$D") && i <= MAX_NUMBER; i++) {
        Piece one = piece;
        one.number = i;
        add_names(p, &one, list);
        add_piece(p, &one);
    }
    if (strstr(list, "$D"))
        return;
    for (int type = 0; strstr(list, "$S") && type < DTYPE_COUNT; type++) {
        const bool is_int = dtype_info[type].cls == DCLASS_INT || dtype_info[type].cls == DCLASS_UINT;
        Piece one = piece;
        one.type = type;
        if (!is_int || !p->t->types[type].value)
            continue;
        add_names(p, &one, list);
        add_piece(p, &one);
    }
    if (strstr(list, "$S"))
        return;
    piece.is_needed = !strcmp(list, "*");
    if (!piece.is_needed)
        add_names(p, &piece, list);
    add_piece(p, &piece);
}

// The names of a line that begins a piece, or NULL.
static const char *marker(Picker *p, const char *line)
{
    return strncmp(line, "//@ ", 4) == 0 ? arena_strndup(p->arena, line + 4, strcspn(line + 4, "\n")) : NULL;
}

static void read_file(Picker *p, const char *const *lines)
{
    while (*lines && !marker(p, *lines))
        lines++;
    while (*lines) {
        const char *list = marker(p, *lines++);
        Piece piece = {.lines = lines, .type = NO_TYPE};
        while (lines[piece.n_lines] && !marker(p, lines[piece.n_lines]))
            piece.n_lines++;
        lines += piece.n_lines;
        add_instances(p, piece, list);
    }
}

// --- picking -------------------------------------------------------------------------------------

static void add_words(Picker *p, const char *text)
{
    while (*text) {
        size_t n = 0;
        while (isalnum((unsigned char)text[n]) || text[n] == '_')
            n++;
        if (n > 4 && (!strncmp(text, "rlx_", 4) || !strncmp(text, "RLX_", 4)))
            map_put(p->arena, &p->words, text, n, 1);
        text += n ? n : 1;
    }
}

static bool is_asked_for(const Picker *p, const Piece *piece)
{
    uint64_t unused;
    for (uint32_t i = 0; i < piece->n_names; i++)
        if (map_get_str(&p->words, piece->names[i], &unused))
            return true;
    return false;
}

static void need(Picker *p, Piece *piece)
{
    piece->is_needed = true;
    for (uint32_t i = 0; i < piece->n_lines; i++)
        add_words(p, fill(p, piece, piece->lines[i]));
}

void target_print_prelude(const Target *t, const char *text, Str *out)
{
    rlx_assert(t->prelude != NULL && text != NULL);
    Picker p = {.t = t, .arena = out->arena};
    for (const char *const *const *file = t->prelude; *file; file++)
        read_file(&p, *file);
    add_words(&p, text);
    if (strstr(text, "rlx_wgmma_n") != NULL) // their functions are made behind the pieces
        add_words(&p, "RLX_FN RLX_SM_90A rlx_u32 rlx_u64 rlx_idx");
    for (uint32_t i = 0; i < p.pieces.len; i++)
        if (p.pieces.data[i].is_needed)
            need(&p, &p.pieces.data[i]);
    bool grew = true;
    while (grew) {
        grew = false;
        for (uint32_t i = 0; i < p.pieces.len; i++) {
            Piece *piece = &p.pieces.data[i];
            if (piece->is_needed || !is_asked_for(&p, piece))
                continue;
            need(&p, piece);
            grew = true;
        }
    }
    for (uint32_t i = 0; i < p.pieces.len; i++) {
        const Piece *piece = &p.pieces.data[i];
        for (uint32_t j = 0; piece->is_needed && j < piece->n_lines; j++)
            str_add(out, fill(&p, piece, piece->lines[j]));
    }
    device_print_products(text, out);
}
