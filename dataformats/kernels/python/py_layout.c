/* The wrapper of the layout: pinned extents, and the places of blobs. */
#include "python/py_layout.h"

#include <stdlib.h>
#include <string.h>

#include "scan/tfrecord.h"

#define MOST_MAPS 256 /* of indexes, and of files */
#define EXTENTS "dataformats.extents"
#define FILES "dataformats.files"
#define LAID "dataformats.laid"

/* ---- pinned extents */

static void free_extents(held_extents *held) {
    for (int64_t i = 0; held->sources != NULL && i < held->set.n_files; i++) {
        Py_XDECREF(held->sources[i]);
        if (held->set.parts[i].map.memory != NULL) {
            unmap_file(&held->set.parts[i].map);
        }
    }
    free(held->sources);
    free(held->set.parts);
    PyBuffer_Release(&held->starts);
    PyBuffer_Release(&held->file);
    PyBuffer_Release(&held->offset);
    PyBuffer_Release(&held->length);
    PyBuffer_Release(&held->stored);
    free(held);
}

static void destroy_extents(PyObject *capsule) { free_extents(PyCapsule_GetPointer(capsule, EXTENTS)); }

/* Fill head, tail and check of the field. */
static int take_framing(PyObject *const *args, batch_field *field) {
    long head, tail, check;
    if (take_small(args[0], "head", BATCH_MAX_FRAMING, &head) < 0 ||
        take_small(args[1], "tail", BATCH_MAX_FRAMING, &tail) < 0 ||
        take_small(args[2], "check", BATCH_TFRECORD, &check) < 0) {
        return -1;
    }
    if ((check == BATCH_LENGTH && head < 8) ||
        (check == BATCH_TFRECORD && (head < TFRECORD_HEAD || tail < TFRECORD_TAIL))) {
        PyErr_SetString(PyExc_ValueError, "the check needs a longer head or tail");
        return -1;
    }
    field->head = head;
    field->tail = tail;
    field->check = (batch_check)check;
    return 0;
}

static int take_extents(PyObject *const *args, held_extents *held) {
    if (take_array(args[0], &held->file, 0, "il", 4, "file must be an int32 array") < 0 ||
        take_int64(args[1], &held->offset, "offset must be an int64 array") < 0 ||
        take_int64(args[2], &held->length, "length must be an int64 array") < 0 ||
        (args[3] != Py_None &&
         take_array(args[3], &held->stored, 0, "IL", 4, "stored must be a uint32 array, or None") < 0) ||
        take_framing(args + 4, &held->field) < 0) {
        return -1;
    }
    const Py_ssize_t n = held->offset.len / 8;
    if (held->file.len / 4 != n || held->length.len / 8 != n || (args[3] != Py_None && held->stored.len / 4 != n)) {
        PyErr_SetString(PyExc_ValueError, "file, offset, length and stored must be equally long");
        return -1;
    }
    held->field.extents =
        (layout_extents){held->file.buf, held->offset.buf, held->length.buf, held->stored.buf, n};
    held->has_stored = held->stored.buf != NULL;
    return 0;
}

static PyObject *native_hold_extents(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (check_count("hold_extents", n_args, 7, 7) < 0) {
        return NULL;
    }
    held_extents *held = calloc(1, sizeof *held);
    if (held == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *capsule = take_extents(args, held) < 0 ? NULL : PyCapsule_New(held, EXTENTS, destroy_extents);
    if (capsule == NULL) {
        free_extents(held);
    }
    return capsule;
}

const held_extents *extents_in(PyObject *capsule) { return PyCapsule_GetPointer(capsule, EXTENTS); }

/* ---- indexes */

static int take_index(PyObject *const *args, held_extents *held, crc_kernel *crc32) {
    long has_stored;
    if (take_int64(args[0], &held->starts, "starts must be an int64 array") < 0 ||
        take_framing(args + 1, &held->field) < 0 || take_small(args[4], "has_stored", 1, &has_stored) < 0) {
        return -1;
    }
    const int64_t *starts = held->starts.buf, n = held->starts.len / 8 - 1;
    for (int64_t i = 0; i < n; i++) {
        if (n > INT32_MAX || starts[0] != 0 || starts[i] > starts[i + 1]) {
            PyErr_SetString(PyExc_ValueError, "starts must begin with 0 and not fall");
            return -1;
        }
    }
    held->set = (index_set){starts, calloc((size_t)(n < 0 ? 0 : n) + 1, sizeof(index_part)), n < 0 ? 0 : n, crc32};
    held->sources = calloc((size_t)held->set.n_files + 1, sizeof *held->sources);
    if (held->set.parts == NULL || held->sources == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    held->has_stored = (int)has_stored;
    return 0;
}

static PyObject *native_hold_index(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    if (check_count("hold_index", n_args, 5, 5) < 0) {
        return NULL;
    }
    held_extents *held = calloc(1, sizeof *held);
    if (held == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *capsule =
        take_index(args, held, state_of(module)->crc32) < 0 ? NULL : PyCapsule_New(held, EXTENTS, destroy_extents);
    if (capsule == NULL) {
        free_extents(held);
    }
    return capsule;
}

static int take_numbers(PyObject *const *args, int n, int64_t *numbers) {
    for (int i = 0; i < n; i++) {
        numbers[i] = PyLong_AsLongLong(args[i]);
        if (numbers[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
    }
    return 0;
}

/* Hold the index of one file: (index, file, n, source, is_path), then what `part` has. Return a new bool. */
static PyObject *hold_part(PyObject *const *args, index_part part) {
    held_extents *held = PyCapsule_GetPointer(args[0], EXTENTS);
    int64_t numbers[2];
    long is_path;
    char *source;
    Py_ssize_t n_bytes;
    if (held == NULL || take_numbers(args + 1, 2, numbers) < 0 || take_small(args[4], "is_path", 1, &is_path) < 0 ||
        PyBytes_AsStringAndSize(args[3], &source, &n_bytes) < 0) {
        return NULL;
    }
    const int64_t file = numbers[0], n = numbers[1];
    if (held->sources == NULL || file < 0 || file >= held->set.n_files || held->sources[file] != NULL || n < 0 ||
        n > held->set.starts[file + 1] - held->set.starts[file]) {
        PyErr_SetString(PyExc_ValueError, "no such file, or its index is held, or has too many rows");
        return NULL;
    }
    part.memory = is_path ? NULL : (const uint8_t *)source;
    part.path = source;
    part.n_bytes = n_bytes;
    if (!is_path && !part.is_table) {
        int is_sound;
        Py_BEGIN_ALLOW_THREADS is_sound = index_is_sound(&part, n, held->set.crc32);
        Py_END_ALLOW_THREADS if (!is_sound) { Py_RETURN_FALSE; }
    }
    Py_INCREF(args[3]);
    held->sources[file] = args[3];
    if (is_path && atomic_fetch_add(&held->n_paths, 1) < MOST_MAPS) {
        index_map(&part, n);
    }
    held->set.parts[file] = part;
    atomic_store_explicit(&held->set.parts[file].n, n, memory_order_release);
    Py_RETURN_TRUE;
}

static int is_width(int64_t width) { return width == 0 || width == 1 || width == 2 || width == 4 || width == 8; }

static PyObject *native_hold_blocks(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    int64_t of[8]; /* base, seal, start, extra, and width and constant of both columns */
    (void)module;
    if (check_count("hold_blocks", n_args, 13, 13) < 0 || take_numbers(args + 5, 8, of) < 0) {
        return NULL;
    }
    if (of[0] < 0 || of[1] < 0 || of[1] > UINT32_MAX || !is_width(of[4]) || !is_width(of[6])) {
        PyErr_SetString(PyExc_ValueError, "no such base, seal or width");
        return NULL;
    }
    return hold_part(args, (index_part){.base = of[0],
                                        .seal = (uint32_t)of[1],
                                        .start = of[2],
                                        .extra = of[3],
                                        .length = {of[5], (int)of[4]},
                                        .stored = {of[7], (int)of[6]}});
}

static PyObject *native_hold_table(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    int64_t of[4]; /* base, checksums, start, end */
    (void)module;
    if (check_count("hold_table", n_args, 9, 9) < 0 || take_numbers(args + 5, 4, of) < 0) {
        return NULL;
    }
    return hold_part(
        args, (index_part){.is_table = 1, .base = of[0], .checksums = of[1], .start = of[2], .end = of[3]});
}

int64_t held_look_up(const held_extents *held, const int64_t *records, int64_t n, int32_t *file, int64_t *offset,
                     int64_t *length, uint32_t *stored) {
    if (held->sources == NULL) {
        return layout_look_up(&held->field.extents, records, n, file, offset, length, stored);
    }
    const int reads_files = atomic_load(&held->n_paths) > 0;
    index_cursor cursor;
    int64_t i = 0, near = 0, first = 0, staged = 0;
    index_begin(&cursor);
    for (; i < n; i++) {
        if (reads_files && i == staged) {
            first = i;
            staged = i + index_stage(&held->set, &cursor, records + i, n - i);
        }
        for (; near < n && near <= i + INDEX_AHEAD; near++) {
            if (near > 0 && file[near - 1] >= 0 && records[near] == records[near - 1] + 1 &&
                records[near] < held->set.starts[file[near - 1] + 1]) {
                file[near] = file[near - 1]; /* its row lies behind the last one, which is in the cache */
                continue;
            }
            file[near] = index_file_of(&held->set, records[near]);
            index_prefetch(&held->set, records[near], file[near]);
        }
        if (file[i] < 0 ||
            index_find(&held->set, &cursor, reads_files ? cursor.staged[i - first] : NULL, records[i], file[i],
                       &offset[i], &length[i], &stored[i]) < 0) {
            break;
        }
    }
    index_end(&cursor);
    return i == n ? -1 : i;
}

/* Fill file, offset, length and stored; the length is -1 for a record that cannot be looked up here. Return their
 * number. */
static int64_t find_all(const held_extents *held, const int64_t *records, int64_t n, int32_t *file, int64_t *offset,
                        int64_t *length, uint32_t *stored) {
    int64_t done = 0, n_missing = 0;
    while (done < n) {
        const int64_t at = held_look_up(held, records + done, n - done, file + done, offset + done, length + done,
                                        stored + done);
        if (at < 0) {
            return n_missing;
        }
        done += at;
        offset[done] = stored[done] = 0;
        length[done++] = -1;
        n_missing++;
    }
    return n_missing;
}

static PyObject *native_look_up(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    static const char *const wrong = "file, offset, length and stored must be writable int32, int64, int64 and uint32 "
                                     "arrays, as long as records";
    Py_buffer views[5] = {{0}};
    PyObject *found = NULL;
    (void)module;
    if (check_count("look_up", n_args, 6, 6) < 0) {
        return NULL;
    }
    const held_extents *held = extents_in(args[0]);
    if (held != NULL && take_int64(args[1], &views[0], "records must be an int64 array") == 0 &&
        take_array(args[2], &views[1], PyBUF_WRITABLE, "il", 4, wrong) == 0 &&
        take_array(args[3], &views[2], PyBUF_WRITABLE, "lq", 8, wrong) == 0 &&
        take_array(args[4], &views[3], PyBUF_WRITABLE, "lq", 8, wrong) == 0 &&
        take_array(args[5], &views[4], PyBUF_WRITABLE, "IL", 4, wrong) == 0) {
        const int64_t n = views[0].len / 8;
        if (held->sources == NULL || views[1].len / 4 != n || views[2].len / 8 != n || views[3].len / 8 != n ||
            views[4].len / 4 != n) {
            PyErr_SetString(PyExc_ValueError, wrong);
        } else {
            int64_t n_missing;
            Py_BEGIN_ALLOW_THREADS n_missing = find_all(held, views[0].buf, n, views[1].buf, views[2].buf,
                                                        views[3].buf, views[4].buf);
            Py_END_ALLOW_THREADS found = PyLong_FromLongLong(n_missing);
        }
    }
    for (int i = 0; i < 5; i++) {
        PyBuffer_Release(&views[i]);
    }
    return found;
}

/* ---- files */

static void free_files(held_files *held) {
    for (int64_t i = 0; held->maps != NULL && i < held->n; i++) {
        file_map *map = atomic_load(&held->maps[i]);
        if (map != NULL) {
            unmap_file(map);
            free(map);
        }
    }
    free(held->maps);
    PyBuffer_Release(&held->memories);
    PyBuffer_Release(&held->sizes);
    PyBuffer_Release(&held->mtimes);
    free(held);
}

static void destroy_files(PyObject *capsule) { free_files(PyCapsule_GetPointer(capsule, FILES)); }

static int take_files(PyObject *const *args, held_files *held) {
    if (take_array(args[0], &held->memories, 0, "LQ", 8, "memories must be a uint64 array") < 0 ||
        take_int64(args[1], &held->sizes, "sizes must be an int64 array") < 0 ||
        take_int64(args[2], &held->mtimes, "mtimes must be an int64 array") < 0) {
        return -1;
    }
    held->n = held->sizes.len / 8;
    if (held->memories.len / 8 != held->n || held->mtimes.len / 8 != held->n) {
        PyErr_SetString(PyExc_ValueError, "memories, sizes and mtimes must be equally long");
        return -1;
    }
    held->maps = calloc((size_t)held->n + 1, sizeof *held->maps);
    if (held->maps == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static PyObject *native_hold_files(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (check_count("hold_files", n_args, 3, 3) < 0) {
        return NULL;
    }
    held_files *held = calloc(1, sizeof *held);
    if (held == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *capsule = take_files(args, held) < 0 ? NULL : PyCapsule_New(held, FILES, destroy_files);
    if (capsule == NULL) {
        free_files(held);
    }
    return capsule;
}

held_files *files_in(PyObject *capsule) { return PyCapsule_GetPointer(capsule, FILES); }

const file_map *map_of(held_files *files, int64_t number, int fd, int64_t n_bytes) {
    file_map *known = atomic_load(&files->maps[number]);
    if (known != NULL || atomic_load(&files->n_maps) >= MOST_MAPS) {
        return known;
    }
    file_map *map = malloc(sizeof *map);
    if (map == NULL || map_file(fd, n_bytes, map) < 0) {
        free(map);
        atomic_store(&files->n_maps, MOST_MAPS); /* it would fail again */
        return NULL;
    }
    if (!atomic_compare_exchange_strong(&files->maps[number], &known, map)) {
        unmap_file(map); /* another thread was faster */
        free(map);
        return known;
    }
    atomic_fetch_add(&files->n_maps, 1);
    return map;
}

batch_file file_at(const held_files *files, int64_t number) {
    return (batch_file){(const uint8_t *)(uintptr_t)((const uint64_t *)files->memories.buf)[number], -1,
                        ((const int64_t *)files->sizes.buf)[number], ((const int64_t *)files->mtimes.buf)[number], NULL};
}

/* ---- the layout */

static void free_laid(laid_out *laid) {
    Py_XDECREF(laid->indexes);
    Py_XDECREF(laid->held);
    PyBuffer_Release(&laid->room);
    free(laid->rows);
    free(laid->files);
    free(laid->fields);
    free(laid);
}

static void destroy_laid(PyObject *capsule) { free_laid(PyCapsule_GetPointer(capsule, LAID)); }

/* Fill the files from their capsule. */
static int take_held_files(PyObject *capsule, laid_out *laid) {
    const held_files *held = files_in(capsule);
    if (held == NULL || (laid->files = room_for(held->n, sizeof *laid->files)) == NULL) {
        return -1;
    }
    for (int64_t i = 0; i < held->n; i++) {
        laid->files[i] = file_at(held, i);
    }
    laid->n_files = held->n;
    Py_INCREF(capsule);
    laid->held = capsule;
    return 0;
}

/* Fill the fields from the capsules of their indexes. */
static int take_indexes(PyObject *tuple, laid_out *laid) {
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "indexes must be a tuple");
        return -1;
    }
    laid->n_fields = PyTuple_Size(tuple);
    if ((laid->fields = room_for(laid->n_fields, sizeof *laid->fields)) == NULL) {
        return -1;
    }
    for (int64_t i = 0; i < laid->n_fields; i++) {
        const held_extents *held = extents_in(PyTuple_GetItem(tuple, i));
        if (held == NULL) {
            return -1;
        }
        laid->fields[i] = held->field;
    }
    Py_INCREF(tuple);
    laid->indexes = tuple;
    return 0;
}

/* Point each field to the extents of these records instead of all. Return 1, 0 if one is not a record, or -1. */
static int look_up(laid_out *laid, const int64_t *records, int64_t n) {
    const size_t each = (size_t)n * (sizeof(int64_t) * 2 + sizeof(int32_t) + sizeof(uint32_t));
    if ((laid->rows = room_for(laid->n_fields, each)) == NULL) {
        return -1;
    }
    for (int64_t i = 0; i < laid->n_fields; i++) {
        const held_extents *held = extents_in(PyTuple_GetItem(laid->indexes, i));
        int64_t *offset = (int64_t *)(void *)(laid->rows + (size_t)i * each), *length = offset + n;
        int32_t *file = (int32_t *)(void *)(length + n);
        uint32_t *stored = (uint32_t *)(void *)(file + n);
        int64_t wrong;
        if (atomic_load(&held->n_paths) > 0) {
            Py_BEGIN_ALLOW_THREADS wrong = held_look_up(held, records, n, file, offset, length, stored);
            Py_END_ALLOW_THREADS
        } else {
            wrong = held_look_up(held, records, n, file, offset, length, stored);
        }
        if (wrong >= 0) {
            return 0;
        }
        laid->fields[i].extents = (layout_extents){file, offset, length, held->has_stored ? stored : NULL, n};
    }
    return 1;
}

/* Lay the blobs of each field out in `room`. Return 1, 0 if one does not fit, or -1 with an exception set. */
static int lay_out_all(laid_out *laid, int64_t max_bytes) {
    const int64_t *sizes = files_in(laid->held)->sizes.buf;
    int64_t *at = laid->room.buf, left = laid->room.len / 8;
    for (int64_t i = 0; i < laid->n_fields; i++) {
        batch_field *field = &laid->fields[i];
        const int64_t n = field->extents.n;
        if (left < 2 * n + 1) {
            PyErr_SetString(PyExc_ValueError, "room must be 2 n + 1 long for each field of n blobs");
            return -1;
        }
        for (int64_t row = 0; row < n; row++) { /* brings the data that layout_places needs into the cache */
            at[n + 1 + row] = field->extents.length[row];
        }
        if (layout_places(&field->extents, sizes, laid->n_files, field->head, field->tail, max_bytes, at) <
            0) {
            return 0;
        }
        field->place = at;
        field->extents.length = at + n + 1;
        at += 2 * n + 1;
        left -= 2 * n + 1;
    }
    return 1;
}

/* Return a new list of the numbers of files with blobs that are not in memory. */
static PyObject *files_used(const laid_out *laid) {
    uint8_t *is_used = calloc((size_t)laid->n_files + 1, 1);
    PyObject *numbers = is_used == NULL ? PyErr_NoMemory() : PyList_New(0);
    for (int64_t i = 0; numbers != NULL && i < laid->n_fields; i++) {
        const layout_extents *extents = &laid->fields[i].extents;
        for (int64_t row = 0; row < extents->n; row++) {
            const int32_t file = extents->file[row];
            if (file >= 0 && file < laid->n_files) { /* checked before, but `room` may overlap it */
                is_used[file] = 1;
            }
        }
    }
    for (int64_t i = 0; numbers != NULL && i < laid->n_files; i++) {
        if (!is_used[i] || laid->files[i].memory != NULL) {
            continue;
        }
        PyObject *number = PyLong_FromLongLong(i);
        if (number == NULL || PyList_Append(numbers, number) < 0) {
            Py_CLEAR(numbers);
        }
        Py_XDECREF(number);
    }
    free(is_used);
    return numbers;
}

/* Return (capsule of `laid`, bytes of all blobs of each field, files used), which owns `laid`; NULL with an exception
 * set, and the caller still owns it. */
static PyObject *given(laid_out *laid) {
    PyObject *sums = PyList_New(0), *files = files_used(laid), *capsule = NULL, *found = NULL;
    for (int64_t i = 0; sums != NULL && i < laid->n_fields; i++) {
        PyObject *sum = PyLong_FromLongLong(laid->fields[i].place[laid->fields[i].extents.n]);
        if (sum == NULL || PyList_Append(sums, sum) < 0) {
            Py_CLEAR(sums);
        }
        Py_XDECREF(sum);
    }
    if (sums != NULL && files != NULL && (found = PyTuple_New(3)) != NULL) {
        capsule = PyCapsule_New(laid, LAID, destroy_laid);
    }
    if (capsule == NULL) {
        Py_XDECREF(sums);
        Py_XDECREF(files);
        Py_XDECREF(found);
        return NULL;
    }
    PyTuple_SetItem(found, 0, capsule);
    PyTuple_SetItem(found, 1, sums);
    PyTuple_SetItem(found, 2, files);
    return found;
}

/* Fill `laid`. Return 1, 0 if the blobs cannot be laid out, or -1 with an exception set. */
static int take_laid(PyObject *const *args, laid_out *laid) {
    const long long max_bytes = PyLong_AsLongLong(args[3]);
    if ((max_bytes == -1 && PyErr_Occurred()) || take_indexes(args[0], laid) < 0 ||
        take_held_files(args[2], laid) < 0 ||
        take_array(args[4], &laid->room, PyBUF_WRITABLE, "lq", 8, "room must be a writable int64 array") < 0) {
        return -1;
    }
    if (args[1] != Py_None) {
        Py_buffer records;
        if (take_int64(args[1], &records, "records must be an int64 array, or None") < 0) {
            return -1;
        }
        const int there = look_up(laid, records.buf, records.len / 8);
        PyBuffer_Release(&records);
        if (there != 1) {
            return there;
        }
    }
    return lay_out_all(laid, max_bytes);
}

laid_out *laid_in(PyObject *capsule) { return PyCapsule_GetPointer(capsule, LAID); }

static PyObject *native_lay_out(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    (void)module;
    if (check_count("lay_out", n_args, 5, 5) < 0) {
        return NULL;
    }
    laid_out *laid = calloc(1, sizeof *laid);
    if (laid == NULL) {
        return PyErr_NoMemory();
    }
    const int done = take_laid(args, laid);
    PyObject *found = done == 1 ? given(laid) : NULL;
    if (found == NULL) {
        free_laid(laid);
    }
    if (done == 0) {
        Py_RETURN_NONE;
    }
    return found;
}

PyMethodDef layout_methods[] = {
    FAST(hold_extents, "hold_extents(file, offset, length, stored, head, tail, check, /)\n--\n\n"
                       "Return a capsule of where blobs lie, which holds on to the arrays."),
    FAST(hold_index, "hold_index(starts, head, tail, check, has_stored, /)\n--\n\n"
                     "Return a capsule of the indexes of files, which are held one by one."),
    FAST(hold_blocks, "hold_blocks(index, file, n, source, is_path, base, seal, start, extra, length_width, length, "
                      "stored_width, stored, /)\n--\n\nHold the packed index of a file; return False if it is "
                      "damaged."),
    FAST(hold_table, "hold_table(index, file, n, source, is_path, base, checksums, start, end, /)\n--\n\n"
                     "Hold the table of a file; return True."),
    FAST(look_up, "look_up(index, records, file, offset, length, stored, /)\n--\n\n"
                  "Fill arrays with extents, and a length of -1 where there is none; return the number of those."),
    FAST(hold_files, "hold_files(memories, sizes, mtimes, /)\n--\n\n"
                     "Return a capsule of the files of a dataset, which holds on to the arrays."),
    FAST(lay_out, "lay_out(indexes, records, files, max_bytes, room, /)\n--\n\n"
                  "Lay the blobs of records out back to back; return (capsule, bytes of each field, files), or None "
                  "where they cannot be."),
    {NULL, NULL, 0, NULL},
};
