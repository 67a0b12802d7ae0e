#include "checksum/crc.h"
#include "checksum/crc_fold512.h"

#ifdef DATAFORMATS_AVX512

/* Folding pays from here on: below, sse42 needs no reduction at the end. */
#define CRC32C_MIN 256

/* Return the CRC of at least 64 bytes. Four registers side by side: a product has a latency of several cycles. */
CRC_FOLD512 uint32_t folded(uint32_t value, const uint8_t *data, size_t n_bytes, const crc_factors *factors) {
    __m512i a = crc_first512(value, crc_load512(data));
    size_t at = 64;
    if (n_bytes >= 256) {
        __m512i b = crc_load512(data + 64), c = crc_load512(data + 128), d = crc_load512(data + 192);
        for (at = 256; at + 256 <= n_bytes; at += 256) {
            a = crc_fold512(a, crc_load512(data + at), factors->over_2048);
            b = crc_fold512(b, crc_load512(data + at + 64), factors->over_2048);
            c = crc_fold512(c, crc_load512(data + at + 128), factors->over_2048);
            d = crc_fold512(d, crc_load512(data + at + 192), factors->over_2048);
        }
        /* Each over its own distance, so that no product waits for another. */
        c = crc_fold512(c, d, factors->over_512);
        b = crc_fold512(b, c, factors->over_1024);
        a = crc_fold512(a, b, factors->over_1536);
    }
    for (; at + 64 <= n_bytes; at += 64) {
        a = crc_fold512(a, crc_load512(data + at), factors->over_512);
    }
    return crc_finished512(a, data + at, n_bytes - at, factors);
}

CRC_TARGET512 uint32_t crc32_vpclmul(uint32_t value, const uint8_t *data, size_t n_bytes) {
    return n_bytes < 64 ? crc32_portable(value, data, n_bytes) : folded(value, data, n_bytes, &crc32_factors);
}

CRC_TARGET512 uint32_t crc32c_vpclmul(uint32_t value, const uint8_t *data, size_t n_bytes) {
    return n_bytes < CRC32C_MIN ? crc32c_sse42(value, data, n_bytes) : folded(value, data, n_bytes, &crc32c_factors);
}

#else
typedef int dataformats_no_crc_vpclmul; /* an empty file is not C */
#endif
