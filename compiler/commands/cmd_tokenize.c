// SPDX-License-Identifier: Apache-2.0
// rlxc tokenizer: a vocabulary as C. rlxc tokenize: the tokens of a text, for people.
#include "compiler/cli/cli.h"
#include "compiler/job/job.h"
#include "compiler/system/json_scan.h"
#include "compiler/system/output.h"
#include "compiler/system/output_files.h"
#include "compiler/vocab/vocab.h"
#include "runtime-lite/text/rlx_decode.h"
#include "runtime-lite/text/rlx_tokens.h"
#include <errno.h>
#include <string.h>

static bool open_vocab(Cli *c, rlx_vocab *v)
{
    if (c->options.args.len != 1)
        return diag_error(c->diag, (Span){0}, E0003, "expected one file with a vocabulary");
    return vocab_open(c->arena, c->diag, c->options.args.data[0], v);
}

// --- tokenizer -----------------------------------------------------------------------------------

static bool write_code(Cli *c, const rlx_vocab *v, const char *dir, const char *name)
{
    Str header = str_new(c->arena), code = str_new(c->arena);
    vocab_emit_header(v, name, &header);
    vocab_emit_code(v, name, &code);
    return output_write_pair(c->arena, c->diag, dir, name, &header, &code);
}

ExitCode cmd_tokenizer(Cli *c)
{
    rlx_vocab v;
    const char *name = c->options.tok_name, *dir = c->options.tok_output == NULL ? "" : c->options.tok_output;
    if (!open_vocab(c, &v))
        return cli_fail(c);
    if (name == NULL)
        name = host_model_name(c->arena, output_stem(c->arena, c->options.args.data[0]));
    if (!job_check_name(c->arena, c->diag, name) || !write_code(c, &v, dir, name))
        return cli_fail(c);
    diag_print(c->diag, stderr, c->style);
    if (c->options.json != NULL)
        printf("{\"name\": \"%s\", \"tokens\": %u}\n", name, v.n_tokens);
    else
        printf("wrote %s.h and %s.c, %u tokens\n", output_path(c->arena, dir, name), name, v.n_tokens);
    return EXIT_OK;
}

// --- tokenize ------------------------------------------------------------------------------------

static bool read_input(Cli *c, Str *out)
{
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, stdin)) != 0;) {
        str_add_n(out, buffer, n);
        if (out->len > RLX_TEXT_MOST)
            return diag_error(c->diag, (Span){0}, E0004, "a text has at most %d bytes", RLX_TEXT_MOST);
    }
    return !ferror(stdin) || diag_error(c->diag, (Span){0}, E0001, "standard input: %s", strerror(errno));
}

// A text as few bytes as it has: a token may begin or end within a character, which JSON shows as U+FFFD.
static void print_token(Cli *c, const rlx_vocab *v, int32_t token, bool is_first)
{
    const uint32_t id = (uint32_t)token;
    Str quoted = str_new(c->arena);
    json_print_string(&quoted, arena_strndup(c->arena, (const char *)v->bytes + v->begin[id],
                                             rlx_token_length(v, id)));
    if (c->options.json != NULL)
        printf("%s{\"token\": %u, \"text\": %s}", is_first ? "" : ", ", id, str_text(&quoted));
    else
        printf("%7u %s\n", id, str_text(&quoted));
}

ExitCode cmd_tokenize(Cli *c)
{
    const Options *o = &c->options;
    rlx_vocab v;
    Str text = str_new(c->arena);
    if (!open_vocab(c, &v))
        return cli_fail(c);
    if (o->tok_text != NULL)
        str_add(&text, o->tok_text);
    else if (!read_input(c, &text))
        return cli_fail(c);
    const unsigned flags = (o->tok_bare == NULL ? RLX_TOKENS_FRAME : 0u) |
                           (o->tok_control != NULL ? RLX_TOKENS_CONTROL : 0u);
    VocabTokens list;
    if (!vocab_cut(c->arena, c->diag, &v, (VocabText){str_text(&text), text.len}, flags, &list))
        return cli_fail(c);
    printf("%s", o->json != NULL ? "[" : "");
    for (size_t i = 0; i < list.n; i++)
        print_token(c, &v, list.token[i], i == 0);
    printf("%s", o->json != NULL ? "]\n" : "");
    diag_print(c->diag, stderr, c->style);
    return EXIT_OK;
}
