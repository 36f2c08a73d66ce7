// SPDX-License-Identifier: Apache-2.0 OR MIT-0
// runtime-lite: Objective-C as C sees it, and what rlx_metal.h sends to objects of Metal's. The runtime is
// looked for when it is needed: nothing is linked.
#ifndef RLX_METAL_API_H
#define RLX_METAL_API_H

#include "rlx.h"

#include <dlfcn.h>

#ifdef __cplusplus
extern "C" {
#endif

// One library instead of Apple's: that of rlxc, which executes Metal text on CPUs.
#ifdef RLX_METAL_LIBRARY
#define RLX_METAL_OBJC      RLX_METAL_LIBRARY
#define RLX_METAL_FRAMEWORK RLX_METAL_LIBRARY
#else
#define RLX_METAL_OBJC      "/usr/lib/libobjc.A.dylib"
#define RLX_METAL_FRAMEWORK "/System/Library/Frameworks/Metal.framework/Metal"
#endif
// Has to be there before programs without windows have a default device.
#define RLX_METAL_GRAPHICS "/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"

// What is sent to objects, in the order of rlx_metal_selectors.
enum {
    RLX_METAL_NEW,
    RLX_METAL_RETAIN,
    RLX_METAL_RELEASE,
    RLX_METAL_RESPONDS,
    RLX_METAL_STRING,
    RLX_METAL_FAST_MATH,
    RLX_METAL_MATH_MODE,
    RLX_METAL_MATH_FUNCTIONS,
    RLX_METAL_LIBRARY_OF_TEXT,
    RLX_METAL_LIBRARY_OF_DATA,
    RLX_METAL_FUNCTION,
    RLX_METAL_PIPELINE,
    RLX_METAL_MAX_THREADS,
    RLX_METAL_MAX_BYTES,
    RLX_METAL_BUFFER,
    RLX_METAL_CONTENTS,
    RLX_METAL_QUEUE,
    RLX_METAL_COMMANDS,
    RLX_METAL_ENCODER,
    RLX_METAL_USE,
    RLX_METAL_SET_BUFFER,
    RLX_METAL_SET_BYTES,
    RLX_METAL_DISPATCH,
    RLX_METAL_BARRIER,
    RLX_METAL_END,
    RLX_METAL_COMMIT,
    RLX_METAL_WAIT,
    RLX_METAL_STATUS,
    RLX_METAL_BEGIN_TIME,
    RLX_METAL_END_TIME,
    RLX_METAL_NAME,
    RLX_METAL_TEXT_OF,
    RLX_METAL_SELECTORS
};

// MTLSize
typedef struct rlx_metal_size {
    unsigned long width, height, depth;
} rlx_metal_size;

typedef void (*rlx_metal_function)(void);

typedef struct rlx_metal_objc {
    rlx_metal_function send; // objc_msgSend: cast to the type of each method
    void *(*get_class)(const char *name);
    void *(*get_selector)(const char *name);
    void *(*push)(void); // autorelease pools
    void (*pop)(void *pool);
    void *selector[RLX_METAL_SELECTORS];
} rlx_metal_objc;

// Methods by their types: what they give, then what they take besides the object and the selector.
static inline void rlx_metal_do(const rlx_metal_objc *o, void *object, int selector)
{
    ((void (*)(void *, void *))o->send)(object, o->selector[selector]);
}

static inline void *rlx_metal_ask(const rlx_metal_objc *o, void *object, int selector)
{
    return ((void *(*)(void *, void *))o->send)(object, o->selector[selector]);
}

static inline unsigned long rlx_metal_count(const rlx_metal_objc *o, void *object, int selector)
{
    return ((unsigned long (*)(void *, void *))o->send)(object, o->selector[selector]);
}

static inline double rlx_metal_time(const rlx_metal_objc *o, void *object, int selector)
{
    return ((double (*)(void *, void *))o->send)(object, o->selector[selector]);
}

static inline void *rlx_metal_ask_for(const rlx_metal_objc *o, void *object, int selector, const void *with)
{
    return ((void *(*)(void *, void *, const void *))o->send)(object, o->selector[selector], with);
}

static inline void *rlx_metal_ask_number(const rlx_metal_objc *o, void *object, int selector,
                                         unsigned long number)
{
    return ((void *(*)(void *, void *, unsigned long))o->send)(object, o->selector[selector], number);
}

static inline void rlx_metal_set_object(const rlx_metal_objc *o, void *object, int selector, void *value)
{
    ((void (*)(void *, void *, void *))o->send)(object, o->selector[selector], value);
}

static inline void rlx_metal_set_number(const rlx_metal_objc *o, void *object, int selector,
                                        unsigned long number)
{
    ((void (*)(void *, void *, unsigned long))o->send)(object, o->selector[selector], number);
}

static inline void rlx_metal_set_flag(const rlx_metal_objc *o, void *object, int selector, signed char flag)
{
    ((void (*)(void *, void *, signed char))o->send)(object, o->selector[selector], flag);
}

static inline int rlx_metal_responds(const rlx_metal_objc *o, void *object, int selector)
{
    return ((signed char (*)(void *, void *, void *))o->send)(object, o->selector[RLX_METAL_RESPONDS],
                                                              o->selector[selector]) != 0;
}

static inline void rlx_metal_release(const rlx_metal_objc *o, void *object)
{
    if (object != NULL)
        rlx_metal_do(o, object, RLX_METAL_RELEASE);
}

// Of every table of function pointers: C99 has no cast to them from what dlsym gives, so bytes are copied.
static inline int rlx_metal_find(void *library, const char *name, void *function)
{
    void *const found = library != NULL ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static inline rlx_status rlx_metal_load(rlx_metal_objc *o)
{
    static const char *const rlx_metal_selectors[] = {"new",
                                                      "retain",
                                                      "release",
                                                      "respondsToSelector:",
                                                      "stringWithUTF8String:",
                                                      "setFastMathEnabled:",
                                                      "setMathMode:",
                                                      "setMathFloatingPointFunctions:",
                                                      "newLibraryWithSource:options:error:",
                                                      "newLibraryWithData:error:",
                                                      "newFunctionWithName:",
                                                      "newComputePipelineStateWithFunction:error:",
                                                      "maxTotalThreadsPerThreadgroup",
                                                      "maxBufferLength",
                                                      "newBufferWithLength:options:",
                                                      "contents",
                                                      "newCommandQueue",
                                                      "commandBufferWithUnretainedReferences",
                                                      "computeCommandEncoderWithDispatchType:",
                                                      "setComputePipelineState:",
                                                      "setBuffer:offset:atIndex:",
                                                      "setBytes:length:atIndex:",
                                                      "dispatchThreadgroups:threadsPerThreadgroup:",
                                                      "memoryBarrierWithScope:",
                                                      "endEncoding",
                                                      "commit",
                                                      "waitUntilCompleted",
                                                      "status",
                                                      "GPUStartTime",
                                                      "GPUEndTime",
                                                      "name",
                                                      "UTF8String"};
    void *const library = dlopen(RLX_METAL_OBJC, RTLD_NOW | RTLD_LOCAL);
    int i;
    if (!rlx_metal_find(library, "objc_msgSend", &o->send) ||
        !rlx_metal_find(library, "objc_getClass", &o->get_class) ||
        !rlx_metal_find(library, "sel_registerName", &o->get_selector) ||
        !rlx_metal_find(library, "objc_autoreleasePoolPush", &o->push) ||
        !rlx_metal_find(library, "objc_autoreleasePoolPop", &o->pop))
        return RLX_ERR_NO_DEVICE;
    for (i = 0; i < RLX_METAL_SELECTORS; i++)
        o->selector[i] = o->get_selector(rlx_metal_selectors[i]);
    return RLX_OK;
}

#ifdef __cplusplus
}
#endif

#endif
