/* Convolutions, products and the operators between them as a program: steps over images in a
 * blocked layout.
 *
 * A storage is the memory of images, and a buffer is a range of channels of a storage. A buffer
 * contains images as blocks of GB_V channels: [batch][block][row][column][channel of the block],
 * with a border of zeros (halo) around rows and columns. GB_V is the number of floats in a vector
 * of the processor. It is known when the session is created, and nothing in the model depends on
 * it. If elements are narrower than floats, a block has more channels, so that a pixel of a block
 * always has the same number of bytes.
 *
 * Text that is generated from blocked/ precedes this header: the enumeration of the kinds of steps,
 * which ends with GB_KINDS; the enumeration of activations; and GB_FIELDS, the fields that only
 * steps of some kinds have. */
#ifndef GB_PROGRAM
#define GB_PROGRAM
#include <stddef.h>
typedef struct {
  short slot; /* the number of its memory; several storages may use a slot at different times */
  short halo; /* rows and columns of zeros on each side of an image */
  short rows; /* whether the rows of all batches are the pixels of one image */
  int channels;
  short bytes; /* of an element */
} gb_storage;

typedef struct {
  short storage, planar; /* planar: whether channels are one after the other, as in a tensor */
  int first, channels;   /* its first channel in the storage, which begins a block; their number */
} gb_buffer;

typedef struct {
  short op, out, in, in2, in3; /* buffers, or -1; `in` of a load and `out` of a store are tensors */
  short tensor;                /* a tensor that is read in its own layout, or -1 */
  short weights, bias;         /* tensors, or -1: inputs of the operator, then tables */
  short activation, after;     /* after: whether in2 is added after the activation */
  float alpha, beta;           /* of the activation */
  short chained; /* how many of the next steps may run with it, block by block of channels */
  int group, kernel[2], stride[2], dilation[2], pads[4];
  GB_FIELDS
} gb_step;

/* Numbers of Strassen's algorithm: products (instead of 8), sums of quarters of a matrix, quarters,
 * and blocks of output channels in a group. */
enum { GB_SEVEN = 7, GB_SUMS = 5, GB_QUARTERS = 4, GB_GROUP = 4 };

enum { GB_FLOAT16 = 10 }; /* a type of tensors, as in onnx.TensorProto */

/* How weights are computed before they are packed: (integer - zero point) * scale. Types are those
 * of onnx.TensorProto. Strides are the distances, in elements, between two scales or two zero
 * points along each part. */
enum { GB_PARTS = 6 };
typedef struct {
  short packed, scale; /* tensors; packed is -1 in the entry after the last one of a list */
  short zero;          /* a tensor, or -1 if all zero points are 0 */
  short packed_type, zero_type;
  short zero_sign;   /* -1 if zero points are added */
  short parts_count; /* axes of the weights; an axis that is divided into blocks counts twice */
  int parts[GB_PARTS], scale_strides[GB_PARTS], zero_strides[GB_PARTS];
} gb_unpacking;

/* A tensor of weights. `count` is the number of its elements; it is known only for inputs. */
typedef struct {
  const float *data;
  ptrdiff_t count;
} gb_constant;

typedef struct gb_program {
  const gb_storage *storages;
  const gb_buffer *buffers;
  const gb_step *steps;
  const gb_unpacking *unpackings;
  const float *const *tables;
  short storages_count, slots, buffers_count, steps_count;
} gb_program;

/* Images in a buffer, or rows in a tensor. `data` points to the first element of the first channel.
 * Distances are in units of 4 bytes, whatever the size of an element. */
typedef struct {
  float *data;
  /* in a planar image, each channel counts as a block */
  ptrdiff_t batch, channels, blocks, height, width;
  ptrdiff_t pixel, row, plane, image; /* distances between pixels, rows, blocks, images */
  int is_planar;
  ptrdiff_t bytes, own; /* the bytes of an element; the channels of a block */
} gb_image;

/* A step with everything that is known when it runs. */
typedef struct gb_call {
  const gb_step *step;
  gb_image in, in2, in3, out;
  int read, read2, read3; /* the tensors from which in, in2 and in3 are read directly, or -1 */
  int is_stored;          /* whether it writes directly to tensors of stores (see `maker`) */
  const struct gb_call *maker; /* of a store: the step that writes its tensor directly, or NULL */
  ptrdiff_t first; /* of a store step: the block of channels with which its tensor begins */
  /* the tensor that a load step reads, that a store step writes, or that another step reads in the
   * tensor's own layout */
  float *tensor;
  int is_float16; /* whether the elements of `tensor` are float16 */
  const float *weights, *bias;
  ptrdiff_t units; /* the number of the smallest parts of its work, in blocks or pairs of blocks */
  /* rows: the number of parts of a block; part: the number of pixels of a part; strip: the number
   * of parts that are computed for all blocks before the next parts are */
  ptrdiff_t rows, part, strip;
  int is_flat;      /* whether a part may be any consecutive pixels, not only pixels of a row */
  int is_scattered; /* the same, but the rows of the result have gaps between them */
  /* whether Strassen's algorithm is used; then `rows` is the number of chunks of an image, and
   * `strip` the number of parts of the groups */
  int is_strassen;
  /* whether the scratch memory of a thread keeps the factors of a chunk for the thread's next
   * task */
  int keeps_chunk;
  /* what is derived from the weights once and then kept: for Strassen's algorithm, the sums of
   * their quarters; for Winograd's, the transformed weights, or NULL if each task transforms
   * them */
  const float *derived;
  /* for Strassen's algorithm: whether the columns of each group are of similar magnitude */
  const float *even;
  /* the numbers of rows of a batch: in `in`, and in `in2` */
  ptrdiff_t queries, keys;
  /* the distances in `tensor` between two batches, and between two heads or rows; 0 if all of them
   * share the same elements */
  ptrdiff_t tensor_batch, tensor_part;
  ptrdiff_t tasks; /* of its units, or of its chain; 0 if an earlier step of its chain runs it */
  /* the number of the next steps that its tasks also run, for one pair of blocks of an image after
   * another */
  int chained;
  /* the number of rows and columns to clear around the images at `whole`, or in a chain around the
   * images at `out` */
  ptrdiff_t halo;
  float *whole;
  /* where each task writes the smallest and the largest numbers of its result: as two vectors, at
   * the place of its first unit; NULL if no step needs them */
  float *ranges;
  const struct gb_call *ranged; /* of a grid: the step that has written its ranges, or NULL */
  int has_tiles; /* whether products of narrow numbers may use the processor's matrix tiles */
  /* for each lane: whether the last block has a channel there (then all bits are set) */
  int32_t lanes[16];
} gb_call;

/* The scale and the zero point of bytes. They are those of the step, or those that an earlier step
 * has computed (a grid). */
typedef struct {
  float scale;
  int zero;
} gb_grid;

static inline __attribute__((always_inline, unused)) gb_grid gb_grid_of(const gb_call *c,
                                                                        float scale, int zero) {
  const float *computed = c->in3.data;
  return computed ? (gb_grid){computed[0], (int)computed[1]} : (gb_grid){scale, zero};
}

/* Identifies the chunk of pixels whose factors, or whose points of tiles, a thread keeps from one
 * task of a step to the next. It is at the beginning of the thread's scratch memory. */
typedef struct {
  ptrdiff_t chunk; /* -1: none */
  int is_finite;   /* whether all factors are finite */
} gb_chunk;
enum { GB_CHUNK = 16 }; /* the floats that a gb_chunk takes */

typedef void gb_task(const gb_call *call, ptrdiff_t unit, ptrdiff_t end, float *scratch);

typedef void gb_pack_weights(const float *w, float *to, const gb_step *, ptrdiff_t in,
                             ptrdiff_t out);
typedef void gb_derive_weights(const float *packed, float *to, const gb_call *);
typedef ptrdiff_t gb_scratch_floats(const gb_call *);

/* The bits of gb_instructions: instructions for bfloat16 (vectors, tiles), and for products of
 * bytes (vectors of 256 bits, vectors of 512 bits, tiles). */
enum {
  GB_HAS_BFLOAT16 = 1,
  GB_HAS_TILES = 2,
  GB_HAS_VNNI = 4,
  GB_HAS_VNNI_512 = 8,
  GB_HAS_BYTE_TILES = 16,
};
int gb_instructions(void);

/* The functions that are compiled for each width of vectors. An entry is NULL if a kind has no such
 * function. */
typedef struct {
  int vector, tile;                       /* floats in a vector, pixels of a tile */
  gb_task *tasks[GB_KINDS];               /* compute units of the result */
  gb_pack_weights *packs[GB_KINDS];       /* put weights in the order in which tasks read them */
  gb_derive_weights *derives[GB_KINDS];   /* derive what is kept from packed weights */
  gb_scratch_floats *scratches[GB_KINDS]; /* the memory that a thread needs for itself */
  void (*widen)(const uint16_t *from, float *to, ptrdiff_t n); /* float16 to float */
  gb_task *strassen;
  ptrdiff_t (*pairs_at_once)(ptrdiff_t channels);
  ptrdiff_t (*strassen_floats)(ptrdiff_t channels);
  int (*add_quarters)(const float *packed, float *to, ptrdiff_t in);
} gb_width;

/* The rows or columns of an image that a window reads: from `first` to `last` - 1. */
typedef struct {
  ptrdiff_t first, last;
} gb_span;

static inline __attribute__((always_inline, unused)) gb_span gb_span_of(ptrdiff_t start, int kernel,
                                                                        ptrdiff_t size) {
  const ptrdiff_t end = start + kernel;
  return (gb_span){start < 0 ? 0 : start, end > size ? size : end};
}

typedef float gb_four __attribute__((vector_size(16), aligned(4)));

#if defined(__clang__) || __GNUC__ >= 12
#define GB_CHOSEN(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t gb_four_places __attribute__((vector_size(16)));
#define GB_CHOSEN(a, b, ...) __builtin_shuffle(a, b, (gb_four_places){__VA_ARGS__})
#endif

/* Transposes 4 rows of 4 floats. The distances between rows are in floats. */
static inline __attribute__((always_inline, unused)) void gb_transpose(const float *from,
                                                                       ptrdiff_t step, float *to,
                                                                       ptrdiff_t to_step) {
  const gb_four a = *(const gb_four *)from, b = *(const gb_four *)(from + step);
  const gb_four c = *(const gb_four *)(from + 2 * step), d = *(const gb_four *)(from + 3 * step);
  const gb_four ab = GB_CHOSEN(a, b, 0, 4, 1, 5), cd = GB_CHOSEN(c, d, 0, 4, 1, 5);
  const gb_four ef = GB_CHOSEN(a, b, 2, 6, 3, 7), gh = GB_CHOSEN(c, d, 2, 6, 3, 7);
  *(gb_four *)to = GB_CHOSEN(ab, cd, 0, 1, 4, 5);
  *(gb_four *)(to + to_step) = GB_CHOSEN(ab, cd, 2, 3, 6, 7);
  *(gb_four *)(to + 2 * to_step) = GB_CHOSEN(ef, gh, 0, 1, 4, 5);
  *(gb_four *)(to + 3 * to_step) = GB_CHOSEN(ef, gh, 2, 3, 6, 7);
}

#endif
