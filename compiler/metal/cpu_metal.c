// SPDX-License-Identifier: Apache-2.0
// The classes of Metal that stand for things (see cpu_metal.h): texts, options, the device, libraries,
// buffers.
#include "compiler/metal/cpu_metal.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

typedef struct Text {
    ObjcObject object;
    char *bytes;
} Text;

typedef struct Options {
    ObjcObject object;
    bool is_safe, is_precise;
} Options;

typedef struct Device {
    ObjcObject object;
} Device;

// What a kernel is given: a place in a buffer, or bytes of its own.
static const ObjcMethod none[] = {{NULL, NULL}};
const ObjcClass no_class_methods = {NULL, "a class", none, NULL};
static const ObjcClass string_class, data_class, options_class, device_class, library_class, function_class;

// --- texts and options ---------------------------------------------------------------------------

static void *make_string(void *self, void *selector, const char *bytes)
{
    (void)self, (void)selector;
    Text *t = objc_make(&string_class, sizeof *t);
    t->bytes = strdup(bytes);
    return objc_leave(t);
}

static const char *string_bytes(void *self, void *selector)
{
    (void)selector;
    return ((Text *)self)->bytes;
}

static void end_string(void *object)
{
    free(((Text *)object)->bytes);
}

static void *make_options(void *self, void *selector)
{
    (void)self, (void)selector;
    return objc_make(&options_class, sizeof(Options));
}

static void set_fast_math(void *self, void *selector, signed char flag)
{
    Options *o = self;
    (void)selector;
    o->is_safe = o->is_precise = flag == 0;
}

static void set_math_mode(void *self, void *selector, long mode)
{
    (void)selector;
    ((Options *)self)->is_safe = mode == 0;
}

static void set_math_functions(void *self, void *selector, long which)
{
    (void)selector;
    ((Options *)self)->is_precise = which == 1;
}

// --- the device ----------------------------------------------------------------------------------

void *MTLCreateSystemDefaultDevice(void);
void *MTLCreateSystemDefaultDevice(void)
{
    return objc_make(&device_class, sizeof(Device));
}

static void *device_name(void *self, void *selector)
{
    return make_string(self, selector, "this machine's CPU, by rlxc");
}

static Number max_bytes(void *self, void *selector)
{
    (void)self, (void)selector;
    return (Number)1 << 40;
}

// Full of NaN.
static void *make_buffer(void *self, void *selector, Number length, Number options)
{
    (void)self, (void)selector;
    if (length == 0 || options != 0)
        objc_fail("a buffer of %lu bytes with options %lu", length, options);
    Buffer *b = objc_make(&buffer_class, sizeof *b);
    b->length = length;
    b->data = aligned_alloc(PAGE, (length + PAGE - 1) / PAGE * PAGE);
    if (b->data == NULL)
        objc_fail("no memory");
    memset(b->data, 0xff, length);
    return b;
}

static void *buffer_contents(void *self, void *selector)
{
    (void)selector;
    return ((Buffer *)self)->data;
}

static void end_buffer(void *object)
{
    free(((Buffer *)object)->data);
}

// --- kernels -------------------------------------------------------------------------------------

static void *library_of(MetalText *text, void **error)
{
    if (error != NULL)
        *error = NULL;
    if (text == NULL)
        return NULL;
    Library *l = objc_make(&library_class, sizeof *l);
    l->text = text;
    return l;
}

static void *make_library(void *self, void *selector, void *source, void *options, void **error)
{
    (void)self, (void)selector;
    const Text *t = objc_expect(source, &string_class);
    const Options *o = objc_expect(options, &options_class);
    if (!o->is_safe || !o->is_precise)
        objc_fail("kernels are compiled with fast mathematics");
    return library_of(metal_text_load(t->bytes), error);
}

void *dispatch_data_create(const void *bytes, size_t n, void *queue, void *destroy);
void *dispatch_data_create(const void *bytes, size_t n, void *queue, void *destroy)
{
    Text *t = objc_make(&data_class, sizeof *t);
    (void)queue, (void)destroy;
    t->bytes = strndup(bytes, n);
    return t;
}

// What is compiled already is text here as well, if it has one kernel at least.
static void *make_library_of_data(void *self, void *selector, void *data, void **error)
{
    (void)self, (void)selector;
    const Text *t = objc_expect(data, &data_class);
    return library_of(strstr(t->bytes, "kernel void") != NULL ? metal_text_load(t->bytes) : NULL, error);
}

static void end_library(void *object)
{
    metal_text_close(((Library *)object)->text);
}

static void *make_function(void *self, void *selector, void *name)
{
    Library *l = self;
    const Text *t = objc_expect(name, &string_class);
    (void)selector;
    for (size_t i = 0; i < l->text->n; i++)
        if (strcmp(l->text->kernels[i].name, t->bytes) == 0) {
            Function *f = objc_make(&function_class, sizeof *f);
            f->library = objc_keep(l);
            f->kernel = &l->text->kernels[i];
            return f;
        }
    return NULL;
}

static void end_function(void *object)
{
    objc_drop(((Function *)object)->library);
}

static void *make_pipeline(void *self, void *selector, void *function, void **error)
{
    (void)self, (void)selector;
    Function *f = objc_expect(function, &function_class);
    Pipeline *p = objc_make(&pipeline_class, sizeof *p);
    p->function = objc_keep(f);
    if (error != NULL)
        *error = NULL;
    return p;
}

static void end_pipeline(void *object)
{
    objc_drop(((Pipeline *)object)->function);
}

Number metal_max_threads(void *self, void *selector)
{
    (void)self, (void)selector;
    return objc_option("threads", 1024);
}

Number metal_simd_width(void *self, void *selector)
{
    (void)self, (void)selector;
    return objc_option("width", 32);
}

// --- classes -------------------------------------------------------------------------------------

METHODS(string_class) = {IS("stringWithUTF8String:", make_string), END};
METHODS(string) = {IS("UTF8String", string_bytes), END};
METHODS(options_class) = {IS("new", make_options), END};
METHODS(options) = {IS("setFastMathEnabled:", set_fast_math), IS("setMathMode:", set_math_mode),
                    IS("setMathFloatingPointFunctions:", set_math_functions), END};
METHODS(device) = {IS("name", device_name),
                   IS("maxBufferLength", max_bytes),
                   IS("newCommandQueue", metal_make_queue),
                   IS("newBufferWithLength:options:", make_buffer),
                   IS("newLibraryWithSource:options:error:", make_library),
                   IS("newLibraryWithData:error:", make_library_of_data),
                   IS("newComputePipelineStateWithFunction:error:", make_pipeline),
                   END};
METHODS(library) = {IS("newFunctionWithName:", make_function), END};
METHODS(pipeline) = {IS("maxTotalThreadsPerThreadgroup", metal_max_threads),
                     IS("threadExecutionWidth", metal_simd_width), END};
METHODS(buffer) = {IS("contents", buffer_contents), END};

static const ObjcClass string_meta = {NULL, "NSString's class", string_class_methods, NULL},
                       options_meta = {NULL, "MTLCompileOptions' class", options_class_methods, NULL},
                       string_class = {&string_meta, "NSString", string_methods, end_string},
                       data_class = {&no_class_methods, "dispatch_data", none, end_string},
                       options_class = {&options_meta, "MTLCompileOptions", options_methods, NULL},
                       device_class = {&no_class_methods, "MTLDevice", device_methods, NULL},
                       library_class = {&no_class_methods, "MTLLibrary", library_methods, end_library},
                       function_class = {&no_class_methods, "MTLFunction", none, end_function};
const ObjcClass pipeline_class = {&no_class_methods, "MTLComputePipelineState", pipeline_methods,
                                  end_pipeline};
const ObjcClass buffer_class = {&no_class_methods, "MTLBuffer", buffer_methods, end_buffer};
const ObjcClass *const objc_classes[] = {&string_class, &options_class, NULL};
