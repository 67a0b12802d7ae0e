/* The wrapper of the kernels for images. */
#include "python/py_native.h"

#include <stdlib.h>
#include <string.h>

#include "image/bilinear.h"
#include "image/png.h"
#include "image/resample.h"

static PyObject *native_png_unfilter(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer rows, out;
    Py_ssize_t row_bytes;
    int channels, done;
    if (!PyArg_ParseTuple(args, "y*niw*:png_unfilter", &rows, &row_bytes, &channels, &out)) {
        return NULL;
    }
    if (out.len >= RELEASE_GIL_BYTES) {
        Py_BEGIN_ALLOW_THREADS done = png_unfilter(rows.buf, rows.len, row_bytes, channels, out.buf, out.len);
        Py_END_ALLOW_THREADS
    } else {
        done = png_unfilter(rows.buf, rows.len, row_bytes, channels, out.buf, out.len);
    }
    PyBuffer_Release(&rows);
    PyBuffer_Release(&out);
    return PyBool_FromLong(done);
}

/* Return 1 if the job was done, 0 if its numbers are out of range, -1 with an exception set. */
static int run(const resample_variant *variant, resample_job *job, const Py_buffer *image, const Py_buffer *out) {
    const int64_t n_bytes = resample_scratch(job);
    if (n_bytes < 0 || image->len / 3 / job->width != job->height || image->len % (3 * job->width) != 0 ||
        out->len != job->part[2] * job->part[3] * 3) {
        return 0;
    }
    void *scratch = room_for(n_bytes, 1);
    if (scratch == NULL) {
        return -1;
    }
    job->image = image->buf;
    Py_BEGIN_ALLOW_THREADS resample(job, variant, scratch, out->buf);
    Py_END_ALLOW_THREADS
    free(scratch);
    return 1;
}

static PyObject *native_resample(PyObject *module, PyObject *args) {
    Py_buffer image, out;
    Py_ssize_t n[8];
    resample_job job;
    int portable = 0;
    memset(&job, 0, sizeof job);
    if (!PyArg_ParseTuple(args, "y*(nn)(ffff)(nn)(nnnn)ppw*|p:resample", &image, &n[0], &n[1], &job.box[0], &job.box[1],
                          &job.box[2], &job.box[3], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7], &job.flip, &job.planes,
                          &out, &portable)) {
        return NULL;
    }
    job.height = n[0];
    job.width = n[1];
    memcpy(job.size, (int64_t[]){n[2], n[3]}, sizeof job.size);
    memcpy(job.part, (int64_t[]){n[4], n[5], n[6], n[7]}, sizeof job.part);
    const int done = run(portable ? &resample_portable : state_of(module)->resample, &job, &image, &out);
    PyBuffer_Release(&image);
    PyBuffer_Release(&out);
    return done < 0 ? NULL : PyBool_FromLong(done);
}

static PyObject *native_bilinear(PyObject *module, PyObject *args) {
    (void)module;
    Py_buffer image, out;
    Py_ssize_t n[5];
    bilinear_job job;
    memset(&job, 0, sizeof job);
    if (!PyArg_ParseTuple(args, "y*(nnn)(nn)pw*:bilinear", &image, &n[0], &n[1], &n[2], &n[3], &n[4], &job.is_float,
                          &out)) {
        return NULL;
    }
    job.height = n[0], job.width = n[1], job.channels = n[2], job.rows = n[3], job.columns = n[4];
    const int64_t n_bytes = bilinear_scratch(&job), width = job.is_float ? (int64_t)sizeof(float) : 1;
    int done = n_bytes >= 0 && image.len == job.height * job.width * job.channels * width &&
               out.len == job.rows * job.columns * job.channels * (int64_t)sizeof(float);
    void *scratch = done ? room_for(n_bytes, 1) : NULL;
    if (scratch != NULL) {
        job.image = image.buf;
        Py_BEGIN_ALLOW_THREADS bilinear(&job, scratch, out.buf);
        Py_END_ALLOW_THREADS
        free(scratch);
    } else if (done) {
        done = -1; /* no memory: an exception is set */
    }
    PyBuffer_Release(&image);
    PyBuffer_Release(&out);
    return done < 0 ? NULL : PyBool_FromLong(done);
}

PyMethodDef image_methods[] = {
    {"bilinear", native_bilinear, METH_VARARGS,
     "bilinear(image, shape, size, is_float, out, /)\n--\n\n"
     "Resize an image without antialiasing; return False if a number is out of range."},
    {"png_unfilter", native_png_unfilter, METH_VARARGS,
     "png_unfilter(rows, row_bytes, channels, out, /)\n--\n\n"
     "Undo the filters of a PNG's rows; return False if they are not valid."},
    {"resample", native_resample, METH_VARARGS,
     "resample(image, shape, box, size, part, flip, planes, out, portable=False, /)\n--\n\n"
     "Resample a box of an RGB image, perhaps by the portable variant; return False if a number is out of range."},
    {NULL, NULL, 0, NULL},
};
