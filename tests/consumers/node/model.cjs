// Uses libsafetensors from Node with koffi: see ../c/model.c for what it does.
//
// Nothing is declared by hand: SAFETENSORS_JSON names the installed safetensors.json.
// SPDX-License-Identifier: Apache-2.0
const assert = require("assert");
const koffi = require("koffi");
const { performance } = require("perf_hooks");

const lib = koffi.load(process.env.SAFETENSORS_LIBRARY || "libsafetensors.so.0");
const api = JSON.parse(require("fs").readFileSync(process.env.SAFETENSORS_JSON, "utf8"));
const constants = {};
for (const { name, value } of api.enums.flatMap((one) => one.constants)) constants[name] = value;
for (const { name, type, value } of api.macros) constants[name] = type === "int64_t" ? BigInt(value) : value;
for (const { name, type } of api.enums) if (name) koffi.alias(name, type);
for (const { name } of api.handles) koffi.opaque(name);

const [callbacks, structs] = [{}, {}];
// In structs and callbacks a pointer is an address, because JavaScript's strings and objects would be copies.
const typeOf = (type, addresses) => {
  if (type.callback) return koffi.pointer(callbacks[type.callback]);
  if (type.array) return koffi.array(typeOf(type.array), type.length);
  if (type.pointer && addresses) return "void *";
  if (!type.pointer) return type.name;
  return type.pointer.name === "char" ? "const char *" : koffi.pointer(typeOf(type.pointer));
};
for (const { name, returns, parameters } of api.callbacks) {
  const types = parameters.map((one) => typeOf(one.type, true));
  callbacks[name] = koffi.proto(name.replaceAll(".", "_"), typeOf(returns.type, true), types);
}
const layout = process.arch === "ia32" && process.platform !== "win32" ? "i386" : String(8 * koffi.sizeof("void *"));
for (const { name, fields, layouts } of api.structs) {
  structs[name] = koffi.struct(name, Object.fromEntries(fields.map((one) => [one.name, typeOf(one.type, true)])));
  assert(koffi.sizeof(structs[name]) === layouts[layout].size, name);
  for (const one of fields) assert(koffi.offsetof(structs[name], one.name) === one.offset[layout], `${name}.${one.name}`);
}

// A struct with its struct_size, these members, and zeros.
function fresh(name, members) {
  const zero = ({ type }) => (type.array ? "" : type.pointer || type.callback ? null : 0);
  const { fields } = api.structs.find((one) => one.name === name);
  const zeros = Object.fromEntries(fields.map((one) => [one.name, zero(one)]));
  return { ...zeros, struct_size: koffi.sizeof(structs[name]), ...members };
}

const st = {};
for (const { name, returns, parameters } of api.functions) {
  const direction = { out: koffi.out, inout: koffi.inout };
  const types = parameters.map((one) => (direction[one.direction] || ((type) => type))(typeOf(one.type)));
  // A name with a length may hold a NUL, where koffi's strings end.
  const f = lib.func(name, returns.length ? "void *" : typeOf(returns.type), types);
  st[name] = f;
  if (returns.type.name !== "st_status") continue;
  // The last parameter is an st_error, which is added here: it throws.
  const failure = (error) => new Error(`${st.st_status_name(error.status)}: ${error.message}`);
  st[name] = (...values) => {
    const error = fresh("st_error");
    if (f(...values, error) !== constants.ST_OK) throw failure(error);
  };
  // Runs it on a thread of koffi, while this one is free to be called back.
  st[name].async = (...values) => new Promise((resolve, reject) => {
    const error = fresh("st_error");
    f.async(...values, error, (problem, status) => {
      if (problem || status !== constants.ST_OK) reject(problem || failure(error));
      else resolve();
    });
  });
}
const { ST_BF16: BF16, ST_F32: F32, ST_SLICE_BEGIN: SLICE_BEGIN, ST_SLICE_END: SLICE_END } = constants;

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
  const list = koffi.decode(pointer, structs.st_tensor_list);
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

function metadata(file, key) {
  const length = [0];
  const value = st.st_get_metadata(file, key, length);
  return value && Buffer.from(koffi.decode(value, "uint8_t", Number(length[0]))).toString("utf8");
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
  const progress = koffi.register((ctx, done, total) => { last = [done, total]; return 0; },
                                  koffi.pointer(callbacks["st_read_options.progress"]));
  const options = fresh("st_read_options", { threads: 1, progress });
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
  console.log(`model.safetensors: ${rows.length} tensors, format ${metadata(file, "format")}`);
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
  assert.deepStrictEqual(getters, columns);
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
  }, koffi.pointer(callbacks["st_source.read_at"]));
  const source = fresh("st_source", { size: content.length, read_at: readAt });
  const file = make("st_open_source", source, null);
  const data = st.st_get_tensor(file, "data");
  const bytes = Number(st.st_tensor_bytes(data));
  const values = koffi.alloc("uint8_t", bytes);
  const options = fresh("st_read_options", { threads, chunk_bytes: 1 << 16 });
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
