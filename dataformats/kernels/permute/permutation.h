/* A keyed permutation of [0, domain): the order in which a shuffled data set is read.
 *
 * The law:
 * - For any key and any domain in [1, 2**63) it is a bijection on [0, domain).
 * - What it gives depends on (key, domain, index) alone: on no machine, byte order, compiler or version. The
 *   vectors in tests/kernels/test_permutation.py are frozen; another algorithm gets another name.
 * - Memory is O(1). An index costs one pass through the rounds, on the average over the domain less than two
 *   (more only for domains below 32, which are widened to 64).
 *
 * The domain is widened to a power of two. Eight rounds mix its bits; while the result lies outside the
 * domain they are repeated: what is left of a random permutation is random. (Cycle walking: Black and
 * Rogaway, "Ciphers with Arbitrary Finite Domains".) A round is an odd multiplier, an addend and another odd
 * multiplier, all from the key, and two shifts that carry high bits down; each is a bijection. Three rounds
 * are the first at which the tests find nothing. It is not a cipher: the order is clean, not secret.
 *
 * Kernels know no Python, keep no state, allocate nothing and may run in any number of threads at once. */
#ifndef DATAFORMATS_PERMUTATION_H
#define DATAFORMATS_PERMUTATION_H

#include <stdint.h>

typedef struct {
    uint64_t words[2];
} permutation_key;

/* Write where each of `indices[0 .. n)` goes to `out`, which may be `indices` itself; `domain` >= 1.
 * Return -1, or the number of the first index outside [0, domain); `out` is then unspecified. */
int64_t permutation_forth(permutation_key key, int64_t domain, const int64_t *indices, int64_t n,
                          int64_t *out);

/* The inverse: write which index goes to each of `indices[0 .. n)`. */
int64_t permutation_back(permutation_key key, int64_t domain, const int64_t *indices, int64_t n, int64_t *out);

#endif
