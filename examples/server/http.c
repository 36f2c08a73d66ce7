// SPDX-License-Identifier: Apache-2.0
// HTTP, by libmicrohttpd: connections, their limits of size and time, and who gets which answer. All is in
// one thread: between two tokens the connections have their turn.
#include "server.h"
#include <arpa/inet.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

// A connection. since: the time from which its limit counts; 0: an answer is being made.
typedef struct Client {
    int fd;
    time_t since;
} Client;

// What comes over a connection at the moment.
typedef struct Call {
    Client *client;
    Text body;
    Request *request; // NULL: it is not read yet
} Call;

static Client client[MOST_CONNECTIONS];
static volatile sig_atomic_t has_to_end;

static enum MHD_Result reply(struct MHD_Connection *c, int status, char *json)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(json), json, MHD_RESPMEM_MUST_FREE);
    enum MHD_Result result;
    MHD_add_response_header(response, "Content-Type", "application/json");
    result = MHD_queue_response(c, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *c, int status, const char *why)
{
    return reply(c, status, answer_error(status, why));
}

// --- answers that come in parts ------------------------------------------------------------------

static ssize_t read_events(void *cls, uint64_t at, char *to, size_t room)
{
    Call *call = (Call *)cls;
    Request *r = call->request;
    const size_t left = r->text.n - r->n_sent, n = left < room ? left : room;
    (void)at;
    if (n != 0) {
        memcpy(to, r->text.data + r->n_sent, n);
        r->n_sent += n;
        return (ssize_t)n;
    }
    if (r->state != DONE)
        return 0;
    return r->finish != NULL ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static enum MHD_Result reply_events(struct MHD_Connection *c, Call *call)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_events, call, NULL);
    enum MHD_Result result;
    MHD_add_response_header(response, "Content-Type", "text/event-stream");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    result = MHD_queue_response(c, 200, response);
    MHD_destroy_response(response);
    return result;
}

// --- requests ------------------------------------------------------------------------------------

static void free_request(Request *r)
{
    engine_cancel(r);
    cJSON_Delete(r->json);
    cJSON_Delete(r->logprobs);
    tools_free(r);
    text_free(&r->text);
    free(r);
}

static enum MHD_Result begin_answer(struct MHD_Connection *c, Call *call, int is_chat)
{
    static unsigned n_requests;
    const char *why = NULL;
    Request *r = (Request *)calloc(1, sizeof *r);
    if (r == NULL)
        return refuse(c, 503, "there is no memory");
    r->is_chat = is_chat;
    r->fd = call->client->fd;
    r->begin = now();
    snprintf(r->id, sizeof r->id, "%s-%lx-%u", is_chat ? "chatcmpl" : "cmpl", (unsigned long)time(NULL),
             n_requests++);
    int status = request_read(r, call->body.n == 0 ? "" : call->body.data, call->body.n, &why);
    call->client->since = now(); // of the answer: tools and schemas may take seconds to read
    if (status == 200 && !engine_add(r)) {
        status = 503;
        why = "too many requests wait; try again later";
    }
    if (status != 200) {
        free_request(r);
        return refuse(c, status, why);
    }
    call->request = r;
    call->client->since = 0;
    return r->is_stream ? reply_events(c, call) : MHD_YES;
}

static enum MHD_Result end_answer(struct MHD_Connection *c, Call *call)
{
    if (call->request->state != DONE)
        return MHD_YES; // it is called again
    call->client->since = now();
    return call->request->finish == NULL ? refuse(c, 500, "the answer could not be made")
                                         : reply(c, 200, answer_whole(call->request));
}

static enum MHD_Result answer(struct MHD_Connection *c, Call *call, const char *url, const char *method)
{
    static const char *const paths[] = {"/v1/completions", "/v1/chat/completions", "/v1/models", "/health"};
    size_t i = 0;
    while (i < 4 && strcmp(url, paths[i]) != 0)
        i++;
    if (i == 4)
        return refuse(c, 404, "there is no such address");
    if (strcmp(method, i < 2 ? "POST" : "GET") != 0)
        return refuse(c, 405, i < 2 ? "expected POST" : "expected GET");
    if (i < 2)
        return begin_answer(c, call, i == 1);
    return reply(c, 200, i == 2 ? answer_models() : answer_health(engine_load()));
}

static int is_too_large(struct MHD_Connection *c)
{
    const char *length = MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Content-Length");
    return length != NULL && strtoull(length, NULL, 10) > MOST_BODY;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *c, const char *url, const char *method,
                              const char *version, const char *data, size_t *n, void **of_call)
{
    Call *call = (Call *)*of_call;
    (void)cls;
    (void)version;
    if (call == NULL) {
        if (is_too_large(c))
            return refuse(c, 413, "a request has at most 1 MB");
        *of_call = call = (Call *)calloc(1, sizeof *call);
        if (call == NULL)
            return MHD_NO;
        call->client = *(Client **)MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
        return MHD_YES;
    }
    if (*n != 0) {
        if (*n > MOST_BODY - call->body.n)
            return MHD_NO; // it never said how much would come
        text_add(&call->body, data, *n);
        *n = 0;
        return MHD_YES;
    }
    return call->request != NULL ? end_answer(c, call) : answer(c, call, url, method);
}

static void complete(void *cls, struct MHD_Connection *c, void **of_call, enum MHD_RequestTerminationCode why)
{
    Call *call = (Call *)*of_call;
    (void)cls;
    (void)c;
    (void)why;
    if (call == NULL)
        return;
    call->client->since = now(); // of the next request
    if (call->request != NULL)
        free_request(call->request);
    free(call->body.data);
    free(call);
    *of_call = NULL;
}

// --- connections ---------------------------------------------------------------------------------

static void connection(void *cls, struct MHD_Connection *c, void **context,
                       enum MHD_ConnectionNotificationCode code)
{
    (void)cls;
    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        ((Client *)*context)->fd = -1;
        return;
    }
    Client *free_one = client; // there is one: no more than so many connections are taken
    while (free_one->fd >= 0 && free_one < client + MOST_CONNECTIONS - 1)
        free_one++;
    free_one->fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    free_one->since = now();
    *context = free_one;
}

// Closes connections whose request, or the end of whose answer, takes too long.
static void close_slow(void)
{
    for (int i = 0; i < MOST_CONNECTIONS; i++)
        if (client[i].fd >= 0 && client[i].since != 0 && now() - client[i].since > READ_SECONDS)
            shutdown(client[i].fd, SHUT_RDWR);
}

static void end_by_signal(int number)
{
    (void)number;
    has_to_end = 1;
}

int http_serve(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK); // for other machines, put a proxy before it
    for (int i = 0; i < MOST_CONNECTIONS; i++)
        client[i].fd = -1;
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_ERROR_LOG, port, NULL, NULL, handle, NULL, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS, MHD_OPTION_NOTIFY_COMPLETED, complete, NULL,
        MHD_OPTION_NOTIFY_CONNECTION, connection, NULL, MHD_OPTION_END);
    if (daemon == NULL)
        return 0;
    signal(SIGINT, end_by_signal);
    signal(SIGTERM, end_by_signal);
    signal(SIGPIPE, SIG_IGN);
    printf("http://127.0.0.1:%u\n", (unsigned)MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)->port);
    fflush(stdout);
    while (!has_to_end) {
        const Load load = engine_load();
        MHD_run_wait(daemon, load.running + load.waiting != 0 ? 0 : 200);
        close_slow();
        engine_step();
    }
    MHD_stop_daemon(daemon);
    return 1;
}
