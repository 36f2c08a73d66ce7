// SPDX-License-Identifier: Apache-2.0
// Answers requests about the generated tokenizer `tok` on standard input: flags (1 byte), length (4), text.
// The answer: n (4), tokens, the decoded text (length, bytes), the streamed text (length, bytes). Memory is
// what the header says and has guards behind it. With a letter and a number as arguments it times that many
// of the letter instead.
#include "tok.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *give(size_t n)
{
    void *p = malloc(n == 0 ? 1 : n);
    if (p == NULL)
        abort();
    return p;
}

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "tokens_main: %s\n", what);
        exit(1);
    }
}

static void put(const void *data, size_t n)
{
    check(fwrite(data, 1, n, stdout) == n, "cannot write");
}

static void put_text(const char *text, size_t n)
{
    const uint32_t length = (uint32_t)n;
    put(&length, 4);
    put(text, n);
}

// All tokens of a text, twice: counted without room, then kept.
static size_t tokenize(const char *text, size_t n, unsigned flags, int32_t **tokens)
{
    rlx_work work = {NULL, TOK_WORK_BYTES(n)};
    void *memory = work.memory = give(work.bytes);
    const int64_t counted = tok_tokenize(text, n, flags, work, NULL, 0);
    check(counted >= 0, "a status where tokens are expected");
    *tokens = (int32_t *)give((size_t)counted * sizeof **tokens);
    check(tok_tokenize(text, n, flags, work, *tokens, (size_t)counted) == counted, "another count with room");
    work.bytes = 0;
    check(n == 0 || tok_tokenize(text, n, flags, work, NULL, 0) <= counted, "more tokens without memory");
    free(memory);
    return (size_t)counted;
}

static void put_decoded(const int32_t *tokens, size_t n)
{
    const int64_t length = tok_decode(tokens, n, RLX_TOKENS_CONTROL, NULL, 0);
    check(length >= 0, "a status where a text is expected");
    char *text = (char *)give((size_t)length);
    check(tok_decode(tokens, n, RLX_TOKENS_CONTROL, text, (size_t)length) == length,
          "another length with room");
    put_text(text, (size_t)length);
    free(text);
}

static void put_stream(const int32_t *tokens, size_t n)
{
    rlx_stream stream = {{0}, 0};
    char *text = (char *)give((n + 1) * TOK_PIECE_BYTES);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        char piece[TOK_PIECE_BYTES];
        const int64_t length = tok_stream(&stream, tokens[i], RLX_TOKENS_CONTROL, piece, sizeof piece);
        check(length >= 0 && length <= TOK_PIECE_BYTES, "a piece of a wrong length");
        memcpy(text + used, piece, (size_t)length);
        used += (size_t)length;
    }
    used += (size_t)tok_stream_end(&stream, text + used);
    put_text(text, used);
    free(text);
}

static void answer(unsigned flags, const char *text, size_t n)
{
    int32_t *tokens = NULL;
    const uint32_t n_tokens = (uint32_t)tokenize(text, n, flags, &tokens);
    put(&n_tokens, 4);
    put(tokens, n_tokens * sizeof *tokens);
    put_decoded(tokens, n_tokens);
    put_stream(tokens, n_tokens);
    free(tokens);
}

static int time_one(const char *unit, size_t n)
{
    const size_t length = strlen(unit);
    char *text = (char *)give(n);
    int32_t *tokens = NULL;
    for (size_t i = 0; i < n; i++)
        text[i] = unit[i % length];
    const clock_t begin = clock();
    const size_t n_tokens = tokenize(text, n, 0, &tokens);
    printf("%zu %.6f\n", n_tokens, (double)(clock() - begin) / CLOCKS_PER_SEC);
    free(tokens);
    free(text);
    return 0;
}

static void check_refusals(void)
{
    rlx_stream stream = {{0}, 0};
    rlx_work none = {NULL, 0};
    int32_t token = TOK_TOKENS;
    char text[1];
    check(tok_tokenize("\xff\xfe\xfd", 3, 0, none, NULL, 0) == RLX_TEXT_MEMORY, "tokens without memory");
    check(tok_tokenize(NULL, (size_t)RLX_TEXT_MOST + 1, 0, none, NULL, 0) == RLX_TEXT_LENGTH, "a long text");
    check(tok_decode(&token, 1, 0, NULL, 0) == RLX_TEXT_TOKEN, "a token that there is not");
    check(tok_piece(-1, 0, NULL, 0) == RLX_TEXT_TOKEN, "a token below zero");
    check(tok_stream(&stream, token, 0, text, 1) == RLX_TEXT_TOKEN, "a token that there is not, streamed");
    check(tok_stream(&stream, 0, 0, text, 1) == RLX_TEXT_MEMORY, "a stream without room");
    check(tok_tokenize("", 0, 0, none, NULL, 0) == 0, "tokens of nothing");
}

int main(int argc, char **argv)
{
    unsigned char head[5];
    if (argc == 3)
        return time_one(argv[1], strtoul(argv[2], NULL, 10));
    check_refusals();
    while (fread(head, 1, 5, stdin) == 5) {
        uint32_t n;
        memcpy(&n, head + 1, 4);
        char *text = (char *)give(n);
        check(fread(text, 1, n, stdin) == n, "a text that ends early");
        answer(head[0], text, n);
        free(text);
    }
    return 0;
}
