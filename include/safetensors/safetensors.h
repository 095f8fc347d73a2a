/* safetensors.h - reads and writes safetensors files. This header is the whole C API.
 *
 * This program lists the tensors of a model and reads one of them into memory:
 *
 *     #include <safetensors/safetensors.h>
 *     #include <stdio.h>
 *
 *     int main(void) {
 *       st_error error = ST_INIT(st_error);
 *       st_file *file = NULL;
 *       const st_tensor *bias;
 *       float values[3];
 *       size_t i;
 *
 *       if (st_open("model.safetensors", NULL, &file, &error) != ST_OK) {
 *         fprintf(stderr, "%s\n", error.message);
 *         return 1;
 *       }
 *       for (i = 0; i < st_count_tensors(file); ++i) {
 *         const st_tensor *tensor = st_get_tensor_at(file, i);
 *         printf("%s %s\n", st_tensor_dtype_name(tensor), st_tensor_name(tensor, NULL));
 *       }
 *       bias = st_get_tensor(file, "bias");
 *       if (bias != NULL && st_tensor_read(bias, values, sizeof(values), &error) == ST_OK) {
 *         printf("%g %g %g\n", values[0], values[1], values[2]);
 *       }
 *       st_free(file);
 *       return 0;
 *     }
 *
 * Conventions. They hold for every function below unless its comment says otherwise.
 *
 *  1. Errors. A function that can fail returns an st_status and takes `st_error *err` last. On
 *     success it returns ST_OK. On failure it fills *err, unless err is NULL, and leaves its other
 *     out-parameters as they were. Any such function may return ST_ERR_ARGUMENT, ST_ERR_NO_MEMORY
 *     and ST_ERR_INTERNAL, and with options or flags ST_ERR_STRUCT_SIZE and ST_ERR_UNSUPPORTED;
 *     its comment names the other statuses.
 *  2. A function that returns anything else than a status cannot fail. What its NULL or 0 stands
 *     for is said there.
 *  3. Ownership. What a function returns through `T **out` belongs to the caller, who gives it to
 *     the free function that is named there. Every other pointer that is returned is borrowed: the
 *     caller does not free it, and it is valid as long as the object that was asked for it. What is
 *     passed in stays the caller's; where it is kept after the call, the comment says so.
 *  4. NULL. A pointer may be NULL only where the comment says so. Functions that return a status
 *     answer any other NULL with ST_ERR_ARGUMENT. Free functions ignore NULL. All other functions
 *     do not look: there NULL crashes the process.
 *  5. Threads. Any number of threads may use the same const handle at the same time. While a
 *     function with a non-const handle or a free function runs, no other call may use the handle.
 *  6. Text. Strings are UTF-8, paths included; on POSIX systems the bytes of a path are passed on
 *     unchecked. Lengths are in bytes. Strings that are returned end with a NUL, which their length
 *     does not count; tensor names and metadata may also hold NULs, other strings never do. A
 *     function that ends in _n is the one without it, with a length for each string: what it takes
 *     need not end with a NUL.
 *  7. Structs. Every public struct begins with struct_size, which is set to the size of the struct
 *     as the caller was compiled; ST_INIT does that. (But for st_device_copy, of which there are
 *     arrays, and which never grows.) A member that is zero stands for its default.
 *     Later versions only append members, up to 1024 bytes in all. ST_ERR_STRUCT_SIZE is
 *     returned for a struct_size that no version of the struct has, and for a longer struct with a
 *     non-zero member that this library does not know. Unknown flags, and unknown values of
 *     enumerations, are ST_ERR_UNSUPPORTED. A struct that the library returns says in struct_size
 *     how long it is there.
 *  8. Process. The library prints nothing, never aborts, reads no environment variable, and keeps
 *     no thread: where a function starts threads, its comment says so, and they have ended when it
 *     returns. (simdjson, on which it is built, reads SIMDJSON_FORCE_IMPLEMENTATION once.)
 *  9. Versions. Functions, members and constants exist since version 0.1.0, unless their comment
 *     names a later one.
 * 10. Constants are enumerators, which tools that read headers see; macros are only those that
 *     must be. Enumerations are of type int32_t, and each has an unused negative constant that ends
 *     in SIGNED_, so that such tools find the same type. Flags are of type uint32_t: one is
 *     removed by `flags &= ~(uint32_t)ST_OPEN_STRICT`.
 * 11. Callbacks. A function of the caller tells of a failure by what it returns; no exception and
 *     no longjmp may leave it.
 * 12. close. A function takes ownership of the struct that it is given if the struct has a `close`.
 *     The library then calls close exactly once, even if the function fails. The one exception is
 *     a struct_size that no version of the struct has: the library reads nothing else of such a
 *     struct, and does not call close. This cannot happen to a struct that ST_INIT made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Who links the archive on Windows defines ST_STATIC (CMake, and pkg-config --static, do). */
#ifndef ST_API
#if defined(_WIN32) && defined(ST_BUILDING)
#define ST_API __declspec(dllexport)
#elif defined(_WIN32) && !defined(ST_STATIC)
#define ST_API __declspec(dllimport)
#elif defined(__GNUC__)
#define ST_API __attribute__((visibility("default")))
#else
#define ST_API
#endif
#endif

/* ---- What every function uses ---------------------------------------------------------------- */

/* ST_INIT(type) is a value of a public struct with struct_size set and all else zero:
 *     st_open_options options = ST_INIT(st_open_options); */
#ifdef __cplusplus
extern "C++" {
template <class T>
inline T st_init_() {
  T t = T();
  t.struct_size = (uint32_t)sizeof(T);
  return t;
}
}
#define ST_INIT(type) st_init_<type>()
#else
#define ST_INIT(type) ((type){.struct_size = (uint32_t)sizeof(type)})
#endif

/* ST_OK or one of the ST_ERR_ constants, which are listed under "Errors" below. */
typedef int32_t st_status;

/* What went wrong. The struct is the caller's, usually on the stack; the library keeps no error
 * state of its own. Only its first struct_size bytes are written, whatever that number is, except
 * that 0 counts as 256: so a struct that is all zero gets the whole error, too. (No version of the
 * struct is shorter. Since version 0.2.0; before, nothing was written then.) */
typedef struct st_error {
  uint32_t struct_size; /* Set by ST_INIT, and never changed by the library.                 */
  st_status status;     /* The status that the function returned.                            */
  int32_t os_error;     /* errno or GetLastError(); with ST_ERR_DEVICE, the driver's own number; 0
                           if the system reported no error.                                  */
  uint32_t reserved;    /* 0                                                                 */
  uint64_t offset;      /* Byte of the file at which the fault lies; UINT64_MAX if it has no such
                           place.                                                            */
  char message[232];    /* One line that names the file or the tensor, and the numbers.      */
} st_error;

/* ---- Opening --------------------------------------------------------------------------------- */

/* An open checkpoint: one file, or all files ("shards") of one model. It never changes, and it is
 * counted by reference: see st_retain. */
typedef struct st_file st_file;

/* One tensor of an st_file, from which it is borrowed. */
typedef struct st_tensor st_tensor;

/* How tensor data is accessed. This concerns files; the view of memory given to st_open_memory is
 * that memory, and a source given to st_open_source has no view. */
typedef int32_t st_io;
enum {
  /* Map the file when st_tensor_data or st_tensor_slice first asks for a view of it, or while it is
   * opened if the process has many descriptors open. Do not map it on network and FUSE mounts, nor
   * if the system refuses. */
  ST_IO_AUTO = 0,
  /* Map the file for reading while it is opened. ST_ERR_MAP if the system refuses. */
  ST_IO_MAP = 1,
  /* As ST_IO_MAP, but the view may be written to (through a cast). What is written there changes
   * neither the file nor what the reading functions return. */
  ST_IO_COPY = 2,
  /* Do not map the file: there are no views, and reading raises no SIGBUS. */
  ST_IO_READ = 3,
  ST_IO_SIGNED_ = -1
};

/* Flags of st_open_options. The first two exclude each other. Without them a file is taken or
 * refused as by the reference implementation, with a few differences (docs/format.md). */
enum {
  ST_OPEN_STRICT = 1 << 0,         /* Refuse also what some writers do against the rules.    */
  ST_OPEN_REFERENCE = 1 << 1,      /* Take exactly the files that the reference takes.       */
  ST_OPEN_UNKNOWN_DTYPES = 1 << 2, /* List tensors of unknown dtypes: ST_DTYPE_UNKNOWN.      */
  ST_OPEN_FOLLOW_LINKS = 1 << 3    /* Follow the link of a shard to any place.               */
};

/* Memory for the headers, tables and names that an open file keeps. The struct is copied. Both
 * functions may be called from several threads at once (see st_open_options.threads), and until the
 * file is freed for good. */
typedef struct st_allocator {
  uint32_t struct_size;
  uint32_t flags; /* 0                                  */
  void *ctx;      /* Passed on to the two functions.    */
  /* Returns size bytes at a multiple of align, or NULL if there is no memory. */
  void *(*alloc)(void *ctx, size_t size, size_t align);
  /* Takes back ptr, which alloc returned for the same size and align. */
  void (*free)(void *ctx, void *ptr, size_t size, size_t align);
} st_allocator;

typedef struct st_open_options {
  uint32_t struct_size;
  uint32_t flags;                /* Any of the ST_OPEN_ flags.                               */
  st_io io;                      /* How tensor data is accessed.                             */
  uint32_t threads;              /* Threads that read the headers of many shards, the calling one
                                    included; 0: one per processor. 1: none is started, and while
                                    the file is opened the caller's functions are called on the
                                    calling thread only.                                     */
  uint64_t max_header_bytes;     /* The longest header, and the longest index, that is taken. 0, or
                                    above 100,000,000: the format's limit, 100,000,000. The sum
                                    of all headers has another limit: see st_open.           */
  const st_allocator *allocator; /* NULL: memory comes from the C++ runtime.                 */
} st_open_options;

/* Opens the checkpoint at a path, and checks all of its headers.
 *
 * path is one of these:
 *   - a safetensors or bintensors file; its content decides which (with ST_OPEN_REFERENCE only
 *     safetensors is known);
 *   - the index of a model of several files, whose name ends in ".index.json";
 *   - a directory, which stands for the first of these that is in it:
 *       1. model.safetensors.index.json;
 *       2. model.safetensors;
 *       3. the only index NAME.safetensors.index.json. Other names that end in ".index.json" are
 *          opened by their own path only;
 *       4. the only file NAME.safetensors, or the only set of numbered shards, such as
 *          NAME-00001-of-00003.safetensors. Numbers may have any number of digits.
 *     Until version 0.3 an index came before model.safetensors, and a file before a set.
 *
 * Shards must lie in or below the folder of their index. A symbolic link of a shard may lead out of
 * it only in the cache of a model hub, from snapshots/ to blobs/, or with ST_OPEN_FOLLOW_LINKS.
 * Two shards must not be the same file, by two spellings of its path or by links. The headers of
 * all shards have at most 400,000,000 bytes in sum, which is enough for about 3,000,000 tensors.
 * This bounds the memory that opening takes. (Both since version 0.3.)
 * Starts threads if there are several shards.
 *
 * options may be NULL. *out is freed with st_free.
 *
 * ST_ERR_OPEN   the path does not exist, cannot be opened or is no regular file, or the directory
 *               holds no model, or several: the message names two of them.
 * ST_ERR_READ   the system could not read the file.
 * ST_ERR_MAP    the system refuses the mapping that options.io demands.
 * ST_ERR_SHARD  a shard is missing or lies out of bounds, two shards are one file, or the index and
 *               the shards differ.
 * ST_ERR_HEADER_SIZE  a header, the index or the sum of the headers is too long.
 * 3xx           the content of a file is wrong: see "Errors". */
ST_API st_status st_open(const char *path, const st_open_options *options, st_file **out,
                         st_error *err);

/* Since version 0.2.0. ST_ERR_ARGUMENT if the path holds a NUL. */
ST_API st_status st_open_n(const char *path, size_t len, const st_open_options *options,
                           st_file **out, st_error *err);

/* Opens one whole file that lies in memory. The memory is the caller's and must not change until
 * release(ctx) is called; that happens exactly once, also if this function fails, and on whichever
 * thread frees the file last. release may be NULL; the memory must then outlive the file.
 *
 * data may be NULL if size is 0. options may be NULL. *out is freed with st_free.
 * Returns 3xx if the content is wrong. */
ST_API st_status st_open_memory(const void *data, size_t size, void (*release)(void *ctx),
                                void *ctx, const st_open_options *options, st_file **out,
                                st_error *err);

/* Opens the file that lies in size bytes from byte offset of an open descriptor, such as a model
 * inside an archive; size 0 means up to the end. fd is an int, or a HANDLE on Windows. It stays the
 * caller's, may be closed at once, and its position is neither used nor moved.
 *
 * options may be NULL. *out is freed with st_free.
 * ST_ERR_RANGE if these bytes are not inside the file; all else as for st_open. */
ST_API st_status st_open_fd(intptr_t fd, uint64_t offset, uint64_t size,
                            const st_open_options *options, st_file **out, st_error *err);

/* Flags of st_source. */
enum {
  /* read_at must not be called by two threads at once. The library then calls it by one at a time,
   * whichever threads read from the file, and a plan reads on the calling thread alone unless its
   * options ask for more. So read_at must not read from the same file through this library. For a
   * function that only one thread may call, read on that thread, and run plans with threads = 1.
   * Since version 0.2.0. */
  ST_SOURCE_SERIAL = 1 << 0
};

/* Bytes that the caller provides: a part of an archive, a remote object, a cache. */
typedef struct st_source {
  uint32_t struct_size;
  uint32_t flags; /* ST_SOURCE_SERIAL, or 0.           */
  void *ctx;      /* Passed on to the two functions.   */
  uint64_t size;  /* Bytes of the whole file.          */
  /* Copies n bytes from byte offset to dst and returns 0, or returns another number, which ends the
   * library's call with ST_ERR_CALLBACK and stands in its message. n is at least 1, and the bytes
   * are inside size. Whichever threads read from the file call it, several at once unless flags
   * forbid that. A plan that runs with threads = 1, and every function that starts no threads,
   * calls it on the calling thread only. It may run other plans, also for the same device: the
   * plan that calls it holds no staging memory meanwhile (since version 0.3; before, such a plan
   * could wait forever). */
  int32_t (*read_at)(void *ctx, uint64_t offset, void *dst, size_t n);
  /* Called once when the file is freed for good, or when opening it fails. May be NULL. */
  void (*close)(void *ctx);
} st_source;

/* Opens one whole file that the caller's functions read. Opening calls read_at for the first 16 KiB
 * (or for all of a shorter file), and once more if the header is longer. The struct is copied. Its
 * close is called even if this function fails (convention 12).
 *
 * options may be NULL. *out is freed with st_free.
 * Returns ST_ERR_CALLBACK if read_at fails, and 3xx if the content is wrong. */
ST_API st_status st_open_source(const st_source *source, const st_open_options *options,
                                st_file **out, st_error *err);

/* Returns the same file with one more reference to it, which needs an st_free of its own. Threads
 * may retain the file, and free references of their own, at the same time. NULL gives NULL. */
ST_API st_file *st_retain(const st_file *file);

/* Gives up one reference. The last one closes the file, unmaps it and frees all that was borrowed
 * from it. */
ST_API void st_free(st_file *file);

/* ---- Checking -------------------------------------------------------------------------------- */

/* A report of everything that is wrong with a file or a model. Since version 0.2.0, as all of this
 * section. */
typedef struct st_report st_report;

/* Flags of st_finding. */
enum {
  ST_FINDING_NOTE = 1 << 0 /* The file is valid: it only differs from what writers write.      */
};

/* One deviation. Its strings are the report's, and end with a NUL. */
typedef struct st_finding {
  uint32_t struct_size;
  st_status status;    /* What is wrong: the status that opening the file would return for it.  */
  uint32_t flags;      /* ST_FINDING_NOTE, or 0.                                                */
  int32_t os_error;    /* As in st_error.                                                       */
  uint64_t offset;     /* As in st_error, in the file at path.                                  */
  const char *path;    /* The file that it concerns: the index, or a shard of it.               */
  size_t path_len;
  const char *tensor;  /* The name of the tensor that it concerns; NULL if there is none.       */
  size_t tensor_len;
  const char *message; /* One line.                                                             */
  size_t message_len;
} st_finding;

/* Checks what st_open would open at this path: the headers, and the index and the shards of a model
 * against each other, both ways. Reads no data of tensors.
 *
 * Where st_open returns a 3xx, the report has that fault first among those of its file, and then
 * the others that can be known: of a header whose grammar breaks off those up to that place. A
 * valid file has notes at most: on data or tensors that are less aligned than usual or than their
 * elements need, on another order than the reference's writer has, on a header that is spelled in
 * another way, on all that ST_OPEN_STRICT refuses, on tensors that the index does not list, and on
 * a wrong total_size of the index. After 1000 findings of a file, one more says that the others
 * are left out; its first error never is. After those of an index no further shard is looked at.
 * Takes memory for a few copies of the headers, however many findings there are.
 *
 * Of options, which may be NULL, flags and max_header_bytes count. *out is freed with
 * st_report_free. ST_ERR_OPEN if there is no such file, or no model in the folder, and
 * ST_ERR_SHARD if the folder has no index and not all of its numbered shards. */
ST_API st_status st_check(const char *path, const st_open_options *options, st_report **out,
                          st_error *err);

/* ST_ERR_ARGUMENT if the path holds a NUL. */
ST_API st_status st_check_n(const char *path, size_t len, const st_open_options *options,
                            st_report **out, st_error *err);

/* Returns how many findings there are; 0 if all is as writers write it. */
ST_API size_t st_count_findings(const st_report *report);

/* Returns finding i, file after file, or NULL if i is too large. It is valid until the report is
 * freed. */
ST_API const st_finding *st_get_finding(const st_report *report, size_t i);

/* Frees a report. */
ST_API void st_report_free(st_report *report);

/* ---- Looking at the tensors ------------------------------------------------------------------ */

/* Returns how many tensors there are. */
ST_API size_t st_count_tensors(const st_file *file);

/* Returns tensor i in the order of the data, shard after shard, or NULL if i is too large. */
ST_API const st_tensor *st_get_tensor_at(const st_file *file, size_t i);

/* Returns the tensor of this name, or NULL if there is none. */
ST_API const st_tensor *st_get_tensor(const st_file *file, const char *name);
ST_API const st_tensor *st_get_tensor_n(const st_file *file, const char *name, size_t len);

/* Returns the tensor's name and, if len is not NULL, its length. */
ST_API const char *st_tensor_name(const st_tensor *tensor, size_t *len);

/* The type of a tensor's elements. In memory and in files elements are little-endian. Packed ones
 * (F6, F4) are handed on as whole bytes; which bits of a byte come first is up to who wrote them.
 * Numbers never change their meaning. */
typedef int32_t st_dtype;
enum {
  ST_DTYPE_UNKNOWN = 0, /* A dtype that this library does not know.                          */
  ST_BOOL = 1,          /* One byte, 0 or 1.                                                 */
  ST_U8 = 2,            /* Unsigned integer of 8 bits.                                       */
  ST_I8 = 3,            /* Signed integer of 8 bits, in two's complement as all signed ones. */
  ST_U16 = 4,           /* Unsigned integer of 16 bits.                                      */
  ST_I16 = 5,           /* Signed integer of 16 bits.                                        */
  ST_U32 = 6,           /* Unsigned integer of 32 bits.                                      */
  ST_I32 = 7,           /* Signed integer of 32 bits.                                        */
  ST_U64 = 8,           /* Unsigned integer of 64 bits.                                      */
  ST_I64 = 9,           /* Signed integer of 64 bits.                                        */
  ST_F16 = 10,          /* IEEE 754 half precision, 16 bits.                                 */
  ST_BF16 = 11,         /* bfloat16: the upper 16 bits of an F32.                            */
  ST_F32 = 12,          /* IEEE 754 single precision, 32 bits.                               */
  ST_F64 = 13,          /* IEEE 754 double precision, 64 bits.                               */
  ST_C64 = 14,          /* Complex number of 64 bits: real and imaginary part, both F32.     */
  ST_F8_E4M3 = 15,      /* Float of 8 bits: 4 of exponent, 3 of mantissa, no infinities.     */
  ST_F8_E5M2 = 16,      /* Float of 8 bits: 5 of exponent, 2 of mantissa.                    */
  ST_F8_E8M0 = 17,      /* Power of two of 8 bits, the scale of microscaling formats.        */
  ST_F8_E4M3FNUZ = 18,  /* As F8_E4M3 with another bias, and without negative zero.          */
  ST_F8_E5M2FNUZ = 19,  /* As F8_E5M2 with another bias, no infinities and no negative zero. */
  ST_F6_E2M3 = 20,      /* Float of 6 bits, packed: 2 of exponent, 3 of mantissa.            */
  ST_F6_E3M2 = 21,      /* Float of 6 bits, packed: 3 of exponent, 2 of mantissa.            */
  ST_F4 = 22,           /* Float of 4 bits, packed: 2 of exponent, 1 of mantissa.            */
  ST_DTYPE_SIGNED_ = -1
};

/* Returns the name of a dtype, "BF16", or "UNKNOWN" for a number that is none. */
ST_API const char *st_dtype_name(st_dtype dtype);

/* Returns the size of an element in bits, or 0 for a number that is no dtype. */
ST_API uint32_t st_dtype_bits(st_dtype dtype);

/* Returns the dtype whose name is the len bytes at name, letter for letter, or ST_DTYPE_UNKNOWN.
 * name may be NULL. */
ST_API st_dtype st_dtype_from_name(const char *name, size_t len);

/* Returns the tensor's dtype: ST_DTYPE_UNKNOWN only with ST_OPEN_UNKNOWN_DTYPES. */
ST_API st_dtype st_tensor_dtype(const st_tensor *tensor);

/* Returns the dtype as the file spells it, also if it is unknown: "BF16". (A bintensors file has
 * numbers; it gets the names of safetensors.) */
ST_API const char *st_tensor_dtype_name(const st_tensor *tensor);

/* Also sets *len, which may be NULL, to the length. Since version 0.2.0. */
ST_API const char *st_tensor_dtype_name_n(const st_tensor *tensor, size_t *len);

/* Returns the number of dimensions; 0 for a scalar. */
ST_API size_t st_tensor_rank(const st_tensor *tensor);

/* Returns the st_tensor_rank sizes of the dimensions, in elements. */
ST_API const uint64_t *st_tensor_shape(const st_tensor *tensor);

/* Returns the number of elements: the product of the shape, 1 for a scalar. */
ST_API uint64_t st_tensor_elements(const st_tensor *tensor);

/* Returns the size of the tensor's data in bytes. */
ST_API uint64_t st_tensor_bytes(const st_tensor *tensor);

/* Returns the byte of the shard at which the tensor's data begins, counted from the start of the
 * file (with st_open_fd: from the offset that was given there). */
ST_API uint64_t st_tensor_offset(const st_tensor *tensor);

/* Returns the number of the shard that holds the tensor; 0 for a checkpoint of one file. */
ST_API size_t st_tensor_shard(const st_tensor *tensor);

/* Returns a view: the tensor's bytes where they are, st_tensor_bytes of them, without a copy. NULL
 * if the file is not mapped (see st_io) or has become shorter: then read the tensor instead.
 *
 * The address is as aligned as the file makes it, which may be less than the type of the elements
 * needs. If another process truncates the file, touching the view raises SIGBUS.
 *
 * An open file may keep a descriptor for each of its shards, 64 at most, which the caller must not
 * close; one that was opened by its path with ST_IO_MAP keeps none. */
ST_API const void *st_tensor_data(const st_tensor *tensor);

/* Many tensors in one call, in columns: row i of each column is about tensor i, in the order of
 * st_get_tensor_at. A program that would call the functions above for each of 100,000 tensors
 * through a foreign function interface reads a few arrays instead.
 *
 * The columns `data` and `tensors` are borrowed from the file. All others are copies, which stay
 * valid until the list is freed, also if the file is freed first. Since version 0.2.0. */
typedef struct st_tensor_list {
  uint32_t struct_size;
  uint32_t flags;               /* Those that were given to st_list_tensors.                  */
  uint64_t count;               /* The number of tensors: the rows of a column.               */
  const char *names;            /* All names, one after another, and a NUL behind each.       */
  const uint64_t *name_offsets; /* count + 1 values: name i begins at names[name_offsets[i]], and
                                   has name_offsets[i + 1] - name_offsets[i] - 1 bytes.       */
  const st_dtype *dtypes;       /* As st_tensor_dtype.                                        */
  const uint32_t *ranks;        /* As st_tensor_rank.                                         */
  const uint64_t *dims;         /* All shapes, one after another.                             */
  const uint64_t *dim_offsets;  /* count + 1 values: shape i begins at dims[dim_offsets[i]].  */
  const uint64_t *offsets;      /* As st_tensor_offset.                                       */
  const uint64_t *sizes;        /* As st_tensor_bytes.                                        */
  const uint32_t *shards;       /* As st_tensor_shard.                                        */
  const void *const *data;      /* As st_tensor_data with ST_LIST_DATA, else NULL.            */
  const st_tensor *const *tensors; /* As st_get_tensor_at.                                    */
  const void *reserved;            /* NULL                                                    */
} st_tensor_list;

/* Flags of st_list_tensors. */
enum {
  ST_LIST_DATA = 1 << 0 /* Fill the column `data`, which maps the file with ST_IO_AUTO.       */
};

/* Makes a list of all tensors of a file. *out is freed with st_tensor_list_free. Since version
 * 0.2.0. */
ST_API st_status st_list_tensors(const st_file *file, uint32_t flags, st_tensor_list **out,
                                 st_error *err);

/* Frees a list, and its columns with it. Since version 0.2.0. */
ST_API void st_tensor_list_free(st_tensor_list *list);

/* ---- Looking at metadata, shards and headers ------------------------------------------------- */

/* The format of a file. */
typedef int32_t st_format;
enum {
  ST_FORMAT_SAFETENSORS = 1,    /* A header of JSON.                                         */
  ST_FORMAT_BINTENSORS = 2,     /* A binary header; usually called .bt or .bintensors.       */
  ST_FORMAT_BINTENSORS_OLD = 3, /* bintensors before 0.1, which is read and not written.     */
  ST_FORMAT_SIGNED_ = -1
};

/* Returns the format of the file, of several shards that of the first. */
ST_API st_format st_get_format(const st_file *file);

/* Metadata is a list of pairs of strings, a key and a value. A model of several shards has that of
 * its index and then, for other keys, that of its first shard.
 *
 * Returns 1 if there is metadata, else 0. A single file whose map of metadata is empty counts as 1;
 * a model with an index or several shards only if there is a pair. */
ST_API int32_t st_has_metadata(const st_file *file);

/* Returns how many pairs there are. */
ST_API size_t st_count_metadata(const st_file *file);

/* Returns the key of pair i, in the order of the file, and sets *key_len, *value and *value_len,
 * each of which may be NULL. Returns NULL, and sets nothing, if i is too large. */
ST_API const char *st_get_metadata_at(const st_file *file, size_t i, size_t *key_len,
                                      const char **value, size_t *value_len);

/* Returns the value of a key and, if value_len is not NULL, its length; NULL if there is no such
 * key. */
ST_API const char *st_get_metadata(const st_file *file, const char *key, size_t *value_len);
ST_API const char *st_get_metadata_n(const st_file *file, const char *key, size_t key_len,
                                     size_t *value_len);

/* Returns how many files the checkpoint has: 1 unless it is a model of several shards. */
ST_API size_t st_count_shards(const st_file *file);

/* Returns the path of a shard, made from the path that was given to st_open; "" if the file was
 * opened in another way; NULL if the number is too large. */
ST_API const char *st_get_shard_path(const st_file *file, size_t shard);

/* Also sets *len, which may be NULL, to the length, unless it returns NULL. Since version 0.2.0. */
ST_API const char *st_get_shard_path_n(const st_file *file, size_t shard, size_t *len);

/* Returns the size of a shard's file in bytes, as it was when it was opened; 0 if the number is too
 * large. */
ST_API uint64_t st_get_shard_size(const st_file *file, size_t shard);

/* Returns the header of a shard as it is in the file, padding included, but without the eight
 * bytes of its length; sets *len, which may be NULL. NULL if the number is too large, or at the
 * first call if there is no memory for the copy that it makes. */
ST_API const char *st_get_header(const st_file *file, size_t shard, size_t *len);

/* Returns how many warnings there are. There is one for each shard with tensors that the index does
 * not list. */
ST_API size_t st_count_warnings(const st_file *file);

/* Returns warning i, one line of text, or NULL if i is too large. */
ST_API const char *st_get_warning(const st_file *file, size_t i);

/* Also sets *len, which may be NULL, to the length, unless it returns NULL. Since version 0.2.0. */
ST_API const char *st_get_warning_n(const st_file *file, size_t i, size_t *len);

/* ---- Reading --------------------------------------------------------------------------------- */

/* The functions of this and the next two sections copy bytes into memory of the caller. What that
 * memory holds after an error is undefined. They share these statuses:
 *
 * ST_ERR_BUFFER_SIZE  dst_size is not exactly the number of bytes to be read.
 * ST_ERR_TRUNCATED    the file has become shorter since it was opened.
 * ST_ERR_READ         the system could not read, or another file has taken the path's place and
 *                     this one is no longer held open. (A mapped file is always held.)
 * ST_ERR_CALLBACK     the read_at of a source failed. */

/* Copies all bytes of a tensor to dst. dst_size: st_tensor_bytes. dst may be NULL if that is 0. */
ST_API st_status st_tensor_read(const st_tensor *tensor, void *dst, size_t dst_size, st_error *err);

/* Copies n bytes from byte offset of a shard's file to dst, header included: to compute a digest,
 * for example. (The digest that bintensors tools show for ST_FORMAT_BINTENSORS_OLD begins with the
 * data, at byte 8 + the length of the header.) dst may be NULL if n is 0.
 * ST_ERR_RANGE if there is no such shard, or it has no such bytes. */
ST_API st_status st_read_shard(const st_file *file, size_t shard, uint64_t offset, void *dst,
                               size_t n, st_error *err);

/* What st_tensor_advise tells the system. */
typedef int32_t st_advice;
enum {
  ST_ADVICE_WILL_NEED = 1, /* The bytes will be read soon: fetch them ahead of time.         */
  ST_ADVICE_DONT_NEED = 2, /* The bytes will not be read again soon: memory may drop them.   */
  ST_ADVICE_SIGNED_ = -1
};

/* Gives the system a hint about the bytes of count tensors, of one file or of several. Nothing is
 * reported (an advice that is none is ignored), and nothing is lost that was written to a view
 * (ST_IO_COPY). tensors may be NULL if count is 0. */
ST_API void st_tensor_advise(const st_tensor *const *tensors, size_t count, st_advice advice);

/* ---- Reading slices -------------------------------------------------------------------------- */

/* A slice is a part of a tensor, given as in Python by begin, end and step for each dimension.
 * Each of the three arrays has st_tensor_rank values, in elements. Negative positions count from
 * the end; positions outside the tensor are cut off; a negative step goes backwards. NULL for an
 * array leaves it out in every dimension: tensor[:]. To leave out begin or end in one dimension,
 * use ST_SLICE_BEGIN and ST_SLICE_END: the whole dimension is ST_SLICE_BEGIN, ST_SLICE_END, 1, and
 * backwards ST_SLICE_END, ST_SLICE_BEGIN, -1. The bytes of a slice are packed in row-major order,
 * as those of a tensor are. The arrays are read, and not kept.
 *
 * ST_ERR_ARGUMENT     a step is 0.
 * ST_ERR_MISALIGNED   the slice begins or ends inside a byte (dtypes of less than 8 bits).
 * ST_ERR_UNSUPPORTED  the dtype is unknown and the slice is not the whole tensor. */

/* Positions before the first and after the last element of a dimension of any size (before version
 * 0.3: of at most 2^63 - 1). They are macros because enumerators have 32 bits. Since version
 * 0.2.0. */
#define ST_SLICE_BEGIN INT64_MIN
#define ST_SLICE_END INT64_MAX

/* Computes the shape (st_tensor_rank values) and the size in bytes of a slice, and reads nothing.
 * *contiguous becomes a view of the slice as st_tensor_data gives one of the tensor, or NULL if the
 * slice is not in one piece there. begin, end, step, shape, bytes and contiguous may be NULL. */
ST_API st_status st_tensor_slice(const st_tensor *tensor, const int64_t *begin, const int64_t *end,
                                 const int64_t *step, uint64_t *shape, uint64_t *bytes,
                                 const void **contiguous, st_error *err);

/* Copies a slice to dst. dst_size: the bytes that st_tensor_slice computes. begin, end and step may
 * be NULL, and dst if dst_size is 0. Reads on the calling thread, and from the file only the slice
 * and small gaps in it; many slices, and large ones, are read faster by a plan. */
ST_API st_status st_tensor_read_slice(const st_tensor *tensor, const int64_t *begin,
                                      const int64_t *end, const int64_t *step, void *dst,
                                      size_t dst_size, st_error *err);

/* ---- Reading many tensors: plans ------------------------------------------------------------- */

/* A plan is a list of tensors and slices, each with a destination in memory. Running the plan reads
 * them in the order of the files, with several threads: small reads that lie close together are
 * merged, and large ones are split. */
typedef struct st_plan st_plan;

/* Makes an empty plan, which keeps its file open. *out is freed with st_plan_free. */
ST_API st_status st_plan_new(const st_file *file, st_plan **out, st_error *err);

/* Adds one tensor, or a slice of it. begin, end and step are those of a slice and may be NULL;
 * three NULLs are the whole tensor. Destinations are numbered from 0 in the order in which they
 * are added.
 *
 * The plan keeps the pointer dst, and its runs write there from several threads. The memory is the
 * caller's: it must stay valid, and where it is, until the plan has run for the last time (in a
 * language with a garbage collector: pinned, and referred to). Nothing else is kept: the three
 * arrays are copied. Destinations must not overlap. dst_size is the size of dst in bytes; dst may
 * be NULL if that is 0.
 *
 * Direct reads (see st_cache) need no second copy if the address of dst is equal, modulo 4096, to
 * the position in the file of the first byte that is read.
 *
 * ST_ERR_ARGUMENT  the tensor is not one of the plan's file.
 * ST_ERR_OVERFLOW  the plan would read more than 2^64 - 1 bytes.
 * Also the statuses of slices. After an error the plan is as it was. */
ST_API st_status st_plan_add(st_plan *plan, const st_tensor *tensor, const int64_t *begin,
                             const int64_t *end, const int64_t *step, void *dst, size_t dst_size,
                             st_error *err);

/* How a run uses the page cache of the system. Memory and sources have none. */
typedef int32_t st_cache;
enum {
  /* Copy what is in the cache, and read the rest directly from the disk (O_DIRECT), which leaves
   * the cache as it is. On network and FUSE mounts, read through the cache. */
  ST_CACHE_AUTO = 0,
  /* Read everything through the cache. What was read stays there for the next reader. */
  ST_CACHE_THROUGH = 1,
  /* Read everything directly, even what is in the cache. Where a filesystem has no direct reads,
   * read through the cache. */
  ST_CACHE_AROUND = 2,
  ST_CACHE_SIGNED_ = -1
};

typedef struct st_read_options {
  uint32_t struct_size;
  uint32_t flags;       /* 0                                                                 */
  uint32_t threads;     /* Threads that read, the calling one included; 0: the library chooses, and
                           above 1024: 1024. 1: none is started, parallel_for is not used, and the
                           caller's functions are called on the calling thread only.         */
  st_cache cache;       /* How the page cache is used.                                       */
  uint64_t chunk_bytes; /* About how many bytes of a file one request reads. 0: the library
                           chooses. Other values are rounded to 64 KiB .. 1 GiB, in steps of
                           4096.                                                             */
  uint64_t gap_bytes;   /* Ranges of a file with at most this many bytes between them are read by
                           one request and the bytes between them are dropped, which is faster
                           than two requests. 0: the library chooses. 1: as good as never.   */
  void *ctx;            /* Passed on to the functions below.                                 */
  /* Is told how many bytes of how many have been read: after a request, but not more often than
   * every 10 ms, and at the end of a run that succeeds. If it returns a number other than 0, the
   * run is cancelled, unless it has read everything. It is never called from two threads at once,
   * and without parallel_for only from the thread that called st_plan_run. It may run other plans,
   * but not this one. May be NULL. */
  int32_t (*progress)(void *ctx, uint64_t done, uint64_t total);
  /* A thread pool of the caller, to be used instead of new threads. It must call fn(arg, i) for
   * each i from 0 to n - 1, in any order and on any threads, and return after all these calls
   * have. May be NULL. */
  void (*parallel_for)(void *ctx, size_t n, void (*fn)(void *arg, size_t i), void *arg);
  /* Is told that destination i is complete, once in a run for each that becomes so, as soon as its
   * last byte has been read. Several threads call it at once, and in any order; with threads = 1,
   * only the one that called st_plan_run. The others read on meanwhile, so it should return soon.
   * It may run other plans, but not this one. May be NULL. Since version 0.2.0. */
  void (*ready)(void *ctx, size_t i);
} st_read_options;

/* Reads everything that was added, every time it is called. Starts threads, unless options say
 * otherwise. options may be NULL.
 *
 * The first error ends the run; its message names the tensor, the file and the offset.
 * ST_ERR_CANCELLED if the run was cancelled. */
ST_API st_status st_plan_run(st_plan *plan, const st_read_options *options, st_error *err);

/* The next three functions may be called from any thread while the plan runs. */

/* Sets *done to the bytes that this run, or the last one, has read, and *total to those of the
 * plan. Each may be NULL. */
ST_API void st_plan_progress(const st_plan *plan, uint64_t *done, uint64_t *total);

/* Ends the run early or, if the plan is not running, its next run. A run that has read everything
 * by then succeeds. */
ST_API void st_plan_cancel(const st_plan *plan);

/* Returns 1 if every byte of destination i has been read in this run, or in the last one, even if
 * that failed or was cancelled; else 0, also if i is too large. A destination of 0 bytes is always
 * complete. */
ST_API int32_t st_plan_is_complete(const st_plan *plan, size_t i);

/* Frees a plan, which must not be running. */
ST_API void st_plan_free(st_plan *plan);

/* What the last run of a plan did, also if it failed or was cancelled. Since version 0.2.0. */
typedef struct st_plan_stats {
  uint32_t struct_size;
  uint32_t reserved;      /* 0                                                               */
  uint64_t bytes_wanted;  /* The bytes of all destinations.                                  */
  uint64_t bytes_read;    /* Bytes read from files, with gaps and whole blocks of the disk.  */
  uint64_t reads;         /* Requests for them: the system may answer one in several parts.  */
  uint64_t bytes_copied;  /* Bytes copied to devices.                                        */
  uint64_t copies;        /* The copies that devices were asked for.                         */
  uint64_t staging_bytes; /* Staging memory that the plan's devices had at the end, which is the
                             most that they have had: see st_device_options.                 */
} st_plan_stats;

/* Fills *stats, of which only the first struct_size bytes are written: none if that is 0. The plan
 * must not be running. Since version 0.2.0. */
ST_API void st_plan_get_stats(const st_plan *plan, st_plan_stats *stats);

/* Flags of st_buffer_new. */
enum {
  /* Do not allocate pages before they are touched. This is faster if a plan fills the buffer at
   * once. */
  ST_BUFFER_LAZY = 1 << 0
};

/* Allocates size bytes of zeroed memory to read into, aligned to 2 MiB, on huge pages if the
 * system has them. Without ST_BUFFER_LAZY all pages are allocated before it returns, by `threads`
 * new threads at most (0: the library chooses). Reading into such memory takes a fraction of the
 * time that it takes to read into small pages that were never touched. size may be 0. *out is freed
 * with st_buffer_free, by any thread. */
ST_API st_status st_buffer_new(uint64_t size, uint32_t flags, uint32_t threads, void **out,
                               st_error *err);

/* Frees a buffer of st_buffer_new. */
ST_API void st_buffer_free(void *buffer);

/* ---- Reading into the memory of devices ------------------------------------------------------ */

/* A device, such as a GPU, has memory that the processor cannot write to. A plan reads into staging
 * memory of the host, which the device can read, and the device copies from there while the next
 * bytes are read. See docs/gpu.md. All of this section exists since version 0.2.0.
 *
 * An st_device is a device as this process uses it: its driver, its queues of copies and its
 * staging memory. Any number of plans may use it at the same time, from any threads; they share its
 * staging memory, none waits for the end of another, and they keep it open. */
typedef struct st_device st_device;

typedef struct st_device_options {
  uint32_t struct_size;
  uint32_t flags;         /* 0                                                               */
  int32_t ordinal;        /* Which device, as its driver counts them.                        */
  uint32_t queues;        /* Queues of copies, 64 at most; 0: 2.                             */
  uint64_t staging_bytes; /* The most staging memory that the device has at a time: at least 4 MiB;
                             0: 64 MiB. It is taken slot by slot, as it is first needed, and kept
                             until the device is closed.                                     */
  void *context;          /* CUDA only: a CUcontext of the caller, which must outlive the device.
                             NULL: the primary context, which the CUDA runtime, PyTorch, JAX and
                             CuPy use; it is retained until the device is closed.            */
  const char *library;    /* The path of the driver's library. NULL: the one that this process has
                             loaded already, else the system's: libcuda.so.1, or libamdhip64.so.7,
                             .6 or .5.                                                       */
} st_device_options;

/* Opens a device of NVIDIA's CUDA driver, or of AMD's HIP runtime. Neither is linked to: they are
 * loaded by these functions, and stay loaded. Which context or device is current on the calling
 * thread does not change, neither here nor in any other function.
 *
 * options may be NULL. *out is closed with st_device_free.
 *
 * ST_ERR_UNSUPPORTED  no driver is installed, or it is too old, made for linking only (a stub), or
 *                     without a device.
 * ST_ERR_RANGE        there is no such ordinal.
 * ST_ERR_DEVICE       the driver reports another error. */
ST_API st_status st_device_open_cuda(const st_device_options *options, st_device **out,
                                     st_error *err);
ST_API st_status st_device_open_hip(const st_device_options *options, st_device **out,
                                    st_error *err);

/* One copy from the host to a device. The struct never grows. */
typedef struct st_device_copy {
  void *dst;       /* An address in the memory of the device.                                */
  const void *src; /* In memory of host_alloc.                                               */
  size_t n;        /* Bytes, at least 1.                                                     */
} st_device_copy;

/* A device of another kind, as functions of the caller; those of CUDA and HIP are made of the same
 * functions. A function that returns an int32_t returns 0, or else a number of its own, which ends
 * the library's call with ST_ERR_DEVICE and becomes its os_error. Several threads call these
 * functions at once, all but close; threads that the library starts are among them. They must
 * not run a plan for this device, which could wait forever. */
typedef struct st_device_ops {
  uint32_t struct_size;
  uint32_t flags; /* 0                                                                       */
  void *ctx;      /* Passed on to the functions.                                             */
  /* Returns size bytes of memory that the device can read, or NULL. Files are read directly from
   * the disk only into memory at a multiple of 4096. When it returns NULL, the plan works with the
   * slots that it has; without any, that is ST_ERR_NO_MEMORY. */
  void *(*host_alloc)(void *ctx, size_t size);
  void (*host_free)(void *ctx, void *ptr, size_t size);
  /* Begins n copies, whose dst do not overlap, in a queue below st_device_options.queues, and sets
   * *mark to a number for wait. It need not wait for them, and they need not keep their order. No
   * copy is for two destinations of a plan, also where these are neighbours; one destination may
   * get several copies. If it fails, none of them may still be under way when it returns, and wait
   * is not called. */
  int32_t (*copy)(void *ctx, uint32_t queue, const st_device_copy *copies, size_t n,
                  uint64_t *mark);
  /* Returns when the copies of one call of copy have reached the memory of the device, or one has
   * failed and none is under way. Called once for each mark, in any order, also after a failure.
   * Until then the bytes at src stay as they are. */
  int32_t (*wait)(void *ctx, uint32_t queue, uint64_t mark);
  /* Makes copies that begin later, in any queue and of any plan, wait for the work that `stream`
   * has been given so far. NULL: st_plan_add_device takes no stream. */
  int32_t (*after)(void *ctx, void *stream);
  /* Allocates device memory, at a multiple of 256. NULL: st_device_alloc is ST_ERR_UNSUPPORTED. */
  int32_t (*alloc)(void *ctx, uint64_t size, void **out);
  void (*release)(void *ctx, void *ptr);
  /* Returns a name for what another function returned, for messages; it may return NULL, and the
   * text is not freed. May be NULL. */
  const char *(*error_name)(void *ctx, int32_t code);
  /* Called once, after all others, when the device is closed or st_device_new fails. May be
   * NULL. */
  void (*close)(void *ctx);
} st_device_ops;

/* Makes a device of the caller's functions, of which host_alloc, host_free, copy and wait are
 * needed, and release if there is alloc. The struct is copied. Its close is called even if this
 * function fails (convention 12; before version 0.3, not for a longer struct with a member that the
 * library does not know). Of the options, which may be NULL, only queues and staging_bytes may be
 * set. *out is closed with st_device_free. */
ST_API st_status st_device_new(const st_device_ops *ops, const st_device_options *options,
                               st_device **out, st_error *err);

/* Closes a device, as soon as no plan uses it. */
ST_API void st_device_free(st_device *device);

/* Allocates size bytes of device memory, at a multiple of 256, for programs without an allocator of
 * their own. size may be 0. *out is freed with st_device_release, before the device is.
 * ST_ERR_UNSUPPORTED  the device has no such function.
 * ST_ERR_DEVICE       it failed; too little memory is such a failure. */
ST_API st_status st_device_alloc(const st_device *device, uint64_t size, void **out, st_error *err);
ST_API void st_device_release(const st_device *device, void *ptr);

/* Adds one destination in the memory of a device; all else is as for st_plan_add, with which it
 * shares the numbers of destinations. One plan may fill several devices and memory of the host. It
 * reads bytes once that several destinations want, if each of them is contiguous in the file.
 *
 * stream is a queue of work of the caller: a CUstream or a hipStream_t, of which the numbers 1 and
 * 2 stand for the default streams, as in DLPack (1: legacy, 2: per thread). The run writes to
 * dst after the work that the stream has been given when st_plan_run is called. NULL: it may write
 * at once.
 *
 * When st_plan_run returns, also with an error, no copy is under way, and what was copied can be
 * used in any stream. st_plan_is_complete and ready tell of bytes that have reached the device.
 * The statuses of running such a plan are those of other plans, and:
 *
 * ST_ERR_DEVICE       a function of the device has failed. os_error is what it returned, and the
 *                     message names the tensor.
 * ST_ERR_UNSUPPORTED  (of this function) stream is not NULL, and the device takes none. */
ST_API st_status st_plan_add_device(st_plan *plan, const st_device *device, void *stream,
                                    const st_tensor *tensor, const int64_t *begin,
                                    const int64_t *end, const int64_t *step, void *dst,
                                    size_t dst_size, st_error *err);

/* ---- Handing tensors to other libraries ------------------------------------------------------ */

/* Converts n values from one float dtype to another: any of F64, F32, F16, BF16, F8_E4M3, F8_E5M2,
 * F8_E8M0, F8_E4M3FNUZ and F8_E5M2FNUZ to any of them. src and dst hold n elements each, at any
 * alignment, and must not overlap; they may be NULL if n is 0. Works on the calling thread.
 *
 * The results are those of the Python package ml_dtypes (and of numpy for F16, F32 and F64):
 *
 *   - Every value is rounded once, to the nearest that the target has, and to the even one of two
 *     that are equally near; only F64 is rounded to F32 before it becomes BF16 or one of 8 bits.
 *     Denormal numbers are kept, and results may be denormal.
 *   - What is too large for the target becomes infinity, or in a dtype without infinities (F8_E4M3
 *     and the two FNUZ) NaN, as infinity itself does. Nothing is set to the largest number instead,
 *     as new versions of torch do for F8_E4M3.
 *   - NaN stays NaN, of the same sign unless the target has only one NaN. Its other bits are not
 *     promised.
 *   - To a dtype without negative zero (the two FNUZ), -0 and what is rounded to it become 0.
 *   - To F8_E8M0, the nearest power of two is taken, and of two the larger. Positive numbers below
 *     2^-127, the least, become 2^-127, and those between 2^-127 and 2^-126 the larger of the two.
 *     Zero, negative numbers, infinity and what is too large become NaN.
 *
 * This holds for the usual floating-point environment of the thread: rounding to nearest, denormal
 * numbers not flushed to zero.
 *
 * ST_ERR_UNSUPPORTED  one of the dtypes is none of these.
 * ST_ERR_OVERFLOW     n elements are more bytes than memory can have.
 * Since version 0.2.0. */
ST_API st_status st_convert(st_dtype from, const void *src, st_dtype to, void *dst, size_t n,
                            st_error *err);

/* The structs of DLPack, which its header dlpack.h defines. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Flags of the next two functions, which exclude each other. */
enum {
  ST_DLPACK_COPY = 1 << 0,   /* Copy the tensor in every case. The copy may be written to.    */
  ST_DLPACK_NO_COPY = 1 << 1 /* Never copy it: ST_ERR_STATE where that would be needed.       */
};

/* Makes a DLPack tensor, of version 1.1, for a library that takes these: on the CPU, contiguous,
 * with shape and strides. (*out)->deleter(*out) frees it, from any thread; whoever gets *out, and
 * does not want it, must call that, too. It keeps the file open, and so may be used after st_free;
 * but not after the library has been unloaded.
 *
 * Its data is the view of st_tensor_data. It is marked as read-only, except with ST_IO_COPY, and
 * writing to it crashes; some consumers do not look at the mark. The tensor is copied to memory of
 * its own, aligned to 64 bytes, which may be written to and is marked as a copy, where it has no
 * view, or its elements are not aligned in the file.
 *
 * docs/dlpack.md lists what each dtype becomes, and which libraries take it.
 *
 * ST_ERR_UNSUPPORTED  the dtype is unknown, or the shape does not fit the signed numbers of DLPack.
 * ST_ERR_STATE        see ST_DLPACK_NO_COPY.
 * Also the statuses of reading, for a copy. Since version 0.2.0. */
ST_API st_status st_tensor_to_dlpack(const st_tensor *tensor, uint32_t flags,
                                     struct DLManagedTensorVersioned **out, st_error *err);

/* The same for consumers of DLPack before 1.0, whose tensors cannot be marked as read-only. So the
 * tensor is copied also if its view must not be written to; with ST_IO_COPY it is not.
 * Since version 0.2.0. */
ST_API st_status st_tensor_to_dlpack_legacy(const st_tensor *tensor, uint32_t flags,
                                            struct DLManagedTensor **out, st_error *err);

/* ---- Writing --------------------------------------------------------------------------------- */

/* A writer makes one file. Its functions are called in this order:
 *
 *     st_writer_new
 *     st_writer_set_metadata, st_writer_add, ...  declare what the file will hold
 *     st_writer_begin                             lays the file out and opens it
 *     st_writer_put                               gives it data, from any number of threads
 *     st_writer_finish                            puts the file in its place
 *     st_writer_free
 *
 * A call that comes too early or too late is ST_ERR_STATE.
 *
 * Content. The same calls write the same bytes on every machine: those that the reference
 * implementation writes.
 *
 * Replacing. The path gets the whole file in one step, and keeps what it had until then. A file
 * that is replaced hands on its owner and its permissions; if the system refuses a part, fewer
 * permissions. A new file gets its mode from the umask. A symbolic link is followed and stays.
 * In a sticky folder that others may write to, such as /tmp, another user's link, file or FIFO is
 * ST_ERR_OPEN with EACCES, for root as well (since 0.3; docs/filesystems.md).
 * Other hard links, mappings and open descriptors keep the old file, so that a file may be replaced
 * while it is open in this library.
 *
 * Streams. A FIFO, a device or an open descriptor (/dev/stdout, /dev/fd/N) is written directly, in
 * the order of the data. A descriptor of a regular file must be at the end of the file, or append:
 * otherwise old bytes would follow the new ones (ST_ERR_OPEN).
 * st_writer_put must then follow that order; ST_WRITE_KEEP_ORDER makes it the order of
 * st_writer_add. A reader that closes its end is ST_ERR_WRITE, and raises no SIGPIPE. A file that
 * would exceed RLIMIT_FSIZE is ST_ERR_WRITE with EFBIG; on Linux it raises no SIGXFSZ (since 0.3).
 *
 * Failures. An error of the functions up to st_writer_begin leaves the writer as it was, except
 * ST_ERR_WRITE. So does an st_writer_put with a wrong index or range, or for a tensor whose data
 * is given in another way, and an st_writer_finish while data is missing. Any other error ends
 * the writer: every later call returns the same error, and the path keeps what it had. There is
 * one exception: with ST_WRITE_SYNC, syncing the folder can fail after the file has replaced the
 * old one; the message then says that the file is in its place. */
typedef struct st_writer st_writer;

/* Makes a writer without tensors. *out is freed with st_writer_free. */
ST_API st_status st_writer_new(st_writer **out, st_error *err);

/* Sets one pair of metadata. The last value of a key counts; pairs are written in the byte order of
 * their keys. Both strings are copied. A key of NULL (with key_len 0) sets no pair: the file gets a
 * map of metadata even if that is empty. value may be NULL then, or if value_len is 0.
 * ST_ERR_UTF8 if a string is not UTF-8. */
ST_API st_status st_writer_set_metadata(st_writer *writer, const char *key, const char *value,
                                        st_error *err);
ST_API st_status st_writer_set_metadata_n(st_writer *writer, const char *key, size_t key_len,
                                          const char *value, size_t value_len, st_error *err);

/* Sets every pair that an open file has, and keeps its map of metadata if that is empty. Sets all
 * pairs or, if it fails, none. */
ST_API st_status st_writer_copy_metadata(st_writer *writer, const st_file *file, st_error *err);

/* Declares a tensor. name and shape (rank values, in elements; may be NULL if rank is 0) are
 * copied.
 *
 * data is the tensor's bytes, as many as dtype and shape need. The writer keeps the pointer: the
 * memory stays the caller's, and must be valid, where it is and unchanged until st_writer_finish
 * has returned. If it is NULL, the bytes are given to
 * st_writer_put under the number that *index gets: tensors are numbered from 0 in the order in
 * which they are added. index may be NULL.
 *
 * ST_ERR_DUPLICATE   there is a tensor of this name.
 * ST_ERR_UTF8        the name is not UTF-8.
 * ST_ERR_DTYPE       there is no such dtype.
 * ST_ERR_OVERFLOW    the tensor has more than 2^64 - 1 bits.
 * ST_ERR_MISALIGNED  the last element ends inside a byte (dtypes of less than 8 bits). */
ST_API st_status st_writer_add(st_writer *writer, const char *name, st_dtype dtype, size_t rank,
                               const uint64_t *shape, const void *data, size_t *index,
                               st_error *err);
ST_API st_status st_writer_add_n(st_writer *writer, const char *name, size_t len, st_dtype dtype,
                                 size_t rank, const uint64_t *shape, const void *data,
                                 size_t *index, st_error *err);

/* Declares a copy of a tensor of an open file, which must stay open until st_writer_finish has
 * returned. name is len bytes, or NULL for the tensor's own name. The data is copied by the
 * kernel if the system can do that. Statuses as for st_writer_add. */
ST_API st_status st_writer_add_tensor(st_writer *writer, const char *name, size_t len,
                                      const st_tensor *tensor, st_error *err);

/* Flags of st_write_options. */
enum {
  ST_WRITE_SYNC = 1 << 0,       /* st_writer_finish returns when the file is on the disk.     */
  ST_WRITE_KEEP_ORDER = 1 << 1, /* The data is in the order in which tensors were added.      */
  ST_WRITE_NO_REPLACE = 1 << 2  /* It is an error if the path exists, even if it is a link.   */
};

typedef struct st_write_options {
  uint32_t struct_size;
  uint32_t flags;          /* Any of the ST_WRITE_ flags.                                    */
  st_format format;        /* ST_FORMAT_BINTENSORS, or ST_FORMAT_SAFETENSORS; 0: the latter. */
  uint32_t reserved;       /* 0                                                              */
  uint64_t data_alignment; /* The data begins at a multiple of this many bytes: a power of two up to
                              1 MiB, at least 8. 0: 8.                                       */
  uint64_t header_reserve; /* Unused bytes in the header, so that st_edit_metadata can add metadata
                              without a new file.                                            */
  void *ctx;               /* Passed on to progress. Since version 0.3.0.                    */
  /* Reports the bytes of the file written so far, and the length of the file. st_writer_put and
   * st_writer_finish call it on their own thread: after each 8 MiB at most, but not more often than
   * every 10 ms, and at the end of an st_writer_finish that succeeds. It is never called from two
   * threads at once. If it returns a number other than 0 before the file is in its place, the call
   * fails with ST_ERR_CANCELLED and ends the writer. It may use other writers, but not this one.
   * May be NULL. Since version 0.3.0. */
  int32_t (*progress)(void *ctx, uint64_t done, uint64_t total);
} st_write_options;

/* Lays out the file, checks everything that was declared, and only then opens the path. Waits until
 * a FIFO has a reader. options may be NULL, and is copied.
 *
 * ST_ERR_ARGUMENT     a tensor is called "__metadata__", which safetensors keeps for itself.
 * ST_ERR_HEADER_SIZE  the header would be longer than 100,000,000 bytes.
 * ST_ERR_OVERFLOW     the file would be longer than a file can be.
 * ST_ERR_UNSUPPORTED  the format does not have a tensor's dtype, or is not written.
 * ST_ERR_OPEN         the path cannot be written; with ST_WRITE_NO_REPLACE, it exists.
 * ST_ERR_WRITE        the disk has no room, or the system could not write. */
ST_API st_status st_writer_begin(st_writer *writer, const char *path,
                                 const st_write_options *options, st_error *err);

/* Since version 0.2.0. ST_ERR_ARGUMENT if the path holds a NUL. */
ST_API st_status st_writer_begin_n(st_writer *writer, const char *path, size_t len,
                                   const st_write_options *options, st_error *err);

/* Gives the writer n bytes of tensor index, which begin at byte `at` of the tensor. They are copied
 * or written before it returns. They may come in any order, and each byte once. data may be NULL if
 * n is 0.
 *
 * Small puts are collected, in at most 16 MiB, and written together. So an error in writing may be
 * returned by a later put or by st_writer_finish.
 *
 * ST_ERR_RANGE      there is no such tensor, or it has no such bytes.
 * ST_ERR_STATE      bytes were put twice, or out of order into a stream, or the tensor's data is
 *                   given in another way.
 * ST_ERR_WRITE      the system could not write.
 * ST_ERR_CANCELLED  st_write_options.progress cancelled the writer. */
ST_API st_status st_writer_put(const st_writer *writer, size_t index, uint64_t at, const void *data,
                               size_t n, st_error *err);

/* Writes the data that is not written yet, and puts the file in its place.
 *
 * ST_ERR_STATE  bytes are missing; the message says how many, and of which tensor.
 * ST_ERR_WRITE  the system could not write, or could not put the file in its place.
 * ST_ERR_CANCELLED  st_write_options.progress cancelled the writer.
 * ST_ERR_READ, ST_ERR_TRUNCATED, ST_ERR_CALLBACK  the data of a tensor that is copied from an open
 *               file could not be read. */
ST_API st_status st_writer_finish(st_writer *writer, st_error *err);

/* Frees a writer. If it has not finished, nothing is left of the file. */
ST_API void st_writer_free(st_writer *writer);

/* ---- Editing --------------------------------------------------------------------------------- */

/* Changes metadata of one safetensors file: for each i below n, sets keys[i] to values[i], or
 * removes keys[i] if values[i] is NULL; it is no error if there is no such key. All changes are
 * made, or none. The bytes of tensors stay as they are, and as aligned as they are.
 *
 * The file is changed in place if the metadata fits into the room that it has in the header (see
 * header_reserve) and the change lies in one block of 4096 bytes of the file. This takes one
 * write, which a process that is killed has done or not done; other hard links show the change,
 * too. In all other cases a new file replaces the old one as st_writer_finish does it, and the
 * kernel copies the data. With ST_WRITE_SYNC the file is whole also after a power failure; a
 * change in place must then lie in one block of 512 bytes.
 *
 * Several processes may work with the file. st_open and st_open_fd never see half of a change:
 * they wait for an edit to end, for two seconds at most; after that, and on filesystems without
 * locks, they read the header until it is twice the same. st_open_memory and st_open_source
 * cannot do that. If another process saves the file during the edit, its file is not overwritten:
 * the edit is made again on that file, 5 times at most.
 *
 * keys and values may be NULL if n is 0. Of options, which may be NULL, only ST_WRITE_SYNC,
 * data_alignment and header_reserve count; the last is the room in a new file. Other flags are
 * ST_ERR_UNSUPPORTED; progress is not called.
 *
 * ST_ERR_OPEN         the path is not a regular file, is an open descriptor such as /dev/fd/N, is
 *                     another user's in a sticky directory (see Replacing), or cannot be opened or
 *                     locked for writing.
 * ST_ERR_STATE        another process is editing the file, has locked it for two seconds, or
 *                     changed it each of the 5 times.
 * ST_ERR_UTF8         a key or a value is not UTF-8.
 * ST_ERR_HEADER_SIZE  the header would be longer than 100,000,000 bytes.
 * ST_ERR_UNSUPPORTED  it is a bintensors file.
 * ST_ERR_READ, ST_ERR_WRITE  the system could not read, write or lock. Without its lock an edit
 *                     fails, except on filesystems that have no locks.
 * 3xx                 the content of the file is wrong. */
ST_API st_status st_edit_metadata(const char *path, const char *const *keys,
                                  const char *const *values, size_t n,
                                  const st_write_options *options, st_error *err);

/* Each string has its length in an array beside it; path holds no NUL (ST_ERR_ARGUMENT), keys and
 * values may. value_lens[i] is ignored if values[i] is NULL. Since version 0.2.0. */
ST_API st_status st_edit_metadata_n(const char *path, size_t path_len, const char *const *keys,
                                    const size_t *key_lens, const char *const *values,
                                    const size_t *value_lens, size_t n,
                                    const st_write_options *options, st_error *err);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The numbers of st_status never change their meaning. */
enum {
  ST_OK = 0,
  /* 1xx: the call is wrong. */
  ST_ERR_ARGUMENT = 100,    /* An argument is NULL or has a value that it may not have.      */
  ST_ERR_STRUCT_SIZE = 101, /* A struct has a wrong struct_size, or members unknown here.    */
  ST_ERR_UNSUPPORTED = 102, /* This library does not know a flag or value, or cannot do it.  */
  ST_ERR_NOT_FOUND = 103,   /* There is no tensor of this name (safetensors.hpp only).       */
  ST_ERR_RANGE = 104,       /* An index or a range of bytes is outside of what there is.     */
  ST_ERR_BUFFER_SIZE = 105, /* A buffer is not as long as the data.                          */
  ST_ERR_STATE = 106,       /* The object cannot do this now.                                */
  ST_ERR_CANCELLED = 107,   /* A plan's run, or a writer, was cancelled.                     */
  /* 2xx: the machine cannot do it. */
  ST_ERR_NO_MEMORY = 200, /* There is not enough memory.                                   */
  ST_ERR_OPEN = 201,      /* A path or a descriptor cannot be opened, or not as a file.    */
  ST_ERR_READ = 202,      /* The system could not read a file.                             */
  ST_ERR_WRITE = 203,     /* The system could not write a file.                            */
  ST_ERR_MAP = 204,       /* The system could not map a file.                              */
  ST_ERR_CALLBACK = 205,  /* A function of the caller reported an error.                   */
  ST_ERR_DEVICE = 206,    /* A device or its driver failed. Since version 0.2.0.           */
  /* 3xx: the content of a file is wrong. */
  ST_ERR_TRUNCATED = 300,   /* The file ends inside its header, or is shorter than it was.   */
  ST_ERR_HEADER_SIZE = 301, /* The header is longer than the limit.                          */
  ST_ERR_UTF8 = 302,        /* Text is not UTF-8.                                            */
  ST_ERR_JSON = 303,        /* The header is not JSON.                                       */
  ST_ERR_SCHEMA = 304,      /* The header is JSON, but not that of a safetensors file.       */
  ST_ERR_DUPLICATE = 305,   /* A name, a key or a field is given twice.                      */
  ST_ERR_DTYPE = 306,       /* There is no such dtype.                                       */
  ST_ERR_OFFSETS = 307,     /* Data of tensors overlaps, leaves a hole or runs backwards.    */
  ST_ERR_OVERFLOW = 308,    /* A size does not fit 64 bits.                                  */
  ST_ERR_MISALIGNED = 309,  /* Elements of less than 8 bits begin or end inside a byte.      */
  ST_ERR_TENSOR_SIZE = 310, /* The offsets of a tensor do not fit its dtype and shape.       */
  ST_ERR_COVERAGE = 311,    /* The file is shorter or longer than its tensors: a truncated download,
                               for example.                                                  */
  ST_ERR_SHARD = 312,       /* A shard is missing, out of bounds, or differs from the index. */
  ST_ERR_FORMAT = 313,      /* The file is of another kind; the message says which.          */
  /* 9xx: this library is wrong. */
  ST_ERR_INTERNAL = 900, /* A defect of the library; please report it.                    */
  ST_STATUS_SIGNED_ = -1
};

/* Returns the name of the constant, "ST_ERR_JSON", or "an unknown status". */
ST_API const char *st_status_name(st_status status);

/* ---- Versions -------------------------------------------------------------------------------- */

/* The version of this header. */
#define ST_VERSION_MAJOR 0
#define ST_VERSION_MINOR 3
#define ST_VERSION_PATCH 0

/* Returns the version of the library that is loaded: major << 16 | minor << 8 | patch. */
ST_API uint32_t st_version(void);

/* Returns the same as text, with the version of simdjson: "0.3.0 (simdjson 3.0.1)". */
ST_API const char *st_version_string(void);

#ifdef __cplusplus
}
#endif
#endif /* SAFETENSORS_H */
