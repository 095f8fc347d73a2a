/* safetensors.h - read and write safetensors files.  The whole public C API.
 *
 * SPDX-License-Identifier: Apache-2.0
 * Conventions, true of every function below unless it says otherwise:
 *
 *  1. A function that can fail returns st_status and takes `st_error *err` last; err may be NULL.
 *     On failure every out-parameter is left untouched.
 *  2. A function that cannot fail returns its answer: a number, or a const pointer borrowed from the object asked.
 *  3. What comes out through `T **out` belongs to the caller and has one free function, which accepts NULL.
 *     Nothing else is ever freed by the caller.
 *  4. A const handle may be used from any number of threads at once.  A non-const one, and any free,
 *     needs the caller's exclusion.
 *  5. Text is UTF-8, lengths are bytes; strings handed out are also NUL-terminated.  Paths are UTF-8 on every system.
 *  6. Every public struct begins with struct_size: set it to sizeof the struct (ST_INIT does).  A zero field means the
 *     default.  Fields are only ever appended.  Unknown flags are refused.
 *  7. The library prints nothing, never aborts, reads no environment, and starts threads only inside a call that says so. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ST_VERSION_MAJOR 0
#define ST_VERSION_MINOR 1
#define ST_VERSION_PATCH 0

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

/* ---- Library ---------------------------------------------------------------------------------------------------- */

/* st_open_options o = ST_INIT(st_open_options);  then set what you want. */
#ifdef __cplusplus
extern "C++" {
template <class T> inline T st_init_() { T t = T(); t.struct_size = (uint32_t)sizeof(T); return t; }
}
#define ST_INIT(type) st_init_<type>()
#else
#define ST_INIT(type) ((type){.struct_size = (uint32_t)sizeof(type)})
#endif

ST_API uint32_t    st_version(void);          /* major<<16 | minor<<8 | patch of the library as loaded */
ST_API const char *st_version_string(void);   /* "0.1.0 (simdjson 3.0.1, mmap, ...)"                   */

/* ---- Status: the hundreds say whose fault it is ------------------------------------------------------------------- */

typedef int32_t st_status;
enum {
  ST_OK = 0,
  /* 1xx  the call */
  ST_ERR_ARGUMENT = 100, ST_ERR_STRUCT_SIZE = 101, ST_ERR_UNSUPPORTED = 102, ST_ERR_NOT_FOUND = 103,
  ST_ERR_RANGE = 104, ST_ERR_BUFFER_SIZE = 105, ST_ERR_STATE = 106, ST_ERR_CANCELLED = 107,
  /* 2xx  the machine */
  ST_ERR_NO_MEMORY = 200, ST_ERR_OPEN = 201, ST_ERR_READ = 202, ST_ERR_WRITE = 203, ST_ERR_MAP = 204, ST_ERR_CALLBACK = 205,
  /* 3xx  the file */
  ST_ERR_TRUNCATED = 300,    /* shorter than 8 bytes, or than the header it announces       */
  ST_ERR_HEADER_SIZE = 301,  /* the header is longer than the limit                         */
  ST_ERR_UTF8 = 302, ST_ERR_JSON = 303,
  ST_ERR_SCHEMA = 304,       /* JSON, but not a safetensors header                          */
  ST_ERR_DUPLICATE = 305, ST_ERR_DTYPE = 306,
  ST_ERR_OFFSETS = 307,      /* hole, overlap or backwards                                  */
  ST_ERR_OVERFLOW = 308, ST_ERR_MISALIGNED = 309, ST_ERR_TENSOR_SIZE = 310,
  ST_ERR_COVERAGE = 311,     /* the data is shorter or longer than the tensors say          */
  ST_ERR_SHARD = 312,        /* the index and its shards do not agree                       */
  ST_ERR_FORMAT = 313,       /* some other kind of file: the message says which             */
  /* 9xx  this library */
  ST_ERR_INTERNAL = 900
};
ST_API const char *st_status_name(st_status status);   /* "ST_ERR_JSON"; never NULL */

typedef struct st_error {        /* the caller's, on its stack: no error state is shared or thread-local             */
  uint32_t struct_size;
  st_status status;
  int32_t os_error;              /* errno or GetLastError(); 0 when the system is not to blame                       */
  uint32_t reserved;
  uint64_t offset;               /* where in the file; UINT64_MAX when nowhere                                       */
  char message[232];             /* one line, NUL-terminated: names the file or tensor and the numbers               */
} st_error;

/* ---- Element types: numbers are pinned for ever --------------------------------------------------------------------- */

typedef int32_t st_dtype;
enum {
  ST_DTYPE_UNKNOWN = 0, ST_BOOL = 1, ST_U8 = 2, ST_I8 = 3, ST_U16 = 4, ST_I16 = 5, ST_U32 = 6, ST_I32 = 7, ST_U64 = 8,
  ST_I64 = 9, ST_F16 = 10, ST_BF16 = 11, ST_F32 = 12, ST_F64 = 13, ST_C64 = 14, ST_F8_E4M3 = 15, ST_F8_E5M2 = 16,
  ST_F8_E8M0 = 17, ST_F8_E4M3FNUZ = 18, ST_F8_E5M2FNUZ = 19, ST_F6_E2M3 = 20, ST_F6_E3M2 = 21, ST_F4 = 22
};
ST_API const char *st_dtype_name(st_dtype dtype);
ST_API uint32_t    st_dtype_bits(st_dtype dtype);
ST_API st_dtype    st_dtype_from_name(const char *name, size_t len);

/* ---- Opening ---------------------------------------------------------------------------------------------------------- */

typedef struct st_file st_file;       /* a checkpoint: one file or all shards of one model; immutable once open */
typedef struct st_tensor st_tensor;   /* one entry; lives as long as its st_file                                 */

typedef struct st_allocator {
  uint32_t struct_size;
  uint32_t flags;
  void *ctx;
  void *(*alloc)(void *ctx, size_t size, size_t align);
  void (*free)(void *ctx, void *ptr, size_t size, size_t align);
} st_allocator;

typedef int32_t st_io;
enum {
  ST_IO_AUTO = 0,   /* map; where mapping is refused or known to be slow (network, FUSE), read           */
  ST_IO_MAP = 1,    /* read-only mapping: st_tensor_data is a zero-copy view                             */
  ST_IO_COPY = 2,   /* copy-on-write mapping: the views may be written to, the file never changes        */
  ST_IO_READ = 3    /* no mapping: data comes only through reads into the caller's memory, never SIGBUS  */
};

#define ST_OPEN_STRICT         (1u << 0)  /* refuse also what real writers do beside the format's text             */
#define ST_OPEN_REFERENCE      (1u << 1)  /* exactly the reference implementation's verdicts                       */
#define ST_OPEN_UNKNOWN_DTYPES (1u << 2)  /* list tensors whose dtype this build does not know, as raw bytes       */

typedef struct st_open_options {
  uint32_t struct_size;
  uint32_t flags;
  st_io io;
  uint32_t threads;                   /* to parse the headers of many shards at once; 0: choose */
  uint64_t max_header_bytes;          /* 0: 100,000,000                                         */
  const st_allocator *allocator;      /* copied; NULL: malloc                                   */
} st_open_options;

typedef struct st_source {            /* any random-access bytes: an archive, a network, a cache  */
  uint32_t struct_size;
  uint32_t flags;
  void *ctx;
  uint64_t size;
  int32_t (*read_at)(void *ctx, uint64_t offset, void *dst, size_t n);   /* 0 on success; called from many threads */
  void (*close)(void *ctx);
} st_source;

/* path: a safetensors file, a *.safetensors.index.json, or a folder that holds either.  A bintensors file is recognised by its
 * content and opens alike, except with ST_OPEN_REFERENCE, since the reference refuses it. */
ST_API st_status st_open(const char *path, const st_open_options *options, st_file **out, st_error *err);
/* release is called exactly once, also when opening fails. */
ST_API st_status st_open_memory(const void *data, size_t size, void (*release)(void *ctx), void *ctx,
                                const st_open_options *options, st_file **out, st_error *err);
/* size bytes from offset inside fd (size 0: to its end), which stays the caller's: a model inside an archive, or handed over by
 * another process, opens as zero-copy as a path.  fd is an int or, on Windows, a HANDLE. */
ST_API st_status st_open_fd(intptr_t fd, uint64_t offset, uint64_t size, const st_open_options *options, st_file **out, st_error *err);
ST_API st_status st_open_source(const st_source *source, const st_open_options *options, st_file **out, st_error *err);
ST_API st_file  *st_retain(const st_file *file);
ST_API void      st_free(st_file *file);

/* ---- Looking: nothing here can fail --------------------------------------------------------------------------------------- */

ST_API size_t           st_count_tensors(const st_file *file);
ST_API const st_tensor *st_get_tensor_at(const st_file *file, size_t i);                /* in data order      */
ST_API const st_tensor *st_get_tensor(const st_file *file, const char *name);           /* NULL when absent   */
ST_API const st_tensor *st_get_tensor_n(const st_file *file, const char *name, size_t len);

ST_API const char     *st_tensor_name(const st_tensor *tensor, size_t *len);
ST_API st_dtype        st_tensor_dtype(const st_tensor *tensor);
ST_API const char     *st_tensor_dtype_name(const st_tensor *tensor);                   /* as in the file      */
ST_API size_t          st_tensor_rank(const st_tensor *tensor);
ST_API const uint64_t *st_tensor_shape(const st_tensor *tensor);
ST_API uint64_t        st_tensor_elements(const st_tensor *tensor);
ST_API uint64_t        st_tensor_bytes(const st_tensor *tensor);
ST_API uint64_t        st_tensor_offset(const st_tensor *tensor);                       /* absolute, in its file */
ST_API size_t          st_tensor_shard(const st_tensor *tensor);                        /* which file            */
ST_API const void     *st_tensor_data(const st_tensor *tensor);                         /* NULL: read it instead */

typedef int32_t st_format;
enum {
  ST_FORMAT_SAFETENSORS = 1,
  ST_FORMAT_BINTENSORS = 2,      /* binary header, else alike: .bt, .bintensors                              */
  ST_FORMAT_BINTENSORS_OLD = 3   /* its layout before 0.1, which is read and not written                     */
};
ST_API st_format   st_get_format(const st_file *file);

ST_API int32_t     st_has_metadata(const st_file *file);          /* 0: none, which is not the same as an empty map */
ST_API size_t      st_count_metadata(const st_file *file);
ST_API const char *st_get_metadata_at(const st_file *file, size_t i, const char **value, size_t *value_len);
ST_API const char *st_get_metadata(const st_file *file, const char *key, size_t *value_len);

ST_API size_t      st_count_shards(const st_file *file);                                /* 1 for a single file */
ST_API const char *st_get_shard_path(const st_file *file, size_t shard);
ST_API const char *st_get_header(const st_file *file, size_t shard, size_t *len);       /* as in the file      */

/* ---- Reading into the caller's memory ----------------------------------------------------------------------------------------- */

ST_API st_status st_tensor_read(const st_tensor *tensor, void *dst, size_t dst_size, st_error *err);

/* The file itself, header included, as it was opened: to digest it with any library, or to send it on.  Bintensors digests are
 * those of the whole file, of the older layout from its data on, which begins 8 + st_get_header's length. */
ST_API uint64_t  st_get_shard_size(const st_file *file, size_t shard);
ST_API st_status st_read_shard(const st_file *file, size_t shard, uint64_t offset, void *dst, size_t n, st_error *err);

typedef int32_t st_advice;
enum { ST_ADVICE_WILL_NEED = 1, ST_ADVICE_DONT_NEED = 2 };
ST_API void st_tensor_advise(const st_tensor *const *tensors, size_t count, st_advice advice);   /* a hint */

/* ---- Writing ---------------------------------------------------------------------------------------------------------------------- */

/* A file appears under its path whole, in one step, or not at all: until st_writer_finish succeeds the path keeps what it had.
 * The bytes are those that the reference implementation writes; the same calls make the same bytes everywhere.
 *
 *   declare: set_metadata, add   ->   st_writer_begin   ->   st_writer_put, from any number of threads   ->   st_writer_finish
 *
 * A file that is replaced hands on its mode and, where the system allows, its owner; a new one gets its mode from the umask.
 * A symbolic link is followed and stays.  Other hard links, mappings and open descriptors keep the old file, so saving over
 * a file that is open through this library is safe.  A FIFO, a device or /dev/stdout is written through in data order: there
 * st_writer_put must come in that order (ST_WRITE_KEEP_ORDER: the order of st_writer_add), or is refused.
 * The first failure of put or finish ends the writer: every later call returns it again, and nothing replaces the target. */
typedef struct st_writer st_writer;

#define ST_WRITE_SYNC       (1u << 0)  /* the file and its name are on the disk when finish returns     */
#define ST_WRITE_KEEP_ORDER (1u << 1)  /* data in the order of st_writer_add, not the reference's order */
#define ST_WRITE_NO_REPLACE (1u << 2)  /* an existing path is an error                                  */

typedef struct st_write_options {
  uint32_t struct_size;
  uint32_t flags;
  st_format format;                   /* 0: safetensors; or ST_FORMAT_BINTENSORS, which lacks some dtypes   */
  uint32_t reserved;                  /* 0                                                                  */
  uint64_t data_alignment;            /* 0: 8; else a power of two up to 1 MiB: longer padding of the header */
  uint64_t header_reserve;            /* room in the header, so that metadata can be edited in place         */
} st_write_options;

ST_API st_status st_writer_new(st_writer **out, st_error *err);

/* The last value of a key counts; keys are written in byte order.  key NULL: a map without pairs, instead of no map. */
ST_API st_status st_writer_set_metadata(st_writer *writer, const char *key, const char *value, st_error *err);
ST_API st_status st_writer_set_metadata_n(st_writer *writer, const char *key, size_t key_len, const char *value, size_t value_len,
                                          st_error *err);
/* As the file has it, map or none, over what was set before. */
ST_API st_status st_writer_copy_metadata(st_writer *writer, const st_file *file, st_error *err);

/* data is read by finish and must stay until then.  NULL: the bytes come through st_writer_put, to *index.  index may be NULL.
 * Refused here: a name given twice or not UTF-8, an unknown dtype, more than 2^64 bytes, sub-byte elements that end inside a
 * byte; by st_writer_begin: a name that the format keeps for itself, a header over 100,000,000 bytes. */
ST_API st_status st_writer_add(st_writer *writer, const char *name, st_dtype dtype, size_t rank, const uint64_t *shape,
                               const void *data, size_t *index, st_error *err);
ST_API st_status st_writer_add_n(st_writer *writer, const char *name, size_t len, st_dtype dtype, size_t rank,
                                 const uint64_t *shape, const void *data, size_t *index, st_error *err);
/* A tensor of an open file, under its own name or (not NULL) another.  Its bytes are copied by finish, inside the kernel where
 * that is possible; the file must stay open until then. */
ST_API st_status st_writer_add_tensor(st_writer *writer, const char *name, size_t len, const st_tensor *tensor, st_error *err);

/* Lays the file out, checks all that was declared before the path is touched, and opens.  May wait for the reader of a FIFO. */
ST_API st_status st_writer_begin(st_writer *writer, const char *path, const st_write_options *options, st_error *err);
/* n bytes of tensor `index`, from its byte `at`.  Pieces come in any order, each byte once.  Any number of threads. */
ST_API st_status st_writer_put(const st_writer *writer, size_t index, uint64_t at, const void *data, size_t n, st_error *err);
/* Refused (ST_ERR_STATE) while bytes are missing: the message says of which tensor, and how many. */
ST_API st_status st_writer_finish(st_writer *writer, st_error *err);
ST_API void      st_writer_free(st_writer *writer);             /* before finish: nothing is left behind */

/* Sets keys[i] to values[i], or removes it where the value is NULL; a missing key to remove is no error.  No tensor's byte is
 * touched and the data stays as aligned as it was.  If the header has room where its metadata is (st_write_options.header_reserve,
 * or what removed pairs left) the file is changed in place, by one write that a killed process has done or not done; otherwise
 * the data is copied by the kernel into a new file that replaces the old one.  With ST_WRITE_SYNC that holds for a power cut too.
 * In place, all hard links see the change.  Of options only ST_WRITE_SYNC, data_alignment and header_reserve (room that a new
 * file gets) apply. */
ST_API st_status st_edit_metadata(const char *path, const char *const *keys, const char *const *values, size_t n,
                                  const st_write_options *options, st_error *err);

#ifdef __cplusplus
}
#endif
#endif /* SAFETENSORS_H */
