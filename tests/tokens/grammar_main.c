// SPDX-License-Identifier: Apache-2.0
// Answers requests about the grammars of grammars.h on standard input, numbers and texts in hexadecimal:
// `words N HEX...` sets the tokens (number 0 ends a text); `walk GRAMMAR N TOKEN...` prints before each token
// and at the end which tokens can come; `sample GRAMMAR SEED TOP_K MOST` prints a text that random logits
// make; `feed GRAMMAR CALLS TIMES HEX` feeds a text many times over with memory for that many calls.
#include "grammars.h"
#include "runtime-lite/text/rlx_sample.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST_WORDS = 400, MOST_BYTES = 64, CALLS = 600 };

typedef struct Word {
    uint8_t text[MOST_BYTES];
    size_t n;
} Word;

static Word words[MOST_WORDS];
static size_t n_words;

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "grammar_main: %s\n", what);
        exit(1);
    }
}

static unsigned read_number(void)
{
    unsigned x = 0;
    check(scanf("%u", &x) == 1, "expected a number");
    return x;
}

static void read_word(Word *w)
{
    char hex[2 * MOST_BYTES + 2];
    check(scanf("%129s", hex) == 1, "expected a text");
    w->n = strlen(hex) / 2;
    for (size_t i = 0; i < w->n; i++) {
        unsigned byte = 0;
        check(sscanf(hex + 2 * i, "%2x", &byte) == 1, "expected hexadecimal digits");
        w->text[i] = (uint8_t)byte;
    }
}

static int allows(void *parse, int32_t token)
{
    rlx_parse *p = (rlx_parse *)parse;
    if (token == 0)
        return rlx_parse_can_end(p);
    return rlx_parse_can(p, words[token].text, words[token].n);
}

static void *start(rlx_parse *p, unsigned grammar, unsigned calls)
{
    void *memory = malloc(RLX_PARSE_BYTES(calls));
    check(memory != NULL && grammar < sizeof all_grammars / sizeof *all_grammars, "no such grammar");
    check(rlx_parse_start(p, all_grammars[grammar], memory, RLX_PARSE_BYTES(calls)) == 0,
          "no memory to start");
    return memory;
}

static void print_allowed(rlx_parse *p)
{
    for (size_t i = 0; i < n_words; i++)
        putchar(allows(p, (int32_t)i) ? '1' : '0');
    printf("%s ", p->is_full ? "full" : "");
}

static void walk(void)
{
    rlx_parse p;
    void *memory = start(&p, read_number(), CALLS);
    const unsigned n = read_number();
    print_allowed(&p);
    for (unsigned i = 0; i < n; i++) {
        const Word *w = &words[read_number()];
        check(rlx_parse_feed(&p, w->text, w->n) == 0, "a token that can come cannot be fed");
        print_allowed(&p);
    }
    putchar('\n');
    free(memory);
}

static void sample(void)
{
    static char work_memory[RLX_SAMPLE_BYTES(MOST_WORDS, 0)];
    rlx_parse p;
    void *memory = start(&p, read_number(), CALLS);
    const unsigned seed = read_number(), k = read_number(), most = read_number();
    rlx_work work = {work_memory, sizeof work_memory};
    rlx_sampling s = rlx_sampling_start(seed);
    uint64_t random = seed * 2u + 1;
    float logits[MOST_WORDS];
    int32_t token = -1;
    s.top_k = k;
    s.top_p = 1.0f;
    s.min_p = 0.0f;
    s.allows = allows;
    s.allows_with = &p;
    for (unsigned n = 0; n < most && token != 0; n++) {
        for (size_t i = 0; i < n_words; i++) { // signs that close come sooner in longer texts
            const int closes = i == 0 || (words[i].n == 1 && strchr("\"]},:", words[i].text[0]) != NULL);
            logits[i] = (float)(6.0 * rlx_sample_random(&random) + (closes ? 0.1 * n : 0.0));
        }
        token = rlx_sample(&s, logits, n_words, work);
        if (token == RLX_TEXT_NONE) { // no word leads on, which a small vocabulary may have
            printf("stuck");
            break;
        }
        check(token >= 0, "a status in place of a token");
        if (token != 0)
            check(rlx_parse_feed(&p, words[token].text, words[token].n) == 0,
                  "a sampled token cannot be fed");
        for (size_t i = 0; token != 0 && i < words[token].n; i++)
            printf("%02x", words[token].text[i]);
    }
    printf(" %s\n", token == 0 ? "whole" : "open");
    free(memory);
}

static void feed(void)
{
    rlx_parse p;
    Word w;
    const unsigned grammar = read_number(), calls = read_number(), times = read_number();
    void *memory = start(&p, grammar, calls);
    int64_t status = 0;
    unsigned n = 0;
    read_word(&w);
    while (n < times && (status = rlx_parse_feed(&p, w.text, w.n)) == 0)
        n++;
    printf("%u %d %d\n", n, (int)status, rlx_parse_can_end(&p));
    free(memory);
}

int main(void)
{
    char word[16];
    while (scanf("%15s", word) == 1) {
        if (strcmp(word, "words") == 0) {
            n_words = read_number();
            check(n_words <= MOST_WORDS, "too many words");
            for (size_t i = 1; i < n_words; i++)
                read_word(&words[i]);
        } else if (strcmp(word, "walk") == 0) {
            walk();
        } else if (strcmp(word, "sample") == 0) {
            sample();
        } else {
            feed();
        }
    }
    return 0;
}
