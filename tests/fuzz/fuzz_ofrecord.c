/* Any bytes parse as an OFRecord or are refused, and what was found comes out whole: see wire_check.h. */
#include "wire_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_record(WIRE_OFRECORD, data, size);
    check_table(WIRE_OFRECORD, data, size);
    return 0;
}
