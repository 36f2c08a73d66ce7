// SPDX-License-Identifier: Apache-2.0
// Changes of bytes that know nothing of a format but its words.
#include "tests/fuzz/fuzz.h"

#include <string.h>

static uint64_t random_state;

void random_start(uint64_t seed)
{
    random_state = seed;
}

// splitmix64
uint64_t random_bits(void)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

size_t pick(size_t n)
{
    return n ? (size_t)(random_bits() % n) : 0;
}

void bytes_replace(Bytes *b, size_t at, size_t cut, const void *bytes, size_t n)
{
    if (at > b->len || cut > b->len - at || b->len - cut + n > INPUT_CAP)
        return;
    memmove(b->data + at + n, b->data + at + cut, b->len - at - cut);
    if (n)
        memmove(b->data + at, bytes, n);
    b->len += n - cut;
}

static void flip_bit(Bytes *b)
{
    if (b->len)
        b->data[pick(b->len)] ^= (unsigned char)(1u << pick(8));
}

static void set_byte(Bytes *b)
{
    static const unsigned char values[] = {0, 1, 2, 7, 8, 9, 16, '0', '"', 0x7f, 0x80, 0xfe, 0xff};
    if (b->len)
        b->data[pick(b->len)] = pick(2) ? values[pick(sizeof values)] : (unsigned char)pick(256);
}

static void cut_range(Bytes *b)
{
    size_t at = pick(b->len), n = pick(pick(4) ? 8 : b->len) + 1;
    bytes_replace(b, at, n > b->len - at ? b->len - at : n, NULL, 0);
}

static void repeat_range(Bytes *b)
{
    unsigned char copy[4096];
    size_t from = pick(b->len), n = pick(64) + 1;
    n = n > b->len - from ? b->len - from : n;
    size_t times = pick(8) ? 1 : pick(32) + 1;
    memcpy(copy, b->data + from, n);
    for (size_t at = pick(b->len + 1); times > 0; times--)
        bytes_replace(b, at, 0, copy, n);
}

static void truncate_input(Bytes *b)
{
    b->len = pick(b->len + 1);
}

static bool is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

// Another number where one stands.
static void change_number(Bytes *b)
{
    static const char *const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "-1",
                                          "3",
                                          "7",
                                          "8",
                                          "9",
                                          "16",
                                          "64",
                                          "255",
                                          "65536",
                                          "2147483648",
                                          "4294967296",
                                          "1099511627776",
                                          "1099511627777",
                                          "9007199254740993",
                                          "9223372036854775807",
                                          "-9223372036854775808",
                                          "18446744073709551616",
                                          "1e400",
                                          "1e-400",
                                          "0.5",
                                          "-0",
                                          "1e12",
                                          "4611686018427387904",
                                          "-4611686018427387904",
                                          "00",
                                          "1e5"};
    size_t at = pick(b->len), end;
    while (at < b->len && !is_digit(b->data[at]))
        at++;
    for (end = at; end < b->len && is_digit(b->data[end]);)
        end++;
    const char *text = numbers[pick(sizeof numbers / sizeof *numbers)];
    if (at < b->len)
        bytes_replace(b, at, end - at, text, strlen(text));
}

// The [begin, end) of a quoted text at or after a random place; false when there is none.
static bool find_quoted(const Bytes *b, size_t *begin, size_t *end)
{
    const unsigned char *from = b->data + pick(b->len), *stop = b->data + b->len;
    const unsigned char *open = memchr(from, '"', (size_t)(stop - from));
    const unsigned char *close =
        open && open + 1 < stop ? memchr(open + 1, '"', (size_t)(stop - open - 1)) : NULL;
    if (!close)
        return false;
    *begin = (size_t)(open - b->data);
    *end = (size_t)(close + 1 - b->data);
    return true;
}

// One name where another stands: wrong operands, repeated names, members in the wrong place.
static void swap_quoted(Bytes *b)
{
    unsigned char copy[256];
    size_t from = 0, from_end = 0, to = 0, to_end = 0;
    if (!find_quoted(b, &from, &from_end) || !find_quoted(b, &to, &to_end) || from_end - from > sizeof copy)
        return;
    memcpy(copy, b->data + from, from_end - from);
    bytes_replace(b, to, to_end - to, copy, from_end - from);
}

static void insert_word(Bytes *b, const Format *f)
{
    size_t at = pick(b->len + 1), begin = 0, end = 0;
    const char *word = f->words + pick(strlen(f->words));
    while (word > f->words && word[-1] != ' ')
        word--;
    size_t n = strcspn(word, " ");
    if (pick(2) && find_quoted(b, &begin, &end))
        bytes_replace(b, begin, end - begin, word, n);
    else
        bytes_replace(b, at, pick(3) ? 0 : pick(b->len - at < 8 ? b->len - at : 8), word, n);
}

// The head of this input and the tail of another.
static void splice(Bytes *b, const Bytes *other)
{
    size_t head = pick(b->len + 1), tail = pick(other->len + 1);
    b->len = head;
    bytes_replace(b, head, 0, other->data + tail, other->len - tail);
}

void bytes_mutate(Bytes *b, const Format *f, const Bytes *seeds, size_t n_seeds)
{
    static void (*const simple[])(Bytes *) = {flip_bit,     set_byte,      set_byte,      cut_range,
                                              repeat_range, change_number, change_number, swap_quoted};
    enum { N_SIMPLE = sizeof simple / sizeof *simple };
    size_t kind = pick(N_SIMPLE + 6);
    if (!b->len)
        return;
    if (kind < N_SIMPLE)
        simple[kind](b);
    else if (kind < N_SIMPLE + 4)
        insert_word(b, f);
    else if (kind == N_SIMPLE + 4)
        splice(b, &seeds[pick(n_seeds)]);
    else if (!pick(4))
        truncate_input(b);
}
