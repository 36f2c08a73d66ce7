// SPDX-License-Identifier: Apache-2.0
// Checks the wire format of a model without recursion (lengths, nesting, field types), then unpacks it with
// protobuf-c into the arena, within a limit that follows from the size of the file.
#include "compiler/import/onnx/onnx_proto.h"
#include "compiler/system/rawfile.h"

#include <string.h>

enum {
    MAX_NESTING = 64, // messages in messages; a sub-graph in a node takes three
    UNPACKED_PER_BYTE =
        16, // memory that a byte of the file may cost; one tag and varint of two bytes take 8 + 40
    UNPACKED_BASE = 16 << 20, // and what a small file may cost beyond that
    LARGE = 1 << 20,
};
#define MAX_FILE (INT64_C(2) << 30) // protobuf's own limit

typedef struct Wire {
    const uint8_t *data;
    size_t pos, end; // end of the innermost message
    const char *error;
} Wire;

typedef struct Frame {
    const ProtobufCMessageDescriptor *type;
    size_t end;
} Frame;

static bool wire_fail(Wire *w, const char *what)
{
    if (!w->error)
        w->error = what;
    return false;
}

static bool read_varint(Wire *w, uint64_t *out)
{
    uint64_t v = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        if (w->pos == w->end)
            return wire_fail(w, "a number is cut off");
        const uint8_t byte = w->data[w->pos++];
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = v;
            return true;
        }
    }
    return wire_fail(w, "a number has more than 10 bytes");
}

static bool skip_bytes(Wire *w, uint64_t n)
{
    rlx_assert(w->pos <= w->end);
    if (n > w->end - w->pos)
        return wire_fail(w, "a field is longer than the message that it is in");
    w->pos += (size_t)n;
    return true;
}

// A field with a length in front: enters a message, skips everything else.
static bool read_sized(Wire *w, const ProtobufCFieldDescriptor *field, Frame *stack, uint32_t *depth)
{
    uint64_t n = 0;
    if (!read_varint(w, &n))
        return false;
    if (n > w->end - w->pos)
        return wire_fail(w, "a field is longer than the message that it is in");
    if (field && field->type == PROTOBUF_C_TYPE_STRING && n && memchr(w->data + w->pos, 0, (size_t)n))
        return wire_fail(w, "a name has a zero byte");
    if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return skip_bytes(w, n);
    if (*depth == MAX_NESTING)
        return wire_fail(w, "messages are nested too deep");
    stack[(*depth)++] = (Frame){field->descriptor, w->pos + (size_t)n};
    return true;
}

static bool read_field(Wire *w, Frame *stack, uint32_t *depth)
{
    rlx_assert(*depth >= 1 && *depth <= MAX_NESTING);
    uint64_t tag = 0, ignored = 0;
    if (!read_varint(w, &tag))
        return false;
    if (tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1)
        return wire_fail(w, "a field has a number that protobuf does not allow");
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field(stack[*depth - 1].type, (unsigned)(tag >> 3));
    if (field && field->type == PROTOBUF_C_TYPE_MESSAGE && (tag & 7) != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
        return wire_fail(w, "a field has another type than ONNX says");
    switch (tag & 7) {
    case PROTOBUF_C_WIRE_TYPE_VARINT:
        return read_varint(w, &ignored);
    case PROTOBUF_C_WIRE_TYPE_64BIT:
        return skip_bytes(w, 8);
    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        return read_sized(w, field, stack, depth);
    case PROTOBUF_C_WIRE_TYPE_32BIT:
        return skip_bytes(w, 4);
    default:
        return wire_fail(w, "a field has a type that protobuf does not have");
    }
}

static bool check_wire(Wire *w, const ProtobufCMessageDescriptor *type, size_t len)
{
    Frame stack[MAX_NESTING] = {{type, len}};
    uint32_t depth = 1;
    while (depth > 0) {
        w->end = stack[depth - 1].end;
        if (w->pos == w->end)
            depth--;
        else if (!read_field(w, stack, &depth))
            return false;
    }
    return true;
}

// An allocator over the arena that runs dry. protobuf-c takes NULL as a failure and gives up.
typedef struct Pool {
    Arena *arena;
    size_t left;
} Pool;

static void *pool_alloc(void *data, size_t n)
{
    Pool *p = data;
    if (n > p->left)
        return NULL;
    if (n >=
        LARGE) // a tensor's bytes are about to be copied: of the file, nothing before them is needed again
        rawfile_release_pages();
    p->left -= n;
    return arena_alloc(p->arena, n);
}

static void pool_free(void *data, void *p)
{
    (void)data;
    (void)p;
}

Onnx__ModelProto *onnx_proto_read(Arena *a, Diag *d, Span span, const void *data, size_t len)
{
    Wire w = {.data = data};
    if (len > (size_t)MAX_FILE) {
        diag_error(d, span, E0004, "the file has %zu bytes; an ONNX file has at most %lld", len,
                   (long long)MAX_FILE);
        return NULL;
    }
    if (!check_wire(&w, &onnx__model_proto__descriptor, len)) {
        diag_error(d, span, E0106, "not a serialized ModelProto: at byte %zu, %s", w.pos, w.error);
        return NULL;
    }
    Pool pool = {a, len * UNPACKED_PER_BYTE + UNPACKED_BASE};
    ProtobufCAllocator allocator = {pool_alloc, pool_free, &pool};
    Onnx__ModelProto *model = onnx__model_proto__unpack(&allocator, len, data);
    if (!model)
        diag_error(d, span, E0106,
                   "not a serialized ModelProto: its fields do not fit ONNX's schema, or need more memory "
                   "than %zu bytes",
                   len * UNPACKED_PER_BYTE + UNPACKED_BASE);
    return model;
}

// --- fields that an older schema lacks ---

const uint8_t *onnx_proto_extra(const ProtobufCMessage *m, uint32_t tag, uint32_t index, size_t *len)
{
    for (unsigned i = 0; i < m->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *f = &m->unknown_fields[i];
        Wire w = {.data = f->data, .end = f->len};
        uint64_t n = 0;
        if (f->tag != tag || f->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || index-- != 0)
            continue;
        if (!read_varint(&w, &n) || n > w.end - w.pos)
            return NULL;
        *len = (size_t)n;
        return f->data + w.pos;
    }
    return NULL;
}

const Onnx__AttributeProto *onnx_proto_attribute(Arena *a, const uint8_t *data, size_t len)
{
    Wire w = {.data = data};
    Pool pool = {a, len * UNPACKED_PER_BYTE + UNPACKED_BASE};
    ProtobufCAllocator allocator = {pool_alloc, pool_free, &pool};
    return check_wire(&w, &onnx__attribute_proto__descriptor, len)
               ? onnx__attribute_proto__unpack(&allocator, len, data)
               : NULL;
}
