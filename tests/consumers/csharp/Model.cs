// Uses libsafetensors from C# with P/Invoke: see ../c/model.c for what it does.
//
// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

[StructLayout(LayoutKind.Sequential)]
unsafe struct StError {
  public uint struct_size;
  public int status, os_error;
  public uint reserved;
  public ulong offset;
  public fixed byte message[232];
}

[UnmanagedFunctionPointer(CallingConvention.Cdecl)]
delegate int Progress(IntPtr ctx, ulong done, ulong total);

[UnmanagedFunctionPointer(CallingConvention.Cdecl)]
unsafe delegate int ReadAt(IntPtr ctx, ulong offset, byte* dst, UIntPtr n);

[StructLayout(LayoutKind.Sequential)]
struct Source {
  public uint struct_size, flags;
  public IntPtr ctx;
  public ulong size;
  public IntPtr read_at, close;
}

[StructLayout(LayoutKind.Sequential)]
struct ReadOptions {
  public uint struct_size, flags, threads;
  public int cache;
  public ulong chunk_bytes, gap_bytes;
  public IntPtr ctx, progress, parallel_for;
}

[StructLayout(LayoutKind.Sequential)]
unsafe struct TensorList {
  public uint struct_size, flags;
  public ulong count;
  public byte* names;
  public ulong* name_offsets;
  public int* dtypes;
  public uint* ranks;
  public ulong* dims, dim_offsets, offsets, sizes;
  public uint* shards;
  public IntPtr* data, tensors;
  public IntPtr reserved;
}

// Strings that the library returns are IntPtr: as a string the marshaller would free them.
static unsafe class St {
  const string Lib = "safetensors";
  [DllImport(Lib)] public static extern IntPtr st_status_name(int status);
  [DllImport(Lib)] public static extern IntPtr st_dtype_name(int dtype);
  [DllImport(Lib)] public static extern int st_open_n(byte[] path, UIntPtr len, IntPtr options, out IntPtr file, ref StError e);
  [DllImport(Lib)] public static extern void st_free(IntPtr file);
  [DllImport(Lib)] public static extern UIntPtr st_count_tensors(IntPtr file);
  [DllImport(Lib)] public static extern IntPtr st_get_tensor_at(IntPtr file, UIntPtr i);
  [DllImport(Lib)] public static extern IntPtr st_get_tensor_n(IntPtr file, byte[] name, UIntPtr len);
  [DllImport(Lib)] public static extern byte* st_get_metadata_n(IntPtr file, byte[] key, UIntPtr len, out UIntPtr valueLen);
  [DllImport(Lib)] public static extern byte* st_tensor_name(IntPtr tensor, out UIntPtr len);
  [DllImport(Lib)] public static extern int st_tensor_dtype(IntPtr tensor);
  [DllImport(Lib)] public static extern UIntPtr st_tensor_rank(IntPtr tensor);
  [DllImport(Lib)] public static extern ulong* st_tensor_shape(IntPtr tensor);
  [DllImport(Lib)] public static extern ulong st_tensor_bytes(IntPtr tensor);
  [DllImport(Lib)] public static extern ulong st_tensor_offset(IntPtr tensor);
  [DllImport(Lib)] public static extern int st_open_source(ref Source source, IntPtr options, out IntPtr file, ref StError e);
  [DllImport(Lib)] public static extern int st_list_tensors(IntPtr file, uint flags, out TensorList* list, ref StError e);
  [DllImport(Lib)] public static extern void st_tensor_list_free(TensorList* list);
  [DllImport(Lib)] public static extern int st_tensor_read(IntPtr tensor, void* dst, UIntPtr size, ref StError e);
  [DllImport(Lib)] public static extern int st_tensor_slice(IntPtr tensor, long[] begin, long[] end, long[] step, ulong[] shape, out ulong bytes, IntPtr contiguous, ref StError e);
  [DllImport(Lib)] public static extern int st_tensor_read_slice(IntPtr tensor, long[] begin, long[] end, long[] step, float[] dst, UIntPtr size, ref StError e);
  [DllImport(Lib)] public static extern int st_plan_new(IntPtr file, out IntPtr plan, ref StError e);
  [DllImport(Lib)] public static extern int st_plan_add(IntPtr plan, IntPtr tensor, long[] begin, long[] end, long[] step, IntPtr dst, UIntPtr size, ref StError e);
  [DllImport(Lib)] public static extern int st_plan_run(IntPtr plan, ref ReadOptions options, ref StError e);
  [DllImport(Lib)] public static extern void st_plan_free(IntPtr plan);
  [DllImport(Lib)] public static extern int st_convert(int from, ushort[] src, int to, float[] dst, UIntPtr n, ref StError e);
  [DllImport(Lib)] public static extern int st_writer_new(out IntPtr writer, ref StError e);
  [DllImport(Lib)] public static extern int st_writer_copy_metadata(IntPtr writer, IntPtr file, ref StError e);
  [DllImport(Lib)] public static extern int st_writer_add_tensor(IntPtr writer, byte[] name, UIntPtr len, IntPtr tensor, ref StError e);
  [DllImport(Lib)] public static extern int st_writer_add_n(IntPtr writer, byte[] name, UIntPtr len, int dtype, UIntPtr rank, ulong[] shape, IntPtr data, out UIntPtr index, ref StError e);
  [DllImport(Lib)] public static extern int st_writer_begin_n(IntPtr writer, byte[] path, UIntPtr len, IntPtr options, ref StError e);
  [DllImport(Lib)] public static extern int st_writer_put(IntPtr writer, UIntPtr index, ulong at, float[] data, UIntPtr n, ref StError e);
  [DllImport(Lib)] public static extern int st_writer_finish(IntPtr writer, ref StError e);
  [DllImport(Lib)] public static extern void st_writer_free(IntPtr writer);
}

struct Row {
  public string Name;
  public int Dtype;
  public ulong[] Shape;
  public ulong Bytes, Offset;
}

class SameRow : IEqualityComparer<Row> {
  public bool Equals(Row a, Row b) {
    return a.Name == b.Name && a.Dtype == b.Dtype && a.Shape.SequenceEqual(b.Shape) && a.Bytes == b.Bytes && a.Offset == b.Offset;
  }
  public int GetHashCode(Row row) { return row.Name.GetHashCode(); }
}

static unsafe class Model {
  const int BF16 = 11, F32 = 12;
  static StError error = new StError { struct_size = (uint)sizeof(StError) };

  static void Check(int status) {
    if (status == 0) return;
    fixed (byte* message = error.message) {
      int n = 0;
      while (message[n] != 0) ++n;
      throw new Exception(Marshal.PtrToStringAnsi(St.st_status_name(status)) + ": " + Encoding.UTF8.GetString(message, n));
    }
  }

  static UIntPtr Size(long n) { return (UIntPtr)(ulong)n; }
  static byte[] Utf8(string text) { return Encoding.UTF8.GetBytes(text); }
  static string Text(float[] values) { return string.Join(" ", values.Select(v => v.ToString(CultureInfo.InvariantCulture))); }

  static IntPtr Open(string path) {
    IntPtr file;
    byte[] bytes = Utf8(path);
    Check(St.st_open_n(bytes, Size(bytes.Length), IntPtr.Zero, out file, ref error));
    return file;
  }

  static IntPtr Find(IntPtr file, string name) {
    byte[] bytes = Utf8(name);
    return St.st_get_tensor_n(file, bytes, Size(bytes.Length));
  }

  static Row[] ByColumns(IntPtr file) {
    TensorList* list;
    Check(St.st_list_tensors(file, 0, out list, ref error));
    var rows = new Row[(int)list->count];
    for (int i = 0; i < rows.Length; ++i) {
      ulong name = list->name_offsets[i], dim = list->dim_offsets[i];
      var shape = new ulong[list->dim_offsets[i + 1] - dim];
      for (int d = 0; d < shape.Length; ++d) shape[d] = list->dims[dim + (ulong)d];
      rows[i] = new Row { Name = Encoding.UTF8.GetString(list->names + name, (int)(list->name_offsets[i + 1] - name - 1)),
                          Dtype = list->dtypes[i], Shape = shape, Bytes = list->sizes[i], Offset = list->offsets[i] };
    }
    St.st_tensor_list_free(list);
    return rows;
  }

  static Row[] ByGetters(IntPtr file) {
    var rows = new Row[(int)St.st_count_tensors(file)];
    for (int i = 0; i < rows.Length; ++i) {
      IntPtr tensor = St.st_get_tensor_at(file, Size(i));
      UIntPtr length;
      byte* name = St.st_tensor_name(tensor, out length);
      ulong* dims = St.st_tensor_shape(tensor);
      var shape = new ulong[(int)St.st_tensor_rank(tensor)];
      for (int d = 0; d < shape.Length; ++d) shape[d] = dims[d];
      rows[i] = new Row { Name = Encoding.UTF8.GetString(name, (int)length), Dtype = St.st_tensor_dtype(tensor), Shape = shape,
                          Bytes = St.st_tensor_bytes(tensor), Offset = St.st_tensor_offset(tensor) };
    }
    return rows;
  }

  static float[] ReadFloats(IntPtr file, string name, int n) {
    var values = new float[n];
    fixed (float* at = values) Check(St.st_tensor_read(Find(file, name), at, Size(n * 4), ref error));
    return values;
  }

  // weight[1:3, ::-1]
  static void ReadSlice(IntPtr file) {
    IntPtr weight = Find(file, "weight");
    long[] begin = { 1, long.MaxValue }, end = { 3, long.MinValue }, step = { 1, -1 };
    ulong bytes;
    Check(St.st_tensor_slice(weight, begin, end, step, null, out bytes, IntPtr.Zero, ref error));
    var values = new float[bytes / 4];
    Check(St.st_tensor_read_slice(weight, begin, end, step, values, (UIntPtr)bytes, ref error));
    Console.WriteLine("weight[1:3, ::-1]: " + Text(values));
  }

  static void ReadMany(IntPtr file) {
    float[] weight = new float[12], bias = new float[3];
    // The plan keeps the addresses: both arrays stay pinned until it has run.
    GCHandle pinnedWeight = GCHandle.Alloc(weight, GCHandleType.Pinned), pinnedBias = GCHandle.Alloc(bias, GCHandleType.Pinned);
    IntPtr plan = IntPtr.Zero;
    ulong lastDone = 0, lastTotal = 0;
    Progress progress = (ctx, done, total) => { lastDone = done; lastTotal = total; return 0; };
    try {
      Check(St.st_plan_new(file, out plan, ref error));
      Check(St.st_plan_add(plan, Find(file, "weight"), null, null, null, pinnedWeight.AddrOfPinnedObject(), Size(48), ref error));
      Check(St.st_plan_add(plan, Find(file, "bias"), null, null, null, pinnedBias.AddrOfPinnedObject(), Size(12), ref error));
      var options = new ReadOptions { struct_size = (uint)sizeof(ReadOptions), threads = 1,
                                      progress = Marshal.GetFunctionPointerForDelegate(progress) };
      Check(St.st_plan_run(plan, ref options, ref error));
      GC.KeepAlive(progress);  // C's pointer to it does not
    } finally {
      St.st_plan_free(plan);
      pinnedWeight.Free();
      pinnedBias.Free();
    }
    Console.WriteLine("plan: {0} of {1} bytes, the last weight is {2}", lastDone, lastTotal, weight[11]);
  }

  static void Convert(IntPtr file) {
    var halves = new ushort[2];
    var values = new float[2];
    fixed (ushort* at = halves) Check(St.st_tensor_read(Find(file, "scale"), at, Size(4), ref error));
    Check(St.st_convert(BF16, halves, F32, values, Size(2), ref error));
    Console.WriteLine("scale as F32: " + Text(values));
  }

  static void WriteAndReadBack(IntPtr file) {
    IntPtr writer;
    UIntPtr index;
    byte[] name = Utf8("doubled"), path = Utf8("written.safetensors");
    Check(St.st_writer_new(out writer, ref error));
    try {
      Check(St.st_writer_copy_metadata(writer, file, ref error));
      Check(St.st_writer_add_tensor(writer, null, Size(0), Find(file, "scale"), ref error));
      Check(St.st_writer_add_n(writer, name, Size(name.Length), F32, Size(1), new ulong[] { 3 }, IntPtr.Zero, out index, ref error));
      Check(St.st_writer_begin_n(writer, path, Size(path.Length), IntPtr.Zero, ref error));
      Check(St.st_writer_put(writer, index, 0, new float[] { 1, -2.5F, 4 }, Size(12), ref error));
      Check(St.st_writer_finish(writer, ref error));
    } finally {
      St.st_writer_free(writer);
    }
    IntPtr written = Open("written.safetensors");
    Console.WriteLine("written.safetensors, doubled: " + Text(ReadFloats(written, "doubled", 3)));
    St.st_free(written);
  }

  static void Tour() {
    IntPtr file = Open("model.safetensors");
    Row[] rows = ByColumns(file);
    UIntPtr length;
    byte* format = St.st_get_metadata_n(file, Utf8("format"), Size(6), out length);
    Console.WriteLine("model.safetensors: {0} tensors, format {1}", rows.Length, Encoding.UTF8.GetString(format, (int)length));
    foreach (Row row in rows)
      Console.WriteLine("  {0} {1} [{2}] {3} bytes", row.Name, Marshal.PtrToStringAnsi(St.st_dtype_name(row.Dtype)),
                        string.Join(", ", row.Shape), row.Bytes);
    Console.WriteLine("bias: " + Text(ReadFloats(file, "bias", 3)));
    ReadSlice(file);
    ReadMany(file);
    Convert(file);
    WriteAndReadBack(file);
    try {
      Open("truncated.safetensors");
    } catch (Exception problem) {
      Console.WriteLine(problem.Message);
    }
    St.st_free(file);
  }

  static void TimeListing(string path) {
    IntPtr file = Open(path);
    var clock = Stopwatch.StartNew();
    Row[] getters = ByGetters(file);
    double middle = clock.Elapsed.TotalMilliseconds;
    Row[] columns = ByColumns(file);
    double end = clock.Elapsed.TotalMilliseconds;
    if (!getters.SequenceEqual(columns, new SameRow())) throw new Exception("the lists differ");
    Console.WriteLine(string.Format(CultureInfo.InvariantCulture, "getters {0:F1} ms, columns {1:F1} ms", middle, end - middle));
    St.st_free(file);
  }

  // Reads through a method. With several threads, its call on this thread waits for one on another.
  static string RunOn(string path, uint threads) {
    byte[] content = System.IO.File.ReadAllBytes(path);
    int caller = Thread.CurrentThread.ManagedThreadId, strangers = 0;
    bool running = false;
    var elsewhere = new ManualResetEventSlim();
    ReadAt readAt = (ctx, offset, dst, n) => {
      Marshal.Copy(content, (int)offset, (IntPtr)dst, (int)n);
      if (Thread.CurrentThread.ManagedThreadId != caller) {
        Interlocked.Increment(ref strangers);
        elsewhere.Set();
      } else if (running && threads > 1) {
        elsewhere.Wait();
      }
      return 0;
    };
    var source = new Source { struct_size = (uint)sizeof(Source), size = (ulong)content.Length,
                              read_at = Marshal.GetFunctionPointerForDelegate(readAt) };
    IntPtr file, plan;
    Check(St.st_open_source(ref source, IntPtr.Zero, out file, ref error));
    IntPtr data = Find(file, "data");
    var values = new byte[St.st_tensor_bytes(data)];
    GCHandle pinned = GCHandle.Alloc(values, GCHandleType.Pinned);
    var options = new ReadOptions { struct_size = (uint)sizeof(ReadOptions), threads = threads, chunk_bytes = 1 << 16 };
    Check(St.st_plan_new(file, out plan, ref error));
    Check(St.st_plan_add(plan, data, null, null, null, pinned.AddrOfPinnedObject(), Size(values.Length), ref error));
    running = true;
    Check(St.st_plan_run(plan, ref options, ref error));
    St.st_plan_free(plan);
    St.st_free(file);
    pinned.Free();
    GC.KeepAlive(readAt);  // the file had it
    if (!content.Skip(content.Length - values.Length).SequenceEqual(values)) throw new Exception("other bytes were read");
    return strangers > 0 ? "other threads too" : "the calling thread";
  }

  static void Main(string[] arguments) {
    if (arguments.Length == 2 && arguments[0] == "--list") TimeListing(arguments[1]);
    else if (arguments.Length == 2 && arguments[0] == "--threads")
      foreach (uint threads in new uint[] { 1, 4 }) Console.WriteLine("threads = {0}: calls on {1}", threads, RunOn(arguments[1], threads));
    else Tour();
  }
}
