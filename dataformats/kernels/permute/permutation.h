/* A keyed permutation of [0, domain): the order of a shuffled dataset.
 *
 * Guarantees:
 * - It is a bijection on [0, domain) for every key and every domain in [1, 2**63).
 * - The result depends only on (key, domain, index): not on machine, byte order, compiler or version. The vectors in
 *   tests/kernels/test_permutation.py are frozen; another algorithm gets another name.
 * - Memory is O(1). An index costs one pass through the rounds or more, on average over the domain less than two
 *   (more only for domains below 32, which are widened to 64).
 *
 * The domain is widened to a power of two. Eight rounds mix the bits of an index, and are repeated while the result is
 * outside the domain: a random permutation restricted so stays random. (Cycle walking: Black and Rogaway, "Ciphers with
 * Arbitrary Finite Domains".) A round is an odd multiplier, an addend and another odd multiplier, all from the key, and
 * two shifts that carry high bits down; each is a bijection. Three rounds are the fewest with which the statistical
 * tests pass. It is not a cipher: the order is statistically random, not secret.
 *
 * Kernels know no Python, keep no state, allocate nothing and may run in any number of threads at once. */
#ifndef DATAFORMATS_PERMUTATION_H
#define DATAFORMATS_PERMUTATION_H

#include <stdint.h>

typedef struct {
    uint64_t words[2];
} permutation_key;

/* Write the image of each of `indices[0 .. n)` to `out`, which may be `indices` itself; `domain` >= 1.
 * Return -1, or the number of the first index outside [0, domain); `out` is then unspecified. */
int64_t permutation_forth(permutation_key key, int64_t domain, const int64_t *indices, int64_t n,
                          int64_t *out);

/* The inverse: write the preimage of each of `indices[0 .. n)`. */
int64_t permutation_back(permutation_key key, int64_t domain, const int64_t *indices, int64_t n, int64_t *out);

#endif
