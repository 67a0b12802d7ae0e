/* Any bytes parse as an Example or are refused, and what was found comes out whole: see wire_check.h. */
#include "wire_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    check_record(WIRE_EXAMPLE, data, size);
    check_table(WIRE_EXAMPLE, data, size);
    return 0;
}
