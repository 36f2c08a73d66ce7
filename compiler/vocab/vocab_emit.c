// SPDX-License-Identifier: Apache-2.0
// A vocabulary as C: NAME.h with what a program calls, NAME.c with the tables and the code that works on
// them.
#include "compiler/vocab/vocab.h"
#include "compiler/vocab/vocab_text.h"
#include <ctype.h>
#include <string.h>

void vocab_emit_lines(Str *out, const char *const *lines)
{
    for (; *lines != NULL; lines++)
        if (strncmp(*lines, "#include \"", 10) != 0)
            str_add(out, *lines);
    str_char(out, '\n');
}

static const char *upper(Arena *a, const char *name)
{
    char *s = arena_strdup(a, name);
    for (char *p = s; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    return s;
}

void vocab_emit_named(Str *out, const char *text, const char *name)
{
    const char *big = upper(out->arena, name);
    for (const char *at; (at = strchr(text, '@')) != NULL; text = at + 6) {
        rlx_assert(strncmp(at, "@name@", 6) == 0 || strncmp(at, "@NAME@", 6) == 0);
        str_add_n(out, text, (size_t)(at - text));
        str_add(out, at[1] == 'N' ? big : name);
    }
    str_add(out, text);
}

// --- NAME.h --------------------------------------------------------------------------------------

static const char calls_text[] =
    "// The number of tokens of a text of n bytes, of which the first `room` are written; or a status below\n"
    "// zero. flags: RLX_TOKENS_*. The text may have any bytes. work: @NAME@_WORK_BYTES(n).\n"
    "int64_t @name@_tokenize(const char *text, size_t n, unsigned flags, rlx_work work, int32_t *tokens,\n"
    "                        size_t room);\n"
    "// The number of bytes of the text of tokens, of which the first `room` are written; or a status below\n"
    "// zero.\n"
    "int64_t @name@_decode(const int32_t *tokens, size_t n, unsigned flags, char *text, size_t room);\n"
    "// The same for one token, as it stands in the vocabulary.\n"
    "int64_t @name@_piece(int32_t token, unsigned flags, char *text, size_t room);\n"
    "// Writes the whole characters that a token completes, and keeps the rest in the stream for the next\n"
    "// one. Returns the number of bytes, at most @NAME@_PIECE_BYTES, for which `text` must have room; or a\n"
    "// status below zero.\n"
    "int64_t @name@_stream(rlx_stream *stream, int32_t token, unsigned flags, char *text, size_t room);\n"
    "// Can a text go on with this token, by its grammar? What rlx_sampling.allows is, with an rlx_parse as\n"
    "// allows_with.\n"
    "int @name@_allows(void *parse, int32_t token);\n"
    "// Goes on in the grammar behind a token. Returns 0, RLX_TEXT_TOKEN where the grammar does not allow\n"
    "// it, or RLX_TEXT_MEMORY; then nothing changes.\n"
    "int64_t @name@_advance(rlx_parse *parse, int32_t token);\n"
    "// Ends a stream: writes U+FFFD, which has 3 bytes, where a character is not whole.\n"
    "int64_t @name@_stream_end(rlx_stream *stream, char *text);\n";

void vocab_emit_header(const rlx_vocab *v, const char *name, Str *out)
{
    const char *big = upper(out->arena, name);
    str_printf(out, "// Tokens of %s: made by rlxc " RLXC_VERSION ".\n#ifndef %s_H\n#define %s_H\n\n", name,
               big, big);
    vocab_emit_lines(out, vocab_text_public);
    str_add(out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    str_printf(out, "#define %s_TOKENS %u\n", big, v->n_tokens);
    str_printf(out, "#define %s_BOS %d\n#define %s_EOS %d\n#define %s_EOT %d\n", big, v->bos, big, v->eos,
               big, v->eot);
    str_printf(out, "#define %s_PIECE_BYTES %u\n", big, (unsigned)RLX_STREAM_BYTES(v->longest));
    uint32_t more = 0;
    const uint32_t bytes = vocab_work(v, &more);
    str_printf(out, "#define %s_WORK_BYTES(n) (%u * ((size_t)(n) + 1) + %u)\n\n", big, bytes, more);
    vocab_emit_named(out, calls_text, name);
    str_add(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

// --- NAME.c --------------------------------------------------------------------------------------

typedef struct Table {
    const char *type, *name;
    const void *data;
    uint32_t element, n; // bytes of an element
} Table;


static void add_element(const Table *t, uint32_t i, Str *out)
{
    if (t->element == 1)
        str_printf(out, "%u", ((const uint8_t *)t->data)[i]);
    else if (t->type[0] == 'i')
        str_printf(out, "%d", ((const int32_t *)t->data)[i]);
    else if (t->type[0] == 'd')
        str_f64(out, ((const double *)t->data)[i]);
    else
        str_printf(out, "%u", ((const uint32_t *)t->data)[i]);
}

// An array of C has one element at least.
static void add_table(const Table *t, const char *name, Str *out)
{
    enum { WIDTH = 100 };
    str_printf(out, "static const %s %s_%s[%u] = {", t->type, name, t->name, t->n == 0 ? 1 : t->n);
    size_t line = out->len;
    for (uint32_t i = 0; i < t->n; i++) {
        str_add(out, i == 0 ? "" : ",");
        if (i == 0 || out->len - line > WIDTH) {
            str_add(out, "\n    ");
            line = out->len;
        }
        add_element(t, i, out);
    }
    str_add(out, t->n == 0 ? "0};\n" : "};\n");
}

// Those that the vocabulary has; a vocabulary of another kind has no data for the others.
static void add_tables(const rlx_vocab *v, const char *name, Str *out)
{
    const uint32_t n = v->n_tokens, n_buckets = 1u << v->bucket_bits;
    const uint32_t n_pairs = v->pair_begin == NULL ? 0 : v->pair_begin[n];
    rlx_assert((v->rank != NULL) + (v->pair_begin != NULL) + (v->sorted != NULL) == 1); // the kinds
    const Table tables[] = {
        {"uint8_t", "bytes", v->bytes, 1, v->begin[n]},
        {"uint32_t", "begin", v->begin, 4, n + 1},
        {"uint8_t", "type", v->type, 1, n},
        {"int32_t", "byte_token", v->byte_token, 4, 256},
        {"uint32_t", "special", v->special, 4, v->n_special},
        {"uint32_t", "special_first", v->special_first, 4, 8},
        {"uint32_t", "bucket", v->bucket, 4, n_buckets + 1},
        {"uint32_t", "by_hash", v->by_hash, 4, v->bucket[n_buckets]},
        {"uint32_t", "rank", v->rank, 4, n},
        {"uint32_t", "pair_begin", v->pair_begin, 4, n + 1},
        {"uint32_t", "pair_right", v->pair_right, 4, n_pairs},
        {"uint32_t", "pair_rank", v->pair_rank, 4, n_pairs},
        {"uint32_t", "pair_token", v->pair_token, 4, n_pairs},
        {"uint32_t", "sorted", v->sorted, 4, v->n_sorted},
        {"double", "score", v->score, 8, n},
    };
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (tables[i].data != NULL)
            add_table(&tables[i], name, out);
}

// A pointer to a table, or NULL, and what stands behind it.
static void add_pointer(const void *data, const char *name, const char *table, Str *out)
{
    if (data == NULL)
        str_add(out, " NULL,");
    else
        str_printf(out, " %s_%s,", name, table);
}

// What is made of a text first: the steps, and the map of the vocabulary itself.
static void add_normal(const rlx_vocab *v, const char *name, Str *out)
{
    const rlx_normal *n = v->normal;
    if (n == NULL)
        return;
    rlx_assert(n->growth >= 1 && (n->n_steps == 0 || n->step != NULL));
    add_table(&(Table){"uint8_t", "step", n->step, 1, n->n_steps}, name, out);
    if (n->map != NULL) {
        const Table tables[] = {
            {"uint32_t", "map_unit", n->map->unit, 4, n->map->n_units},
            {"uint8_t", "map_bytes", n->map->bytes, 1, n->map->n_bytes},
        };
        for (int i = 0; i < 2; i++)
            add_table(&tables[i], name, out);
        str_printf(out, "static const rlx_map %s_map = {%u, %u, %s_map_unit, %s_map_bytes};\n", name,
                   n->map->n_units, n->map->n_bytes, name, name);
    }
    str_printf(out, "static const rlx_normal %s_normal = {%u, %u, %s_step, %s, %s,\n    %s, ", name,
               n->n_steps, n->growth, name, n->forms == NULL ? "NULL" : "&rlx_all_forms",
               n->compatible == NULL ? "NULL" : "&rlx_compatible",
               n->signs == NULL ? "NULL" : "&rlx_all_signs");
    if (n->map == NULL)
        str_add(out, "NULL");
    else
        str_printf(out, "&%s_map", name);
    str_printf(out, ", %s};\n", vocab_way(v)->name);
}

static void add_vocab(const rlx_vocab *v, const char *name, Str *out)
{
    str_printf(out, "\nstatic const rlx_vocab %s_vocab = {\n    %u, %u, %d, %d, %d, %d, %d, %d, %u,\n", name,
               v->n_tokens, v->longest, v->first, v->last, v->unknown, v->bos, v->eos, v->eot, v->has_space);
    str_printf(out, "    %s_bytes, %s_begin, %s_type, %s_byte_token, %u, %s_special, %s_special_first,\n",
               name, name, name, name, v->n_special, name, name);
    str_printf(out, "    %u, %s_bucket, %s_by_hash,\n   ", v->bucket_bits, name, name);
    add_pointer(v->rank, name, "rank", out);
    str_printf(out, " %u, %u,", v->cut, v->digits);
    add_pointer(v->pair_begin, name, "pair_begin", out);
    add_pointer(v->pair_begin, name, "pair_right", out);
    add_pointer(v->pair_begin, name, "pair_rank", out);
    add_pointer(v->pair_begin, name, "pair_token", out);
    str_printf(out, "\n    %u,", v->n_sorted);
    add_pointer(v->sorted, name, "sorted", out);
    add_pointer(v->score, name, "score", out);
    str_char(out, ' ');
    str_f64(out, v->unknown_score);
    str_printf(out, ", %s%s};\n", v->normal == NULL ? "NULL" : "&", v->normal == NULL ? "" :
               arena_printf(out->arena, "%s_normal", name));
    str_printf(out, "static const rlx_fragment %s_fragment = %s;\n\n", name, vocab_fragment(v));
}

static const char code_text[] =
    "int64_t @name@_tokenize(const char *text, size_t n, unsigned flags, rlx_work work, int32_t *tokens,\n"
    "                        size_t room)\n"
    "{\n"
    "    rlx_token_list list;\n"
    "    list.token = tokens;\n"
    "    list.room = room;\n"
    "    list.n = 0;\n"
    "    list.is_begin = 1;\n"
    "    return rlx_tokens_cut(&@name@_vocab, @name@_fragment, rlx_text_of(text, n), flags, work, &list);\n"
    "}\n\n"
    "int64_t @name@_decode(const int32_t *tokens, size_t n, unsigned flags, char *text, size_t room)\n"
    "{\n"
    "    return rlx_decode(&@name@_vocab, tokens, n, flags, text, room);\n"
    "}\n\n"
    "int64_t @name@_piece(int32_t token, unsigned flags, char *text, size_t room)\n"
    "{\n"
    "    return rlx_piece(&@name@_vocab, token, flags, text, room);\n"
    "}\n\n"
    "int64_t @name@_stream(rlx_stream *stream, int32_t token, unsigned flags, char *text, size_t room)\n"
    "{\n"
    "    return rlx_stream_token(&@name@_vocab, stream, token, flags, text, room);\n"
    "}\n\n"
    "int @name@_allows(void *parse, int32_t token)\n"
    "{\n"
    "    return rlx_parse_allows(&@name@_vocab, (rlx_parse *)parse, token);\n"
    "}\n\n"
    "int64_t @name@_advance(rlx_parse *parse, int32_t token)\n"
    "{\n"
    "    return rlx_parse_token(&@name@_vocab, parse, token);\n"
    "}\n\n"
    "int64_t @name@_stream_end(rlx_stream *stream, char *text)\n"
    "{\n"
    "    return rlx_stream_end(stream, text);\n"
    "}\n";

void vocab_emit_code(const rlx_vocab *v, const char *name, Str *out)
{
    str_printf(out, "// Tokens of %s: made by rlxc " RLXC_VERSION ".\n#include \"%s.h\"\n\n", name, name);
    vocab_emit_body(v, name, out);
}

void vocab_emit_body(const rlx_vocab *v, const char *name, Str *out)
{
    vocab_emit_lines(out, vocab_text_common);
    const rlx_normal *normal = v->normal;
    const struct {
        bool is_needed;
        const char *const *lines;
    } parts[] = {
        {normal != NULL, vocab_text_normal},
        {normal != NULL && normal->forms != NULL, vocab_text_forms},
        {normal != NULL && normal->compatible != NULL, vocab_text_compat},
        {normal != NULL && normal->signs != NULL, vocab_text_signs},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].is_needed)
            vocab_emit_lines(out, parts[i].lines);
    vocab_emit_lines(out, vocab_way(v)->lines);
    add_tables(v, name, out);
    add_normal(v, name, out);
    add_vocab(v, name, out);
    vocab_emit_named(out, code_text, name);
}
