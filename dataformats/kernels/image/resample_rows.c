#include "image/resample_rows.h"

static inline uint8_t rounded(int32_t high, int32_t low) {
    const int32_t sum = high * (1 << RESAMPLE_LOW_BITS) + low;
    const int32_t value = (sum + (1 << (RESAMPLE_BITS - 1))) >> RESAMPLE_BITS;
    return (uint8_t)(value > 255 ? 255 : value);
}

static void along_one(const row_plan *plan, const uint8_t *row, uint8_t *out) {
    for (int64_t x = 0; x < plan->n; x++, out += 3) {
        const int64_t from = plan->flip ? plan->n - 1 - x : x;
        const span *of = &plan->spans[from];
        const weight_pair *weights = plan->weights + from * plan->most;
        const uint8_t *at = row + 3 * of->first;
        int32_t high[3] = {0}, low[3] = {0};
        for (int32_t i = 0; i < of->n_pairs; i++, at += 6) {
            const uint8_t *next = at + 3 < plan->end ? at + 3 : at; /* the second of a pair may have weight 0 */
            for (int c = 0; c < 3; c++) {
                high[c] += at[c] * weights[i].high[0] + next[c] * weights[i].high[1];
                low[c] += at[c] * weights[i].low[0] + next[c] * weights[i].low[1];
            }
        }
        for (int c = 0; c < 3; c++) {
            out[c] = rounded(high[c], low[c]);
        }
    }
}

static void along_portable(const row_plan *plan, const uint8_t *row, int64_t y, int64_t n_rows, const row_ring *out) {
    for (int64_t i = 0; i < n_rows; i++) {
        along_one(plan, row + i * plan->row_bytes, ring_row(out, y + i));
    }
}

static void over_portable(const row_ring *ring, const span *rows, const weight_pair *weights, int64_t n,
                          uint8_t *out) {
    for (int64_t x = 0; x < n; x++) {
        int32_t high = 0, low = 0;
        for (int32_t i = 0; i < rows->n_pairs; i++) {
            const uint8_t one = ring_row(ring, rows->first + 2 * i)[x], two = ring_row(ring, rows->first + 2 * i + 1)[x];
            high += one * weights[i].high[0] + two * weights[i].high[1];
            low += one * weights[i].low[0] + two * weights[i].low[1];
        }
        out[x] = rounded(high, low);
    }
}

const resample_variant resample_portable = {along_portable, over_portable};

#ifdef DATAFORMATS_X86
static const resample_variant resample_avx2 = {resample_along_avx2, resample_over_avx2};
#endif

const resample_variant *resample_choose(void) {
#ifdef DATAFORMATS_X86
    if (cpu_has_avx2()) {
        return &resample_avx2;
    }
#endif
    return &resample_portable;
}
