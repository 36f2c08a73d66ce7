// SPDX-License-Identifier: Apache-2.0
// What check_load.py asks of a program that packs its weights itself (--weights load).
#include "m.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Bytes {
    unsigned char *data;
    size_t n;
} Bytes;

static void want(int is_so, const char *what)
{
    if (is_so)
        return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

// Exactly as many bytes as the file has, so that a sanitizer sees whoever reads behind them.
static Bytes copy(const unsigned char *from, size_t n)
{
    Bytes b = {malloc(n + (n == 0)), n};
    want(b.data != NULL, "there is memory");
    memcpy(b.data, from, n);
    return b;
}

static Bytes read_file(const char *path)
{
    static unsigned char all[1 << 24];
    FILE *f = fopen(path, "rb");
    want(f != NULL, path);
    const size_t n = fread(all, 1, sizeof all, f);
    fclose(f);
    return copy(all, n);
}

static unsigned char *new_block(void)
{
    void *block = NULL;
    want(posix_memalign(&block, RLX_ALIGNMENT, M_WEIGHT_BYTES) == 0, "there is memory");
    memset(block, 0x55, M_WEIGHT_BYTES);
    return block;
}

static unsigned char *load(const char *path)
{
    const Bytes file = read_file(path);
    unsigned char *block = new_block();
    const int status = m_load(block, M_WEIGHT_BYTES, file.data, file.n);
    free(file.data);
    want(status == 0, rlx_load_text(status));
    return block;
}

static int print_weights(const char *path)
{
    unsigned char *block = load(path);
    want(fwrite(block, 1, M_WEIGHT_BYTES, stdout) == M_WEIGHT_BYTES, "all is written");
    free(block);
    return 0;
}

static int print_status(const char *path)
{
    const Bytes file = read_file(path);
    unsigned char *block = new_block();
    printf("%d\n", m_load(block, M_WEIGHT_BYTES, file.data, file.n));
    free(block);
    free(file.data);
    return 0;
}

#ifdef TOGETHER
#include <pthread.h>

enum { THREADS = 4 };
static unsigned char *shared_block;
static rlx_load_bytes shared_file;

static void *make_share(void *number)
{
    const uint32_t i = *(const uint32_t *)number;
    want(m_load_share(shared_block, M_WEIGHT_BYTES, &shared_file, 1, i, THREADS) == 0, "a share is made");
    return NULL;
}

// Shares at the same time; a sanitizer sees whoever writes where another one does.
static int together(const char *path)
{
    const Bytes file = read_file(path);
    pthread_t thread[THREADS];
    uint32_t number[THREADS];
    shared_block = new_block();
    shared_file = (rlx_load_bytes){file.data, file.n};
    want(m_load_begin(shared_block, M_WEIGHT_BYTES, &shared_file, 1) == 0, "it begins");
    for (uint32_t i = 0; i < THREADS; i++) {
        number[i] = i;
        want(pthread_create(&thread[i], NULL, make_share, &number[i]) == 0, "a thread starts");
    }
    for (uint32_t i = 0; i < THREADS; i++)
        want(pthread_join(thread[i], NULL) == 0, "a thread ends");
    want(m_load_end(shared_block, M_WEIGHT_BYTES) == 0, "it ends");
    want(fwrite(shared_block, 1, M_WEIGHT_BYTES, stdout) == M_WEIGHT_BYTES, "all is written");
    free(shared_block);
    free(file.data);
    return 0;
}
#endif

// The files are parts of one. n: shares, which are made from the last to the first here.
static int print_parts(int n_files, char **path, uint32_t n)
{
    static rlx_load_bytes files[8];
    unsigned char *block = new_block();
    want(n_files <= 8, "there are few files");
    for (int i = 0; i < n_files; i++) {
        const Bytes b = read_file(path[i]);
        files[i] = (rlx_load_bytes){b.data, b.n};
    }
    want(m_load_share(block, M_WEIGHT_BYTES, files, (size_t)n_files, 0, n) == RLX_LOAD_SHARE, "not begun");
    want(m_load_end(block, M_WEIGHT_BYTES) == RLX_LOAD_SHARE, "nothing is done");
    const int status = m_load_begin(block, M_WEIGHT_BYTES, files, (size_t)n_files);
    if (status != 0) {
        want(m_load_share(block, M_WEIGHT_BYTES, files, (size_t)n_files, 0, n) == RLX_LOAD_SHARE, "refused");
        printf("%d\n", status);
        free(block);
        return 0;
    }
    want(m_load_share(block, M_WEIGHT_BYTES, files, (size_t)n_files, n, n) == RLX_LOAD_SHARE, "there are n");
    for (uint32_t i = n; i-- > 0;) {
        want(m_load_end(block, M_WEIGHT_BYTES) == RLX_LOAD_SHARE, "one is not done");
        want(m_load_share(block, M_WEIGHT_BYTES, files, (size_t)n_files, i, n) == 0, "a share is made");
    }
    want(m_load_end(block, M_WEIGHT_BYTES) == 0, "it ends");
    want(rlx_check_weights(&m_model, block, M_WEIGHT_BYTES) == RLX_OK, "the weights are what they were");
    want(fwrite(block, 1, M_WEIGHT_BYTES, stdout) == M_WEIGHT_BYTES, "all is written");
    free(block);
    return 0;
}

// No begin of the file is one.
static int cut(const char *path)
{
    const Bytes file = read_file(path);
    unsigned char *block = new_block();
    for (size_t n = 0; n < file.n; n += n < 4096 ? 3 : 49999) {
        const Bytes part = copy(file.data, n);
        want(m_load(block, M_WEIGHT_BYTES, part.data, n) < 0, "a file that ends too early is refused");
        free(part.data);
    }
    free(block);
    free(file.data);
    return 0;
}

// Damage anywhere in the head may be noticed or not, but does no harm.
static int damage(const char *path)
{
    const Bytes file = read_file(path);
    unsigned char *block = new_block();
    const size_t head = file.n < 8192 ? file.n : 8192;
    uint32_t random = 1;
    for (int i = 0; i < 300; i++) {
        const Bytes part = copy(file.data, file.n);
        for (int k = 0; k < 3; k++) {
            random = random * 1664525u + 1013904223u;
            part.data[(random >> 8) % head] = (unsigned char)(i % 3 == 0 ? 0xff : random >> 5);
        }
        (void)m_load(block, M_WEIGHT_BYTES, part.data, part.n);
        free(part.data);
    }
    free(block);
    free(file.data);
    return 0;
}

static int arguments(const char *path)
{
    const Bytes file = read_file(path);
    unsigned char *block = new_block();
    const int status[] = {m_load(NULL, M_WEIGHT_BYTES, file.data, file.n),
                          m_load(block, M_WEIGHT_BYTES, NULL, file.n),
                          m_load(block, M_WEIGHT_BYTES - 8, file.data, file.n),
                          m_load(block + 1, M_WEIGHT_BYTES, file.data, file.n)};
    want(status[0] == RLX_LOAD_NULL && status[1] == RLX_LOAD_NULL, "pointers are looked at");
    want(status[2] == RLX_LOAD_MEMORY && status[3] == RLX_LOAD_MEMORY, "the block is looked at");
    for (int s = RLX_LOAD_SHARE; s <= RLX_LOAD_NULL; s++)
        want(strstr(rlx_load_text(s), "unknown") == NULL, "each status has a text");
    want(strcmp(rlx_load_text(0), "no error") == 0, "success has a text");
    want(strstr(rlx_load_text(-1), "unknown") != NULL, "other statuses have one");
    free(block);
    free(file.data);
    return 0;
}

#ifdef M_SESSION_BYTES
static int open_session(rlx_session *s, const unsigned char *weights)
{
    static RLX_ALIGNED unsigned char blocks[4][(M_SESSION_BYTES + 63) / 64 * 64];
    static int n;
    unsigned char *memory = blocks[n++ % 4];
    return m_open(s, memory, M_SESSION_BYTES, weights, M_WEIGHT_BYTES);
}

static int print_logits(const char *path)
{
    static rlx_session s;
    const int32_t tokens[] = {1, 30, 9, 44, 17, 60, 3};
    unsigned char *weights = load(path);
    want(open_session(&s, weights) == 0, "the session opens");
    want(m_feed(&s, tokens, 7) == 0, "tokens are fed");
    const float *logits = m_logits(&s);
    want(logits != NULL, "there are logits");
    for (unsigned i = 0; i < M_LOGITS; i++)
        printf("%.9g\n", (double)logits[i]);
    free(weights);
    return 0;
}

// What is saved with the weights of one file is no session of another one.
static int sessions(const char *path, const char *other)
{
    static rlx_session a, b, bad;
    static unsigned char saved[1 << 20];
    const int32_t tokens[] = {1, 30, 9};
    unsigned char *weights = load(path), *others = load(other), *none = new_block();
    want(open_session(&bad, none) == RLX_SESSION_MODEL && bad.run_status == RLX_ERR_WEIGHTS,
         "a block that was not loaded is refused");
    want(rlx_check_weights(&m_model, weights, M_WEIGHT_BYTES) == RLX_OK, "weights are what they were");
    want(open_session(&a, weights) == 0 && open_session(&b, others) == 0, "sessions open");
    want(m_feed(&a, tokens, 3) == 0, "tokens are fed");
    const int64_t n = m_save(&a, saved, sizeof saved);
    want(n > 0, "it is saved");
    want(m_restore(&a, saved, (size_t)n) == 0, "it is restored");
    want(m_restore(&b, saved, (size_t)n) == RLX_SESSION_OTHER, "but not by another model");
    weights[0] ^= 1;
    want(rlx_check_weights(&m_model, weights, M_WEIGHT_BYTES) == RLX_ERR_WEIGHTS, "a change is noticed");
    free(weights);
    free(others);
    free(none);
    return 0;
}
#endif

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const char *path);
    } modes[] = {{"weights", print_weights}, {"status", print_status}, {"cut", cut}, {"damage", damage},
                 {"arguments", arguments},
#ifdef TOGETHER
                 {"together", together},
#endif
#ifdef M_SESSION_BYTES
                 {"logits", print_logits},
#endif
    };
    want(argc >= 3, "there are arguments");
    if (strcmp(argv[1], "parts") == 0)
        return print_parts(argc - 3, argv + 3, (uint32_t)strtoul(argv[2], NULL, 10));
#ifdef M_SESSION_BYTES
    if (argc == 4)
        return sessions(argv[2], argv[3]);
#endif
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0)
            return modes[i].run(argv[2]);
    return 2;
}
