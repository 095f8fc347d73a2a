// Uses libsafetensors from Node with koffi: see ../c/model.c for what it does.
//
// SPDX-License-Identifier: Apache-2.0
const koffi = require("koffi");
const { performance } = require("perf_hooks");

const lib = koffi.load(process.env.SAFETENSORS_LIBRARY || "libsafetensors.so.0");
koffi.struct("st_error", { struct_size: "uint32_t", status: "int32_t", os_error: "int32_t", reserved: "uint32_t",
                           offset: "uint64_t", message: koffi.array("char", 232) });
koffi.proto("int32_t Progress(void *ctx, uint64_t done, uint64_t total)");
const ReadOptions = koffi.struct("st_read_options", {
  struct_size: "uint32_t", flags: "uint32_t", threads: "uint32_t", cache: "int32_t", chunk_bytes: "uint64_t",
  gap_bytes: "uint64_t", ctx: "void *", progress: "Progress *", parallel_for: "void *" });
koffi.proto("int32_t ReadAt(void *ctx, uint64_t offset, void *dst, size_t n)");
const Source = koffi.struct("st_source", { struct_size: "uint32_t", flags: "uint32_t", ctx: "void *", size: "uint64_t",
                                           read_at: "ReadAt *", close: "void *" });
const List = koffi.struct("st_tensor_list", {
  struct_size: "uint32_t", flags: "uint32_t", count: "uint64_t", names: "void *", name_offsets: "void *", dtypes: "void *",
  ranks: "void *", dims: "void *", dim_offsets: "void *", offsets: "void *", sizes: "void *", shards: "void *",
  data: "void *", tensors: "void *", reserved: "void *" });
const [BF16, F32] = [11, 12];
const [SLICE_BEGIN, SLICE_END] = [-(2n ** 63n), 2n ** 63n - 1n];

const st = {};
const declare = (text) => { const f = lib.func(text); st[/(st_\w+)\(/.exec(text)[1]] = f; };
// A function whose last parameter is an st_error, which is added here: it throws.
const declareFailing = (name, parameters) => {
  const f = lib.func(`int32_t ${name}(${parameters}, _Inout_ st_error *err)`);
  const fresh = () => ({ struct_size: 256, status: 0, os_error: 0, reserved: 0, offset: 0, message: "" });
  const failure = (error) => new Error(`${st.st_status_name(error.status)}: ${error.message}`);
  st[name] = (...values) => {
    const error = fresh();
    if (f(...values, error) !== 0) throw failure(error);
  };
  // Runs it on a thread of koffi, while this one is free to be called back.
  st[name].async = (...values) => new Promise((resolve, reject) => {
    const error = fresh();
    f.async(...values, error, (problem, status) => {
      if (problem || status !== 0) reject(problem || failure(error));
      else resolve();
    });
  });
};
for (const text of [
  "const char *st_status_name(int32_t)", "const char *st_dtype_name(int32_t)", "void st_free(void *)",
  "const char *st_get_metadata(void *, const char *, void *)", "size_t st_count_tensors(void *)",
  "void *st_get_tensor_at(void *, size_t)", "void *st_get_tensor(void *, const char *)",
  "void *st_tensor_name(void *, _Out_ size_t *)", "int32_t st_tensor_dtype(void *)", "size_t st_tensor_rank(void *)",
  "void *st_tensor_shape(void *)", "uint64_t st_tensor_bytes(void *)", "uint64_t st_tensor_offset(void *)",
  "void st_tensor_list_free(void *)", "void st_plan_free(void *)", "void st_writer_free(void *)",
]) declare(text);
declareFailing("st_open", "const char *, void *, _Out_ void **");
declareFailing("st_open_source", "st_source *, void *, _Out_ void **");
declareFailing("st_list_tensors", "void *, uint32_t, _Out_ void **");
declareFailing("st_tensor_read", "void *, void *, size_t");
declareFailing("st_tensor_slice", "void *, int64_t *, int64_t *, int64_t *, void *, _Out_ uint64_t *, void *");
declareFailing("st_tensor_read_slice", "void *, int64_t *, int64_t *, int64_t *, void *, size_t");
declareFailing("st_plan_new", "void *, _Out_ void **");
declareFailing("st_plan_add", "void *, void *, void *, void *, void *, void *, size_t");
declareFailing("st_plan_run", "void *, st_read_options *");
declareFailing("st_convert", "int32_t, void *, int32_t, void *, size_t");
declareFailing("st_writer_new", "_Out_ void **");
declareFailing("st_writer_copy_metadata", "void *, void *");
declareFailing("st_writer_add_tensor", "void *, const char *, size_t, void *");
declareFailing("st_writer_add", "void *, const char *, int32_t, size_t, uint64_t *, void *, _Out_ size_t *");
declareFailing("st_writer_begin", "void *, const char *, void *");
declareFailing("st_writer_put", "void *, size_t, uint64_t, void *, size_t");
declareFailing("st_writer_finish", "void *");

function make(name, ...values) {
  const out = [null];
  st[name](...values, out);
  return out[0];
}

const openModel = (path) => make("st_open", path, null);
const text = (values) => Array.from(values).join(" ");

// The columns become typed arrays by one copy each, because the list is freed before they are used.
function byColumns(file) {
  const pointer = make("st_list_tensors", file, 0);
  const list = koffi.decode(pointer, List);
  const n = Number(list.count);
  const column = (at, rows, Type) =>
    rows === 0 ? new Type(0) : new Type(koffi.view(at, rows * Type.BYTES_PER_ELEMENT).slice(0));
  const ends = column(list.name_offsets, n + 1, BigUint64Array);
  const names = Buffer.from(column(list.names, Number(ends[n]), Uint8Array).buffer);
  const dimEnds = column(list.dim_offsets, n + 1, BigUint64Array);
  const dims = column(list.dims, Number(dimEnds[n]), BigUint64Array);
  const dtypes = column(list.dtypes, n, Int32Array);
  const [sizes, offsets] = [list.sizes, list.offsets].map((at) => column(at, n, BigUint64Array));
  st.st_tensor_list_free(pointer);
  return Array.from({ length: n }, (_, i) => ({
    name: names.toString("utf8", Number(ends[i]), Number(ends[i + 1]) - 1), dtype: dtypes[i],
    shape: Array.from(dims.subarray(Number(dimEnds[i]), Number(dimEnds[i + 1])), Number),
    bytes: Number(sizes[i]), offset: Number(offsets[i]) }));
}

function byGetters(file) {
  return Array.from({ length: Number(st.st_count_tensors(file)) }, (_, i) => {
    const tensor = st.st_get_tensor_at(file, i);
    const length = [0];
    const bytes = st.st_tensor_name(tensor, length); // which may hold a NUL: koffi's strings end there
    const name = Buffer.from(koffi.decode(bytes, "uint8_t", Number(length[0]))).toString("utf8");
    const rank = Number(st.st_tensor_rank(tensor));
    const shape = rank === 0 ? [] : Array.from(koffi.decode(st.st_tensor_shape(tensor), "uint64_t", rank), Number);
    return { name, dtype: st.st_tensor_dtype(tensor), shape, bytes: Number(st.st_tensor_bytes(tensor)),
             offset: Number(st.st_tensor_offset(tensor)) };
  });
}

function read(file, name, values) {
  st.st_tensor_read(st.st_get_tensor(file, name), values, values.byteLength);
  return values;
}

// weight[1:3, ::-1]
function readSlice(file) {
  const weight = st.st_get_tensor(file, "weight");
  const part = [[1n, SLICE_END], [3n, SLICE_BEGIN], [1n, -1n]].map((pair) => BigInt64Array.from(pair));
  const bytes = [0];
  st.st_tensor_slice(weight, ...part, null, bytes, null);
  const values = new Float32Array(Number(bytes[0]) / 4);
  st.st_tensor_read_slice(weight, ...part, values, values.byteLength);
  console.log("weight[1:3, ::-1]:", text(values));
}

function readMany(file) {
  let last = [];
  // Registered, because the struct keeps it; called on this thread, because threads is 1.
  const progress = koffi.register((ctx, done, total) => { last = [done, total]; return 0; }, "Progress *");
  const options = { struct_size: koffi.sizeof(ReadOptions), flags: 0, threads: 1, cache: 0, chunk_bytes: 0, gap_bytes: 0,
                    ctx: null, progress, parallel_for: null };
  // Memory of C: the plan keeps the addresses, and a typed array is only held during a call.
  const [weight, bias] = [koffi.alloc("float", 12), koffi.alloc("float", 3)];
  const plan = make("st_plan_new", file);
  try {
    st.st_plan_add(plan, st.st_get_tensor(file, "weight"), null, null, null, weight, 48);
    st.st_plan_add(plan, st.st_get_tensor(file, "bias"), null, null, null, bias, 12);
    st.st_plan_run(plan, options);
    console.log(`plan: ${last[0]} of ${last[1]} bytes, the last weight is ${koffi.decode(weight, "float", 12)[11]}`);
  } finally {
    st.st_plan_free(plan);
    koffi.unregister(progress);
    koffi.free(weight);
    koffi.free(bias);
  }
}

function writeAndReadBack(file) {
  const [doubled, index] = [Float32Array.of(1, -2.5, 4), [0]];
  const writer = make("st_writer_new");
  try {
    st.st_writer_copy_metadata(writer, file);
    st.st_writer_add_tensor(writer, null, 0, st.st_get_tensor(file, "scale"));
    st.st_writer_add(writer, "doubled", F32, 1, BigUint64Array.of(3n), null, index);
    st.st_writer_begin(writer, "written.safetensors", null);
    st.st_writer_put(writer, index[0], 0, doubled, doubled.byteLength);
    st.st_writer_finish(writer);
  } finally {
    st.st_writer_free(writer);
  }
  const written = openModel("written.safetensors");
  console.log("written.safetensors, doubled:", text(read(written, "doubled", new Float32Array(3))));
  st.st_free(written);
}

function tour() {
  const file = openModel("model.safetensors");
  const rows = byColumns(file);
  console.log(`model.safetensors: ${rows.length} tensors, format ${st.st_get_metadata(file, "format", null)}`);
  for (const { name, dtype, shape, bytes } of rows)
    console.log(`  ${name} ${st.st_dtype_name(dtype)} [${shape.join(", ")}] ${bytes} bytes`);
  console.log("bias:", text(read(file, "bias", new Float32Array(3))));
  readSlice(file);
  readMany(file);
  const scale = new Float32Array(2);
  st.st_convert(BF16, read(file, "scale", new Uint16Array(2)), F32, scale, 2);
  console.log("scale as F32:", text(scale));
  writeAndReadBack(file);
  try {
    openModel("truncated.safetensors");
  } catch (error) {
    console.log(error.message);
  }
  st.st_free(file);
}

function timeListing(path) {
  const file = openModel(path);
  const start = performance.now();
  const getters = byGetters(file);
  const middle = performance.now();
  const columns = byColumns(file);
  const end = performance.now();
  require("assert").deepStrictEqual(getters, columns);
  console.log(`getters ${(middle - start).toFixed(1)} ms, columns ${(end - middle).toFixed(1)} ms`);
  st.st_free(file);
}

// Reads through a function of JavaScript, which only the main thread may enter. A call on another thread waits until the
// main thread is free: a plan with several threads must therefore run asynchronously, or both wait for ever.
async function runOn(path, threads, wait) {
  const content = require("fs").readFileSync(path);
  const readAt = koffi.register((ctx, offset, dst, n) => {
    Buffer.from(koffi.view(dst, Number(n))).set(content.subarray(Number(offset), Number(offset) + Number(n)));
    return 0;
  }, "ReadAt *");
  const source = { struct_size: koffi.sizeof(Source), flags: 0, ctx: null, size: content.length, read_at: readAt, close: null };
  const file = make("st_open_source", source, null);
  const data = st.st_get_tensor(file, "data");
  const bytes = Number(st.st_tensor_bytes(data));
  const values = koffi.alloc("uint8_t", bytes);
  const options = { struct_size: koffi.sizeof(ReadOptions), flags: 0, threads, cache: 0, chunk_bytes: 1 << 16, gap_bytes: 0,
                    ctx: null, progress: null, parallel_for: null };
  const plan = make("st_plan_new", file);
  st.st_plan_add(plan, data, null, null, null, values, bytes);
  await wait(plan, options);
  const right = content.subarray(content.length - bytes).equals(Buffer.from(koffi.view(values, bytes)));
  st.st_plan_free(plan);
  st.st_free(file);
  koffi.unregister(readAt);
  koffi.free(values);
  if (!right) throw new Error("other bytes were read");
}

async function showThreads(path) {
  await runOn(path, 1, st.st_plan_run);
  console.log("threads = 1: calls on the calling thread");
  await runOn(path, 4, st.st_plan_run.async);
  console.log("threads = 4, asynchronous: calls on the main thread");
}

if (process.argv[2] === "--list") timeListing(process.argv[3]);
else if (process.argv[2] === "--threads") showThreads(process.argv[3]);
else tour();
