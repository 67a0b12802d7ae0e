#include "permute/permutation.h"

#include <stddef.h>

#define ROUNDS 8
#define MIN_BITS 6 /* the rounds are weak on fewer; so few records can wait for the walk */
#define BLOCK 512  /* indices that go through the rounds together, in the L1 cache */
#define GAMMA 0x9e3779b97f4a7c15u /* 2**64 divided by the golden ratio, odd: SplitMix64 */

typedef struct {
    uint64_t first, addend, second;
} permutation_round;

typedef struct {
    permutation_round rounds[ROUNDS];
    uint64_t mask; /* all arithmetic is modulo 2**bits */
    unsigned bits, first_shift, second_shift;
} permutation_plan;

/* The finalizer of SplitMix64: G. Steele et al., "Fast Splittable Pseudorandom Number Generators". */
static uint64_t mixed(uint64_t word) {
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}

/* Return constant `number` of a key. Its words are mixed one after the other, never summed: (0, 1) and (1, 0) must
 * differ. */
static uint64_t constant(permutation_key key, uint64_t number) {
    return mixed(mixed(key.words[0] + number * GAMMA) + key.words[1]);
}

static permutation_plan planned(permutation_key key, int64_t domain) {
    permutation_plan plan;
    unsigned bits = MIN_BITS;
    while ((uint64_t)1 << bits < (uint64_t)domain) {
        bits++;
    }
    plan.bits = bits;
    plan.mask = ((uint64_t)1 << bits) - 1;
    /* Measured on 5 to 8 bits: clean from 3 rounds on. Two equal shifts of half the bits leave pairs of
     * neighbors uneven at 16 for 5 rounds. */
    plan.first_shift = bits / 3 + 1;
    plan.second_shift = bits / 2 + 1;
    /* Domains differ, so that the order of a dataset reveals nothing about that of a larger one. */
    key.words[0] = mixed(key.words[0] ^ mixed((uint64_t)domain + GAMMA));
    key.words[1] = mixed(key.words[1] + GAMMA);
    for (unsigned i = 0; i < ROUNDS; i++) {
        plan.rounds[i].first = constant(key, 3 * i) | 1;
        plan.rounds[i].addend = constant(key, 3 * i + 1);
        plan.rounds[i].second = constant(key, 3 * i + 2) | 1;
    }
    return plan;
}

/* Return the inverse of an odd number modulo 2**64: each of Newton's steps doubles the correct bits; an odd
 * number starts with three. */
static uint64_t inverse(uint64_t odd) {
    uint64_t found = odd;
    for (int step = 0; step < 5; step++) {
        found *= 2 - odd * found;
    }
    return found;
}

static permutation_plan inverted(permutation_plan plan) {
    for (unsigned i = 0; i < ROUNDS; i++) {
        plan.rounds[i].first = inverse(plan.rounds[i].first);
        plan.rounds[i].second = inverse(plan.rounds[i].second);
    }
    return plan;
}

typedef void permutation_walk(const permutation_plan *plan, int64_t domain, const int64_t *indices, size_t n,
                              int64_t *out);

/* One pass of words through all rounds, forward and backward, with cycle walking. Words have 32 bits if that is
 * enough, because compilers vectorize those. Words outside the domain are moved to the front, with their places, and
 * go through again: without a branch that the processor would have to predict. */
#define DEFINE_FORTH(name, word_type)                                                               \
    static void name(const permutation_plan *plan, word_type *words, size_t n) {                    \
        const word_type mask = (word_type)plan->mask;                                               \
        for (size_t i = 0; i < n; i++) {                                                            \
            word_type word = words[i];                                                              \
            for (int k = 0; k < ROUNDS; k++) {                                                      \
                const permutation_round *round = &plan->rounds[k];                                  \
                word = (word * (word_type)round->first + (word_type)round->addend) & mask;          \
                word ^= word >> plan->first_shift;                                                  \
                word = word * (word_type)round->second & mask;                                      \
                word ^= word >> plan->second_shift;                                                 \
            }                                                                                       \
            words[i] = word;                                                                        \
        }                                                                                           \
    }
/* A shift by more than half the bits is its own inverse, one by more than a third takes two steps. */
#define DEFINE_BACK(name, word_type)                                                                \
    static void name(const permutation_plan *plan, word_type *words, size_t n) {                    \
        const word_type mask = (word_type)plan->mask;                                               \
        for (size_t i = 0; i < n; i++) {                                                            \
            word_type word = words[i];                                                              \
            for (int k = ROUNDS - 1; k >= 0; k--) {                                                 \
                const permutation_round *round = &plan->rounds[k];                                  \
                word ^= word >> plan->second_shift;                                                 \
                word = word * (word_type)round->second & mask;                                      \
                word ^= word >> plan->first_shift;                                                  \
                word ^= word >> 2 * plan->first_shift;                                              \
                word = (word - (word_type)round->addend) * (word_type)round->first & mask;          \
            }                                                                                       \
            words[i] = word;                                                                        \
        }                                                                                           \
    }
#define DEFINE_WALK(name, word_type, pass)                                                          \
    static void name(const permutation_plan *plan, int64_t domain, const int64_t *indices, size_t n, \
                     int64_t *out) {                                                                \
        word_type words[BLOCK];                                                                     \
        uint16_t places[BLOCK];                                                                     \
        for (size_t i = 0; i < n; i++) {                                                            \
            words[i] = (word_type)indices[i];                                                       \
            places[i] = (uint16_t)i;                                                                \
        }                                                                                           \
        while (n > 0) {                                                                             \
            size_t outside = 0;                                                                     \
            pass(plan, words, n);                                                                   \
            for (size_t i = 0; i < n; i++) {                                                        \
                const word_type word = words[i];                                                    \
                const uint16_t place = places[i];                                                   \
                out[place] = (int64_t)word;                                                         \
                words[outside] = word;                                                              \
                places[outside] = place;                                                            \
                outside += (uint64_t)word >= (uint64_t)domain;                                      \
            }                                                                                       \
            n = outside;                                                                            \
        }                                                                                           \
    }

DEFINE_FORTH(forth_32, uint32_t)
DEFINE_FORTH(forth_64, uint64_t)
DEFINE_BACK(back_32, uint32_t)
DEFINE_BACK(back_64, uint64_t)
DEFINE_WALK(walk_forth_32, uint32_t, forth_32)
DEFINE_WALK(walk_forth_64, uint64_t, forth_64)
DEFINE_WALK(walk_back_32, uint32_t, back_32)
DEFINE_WALK(walk_back_64, uint64_t, back_64)

static int64_t in_blocks(const permutation_plan *plan, permutation_walk *walk, int64_t domain,
                         const int64_t *indices, int64_t n, int64_t *out) {
    int64_t held[BLOCK]; /* a copy, checked and then used: another thread may write to `indices` meanwhile */
    for (int64_t first = 0; first < n; first += BLOCK) {
        const int64_t size = n - first < BLOCK ? n - first : BLOCK;
        for (int64_t i = 0; i < size; i++) {
            held[i] = indices[first + i];
            if (held[i] < 0 || held[i] >= domain) {
                return first + i; /* from outside, a walk may never arrive */
            }
        }
        walk(plan, domain, held, (size_t)size, out + first);
    }
    return -1;
}

int64_t permutation_forth(permutation_key key, int64_t domain, const int64_t *indices, int64_t n,
                          int64_t *out) {
    const permutation_plan plan = planned(key, domain);
    return in_blocks(&plan, plan.bits > 32 ? walk_forth_64 : walk_forth_32, domain, indices, n, out);
}

int64_t permutation_back(permutation_key key, int64_t domain, const int64_t *indices, int64_t n,
                         int64_t *out) {
    const permutation_plan plan = inverted(planned(key, domain));
    return in_blocks(&plan, plan.bits > 32 ? walk_back_64 : walk_back_32, domain, indices, n, out);
}
