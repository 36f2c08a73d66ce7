// SPDX-License-Identifier: Apache-2.0
// A grammar from a file, and as C: NAME.h with what a program calls, NAME.c with the tables.
#include "compiler/grammar/grammar.h"
#include "compiler/grammar/grammar_text.h"
#include "compiler/system/rawfile.h"
#include <ctype.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20 };

bool grammar_load(Arena *a, Diag *d, const char *path, GrammarText *gbnf)
{
    RawFile file;
    size_t at = 0;
    if (!rawfile_open(a, d, (Span){0}, path, &file))
        return false;
    const Span where = {.file = diag_add_file(d, path, file.data, file.len)};
    if (file.len > MOST_BYTES)
        return diag_error(d, where, E0004, "a grammar has at most 16 MB");
    *gbnf = (GrammarText){file.data, file.len, where};
    while (at < file.len && strchr(" \t\r\n", file.data[at]) != NULL && file.data[at] != '\0')
        at++;
    if (at == file.len || file.data[at] != '{')
        return true;
    Str text = str_new(a);
    if (!grammar_of_schema(a, d, *gbnf, &text))
        return false;
    const char *name = arena_printf(a, "%s, as GBNF", path);
    *gbnf = (GrammarText){text.data, text.len, {.file = diag_add_file(d, name, text.data, text.len)}};
    return true;
}

bool grammar_open(Arena *a, Diag *d, const char *path, rlx_grammar *out)
{
    GrammarText gbnf;
    return grammar_load(a, d, path, &gbnf) && grammar_read(a, d, gbnf, out);
}

// --- C -------------------------------------------------------------------------------------------

void grammar_emit_header(const rlx_grammar *g, const char *name, Str *out)
{
    char *big = arena_strdup(out->arena, name);
    for (char *p = big; *p != '\0'; p++)
        *p = (char)toupper((unsigned char)*p);
    str_printf(out, "// The grammar %s, %u states: made by rlxc " RLXC_VERSION ".\n", name, g->n_states);
    str_printf(out, "#ifndef %s_H\n#define %s_H\n\n", big, big);
    for (const char *const *line = grammar_text; *line != NULL; line++)
        if (strncmp(*line, "#include \"rlx_", 14) != 0)
            str_add(out, *line);
    str_add(out, "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    str_printf(out, "extern const rlx_grammar %s;\n", name);
    str_add(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

static void put_item(Str *out, size_t *line, const char *text)
{
    if (out->len - *line > 100) {
        str_add(out, "\n    ");
        *line = out->len;
    }
    str_add(out, text);
}

static void begin_table(Str *out, const char *type, const char *name, const char *table, uint32_t n)
{
    str_printf(out, "static const %s %s_%s[%u] = {\n    ", type, name, table, n == 0 ? 1 : n);
    str_add(out, n == 0 ? "0" : "");
}

void grammar_emit_code(const rlx_grammar *g, const char *name, Str *out)
{
    const uint32_t n = g->n_states, n_edges = g->begin[n];
    size_t line = out->len;
    str_printf(out, "// The grammar %s: made by rlxc " RLXC_VERSION ".\n#include \"%s.h\"\n\n", name, name);
    begin_table(out, "uint32_t", name, "begin", n + 1);
    for (uint32_t i = 0; i <= n; i++)
        put_item(out, &line, arena_printf(out->arena, "%u, ", g->begin[i]));
    str_add(out, "\n};\n");
    str_printf(out, "static const rlx_rule_edge %s_edge[%u] = {\n    ", name, n_edges == 0 ? 1 : n_edges);
    str_add(out, n_edges == 0 ? "{0, 0}" : "");
    for (uint32_t i = 0; i < n_edges; i++) {
        rlx_assert(g->edge[i].to < n);
        put_item(out, &line, arena_printf(out->arena, "{%u, %uu}, ", g->edge[i].to, g->edge[i].by));
    }
    str_add(out, "\n};\n");
    begin_table(out, "uint8_t", name, "kind", n);
    for (uint32_t i = 0; i < n; i++)
        put_item(out, &line, arena_printf(out->arena, "%u, ", g->kind[i]));
    str_printf(out, "\n};\n\nconst rlx_grammar %s = {%u, %s_begin, %s_edge, %s_kind};\n", name, n, name, name,
               name);
}
