// SPDX-License-Identifier: Apache-2.0
// Three networks in a microcontroller, one after the other on the same memory: which word the features of a
// sound are, whether there is a person in a picture, and how strange the vibrations of a machine are. No
// heap, no operating system, no C library beyond memcpy.
#include "anomaly.h"
#include "keyword.h"
#include "person.h"
#include "start.h"

#include <string.h>

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
enum { ARENA = LARGER(KEYWORD_ARENA_BYTES, LARGER(PERSON_ARENA_BYTES, ANOMALY_ARENA_BYTES)) };
static RLX_ALIGNED unsigned char arena[ARENA]; // of whichever network runs

// What the networks are tried on, one input after the other (bytes_to_c.py).
extern const signed char keyword_data[], person_data[], anomaly_data[];
extern const unsigned keyword_data_bytes, person_data_bytes, anomaly_data_bytes;

// Gives the outputs of one run; they stay in the arena until the next one.
static const signed char *run(const rlx_model *model, rlx_ctx *net, const signed char *input)
{
    memcpy(rlx_input(net, 0), input, model->inputs[0].bytes);
    if (rlx_run(net) != RLX_OK) {
        board_say("the run failed\n");
        board_end(0);
    }
    return rlx_output(net, 0);
}

static void report(const char *what, int32_t value)
{
    board_say(what);
    board_say_number(value);
    board_say("\n");
}

static int best_of(const signed char *scores, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (scores[i] > scores[best])
            best = i;
    return (int)best;
}

static rlx_status find_words(void)
{
    rlx_ctx net;
    const rlx_status status = keyword_init(&net, arena, sizeof arena, NULL, 0);
    const uint32_t n = keyword_model.inputs[0].bytes;
    for (uint32_t at = 0; at < keyword_data_bytes && status == RLX_OK; at += n) {
        const signed char *scores = run(&keyword_model, &net, keyword_data + at);
        report("keyword ", best_of(scores, keyword_model.outputs[0].bytes));
    }
    return status;
}

static rlx_status find_people(void)
{
    rlx_ctx net;
    const rlx_status status = person_init(&net, arena, sizeof arena, NULL, 0);
    const uint32_t n = person_model.inputs[0].bytes;
    for (uint32_t at = 0; at < person_data_bytes && status == RLX_OK; at += n) {
        const signed char *scores = run(&person_model, &net, person_data + at);
        board_say(scores[1] > scores[0] ? "a person\n" : "nobody\n");
    }
    return status;
}

// The network repeats what it knows: what it cannot repeat is strange.
static rlx_status judge_machines(void)
{
    rlx_ctx net;
    const rlx_status status = anomaly_init(&net, arena, sizeof arena, NULL, 0);
    const uint32_t n = anomaly_model.inputs[0].bytes;
    for (uint32_t at = 0; at < anomaly_data_bytes && status == RLX_OK; at += n) {
        const signed char *given = anomaly_data + at, *repeated = run(&anomaly_model, &net, given);
        int32_t squares = 0;
        for (uint32_t k = 0; k < n; k++)
            squares += (given[k] - repeated[k]) * (given[k] - repeated[k]);
        report("anomaly ", squares / (int32_t)n);
    }
    return status;
}

int main(void)
{
    board_fill_stack();
    const int failed = find_words() != RLX_OK || find_people() != RLX_OK || judge_machines() != RLX_OK;
    report("arena ", ARENA);
    report("stack ", (int32_t)board_stack_bytes());
    return failed;
}
