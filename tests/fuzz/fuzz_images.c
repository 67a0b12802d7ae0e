/* Any rows of a PNG are unfiltered within their memory, or refused; each job of resampling or interpolation is refused,
 * or fills its memory and no more, with pixels within the range of the image. Input: the choice, then pixels. */
#include "fuzz.h"
#include "image/bilinear.h"
#include "image/png.h"
#include "image/resample.h"

static void unfilter(input *in) {
    const int channels = (int)next_below(in, 6);
    const int64_t row_bytes = next_below(in, 64), n_out = next_below(in, 512), n = (int64_t)left_in(in);
    uint8_t *rows = exact_copy(in->at, (size_t)n), *out = exact_room((size_t)n_out);
    if (png_unfilter(rows, n, row_bytes, channels, out, n_out)) {
        CHECK(n == n_out + n_out / row_bytes);
        for (int64_t at = 0; at < n; at += row_bytes + 1) {
            CHECK(rows[at] <= 4);
        }
    }
    free(rows);
    free(out);
}

static void resampled(input *in) {
    resample_job job = {.height = next_below(in, 40), .width = next_below(in, 40)};
    for (int i = 0; i < 4; i++) {
        job.box[i] = (float)next_below(in, 300) / 7.0F;
        job.part[i] = next_below(in, 40);
    }
    job.size[0] = next_below(in, 60);
    job.size[1] = next_below(in, 60);
    job.flip = next_byte(in) & 1;
    job.planes = next_byte(in) & 1;
    const int64_t n = resample_scratch(&job), n_in = job.height * job.width * 3, n_out = job.part[2] * job.part[3] * 3;
    if (n < 0) {
        return;
    }
    uint8_t *image = exact_room((size_t)n_in), *scratch = exact_room((size_t)n), *out = exact_room((size_t)n_out);
    uint8_t least = 255, most = 0;
    for (int64_t i = 0; i < n_in; i++) {
        image[i] = next_byte(in);
        least = image[i] < least ? image[i] : least;
        most = image[i] > most ? image[i] : most;
    }
    job.image = image;
    resample(&job, &resample_portable, scratch, out);
    uint8_t *again = exact_copy(out, (size_t)n_out);
    resample(&job, resample_choose(), scratch, out);
    CHECK(n_out == 0 || memcmp(again, out, (size_t)n_out) == 0);
    free(again);
    for (int64_t i = 0; i < n_out; i++) {
        CHECK(out[i] >= least && out[i] <= most);
    }
    free(image);
    free(scratch);
    free(out);
}

static void interpolated(input *in) {
    bilinear_job job = {.height = next_below(in, 40), .width = next_below(in, 40), .channels = next_below(in, 18)};
    job.rows = next_below(in, 60);
    job.columns = next_below(in, 60);
    const int64_t n = bilinear_scratch(&job), n_in = job.height * job.width * job.channels;
    const int64_t n_out = job.rows * job.columns * job.channels;
    if (n < 0) {
        return;
    }
    uint8_t *image = exact_room((size_t)n_in), *scratch = exact_room((size_t)n);
    float *floats = exact_room((size_t)n_in * sizeof *floats), *out = exact_room((size_t)n_out * sizeof *out);
    float *again = exact_room((size_t)n_out * sizeof *again);
    float least = 255.0F, most = 0.0F;
    for (int64_t i = 0; i < n_in; i++) {
        image[i] = next_byte(in);
        floats[i] = image[i];
        least = floats[i] < least ? floats[i] : least;
        most = floats[i] > most ? floats[i] : most;
    }
    job.image = image;
    bilinear(&job, scratch, out);
    job.image = floats;
    job.is_float = 1;
    bilinear(&job, scratch, again);
    CHECK(memcmp(again, out, (size_t)n_out * sizeof *out) == 0);
    for (int64_t i = 0; i < n_out; i++) {
        CHECK(out[i] >= least - 0.001F && out[i] <= most + 0.001F); /* float32 rounds */
    }
    free(image);
    free(scratch);
    free(floats);
    free(out);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    switch (next_byte(&in) % 3) {
    case 0:
        resampled(&in);
        break;
    case 1:
        unfilter(&in);
        break;
    default:
        interpolated(&in);
    }
    return 0;
}
