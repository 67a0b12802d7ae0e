/* Any bytes parse as a SequenceExample or are refused, and what was found comes out whole: see wire_check.h. */
#include "wire_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_record(WIRE_SEQUENCE_EXAMPLE, data, size);
    check_table(WIRE_SEQUENCE_EXAMPLE, data, size);
    return 0;
}
