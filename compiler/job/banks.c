// SPDX-License-Identifier: Apache-2.0
// See banks.h.
#include "compiler/job/banks.h"
#include <ctype.h>
#include <string.h>

// What a byte costs, unless `cycles=` says it: memory that answers at once, RAM behind a bus, and chips of
// their own.
#define FAST_CYCLES  1.0
#define PLAIN_CYCLES 2.0
#define SLOW_CYCLES  8.0

enum { MAX_NAME = 31 };

static bool wrong(const Job *j, const char *value, const char *expected)
{
    return diag_error(j->cli->diag, (Span){0}, E0003, "--bank %s: expected %s", value, expected);
}

bool banks_read_size(const char *text, size_t n, uint64_t *out)
{
    const char unit = n > 0 ? text[n - 1] : '0';
    const uint32_t shift = unit == 'K' ? 10 : unit == 'M' ? 20 : 0;
    int64_t v = 0;
    if (!str_parse_i64(text, n - (shift != 0), &v) || v <= 0 || v > INT64_MAX >> 24)
        return false;
    *out = (uint64_t)v << shift;
    return true;
}

static bool is_word(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

// A word behind the size.
static bool read_word(const char *word, size_t n, PlanBank *bank)
{
    static const struct {
        const char *word;
        double cycles;
    } speeds[] = {{"fast", FAST_CYCLES}, {"slow", SLOW_CYCLES}};
    const size_t key = strlen("cycles=");
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
        if (is_word(word, n, speeds[i].word)) {
            bank->cycles = speeds[i].cycles;
            return true;
        }
    if (n > key && memcmp(word, "cycles=", key) == 0)
        return str_parse_f64(word + key, n - key, &bank->cycles) && bank->cycles >= 0 && bank->cycles <= 1e6;
    if (!is_word(word, n, "copied") && !is_word(word, n, "weights"))
        return false;
    bank->is_copied = bank->is_copied || *word == 'c';
    bank->is_weights = true;
    return true;
}

static bool add_bank(Job *j, const char *given, PlanBank bank)
{
    for (uint32_t i = 0; i < j->pipeline.banks.len; i++)
        if (strcmp(j->pipeline.banks.data[i].name, bank.name) == 0)
            return wrong(j, given, "another name than that of an earlier bank");
    if (j->pipeline.banks.len == PLAN_MAX_BANKS)
        return wrong(j, given, arena_printf(j->cli->arena, "at most %d banks", PLAN_MAX_BANKS));
    vec_push(j->cli->arena, &j->pipeline.banks, bank);
    return true;
}

// Not one that ends as the macro with the size of another bank does.
static bool is_name(const char *text, size_t n)
{
    const size_t ending = strlen("_BYTES");
    if (n >= ending && memcmp(text + n - ending, "_BYTES", ending) == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isascii((unsigned char)text[i]) || !(isalnum((unsigned char)text[i]) || text[i] == '_'))
            return false;
    return n > 0 && n <= MAX_NAME && !isdigit((unsigned char)text[0]);
}

static bool read_bank(Job *j, const char *given)
{
    static const char expected[] =
        "a name, a size and perhaps fast, slow, cycles=N, weights or copied, such as "
        "dtcm=64K,fast or flash=2M,weights";
    const size_t name = strcspn(given, "=");
    PlanBank bank = {.name = arena_strndup(j->cli->arena, given, name), .cycles = PLAIN_CYCLES};
    const char *word = given + name + 1;
    if (given[name] == '\0' || !is_name(given, name))
        return wrong(j, given, expected);
    if (!banks_read_size(word, strcspn(word, ","), &bank.size))
        return wrong(j, given,
                     "a size of 1 to 549755813887 bytes, K (1024 bytes) or M (1024 K), such as 64K");
    for (word += strcspn(word, ","); *word == ','; word += strcspn(word, ",")) {
        word++;
        if (!read_word(word, strcspn(word, ","), &bank))
            return wrong(j, given, expected);
    }
    return add_bank(j, given, bank);
}

// RAM that is built for data that is needed at once, by the names that makers give it.
static bool is_coupled(const char *name)
{
    static const char *const names[] = {"dtcm", "ccm", "tcm", "dtim", "flexram"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool add_board(Job *j)
{
    const Board *b = &j->board;
    if (b->name == NULL)
        return wrong(j, "board", "--board with it");
    for (uint32_t i = 0; i < b->n_banks; i++) {
        const BoardBank *own = &b->bank[i];
        const double cycles = own->is_slow ? SLOW_CYCLES : is_coupled(own->name) ? FAST_CYCLES : PLAIN_CYCLES;
        if (!add_bank(j, "board", (PlanBank){.name = own->name, .size = own->bytes, .cycles = cycles}))
            return false;
    }
    return true;
}

// What banks cannot be combined with.
static bool check(Job *j)
{
    const Options *o = &j->cli->options;
    const char *given = o->banks.data[0];
    uint32_t n_ram = 0, n_weights = 0;
    for (uint32_t i = 0; i < j->pipeline.banks.len; i++)
        *(j->pipeline.banks.data[i].is_weights ? &n_weights : &n_ram) += 1;
    if (j->target->caps.is_gpu)
        return wrong(j, given, "a target without a device, whose memory this is");
    if (o->bucket_sizes.len != 0 || o->bucket_list != NULL)
        return wrong(j, given, "no --bucket or --buckets with it");
    if (n_ram > 1 && j->host.api == API_FULL)
        return wrong(j, given, "no --api full with it, whose calls know one block");
    if (n_ram > 1 && (j->host.weights == WEIGHTS_FILE || j->host.weights == WEIGHTS_INPLACE))
        return wrong(j, given, "weights in the program, not --weights file or inplace");
    if (n_weights == 0)
        return true;
    if (j->host.weights != WEIGHTS_AUTO && j->host.weights != WEIGHTS_RODATA)
        return wrong(j, given, "--weights rodata with banks of weights, which are arrays in the C file");
    if (j->host.moe_slots != 0)
        return wrong(j, given, "no --moe-resident with banks of weights");
    j->host.weights = WEIGHTS_RODATA;
    return true;
}

bool banks_read(Job *j)
{
    const Strings *given = &j->cli->options.banks;
    for (uint32_t i = 0; i < given->len; i++)
        if (strcmp(given->data[i], "board") == 0 ? !add_board(j) : !read_bank(j, given->data[i]))
            return false;
    return given->len == 0 || check(j);
}

bool banks_check(const Job *j)
{
    const bool has_experts = j->plan->region_bytes[REGION_EXPERTS] != 0;
    return plan_count_banks(j->plan, true) == 0 || !has_experts ||
           wrong(j, j->cli->options.banks.data[0], "no banks of weights for a model with layers of experts");
}
