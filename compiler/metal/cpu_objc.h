// SPDX-License-Identifier: Apache-2.0
// Enough of an Objective-C runtime for runtime-lite/rlx_metal.h: classes, selectors, messages, counted
// references and autorelease pools. It is stricter than Apple's: what is undefined or forgiven there ends
// the program here, with a message.
//
// The files in this folder are one library, rlxc's replacement for Metal where there is none: it executes the
// text of the kernels on the CPU. They include nothing else of ours, as rlxc carries them as text and has
// them compiled where it runs (metal_cpu.h). $RLX_METAL_CPU is a list of words that change what it
// is:
//   check       looks for races (slow)
//   leaks       the program fails at its end when objects were not released
//   old         a system before macOS 15
//   width=N     threads of a simdgroup (32)
//   threads=N   the most threads of a group (1024)
//   fail=NAME   messages of that name give nothing
#ifndef COMPILER_METAL_CPU_OBJC_H
#define COMPILER_METAL_CPU_OBJC_H

#include <stdbool.h>
#include <stddef.h>

typedef void (*ObjcFunction)(void);

// fn has the type that the method has in Apple's headers, behind the object and the selector.
typedef struct ObjcMethod {
    const char *selector;
    ObjcFunction fn;
} ObjcMethod;

typedef struct ObjcClass {
    const struct ObjcClass *is_a; // of classes: what can be sent to the class itself
    const char *name;
    const ObjcMethod *methods; // the last one is empty
    void (*end)(void *object); // NULL: nothing has to be given back
} ObjcClass;

// First in every object.
typedef struct ObjcObject {
    const ObjcClass *is_a;
    int references; // 0: it has ended
} ObjcObject;

// One word of $RLX_METAL_CPU: what is behind its =, "" where there is none. NULL: it is not there.
const char *objc_word(const char *word);
// The number behind the word's =: 1 where it has none, or `otherwise` where the word is not there.
unsigned objc_option(const char *word, unsigned otherwise);

// Ends the program.
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2), noreturn))
#endif
void objc_fail(const char *format, ...);

// Full of zeros; the caller owns it.
void *objc_make(const ObjcClass *is_a, size_t bytes);
void *objc_keep(void *object);
void objc_drop(void *object);
// Dropped when the innermost pool ends.
void *objc_leave(void *object);
// Ends the program unless it is an object of the class that still lives.
void *objc_expect(void *object, const ObjcClass *is_a);

// What objc_getClass finds; the last one is NULL.
extern const ObjcClass *const objc_classes[];

#endif
