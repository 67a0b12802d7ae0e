#include "checksum/crc.h"
#include "checksum/crc_fold.h"

#ifdef DATAFORMATS_X86

/* 16 bytes a lane, four lanes side by side: a product has a latency of several cycles. Encoding this with AVX
 * gained nothing on a processor of 2023. */
__attribute__((target("sse4.1,pclmul"))) uint32_t crc32_pclmul(uint32_t value, const uint8_t *data, size_t n_bytes) {
    if (n_bytes < 64) {
        return crc32_portable(value, data, n_bytes);
    }
    const crc_factors *factors = &crc32_factors;
    __m128i a = _mm_xor_si128(crc_load128(data), _mm_cvtsi32_si128((int)~value));
    __m128i b = crc_load128(data + 16), c = crc_load128(data + 32), d = crc_load128(data + 48);
    for (data += 64, n_bytes -= 64; n_bytes >= 64; data += 64, n_bytes -= 64) {
        a = crc_fold(a, crc_load128(data), factors->over_512);
        b = crc_fold(b, crc_load128(data + 16), factors->over_512);
        c = crc_fold(c, crc_load128(data + 32), factors->over_512);
        d = crc_fold(d, crc_load128(data + 48), factors->over_512);
    }
    a = crc_fold(crc_fold(crc_fold(a, b, factors->over_128), c, factors->over_128), d, factors->over_128);
    return crc_finished(a, data, n_bytes, factors);
}

#else
typedef int dataformats_no_crc32_pclmul; /* an empty file is not C */
#endif
