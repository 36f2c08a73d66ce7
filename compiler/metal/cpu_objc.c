// SPDX-License-Identifier: Apache-2.0
// See cpu_objc.h.
#include "compiler/metal/cpu_objc.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_SELECTORS = 256, MAX_POOLED = 4096, MAX_POOLS = 64, N_ENDED = 4096 };

void objc_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("Metal on the CPU: ", stderr);
    vfprintf(stderr, format, args);
    fputs("\n", stderr);
    va_end(args);
    abort();
}

const char *objc_word(const char *word)
{
    const char *at = getenv("RLX_METAL_CPU");
    const size_t n = strlen(word);
    for (; at != NULL && *at != '\0'; at += at[strcspn(at, ",")] == ',') {
        const size_t len = strcspn(at, ",");
        if (len >= n && strncmp(at, word, n) == 0 && (len == n || at[n] == '='))
            return len == n ? "" : at + n + 1;
        at += len;
    }
    return NULL;
}

unsigned objc_option(const char *word, unsigned otherwise)
{
    const char *value = objc_word(word);
    if (value == NULL)
        return otherwise;
    return *value >= '0' && *value <= '9' ? (unsigned)strtoul(value, NULL, 10) : 1;
}

// --- objects -------------------------------------------------------------------------------------

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *ended[N_ENDED]; // the last objects that have ended: their memory stays, so that uses are seen
static size_t n_ended;
static long n_living;

static bool is_class(const void *object)
{
    for (const ObjcClass *const *c = objc_classes; *c != NULL; c++)
        if (object == *c)
            return true;
    return false;
}

void *objc_make(const ObjcClass *is_a, size_t bytes)
{
    ObjcObject *o = calloc(1, bytes);
    if (o == NULL)
        objc_fail("no memory");
    o->is_a = is_a;
    o->references = 1;
    __atomic_add_fetch(&n_living, 1, __ATOMIC_SEQ_CST);
    return o;
}

static void check_living(const ObjcObject *o, const char *what)
{
    if (o->references <= 0)
        objc_fail("%s is sent to an object of %s that was released", what, o->is_a->name);
}

void *objc_expect(void *object, const ObjcClass *is_a)
{
    const ObjcObject *o = object;
    if (o == NULL)
        objc_fail("nil instead of an object of %s", is_a->name);
    if (o->is_a != is_a)
        objc_fail("an object of %s instead of one of %s", o->is_a->name, is_a->name);
    if (o->references <= 0)
        objc_fail("an object of %s that was released is used", is_a->name);
    return object;
}

void *objc_keep(void *object)
{
    ObjcObject *o = object;
    __atomic_add_fetch(&o->references, 1, __ATOMIC_SEQ_CST);
    return object;
}

void objc_drop(void *object)
{
    ObjcObject *o = object;
    check_living(o, "release");
    if (__atomic_sub_fetch(&o->references, 1, __ATOMIC_SEQ_CST) > 0)
        return;
    if (o->is_a->end != NULL)
        o->is_a->end(o);
    __atomic_sub_fetch(&n_living, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&lock);
    free(ended[n_ended % N_ENDED]);
    ended[n_ended++ % N_ENDED] = o;
    pthread_mutex_unlock(&lock);
}

__attribute__((destructor)) static void look_for_leaks(void)
{
    if (n_living == 0 || objc_option("leaks", 0) == 0)
        return;
    fprintf(stderr, "Metal on the CPU: %ld objects were not released\n", n_living);
    _exit(99);
}

// --- pools ---------------------------------------------------------------------------------------

static __thread struct {
    void *object[MAX_POOLED];
    size_t n, begin[MAX_POOLS], n_pools;
} pools;

void *objc_leave(void *object)
{
    if (pools.n_pools == 0)
        objc_fail("an object of %s is autoreleased without a pool", ((ObjcObject *)object)->is_a->name);
    if (pools.n == MAX_POOLED)
        objc_fail("an autorelease pool holds %d objects: is it ever drained?", MAX_POOLED);
    pools.object[pools.n++] = object;
    return object;
}

void *objc_autoreleasePoolPush(void);
void *objc_autoreleasePoolPush(void)
{
    if (pools.n_pools == MAX_POOLS)
        objc_fail("too many autorelease pools");
    pools.begin[pools.n_pools++] = pools.n;
    return &pools.begin[pools.n_pools - 1];
}

void objc_autoreleasePoolPop(void *pool);
void objc_autoreleasePoolPop(void *pool)
{
    if (pools.n_pools == 0 || pool != &pools.begin[pools.n_pools - 1])
        objc_fail("an autorelease pool ends that is not the innermost one of this thread");
    pools.n_pools--;
    while (pools.n > pools.begin[pools.n_pools])
        objc_drop(pools.object[--pools.n]);
}

// --- messages ------------------------------------------------------------------------------------

static const char *selectors[MAX_SELECTORS];
static size_t n_selectors;

void *objc_getClass(const char *name);
void *objc_getClass(const char *name)
{
    for (const ObjcClass *const *c = objc_classes; *c != NULL; c++)
        if (strcmp((*c)->name, name) == 0)
            return (void *)(uintptr_t)*c;
    return NULL;
}

void *sel_registerName(const char *name);
void *sel_registerName(const char *name)
{
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < n_selectors && strcmp(selectors[i], name) != 0)
        i++;
    if (i == MAX_SELECTORS)
        objc_fail("too many selectors");
    if (i == n_selectors)
        selectors[n_selectors++] = strdup(name);
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)selectors[i];
}

static bool is_selector(const void *selector)
{
    for (size_t i = 0; i < n_selectors; i++)
        if (selector == selectors[i])
            return true;
    return false;
}

static void *retain(void *self, void *selector)
{
    (void)selector;
    return objc_keep(self);
}

static void release(void *self, void *selector)
{
    (void)selector;
    objc_drop(self);
}

static ObjcFunction find_method(const ObjcClass *is_a, const char *selector)
{
    for (const ObjcMethod *m = is_a->methods; m->selector != NULL; m++)
        if (strcmp(m->selector, selector) == 0)
            return m->fn;
    return NULL;
}

// A system before macOS 15 has no such methods.
static bool is_new(const char *selector)
{
    return strncmp(selector, "setMath", 7) == 0;
}

static signed char responds(void *self, void *selector, void *which)
{
    (void)selector;
    if (!is_selector(which))
        objc_fail("respondsToSelector: is given what is no selector");
    return find_method(((ObjcObject *)self)->is_a, which) != NULL &&
           !(is_new(which) && objc_option("old", 0) != 0);
}

static void *give_nothing(void *self, void *selector)
{
    (void)self, (void)selector;
    return NULL;
}

static bool is_to_fail(const char *selector)
{
    const char *name = objc_word("fail");
    const size_t n = strlen(selector);
    return name != NULL && strncmp(name, selector, n) == 0 && (name[n] == ',' || name[n] == '\0');
}

// What objc_msgSend jumps to.
ObjcFunction objc_find(ObjcObject *self, const char *selector);
__attribute__((visibility("hidden"), used)) ObjcFunction objc_find(ObjcObject *self, const char *selector)
{
    if (!is_selector(selector))
        objc_fail("a message is sent whose selector is none");
    if (self == NULL)
        objc_fail("%s is sent to nil", selector);
    if (!is_class(self))
        check_living(self, selector);
    if (!is_class(self) && strcmp(selector, "retain") == 0)
        return (ObjcFunction)retain;
    if (!is_class(self) && strcmp(selector, "release") == 0)
        return (ObjcFunction)release;
    if (!is_class(self) && strcmp(selector, "respondsToSelector:") == 0)
        return (ObjcFunction)responds;
    ObjcFunction fn = find_method(self->is_a, selector);
    if (fn == NULL || (is_new(selector) && objc_option("old", 0) != 0))
        objc_fail("%s does not understand %s", self->is_a->name, selector);
    return is_to_fail(selector) ? (ObjcFunction)give_nothing : fn;
}

// Keeps all that may be an argument, asks objc_find, and jumps there.
#if defined(__x86_64__)
__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend, @function\nobjc_msgSend:\n"
        "    push %rbp\n    mov %rsp, %rbp\n    sub $176, %rsp\n"
        "    mov %rdi, (%rsp)\n    mov %rsi, 8(%rsp)\n    mov %rdx, 16(%rsp)\n    mov %rcx, 24(%rsp)\n"
        "    mov %r8, 32(%rsp)\n    mov %r9, 40(%rsp)\n"
        "    movups %xmm0, 48(%rsp)\n    movups %xmm1, 64(%rsp)\n    movups %xmm2, 80(%rsp)\n"
        "    movups %xmm3, 96(%rsp)\n    movups %xmm4, 112(%rsp)\n    movups %xmm5, 128(%rsp)\n"
        "    movups %xmm6, 144(%rsp)\n    movups %xmm7, 160(%rsp)\n"
        "    call objc_find\n    mov %rax, %r11\n"
        "    mov (%rsp), %rdi\n    mov 8(%rsp), %rsi\n    mov 16(%rsp), %rdx\n    mov 24(%rsp), %rcx\n"
        "    mov 32(%rsp), %r8\n    mov 40(%rsp), %r9\n"
        "    movups 48(%rsp), %xmm0\n    movups 64(%rsp), %xmm1\n    movups 80(%rsp), %xmm2\n"
        "    movups 96(%rsp), %xmm3\n    movups 112(%rsp), %xmm4\n    movups 128(%rsp), %xmm5\n"
        "    movups 144(%rsp), %xmm6\n    movups 160(%rsp), %xmm7\n"
        "    leave\n    jmp *%r11\n.size objc_msgSend, .-objc_msgSend\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl objc_msgSend\n.type objc_msgSend, %function\nobjc_msgSend:\n"
        "    stp x29, x30, [sp, #-224]!\n    mov x29, sp\n"
        "    stp x0, x1, [sp, #16]\n    stp x2, x3, [sp, #32]\n    stp x4, x5, [sp, #48]\n"
        "    stp x6, x7, [sp, #64]\n    str x8, [sp, #80]\n"
        "    stp q0, q1, [sp, #96]\n    stp q2, q3, [sp, #128]\n    stp q4, q5, [sp, #160]\n"
        "    stp q6, q7, [sp, #192]\n    bl objc_find\n    mov x16, x0\n"
        "    ldp x0, x1, [sp, #16]\n    ldp x2, x3, [sp, #32]\n    ldp x4, x5, [sp, #48]\n"
        "    ldp x6, x7, [sp, #64]\n    ldr x8, [sp, #80]\n"
        "    ldp q0, q1, [sp, #96]\n    ldp q2, q3, [sp, #128]\n    ldp q4, q5, [sp, #160]\n"
        "    ldp q6, q7, [sp, #192]\n    ldp x29, x30, [sp], #224\n    br x16\n"
        ".size objc_msgSend, .-objc_msgSend\n");
#else
#error "Metal on the CPU: x86-64 and 64-bit ARM only"
#endif
