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
 *     default.  Fields are only ever appended, up to 1024 bytes.  Unknown flags are refused, and so is a struct_size
 *     that no version of the struct has: ST_ERR_STRUCT_SIZE.
 *  7. The library prints nothing, never aborts, reads no environment, and starts threads only inside a call that says so.
 *     (simdjson, which it is built on, looks once at SIMDJSON_FORCE_IMPLEMENTATION.)
 *  8. Everything is here since 0.1.0 unless it says otherwise. */
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

/* Filled on failure, as far as struct_size reaches; left alone on success. */
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
ST_API const char *st_dtype_name(st_dtype dtype);                        /* "BF16"; "UNKNOWN" for any other number */
ST_API uint32_t    st_dtype_bits(st_dtype dtype);                        /* per element; 0 for any other number    */
ST_API st_dtype    st_dtype_from_name(const char *name, size_t len);     /* or ST_DTYPE_UNKNOWN                    */

/* ---- Opening ---------------------------------------------------------------------------------------------------------- */

typedef struct st_file st_file;       /* a checkpoint: one file or all shards of one model; immutable once open */
typedef struct st_tensor st_tensor;   /* one entry; lives as long as its st_file                                 */

/* Memory for what an open file keeps: headers, tables, names.  alloc returns size bytes aligned to align, or NULL, which ends
 * the call with ST_ERR_NO_MEMORY; free gets the same size and align.  Both are called from several threads at once where many
 * shards are opened, and free from whichever thread lets go of the file last. */
typedef struct st_allocator {
  uint32_t struct_size;
  uint32_t flags;
  void *ctx;
  void *(*alloc)(void *ctx, size_t size, size_t align);
  void (*free)(void *ctx, void *ptr, size_t size, size_t align);
} st_allocator;

typedef int32_t st_io;
enum {
  ST_IO_AUTO = 0,   /* map, mostly at the first view; read where that is refused or slow (network, FUSE) */
  ST_IO_MAP = 1,    /* read-only mapping: st_tensor_data is a zero-copy view                             */
  ST_IO_COPY = 2,   /* copy-on-write mapping: the views may be written to, the file never changes        */
  ST_IO_READ = 3    /* no mapping: data comes only through reads into the caller's memory, never SIGBUS  */
};

#define ST_OPEN_STRICT         (1u << 0)  /* refuse also what real writers do beside the format's text             */
#define ST_OPEN_REFERENCE      (1u << 1)  /* exactly the reference implementation's verdicts                       */
#define ST_OPEN_UNKNOWN_DTYPES (1u << 2)  /* list tensors whose dtype this build does not know, as raw bytes       */
#define ST_OPEN_FOLLOW_LINKS   (1u << 3)  /* take shards also through links that leave the folder of their index   */

typedef struct st_open_options {
  uint32_t struct_size;
  uint32_t flags;
  st_io io;
  uint32_t threads;                   /* to parse the headers of many shards at once; 0: choose */
  uint64_t max_header_bytes;          /* 0, and at most: 100,000,000, the format's own limit    */
  const st_allocator *allocator;      /* copied; NULL: malloc                                   */
} st_open_options;

/* Any random-access bytes: an archive, a network, a cache.  read_at fills all n bytes at dst and returns 0, or something else,
 * which the caller of the library finds in the message of ST_ERR_CALLBACK; it is called from many threads at once.  Opening asks
 * for the first 16 KiB, or all that there are, and then for the rest of a longer header.  close (may be NULL) is called exactly
 * once, also when opening fails, except for a struct_size that ST_INIT never set.  The struct itself is copied. */
typedef struct st_source {
  uint32_t struct_size;
  uint32_t flags;
  void *ctx;
  uint64_t size;
  int32_t (*read_at)(void *ctx, uint64_t offset, void *dst, size_t n);
  void (*close)(void *ctx);
} st_source;

/* path: a safetensors file, a *.index.json, or a folder: of an index, of one model, or of all the numbered shards of one.
 * Shards: every header is read now, on options.threads threads (gone when it returns), and held against the index.  Shards lie
 * below the folder of their index; a link may leave it only in a model hub's cache (snapshots/ to blobs/), or as the flag says.
 * A bintensors file is recognised by its content and opens alike, except with ST_OPEN_REFERENCE, since the reference refuses it.
 * ST_ERR_SHARD: index and shards disagree, or a shard is missing or out of bounds. */
ST_API st_status st_open(const char *path, const st_open_options *options, st_file **out, st_error *err);
/* A whole file in the caller's memory, which must stay as it is until release (may be NULL) is called: exactly once, also when
 * opening fails.  st_tensor_data points into it. */
ST_API st_status st_open_memory(const void *data, size_t size, void (*release)(void *ctx), void *ctx,
                                const st_open_options *options, st_file **out, st_error *err);
/* size bytes from offset inside fd (size 0: to its end), which stays the caller's: a model inside an archive, or handed over by
 * another process, opens as zero-copy as a path.  fd is an int or, on Windows, a HANDLE. */
ST_API st_status st_open_fd(intptr_t fd, uint64_t offset, uint64_t size, const st_open_options *options, st_file **out, st_error *err);
ST_API st_status st_open_source(const st_source *source, const st_open_options *options, st_file **out, st_error *err);
/* Another count on the file, from any thread; each one needs its st_free.  NULL gives NULL. */
ST_API st_file  *st_retain(const st_file *file);
ST_API void      st_free(st_file *file);

/* ---- Looking: nothing here can fail --------------------------------------------------------------------------------------- */

/* Everything handed out here is borrowed from the file and lives as long as it does. */

ST_API size_t           st_count_tensors(const st_file *file);
ST_API const st_tensor *st_get_tensor_at(const st_file *file, size_t i);                /* in data order, shard after
                                                                                           shard; NULL past the last */
ST_API const st_tensor *st_get_tensor(const st_file *file, const char *name);           /* NULL when absent   */
ST_API const st_tensor *st_get_tensor_n(const st_file *file, const char *name, size_t len);

ST_API const char     *st_tensor_name(const st_tensor *tensor, size_t *len);
ST_API st_dtype        st_tensor_dtype(const st_tensor *tensor);
ST_API const char     *st_tensor_dtype_name(const st_tensor *tensor);                   /* as in the file      */
ST_API size_t          st_tensor_rank(const st_tensor *tensor);
ST_API const uint64_t *st_tensor_shape(const st_tensor *tensor);
ST_API uint64_t        st_tensor_elements(const st_tensor *tensor);
ST_API uint64_t        st_tensor_bytes(const st_tensor *tensor);
ST_API uint64_t        st_tensor_offset(const st_tensor *tensor);                       /* bytes, absolute, in its file */
ST_API size_t          st_tensor_shard(const st_tensor *tensor);                        /* which file            */
/* The bytes themselves, st_tensor_bytes of them, little-endian, at whatever alignment the file gives them; NULL where there is
 * no mapping: read them instead.  When somebody truncates the mapped file, touching them raises SIGBUS; st_tensor_read does not.
 * With ST_IO_AUTO the first call for a file, here or of st_tensor_slice, maps it; until then, and after, the handle keeps a
 * descriptor, which is not the caller's to close (ST_IO_MAP keeps none).  Where descriptors are few the file is mapped when it
 * is opened. */
ST_API const void     *st_tensor_data(const st_tensor *tensor);

typedef int32_t st_format;
enum {
  ST_FORMAT_SAFETENSORS = 1,
  ST_FORMAT_BINTENSORS = 2,      /* binary header, else alike: .bt, .bintensors                              */
  ST_FORMAT_BINTENSORS_OLD = 3   /* its layout before 0.1, which is read and not written                     */
};
ST_API st_format   st_get_format(const st_file *file);

ST_API int32_t     st_has_metadata(const st_file *file);          /* 0: none, which is not the same as an empty map */
ST_API size_t      st_count_metadata(const st_file *file);
/* A pair by number, in the order of the file: the key, or NULL past the last. */
ST_API const char *st_get_metadata_at(const st_file *file, size_t i, size_t *key_len, const char **value, size_t *value_len);
/* The value under a key, or NULL. */
ST_API const char *st_get_metadata(const st_file *file, const char *key, size_t *value_len);
ST_API const char *st_get_metadata_n(const st_file *file, const char *key, size_t key_len, size_t *value_len);

ST_API size_t      st_count_shards(const st_file *file);                                /* 1 for a single file */
ST_API const char *st_get_shard_path(const st_file *file, size_t shard);
/* The header as the file spells it, padding included; made at the first call.  NULL past the last shard, and when memory runs
 * out. */
ST_API const char *st_get_header(const st_file *file, size_t shard, size_t *len);

/* What is odd and no error, a line each: a shard that holds tensors its index does not list. */
ST_API size_t      st_count_warnings(const st_file *file);
ST_API const char *st_get_warning(const st_file *file, size_t i);                       /* NULL past the last  */

/* ---- Reading into the caller's memory ----------------------------------------------------------------------------------------- */

/* All bytes of a tensor, from any thread.  dst_size: exactly st_tensor_bytes, else ST_ERR_BUFFER_SIZE.  A file that has become
 * shorter since it was opened is ST_ERR_TRUNCATED; what dst holds after an error is not said.  Where the file lives on as a
 * mapping only (its path was replaced), the bytes of the file that was opened are read. */
ST_API st_status st_tensor_read(const st_tensor *tensor, void *dst, size_t dst_size, st_error *err);

/* A part of a tensor.  begin, end, step: st_tensor_rank values each, with Python's meaning: a negative position counts from the
 * end, what lies outside is cut off, a negative step goes backwards; NULL is open, as in [:].  Where parts of a byte would be
 * meant (dtypes below 8 bits), it is ST_ERR_MISALIGNED.
 * Tells, each where not NULL: the shape (st_tensor_rank values), the bytes of the packed result, and where it lies as it
 * is (NULL: it is not contiguous, or the file is not mapped). */
ST_API st_status st_tensor_slice(const st_tensor *tensor, const int64_t *begin, const int64_t *end, const int64_t *step,
                                 uint64_t *shape, uint64_t *bytes, const void **contiguous, st_error *err);
/* dst_size: exactly the bytes of the part.  On the calling thread alone, without reading what the part leaves out, but for gaps
 * that are read faster than skipped.  Many parts, and large ones, come sooner through a plan. */
ST_API st_status st_tensor_read_slice(const st_tensor *tensor, const int64_t *begin, const int64_t *end, const int64_t *step,
                                      void *dst, size_t dst_size, st_error *err);

/* The file itself, header included, as it was opened: to digest it with any library, or to send it on.  Bintensors digests are
 * those of the whole file, of the older layout from its data on, which begins 8 + st_get_header's length. */
ST_API uint64_t  st_get_shard_size(const st_file *file, size_t shard);
ST_API st_status st_read_shard(const st_file *file, size_t shard, uint64_t offset, void *dst, size_t n, st_error *err);

typedef int32_t st_advice;
enum { ST_ADVICE_WILL_NEED = 1, ST_ADVICE_DONT_NEED = 2 };
/* A hint to the system about bytes that will soon be touched, or not again.  It drops nothing that was written to a view. */
ST_API void st_tensor_advise(const st_tensor *const *tensors, size_t count, st_advice advice);

/* ---- Plans: many reads as one pass over the files, sorted, merged, split, by several threads --------------------------------- */

typedef struct st_plan st_plan;

typedef int32_t st_cache;
enum {
  ST_CACHE_AUTO = 0,      /* copy what is in the page cache, read the rest around it; through it on network and FUSE mounts */
  ST_CACHE_THROUGH = 1,   /* what is read stays in the page cache, for the next one to find                                */
  ST_CACHE_AROUND = 2     /* direct reads, which leave the page cache alone; through it where a filesystem has none        */
};

typedef struct st_read_options {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t threads;                   /* 0: choose; 1: only the calling thread; at most 1024 are taken */
  st_cache cache;
  uint64_t chunk_bytes;               /* of the file at once; 0: choose        */
  uint64_t gap_bytes;                 /* what nobody wants between two wanted ranges is read along when it is no more than this,
                                         since a disk reads on faster than it starts anew; 0: choose; 1: read nothing along */
  void *ctx;                          /* for the two below                     */
  /* About every 10 ms and at the end; non-zero cancels.  From one thread at a time, and unless parallel_for is the host's
   * from the one that called st_plan_run. */
  int32_t (*progress)(void *ctx, uint64_t done, uint64_t total);
  /* The host's own pool, instead of threads of ours: calls fn(arg, i) for every i < n, in any order, on any threads, and
   * returns after all. */
  void (*parallel_for)(void *ctx, size_t n, void (*fn)(void *arg, size_t i), void *arg);
} st_read_options;

/* The plan keeps its file open. */
ST_API st_status st_plan_new(const st_file *file, st_plan **out, st_error *err);
/* One destination, numbered in the order of these calls from 0.  The slice as above: three times NULL is the whole tensor.
 * dst must live until the plan has run.  Where its address modulo 4096 equals st_tensor_offset (plus what is before the slice),
 * a disk writes into it without a copy between. */
ST_API st_status st_plan_add(st_plan *plan, const st_tensor *tensor, const int64_t *begin, const int64_t *end,
                             const int64_t *step, void *dst, size_t dst_size, st_error *err);
/* Starts threads, all gone when it returns.  The first error ends it and names tensor, file and offset.  Runs again when called
 * again, and then reads everything again. */
ST_API st_status st_plan_run(st_plan *plan, const st_read_options *options, st_error *err);
/* These three from any thread, also while the plan runs. */
ST_API void      st_plan_progress(const st_plan *plan, uint64_t *done, uint64_t *total);   /* bytes; each may be NULL */
ST_API void      st_plan_cancel(const st_plan *plan);    /* the run, or when there is none the next one: ST_ERR_CANCELLED */
ST_API int32_t   st_plan_is_complete(const st_plan *plan, size_t i);   /* 1: every byte of destination i is there, also after
                                                                          a run that failed or was cancelled */
ST_API void      st_plan_free(st_plan *plan);

#define ST_BUFFER_LAZY (1u << 0)  /* pages come as they are filled: the sooner way when a plan follows at once */

/* Memory for destinations, zeroed, aligned to 2 MiB, on huge pages where the system has them, and all of it there already:
 * reading into small pages never touched before takes several times as long.  threads to make it, gone when it returns; 0: choose. */
ST_API st_status st_buffer_new(uint64_t size, uint32_t flags, uint32_t threads, void **out, st_error *err);
ST_API void      st_buffer_free(void *buffer);

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
 * A put that is refused for its arguments (no such tensor, a range outside it, a tensor whose data was given) and a finish
 * while bytes are missing leave the writer as it was.  Any other failure of put or finish ends it, bytes put twice or out of
 * a stream's order among them: every later call returns it again, and nothing replaces the target. */
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

/* The last value of a key counts; keys are written in byte order.  key NULL (of length 0): a map without pairs, instead of no
 * map. */
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
/* n bytes of tensor `index`, from its byte `at`.  Pieces come in any order, each byte once.  Any number of threads.
 * Small pieces are kept, up to 16 MiB for a writer, and written together: what goes wrong then is returned by the put that writes
 * them, or by st_writer_finish.  data is the caller's again when it returns. */
ST_API st_status st_writer_put(const st_writer *writer, size_t index, uint64_t at, const void *data, size_t n, st_error *err);
/* Refused (ST_ERR_STATE) while bytes are missing: the message says of which tensor, and how many. */
ST_API st_status st_writer_finish(st_writer *writer, st_error *err);
ST_API void      st_writer_free(st_writer *writer);             /* before finish: nothing is left behind */

/* Sets keys[i] to values[i], or removes it where the value is NULL; a missing key to remove is no error.  No tensor's byte is
 * touched and the data stays as aligned as it was.  If the header has room where its metadata is (st_write_options.header_reserve,
 * or what removed pairs left) the file is changed in place, by one write that a killed process has done or not done; otherwise
 * the data is copied by the kernel into a new file that replaces the old one.  With ST_WRITE_SYNC that holds for a power cut too.
 * In place, all hard links see the change.  Readers never see half of it: st_open waits for an edit that is under way, on this
 * machine and on filesystems that have locks (else, and after two seconds, it reads until two readings agree; st_open_source
 * and st_open_memory cannot).  An edit never undoes a save that came meanwhile: it is made again on the new file, and after
 * several of them, as while somebody else edits the file, it is ST_ERR_STATE.  Of options only ST_WRITE_SYNC, data_alignment
 * and header_reserve (room that a new file gets) apply. */
ST_API st_status st_edit_metadata(const char *path, const char *const *keys, const char *const *values, size_t n,
                                  const st_write_options *options, st_error *err);

#ifdef __cplusplus
}
#endif
#endif /* SAFETENSORS_H */
