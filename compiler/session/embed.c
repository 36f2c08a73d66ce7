// SPDX-License-Identifier: Apache-2.0
// Texts into vectors in generated code, of models that make one vector of a text. Separate from sessions,
// which such models do not have.
#include "compiler/session/session.h"
#include <string.h>

static const char header_text[] =
    "// Makes the vector of a text of n bytes: its tokens, with those that begin and end texts, and one run\n"
    "// of the model in ctx. Returns the number of tokens, and rlx_output(ctx, 0) has the vector; or a\n"
    "// status below zero: RLX_TEXT_LENGTH: it has more than @NAME@_MOST_ROWS tokens; RLX_TEXT_NONE: it has\n"
    "// none; RLX_TEXT_ARGUMENT: ctx is not open, or its device has failed. work: @NAME@_EMBED_BYTES(n).\n"
    "int64_t @name@_embed(rlx_ctx *ctx, const char *text, size_t n, rlx_work work);\n";

static const char code_text[] =
    "int64_t @name@_embed(rlx_ctx *ctx, const char *text, size_t n, rlx_work work)\n"
    "{\n    return rlx_embed_text(ctx, &@name@_embedder, rlx_text_of(text, n), work);\n}\n";

void embed_emit_header(const Session *s, const char *name, Str *out)
{
    const char *big = session_begin(s, name, "Vectors of texts by", "EMBED", out);
    str_printf(out, "#define %s_MOST_ROWS %lld // tokens of a text at most\n", big,
               (long long)s->sizes.most_rows);
    str_printf(out, "#define %s_EMBED_BYTES(n) (%s_WORK_BYTES(n) + 4 * %s_MOST_ROWS + 8)\n\n", big, big, big);
    session_end((const char *const[]){header_text}, 1, name, out);
}

void embed_emit_code(const Session *s, const char *name, Str *out)
{
    rlx_assert(s->is_embedder && s->sizes.most_rows >= 1);
    vocab_emit_lines(out, session_text_embed);
    str_printf(out, "static const rlx_embedder %s_embedder = {&%s_vocab, %s, %u, %lld};\n\n", name, name,
               vocab_fragment(&s->vocab), s->sizes.rows, (long long)s->sizes.most_rows);
    vocab_emit_named(out, code_text, name);
}
