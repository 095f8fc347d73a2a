-- Uses libsafetensors through LuaJIT's ffi: see ../c/model.c for what it does.
--
-- SAFETENSORS_CDEF names the header as `cc -E -P -DST_API= safetensors.h` prints it.
-- SPDX-License-Identifier: Apache-2.0
local ffi = require "ffi"
ffi.cdef(assert(io.open(os.getenv "SAFETENSORS_CDEF")):read "*a")
local st = ffi.load(os.getenv "SAFETENSORS_LIBRARY" or "safetensors")
local SLICE_BEGIN, SLICE_END = -0x7fffffffffffffffLL - 1, 0x7fffffffffffffffLL

local function new(struct)
  local value = ffi.new(struct)
  value.struct_size = ffi.sizeof(struct)
  return value
end

-- Calls a function whose last parameter is an st_error.
local function check(f, ...)
  local error_ = new "st_error"
  local arguments, n = {...}, select("#", ...)
  arguments[n + 1] = error_
  local status = f(unpack(arguments, 1, n + 1))
  if status ~= 0 then error(ffi.string(st.st_status_name(status)) .. ": " .. ffi.string(error_.message), 0) end
end

-- Objects are freed by name and not by ffi.gc: what lives until the state closes may be collected after the library.
local function open(path)
  local out = ffi.new "st_file *[1]"
  check(st.st_open, path, nil, out)
  return out[0]
end

local function text(values, n)
  local words = {}
  for i = 1, n do words[i] = ("%g"):format(values[i - 1]) end
  return table.concat(words, " ")
end

local function by_columns(file)
  local out, rows = ffi.new "st_tensor_list *[1]", {}
  check(st.st_list_tensors, file, 0, out)
  local list = out[0]
  for i = 0, tonumber(list.count) - 1 do
    local name, shape = list.name_offsets[i], {}
    for d = tonumber(list.dim_offsets[i]), tonumber(list.dim_offsets[i + 1]) - 1 do shape[#shape + 1] = tonumber(list.dims[d]) end
    rows[i + 1] = {ffi.string(list.names + name, list.name_offsets[i + 1] - name - 1), list.dtypes[i], shape,
                   tonumber(list.sizes[i]), tonumber(list.offsets[i])}
  end
  st.st_tensor_list_free(list)
  return rows
end

local function by_getters(file)
  local rows, length = {}, ffi.new "size_t[1]"
  for i = 0, tonumber(st.st_count_tensors(file)) - 1 do
    local tensor, shape = st.st_get_tensor_at(file, i), {}
    local name, dims = st.st_tensor_name(tensor, length), st.st_tensor_shape(tensor)
    for d = 1, tonumber(st.st_tensor_rank(tensor)) do shape[d] = tonumber(dims[d - 1]) end
    rows[i + 1] = {ffi.string(name, length[0]), st.st_tensor_dtype(tensor), shape,
                   tonumber(st.st_tensor_bytes(tensor)), tonumber(st.st_tensor_offset(tensor))}
  end
  return rows
end

-- weight[1:3, ::-1]
local function read_slice(file)
  local pair, bytes = ffi.typeof "int64_t[2]", ffi.new "uint64_t[1]"
  local weight, from, to, step = st.st_get_tensor(file, "weight"), pair(1, SLICE_END), pair(3, SLICE_BEGIN), pair(1, -1)
  check(st.st_tensor_slice, weight, from, to, step, nil, bytes, nil)
  local values = ffi.new("float[?]", tonumber(bytes[0]) / 4)
  check(st.st_tensor_read_slice, weight, from, to, step, values, bytes[0])
  print("weight[1:3, ::-1]: " .. text(values, tonumber(bytes[0]) / 4))
end

local function read_many(file)
  local out, done, total = ffi.new "st_plan *[1]", 0, 0
  local weight, bias = ffi.new "float[12]", ffi.new "float[3]" -- locals until the run is over: the plan has only addresses
  local options = new "st_read_options"
  options.threads = 1 -- a callback on another thread crashes LuaJIT
  local progress = ffi.cast("int32_t (*)(void *, uint64_t, uint64_t)", function(_, d, t)
    done, total = tonumber(d), tonumber(t)
    return 0 -- an error must not leave a callback
  end)
  options.progress = progress
  check(st.st_plan_new, file, out)
  local plan = out[0]
  check(st.st_plan_add, plan, st.st_get_tensor(file, "weight"), nil, nil, nil, weight, ffi.sizeof(weight))
  check(st.st_plan_add, plan, st.st_get_tensor(file, "bias"), nil, nil, nil, bias, ffi.sizeof(bias))
  jit.off(check) -- a compiled call must not call back into Lua
  check(st.st_plan_run, plan, options)
  st.st_plan_free(plan)
  progress:free()
  print(("plan: %d of %d bytes, the last weight is %g"):format(done, total, weight[11]))
end

local function write_and_read_back(file)
  local out, index = ffi.new "st_writer *[1]", ffi.new "size_t[1]"
  local doubled, shape = ffi.new("float[3]", 1, -2.5, 4), ffi.new("uint64_t[1]", 3)
  check(st.st_writer_new, out)
  local writer = out[0]
  check(st.st_writer_copy_metadata, writer, file)
  check(st.st_writer_add_tensor, writer, nil, 0, st.st_get_tensor(file, "scale"))
  check(st.st_writer_add, writer, "doubled", st.ST_F32, 1, shape, nil, index)
  check(st.st_writer_begin, writer, "written.safetensors", nil)
  check(st.st_writer_put, writer, index[0], 0, doubled, ffi.sizeof(doubled))
  check(st.st_writer_finish, writer)
  st.st_writer_free(writer)
  local written, values = open "written.safetensors", ffi.new "float[3]"
  check(st.st_tensor_read, st.st_get_tensor(written, "doubled"), values, ffi.sizeof(values))
  print("written.safetensors, doubled: " .. text(values, 3))
  st.st_free(written)
end

local function tour()
  local file = open "model.safetensors"
  local rows = by_columns(file)
  print(("model.safetensors: %d tensors, format %s"):format(#rows, ffi.string(st.st_get_metadata(file, "format", nil))))
  for _, row in ipairs(rows) do
    local dtype = ffi.string(st.st_dtype_name(row[2]))
    print(("  %s %s [%s] %d bytes"):format(row[1], dtype, table.concat(row[3], ", "), row[4]))
  end
  local bias = ffi.new "float[3]"
  check(st.st_tensor_read, st.st_get_tensor(file, "bias"), bias, ffi.sizeof(bias))
  print("bias: " .. text(bias, 3))
  read_slice(file)
  read_many(file)
  local halves, scale = ffi.new "uint16_t[2]", ffi.new "float[2]"
  check(st.st_tensor_read, st.st_get_tensor(file, "scale"), halves, ffi.sizeof(halves))
  check(st.st_convert, st.ST_BF16, halves, st.ST_F32, scale, 2)
  print("scale as F32: " .. text(scale, 2))
  write_and_read_back(file)
  print(select(2, pcall(open, "truncated.safetensors")))
  st.st_free(file)
end

local function time_listing(path)
  local file = open(path)
  local start = os.clock()
  local getters = by_getters(file)
  local middle = os.clock()
  local columns = by_columns(file)
  local stop = os.clock()
  assert(#getters == #columns)
  for i, row in ipairs(getters) do
    row[3], columns[i][3] = table.concat(row[3], " "), table.concat(columns[i][3], " ")
    for k, value in ipairs(row) do assert(value == columns[i][k], "the lists differ") end
  end
  print(("getters %.1f ms, columns %.1f ms"):format((middle - start) * 1e3, (stop - middle) * 1e3))
end

if arg[1] == "--list" then time_listing(arg[2]) else tour() end
