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
 * Conventions. They apply to every function below unless its comment says otherwise.
 *
 *  1. Errors. A function that can fail returns an st_status and takes `st_error *err` last. On
 *     success it returns ST_OK. On failure it fills *err, unless err is NULL, and leaves its other
 *     out-parameters unchanged. Any such function may return ST_ERR_ARGUMENT, ST_ERR_NO_MEMORY and
 *     ST_ERR_INTERNAL. A function that takes options or flags may also return ST_ERR_STRUCT_SIZE
 *     and ST_ERR_UNSUPPORTED. The comment of each function lists its other statuses.
 *  2. Other functions. A function that does not return a status cannot fail. Its comment says what
 *     NULL or 0 means.
 *  3. Ownership. The caller owns an object that it gets through `T **out`, and frees it with the
 *     function that the comment names. Every other returned pointer is borrowed: the caller does
 *     not free it, and it is valid as long as the object it came from. The caller keeps
 *     ownership of arguments. If the library keeps an argument after the call, the comment says so.
 *  4. NULL. A pointer may be NULL only if the comment says so. Functions that return a status
 *     return ST_ERR_ARGUMENT for any other NULL. Free functions ignore NULL. All other functions do
 *     not check: NULL crashes the process.
 *  5. Threads. Any number of threads may use the same const handle at the same time. While a
 *     function with a non-const handle or a free function runs, no other call may use the handle.
 *     On Linux, all threads that use a handle must share one file descriptor table: none of them
 *     may have called unshare(CLONE_FILES) after the handle was created.
 *  6. Text. Strings are UTF-8, including paths. On POSIX systems the library passes the bytes of a
 *     path on unchecked. Lengths are in bytes. Returned strings end with a NUL, which is not
 *     counted in their length. Tensor names and metadata may also contain NULs; other strings never
 *     do. A function with the suffix _n is the same function with an explicit length for each
 *     string, which need not end with a NUL.
 *  7. Structs. Every public struct begins with struct_size, the size of the struct in the header
 *     that the caller was compiled with. ST_INIT sets it. (st_device_copy has no struct_size: it is
 *     used in arrays and never grows.) A zero member selects its default. Later versions only
 *     append members, up to 1024 bytes in all. ST_ERR_STRUCT_SIZE means that no version of the
 *     struct has this struct_size, or that a newer struct sets a member that this library does not
 *     know. Unknown flags and enumeration values fail with ST_ERR_UNSUPPORTED. In a struct that the
 *     library returns, struct_size is the length of that struct.
 *  8. Process. The library prints nothing, never aborts, reads no environment variable and keeps no
 *     threads. If a function starts threads, its comment says so, and they end before it returns.
 *     (The library uses simdjson, which reads SIMDJSON_FORCE_IMPLEMENTATION once.)
 *  9. Versions. Functions, members and constants exist since version 0.1.0, unless their comment
 *     names a later one. Later versions may add statuses, dtypes and formats, so a program must
 *     expect values that it does not know. docs/abi.md says what else may change, and when.
 * 10. Constants are enumerators, because binding generators often ignore macros. Only constants
 *     that cannot be enumerators are macros. Enumerations have the type int32_t. Each has an unused
 *     negative constant that ends in SIGNED_, so that generators choose a signed type. Flags
 *     have the type uint32_t. To clear a flag, write `flags &= ~(uint32_t)ST_OPEN_STRICT`.
 * 11. Callbacks report failure through their return value. Exceptions and longjmp must not leave
 *     them.
 * 12. close. A function takes ownership of a struct that has a `close`. The library then calls
 *     close exactly once, even if the function fails. There is one exception: if no version of the
 *     struct has this struct_size, the library reads nothing else of the struct and does not call
 *     close. This cannot happen to a struct made by ST_INIT.
 * 13. Not frozen. Devices, groups and stores may change before version 1.1, because they have run
 *     on too little hardware: CUDA on one NVIDIA GPU, HIP only on a mock driver, groups and stores
 *     on one machine each. This applies to all names that begin with st_device, to
 *     st_plan_add_device, st_group, st_reduce, st_store, st_open_store and st_open_store_n, and to
 *     the members for these parts in st_source (those since 0.3.0), st_read_options and
 *     st_plan_stats. An incompatible change of a function or a struct gives it a new name.
 *     docs/abi.md has the list.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBSAFETENSORS_H
#define LIBSAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Define ST_STATIC to link the static library on Windows. CMake and pkg-config --static define
 * it. */
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

/* ---- Common definitions ---------------------------------------------------------------------- */

/* ST_INIT(type): a value of a public struct with struct_size set and all other members zero.
 *     st_open_options options = ST_INIT(st_open_options); */
#ifdef __cplusplus
extern "C++" {
template <class T>
static inline T st_init_() { /* static: plugins built with other versions have other sizes */
  T t = T();
  t.struct_size = (uint32_t)sizeof(T);
  return t;
}
}
#define ST_INIT(type) st_init_<type>()
#else
#define ST_INIT(type) ((type){.struct_size = (uint32_t)sizeof(type)})
#endif

/* ST_OK or one of the ST_ERR_ constants, listed under "Errors" below. */
typedef int32_t st_status;

/* The details of an error. The caller owns the struct, usually on the stack; the library keeps no
 * error state. The library writes only the first struct_size bytes, and no member that it does not
 * know. A struct_size of 0 counts as 256, so a struct that is all zero also gets the whole error.
 * No version of the struct is shorter.
 * (Since version 0.2.0. Before, nothing was written for 0.) */
typedef struct st_error {
  uint32_t struct_size; /* Set by ST_INIT, and never changed by the library.                 */
  st_status status;     /* The status that the function returned.                            */
  int32_t os_error;     /* errno or GetLastError(); with ST_ERR_DEVICE, the driver's error code; 0
                           if the system reported no error.                                  */
  uint32_t reserved;    /* 0                                                                 */
  uint64_t offset;      /* Offset of the error in the file; UINT64_MAX if it has none.       */
  char message[232];    /* One line that names the file or tensor, and the values.           */
} st_error;

/* ---- Opening --------------------------------------------------------------------------------- */

/* An open checkpoint: one file, or all files ("shards") of one model. It is immutable and
 * reference-counted (st_retain). */
typedef struct st_file st_file;

/* One tensor of an st_file, borrowed from it. */
typedef struct st_tensor st_tensor;

/* How tensor data is accessed. This applies to files. For st_open_memory, the view is the given
 * memory. For st_open_source and st_open_store, there are no views. */
typedef int32_t st_io;
enum {
  /* Map the file when st_tensor_data or st_tensor_slice first needs a view of it, or when it is
   * opened if the process has many open descriptors. Do not map it on network and FUSE mounts, nor
   * if the system refuses. */
  ST_IO_AUTO = 0,
  /* Map the file read-only when it is opened. ST_ERR_MAP if the system refuses. */
  ST_IO_MAP = 1,
  /* As ST_IO_MAP, but the caller may write to the view (through a cast). Such writes change neither
   * the file nor the results of the reading functions. */
  ST_IO_COPY = 2,
  /* Do not map the file. There are no views, and reading never raises SIGBUS. */
  ST_IO_READ = 3,
  ST_IO_SIGNED_ = -1
};

/* Flags of st_open_options. The first two exclude each other. Without them, the library accepts and
 * rejects files as the reference implementation does, with a few differences (docs/format.md). */
enum {
  ST_OPEN_STRICT = 1 << 0,         /* Reject all violations of the rules, even common ones.  */
  ST_OPEN_REFERENCE = 1 << 1,      /* Accept exactly the files that the reference accepts.   */
  ST_OPEN_UNKNOWN_DTYPES = 1 << 2, /* Accept unknown dtypes, as ST_DTYPE_UNKNOWN.            */
  ST_OPEN_FOLLOW_LINKS = 1 << 3    /* Follow symbolic links of shards to any target.         */
};

/* An allocator for the headers, tables and names that an open file keeps. The struct is copied.
 * Several threads may call both functions at once (see st_open_options.threads), until the last
 * reference to the file is freed. */
typedef struct st_allocator {
  uint32_t struct_size;
  uint32_t flags; /* 0                                  */
  void *ctx;      /* Passed to the two functions.       */
  /* Returns size bytes, aligned to align, or NULL if there is no memory. */
  void *(*alloc)(void *ctx, size_t size, size_t align);
  /* Frees ptr, which alloc returned for the same size and align. */
  void (*free)(void *ctx, void *ptr, size_t size, size_t align);
} st_allocator;

typedef struct st_open_options {
  uint32_t struct_size;
  uint32_t flags;                /* Any of the ST_OPEN_ flags.                               */
  st_io io;                      /* How tensor data is accessed.                             */
  uint32_t threads;              /* Threads that read the headers of many shards, including the
                                    calling thread. 0: one per processor. 1: starts no threads, and
                                    opening calls callbacks on the calling thread only.      */
  uint64_t max_header_bytes;     /* Length limit for each header and for the index. 0, or above
                                    100,000,000: the format's limit, 100,000,000. st_open also
                                    limits the sum of all headers.                           */
  const st_allocator *allocator; /* NULL: the allocator of the C++ runtime.                  */
  /* The next member must be a uint64_t. On some 32-bit systems a pointer would fit into the padding
   * here, so struct_size would not show whether the caller has set it. */
} st_open_options;

/* Opens the checkpoint at a path and checks all of its headers.
 *
 * path is one of these:
 *   - a safetensors or bintensors file, recognized by its content (with ST_OPEN_REFERENCE, only
 *     safetensors is accepted);
 *   - the index of a model of several files, with a name that ends in ".index.json", or in
 *     ".index.VARIANT.json" since 0.3;
 *   - a directory, which stands for the first of these that it contains:
 *       1. model.safetensors.index.json;
 *       2. model.safetensors;
 *       3. the only index NAME.safetensors.index.json. An index with another name can only be
 *          opened by its own path;
 *       4. the complete set of numbered shards named model, for example
 *          model-00001-of-00003.safetensors. Numbers may have any number of digits;
 *       5. the only file NAME.safetensors, or the only set of numbered shards with another name.
 *     Names that begin with "._" are ignored: macOS stores attributes of other files in them.
 *     Before version 0.3, an index took precedence over model.safetensors, and a file over a set.
 *
 * Shards must be in or below the directory of their index. A shard that is a symbolic link may lead
 * out of it only from snapshots/ to blobs/ in the cache of a model hub, or with
 * ST_OPEN_FOLLOW_LINKS. Two shards must not be the same file, whether by two spellings of its path
 * or by links. (Several links to one file without tensors are accepted.) All headers together may
 * be at most 400,000,000 bytes long. This is enough for about 3,000,000 tensors, and bounds the
 * memory that opening takes. (Both rules since version 0.3.)
 * Starts threads if there are several shards.
 *
 * options may be NULL. *out is freed with st_free.
 *
 * ST_ERR_OPEN   the path does not exist, cannot be opened or is not a regular file; or the
 *               directory contains no model, or several: the message names two of them.
 * ST_ERR_READ   the system could not read the file.
 * ST_ERR_MAP    options.io requires a mapping, and the system refuses it.
 * ST_ERR_SHARD  a shard is missing or out of bounds, two shards are one file, the index and the
 *               shards differ, or another process replaced a shard during the call. In the last
 *               case os_error is EAGAIN. A replaced shard is not detected on Windows, and not
 *               always on network filesystems.
 * ST_ERR_HEADER_SIZE  a header, the index or the sum of the headers is too long.
 * 3xx           the content of a file is invalid: see "Errors". */
ST_API st_status st_open(const char *path, const st_open_options *options, st_file **out,
                         st_error *err);

/* Since version 0.2.0. ST_ERR_ARGUMENT if the path contains a NUL. */
ST_API st_status st_open_n(const char *path, size_t len, const st_open_options *options,
                           st_file **out, st_error *err);

/* Opens a file in memory. The caller must not change the memory until release(ctx) is called. The
 * library calls release exactly once, even if this function fails, on the thread that frees the
 * last reference. release may be NULL; then the memory must outlive the file.
 *
 * data may be NULL if size is 0. options may be NULL. *out is freed with st_free. Returns 3xx if
 * the content is invalid. */
ST_API st_status st_open_memory(const void *data, size_t size, void (*release)(void *ctx),
                                void *ctx, const st_open_options *options, st_file **out,
                                st_error *err);

/* Opens a file embedded in an open descriptor: size bytes starting at offset. An example is a model
 * inside an archive. size 0: to the end of the descriptor's file. fd is an int, or a HANDLE on
 * Windows. The caller keeps it and may close it right after the call. Its position is neither used
 * nor changed.
 *
 * options may be NULL. *out is freed with st_free. ST_ERR_RANGE if these bytes are not inside the
 * file; otherwise as st_open. */
ST_API st_status st_open_fd(intptr_t fd, uint64_t offset, uint64_t size,
                            const st_open_options *options, st_file **out, st_error *err);

/* Flags of st_source. */
enum {
  /* read_at must not run on two threads at once. The library then calls it from one thread at a
   * time, even if several threads read the file. A plan reads on the calling thread only, unless
   * its options request more threads. read_at must not read from the same file through this
   * library. If read_at may only be called on one particular thread, read the file on that thread,
   * and run plans with threads = 1. Since version 0.2.0. */
  ST_SOURCE_SERIAL = 1 << 0
};

/* A file whose bytes the caller provides, for example part of an archive, a remote object or a
 * cache. */
typedef struct st_source {
  uint32_t struct_size;
  uint32_t flags; /* ST_SOURCE_SERIAL, or 0.           */
  void *ctx;      /* Passed to the two functions.      */
  uint64_t size;  /* Size of the whole file in bytes.  */
  /* Copies n bytes, starting at byte offset, to dst and returns 0. If it returns another value, the
   * library's function fails with ST_ERR_CALLBACK, and its message contains the value. n is at
   * least 1, and the bytes are inside size. Any thread that reads the file calls it, several at the
   * same time unless flags has ST_SOURCE_SERIAL. A plan that runs with threads = 1, and every
   * function that starts no threads, calls it on the calling thread only. It may run other plans,
   * even for the same device: the plan that calls it holds no staging memory during the call.
   * (Since version 0.3. Before, such a plan could wait forever.) */
  int32_t (*read_at)(void *ctx, uint64_t offset, void *dst, size_t n);
  /* Called once, when the last reference to the file is freed or when opening it fails. May be
   * NULL. */
  void (*close)(void *ctx);
  /* Used instead of read_at, which may then be NULL: reports failure by a status of this library,
   * which the library's function returns, and by the message and os_error of *err. *err is
   * initialized and never NULL. The library fails with ST_ERR_CALLBACK if it does not know the
   * status. Otherwise as read_at. May be NULL. This and the following members may change before
   * version 1.1 (convention 13). Since version 0.3.0. */
  st_status (*read)(void *ctx, uint64_t offset, void *dst, size_t n, st_error *err);
  /* The name for messages and st_get_shard_path. It must be valid until the source is open, or
   * closed; the library copies it. NULL: for a store, the name that was opened; otherwise none. May
   * be NULL. Since version 0.3.0. */
  const char *name;
  /* The number of concurrent reads that serves the source best. A plan uses it, up to 1024, unless
   * its options request threads. 0: as for a disk. Since version 0.3.0. */
  uint32_t parallel;
  uint32_t reserved; /* 0. Since version 0.3.0. */
  /* Approximate bytes per read of a plan, rounded as in st_read_options, whose value takes
   * precedence. A cancel waits for the reads that have begun. 0: the library chooses. Since version
   * 0.3.0. */
  uint64_t chunk_bytes;
  /* One read of a plan also reads, and drops, a gap of at most this many bytes between two ranges.
   * st_read_options takes precedence. 0: one read for each destination. Since version 0.3.0. */
  uint64_t gap_bytes;
} st_source;

/* Opens a file that the caller's functions read. Opening reads the first 16 KiB (or all of a
 * shorter file), and a second time if the header is longer. The struct is copied. Its close is
 * called even if this function fails (convention 12).
 *
 * options may be NULL. *out is freed with st_free. Returns ST_ERR_CALLBACK if read_at fails, the
 * status of read if that fails, and 3xx if the content is invalid. */
ST_API st_status st_open_source(const st_source *source, const st_open_options *options,
                                st_file **out, st_error *err);

/* Files by name, for example an archive, an object store or a web server. May change before version
 * 1.1 (convention 13). Since version 0.3.0. */
typedef struct st_store {
  uint32_t struct_size;
  uint32_t flags; /* 0                                  */
  void *ctx;      /* Passed to the two functions.       */
  /* Opens a file: sets the members of *source, which the library has initialized, or assigns a
   * struct made by ST_INIT. The library then owns the source and calls its close exactly once.
   * Returns ST_OK, or ST_ERR_NOT_FOUND if there is no such file. Any other status is an error, as
   * in st_source.read; then *source is neither used nor closed. Several threads may call it at
   * once, unless the file is opened with threads = 1. */
  st_status (*open)(void *ctx, const char *name, st_source *source, st_error *err);
  /* Called once, after the last source of the store has been closed. May be NULL. */
  void (*close)(void *ctx);
  uint32_t parallel; /* Shards to open at the same time, if st_open_options.threads is 0; at most
                        1024 are. 0: one per processor.                                      */
  uint32_t reserved; /* 0                                                                    */
} st_store;

/* Opens the checkpoint with this name in a store, and checks all of its headers. name is a file, or
 * the index of a model if it is named like one (st_open). Shards have the names in the index, after
 * the directory of name: the shard "b.safetensors" of "models/a.index.json" is
 * "models/b.safetensors". Names of shards are relative paths separated by "/", without the parts
 * "", "." and "..". Two names must be two files. The struct is copied. Its close is called even if
 * this function fails (convention 12).
 *
 * Starts threads if there are several shards. Opening calls the functions of the store and its
 * sources on these threads and on the calling thread. options may be NULL. *out is freed with
 * st_free. Since version 0.3.0.
 *
 * May change before version 1.1 (convention 13).
 *
 * ST_ERR_ARGUMENT  the last part of name is "", "." or "..".
 * ST_ERR_OPEN   the store has no file with this name.
 * ST_ERR_SHARD  a shard is missing or has a name that is not allowed, or the index and the shards
 *               differ.
 * Also the statuses of the store's open and of its sources, ST_ERR_HEADER_SIZE, and 3xx if the
 * content is invalid: see st_open. */
ST_API st_status st_open_store(const st_store *store, const char *name,
                               const st_open_options *options, st_file **out, st_error *err);

/* Since version 0.3.0. ST_ERR_ARGUMENT if the name contains a NUL. */
ST_API st_status st_open_store_n(const st_store *store, const char *name, size_t len,
                                 const st_open_options *options, st_file **out, st_error *err);

/* Adds a reference to the file and returns the file. Each reference needs an st_free. Other threads
 * may retain the file, and free their own references, at the same time. Returns NULL for NULL. */
ST_API st_file *st_retain(const st_file *file);

/* Frees one reference. The last one closes the file, unmaps it and frees everything borrowed from
 * it. */
ST_API void st_free(st_file *file);

/* ---- Checking -------------------------------------------------------------------------------- */

/* A report of all problems of a file or a model. Everything in this section exists since version
 * 0.2.0. */
typedef struct st_report st_report;

/* Flags of st_finding. */
enum {
  ST_FINDING_NOTE = 1 << 0 /* The file is valid, but unusual: a lint note.                     */
};

/* One finding. Its strings belong to the report and end with a NUL. */
typedef struct st_finding {
  uint32_t struct_size;
  st_status status; /* The status that opening the file would return for this finding.       */
  uint32_t flags;   /* ST_FINDING_NOTE, or 0.                                                */
  int32_t os_error; /* As in st_error.                                                       */
  uint64_t offset;  /* As in st_error, for the file at path.                                 */
  const char *path; /* The file with the finding: the index, or one of its shards.           */
  size_t path_len;
  const char *tensor; /* The name of the tensor with the finding; NULL if there is none.       */
  size_t tensor_len;
  const char *message; /* One line.                                                             */
  size_t message_len;
} st_finding;

/* Checks the files that st_open would open at this path: each header, and the index and the shards
 * of a model against each other, in both directions. Reads no tensor data.
 *
 * If st_open returns a 3xx, the first finding that is not a note is that error, with the same
 * status, offset and message. If the message of st_open begins with the quoted path of the file,
 * the message of the finding omits the path. All other findings that can be determined follow. If a
 * header has a syntax error, its findings end there. A valid file has only notes:
 *   - data or tensors that are less aligned than usual, or than their elements need;
 *   - tensors in a different order than the reference's writer would use;
 *   - unusual formatting of the header;
 *   - everything that ST_OPEN_STRICT rejects;
 *   - tensors that the index does not list;
 *   - a wrong total_size in the index.
 * After 1000 findings about a file, a final one says that the rest is omitted. The first error is
 * never omitted. After 1000 findings about an index, or 10,000 about a model, no further shards are
 * checked. The report takes as much memory as a few copies of the headers, regardless of the number
 * of findings.
 *
 * options may be NULL; only flags and max_header_bytes are used. *out is freed with st_report_free.
 * ST_ERR_OPEN if the file does not exist or the directory contains no model. ST_ERR_SHARD if the
 * directory contains no index, and only some of its numbered shards. */
ST_API st_status st_check(const char *path, const st_open_options *options, st_report **out,
                          st_error *err);

/* ST_ERR_ARGUMENT if the path contains a NUL. */
ST_API st_status st_check_n(const char *path, size_t len, const st_open_options *options,
                            st_report **out, st_error *err);

/* Returns the number of findings; 0 for a valid file without notes. */
ST_API size_t st_count_findings(const st_report *report);

/* Returns finding i, or NULL if i is too large. Findings are ordered by file. The finding is valid
 * until the report is freed. */
ST_API const st_finding *st_get_finding(const st_report *report, size_t i);

/* Frees a report. */
ST_API void st_report_free(st_report *report);

/* ---- Inspecting tensors ---------------------------------------------------------------------- */

/* Returns the number of tensors. */
ST_API size_t st_count_tensors(const st_file *file);

/* Returns tensor i, or NULL if i is too large. Tensors are in the order of their data, shard after
 * shard. */
ST_API const st_tensor *st_get_tensor_at(const st_file *file, size_t i);

/* Returns the tensor of this name, or NULL if there is none. */
ST_API const st_tensor *st_get_tensor(const st_file *file, const char *name);
ST_API const st_tensor *st_get_tensor_n(const st_file *file, const char *name, size_t len);

/* Returns the tensor's name and, if len is not NULL, its length. */
ST_API const char *st_tensor_name(const st_tensor *tensor, size_t *len);

/* The type of a tensor's elements. Elements are little-endian, in memory and in files. Packed
 * elements (F6, F4) are returned as whole bytes; the program that wrote the file determines which
 * bits of a byte come first. The values are stable. */
typedef int32_t st_dtype;
enum {
  ST_DTYPE_UNKNOWN = 0, /* A dtype that this library does not know.                          */
  ST_BOOL = 1,          /* One byte, 0 or 1.                                                 */
  ST_U8 = 2,            /* Unsigned integer of 8 bits.                                       */
  ST_I8 = 3,            /* Signed integer of 8 bits. All signed integers: two's complement.  */
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
  ST_F8_E4M3FNUZ = 18,  /* F8_E4M3 with another bias and no negative zero.                   */
  ST_F8_E5M2FNUZ = 19,  /* F8_E5M2 with another bias, no infinities and no negative zero.    */
  ST_F6_E2M3 = 20,      /* Float of 6 bits, packed: 2 of exponent, 3 of mantissa.            */
  ST_F6_E3M2 = 21,      /* Float of 6 bits, packed: 3 of exponent, 2 of mantissa.            */
  ST_F4 = 22,           /* Float of 4 bits, packed: 2 of exponent, 1 of mantissa.            */
  ST_DTYPE_SIGNED_ = -1
};

/* Returns the name of a dtype, for example "BF16", or "UNKNOWN" for any other number. */
ST_API const char *st_dtype_name(st_dtype dtype);

/* Returns the size of an element in bits, or 0 for a number that is not a dtype. */
ST_API uint32_t st_dtype_bits(st_dtype dtype);

/* Returns the dtype with this name of len bytes, or ST_DTYPE_UNKNOWN. Case matters. name may be
 * NULL. */
ST_API st_dtype st_dtype_from_name(const char *name, size_t len);

/* Returns the tensor's dtype. It is ST_DTYPE_UNKNOWN only with ST_OPEN_UNKNOWN_DTYPES. */
ST_API st_dtype st_tensor_dtype(const st_tensor *tensor);

/* Returns the dtype as spelled in the file, for example "BF16", even if it is unknown. (A
 * bintensors file contains numbers; the result is their name in safetensors.) */
ST_API const char *st_tensor_dtype_name(const st_tensor *tensor);

/* Also sets *len to the length, unless len is NULL. Since version 0.2.0. */
ST_API const char *st_tensor_dtype_name_n(const st_tensor *tensor, size_t *len);

/* Returns the number of dimensions; 0 for a scalar. */
ST_API size_t st_tensor_rank(const st_tensor *tensor);

/* Returns the sizes of the dimensions: st_tensor_rank values, in elements. */
ST_API const uint64_t *st_tensor_shape(const st_tensor *tensor);

/* Returns the number of elements: the product of the shape, 1 for a scalar. */
ST_API uint64_t st_tensor_elements(const st_tensor *tensor);

/* Returns the size of the tensor's data in bytes. */
ST_API uint64_t st_tensor_bytes(const st_tensor *tensor);

/* Returns the offset of the tensor's data in its shard, in bytes from the start of the file. With
 * st_open_fd, the offset is relative to the one passed to st_open_fd. */
ST_API uint64_t st_tensor_offset(const st_tensor *tensor);

/* Returns the number of the shard that holds the tensor; 0 for a checkpoint of one file. */
ST_API size_t st_tensor_shard(const st_tensor *tensor);

/* Returns a view: a pointer to the st_tensor_bytes bytes of the tensor, without a copy. Returns
 * NULL if the file is not mapped (see st_io) or has become shorter; then read the tensor instead.
 *
 * The view is only as aligned as the data in the file, which may be less than the element type
 * needs. If another process truncates the file, touching the view raises SIGBUS.
 *
 * An open file may keep one descriptor per shard, at most 64. The caller must not close them. */
ST_API const void *st_tensor_data(const st_tensor *tensor);

/* All tensors of a file in columns, for callers with expensive calls, such as foreign function
 * interfaces: a few arrays replace several calls for each of 100,000 tensors. Row i of each column
 * describes tensor i, in the order of st_get_tensor_at.
 *
 * The columns `data` and `tensors` are borrowed from the file. All other columns are copies, which
 * are valid until the list is freed, even if the file is freed first. Since version 0.2.0. */
typedef struct st_tensor_list {
  uint32_t struct_size;
  uint32_t flags;                  /* The flags passed to st_list_tensors.                       */
  uint64_t count;                  /* The number of tensors, and of rows.                        */
  const char *names;               /* All names, each followed by a NUL.                         */
  const uint64_t *name_offsets;    /* count + 1 values. Name i begins at names[name_offsets[i]] and
                                   has name_offsets[i + 1] - name_offsets[i] - 1 bytes.       */
  const st_dtype *dtypes;          /* As st_tensor_dtype.                                        */
  const uint32_t *ranks;           /* As st_tensor_rank.                                         */
  const uint64_t *dims;            /* All shapes, one after another.                             */
  const uint64_t *dim_offsets;     /* count + 1 values. Shape i begins at dims[dim_offsets[i]].  */
  const uint64_t *offsets;         /* As st_tensor_offset.                                       */
  const uint64_t *sizes;           /* As st_tensor_bytes.                                        */
  const uint32_t *shards;          /* As st_tensor_shard.                                        */
  const void *const *data;         /* With ST_LIST_DATA: as st_tensor_data. Otherwise NULL.      */
  const st_tensor *const *tensors; /* As st_get_tensor_at.                                    */
  const void *reserved;            /* NULL                                                    */
} st_tensor_list;

/* Flags of st_list_tensors. Since version 0.2.0. */
enum {
  ST_LIST_DATA = 1 << 0 /* Fill the column `data`. With ST_IO_AUTO, this maps the file.       */
};

/* Lists all tensors of a file. *out is freed with st_tensor_list_free. Since version 0.2.0. */
ST_API st_status st_list_tensors(const st_file *file, uint32_t flags, st_tensor_list **out,
                                 st_error *err);

/* Frees a list and its columns. Since version 0.2.0. */
ST_API void st_tensor_list_free(st_tensor_list *list);

/* ---- Inspecting metadata, shards and headers ------------------------------------------------- */

/* The format of a file. */
typedef int32_t st_format;
enum {
  ST_FORMAT_SAFETENSORS = 1,    /* A JSON header.                                            */
  ST_FORMAT_BINTENSORS = 2,     /* A binary header. Usual extensions: .bt and .bintensors.   */
  ST_FORMAT_BINTENSORS_OLD = 3, /* bintensors before 0.1: read, but not written.             */
  ST_FORMAT_SIGNED_ = -1
};

/* Returns the format of the file or, for a model of several shards, of its first shard. */
ST_API st_format st_get_format(const st_file *file);

/* Metadata is a list of key-value pairs of strings. A model of several shards has the metadata of
 * its index, followed by the pairs of its first shard with other keys.
 *
 * Returns 1 if there is metadata, else 0. For a single file, an empty metadata map counts as
 * metadata. For a model with an index or several shards, it does not. */
ST_API int32_t st_has_metadata(const st_file *file);

/* Returns the number of pairs. */
ST_API size_t st_count_metadata(const st_file *file);

/* Returns the key of pair i, in the order of the file, and sets *key_len, *value and *value_len,
 * unless they are NULL. Returns NULL and sets nothing if i is too large. */
ST_API const char *st_get_metadata_at(const st_file *file, size_t i, size_t *key_len,
                                      const char **value, size_t *value_len);

/* Returns the value of a key and, if value_len is not NULL, sets *value_len to its length. Returns
 * NULL if there is no such key. */
ST_API const char *st_get_metadata(const st_file *file, const char *key, size_t *value_len);
ST_API const char *st_get_metadata_n(const st_file *file, const char *key, size_t key_len,
                                     size_t *value_len);

/* Returns the number of files of the checkpoint: 1 unless it is a model of several shards. */
ST_API size_t st_count_shards(const st_file *file);

/* Returns the path of a shard, derived from the path passed to st_open. For a source, it is
 * st_source.name; in a store, its default is the name of the file (both since 0.3). Returns "" for
 * a file without path or name, and NULL if the number is too large. */
ST_API const char *st_get_shard_path(const st_file *file, size_t shard);

/* If it does not return NULL, also sets *len to the length, unless len is NULL. Since version
 * 0.2.0. */
ST_API const char *st_get_shard_path_n(const st_file *file, size_t shard, size_t *len);

/* Returns the size of a shard's file in bytes, as it was at open; 0 if the number is too large. */
ST_API uint64_t st_get_shard_size(const st_file *file, size_t shard);

/* Checks whether the file of a shard was overwritten in place since it was opened. If so, the bytes
 * that were read may be a mixture of two versions. Call it after the last read. It compares the
 * file's length and modification time, so it also reports in-place metadata edits. A file that was
 * replaced counts as unchanged, because the handle keeps the old one. Memory and sources of the
 * caller always count as unchanged.
 *
 * Systems set the modification time when a write begins. So a write by another program is not
 * reported if it had already begun when the file was opened. On Linux, a file that was opened
 * during st_tensor_write is reported nevertheless, within five seconds of its last write. A second
 * change within one tick of the filesystem's timestamps is not reported. The tick is one second on
 * ext4 with inodes of 128 bytes.
 *
 * ST_ERR_READ   the file was overwritten; or the library could not keep its descriptor (see
 *               st_writer_add_tensor) and its path no longer leads to it.
 * ST_ERR_RANGE  there is no such shard.
 * Since version 0.3.0. */
ST_API st_status st_check_unchanged(const st_file *file, size_t shard, st_error *err);

/* Returns the header of a shard as in the file: with its padding, but without the 8-byte length
 * field. Sets *len to its length, unless len is NULL. Returns NULL if the number is too large. The
 * first call makes a copy, and also returns NULL if there is no memory for it. */
ST_API const char *st_get_header(const st_file *file, size_t shard, size_t *len);

/* Returns the number of warnings: one for each shard with tensors that the index does not list. */
ST_API size_t st_count_warnings(const st_file *file);

/* Returns warning i, one line of text, or NULL if i is too large. */
ST_API const char *st_get_warning(const st_file *file, size_t i);

/* If it does not return NULL, also sets *len to the length, unless len is NULL. Since version
 * 0.2.0. */
ST_API const char *st_get_warning_n(const st_file *file, size_t i, size_t *len);

/* ---- Reading --------------------------------------------------------------------------------- */

/* The functions of this and the next two sections copy bytes into the caller's memory. After an
 * error, the content of that memory is undefined. They share these statuses:
 *
 * ST_ERR_BUFFER_SIZE  dst_size is not exactly the number of bytes to read.
 * ST_ERR_TRUNCATED    the file has become shorter since it was opened.
 * ST_ERR_READ         the system could not read; or the file is no longer held open, and another
 *                     file has replaced it at its path. (A mapped file is always held open.)
 * ST_ERR_CALLBACK     the read_at of a source failed. */

/* Copies all bytes of a tensor to dst. dst_size must be st_tensor_bytes. dst may be NULL if that is
 * 0. */
ST_API st_status st_tensor_read(const st_tensor *tensor, void *dst, size_t dst_size, st_error *err);

/* Copies n bytes of a shard's file, starting at byte offset, to dst. This includes the header, for
 * example to compute a digest. (The digest that bintensors tools show for ST_FORMAT_BINTENSORS_OLD
 * begins with the data, at byte 8 + the length of the header.) dst may be NULL if n is 0.
 * ST_ERR_RANGE if there is no such shard, or the range exceeds its file. */
ST_API st_status st_read_shard(const st_file *file, size_t shard, uint64_t offset, void *dst,
                               size_t n, st_error *err);

/* A hint for st_tensor_advise. */
typedef int32_t st_advice;
enum {
  ST_ADVICE_WILL_NEED = 1, /* The bytes will be read soon: fetch them ahead of time.         */
  ST_ADVICE_DONT_NEED = 2, /* The bytes will not be read again soon: drop them from memory.  */
  ST_ADVICE_SIGNED_ = -1
};

/* Gives the system a hint about the bytes of count tensors, which may belong to several files.
 * Errors are not reported, and unknown hints are ignored. Writes to a view (ST_IO_COPY) are kept.
 * tensors may be NULL if count is 0. */
ST_API void st_tensor_advise(const st_tensor *const *tensors, size_t count, st_advice advice);

/* ---- Reading slices -------------------------------------------------------------------------- */

/* A slice is a part of a tensor, described by begin, end and step for each dimension, as in Python.
 * Each of the three arrays has st_tensor_rank values, in elements. Negative positions count from
 * the end. Positions outside the tensor are clamped. A negative step goes backwards. A NULL array
 * leaves out its value in every dimension: tensor[:]. To leave out begin or end in one dimension,
 * use ST_SLICE_BEGIN and ST_SLICE_END. The whole dimension is ST_SLICE_BEGIN, ST_SLICE_END, 1; in
 * reverse order it is ST_SLICE_END, ST_SLICE_BEGIN, -1. The bytes of a slice are packed in
 * row-major order, like the bytes of a tensor. The library does not keep the arrays.
 *
 * ST_ERR_ARGUMENT     a step is 0.
 * ST_ERR_MISALIGNED   the slice begins or ends inside a byte (sub-byte dtypes).
 * ST_ERR_UNSUPPORTED  the dtype is unknown and the slice is not the whole tensor. */

/* Positions before the first and after the last element of a dimension of any size (before version
 * 0.3: of at most 2^63 - 1 elements). They are macros because enumerators have 32 bits. Since
 * version 0.2.0. */
#define ST_SLICE_BEGIN INT64_MIN
#define ST_SLICE_END INT64_MAX

/* Computes the shape (st_tensor_rank values) and the size in bytes of a slice. Reads nothing. Sets
 * *contiguous to a view of the slice, as st_tensor_data does for the whole tensor, or to NULL if
 * the slice is not contiguous. begin, end, step, shape, bytes and contiguous may be NULL. */
ST_API st_status st_tensor_slice(const st_tensor *tensor, const int64_t *begin, const int64_t *end,
                                 const int64_t *step, uint64_t *shape, uint64_t *bytes,
                                 const void **contiguous, st_error *err);

/* Copies a slice to dst. dst_size must be the number of bytes that st_tensor_slice computes. begin,
 * end and step may be NULL; dst may be NULL if dst_size is 0. Reads on the calling thread, and only
 * the slice and small gaps in it. For many slices, or large ones, a plan is faster. */
ST_API st_status st_tensor_read_slice(const st_tensor *tensor, const int64_t *begin,
                                      const int64_t *end, const int64_t *step, void *dst,
                                      size_t dst_size, st_error *err);

/* ---- Reading many tensors: plans ------------------------------------------------------------- */

/* A plan is a list of tensors and slices, each with a destination in memory. Running the plan reads
 * them in the order of the files, with several threads. Small reads that are close together are
 * merged, and large ones are split. */
typedef struct st_plan st_plan;

/* Creates an empty plan, which keeps its file open. *out is freed with st_plan_free. */
ST_API st_status st_plan_new(const st_file *file, st_plan **out, st_error *err);

/* Adds a tensor, or a slice of it: begin, end and step describe the slice and may be NULL. Three
 * NULLs mean the whole tensor. Destinations are numbered from 0 in the order in which they are
 * added.
 *
 * The plan keeps the pointer dst, and each run writes to it from several threads. The memory
 * belongs to the caller. It must stay valid and must not move until the plan has run for the last
 * time. (In a language with a garbage collector, pin it and keep a reference.) The plan keeps no
 * other pointers: the three arrays are copied. Destinations must not overlap. dst_size is the size
 * of dst in bytes; dst may be NULL if it is 0.
 *
 * Direct reads (see st_cache) need no second copy if the address of dst and the file offset of its
 * first byte are equal modulo 4096.
 *
 * ST_ERR_ARGUMENT  the tensor does not belong to the plan's file.
 * ST_ERR_OVERFLOW  the plan would read more than 2^64 - 1 bytes.
 * Also the statuses of slices. After an error the plan is unchanged. */
ST_API st_status st_plan_add(st_plan *plan, const st_tensor *tensor, const int64_t *begin,
                             const int64_t *end, const int64_t *step, void *dst, size_t dst_size,
                             st_error *err);

/* How a run uses the page cache of the system. This applies to files only. */
typedef int32_t st_cache;
enum {
  /* Copy cached bytes, and read the rest directly from the disk (O_DIRECT), without changing the
   * cache. On network and FUSE mounts, read through the cache. */
  ST_CACHE_AUTO = 0,
  /* Read everything through the cache. The bytes stay there for the next reader. */
  ST_CACHE_THROUGH = 1,
  /* Read everything directly, even cached bytes. If the filesystem has no direct reads, read
   * through the cache. */
  ST_CACHE_AROUND = 2,
  /* As ST_CACHE_AUTO, but copy the runs of slices from the file's mapping if they are cached and at
   * most 1 MiB long. This is the fastest way to read columns of a file in the page cache: each run
   * costs a copy instead of a system call. If another process truncates the file during the copy,
   * the copy raises SIGBUS, as a view does. Windows does not report what is cached, so there all
   * runs of at most that length are copied from the mapping. Without a mapping (ST_IO_READ,
   * ST_IO_COPY, network and FUSE mounts), works as ST_CACHE_AUTO. Since version 0.3.0. */
  ST_CACHE_MAPPED = 3,
  ST_CACHE_SIGNED_ = -1
};

/* How st_group.allreduce combines the values of all processes. May change before version 1.1
 * (convention 13). Since version 0.3.0. */
typedef int32_t st_reduce;
enum {
  ST_REDUCE_SUM = 1, /* Their sum; it never overflows.     */
  ST_REDUCE_MIN = 2, /* The smallest.                      */
  ST_REDUCE_MAX = 3, /* The largest.                       */
  ST_REDUCE_SIGNED_ = -1
};

/* A group of processes that run plans together: bytes that several of them want are read once. The
 * library does not communicate. It calls these two collective operations, which MPI,
 * torch.distributed and similar libraries have; safetensors/mpi.h makes a group from an MPI
 * communicator. All processes must have the same checkpoint open, from the same files or from
 * copies, and the same byte order.
 *
 * The functions are called in the same order in every process, only inside st_plan_run and only on
 * the thread that called it. They return 0 on success. For any other value, st_plan_run fails with
 * ST_ERR_CALLBACK at once and calls neither of them again. The operation must then fail in every
 * process, or the other processes wait forever. May change before version 1.1 (convention 13).
 * Since version 0.3.0. */
typedef struct st_group {
  uint32_t struct_size;
  uint32_t flags; /* 0                                                                       */
  void *ctx;      /* Passed to the two functions.                                            */
  uint32_t rank;  /* The number of this process, from 0 to size - 1.                         */
  uint32_t size;  /* The number of processes, at most 8191. 1: the functions are not called. */
  /* Replaces each of the n values by the combination of the values that all processes have at its
   * place. n is at least 1 and is the same in all processes. */
  int32_t (*allreduce)(void *ctx, st_reduce op, uint64_t *values, size_t n);
  /* Sends the send_counts[r] bytes at send + send_offsets[r] to each process r, and receives
   * recv_counts[r] bytes from it at recv + recv_offsets[r]. This includes the process itself. Each
   * array has `size` elements, and counts may be 0. Messages to several processes may be the same
   * memory. Received messages follow one another in the order of ranks. All offsets, and the sums
   * of the counts, are below 2^31. */
  int32_t (*alltoallv)(void *ctx, const void *send, const int32_t *send_counts,
                       const int32_t *send_offsets, void *recv, const int32_t *recv_counts,
                       const int32_t *recv_offsets);
} st_group;

typedef struct st_read_options {
  uint32_t struct_size;
  uint32_t flags;       /* 0                                                                 */
  uint32_t threads;     /* Threads that read, including the calling thread; at most 1024 are used.
                           0: the library chooses. 1: starts no threads, does not use
                           parallel_for, and calls callbacks on the calling thread only.     */
  st_cache cache;       /* How the page cache is used.                                       */
  uint64_t chunk_bytes; /* Approximate bytes per request. 0: the library chooses. Other values are
                           rounded to 64 KiB .. 1 GiB, in steps of 4096.                     */
  uint64_t gap_bytes;   /* One request reads two ranges with a gap of at most this many bytes, and
                           drops the gap. This is faster than two requests. 0: the library
                           chooses. 1: practically never.                                    */
  void *ctx;            /* Passed to the functions below.                                    */
  /* Reports the bytes read so far and the total. Called after requests, at most every 10 ms, and at
   * the end of a successful run. If it returns a number other than 0, the run is cancelled, unless
   * it has read everything. It is never called from two threads at once, and without parallel_for
   * only from the thread that called st_plan_run. It may run other plans, but not this one. May be
   * NULL. */
  int32_t (*progress)(void *ctx, uint64_t done, uint64_t total);
  /* The caller's thread pool, used instead of new threads. It must call fn(arg, i) for each i from
   * 0 to n - 1, in any order and on any threads, and return after all these calls have returned.
   * May be NULL. */
  void (*parallel_for)(void *ctx, size_t n, void (*fn)(void *arg, size_t i), void *arg);
  /* Reports that destination i is complete, once per run and as soon as its last byte has been
   * read. Several threads may call it at once, and in any order; with threads = 1, only the thread
   * that called st_plan_run does. It should return quickly: its thread reads nothing in the
   * meantime. It may run other plans, but not this one. May be NULL. Since version 0.2.0. */
  void (*ready)(void *ctx, size_t i);
  /* Runs the plan together with the plans of the other processes of a group. Each process has its
   * own destinations, and may have none. A process reads the bytes that only it wants. Bytes that
   * several processes want are read by one process and sent to the others. Reading and delivering
   * use up to `threads` threads each. With threads = 1 or parallel_for, reading, sending and
   * delivering take turns, which is slower. progress is called on the calling thread, at longer
   * intervals. The struct is not used after the call. NULL: no group. Since version 0.3.0. */
  const st_group *group;
  /* Bytes of memory for the exchange with the other processes, at most 2 GiB. All processes use the
   * smallest value of the group, but at least 320 KiB for each process of the group. 0: 256 MiB.
   * Since version 0.3.0. */
  uint64_t exchange_bytes;
} st_read_options;

/* Reads all destinations of the plan, each time it is called. Starts threads, unless options say
 * otherwise. options may be NULL.
 *
 * The first error ends the run; its message names the tensor, the file and the offset.
 * ST_ERR_CANCELLED if the run was cancelled.
 *
 * With options.group, every process of the group must call this function. If one run fails, even
 * because of its options, or is cancelled, all of them end after the same round of reads. If
 * several fail, each returns its own error, and the others name the lowest rank. progress cancels
 * all of them, even if its own process has all its bytes already. A process whose st_group or
 * struct_size is invalid calls no function of the group, and the other processes wait for it. Such
 * runs also return:
 *
 * ST_ERR_PEER       another process failed. The message contains its rank and its status. That
 *                   process returns its own error.
 * ST_ERR_CANCELLED  a process was cancelled. The message contains its rank.
 * ST_ERR_STATE      the processes have not opened the same checkpoint.
 * ST_ERR_CALLBACK   a function of the group failed. */
ST_API st_status st_plan_run(st_plan *plan, const st_read_options *options, st_error *err);

/* The next three functions may be called from any thread while the plan runs. */

/* Sets *done to the bytes that the current or last run has read, and *total to the bytes of the
 * plan. Each may be NULL. */
ST_API void st_plan_progress(const st_plan *plan, uint64_t *done, uint64_t *total);

/* Ends the current run early or, if the plan is not running, its next run. A run that has already
 * read everything succeeds. */
ST_API void st_plan_cancel(const st_plan *plan);

/* Returns 1 if the current or last run has read every byte of destination i, even if that run
 * failed or was cancelled. Otherwise, or if i is too large, returns 0. A destination of 0 bytes is
 * always complete. */
ST_API int32_t st_plan_is_complete(const st_plan *plan, size_t i);

/* Frees a plan, which must not be running. */
ST_API void st_plan_free(st_plan *plan);

/* Statistics of the last run of a plan, even if it failed or was cancelled. Since version 0.2.0. */
typedef struct st_plan_stats {
  uint32_t struct_size;
  uint32_t reserved;      /* 0                                                               */
  uint64_t bytes_wanted;  /* The bytes of all destinations.                                  */
  uint64_t bytes_read;    /* Bytes read from files, including gaps and whole disk blocks, and
                             bytes copied from mappings.                                     */
  uint64_t reads;         /* Requests for bytes_read; copies from mappings need none. The system
                             may split a request.                                            */
  uint64_t bytes_copied;  /* Bytes copied to devices.                                        */
  uint64_t copies;        /* Copies requested from devices.                                  */
  uint64_t staging_bytes; /* Staging memory of the plan's devices at the end, which is also its
                             maximum: see st_device_options.                                 */
  uint64_t bytes_sent;    /* Bytes sent to other processes of a group. Since version 0.3.0.  */
  uint64_t bytes_received; /* Bytes received from them. Since version 0.3.0.                 */
  uint64_t exchange_bytes; /* Memory used for that. Since version 0.3.0.                     */
} st_plan_stats;

/* Fills *stats: its first struct_size bytes, or nothing if struct_size is 0. Members that this
 * library does not know keep their values. The plan must not be running. Since version 0.2.0. */
ST_API void st_plan_get_stats(const st_plan *plan, st_plan_stats *stats);

/* Flags of st_buffer_new. */
enum {
  /* Allocate pages when they are first touched. This is faster if a plan fills the buffer right
   * away. */
  ST_BUFFER_LAZY = 1 << 0
};

/* Allocates size bytes of zeroed memory to read into, aligned to 2 MiB, on huge pages if the system
 * has them. Without ST_BUFFER_LAZY, at most `threads` new threads (0: the library chooses) allocate
 * all pages before it returns. Reading into such memory takes a fraction of the time of reading
 * into untouched small pages. size may be 0. *out is freed with st_buffer_free, by any thread. */
ST_API st_status st_buffer_new(uint64_t size, uint32_t flags, uint32_t threads, void **out,
                               st_error *err);

/* Frees a buffer of st_buffer_new. */
ST_API void st_buffer_free(void *buffer);

/* ---- Reading into the memory of devices ------------------------------------------------------ */

/* A device, for example a GPU, has memory that the processor cannot write. A plan reads into
 * staging memory of the host that the device can access. The device copies from there while the
 * plan reads the next bytes. See docs/gpu.md. Everything in this section exists since version
 * 0.2.0, and may change before version 1.1 (convention 13).
 *
 * An st_device represents a device in this process: its driver, its copy queues and its staging
 * memory. Any number of plans may use it at the same time, from any threads. They share its staging
 * memory without waiting for one another to end, and keep the device open. */
typedef struct st_device st_device;

typedef struct st_device_options {
  uint32_t struct_size;
  uint32_t flags;         /* 0                                                               */
  int32_t ordinal;        /* The number of the device, as its driver numbers devices.        */
  uint32_t queues;        /* Copy queues, at most 64; 0: 2.                                  */
  uint64_t staging_bytes; /* Limit of the device's staging memory, at least 4 MiB; 0: 64 MiB. It is
                             allocated slot by slot, when first needed, and kept until the
                             device is closed.                                               */
  void *context;          /* CUDA only: the caller's CUcontext, which must outlive the device. NULL:
                             the primary context, which the CUDA runtime, PyTorch, JAX and CuPy
                             use. It is retained until the device is closed.                 */
  const char *library;    /* The path of the driver's library. NULL: the library that this process
                             has loaded, otherwise the system's: libcuda.so.1, or
                             libamdhip64.so.7, .6 or .5. docs/gpu.md has the names on Windows. */
} st_device_options;

/* Opens a device of NVIDIA's CUDA driver or AMD's HIP runtime. The library does not link to them.
 * These functions load them, and they stay loaded. No function of this library changes which
 * context or device is current on the calling thread.
 *
 * options may be NULL. *out is closed with st_device_free.
 *
 * ST_ERR_UNSUPPORTED  no driver is installed, or it is too old, has no device, or is a stub for
 *                     linking only.
 * ST_ERR_RANGE        there is no such ordinal.
 * ST_ERR_DEVICE       the driver reports another error. */
ST_API st_status st_device_open_cuda(const st_device_options *options, st_device **out,
                                     st_error *err);
ST_API st_status st_device_open_hip(const st_device_options *options, st_device **out,
                                    st_error *err);

/* One copy from the host to a device. The struct never grows. */
typedef struct st_device_copy {
  void *dst;       /* An address in device memory.                                           */
  const void *src; /* In memory from host_alloc.                                             */
  size_t n;        /* Bytes, at least 1.                                                     */
} st_device_copy;

/* A device of another kind, implemented by functions of the caller. CUDA and HIP devices are made
 * of the same functions. A function that returns an int32_t returns 0 on success. For any other
 * value, the library's function fails with ST_ERR_DEVICE, and os_error is the value. Several
 * threads, including threads that the library starts, may call these functions at once, except
 * close. They must not run a plan for this device, which could wait forever. */
typedef struct st_device_ops {
  uint32_t struct_size;
  uint32_t flags; /* 0                                                                       */
  void *ctx;      /* Passed to the functions.                                                */
  /* Returns size bytes of memory that the device can read, or NULL. Direct reads need memory
   * aligned to 4096 bytes. If it returns NULL, the plan continues with the slots that it has;
   * without any, it fails with ST_ERR_NO_MEMORY. */
  void *(*host_alloc)(void *ctx, size_t size);
  void (*host_free)(void *ctx, void *ptr, size_t size);
  /* Starts n copies in a queue, numbered from 0 to st_device_options.queues - 1, and sets *mark to
   * a number for wait. Their dst do not overlap. It need not wait for them, and they may be
   * reordered. Each copy is for one destination of a plan, even if destinations are adjacent; one
   * destination may need several copies. If it fails, none of the copies may still be in flight
   * when it returns, and wait is not called. */
  int32_t (*copy)(void *ctx, uint32_t queue, const st_device_copy *copies, size_t n,
                  uint64_t *mark);
  /* Returns when all copies of one call of copy have reached device memory, or when one has failed
   * and none is in flight. Called once for each mark, in any order, even after a failure. Until it
   * returns, the bytes at src do not change. */
  int32_t (*wait)(void *ctx, uint32_t queue, uint64_t mark);
  /* Makes copies that start later, in any queue and of any plan, wait for the work submitted to
   * `stream` so far. NULL: st_plan_add_device accepts no stream. */
  int32_t (*after)(void *ctx, void *stream);
  /* Allocates device memory, aligned to 256 bytes. NULL: st_device_alloc returns
   * ST_ERR_UNSUPPORTED. */
  int32_t (*alloc)(void *ctx, uint64_t size, void **out);
  void (*release)(void *ctx, void *ptr);
  /* Returns a name for an error code of another function, for messages. It may return NULL. The
   * library does not free the text. May be NULL. */
  const char *(*error_name)(void *ctx, int32_t code);
  /* Called once, after all other functions, when the device is closed or st_device_new fails. May
   * be NULL. */
  void (*close)(void *ctx);
} st_device_ops;

/* Creates a device from the caller's functions. host_alloc, host_free, copy and wait are required;
 * release is required if alloc is set. The struct is copied. Its close is called even if this
 * function fails (convention 12). Before version 0.3, it was not called for a longer struct that
 * sets an unknown member. options may be NULL; only queues and staging_bytes may be set. *out is
 * closed with st_device_free. */
ST_API st_status st_device_new(const st_device_ops *ops, const st_device_options *options,
                               st_device **out, st_error *err);

/* Closes a device as soon as no plan uses it. */
ST_API void st_device_free(st_device *device);

/* Allocates size bytes of device memory, aligned to 256 bytes, for programs without their own
 * allocator. size may be 0. *out is freed with st_device_release, before the device is.
 * ST_ERR_UNSUPPORTED  the device has no such function.
 * ST_ERR_DEVICE       the function failed, for example because memory is insufficient. */
ST_API st_status st_device_alloc(const st_device *device, uint64_t size, void **out, st_error *err);

/* Frees memory of st_device_alloc. */
ST_API void st_device_release(const st_device *device, void *ptr);

/* Adds a destination in device memory. Otherwise like st_plan_add; both number the plan's
 * destinations in one sequence. One plan may fill several devices and host memory. If several
 * destinations need the same bytes, and each destination is contiguous in the file, the plan reads
 * these bytes once.
 *
 * stream is a work queue of the caller: a CUstream or a hipStream_t. The values 1 and 2 are the
 * default streams, as in DLPack (1: legacy, 2: per thread). The run writes to dst after the work
 * that was submitted to the stream before the call of st_plan_run. NULL: it may write immediately.
 *
 * When st_plan_run returns, even with an error, no copy is in flight, and the copied bytes can be
 * used in any stream. For st_plan_is_complete and ready, a byte counts when it has reached the
 * device. Running such a plan can also return:
 *
 * ST_ERR_DEVICE       a function of the device has failed. os_error is the value that it returned,
 *                     and the message names the tensor.
 * ST_ERR_UNSUPPORTED  (of this function) stream is not NULL, and the device accepts none. */
ST_API st_status st_plan_add_device(st_plan *plan, const st_device *device, void *stream,
                                    const st_tensor *tensor, const int64_t *begin,
                                    const int64_t *end, const int64_t *step, void *dst,
                                    size_t dst_size, st_error *err);

/* ---- Handing tensors to other libraries ------------------------------------------------------ */

/* Converts n values from one float dtype to another. Each may be F64, F32, F16, BF16, F8_E4M3,
 * F8_E5M2, F8_E8M0, F8_E4M3FNUZ or F8_E5M2FNUZ. `from` may also be F4 (E2M1), F6_E2M3 or F6_E3M2;
 * before version 0.3, it could not. src and dst contain n elements each, with any alignment, and
 * must not overlap. They may be NULL if n is 0. Works on the calling thread. st_convert_scaled also
 * applies scales.
 *
 * F4 and F6 are packed: src has n * 4 / 8 or n * 6 / 8 bytes, rounded up. The first element is in
 * the lowest bits of the first byte, the next element in the bits above it, and so on. Two F4 fill
 * a byte, and four F6 fill three bytes. Unused bits of the last byte are ignored. For F4, this is
 * the order of torch.float4_e2m1fn_x2. For F6, neither safetensors nor the MX specification
 * prescribes an order, and programs differ.
 *
 * The results are the same as in the Python package ml_dtypes (and in numpy for F16, F32 and F64):
 *
 *   - Every value is rounded once, to the nearest value of the target, ties to even. Only F64 is
 *     first rounded to F32 before it becomes BF16 or a dtype of 8 bits. Denormal numbers are kept,
 *     and results may be denormal.
 *   - Values that are too large for the target, and infinity, become infinity. In a dtype without
 *     infinities (F8_E4M3 and the two FNUZ dtypes) they become NaN. They never become the largest
 *     number, unlike in new versions of torch, which do that for F8_E4M3.
 *   - NaN stays NaN, with the same sign unless the target has only one NaN. Its other bits are
 *     unspecified.
 *   - In a dtype without negative zero (the two FNUZ dtypes), -0 becomes 0, even as a result of
 *     rounding.
 *   - A value converted to F8_E8M0 becomes the nearest power of two, or the larger of two that are
 *     equally near. Positive numbers below 2^-127, its smallest value, become 2^-127. Numbers
 *     between 2^-127 and 2^-126 become 2^-126. Zero, negative numbers, infinity and values that are
 *     too large become NaN.
 *
 * These results need the default floating-point environment of the thread: rounding to nearest, and
 * denormal numbers not flushed to zero.
 *
 * ST_ERR_UNSUPPORTED  a dtype is not in the list above, or `to` is F4, F6_E2M3 or F6_E3M2.
 * ST_ERR_OVERFLOW     n elements do not fit in memory.
 * Since version 0.2.0. */
ST_API st_status st_convert(st_dtype from, const void *src, st_dtype to, void *dst, size_t n,
                            st_error *err);

/* Converts n values that have scales. Element i of dst becomes
 *
 *     src[i] * (scales[i / block] * global_scale[0])
 *
 * from, src, to and dst are as for st_convert, and scale_dtype is one of its dtypes of at least 8
 * bits. For example:
 *
 *   format   from                                        scale_dtype   block   global_scale
 *   MX       F4, F6_E2M3, F6_E3M2, F8_E4M3 or F8_E5M2    F8_E8M0       32      none
 *   NVFP4    F4                                          F8_E4M3       16      one per tensor
 *   FP8      F8_E4M3                                     F32           128     none
 *
 * block is the number of elements with the same scale, at least 1. scales contains n / block
 * elements, rounded up. The last block may be shorter. If block is at least n, there is one block.
 * The scales are in the order of the blocks. (Some files contain them in the order that a GPU
 * needs.)
 *
 * Blocks do not cross rows. A call may convert several rows only if the last dimension is a
 * multiple of block. Otherwise, or if one scale applies to several rows, convert each row
 * separately with its scales.
 *
 * global_scale may be NULL, which counts as 1. Otherwise it points to one F32, little-endian like
 * all elements, with any alignment. Some programs store the reciprocal of this scale, for example
 * compressed-tensors in weight_global_scale.
 *
 * src, scales and dst may be NULL if n is 0. dst must not overlap the others. Works on the calling
 * thread.
 *
 * Values and scales are converted to F32, which is exact except from F64. Both products are F32,
 * and each is rounded once, to nearest, ties to even. The second product is then converted to `to`
 * as by st_convert, which rounds once more if `to` is smaller than F32. With MX, both products are
 * exact unless they overflow. Products that are too large become infinity. NaN as a value or a
 * scale, and 0 times infinity, become NaN, with either sign. So a NaN scale makes its whole block
 * NaN.
 *
 * ST_ERR_ARGUMENT     block is 0.
 * ST_ERR_UNSUPPORTED  a dtype is not in the lists above.
 * ST_ERR_OVERFLOW     n elements do not fit in memory.
 * Since version 0.3.0. */
ST_API st_status st_convert_scaled(st_dtype from, const void *src, st_dtype scale_dtype,
                                   const void *scales, size_t block, const void *global_scale,
                                   st_dtype to, void *dst, size_t n, st_error *err);

/* The structs of DLPack, defined in its header dlpack.h. Since version 0.2.0. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

/* Flags of st_tensor_to_dlpack and st_tensor_to_dlpack_legacy. They exclude each other. Since
 * version 0.2.0. */
enum {
  ST_DLPACK_COPY = 1 << 0,   /* Always copy the tensor. The copy may be written to.           */
  ST_DLPACK_NO_COPY = 1 << 1 /* Never copy it: ST_ERR_STATE if a copy is necessary.           */
};

/* Creates a DLPack tensor of version 1.1 for another library: on the CPU, contiguous, with shape
 * and strides. (*out)->deleter(*out) frees it, on any thread. If no consumer takes it over, the
 * caller must call the deleter. The DLPack tensor keeps the file open, so it may be used after
 * st_free, but not after this library has been unloaded.
 *
 * Its data is the view of st_tensor_data. The view is marked as read-only, except with ST_IO_COPY.
 * Writing to a read-only view crashes the process, and some consumers ignore the flag. If there is
 * no view, or its elements are not aligned, the tensor is copied to new memory, aligned to 64
 * bytes. The copy may be written to, and is marked as a copy.
 *
 * docs/dlpack.md lists the DLPack type of each dtype, and the libraries that accept it.
 *
 * ST_ERR_UNSUPPORTED  the dtype is unknown, or the shape does not fit the signed numbers of DLPack.
 * ST_ERR_STATE        see ST_DLPACK_NO_COPY.
 * Also the statuses of reading, for a copy. Since version 0.2.0. */
ST_API st_status st_tensor_to_dlpack(const st_tensor *tensor, uint32_t flags,
                                     struct DLManagedTensorVersioned **out, st_error *err);

/* As st_tensor_to_dlpack, for consumers of DLPack before 1.0, whose tensors cannot be marked as
 * read-only. So a read-only view is also copied; a view of ST_IO_COPY is not. Since version
 * 0.2.0. */
ST_API st_status st_tensor_to_dlpack_legacy(const st_tensor *tensor, uint32_t flags,
                                            struct DLManagedTensor **out, st_error *err);

/* ---- Writing --------------------------------------------------------------------------------- */

/* A writer creates one file. Call its functions in this order:
 *
 *     st_writer_new
 *     st_writer_set_metadata, st_writer_add, ...  declare the content of the file
 *     st_writer_begin                             lays the file out and opens it
 *     st_writer_put                               gives it data, from any number of threads
 *     st_writer_finish                            moves the file to its path
 *     st_writer_free
 *
 * A call that is too early or too late is ST_ERR_STATE.
 *
 * Content. The same calls write the same bytes on every machine, and these are the bytes that the
 * reference implementation writes.
 *
 * Replacing. The complete file replaces the old one in one step. Until then, the path is unchanged.
 * The new file gets the owner and the permissions of the old one, or fewer permissions if the
 * system refuses some of them. If there is no old file, the mode comes from the umask. A symbolic
 * link is followed and kept, unless ST_WRITE_REPLACE_LINK is set. Other hard links, mappings and
 * open descriptors keep the old file, so a file may be replaced while it is open in this library.
 * In a sticky directory that others may write to, for example /tmp, another user's link, file or
 * FIFO is ST_ERR_OPEN with EACCES, even for root (since 0.3; docs/filesystems.md). This rule
 * applies to the last component of the path and to the links that it leads through. For links in
 * the directory part of the path, only the kernel's protected_symlinks applies, if it is enabled.
 *
 * Streams. A FIFO, a device or an open descriptor (/dev/stdout, /dev/fd/N) is written directly, in
 * the order of the data. st_writer_put must follow that order; with ST_WRITE_KEEP_ORDER, it is the
 * order of st_writer_add. A descriptor of a regular file must be at the end of the file or in
 * append mode: otherwise old bytes would follow the new ones (ST_ERR_OPEN). If the reader closes
 * its end, the call fails with ST_ERR_WRITE and raises no SIGPIPE. A file that would exceed
 * RLIMIT_FSIZE is ST_ERR_WRITE with EFBIG; on Linux it raises no SIGXFSZ (since 0.3).
 *
 * Failures. These errors leave the writer unchanged:
 *   - an error from a function up to st_writer_begin, except ST_ERR_WRITE;
 *   - an st_writer_put with a wrong index or range, or for a tensor with another source of data;
 *   - an st_writer_finish while data is missing.
 * Any other error ends the writer: every later call returns the same error, and the path is
 * unchanged. There is one exception: with ST_WRITE_SYNC, syncing the directory can fail after the
 * file has replaced the old one. The message then says that the file is in place. */
typedef struct st_writer st_writer;

/* Creates a writer without tensors. *out is freed with st_writer_free. */
ST_API st_status st_writer_new(st_writer **out, st_error *err);

/* Sets a metadata pair. A later value of the same key replaces the earlier one. Pairs are written
 * in the byte order of their keys. Both strings are copied. A NULL key (with key_len 0) sets no
 * pair, but makes the file contain a metadata map even if it is empty. value may be NULL if key is,
 * or if value_len is 0. ST_ERR_UTF8 if a string is not UTF-8. */
ST_API st_status st_writer_set_metadata(st_writer *writer, const char *key, const char *value,
                                        st_error *err);
ST_API st_status st_writer_set_metadata_n(st_writer *writer, const char *key, size_t key_len,
                                          const char *value, size_t value_len, st_error *err);

/* Copies all metadata pairs of an open file, or its empty map. If it fails, it sets none. */
ST_API st_status st_writer_copy_metadata(st_writer *writer, const st_file *file, st_error *err);

/* Declares a tensor. name and shape (rank values, in elements; may be NULL if rank is 0) are
 * copied.
 *
 * data points to the bytes of the tensor, as many as dtype and shape need. The writer keeps the
 * pointer. The caller owns the memory, which must stay valid and unchanged, and must not move,
 * until st_writer_finish has returned. If data is NULL, pass the bytes to st_writer_put with the
 * number that *index is set to. Tensors are numbered from 0 in the order in which they are added.
 * index may be NULL.
 *
 * ST_ERR_DUPLICATE   there is already a tensor with this name.
 * ST_ERR_UTF8        the name is not UTF-8.
 * ST_ERR_DTYPE       there is no such dtype.
 * ST_ERR_OVERFLOW    the tensor has more than 2^64 - 1 bits, or the writer has 2^32 - 2 tensors.
 * ST_ERR_MISALIGNED  the last element ends inside a byte (sub-byte dtypes). */
ST_API st_status st_writer_add(st_writer *writer, const char *name, st_dtype dtype, size_t rank,
                               const uint64_t *shape, const void *data, size_t *index,
                               st_error *err);
ST_API st_status st_writer_add_n(st_writer *writer, const char *name, size_t len, st_dtype dtype,
                                 size_t rank, const uint64_t *shape, const void *data,
                                 size_t *index, st_error *err);

/* Declares a copy of a tensor of an open file, which must stay open until st_writer_finish has
 * returned. The copy gets the next number of st_writer_add. name has len bytes; NULL: the name of
 * the tensor. The kernel copies the data if the system supports it. If the file is overwritten in
 * place after it was opened, st_writer_finish fails (since 0.3). It detects this by the file's
 * length and modification time, so it also fails after an in-place metadata edit. It also fails if
 * it cannot check this, because the path no longer leads to the file and the library did not keep a
 * descriptor. The library keeps none for shards after the first 64, nor when the process uses 64
 * descriptors or a quarter of its limit.
 * Statuses as for st_writer_add. */
ST_API st_status st_writer_add_tensor(st_writer *writer, const char *name, size_t len,
                                      const st_tensor *tensor, st_error *err);

/* Flags of st_write_options. */
enum {
  ST_WRITE_SYNC = 1 << 0,       /* st_writer_finish returns after the file is on the disk.    */
  ST_WRITE_KEEP_ORDER = 1 << 1, /* Write the data in the order of st_writer_add.              */
  ST_WRITE_NO_REPLACE = 1 << 2, /* Fail if the path exists, even if it is a link.             */
  /* Replace a symbolic link itself with a file that only its owner can read (mode 0600), instead of
   * replacing the file that it leads to. On Windows, the file has the access of any new file in its
   * directory. A link to an open descriptor, such as /dev/stdout, is still followed. Since version
   * 0.3.0. */
  ST_WRITE_REPLACE_LINK = 1 << 3,
  /* Replace only an unchanged file. If the file at the path was changed, replaced, removed or
   * created since st_writer_begin, or is locked for two seconds, st_writer_finish fails with
   * ST_ERR_STATE. For programs that read a file and write it anew. Has no effect on FIFOs, devices
   * and descriptors, which are never replaced. Since version 0.3.0. */
  ST_WRITE_ONLY_UNCHANGED = 1 << 4
};

typedef struct st_write_options {
  uint32_t struct_size;
  uint32_t flags;          /* Any of the ST_WRITE_ flags.                                    */
  st_format format;        /* ST_FORMAT_BINTENSORS or ST_FORMAT_SAFETENSORS; 0: the latter.  */
  uint32_t reserved;       /* 0                                                              */
  uint64_t data_alignment; /* Alignment of the data in the file, in bytes: a power of two up to
                              1 MiB. Less than 8, and 0, mean 8.                             */
  uint64_t header_reserve; /* Unused bytes in the header, for metadata that st_edit_metadata adds
                              later without a new file.                                      */
  void *ctx;               /* Passed to progress. Since version 0.3.0.                       */
  /* Reports the bytes of the file written so far, and the length of the file. st_writer_put and
   * st_writer_finish call it on their own thread, for every 8 MiB or less, but at most every 10 ms.
   * st_writer_finish also calls it when it succeeds. It is never called from two threads at once.
   * If it returns a number other than 0 before the file is in place, the call fails with
   * ST_ERR_CANCELLED and ends the writer. It may use other writers, but not this one. May be NULL.
   * Since version 0.3.0. */
  int32_t (*progress)(void *ctx, uint64_t done, uint64_t total);
} st_write_options;

/* Lays out the file, checks all declarations, and only then opens the path. For a FIFO, waits until
 * it has a reader. options may be NULL, and is copied.
 *
 * ST_ERR_ARGUMENT     a tensor has the name "__metadata__", which safetensors reserves.
 * ST_ERR_HEADER_SIZE  the header would be longer than 100,000,000 bytes.
 * ST_ERR_OVERFLOW     the file would be longer than the largest possible file.
 * ST_ERR_UNSUPPORTED  the format cannot be written, or does not have a tensor's dtype.
 * ST_ERR_OPEN         the path cannot be written; with ST_WRITE_NO_REPLACE, it exists.
 * ST_ERR_WRITE        the disk is full, or the system could not write. */
ST_API st_status st_writer_begin(st_writer *writer, const char *path,
                                 const st_write_options *options, st_error *err);

/* Since version 0.2.0. ST_ERR_ARGUMENT if the path contains a NUL. */
ST_API st_status st_writer_begin_n(st_writer *writer, const char *path, size_t len,
                                   const st_write_options *options, st_error *err);

/* Gives the writer n bytes of tensor index, starting at byte `at` of the tensor. They are copied or
 * written before it returns. Bytes may come in any order, each byte once. data may be NULL if n is
 * 0.
 *
 * Small puts are collected, up to 16 MiB, and written together. So the error of a write may be
 * returned by a later put or by st_writer_finish.
 *
 * ST_ERR_RANGE      there is no such tensor, or the range exceeds it.
 * ST_ERR_STATE      bytes were put twice, or out of order into a stream, or the tensor has another
 *                   source of data, or the process was forked after st_writer_begin (after a small
 *                   put, which is only collected, st_writer_finish returns the error).
 * ST_ERR_WRITE      the system could not write.
 * ST_ERR_CANCELLED  st_write_options.progress cancelled the writer. */
ST_API st_status st_writer_put(const st_writer *writer, size_t index, uint64_t at, const void *data,
                               size_t n, st_error *err);

/* Writes the remaining data and moves the file to its path.
 *
 * While it replaces a file, it locks that file against st_edit_metadata of other processes. It
 * waits two seconds for the lock, and then replaces the file without it. It also replaces the file
 * without the lock if the filesystem has no locks, or if this process may not open the file for
 * reading and writing. A save without the lock can be lost: if an edit renames its file right
 * after, the edit's file replaces the saved one.
 *
 * ST_ERR_STATE      bytes are missing; the message says how many, and of which tensor. Or the
 *                   calling process was forked after st_writer_begin (since 0.3): only the process
 *                   that called st_writer_begin can write the file. Or a link, FIFO or directory
 *                   has taken the place of the file that was to be replaced (since 0.3;
 *                   st_writer_begin can return this, too). Or the file was changed
 *                   (ST_WRITE_ONLY_UNCHANGED).
 * ST_ERR_OPEN       another user's file, link or FIFO has replaced the target in a sticky
 *                   directory.
 * ST_ERR_WRITE      the system could not write, or could not replace the file. os_error is EMFILE
 *                   or ENOMEM if no descriptor or memory is available to lock the replaced file
 *                   (since 0.3).
 * ST_ERR_CANCELLED  st_write_options.progress cancelled the writer.
 * ST_ERR_READ, ST_ERR_TRUNCATED, ST_ERR_CALLBACK  the data of a tensor of an open file could not be
 *                   read, or the file was overwritten in place (ST_ERR_READ, since 0.3). */
ST_API st_status st_writer_finish(st_writer *writer, st_error *err);

/* Frees a writer. If it has not finished, its unfinished file is removed. */
ST_API void st_writer_free(st_writer *writer);

/* ---- Editing --------------------------------------------------------------------------------- */

/* Changes metadata of one safetensors file: for each i below n, sets keys[i] to values[i], or
 * removes keys[i] if values[i] is NULL. Removing a key that does not exist is not an error. Either
 * all changes are made, or none. Tensor data and its alignment do not change.
 *
 * The file is changed in place if the metadata fits into the space reserved in the header (see
 * header_reserve), and the change is inside one 4096-byte block of the file. This takes a single
 * write. If the process is killed, that write is either complete or has not begun. Other hard links
 * also show the change. In all other cases, a new file replaces the old one, as with
 * st_writer_finish, and the kernel copies the data. With ST_WRITE_SYNC, the file is also complete
 * after a power failure; for this, an in-place change must be inside one 512-byte block. If nothing
 * has to be changed, the same header is written again, and the file and its directory are synced
 * (since 0.3), so a call that failed to sync can be repeated.
 *
 * Several processes may use the file. st_open and st_open_fd never see half of a change: they wait
 * up to two seconds for an edit to end. After that, and on filesystems without locks, they reread
 * the header until two reads are equal. st_open_memory and st_open_source cannot do that. If
 * another process saves the file during the edit, its file is not overwritten. The edit is then
 * repeated on that file, up to 5 attempts in all. The last check before the edit's rename is made
 * with the file locked. A save continues without this lock if it cannot get it within two seconds,
 * or if another process has removed the file. Such a save is lost if it renames its file between
 * the edit's last check and the edit's rename.
 *
 * keys and values may be NULL if n is 0. options may be NULL; only ST_WRITE_SYNC, data_alignment
 * and header_reserve are used. header_reserve is the space in a new file. Other flags are
 * ST_ERR_UNSUPPORTED; progress is not called.
 *
 * ST_ERR_OPEN         the path is not a regular file, is an open descriptor such as /dev/fd/N or
 *                     /proc/PID/fd/N, belongs to another user in a sticky directory (see
 *                     Replacing), or cannot be opened or locked for writing.
 * ST_ERR_STATE        another process is editing the file, has locked it for two seconds, or
 *                     has changed it during all 5 attempts.
 * ST_ERR_UTF8         a key or a value is not UTF-8.
 * ST_ERR_HEADER_SIZE  the header would be longer than 100,000,000 bytes.
 * ST_ERR_UNSUPPORTED  it is a bintensors file.
 * ST_ERR_READ, ST_ERR_WRITE  the system could not read, write or lock. Without its lock an edit
 *                     fails, except on filesystems without locks. If syncing or closing fails after
 *                     a change in place, the message says that the change was made.
 * 3xx                 the content of the file is invalid. */
ST_API st_status st_edit_metadata(const char *path, const char *const *keys,
                                  const char *const *values, size_t n,
                                  const st_write_options *options, st_error *err);

/* The arrays contain the length of each string; key_lens and value_lens may be NULL if n is 0. path
 * must not contain a NUL (ST_ERR_ARGUMENT); keys and values may. value_lens[i] is ignored if
 * values[i] is NULL. Since version 0.2.0. */
ST_API st_status st_edit_metadata_n(const char *path, size_t path_len, const char *const *keys,
                                    const size_t *key_lens, const char *const *values,
                                    const size_t *value_lens, size_t n,
                                    const st_write_options *options, st_error *err);

/* Replaces the bytes of one tensor of a safetensors file, in place. The header does not change, so
 * dtype and shape stay the same. size is the number of bytes in data, and must be the size of the
 * tensor; data may be NULL if size is 0. The elements are little-endian and row-major, as in the
 * file. path must be a single file: for a sharded model, the shard that contains the tensor.
 *
 * The change is not atomic. If the process is killed, the power fails or the system reports an
 * error during the write, the tensor may contain only some of the new bytes. Everything else in the
 * file stays valid and unchanged, and the call can be repeated. To replace a tensor atomically,
 * write a new file with st_writer_add_tensor.
 *
 * Readers are not locked out. A read during the write may return old and new bytes. All views and
 * mappings of the file show the change, and so do its other hard links. If a writer copies tensors
 * from a file that was opened before the write, its st_writer_finish fails. data may be a view of
 * this tensor, or of another tensor in the same file. A file with holes (a sparse file) needs space
 * for the new bytes.
 *
 * The call locks out other edits until it returns, as st_edit_metadata does: they fail with
 * ST_ERR_STATE after two seconds. If a save replaces the file during the write, the saved file
 * remains, without the new bytes. If another process changes the file between the check of its
 * header and the write, the call starts again, up to 5 attempts in all.
 *
 * options may be NULL; only the flag ST_WRITE_SYNC is used. With it, the call returns after the new
 * bytes are on the disk. Other flags are ST_ERR_UNSUPPORTED; progress is not called.
 *
 * ST_ERR_NOT_FOUND    the file has no such tensor.
 * ST_ERR_BUFFER_SIZE  size is not the size of the tensor.
 * ST_ERR_OPEN         as for st_edit_metadata, for example a read-only file.
 * ST_ERR_STATE        as for st_edit_metadata.
 * ST_ERR_UNSUPPORTED  it is a bintensors file.
 * ST_ERR_READ         the system could not read the header.
 * ST_ERR_WRITE        the system could not write, sync or lock. After an incomplete write, the
 *                     message says that the tensor may contain only some of the new bytes.
 * 3xx                 the content of the file is invalid.
 * Since version 0.3.0. */
ST_API st_status st_tensor_write(const char *path, const char *name, const void *data, size_t size,
                                 const st_write_options *options, st_error *err);

/* path must not contain a NUL (ST_ERR_ARGUMENT); name may. Since version 0.3.0. */
ST_API st_status st_tensor_write_n(const char *path, size_t path_len, const char *name,
                                   size_t name_len, const void *data, size_t size,
                                   const st_write_options *options, st_error *err);

/* ---- Errors ---------------------------------------------------------------------------------- */

/* The values of st_status are stable. */
enum {
  ST_OK = 0,
  /* 1xx: invalid call. */
  ST_ERR_ARGUMENT = 100,    /* An argument is NULL or has an invalid value.                  */
  ST_ERR_STRUCT_SIZE = 101, /* A struct has a wrong struct_size or unknown members.          */
  ST_ERR_UNSUPPORTED = 102, /* A flag, value or operation is not supported.                  */
  ST_ERR_NOT_FOUND = 103,   /* There is no tensor, or no file of a store, of this name.      */
  ST_ERR_RANGE = 104,       /* An index or a range of bytes is out of bounds.                */
  ST_ERR_BUFFER_SIZE = 105, /* A buffer does not have the size of the data.                  */
  ST_ERR_STATE = 106,       /* The object cannot do this now.                                */
  ST_ERR_CANCELLED = 107,   /* A plan's run, or a writer, was cancelled.                     */
  /* 2xx: failure of the system, a callback or a device. */
  ST_ERR_NO_MEMORY = 200, /* There is not enough memory.                                   */
  ST_ERR_OPEN = 201,      /* A path or descriptor cannot be opened, or is not a file.      */
  ST_ERR_READ = 202,      /* The system could not read a file.                             */
  ST_ERR_WRITE = 203,     /* The system could not write a file.                            */
  ST_ERR_MAP = 204,       /* The system could not map a file.                              */
  ST_ERR_CALLBACK = 205,  /* A callback reported an error.                                 */
  ST_ERR_DEVICE = 206,    /* A device or its driver failed. Since version 0.2.0.           */
  ST_ERR_PEER = 207,      /* Another process of a group failed. Since version 0.3.0.       */
  /* 3xx: invalid content of a file, or of arguments that describe such content. */
  ST_ERR_TRUNCATED = 300,   /* The file ends inside its header, or has become shorter.       */
  ST_ERR_HEADER_SIZE = 301, /* The header is longer than the limit.                          */
  ST_ERR_UTF8 = 302,        /* Text is not UTF-8.                                            */
  ST_ERR_JSON = 303,        /* The header is not JSON.                                       */
  ST_ERR_SCHEMA = 304,      /* The header is JSON, but not a safetensors header.             */
  ST_ERR_DUPLICATE = 305,   /* A name, a key or a field appears twice.                       */
  ST_ERR_DTYPE = 306,       /* There is no such dtype.                                       */
  ST_ERR_OFFSETS = 307,     /* Tensor data overlaps, leaves a hole or runs backwards.        */
  ST_ERR_OVERFLOW = 308,    /* A size does not fit in 64 bits.                               */
  ST_ERR_MISALIGNED = 309,  /* Data of a sub-byte dtype begins or ends inside a byte.        */
  ST_ERR_TENSOR_SIZE = 310, /* The offsets of a tensor do not match its dtype and shape.     */
  ST_ERR_COVERAGE = 311,    /* The file is shorter or longer than its tensors, for example a
                               truncated download.                                           */
  ST_ERR_SHARD = 312,       /* A shard is missing, out of bounds, or differs from the index. */
  ST_ERR_FORMAT = 313,      /* The file has another format; the message says which.          */
  /* 9xx: a bug in this library. */
  ST_ERR_INTERNAL = 900, /* A bug in this library; please report it.                      */
  ST_STATUS_SIGNED_ = -1
};

/* Returns the name of the constant, for example "ST_ERR_JSON", or "an unknown status". */
ST_API const char *st_status_name(st_status status);

/* ---- Versions -------------------------------------------------------------------------------- */

/* The version of this header. */
#define ST_VERSION_MAJOR 0
#define ST_VERSION_MINOR 3
#define ST_VERSION_PATCH 0

/* The version of this header as one number, like the result of st_version: for example
 * `#if ST_VERSION_NUMBER >= 0x000300`. Earlier headers do not define it, so #if takes it for 0.
 * Since version 0.3.0. */
#define ST_VERSION_NUMBER (ST_VERSION_MAJOR << 16 | ST_VERSION_MINOR << 8 | ST_VERSION_PATCH)

/* Returns the version of the loaded library: major << 16 | minor << 8 | patch. */
ST_API uint32_t st_version(void);

/* Returns the version as text, with the version of simdjson: "0.3.0 (simdjson 3.0.1)". */
ST_API const char *st_version_string(void);

#ifdef __cplusplus
}
#endif
#endif /* LIBSAFETENSORS_H */
