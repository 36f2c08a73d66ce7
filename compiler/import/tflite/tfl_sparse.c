// SPDX-License-Identifier: Apache-2.0
// Sparse constants of .tflite files, written out in full when they are read. The file lists the values in an
// order of its own: its levels are the axes of the tensor and the axes within its blocks, each either whole
// or a list of the places that exist.
//
// Level by level, the list of places so far becomes that of the places one level further; the values follow
// each other as the places of the last level do.
#include "compiler/import/tflite/tfl_import.h"

#include <string.h>

enum { SPARSE_ORDER = 0, SPARSE_BLOCKS = 1, SPARSE_LEVELS = 2 };
enum { LEVEL_FORMAT = 0, LEVEL_SIZE = 1, LEVEL_SEGMENTS = 2, LEVEL_INDICES = 4 }; // type; the list is one on
enum { MAX_LEVELS = 2 * SHAPE_MAX_RANK };

// A level: how many places there are at most, and how far apart they are in the tensor.
typedef struct Level {
    int64_t size, stride;
} Level;

typedef struct Places {
    uint64_t *at;
    uint64_t n;
} Places;

// Lists of indices, by the number of their type: i32, u16, u8.
static const struct {
    uint32_t bytes;
    FlatInt type;
} lists[] = {{0, FLAT_U8}, {4, FLAT_I32}, {2, FLAT_U16}, {1, FLAT_U8}};

static bool broken(TflNode *n, const TflTensor *t, const char *what)
{
    return tfl_fail(n, E0113, "tensor '%s' is sparse, and %s", t->name, what);
}

// The axis that a block is part of; none has two.
static bool read_blocks(TflNode *n, const TflTensor *t, FlatList map, int64_t *block_of)
{
    for (uint32_t axis = 0; axis < t->shape.rank; axis++)
        block_of[axis] = -1;
    for (uint32_t i = 0; i < map.n; i++) {
        const int64_t axis = flat_list_int(map, i, FLAT_I32);
        if (axis < 0 || axis >= t->shape.rank || block_of[axis] >= 0)
            return broken(n, t, "its blocks are not of different axes");
        block_of[axis] = i;
    }
    return true;
}

// The levels as the tensor numbers them: its axes, then those of its blocks.
static bool read_sizes(TflNode *n, const TflTensor *t, const int64_t *level_of, Level *out)
{
    const FlatList map = flat_list(t->sparse, SPARSE_BLOCKS, 4);
    const FlatList levels = flat_list(t->sparse, SPARSE_LEVELS, 4);
    int64_t block_of[SHAPE_MAX_RANK], stride = 1;
    if (!read_blocks(n, t, map, block_of))
        return false;
    for (uint32_t axis = t->shape.rank; axis-- > 0; stride *= t->shape.dim[axis]) {
        int64_t block = 1;
        if (block_of[axis] >= 0) {
            const uint32_t at = t->shape.rank + (uint32_t)block_of[axis];
            block = flat_int(flat_list_table(levels, (uint32_t)level_of[at]), LEVEL_SIZE, FLAT_I32, 0);
            out[at] = (Level){block, stride};
        }
        if (block < 1 || t->shape.dim[axis] % block != 0)
            return broken(n, t, "its blocks do not divide it");
        out[axis] = (Level){t->shape.dim[axis] / block, stride * block};
    }
    return true;
}

// level_of: the place of each axis in the order. False: the order is none (reported).
static bool read_order(TflNode *n, const TflTensor *t, FlatList order, int64_t *level_of)
{
    for (uint32_t i = 0; i < order.n; i++)
        level_of[i] = -1;
    for (uint32_t i = 0; i < order.n; i++) {
        const int64_t axis = flat_list_int(order, i, FLAT_I32);
        if (axis < 0 || axis >= order.n || level_of[axis] >= 0)
            return broken(n, t, "its order has no place for each axis");
        level_of[axis] = i;
    }
    return true;
}

static FlatList read_list(FlatTable level, uint32_t field, FlatInt *type)
{
    const int64_t kind = flat_int(level, field, FLAT_U8, 0);
    if (kind < 1 || (size_t)kind >= sizeof lists / sizeof *lists)
        return (FlatList){0};
    *type = lists[kind].type;
    return flat_list(flat_table(level, field + 1), 0, lists[kind].bytes);
}

static void whole_level(TflNode *n, const Level *level, Places *p)
{
    uint64_t *to = ARENA_ARRAY(n->model->arena, uint64_t, p->n * (uint64_t)level->size + 1);
    uint64_t count = 0;
    rlx_assert(level->size >= 1 && level->stride >= 1);
    for (uint64_t i = 0; i < p->n; i++)
        for (int64_t k = 0; k < level->size; k++)
            to[count++] = p->at[i] + (uint64_t)(k * level->stride);
    *p = (Places){to, count};
}

// Segment i of the list has what exists of place i.
static bool listed_level(TflNode *n, const TflTensor *t, FlatTable table, const Level *level, Places *p)
{
    FlatInt segment_type = FLAT_I32, index_type = FLAT_I32;
    const FlatList segments = read_list(table, LEVEL_SEGMENTS, &segment_type);
    const FlatList indices = read_list(table, LEVEL_INDICES, &index_type);
    if (segments.n != p->n + 1 || flat_list_int(segments, 0, segment_type) != 0 ||
        flat_list_int(segments, segments.n - 1, segment_type) != indices.n)
        return broken(n, t, "its segments are not those of its indices");
    uint64_t *to = ARENA_ARRAY(n->model->arena, uint64_t, indices.n + 1);
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const int64_t end = flat_list_int(segments, i + 1, segment_type);
        if (end < count || end > indices.n)
            return broken(n, t, "its segments are not in order");
        for (int64_t last = -1; count < end; count++) {
            const int64_t k = flat_list_int(indices, count, index_type);
            if (k <= last || k >= level->size)
                return broken(n, t, "its indices are not in order");
            to[count] = p->at[i] + (uint64_t)(k * level->stride);
            last = k;
        }
    }
    *p = (Places){to, count};
    return true;
}

static bool read_places(TflNode *n, const TflTensor *t, Places *p)
{
    const FlatList order = flat_list(t->sparse, SPARSE_ORDER, 4);
    const FlatList levels = flat_list(t->sparse, SPARSE_LEVELS, 4);
    int64_t level_of[MAX_LEVELS];
    Level sizes[MAX_LEVELS];
    if (levels.n > MAX_LEVELS || order.n != levels.n ||
        levels.n != t->shape.rank + flat_list(t->sparse, SPARSE_BLOCKS, 4).n)
        return broken(n, t, "its levels are not those of its axes and blocks");
    if (!read_order(n, t, order, level_of) || !read_sizes(n, t, level_of, sizes))
        return false;
    *p = (Places){ARENA_ARRAY(n->model->arena, uint64_t, 1), 1};
    for (uint32_t i = 0; i < levels.n; i++) {
        const FlatTable table = flat_list_table(levels, i);
        const Level *level = &sizes[flat_list_int(order, i, FLAT_I32)];
        if (flat_int(table, LEVEL_FORMAT, FLAT_I8, 0) == 0)
            whole_level(n, level, p);
        else if (!listed_level(n, t, table, level, p))
            return false;
    }
    return true;
}

const void *tfl_sparse_values(TflNode *n, const TflTensor *t)
{
    const uint64_t bytes = type_bytes(t->dtype, &t->shape), size = dtype_info[t->dtype].bytes;
    Places p;
    if (t->type == TFL_I4) {
        tfl_fail(n, E0206, "tensor '%s' is sparse and of 4 bits, which is not supported", t->name);
        return NULL;
    }
    if (bytes == 0)
        broken(n, t, "it has no elements");
    if (n->failed || !tfl_spend(n, bytes / size) || !read_places(n, t, &p))
        return NULL;
    if (p.n * size != t->bytes) {
        broken(n, t, "its values are more or fewer than its places");
        return NULL;
    }
    uint8_t *to = arena_alloc(n->model->arena, (size_t)bytes + 1);
    memset(to, 0, (size_t)bytes);
    rlx_assert(p.n <= bytes / size);
    for (uint64_t i = 0; i < p.n; i++)
        memcpy(to + p.at[i] * size, (const uint8_t *)t->data + i * size, size);
    return to;
}
