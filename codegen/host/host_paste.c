// SPDX-License-Identifier: Apache-2.0
// Pastes pieces of runtime-lite: those that are wanted, what they use in turn, and of each the lines that are
// for what the model has.
#include "codegen/host/host_paste.h"
#include <ctype.h>
#include <string.h>

typedef struct Paste {
    uint32_t has;
    Map names;       // of what pieces define: their numbers
    bool *is_in;     // by piece
    uint32_t *todo;  // pieces that are in, whose words were not looked at
    uint32_t n_todo;
} Paste;

static bool is_on(const Paste *p, const RuntimeLine *l)
{
    return (l->has & ~p->has) == 0 && (l->has_not & p->has) == 0;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static const RuntimePart *part_of(uint32_t piece)
{
    uint32_t i = 0;
    while (piece >= runtime_parts[i].piece + runtime_parts[i].n_pieces)
        i++;
    return &runtime_parts[i];
}

static void add_piece(Paste *p, uint32_t piece)
{
    if (p->is_in[piece] || (runtime_pieces[piece].flags & PIECE_FRAME) != 0)
        return;
    p->is_in[piece] = true;
    p->todo[p->n_todo++] = piece;
}

// Behind a comment, a string or a character that begins here; NULL: none does.
static const char *skip_quoted(const char *c)
{
    if (c[0] == '/' && c[1] == '/')
        return c + strcspn(c, "\n");
    if (*c != '"' && *c != '\'')
        return NULL;
    const char quote = *c++;
    while (*c != quote && *c != '\0' && *c != '\n')
        c += c[0] == '\\' && c[1] != '\0' ? 2 : 1;
    return *c == quote ? c + 1 : c;
}

// The piece that a word wants, by its name or, where it looks inside of what a member points to, "->member".
static bool find_word(const Paste *p, const char *c, size_t n, bool is_first, uint64_t *piece)
{
    if (!is_first && c[-1] == '>' && (c[n] == '-' || c[n] == '['))
        return map_get(&p->names, c - 2, n + 2, piece);
    return n > 4 && c[3] == '_' && map_get(&p->names, c, n, piece);
}

// Takes what the words of a text name. Behind `struct` a type may stay incomplete.
static void use_words(Paste *p, const char *c)
{
    const char *const begin = c;
    bool is_struct = false;
    while (*c != '\0') {
        const char *const end = skip_quoted(c);
        uint64_t piece = 0;
        size_t n = 0;
        if (end != NULL) {
            c = end;
            continue;
        }
        while (is_word(c[n]))
            n++;
        if (n > 0 && !is_struct && find_word(p, c, n, c == begin, &piece))
            add_piece(p, (uint32_t)piece);
        if (n > 0)
            is_struct = n == 6 && memcmp(c, "struct", n) == 0;
        c += n > 0 ? n : 1;
    }
}

static void use_piece(Paste *p, uint32_t piece)
{
    const RuntimePiece *q = &runtime_pieces[piece];
    const RuntimePart *part = part_of(piece);
    for (uint32_t i = 0; i < q->n_lines; i++)
        if (is_on(p, &runtime_lines[q->line + i]))
            use_words(p, runtime_lines[q->line + i].text);
    for (uint32_t i = part->piece; i < part->piece + part->n_pieces; i++)
        if (runtime_pieces[i].names[0] == '\0') // what the whole part stands on
            add_piece(p, i);
}

static bool has_lines(const Paste *p, uint32_t piece)
{
    const RuntimePiece *q = &runtime_pieces[piece];
    bool has = false;
    for (uint32_t i = 0; i < q->n_lines; i++)
        has = has || (is_on(p, &runtime_lines[q->line + i]) && runtime_lines[q->line + i].text[0] != '/');
    return has;
}

static Paste begin(Arena *a, uint32_t has)
{
    Paste p = {.has = has,
               .is_in = ARENA_ARRAY(a, bool, n_runtime_pieces),
               .todo = ARENA_ARRAY(a, uint32_t, n_runtime_pieces)};
    for (uint32_t i = 0; i < n_runtime_pieces; i++)
        for (const char *name = runtime_pieces[i].names; has_lines(&p, i) && *name != '\0';) {
            const size_t n = strcspn(name, " ");
            map_put(a, &p.names, name, n, i);
            name += n + (name[n] == ' ');
        }
    return p;
}

static void print_piece(const Paste *p, uint32_t piece, const char *skip, Str *out)
{
    const RuntimePiece *q = &runtime_pieces[piece];
    bool is_first = true;
    if (!has_lines(p, piece))
        return;
    for (uint32_t i = 0; i < q->n_lines; i++) {
        const RuntimeLine *l = &runtime_lines[q->line + i];
        if (!is_on(p, l) || (skip != NULL && strncmp(l->text, skip, strlen(skip)) == 0))
            continue;
        str_printf(out, "%s%s", is_first ? "\n" : "", l->text);
        is_first = false;
    }
}

void host_paste_pieces(Arena *a, const PasteWish *w, Str *out)
{
    Paste p = begin(a, w->has);
    for (uint32_t i = 0; i < n_runtime_parts; i++)
        for (uint32_t k = 0; k < runtime_parts[i].n_pieces; k++) {
            const uint32_t piece = runtime_parts[i].piece + k;
            if (w->parts[i] && (runtime_pieces[piece].flags & PIECE_PUBLIC) != 0)
                add_piece(&p, piece);
        }
    for (uint32_t i = 0; i < w->n_texts; i++)
        use_words(&p, w->texts[i]);
    while (p.n_todo > 0)
        use_piece(&p, p.todo[--p.n_todo]);
    for (uint32_t i = 0; i < n_runtime_pieces; i++)
        if (p.is_in[i])
            print_piece(&p, i, NULL, out);
}

void host_paste_part(uint32_t part, uint32_t has, const char *skip, Str *out)
{
    const Paste p = {.has = has};
    const RuntimePart *q = &runtime_parts[part];
    for (uint32_t i = q->piece; i < q->piece + q->n_pieces; i++)
        print_piece(&p, i, skip, out);
    str_add(out, "\n#endif\n");
}
