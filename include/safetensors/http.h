/* http.h - opens safetensors files on web servers. This is the C API of libsafetensors-http, a
 * second library, which uses libsafetensors and libcurl. The conventions of safetensors.h apply.
 * Everything here exists since version 0.3.0, and may change before version 1.1 (convention 13).
 *
 *     st_http_options http = ST_INIT(st_http_options);
 *     const char *headers[] = {"Authorization: Bearer hf_..."};
 *     http.headers = headers;
 *     http.header_count = 1;
 *     if (st_open_url("https://example.com/m.safetensors", &http, NULL, &file, &error) != ST_OK) {
 *       fprintf(stderr, "%s\n", error.message);
 *     }
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef LIBSAFETENSORS_HTTP_H
#define LIBSAFETENSORS_HTTP_H

#include <safetensors/safetensors.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ST_HTTP_API
#if defined(_WIN32) && defined(ST_BUILDING_HTTP)
#define ST_HTTP_API __declspec(dllexport)
#elif defined(_WIN32)
#define ST_HTTP_API __declspec(dllimport)
#elif defined(__GNUC__)
#define ST_HTTP_API __attribute__((visibility("default")))
#else
#define ST_HTTP_API
#endif
#endif

/* Flags of st_http_options. */
enum {
  ST_HTTP_PLAIN = 1 << 0,  /* Allow http:// as well. Without it, only https:// is used, even
                              after redirects.                                               */
  ST_HTTP_PRIVATE = 1 << 1 /* Allow addresses that are not public: loopback, private and link-local
                              networks, metadata services. They are checked after each name
                              resolution, even after redirects. (With a proxy, the proxy resolves
                              names, so no address is checked.)                              */
};

/* 0 and NULL mean the defaults. Strings are copied. */
typedef struct st_http_options {
  uint32_t struct_size;
  uint32_t flags;             /* Any of the ST_HTTP_ flags.                                  */
  const char *const *headers; /* For example "Authorization: Bearer ...". They are sent to the
                                 origin (scheme, host and port) of the URL only, and not after a
                                 redirect has left it. Range and If-Match are not allowed.   */
  size_t header_count;
  const char *ca_file;        /* The only trusted authorities, in PEM. NULL: the system's.   */
  const char *proxy;          /* URL of a proxy. NULL: none. http_proxy, no_proxy and the like are
                                 ignored. (libcurl reads SSLKEYLOGFILE.)                     */
  uint32_t connections;       /* Requests at the same time; at most 256. 0: 16. After a redirect,
                                 each may keep a connection to both servers.                 */
  uint32_t redirects;         /* Redirects in a row; at most 100. 0: 5.                      */
  uint32_t tries;             /* Requests for one range, with increasing pauses, after 408, 429,
                                 5xx, a reset, a stall or a short body; at most 100. 0: 5.   */
  uint32_t stall_ms;          /* Milliseconds without a byte that count as a stall, with a
                                 precision of a second. A request that takes this long and another
                                 second for each 16,000 bytes is also a stall. Only the system's
                                 resolver limits the time of a name resolution. 0: 30,000.   */
  uint64_t first_bytes;       /* Bytes of the first request for each file, from 16 KiB to 64 MiB.
                                 0: 128 KiB.                                                 */
  uint64_t gap_bytes;         /* One request reads two ranges with a gap of at most this many bytes
                                 and drops the gap. 0: 128 KiB, which takes no longer than a
                                 request. 1: practically never, which is slow for slices with many
                                 short rows, but fetches only their bytes.                   */
} st_http_options;

/* Opens a checkpoint on a web server. url is one of these:
 *   - the URL of a safetensors file;
 *   - the URL of an index: its path ends like the name of one (st_open). Shards are beside it, with
 *     the same query;
 *   - hf://OWNER/MODEL[@REVISION][/FILE], a file in a repository of huggingface.co. Without FILE:
 *     model.safetensors.index.json, or else model.safetensors. Without REVISION: main. A slash in
 *     REVISION is written as %2F.
 *
 * Opening sends one GET for the first bytes of each file, and another one if the header is longer;
 * never a HEAD. All functions that read tensors work on the file. A plan reads ranges of 8 MiB on
 * all connections. st_get_shard_path returns the URL without its query, which no message contains
 * either.
 *
 * A process that was forked after the call cannot read from the file (ST_ERR_STATE), and st_free
 * leaks its memory there: open the file again.
 *
 * A cancelled plan first finishes the ranges that it is reading. Each may take the rest of its
 * tries, stall_ms for each try if the server is silent, and pauses of up to 60 seconds
 * (Retry-After) between them. st_plan_run then returns ST_ERR_CANCELLED, or ST_ERR_READ if one of
 * these ranges failed.
 *
 * options, for the checkpoint, and http may be NULL. *out is freed with st_free. Starts threads if
 * there are several shards.
 *
 * ST_ERR_OPEN         no such file, no connection, no permission, an address that is not public, or
 *                     too many redirects.
 * ST_ERR_READ         a request failed in other ways or too often, or the file has changed: each
 *                     answer must have the length and the ETag of the first. Later reads return
 *                     this, too.
 * ST_ERR_UNSUPPORTED  the server does not send ranges, or sends neither a strong ETag nor
 *                     Last-Modified. (A file that fits into the first request can still be opened,
 *                     if the response has a Content-Length.) Or the URL or a redirect has a scheme
 *                     that is not allowed.
 * Also the statuses of st_open_store. */
ST_HTTP_API st_status st_open_url(const char *url, const st_http_options *http,
                                  const st_open_options *options, st_file **out, st_error *err);

/* ST_ERR_ARGUMENT if the URL contains a NUL. */
ST_HTTP_API st_status st_open_url_n(const char *url, size_t len, const st_http_options *http,
                                    const st_open_options *options, st_file **out, st_error *err);

#ifdef __cplusplus
}
#endif

#endif
