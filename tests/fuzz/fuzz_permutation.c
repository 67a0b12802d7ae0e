/* For any key and domain: results lie in the domain, back is the inverse of forth, and an index alone gives what
 * it gives among others. Input: 16 bytes of key, 8 of domain, 1 that makes it smaller, then indices. */
#include "fuzz.h"
#include "permute/permutation.h"

#define MOST 600 /* indices: more than one block; mostly a few */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int64_t indices[MOST], there[MOST], again[MOST];
    input in = {data, data + size};
    const permutation_key key = {{next_bytes(&in, 8), next_bytes(&in, 8)}};
    const uint64_t number = next_bytes(&in, 8) & INT64_MAX;
    const int64_t domain = (int64_t)(number >> next_byte(&in) % 63);
    const uint64_t choice = choice_of(data, size);
    const int64_t n = choice % 512 == 0 ? MOST : 1 + (int64_t)(choice >> 9) % (choice % 16 == 0 ? 64 : 8);
    if (domain == 0) {
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        indices[i] = (int64_t)((left_in(&in) > 0 ? next_bytes(&in, 8) : (uint64_t)i) % (uint64_t)domain);
    }
    CHECK(permutation_forth(key, domain, indices, n, there) == -1);
    CHECK(permutation_back(key, domain, there, n, again) == -1);
    CHECK(memcmp(indices, again, (size_t)n * sizeof *indices) == 0);
    CHECK(permutation_back(key, domain, indices, n, again) == -1);
    CHECK(permutation_forth(key, domain, again, n, again) == -1);
    CHECK(memcmp(indices, again, (size_t)n * sizeof *indices) == 0);
    for (int64_t i = 0; i < n; i++) {
        CHECK(there[i] >= 0 && there[i] < domain);
    }
    const int64_t alone = (int64_t)(number % (uint64_t)n);
    CHECK(permutation_forth(key, domain, indices + alone, 1, again) == -1 && again[0] == there[alone]);
    indices[n / 2] = size % 2 ? domain : -1 - (int64_t)size;
    CHECK(permutation_forth(key, domain, indices, n, there) == n / 2);
    CHECK(permutation_back(key, domain, indices, n, there) == n / 2);
    return 0;
}
