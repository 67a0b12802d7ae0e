/* For any key and domain: results lie in the domain, back is the inverse of forth, and an index alone gives what
 * it gives among others. Input: 16 bytes of key, 8 of domain, 1 that makes it smaller, then indices. */
#include <stdlib.h>
#include <string.h>

#include "permute/permutation.h"

#define MOST 600 /* more than one block */

static void require(int truth) {
    if (!truth) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int64_t indices[MOST], there[MOST], again[MOST];
    permutation_key key;
    uint64_t number;
    if (size < 25) {
        return 0;
    }
    memcpy(&key, data, sizeof key);
    memcpy(&number, data + 16, sizeof number);
    const int64_t domain = (int64_t)((number & INT64_MAX) >> data[24] % 63);
    if (domain == 0) {
        return 0;
    }
    int64_t n = 0;
    for (size_t at = 25; n < MOST && (at + 8 <= size || n < 70); at += 8, n++) {
        number = (uint64_t)n;
        if (at + 8 <= size) {
            memcpy(&number, data + at, sizeof number);
        }
        indices[n] = (int64_t)(number % (uint64_t)domain);
    }
    require(permutation_forth(key, domain, indices, n, there) == -1);
    require(permutation_back(key, domain, there, n, again) == -1);
    require(memcmp(indices, again, (size_t)n * sizeof *indices) == 0);
    require(permutation_back(key, domain, indices, n, again) == -1);
    require(permutation_forth(key, domain, again, n, again) == -1);
    require(memcmp(indices, again, (size_t)n * sizeof *indices) == 0);
    for (int64_t i = 0; i < n; i++) {
        require(there[i] >= 0 && there[i] < domain);
        if (i % 16 == 0) {
            require(permutation_forth(key, domain, indices + i, 1, again) == -1 && again[0] == there[i]);
        }
    }
    indices[n / 2] = size % 2 ? domain : -1 - (int64_t)size;
    require(permutation_forth(key, domain, indices, n, there) == n / 2);
    require(permutation_back(key, domain, indices, n, there) == n / 2);
    return 0;
}
