// SPDX-License-Identifier: Apache-2.0
// Messages to text and tokens. Control tokens are read only in what the template says: each one that the text
// of a message has gets a mark, which is no character that texts have, and its bytes then become ordinary
// tokens.
#include "compiler/chat/chat.h"
#include "runtime-lite/text/rlx_decode.h"
#include "runtime-lite/text/rlx_tokens.h"
#include <string.h>

void chat_say(Chat *c, const char *role, TplText content)
{
    const TplValue message = tpl_dict(c->arena);
    tpl_dict_set(c->arena, message, "role", tpl_text(c->arena, role));
    tpl_dict_set(c->arena, message, "content",
                 tpl_text_n(arena_strndup(c->arena, content.data, content.len), content.len));
    tpl_list_add(c->arena, c->messages, message);
}

void chat_forget(Chat *c, uint32_t n)
{
    rlx_assert(n <= c->messages.u.list->items.len);
    c->messages.u.list->items.len = n;
}

bool chat_render(Chat *c, Arena *a, TplValue variables, TplText *out)
{
    const TplValue all = tpl_dict(a);
    const TplDict *from[] = {c->variables.u.dict, variables.u.dict};
    for (size_t k = 0; k < 2; k++)
        for (uint32_t i = 0; i < from[k]->items.len; i++) {
            const TplText key = from[k]->items.data[i].key.u.text;
            tpl_dict_set(a, all, arena_strndup(a, key.data, key.len), from[k]->items.data[i].value);
        }
    TemplateRun run = {.variables = all.u.dict};
    return template_render(c->t, a, c->diag, &run, out);
}

static bool is_mark(const char *p, const char *end)
{
    return (size_t)(end - p) >= 4 && memcmp(p, CHAT_MARK, 4) == 0;
}

static int32_t control_at(const rlx_vocab *v, const char *p, const char *end)
{
    const int32_t token =
        p == end ? -1 : rlx_find_special(v, (const uint8_t *)p, (size_t)(end - p), RLX_TOKENS_CONTROL);
    return token >= 0 && v->type[token] == RLX_TOKEN_CONTROL ? token : -1;
}

// The text with marks before every control token in it, and without marks that it had.
static TplText chat_guard(Arena *a, const rlx_vocab *v, TplText text)
{
    Str s = str_new(a);
    for (const char *p = text.data, *end = p + text.len; p < end;) {
        if (is_mark(p, end)) {
            p += 4;
            continue;
        }
        if (control_at(v, p, end) >= 0)
            str_add(&s, CHAT_MARK);
        const size_t n = str_utf8(p, end, NULL);
        str_add_n(&s, n == 0 ? "\xef\xbf\xbd" : p, n == 0 ? 3 : n);
        p += n == 0 ? 1 : n;
    }
    return (TplText){str_text(&s), s.len};
}

typedef struct Cutter {
    Chat *chat;
    Arena *arena;
    const rlx_vocab *v;
    Str piece; // text since the last control token
    VEC(int32_t) tokens;
} Cutter;

static bool cut_piece(Cutter *c)
{
    VocabTokens part;
    if (c->piece.len == 0)
        return true;
    if (!vocab_cut(c->arena, c->chat->diag, c->v, (VocabText){c->piece.data, c->piece.len}, 0, &part))
        return false;
    for (size_t i = 0; i < part.n; i++)
        vec_push(c->arena, &c->tokens, part.token[i]);
    c->piece = str_new(c->arena);
    return true;
}

static bool cut(Cutter *c, TplText text)
{
    for (const char *p = text.data, *end = p + text.len; p < end;) {
        const bool is_guarded = is_mark(p, end);
        p += is_guarded ? 4 : 0;
        const int32_t control = is_guarded ? -1 : control_at(c->v, p, end);
        if (control >= 0) {
            if (!cut_piece(c))
                return false;
            vec_push(c->arena, &c->tokens, control);
            p += rlx_token_length(c->v, (uint32_t)control);
        } else if (p < end) {
            str_char(&c->piece, *p++);
        }
    }
    return cut_piece(c);
}

// The messages with guarded texts.
static TplValue guarded(Chat *c, Arena *a, const rlx_vocab *v)
{
    const TplValue list = tpl_list(a);
    for (uint32_t i = 0; i < c->messages.u.list->items.len; i++) {
        const TplDict *from = c->messages.u.list->items.data[i].u.dict;
        const TplValue to = tpl_dict(a);
        for (uint32_t k = 0; k < from->items.len; k++) {
            const TplText key = from->items.data[k].key.u.text;
            TplValue value = from->items.data[k].value;
            if (strncmp(key.data, "content", key.len) == 0)
                value.u.text = chat_guard(a, v, value.u.text);
            tpl_dict_set(a, to, arena_strndup(a, key.data, key.len), value);
        }
        tpl_list_add(a, list, to);
    }
    return list;
}

bool chat_tokens(Chat *c, Arena *a, const rlx_vocab *v, VocabTokens *out)
{
    const TplValue variables = tpl_dict(a);
    Cutter cutter = {.chat = c, .arena = a, .v = v, .piece = str_new(a)};
    TplText text;
    tpl_dict_set(a, variables, "messages", guarded(c, a, v));
    tpl_dict_set(a, variables, "add_generation_prompt", tpl_bool(true));
    if (!chat_render(c, a, variables, &text) || !cut(&cutter, text))
        return false;
    // Templates that leave the first token out count on the vocabulary to add it.
    const bool has_first = cutter.tokens.len != 0 && cutter.tokens.data[0] == v->first;
    int32_t *tokens = ARENA_ARRAY(a, int32_t, cutter.tokens.len + 1u);
    size_t n = 0;
    if (v->first >= 0 && !has_first)
        tokens[n++] = v->first;
    if (cutter.tokens.len != 0)
        memcpy(tokens + n, cutter.tokens.data, cutter.tokens.len * sizeof *tokens);
    *out = (VocabTokens){tokens, n + cutter.tokens.len};
    return true;
}

int32_t chat_end(Chat *c, const rlx_vocab *v)
{
    Arena own = {0};
    Diag quiet = diag_new(&own);
    Diag *loud = c->diag;
    const TplValue all = c->messages, variables = tpl_dict(&own);
    const TplText probe = {"rlxc asks", 9};
    TplText text;
    int32_t end = -1;
    c->diag = &quiet; // a template may refuse this conversation, and then says nothing about its end
    c->messages = tpl_list(c->arena);
    chat_say(c, "user", (TplText){"Hi", 2});
    chat_say(c, "assistant", probe);
    tpl_dict_set(&own, variables, "messages", c->messages);
    tpl_dict_set(&own, variables, "add_generation_prompt", tpl_bool(false));
    if (chat_render(c, &own, variables, &text)) {
        const char *stop = text.data + text.len;
        for (const char *p = text.data; p + probe.len <= stop && end < 0; p++)
            if (memcmp(p, probe.data, probe.len) == 0) {
                const char *after = p + probe.len;
                after += after < stop && (*after == ' ' || *after == '\n');
                end = control_at(v, after, stop);
            }
    }
    c->diag = loud;
    c->messages = all;
    arena_free(&own);
    return end;
}
