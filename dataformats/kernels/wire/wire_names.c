#include "wire/wire_names.h"

#define FEW 8 /* names that are faster compared one by one, because processors predict that they differ */

/* Compare name i with a name in a part: by part, length and bytes. */
static int compare(const wire_names *names, int64_t i, int part, wire_span name) {
    const wire_span own = wire_name_of(names, i);
    const ptrdiff_t n_bytes = own.end - own.at, n_other = name.end - name.at;
    if (names->parts[i] != part) {
        return names->parts[i] - part;
    }
    return n_bytes == n_other ? memcmp(own.at, name.at, (size_t)n_bytes) : n_bytes < n_other ? -1 : 1;
}

/* Move the name at `at` of a heap of n names down to its place. */
static void sift(const wire_names *names, int64_t *heap, int64_t at, int64_t n) {
    const int64_t moved = heap[at];
    const wire_span name = wire_name_of(names, moved);
    for (int64_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n) {
            const int64_t other = heap[child + 1];
            child += compare(names, heap[child], names->parts[other], wire_name_of(names, other)) < 0;
        }
        if (compare(names, heap[child], names->parts[moved], name) <= 0) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

void wire_sort_names(const wire_names *names, int64_t *sorted) {
    const int64_t n = names->n_names;
    for (int64_t i = 0; i < n; i++) {
        sorted[i] = i;
    }
    for (int64_t i = n / 2; i-- > 0;) {
        sift(names, sorted, i, n);
    }
    for (int64_t left = n; left-- > 1;) {
        const int64_t last = sorted[0];
        sorted[0] = sorted[left];
        sorted[left] = last;
        sift(names, sorted, 0, left);
    }
}

int64_t wire_search(const wire_names *names, int part, wire_span name) {
    int64_t low = 0, high = names->n_names; /* the name is in [low, high) */
    while (high - low > FEW) {
        const int64_t middle = low + (high - low) / 2;
        if (compare(names, names->sorted[middle], part, name) <= 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    for (; low < high; low++) {
        if (wire_is_called(names, names->sorted[low], part, name)) {
            return names->sorted[low];
        }
    }
    return -1;
}
