// SPDX-License-Identifier: Apache-2.0
// See sampling_options.h.
#include "compiler/commands/sampling_options.h"
#include <math.h>
#include <string.h>

static bool read_number(Cli *c, const char *option, const char *given, double most, double *v)
{
    if (given == NULL || (str_parse_f64(given, strlen(given), v) && *v >= 0 && *v <= most))
        return true;
    return diag_error(c->diag, (Span){0}, E0003, "%s %s: expected a number from 0 to %g", option, given,
                      most);
}

bool options_count(Cli *c, const char *option, const char *given, double most, double *v)
{
    return read_number(c, option, given, most, v) &&
           (*v == floor(*v) ||
            diag_error(c->diag, (Span){0}, E0003, "%s %s: expected a whole number", option, given));
}

bool options_sampling(Cli *c, rlx_sampling *s)
{
    const Options *o = &c->options;
    double temperature = 0.8, top_k = 40, top_p = 0.95, min_p = 0.05, penalty = 1, seed = 1;
    if (!read_number(c, "--temperature", o->temperature, 1e6, &temperature) ||
        !options_count(c, "--top-k", o->top_k, 1e9, &top_k) ||
        !read_number(c, "--top-p", o->top_p, 1, &top_p) ||
        !read_number(c, "--min-p", o->min_p, 1, &min_p) ||
        !read_number(c, "--repeat-penalty", o->penalty, 1e6, &penalty) ||
        !options_count(c, "--seed", o->text_seed, 9e15, &seed))
        return false;
    if (penalty == 0)
        return diag_error(c->diag, (Span){0}, E0003, "--repeat-penalty 0: expected a number above 0");
    *s = rlx_sampling_start((uint64_t)seed);
    s->temperature = (float)temperature;
    s->top_k = (uint32_t)top_k;
    s->top_p = (float)top_p;
    s->min_p = (float)min_p;
    s->repeat_penalty = (float)penalty;
    return true;
}
