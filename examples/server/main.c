// SPDX-License-Identifier: Apache-2.0
// A server with the API of OpenAI for one language model, which is compiled into it: /v1/chat/completions,
// /v1/completions, /v1/models and /health.
#include "server.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

// The text has a zero behind it.
void text_add(Text *t, const char *data, size_t n)
{
    if (t->room - t->n <= n) {
        t->room = 2 * (t->n + n) + 64;
        t->data = (char *)realloc(t->data, t->room);
        if (t->data == NULL)
            abort(); // sizes are limited, so that this machine is too small
    }
    memcpy(t->data + t->n, data, n);
    t->n += n;
    t->data[t->n] = '\0';
}

char *text_copy(const char *data, size_t n)
{
    Text t = {NULL, 0, 0};
    text_add(&t, data, n);
    return t.data;
}

void text_free(Text *t)
{
    free(t->data);
    t->data = NULL;
    t->n = t->room = 0;
}

int main(int argc, char **argv)
{
    unsigned long port = 8080;
    for (int i = 1; i + 1 < argc; i += 2)
        if (strcmp(argv[i], "--port") == 0)
            port = strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--name") == 0)
            model_name = argv[i + 1];
        else
            argc = 0;
    if (argc % 2 == 0 || port > 65535) {
        fprintf(stderr, "usage: server [--port N] [--name NAME]\nport 0: one that is free\n");
        return 2;
    }
    char why[WHY_BYTES];
    if (!prompt_open(why, sizeof why)) {
        fprintf(stderr, "server: %s\n", why);
        return 1;
    }
    tools_open();
    const int status = engine_open();
    if (status < 0) {
        fprintf(stderr, "server: %s\n", rlx_session_text(status));
        return 1;
    }
    if (http_serve((uint16_t)port))
        return 0;
    fprintf(stderr, "server: port %lu cannot be used\n", port);
    return 1;
}
