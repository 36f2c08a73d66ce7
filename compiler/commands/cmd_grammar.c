// SPDX-License-Identifier: Apache-2.0
// rlxc grammar: a grammar as C, as GBNF for people, or tried on a text.
#include "compiler/cli/cli.h"
#include "compiler/grammar/grammar.h"
#include "compiler/job/job.h"
#include "compiler/system/output.h"
#include "compiler/system/output_files.h"
#include <string.h>

static bool write_code(Cli *c, const rlx_grammar *g, const char *dir, const char *name)
{
    Str header = str_new(c->arena), code = str_new(c->arena);
    grammar_emit_header(g, name, &header);
    grammar_emit_code(g, name, &code);
    return output_write_pair(c->arena, c->diag, dir, name, &header, &code);
}

// How far a text keeps to the grammar, byte by byte.
static bool try_text(Cli *c, const rlx_grammar *g, const char *text)
{
    enum { CALLS = 4096 };
    const size_t n = strlen(text), bytes = RLX_PARSE_BYTES(CALLS);
    size_t at = 0;
    rlx_parse p;
    int64_t status = rlx_parse_start(&p, g, arena_alloc(c->arena, bytes), bytes);
    for (; status == 0 && at < n; at += status == 0)
        status = rlx_parse_feed(&p, (const uint8_t *)text + at, 1);
    if (status == RLX_TEXT_MEMORY)
        return diag_error(c->diag, (Span){0}, E0004, "--text: the text nests more than %d calls of rules",
                          CALLS);
    const bool is_whole = status == 0 && rlx_parse_can_end(&p) != 0;
    if (c->options.json != NULL)
        printf("{\"matches\": %s, \"bytes\": %zu, \"may_go_on\": %s}\n", is_whole ? "true" : "false", at,
               status == 0 && !rlx_parse_is_over(&p) ? "true" : "false");
    else if (is_whole)
        printf("the text keeps to the grammar\n");
    if (!is_whole && status == 0)
        return diag_error(c->diag, (Span){0}, E0121, "--text: the text ends too early");
    return is_whole || diag_error(c->diag, (Span){0}, E0121, "--text: byte %zu cannot come there", at);
}

ExitCode cmd_grammar(Cli *c)
{
    const Options *o = &c->options;
    const char *name = o->tok_name, *dir = o->tok_output == NULL ? "" : o->tok_output;
    GrammarText gbnf;
    rlx_grammar g;
    if (o->args.len != 1) {
        diag_error(c->diag, (Span){0}, E0003, "expected one file with a grammar");
        return cli_fail(c);
    }
    if (!grammar_load(c->arena, c->diag, o->args.data[0], &gbnf) ||
        !grammar_read(c->arena, c->diag, gbnf, &g))
        return cli_fail(c);
    diag_print(c->diag, stderr, c->style);
    if (o->gbnf != NULL) {
        fwrite(gbnf.data, 1, gbnf.len, stdout); // main reports what cannot be written
        return EXIT_OK;
    }
    if (o->tried_text != NULL)
        return try_text(c, &g, o->tried_text) ? EXIT_OK : cli_fail(c);
    if (name == NULL)
        name = host_model_name(c->arena, output_stem(c->arena, o->args.data[0]));
    if (!job_check_name(c->arena, c->diag, name) || !write_code(c, &g, dir, name))
        return cli_fail(c);
    if (o->json != NULL)
        printf("{\"name\": \"%s\", \"states\": %u}\n", name, g.n_states);
    else
        printf("wrote %s.h and %s.c, %u states\n", output_path(c->arena, dir, name), name, g.n_states);
    return EXIT_OK;
}
