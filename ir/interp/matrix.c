// SPDX-License-Identifier: Apache-2.0
// Matrix registers (KMatrix). Every row knows whether it is made of what nobody wrote.
#include "ir/graph/small_float.h"
#include "ir/interp/machine.h"

#include <string.h>

enum { REGISTERS = 8, ROWS = 16, ROW_BYTES = 64, FIRST_COLUMNS = 6 };

typedef struct MatrixRegister {
    uint32_t rows;
    bool is_poison[ROWS];
    union {
        uint8_t bytes[ROWS][ROW_BYTES];
        uint16_t halves[ROWS][ROW_BYTES / 2];
        int32_t i[ROWS][ROW_BYTES / 4];
        float f[ROWS][ROW_BYTES / 4];
    };
} MatrixRegister;

typedef struct Matrix {
    uint32_t words;
    MatrixRegister of[REGISTERS];
} Matrix;

static void begin(Matrix *x, int64_t rows, int64_t words)
{
    memset(x, 0, sizeof *x);
    x->words = (uint32_t)words;
    for (uint32_t i = 0; i < REGISTERS; i++) {
        x->of[i].rows = (uint32_t)(i < FIRST_COLUMNS ? rows : words);
        memset(x->of[i].is_poison, 1, sizeof x->of[i].is_poison);
    }
}

static void zero(MatrixRegister *x)
{
    const uint32_t rows = x->rows;
    memset(x, 0, sizeof *x);
    x->rows = rows;
}

static void load(const Call *c, uint32_t t, Matrix *all, MatrixRegister *x, int64_t index, int64_t step)
{
    const Code *code = c->code;
    const int64_t size = (int64_t)dtype_info[code->dtype].bytes;
    const uint32_t bytes = x - all->of < FIRST_COLUMNS ? 4 * all->words : ROW_BYTES;
    for (uint32_t i = 0; i < x->rows && c->m->message == NULL; i++) {
        x->is_poison[i] = false;
        param_read(c, t, (Address){code->at, (index + i * step) * size}, x->bytes[i], bytes,
                   &x->is_poison[i]);
    }
}

static bool any_poison(const MatrixRegister *x)
{
    bool any = false;
    for (uint32_t i = 0; i < x->rows; i++)
        any = any || x->is_poison[i];
    return any;
}

static void multiply_halves(const Matrix *all, MatrixRegister *d, const MatrixRegister *x,
                            const MatrixRegister *y)
{
    for (uint32_t i = 0; i < d->rows; i++)
        for (uint32_t k = 0; k < 2 * all->words; k++) {
            const float a = (float)small_float_widen(DTYPE_bf16, x->halves[i][k]);
            for (uint32_t j = 0; j < ROW_BYTES / 4; j++)
                d->f[i][j] += a * (float)small_float_widen(DTYPE_bf16, y->halves[k / 2][2 * j + k % 2]);
        }
}

static void multiply_bytes(const Matrix *all, MatrixRegister *d, const MatrixRegister *x,
                           const MatrixRegister *y)
{
    for (uint32_t i = 0; i < d->rows; i++)
        for (uint32_t k = 0; k < 4 * all->words; k++)
            for (uint32_t j = 0; j < ROW_BYTES / 4; j++) {
                const int32_t product = x->bytes[i][k] * (int8_t)y->bytes[k / 4][4 * j + k % 4];
                d->i[i][j] = (int32_t)((uint32_t)d->i[i][j] + (uint32_t)product);
            }
}

static void multiply(const Matrix *all, const Code *c, MatrixRegister *d, const MatrixRegister *x,
                     const MatrixRegister *y)
{
    (c->dtype == DTYPE_i32 ? multiply_bytes : multiply_halves)(all, d, x, y);
    const bool any = any_poison(y);
    for (uint32_t i = 0; i < d->rows; i++)
        d->is_poison[i] = d->is_poison[i] || x->is_poison[i] || any;
}

static void store(Machine *m, const Code *c, uint32_t t, const MatrixRegister *x)
{
    const Array *a = &m->p->arrays.data[c->at];
    const int64_t index = CELLS(m, int64_t, c->b)[t], step = CELLS(m, int64_t, c->c)[t];
    for (uint32_t i = 0; i < x->rows; i++) {
        const int64_t at = index + i * step;
        if (at < 0 || at + ROW_BYTES / 4 > a->n) {
            step_fail(m, c, t, "row %u begins at element %lld of an array of %lld", i, (long long)at,
                      (long long)a->n);
            return;
        }
        memcpy(m->array_data + a->data + ((size_t)t * (size_t)a->n + (size_t)at) * 4, x->bytes[i], ROW_BYTES);
        memset(m->array_state + a->state + (size_t)t * (size_t)a->n + at,
               x->is_poison[i] ? ELEMENT_UNWRITTEN : ELEMENT_WRITTEN, ROW_BYTES / 4);
    }
}

// The value and what its rounding leaves, as bf16.
static void split(const Call *c, uint32_t t)
{
    Machine *m = c->m;
    const Code *code = c->code;
    const int64_t index = CELLS(m, int64_t, code->a)[t], step = CELLS(m, int64_t, code->b)[t];
    for (uint32_t i = 0; i < code->lanes && m->message == NULL; i++) {
        const float v = CELLS(m, float, code->c)[t * code->lanes + i];
        const uint16_t high = (uint16_t)small_float_narrow(DTYPE_bf16, (double)v);
        const float rest = v - (float)small_float_widen(DTYPE_bf16, high);
        const uint16_t low = (uint16_t)small_float_narrow(DTYPE_bf16, (double)rest);
        const bool is_poison = machine_has_poison(m, code->c, t * code->lanes + i, 4);
        const bool ok = param_write(c, t, (Address){code->at, (index + i) * 2}, &high, 2, is_poison);
        if (ok)
            param_write(c, t, (Address){code->at, (index + i + step) * 2}, &low, 2, is_poison);
    }
}

static void run(const Call *c, uint32_t t)
{
    Machine *m = c->m;
    const Code *code = c->code;
    Matrix *x = (Matrix *)m->matrix + t;
    MatrixRegister *d = &x->of[code->count % REGISTERS];
    const int64_t a = CELLS(m, int64_t, code->a)[t], b = CELLS(m, int64_t, code->b)[t];
    switch ((KMatrix)code->kop) {
    case KMATRIX_begin:
        begin(x, a, b);
        break;
    case KMATRIX_zero:
        zero(d);
        break;
    case KMATRIX_load:
        load(c, t, x, d, a, b);
        break;
    case KMATRIX_mac:
        multiply(x, code, d, &x->of[code->flags & 15], &x->of[code->flags >> 4]);
        break;
    case KMATRIX_store:
        store(m, code, t, d);
        break;
    case KMATRIX_split:
        split(c, t);
        break;
    case KMATRIX_end:
    case KMATRIX_COUNT:
        break;
    }
}

size_t matrix_bytes(void)
{
    return sizeof(Matrix);
}

const Code *step_matrix(Machine *m, Strand *s, const Code *c)
{
    const Call call = {.m = m, .strand = s, .code = c, .begin = s->begin, .end = s->end};
    for (uint32_t t = s->begin; t < s->end && m->message == NULL; t++)
        run(&call, t);
    return m->message == NULL ? c + 1 : NULL;
}
