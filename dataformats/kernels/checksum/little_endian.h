/* Little-endian integers, byte by byte, so that they read the same on every machine. Compilers generate one load. */
#ifndef DATAFORMATS_LITTLE_ENDIAN_H
#define DATAFORMATS_LITTLE_ENDIAN_H

#include <stdint.h>

static inline uint32_t load32_le(const uint8_t *data) {
    return (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
}

static inline uint64_t load64_le(const uint8_t *data) {
    return (uint64_t)load32_le(data) | (uint64_t)load32_le(data + 4) << 32;
}

#endif
