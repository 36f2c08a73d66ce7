// SPDX-License-Identifier: Apache-2.0
// Parsing, and the order of the rules. See validate.h.
#include "compiler/validate/validate.h"
#include "compiler/validate/rules.h"
#include <string.h>

static const char *const rule_name[] = {
#define X(name, text) #name,
    VALIDATE_RULES(X)
#undef X
};
static const char *const rule_text[] = {
#define X(name, text) text,
    VALIDATE_RULES(X)
#undef X
};

const char *validate_rule_name(ValidateRule r)
{
    return rule_name[r];
}

const char *validate_rule_text(ValidateRule r)
{
    return rule_text[r];
}

void validate_find(Rules *r, ValidateRule rule, const Function *f, const Node *at, const char *text)
{
    ValidateFinding found = {.rule = rule, .file = "", .function = "", .text = text};
    if (f != NULL) {
        found.function = f->decl->name;
        found.file = f->decl->file;
        found.line = f->decl->line;
    }
    if (at != NULL) {
        rlx_assert(at->file < r->tree->files.len);
        found.file = r->tree->files.data[at->file].name;
        found.line = at->line;
    }
    vec_push(r->arena, &r->report->findings, found);
}

// --- what libclang is shown ----------------------------------------------------------------------

enum { KEPT_LINES = 4 };

static bool is_data_line(const char *line, size_t n)
{
    bool has_digit = false;
    for (size_t i = 0; i < n; i++) {
        has_digit = has_digit || (line[i] >= '0' && line[i] <= '9');
        if (strchr("0123456789abcdefxABCDEFXuULl.,+- ", line[i]) == NULL)
            return false;
    }
    return has_digit && line[n - 1] == ',';
}

// If many lines of numbers follow each other, only the first are kept: weights are not worth the time of
// parsing them, and what is left of a list of values is zero. The number of lines stays the same.
static const char *cut_data(Arena *a, const char *text, size_t len, size_t *out_len)
{
    char *out = arena_alloc(a, len + 1);
    size_t n = 0, in_row = 0, at = 0;
    while (at < len) {
        const char *end = memchr(text + at, '\n', len - at);
        const size_t size = end != NULL ? (size_t)(end - (text + at)) : len - at;
        in_row = size != 0 && is_data_line(text + at, size) ? in_row + 1 : 0;
        if (in_row <= KEPT_LINES) {
            memcpy(out + n, text + at, size);
            n += size;
        }
        if (end != NULL)
            out[n++] = '\n';
        at += size + 1;
    }
    rlx_assert(n <= len); // lines are only left out
    out[n] = '\0';
    *out_len = n;
    return out;
}

typedef VEC(ClangUnsaved) UnsavedFiles;

static void add_header(Arena *a, UnsavedFiles *out, const char *header, Str *text, uint32_t number)
{
    const char *all = arena_printf(a, "#ifndef RLXC_STANDARD_%u\n#define RLXC_STANDARD_%u\n"
                                      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n%s"
                                      "#ifdef __cplusplus\n}\n#endif\n#endif\n",
                                   number, number, str_text(text));
    const ClangUnsaved u = {arena_printf(a, VALIDATE_HEADERS "/%s", header), all, strlen(all)};
    vec_push(a, out, u);
}

static void add_headers(Arena *a, uint32_t uses, UnsavedFiles *out)
{
    static const struct {
        const char *header;
        uint32_t uses;
        const char *text;
    } rows[] = {
#define SYMBOLS(header, uses, text) {header, uses, text "\n"},
#include "compiler/validate/symbols.def"
    };
    enum { N = sizeof rows / sizeof *rows };
    for (uint32_t i = 0; i < N;) {
        const uint32_t first = i;
        Str text = str_new(a);
        for (; i < N && strcmp(rows[i].header, rows[first].header) == 0; i++)
            str_add(&text, rows[i].text);
        if ((rows[first].uses & ~uses) == 0)
            add_header(a, out, rows[first].header, &text, first);
    }
}

typedef VEC(const char *) Args;

// The flags that say what the machine is.
static void add_flags(Arena *a, const char *flags, Args *out)
{
    for (const char *at = flags; *at != '\0';) {
        const size_t n = strcspn(at, " ");
        const char *word = arena_strndup(a, at, n);
        if (strncmp(word, "-m", 2) == 0)
            vec_push(a, out, word);
        at += n + strspn(at + n, " ");
    }
}

static void take_diagnostics(Rules *r, void *unit, ValidateRule rule)
{
    enum { FILE_LINE = 1, COLUMN = 2, OPTION = 8, MOST = 20 };
    const Clang *c = r->tree->clang;
    const unsigned n = c->count_diagnostics(unit);
    for (unsigned i = 0; i < n && i < MOST; i++) {
        const char *text = clang_take(
            c, r->arena, c->format_diagnostic(c->diagnostic(unit, i), FILE_LINE | COLUMN | OPTION));
        if (strncmp(text, VALIDATE_FOLDER, sizeof VALIDATE_FOLDER - 1) == 0)
            text += sizeof VALIDATE_FOLDER - 1;
        validate_find(r, rule, NULL, NULL, text);
    }
}

typedef struct Parse {
    void *index;
    const UnsavedFiles *files;
    const ValidateInput *in;
    const char *main;
} Parse;

static void *parse(Rules *r, const Parse *p, const char *language, const char *standard, ValidateRule rule)
{
    Arena *a = r->arena;
    Args args = {0};
    const char *const all[] = {language, standard, "-Wall", "-Wextra", "-pedantic", "-nostdinc",
                               "-isystem" VALIDATE_HEADERS, arena_printf(a, "--target=%s", p->in->triple)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        vec_push(a, &args, all[i]);
    add_flags(a, p->in->cc_flags, &args);
    if (p->in->define != NULL)
        vec_push(a, &args, p->in->define);
    void *unit = NULL;
    if (r->tree->clang->parse(p->index, p->main, args.data, (int)args.len, p->files->data, p->files->len, 0,
                              &unit) != 0)
        return NULL;
    take_diagnostics(r, unit, rule);
    return unit;
}

static bool check(Rules *r, Parse *p)
{
    const Clang *c = r->tree->clang;
    void *unit = parse(r, p, "-xc", "-std=c99", RULE_C99);
    if (unit == NULL)
        return false;
    tree_build(r->tree, unit);
    rules_check_symbols(r);
    rules_check_state(r);
    rules_check_pointers(r);
    rules_check_loops(r);
    rules_check_calls(r);
    c->dispose_unit(unit);
    if (p->in->is_quick)
        return true;
    unit = parse(r, p, "-xc++", "-std=c++11", RULE_CXX);
    if (unit != NULL)
        c->dispose_unit(unit);
    r->report->has_cxx = unit != NULL;
    return unit != NULL;
}

bool validate_is_here(Arena *a)
{
    return clang_load(a) != NULL;
}

bool validate_run(Arena *a, const ValidateInput *in, ValidateReport *out)
{
    UnsavedFiles files = {0};
    rlx_assert(in->n != 0); // the first is the C file
    *out = (ValidateReport){.helper = ""};
    for (uint32_t i = 0; i < in->n; i++) {
        ClangUnsaved u = {.name = arena_printf(a, VALIDATE_FOLDER "%s", in->files[i].name)};
        size_t len = 0;
        u.text = cut_data(a, in->files[i].text, in->files[i].len, &len);
        u.len = len;
        vec_push(a, &files, u);
    }
    add_headers(a, in->uses, &files);
    Tree tree = {.arena = a, .clang = clang_load(a), .unsaved = files.data, .n_unsaved = files.len};
    if (tree.clang == NULL)
        return false;
    Rules rules = {.arena = a, .tree = &tree, .in = in, .report = out};
    Parse p = {.files = &files, .in = in, .main = files.data[0].name};
    p.index = tree.clang->create_index(0, 0);
    out->validator = clang_take(tree.clang, a, tree.clang->version());
    const bool ok = p.index != NULL && check(&rules, &p);
    if (p.index != NULL)
        tree.clang->dispose_index(p.index);
    return ok;
}
