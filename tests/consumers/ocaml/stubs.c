/* What model.ml calls: each function turns values of OCaml into arguments of the C API, and an error into Failure.
 *
 * A failure is raised when nothing of C is held any more, because caml_failwith does not return.
 * SPDX-License-Identifier: Apache-2.0 */
#define CAML_NAME_SPACE
#include <caml/alloc.h>
#include <caml/bigarray.h>
#include <caml/callback.h>
#include <caml/custom.h>
#include <caml/fail.h>
#include <caml/memory.h>
#include <safetensors/safetensors.h>
#include <stdio.h>

static void check(st_status status, const st_error *error) {
  char text[300];
  if (status == ST_OK) return;
  snprintf(text, sizeof(text), "%s: %s", st_status_name(status), error->message);
  caml_failwith(text);
}

/* A file is a custom block, which the garbage collector finalises. */
#define File_val(v) (*(st_file **)Data_custom_val(v))
static void finalize(value file) { st_free(File_val(file)); }
static struct custom_operations file_operations = {"safetensors.file",         finalize,
                                                   custom_compare_default,     custom_hash_default,
                                                   custom_serialize_default,   custom_deserialize_default,
                                                   custom_compare_ext_default, custom_fixed_length_default};

static const st_tensor *tensor_of(value file, value name) {
  const st_tensor *tensor = st_get_tensor_n(File_val(file), String_val(name), caml_string_length(name));
  if (tensor == NULL) caml_raise_not_found();
  return tensor;
}

value ml_open(value path) {
  CAMLparam1(path);
  CAMLlocal1(result);
  st_error error = ST_INIT(st_error);
  st_file *file = NULL;
  check(st_open_n(String_val(path), caml_string_length(path), NULL, &file, &error), &error);
  result = caml_alloc_custom(&file_operations, sizeof(st_file *), 0, 1);
  File_val(result) = file;
  CAMLreturn(result);
}

static value shape_of(const uint64_t *dims, size_t rank) {
  CAMLparam0();
  CAMLlocal1(shape);
  size_t d;
  shape = rank == 0 ? Atom(0) : caml_alloc((mlsize_t)rank, 0);
  for (d = 0; d < rank; ++d) Store_field(shape, d, Val_long((intnat)dims[d]));
  CAMLreturn(shape);
}

static value row_of(const char *name, size_t len, st_dtype dtype, const uint64_t *dims, size_t rank, uint64_t bytes,
                    uint64_t offset) {
  CAMLparam0();
  CAMLlocal3(row, text, shape);
  text = caml_alloc_initialized_string(len, name);
  shape = shape_of(dims, rank);
  row = caml_alloc_tuple(5);
  Store_field(row, 0, text);
  Store_field(row, 1, Val_int(dtype));
  Store_field(row, 2, shape);
  Store_field(row, 3, Val_long((intnat)bytes));
  Store_field(row, 4, Val_long((intnat)offset));
  CAMLreturn(row);
}

value ml_by_columns(value file) {
  CAMLparam1(file);
  CAMLlocal1(rows);
  st_error error = ST_INIT(st_error);
  st_tensor_list *list = NULL;
  uint64_t i;
  check(st_list_tensors(File_val(file), 0, &list, &error), &error);
  rows = list->count == 0 ? Atom(0) : caml_alloc((mlsize_t)list->count, 0);
  for (i = 0; i < list->count; ++i) {
    const uint64_t name = list->name_offsets[i], dim = list->dim_offsets[i];
    Store_field(rows, i,
                row_of(list->names + name, (size_t)(list->name_offsets[i + 1] - name - 1), list->dtypes[i],
                       list->dims + dim, list->ranks[i], list->sizes[i], list->offsets[i]));
  }
  st_tensor_list_free(list);
  CAMLreturn(rows);
}

value ml_count(value file) { return Val_long((intnat)st_count_tensors(File_val(file))); }

value ml_row(value file, value i) {
  CAMLparam2(file, i);
  const st_tensor *tensor = st_get_tensor_at(File_val(file), (size_t)Long_val(i));
  const char *name;
  size_t len;
  if (tensor == NULL) caml_invalid_argument("there is no tensor of this number");
  name = st_tensor_name(tensor, &len);
  CAMLreturn(row_of(name, len, st_tensor_dtype(tensor), st_tensor_shape(tensor), st_tensor_rank(tensor),
                    st_tensor_bytes(tensor), st_tensor_offset(tensor)));
}

value ml_dtype_name(value dtype) { return caml_copy_string(st_dtype_name(Int_val(dtype))); }

value ml_metadata(value file, value key) {
  CAMLparam2(file, key);
  size_t len;
  const char *text = st_get_metadata_n(File_val(file), String_val(key), caml_string_length(key), &len);
  if (text == NULL) caml_raise_not_found();
  CAMLreturn(caml_alloc_initialized_string(len, text));
}

/* The data of a bigarray lies outside of OCaml's heap and stays where it is. */
value ml_read(value file, value name, value array) {
  CAMLparam3(file, name, array);
  st_error error = ST_INIT(st_error);
  check(st_tensor_read(tensor_of(file, name), Caml_ba_data_val(array), caml_ba_byte_size(Caml_ba_array_val(array)),
                       &error),
        &error);
  CAMLreturn(Val_unit);
}

/* Reads tensor[from:to, ::-1] of a matrix, in an array of OCaml's size. */
value ml_read_backwards(value file, value name, value from, value to, value array) {
  CAMLparam5(file, name, from, to, array);
  const int64_t begin[] = {Long_val(from), ST_SLICE_END}, end[] = {Long_val(to), ST_SLICE_BEGIN}, step[] = {1, -1};
  st_error error = ST_INIT(st_error);
  check(st_tensor_read_slice(tensor_of(file, name), begin, end, step, Caml_ba_data_val(array),
                             caml_ba_byte_size(Caml_ba_array_val(array)), &error),
        &error);
  CAMLreturn(Val_unit);
}

/* An exception of the callback must not pass through the library: it cancels the run. */
static int32_t progress(void *ctx, uint64_t done, uint64_t total) {
  const value result = caml_callback2_exn(*(value *)ctx, Val_long((intnat)done), Val_long((intnat)total));
  return Is_exception_result(result) ? 1 : 0;
}

/* items is a list of (name, bigarray). It is a root during the run, so no array is freed. progress is called on this
 * thread, which holds the runtime. */
value ml_run(value file, value items, value callback) {
  CAMLparam3(file, items, callback);
  CAMLlocal1(item);
  st_error error = ST_INIT(st_error);
  st_read_options options = ST_INIT(st_read_options);
  st_plan *plan = NULL;
  st_status status = st_plan_new(File_val(file), &plan, &error);
  options.threads = 1;
  options.progress = progress;
  options.ctx = &callback;
  for (item = items; status == ST_OK && item != Val_emptylist; item = Field(item, 1)) {
    const value name = Field(Field(item, 0), 0), array = Field(Field(item, 0), 1);
    const st_tensor *tensor = st_get_tensor_n(File_val(file), String_val(name), caml_string_length(name));
    status = st_plan_add(plan, tensor, NULL, NULL, NULL, Caml_ba_data_val(array),
                         caml_ba_byte_size(Caml_ba_array_val(array)), &error);
  }
  if (status == ST_OK) status = st_plan_run(plan, &options, &error);
  st_plan_free(plan);
  check(status, &error);
  CAMLreturn(Val_unit);
}

value ml_bf16_to_f32(value from, value to) {
  CAMLparam2(from, to);
  st_error error = ST_INIT(st_error);
  if (Caml_ba_array_val(from)->dim[0] != Caml_ba_array_val(to)->dim[0])
    caml_invalid_argument("the vectors are not of one length"); /* st_convert knows only one */
  check(st_convert(ST_BF16, Caml_ba_data_val(from), ST_F32, Caml_ba_data_val(to),
                   (size_t)Caml_ba_array_val(from)->dim[0], &error),
        &error);
  CAMLreturn(Val_unit);
}

/* Writes one vector of F32, and a copy of one tensor and of the metadata of a file. */
value ml_write(value path, value name, value array, value file, value copied) {
  CAMLparam5(path, name, array, file, copied);
  const uint64_t shape[] = {(uint64_t)Caml_ba_array_val(array)->dim[0]};
  const st_tensor *tensor = tensor_of(file, copied);
  st_error error = ST_INIT(st_error);
  st_writer *writer = NULL;
  st_status status = st_writer_new(&writer, &error);
  if (status == ST_OK) status = st_writer_copy_metadata(writer, File_val(file), &error);
  if (status == ST_OK) status = st_writer_add_tensor(writer, NULL, 0, tensor, &error);
  if (status == ST_OK)
    status = st_writer_add_n(writer, String_val(name), caml_string_length(name), ST_F32, 1, shape,
                             Caml_ba_data_val(array), NULL, &error);
  if (status == ST_OK) status = st_writer_begin_n(writer, String_val(path), caml_string_length(path), NULL, &error);
  if (status == ST_OK) status = st_writer_finish(writer, &error);
  st_writer_free(writer);
  check(status, &error);
  CAMLreturn(Val_unit);
}
