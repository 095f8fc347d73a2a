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

/* path: a safetensors file, a *.safetensors.index.json, or a folder that holds either. */
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

ST_API size_t      st_count_metadata(const st_file *file);
/* A pair by number, in the order of the file: the key, or NULL past the last. */
ST_API const char *st_get_metadata_at(const st_file *file, size_t i, size_t *key_len, const char **value, size_t *value_len);
/* The value under a key, or NULL. */
ST_API const char *st_get_metadata(const st_file *file, const char *key, size_t *value_len);
ST_API const char *st_get_metadata_n(const st_file *file, const char *key, size_t key_len, size_t *value_len);

ST_API size_t      st_count_shards(const st_file *file);                                /* 1 for a single file */
ST_API const char *st_get_shard_path(const st_file *file, size_t shard);
ST_API const char *st_get_header(const st_file *file, size_t shard, size_t *len);       /* the raw JSON        */

/* ---- Reading into the caller's memory ----------------------------------------------------------------------------------------- */

ST_API st_status st_tensor_read(const st_tensor *tensor, void *dst, size_t dst_size, st_error *err);

typedef int32_t st_advice;
enum { ST_ADVICE_WILL_NEED = 1, ST_ADVICE_DONT_NEED = 2 };
ST_API void st_tensor_advise(const st_tensor *const *tensors, size_t count, st_advice advice);   /* a hint */

#ifdef __cplusplus
}
#endif
#endif /* SAFETENSORS_H */
