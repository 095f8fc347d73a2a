/* What model.R calls with .Call: each function turns values of R into arguments of the C API, and an error into an error
 * of R.
 *
 * Rf_error does not return: it is called when nothing of C is held any more. R has neither 64-bit integers nor floats.
 * So sizes and values become doubles, and a file's values go through memory from R_alloc.
 * SPDX-License-Identifier: Apache-2.0 */
#define R_NO_REMAP
#include <R.h>
#include <Rinternals.h>
#include <safetensors/safetensors.h>

static void check(st_status status, const st_error *error) {
  if (status != ST_OK) Rf_error("%s: %s", st_status_name(status), error->message);
}

/* A file is an external pointer, which the garbage collector finalises. */
static void finalize(SEXP file) {
  st_free(R_ExternalPtrAddr(file));
  R_ClearExternalPtr(file);
}

static const st_file *file_of(SEXP file) {
  const st_file *opened = R_ExternalPtrAddr(file);
  if (opened == NULL) Rf_error("the file is closed");
  return opened;
}

static const char *text_of(SEXP text) { return Rf_translateCharUTF8(STRING_ELT(text, 0)); }

static const st_tensor *tensor_called(SEXP file, const char *name) {
  const st_tensor *tensor = st_get_tensor(file_of(file), name);
  if (tensor == NULL) Rf_error("no tensor '%s'", name);
  return tensor;
}

static const st_tensor *tensor_of(SEXP file, SEXP name) { return tensor_called(file, text_of(name)); }

SEXP r_open(SEXP path) {
  st_error error = ST_INIT(st_error);
  st_file *file = NULL;
  SEXP result;
  check(st_open(text_of(path), NULL, &file, &error), &error);
  result = PROTECT(R_MakeExternalPtr(file, R_NilValue, R_NilValue));
  R_RegisterCFinalizerEx(result, finalize, TRUE);
  UNPROTECT(1);
  return result;
}

SEXP r_metadata(SEXP file, SEXP key) {
  const char *text = st_get_metadata(file_of(file), text_of(key), NULL);
  return text == NULL ? R_NilValue : Rf_ScalarString(Rf_mkCharCE(text, CE_UTF8));
}

SEXP r_count(SEXP file) { return Rf_ScalarReal((double)st_count_tensors(file_of(file))); }

static SEXP doubles(const uint64_t *values, size_t n) {
  SEXP result = Rf_allocVector(REALSXP, (R_xlen_t)n);
  size_t i;
  for (i = 0; i < n; ++i) REAL(result)[i] = (double)values[i];
  return result;
}

/* list(name, dtype, shape, bytes, offset) of one tensor */
SEXP r_tensor(SEXP file, SEXP i) {
  const st_tensor *tensor = st_get_tensor_at(file_of(file), (size_t)Rf_asReal(i) - 1);
  const char *name;
  size_t length;
  SEXP row;
  if (tensor == NULL) Rf_error("there is no tensor %g", Rf_asReal(i));
  row = PROTECT(Rf_allocVector(VECSXP, 5));
  name = st_tensor_name(tensor, &length);
  SET_VECTOR_ELT(row, 0, Rf_ScalarString(Rf_mkCharLenCE(name, (int)length, CE_UTF8)));
  SET_VECTOR_ELT(row, 1, Rf_mkString(st_tensor_dtype_name(tensor)));
  SET_VECTOR_ELT(row, 2, doubles(st_tensor_shape(tensor), st_tensor_rank(tensor)));
  SET_VECTOR_ELT(row, 3, Rf_ScalarReal((double)st_tensor_bytes(tensor)));
  SET_VECTOR_ELT(row, 4, Rf_ScalarReal((double)st_tensor_offset(tensor)));
  UNPROTECT(1);
  return row;
}

/* The same for all tensors, as columns, like R's own vectors. A failed allocation leaves with longjmp, so R also holds
 * the list: otherwise it would leak. */
static void finalize_list(SEXP list) { st_tensor_list_free(R_ExternalPtrAddr(list)); }

SEXP r_list(SEXP file) {
  st_error error = ST_INIT(st_error);
  st_tensor_list *list = NULL;
  SEXP holder, columns, names, dtypes, shapes;
  R_xlen_t i, n;
  check(st_list_tensors(file_of(file), 0, &list, &error), &error);
  holder = PROTECT(R_MakeExternalPtr(list, R_NilValue, R_NilValue));
  R_RegisterCFinalizer(holder, finalize_list);
  n = (R_xlen_t)list->count;
  columns = PROTECT(Rf_allocVector(VECSXP, 5));
  SET_VECTOR_ELT(columns, 0, names = Rf_allocVector(STRSXP, n));
  SET_VECTOR_ELT(columns, 1, dtypes = Rf_allocVector(STRSXP, n));
  SET_VECTOR_ELT(columns, 2, shapes = Rf_allocVector(VECSXP, n));
  SET_VECTOR_ELT(columns, 3, doubles(list->sizes, (size_t)n));
  SET_VECTOR_ELT(columns, 4, doubles(list->offsets, (size_t)n));
  for (i = 0; i < n; ++i) {
    const uint64_t name = list->name_offsets[i];
    SET_STRING_ELT(names, i, Rf_mkCharLenCE(list->names + name, (int)(list->name_offsets[i + 1] - name - 1), CE_UTF8));
    SET_STRING_ELT(dtypes, i, Rf_mkChar(st_dtype_name(list->dtypes[i])));
    SET_VECTOR_ELT(shapes, i, doubles(list->dims + list->dim_offsets[i], list->ranks[i]));
  }
  st_tensor_list_free(list);
  R_ClearExternalPtr(holder);
  UNPROTECT(2);
  return columns;
}

static SEXP from_floats(const float *values, size_t n) {
  SEXP result = Rf_allocVector(REALSXP, (R_xlen_t)n);
  size_t i;
  for (i = 0; i < n; ++i) REAL(result)[i] = values[i];
  return result;
}

/* Values of F32, or of BF16 converted to it. */
SEXP r_read(SEXP file, SEXP name) {
  const st_tensor *tensor = tensor_of(file, name);
  const size_t n = (size_t)st_tensor_elements(tensor), bytes = (size_t)st_tensor_bytes(tensor);
  float *values = (float *)R_alloc(n, sizeof(float));
  void *raw = R_alloc(bytes, 1);
  st_error error = ST_INIT(st_error);
  check(st_tensor_read(tensor, raw, bytes, &error), &error);
  check(st_convert(st_tensor_dtype(tensor), raw, ST_F32, values, n, &error), &error);
  return from_floats(values, n);
}

/* tensor[from:to, ::-1] of a matrix of F32 */
SEXP r_read_backwards(SEXP file, SEXP name, SEXP from, SEXP to) {
  const int64_t begin[] = {(int64_t)Rf_asReal(from), ST_SLICE_END}, end[] = {(int64_t)Rf_asReal(to), ST_SLICE_BEGIN};
  const int64_t step[] = {1, -1};
  const st_tensor *tensor = tensor_of(file, name);
  st_error error = ST_INIT(st_error);
  uint64_t bytes = 0;
  float *values;
  check(st_tensor_slice(tensor, begin, end, step, NULL, &bytes, NULL, &error), &error);
  values = (float *)R_alloc((size_t)bytes, 1);
  check(st_tensor_read_slice(tensor, begin, end, step, values, (size_t)bytes, &error), &error);
  return from_floats(values, (size_t)bytes / sizeof(float));
}

/* An R error must not longjmp across the library: R_tryEvalSilent keeps it inside, and the run is cancelled. */
static int32_t progress(void *ctx, uint64_t done, uint64_t total) {
  SEXP now = PROTECT(Rf_ScalarReal((double)done)), all = PROTECT(Rf_ScalarReal((double)total));
  SEXP call = PROTECT(Rf_lang3(ctx, now, all));
  int failed = 0;
  R_tryEvalSilent(call, R_GlobalEnv, &failed);
  UNPROTECT(3);
  return failed;
}

/* Reads the named tensors of F32 and returns their values, one vector after the other. Nothing but R's own thread may
 * enter R, hence one thread. */
SEXP r_read_all(SEXP file, SEXP names, SEXP callback) {
  st_error error = ST_INIT(st_error);
  st_read_options options = ST_INIT(st_read_options);
  st_plan *plan = NULL;
  const R_xlen_t n = XLENGTH(names);
  const st_tensor **tensors = (const st_tensor **)R_alloc((size_t)n, sizeof(*tensors));
  float **values = (float **)R_alloc((size_t)n, sizeof(*values)); /* lives until .Call returns, and does not move */
  st_status status;
  SEXP result;
  R_xlen_t i;
  for (i = 0; i < n; ++i) {
    tensors[i] = tensor_called(file, Rf_translateCharUTF8(STRING_ELT(names, i)));
    values[i] = (float *)R_alloc((size_t)st_tensor_elements(tensors[i]), sizeof(float));
  }
  options.threads = 1;
  options.progress = progress;
  options.ctx = callback;
  status = st_plan_new(file_of(file), &plan, &error);
  for (i = 0; status == ST_OK && i < n; ++i)
    status = st_plan_add(plan, tensors[i], NULL, NULL, NULL, values[i],
                         (size_t)st_tensor_elements(tensors[i]) * sizeof(float), &error);
  if (status == ST_OK) status = st_plan_run(plan, &options, &error);
  st_plan_free(plan);
  check(status, &error);
  result = PROTECT(Rf_allocVector(VECSXP, n));
  for (i = 0; i < n; ++i) SET_VECTOR_ELT(result, i, from_floats(values[i], (size_t)st_tensor_elements(tensors[i])));
  UNPROTECT(1);
  return result;
}

/* Writes one vector as F32, and a copy of one tensor and of the metadata of a file. */
SEXP r_write(SEXP path, SEXP name, SEXP numbers, SEXP file, SEXP copied) {
  const uint64_t shape[] = {(uint64_t)XLENGTH(numbers)};
  const st_tensor *tensor = tensor_of(file, copied);
  const char *name_text = text_of(name), *path_text = text_of(path);
  float *values = (float *)R_alloc((size_t)shape[0], sizeof(float));
  st_error error = ST_INIT(st_error);
  st_writer *writer = NULL;
  st_status status;
  size_t i;
  for (i = 0; i < shape[0]; ++i) values[i] = (float)REAL(numbers)[i];
  status = st_writer_new(&writer, &error);
  if (status == ST_OK) status = st_writer_copy_metadata(writer, file_of(file), &error);
  if (status == ST_OK) status = st_writer_add_tensor(writer, NULL, 0, tensor, &error);
  if (status == ST_OK) status = st_writer_add(writer, name_text, ST_F32, 1, shape, values, NULL, &error);
  if (status == ST_OK) status = st_writer_begin(writer, path_text, NULL, &error);
  if (status == ST_OK) status = st_writer_finish(writer, &error);
  st_writer_free(writer);
  check(status, &error);
  return R_NilValue;
}
