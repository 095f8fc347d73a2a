# Uses libsafetensors through Fiddle, which Ruby brings: see ../c/model.c for what it does.
#
# SPDX-License-Identifier: Apache-2.0
require "fiddle"
require "fiddle/import"

module ST
  extend Fiddle::Importer
  dlload ENV["SAFETENSORS_LIBRARY"] || "libsafetensors.so.0"
  typealias "u64", "unsigned long long"
  typealias "i32", "int"
  extern "char *st_status_name(i32)"
  extern "char *st_dtype_name(i32)"
  extern "i32 st_open(char *, void *, void *, void *)"
  extern "void st_free(void *)"
  extern "size_t st_count_tensors(void *)"
  extern "void *st_get_tensor_at(void *, size_t)"
  extern "void *st_get_tensor(void *, char *)"
  extern "char *st_get_metadata(void *, char *, void *)"
  extern "char *st_tensor_name(void *, void *)"
  extern "i32 st_tensor_dtype(void *)"
  extern "size_t st_tensor_rank(void *)"
  extern "void *st_tensor_shape(void *)"
  extern "u64 st_tensor_bytes(void *)"
  extern "u64 st_tensor_offset(void *)"
  extern "i32 st_open_source(void *, void *, void *, void *)"
  extern "i32 st_list_tensors(void *, i32, void *, void *)"
  extern "void st_tensor_list_free(void *)"
  extern "i32 st_tensor_read(void *, void *, size_t, void *)"
  extern "i32 st_tensor_slice(void *, void *, void *, void *, void *, void *, void *, void *)"
  extern "i32 st_tensor_read_slice(void *, void *, void *, void *, void *, size_t, void *)"
  extern "i32 st_plan_new(void *, void *, void *)"
  extern "i32 st_plan_add(void *, void *, void *, void *, void *, void *, size_t, void *)"
  extern "i32 st_plan_run(void *, void *, void *)"
  extern "void st_plan_free(void *)"
  extern "i32 st_convert(i32, void *, i32, void *, size_t, void *)"
  extern "i32 st_writer_new(void *, void *)"
  extern "i32 st_writer_copy_metadata(void *, void *, void *)"
  extern "i32 st_writer_add_tensor(void *, char *, size_t, void *, void *)"
  extern "i32 st_writer_add(void *, char *, i32, size_t, void *, void *, void *, void *)"
  extern "i32 st_writer_begin(void *, char *, void *, void *)"
  extern "i32 st_writer_put(void *, size_t, u64, void *, size_t, void *)"
  extern "i32 st_writer_finish(void *, void *)"
  extern "void st_writer_free(void *)"
end

BF16, F32 = 11, 12
SLICE_BEGIN, SLICE_END = -(1 << 63), (1 << 63) - 1

# Calls a function whose last parameter is an st_error: struct_size, status, ..., message at byte 24.
def check(function, *arguments)
  error = [256].pack("L").ljust(256, "\0")
  status = ST.public_send(function, *arguments, error)
  raise "#{ST.st_status_name(status)}: #{error[24..].unpack1('Z*').force_encoding('UTF-8')}" unless status.zero?
end

# Calls a function that returns an object through a pointer.
def make(function, *arguments)
  out = "\0" * 8
  check(function, *arguments, out)
  Fiddle::Pointer.new(out.unpack1("Q"))
end

def open_model(path) = make(:st_open, path, nil)

def text(bytes) = bytes.unpack("e*").map { |value| format("%g", value) }.join(" ")

def by_columns(file)
  list = make(:st_list_tensors, file, 0)
  count = list[8, 8].unpack1("Q")
  column = ->(at, rows, size, code) { Fiddle::Pointer.new(list[at, 8].unpack1("Q"))[0, rows * size].unpack(code) }
  ends = column.(24, count + 1, 8, "Q*")
  names = column.(16, ends.last, 1, "a*")[0].force_encoding("UTF-8")
  dim_ends = column.(56, count + 1, 8, "Q*")
  dims, dtypes = column.(48, dim_ends.last, 8, "Q*"), column.(32, count, 4, "l*")
  offsets, sizes = column.(64, count, 8, "Q*"), column.(72, count, 8, "Q*")
  ST.st_tensor_list_free(list)
  Array.new(count) do |i|
    [names.byteslice(ends[i], ends[i + 1] - ends[i] - 1), dtypes[i], dims[dim_ends[i]...dim_ends[i + 1]], sizes[i], offsets[i]]
  end
end

def by_getters(file)
  Array.new(ST.st_count_tensors(file)) do |i|
    tensor, length = ST.st_get_tensor_at(file, i), "\0" * 8
    name = ST.st_tensor_name(tensor, length)[0, length.unpack1("Q")].force_encoding("UTF-8")
    shape = ST.st_tensor_shape(tensor)[0, 8 * ST.st_tensor_rank(tensor)].unpack("Q*")
    [name, ST.st_tensor_dtype(tensor), shape, ST.st_tensor_bytes(tensor), ST.st_tensor_offset(tensor)]
  end
end

def read(file, name, size)
  bytes = "\0" * size
  check(:st_tensor_read, ST.st_get_tensor(file, name), bytes, size)
  bytes
end

# weight[1:3, ::-1]
def read_slice(file)
  weight, nbytes = ST.st_get_tensor(file, "weight"), "\0" * 8
  part = [[1, SLICE_END], [3, SLICE_BEGIN], [1, -1]].map { |pair| pair.pack("q*") }
  check(:st_tensor_slice, weight, *part, nil, nbytes, nil)
  values = "\0" * nbytes.unpack1("Q")
  check(:st_tensor_read_slice, weight, *part, values, values.bytesize)
  puts "weight[1:3, ::-1]: #{text(values)}"
end

def read_many(file)
  last = nil
  types = [Fiddle::TYPE_VOIDP, -Fiddle::TYPE_LONG_LONG, -Fiddle::TYPE_LONG_LONG]
  progress = Fiddle::Closure::BlockCaller.new(Fiddle::TYPE_INT, types) do |_, done, total|
    last = [done, total]
    0
  end
  options = [56, 0, 1, 0, 0, 0, 0, progress.to_i, 0].pack("LLLlQQQQQ") # one thread: Ruby takes calls on its own only
  # Memory of C, since the plan keeps the addresses and Ruby may move the bytes of a String.
  weight, bias = [48, 12].map { |size| Fiddle::Pointer.malloc(size, Fiddle::RUBY_FREE) }
  plan = make(:st_plan_new, file)
  { "weight" => weight, "bias" => bias }.each do |name, values|
    check(:st_plan_add, plan, ST.st_get_tensor(file, name), nil, nil, nil, values, values.size)
  end
  check(:st_plan_run, plan, options)
  ST.st_plan_free(plan)
  puts "plan: #{last[0]} of #{last[1]} bytes, the last weight is #{text(weight[44, 4])}"
end

def write_and_read_back(file)
  doubled, index = [1, -2.5, 4].pack("e*"), "\0" * 8
  writer = make(:st_writer_new)
  check(:st_writer_copy_metadata, writer, file)
  check(:st_writer_add_tensor, writer, nil, 0, ST.st_get_tensor(file, "scale"))
  check(:st_writer_add, writer, "doubled", F32, 1, [3].pack("Q"), nil, index)
  check(:st_writer_begin, writer, "written.safetensors", nil)
  check(:st_writer_put, writer, index.unpack1("Q"), 0, doubled, doubled.bytesize)
  check(:st_writer_finish, writer)
  ST.st_writer_free(writer)
  written = open_model("written.safetensors")
  puts "written.safetensors, doubled: #{text(read(written, 'doubled', 12))}"
  ST.st_free(written)
end

def tour
  file = open_model("model.safetensors")
  rows = by_columns(file)
  puts "model.safetensors: #{rows.size} tensors, format #{ST.st_get_metadata(file, 'format', nil)}"
  rows.each { |name, dtype, shape, bytes| puts "  #{name} #{ST.st_dtype_name(dtype)} #{shape} #{bytes} bytes" }
  puts "bias: #{text(read(file, 'bias', 12))}"
  read_slice(file)
  read_many(file)
  scale = "\0" * 8
  check(:st_convert, BF16, read(file, "scale", 4), F32, scale, 2)
  puts "scale as F32: #{text(scale)}"
  write_and_read_back(file)
  begin
    open_model("truncated.safetensors")
  rescue RuntimeError => e
    puts e.message
  end
  ST.st_free(file)
end

def time_listing(path)
  file = open_model(path)
  now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC, :float_millisecond) }
  start = now.()
  getters = by_getters(file)
  middle = now.()
  columns = by_columns(file)
  stop = now.()
  raise "the lists differ" if getters != columns
  puts format("getters %.1f ms, columns %.1f ms", middle - start, stop - middle)
  ST.st_free(file)
end

# Reads through a function of Ruby. Ruby ends the process when a thread that it does not know calls it, so that only one
# thread may read.
def show_threads(path)
  content, caller, called = File.binread(path), Thread.current, []
  types = [Fiddle::TYPE_VOIDP, -Fiddle::TYPE_LONG_LONG, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T]
  read_at = Fiddle::Closure::BlockCaller.new(Fiddle::TYPE_INT, types) do |_, offset, to, n|
    called |= [Thread.current]
    to[0, n] = content.byteslice(offset, n)
    0
  end
  source = [40, 0, 0, content.bytesize, read_at.to_i, 0].pack("LLQQQQ")
  file = make(:st_open_source, source, nil)
  data = ST.st_get_tensor(file, "data")
  values = Fiddle::Pointer.malloc(ST.st_tensor_bytes(data), Fiddle::RUBY_FREE)
  plan = make(:st_plan_new, file)
  check(:st_plan_add, plan, data, nil, nil, nil, values, values.size)
  check(:st_plan_run, plan, [56, 0, 1, 0, 1 << 16, 0, 0, 0, 0].pack("LLLlQQQQQ"))
  ST.st_plan_free(plan)
  ST.st_free(file)
  raise "other bytes were read" unless content.end_with?(values[0, values.size])
  puts "threads = 1: calls on #{called == [caller] ? 'the calling thread' : 'other threads too'}"
end

case ARGV[0]
when "--list" then time_listing(ARGV[1])
when "--threads" then show_threads(ARGV[1])
else tour
end
