/* Names of features: looked up in logarithmic time, so that records with many features take linear time. */
#ifndef DATAFORMATS_WIRE_NAMES_H
#define DATAFORMATS_WIRE_NAMES_H

#include <string.h>

#include "wire/wire.h"
#include "wire/wire_reader.h"

static inline wire_span wire_name_of(const wire_names *names, int64_t i) {
    return (wire_span){names->bytes + (i == 0 ? 0 : names->ends[i - 1]), names->bytes + names->ends[i]};
}

/* Return whether name i is this name of a part. */
static inline int wire_is_called(const wire_names *names, int64_t i, int part, wire_span name) {
    const wire_span own = wire_name_of(names, i);
    const ptrdiff_t n_bytes = own.end - own.at;
    return names->parts[i] == part && n_bytes == name.end - name.at && memcmp(own.at, name.at, (size_t)n_bytes) == 0;
}

/* Return the number of a name of a part, or -1. */
int64_t wire_search(const wire_names *names, int part, wire_span name);

#endif
