// SPDX-License-Identifier: Apache-2.0
// rlxc diff: what changed between two compiles. Kernels are the same where they compute the same nodes.
#include "base/map.h"
#include "compiler/cli/cli_tables.h"
#include "compiler/report/diff_side.h"
#include "compiler/system/json_text.h"
#include <string.h>

typedef struct Pair {
    const DiffKernel *a, *b; // NULL: there is none
    uint32_t n_added, n_removed; // lines
} Pair;

typedef struct Diff {
    Cli *cli;
    DiffSide a, b;
    VEC(Pair) added, removed, changed;
    uint32_t n_same;
} Diff;

// --- comparing -----------------------------------------------------------------------------------

static bool differs(const DiffFigures *a, const DiffFigures *b, uint32_t i)
{
    return a->has[i] && b->has[i] && (a->value[i] < b->value[i] || a->value[i] > b->value[i]);
}

static bool any_differs(const DiffFigures *a, const DiffFigures *b)
{
    for (uint32_t i = 0; diff_figures[i] != NULL; i++)
        if (differs(a, b, i))
            return true;
    return false;
}

// Lines of a text by how often they stand there.
static void count_lines(Arena *a, Map *lines, const DiffKernel *k)
{
    for (const char *at = k->text, *end = at + k->len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t len = (size_t)((stop != NULL ? stop : end) - at);
        uint64_t n = 0;
        (void)map_get(lines, at, len, &n);
        map_put(a, lines, at, len, n + 1);
        at += len + 1;
    }
}

// Lines of k that `lines` does not have as often.
static uint32_t count_missing(Arena *a, Map *lines, const DiffKernel *k)
{
    uint32_t missing = 0;
    for (const char *at = k->text, *end = at + k->len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t len = (size_t)((stop != NULL ? stop : end) - at);
        uint64_t n = 0;
        if (map_get(lines, at, len, &n) && n > 0)
            map_put(a, lines, at, len, n - 1);
        else
            missing++;
        at += len + 1;
    }
    return missing;
}

static void compare_texts(Pair *p)
{
    rlx_assert(p->a != NULL && p->b != NULL);
    Arena scratch = {0};
    Map a = {0}, b = {0};
    if (p->a->text != NULL && p->b->text != NULL) {
        count_lines(&scratch, &a, p->a);
        count_lines(&scratch, &b, p->b);
        p->n_added = count_missing(&scratch, &a, p->b);
        p->n_removed = count_missing(&scratch, &b, p->a);
    }
    arena_free(&scratch);
}

static DiffKernel *find_match(DiffSide *side, const char *nodes)
{
    for (uint32_t i = 0; i < side->kernels.len; i++)
        if (!side->kernels.data[i].is_matched && strcmp(side->kernels.data[i].nodes, nodes) == 0)
            return &side->kernels.data[i];
    return NULL;
}

static void compare(Diff *d)
{
    Arena *a = d->cli->arena;
    for (uint32_t i = 0; i < d->b.kernels.len; i++) {
        DiffKernel *k = &d->b.kernels.data[i], *old = find_match(&d->a, k->nodes);
        Pair p = {.a = old, .b = k};
        if (old == NULL) {
            vec_push(a, &d->added, p);
            continue;
        }
        old->is_matched = true;
        compare_texts(&p);
        if (p.n_added + p.n_removed != 0 || any_differs(&old->figures, &k->figures))
            vec_push(a, &d->changed, p);
        else
            d->n_same++;
    }
    for (uint32_t i = 0; i < d->a.kernels.len; i++)
        if (!d->a.kernels.data[i].is_matched)
            vec_push(a, &d->removed, ((Pair){.a = &d->a.kernels.data[i]}));
}

static bool is_same(const Diff *d)
{
    return !any_differs(&d->a.figures, &d->b.figures) &&
           d->added.len + d->removed.len + d->changed.len == 0;
}

// --- text ----------------------------------------------------------------------------------------

static void print_kernel(char sign, const DiffKernel *k)
{
    printf("  %c %s (%s)", sign, k->name, k->nodes);
    for (uint32_t i = 0; diff_figures[i] != NULL; i++)
        if (k->figures.has[i])
            printf(", %s %.10g", diff_figures[i], k->figures.value[i]);
    printf("\n");
}

static void print_changed(const Pair *p)
{
    printf("  ~ %s (%s)", p->b->name, p->b->nodes);
    for (uint32_t i = 0; diff_figures[i] != NULL; i++)
        if (differs(&p->a->figures, &p->b->figures, i))
            printf(", %s %.10g -> %.10g", diff_figures[i], p->a->figures.value[i], p->b->figures.value[i]);
    if (p->n_added + p->n_removed != 0)
        printf(", text +%u -%u lines", p->n_added, p->n_removed);
    printf("\n");
}

static void print_text(const Diff *d)
{
    const DiffFigures *a = &d->a.figures, *b = &d->b.figures;
    if (is_same(d)) {
        printf("no difference: %u kernels\n", d->n_same);
        return;
    }
    for (uint32_t i = 0; diff_figures[i] != NULL; i++) {
        if (!differs(a, b, i))
            continue;
        printf("%-24s %.10g -> %.10g (%+.10g", diff_figures[i], a->value[i], b->value[i],
               b->value[i] - a->value[i]);
        if (a->value[i] > 0)
            printf(", %+.1f %%", 100 * (b->value[i] - a->value[i]) / a->value[i]);
        printf(")\n");
    }
    printf("%-24s %u -> %u: %u added, %u removed, %u changed, %u the same\n", "kernels", d->a.kernels.len,
           d->b.kernels.len, d->added.len, d->removed.len, d->changed.len, d->n_same);
    for (uint32_t i = 0; i < d->removed.len; i++)
        print_kernel('-', d->removed.data[i].a);
    for (uint32_t i = 0; i < d->added.len; i++)
        print_kernel('+', d->added.data[i].b);
    for (uint32_t i = 0; i < d->changed.len; i++)
        print_changed(&d->changed.data[i]);
}

// --- JSON ----------------------------------------------------------------------------------------

static void print_json_figures(const DiffFigures *a, const DiffFigures *b)
{
    const char *comma = "";
    printf("\"figures\": [");
    for (uint32_t i = 0; diff_figures[i] != NULL; i++)
        if (differs(a, b, i)) {
            printf("%s{\"name\": \"%s\", \"a\": %.17g, \"b\": %.17g}", comma, diff_figures[i], a->value[i],
                   b->value[i]);
            comma = ", ";
        }
    printf("]");
}

static void print_json_pair(Arena *arena, const Pair *p, const char *comma)
{
    const DiffKernel *k = p->b != NULL ? p->b : p->a;
    printf("%s\n    {\"name\": \"%s\", \"nodes\": \"%s\"", comma, json_text(arena, k->name),
           json_text(arena, k->nodes));
    if (p->a != NULL && p->b != NULL) {
        printf(", \"lines_added\": %u, \"lines_removed\": %u, ", p->n_added, p->n_removed);
        print_json_figures(&p->a->figures, &p->b->figures);
    }
    printf("}");
}

static void print_json_pairs(const Diff *d, const char *name, const Pair *p, uint32_t n)
{
    printf(",\n  \"%s\": [", name);
    for (uint32_t i = 0; i < n; i++)
        print_json_pair(d->cli->arena, &p[i], i == 0 ? "" : ",");
    printf("%s]", n != 0 ? "\n  " : "");
}

static void print_json(const Diff *d)
{
    Arena *a = d->cli->arena;
    printf("{\n  \"a\": \"%s\",\n  \"b\": \"%s\",\n  \"same\": %s,\n", json_text(a, d->a.path),
           json_text(a, d->b.path), is_same(d) ? "true" : "false");
    printf("  \"kernels_a\": %u,\n  \"kernels_b\": %u,\n  ", d->a.kernels.len, d->b.kernels.len);
    print_json_figures(&d->a.figures, &d->b.figures);
    print_json_pairs(d, "removed", d->removed.data, d->removed.len);
    print_json_pairs(d, "added", d->added.data, d->added.len);
    print_json_pairs(d, "changed", d->changed.data, d->changed.len);
    printf("\n}\n");
}

// --- the command ---------------------------------------------------------------------------------

// The options of --b, on top of those that both have.
static bool read_options_of_b(const Cli *c, Cli *b)
{
    const char *given = c->options.options_b;
    char letter[] = "rlxc", name[] = "diff";
    *b = *c;
    if (given == NULL)
        return true;
    char **argv = ARENA_ARRAY(c->arena, char *, strlen(given) + 3);
    int argc = 0;
    argv[argc++] = letter;
    argv[argc++] = name;
    for (const char *at = given + strspn(given, " "); *at != '\0'; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        rlx_assert((size_t)argc < strlen(given) + 3);
        argv[argc++] = arena_strndup(c->arena, at, n);
        at += n;
    }
    if (!cli_parse(b, command_find("diff")->letter, argc, argv))
        return false;
    return b->options.args.len == c->options.args.len ||
           diag_error(c->diag, (Span){0}, E0003, "--b %s: expected options only", given);
}

ExitCode cmd_diff(Cli *c)
{
    Diff d = {.cli = c};
    Cli b;
    const Strings *args = &c->options.args;
    if (args->len != 2)
        diag_error(c->diag, (Span){0}, E0003, "expected two models, folders or reports, got %u", args->len);
    if (args->len != 2 || !read_options_of_b(c, &b) || !diff_read(c, args->data[0], &d.a) ||
        !diff_read(&b, args->data[1], &d.b))
        return cli_fail(c);
    compare(&d);
    cli_progress_end();
    diag_print(c->diag, stderr, c->style);
    if (c->options.json != NULL)
        print_json(&d);
    else
        print_text(&d);
    return EXIT_OK;
}
