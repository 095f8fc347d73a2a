// Uses libsafetensors from Java through JNA: see ../c/model.c for what it does.
//
// Direct mapping (native methods, Native.register) is several times faster than an interface of JNA.
// SPDX-License-Identifier: Apache-2.0
import com.sun.jna.Callback;
import com.sun.jna.Library;
import com.sun.jna.Memory;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;
import com.sun.jna.Structure;
import com.sun.jna.ptr.LongByReference;
import com.sun.jna.ptr.PointerByReference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;

public final class Model {
  @Structure.FieldOrder({"structSize", "status", "osError", "reserved", "offset", "message"})
  public static class StError extends Structure {
    public int structSize = 256, status, osError, reserved;
    public long offset;
    public byte[] message = new byte[232];
  }

  public interface Progress extends Callback {
    int invoke(Pointer ctx, long done, long total);
  }

  @Structure.FieldOrder({"structSize", "flags", "threads", "cache", "chunkBytes", "gapBytes", "ctx", "progress", "parallelFor"})
  public static class ReadOptions extends Structure {
    public int structSize = 56, flags, threads, cache;
    public long chunkBytes, gapBytes;
    public Pointer ctx;
    public Progress progress;
    public Pointer parallelFor;
  }

  public interface ReadAt extends Callback {
    int invoke(Pointer ctx, long offset, Pointer dst, long n);
  }

  @Structure.FieldOrder({"structSize", "flags", "ctx", "size", "readAt", "close"})
  public static class Source extends Structure {
    public int structSize = 40, flags;
    public Pointer ctx;
    public long size;
    public ReadAt readAt;
    public Pointer close;
  }

  static final int BF16 = 11, F32 = 12;

  // size_t and uint64_t are long: this program is for machines of 64 bits.
  static native String st_status_name(int status);
  static native String st_dtype_name(int dtype);
  static native int st_open(String path, Pointer options, PointerByReference out, StError e);
  static native void st_free(Pointer file);
  static native long st_count_tensors(Pointer file);
  static native Pointer st_get_tensor_at(Pointer file, long i);
  static native Pointer st_get_tensor(Pointer file, String name);
  static native String st_get_metadata(Pointer file, String key, Pointer len);
  static native Pointer st_tensor_name(Pointer tensor, LongByReference len);
  static native int st_tensor_dtype(Pointer tensor);
  static native long st_tensor_rank(Pointer tensor);
  static native Pointer st_tensor_shape(Pointer tensor);
  static native long st_tensor_bytes(Pointer tensor);
  static native long st_tensor_offset(Pointer tensor);
  static native int st_open_source(Source source, Pointer options, PointerByReference out, StError e);
  static native int st_list_tensors(Pointer file, int flags, PointerByReference out, StError e);
  static native void st_tensor_list_free(Pointer list);
  static native int st_tensor_read(Pointer tensor, Pointer dst, long size, StError e);
  static native int st_tensor_slice(Pointer tensor, long[] begin, long[] end, long[] step, long[] shape, LongByReference bytes, Pointer contiguous, StError e);
  static native int st_tensor_read_slice(Pointer tensor, long[] begin, long[] end, long[] step, float[] dst, long size, StError e);
  static native int st_plan_new(Pointer file, PointerByReference out, StError e);
  static native int st_plan_add(Pointer plan, Pointer tensor, long[] begin, long[] end, long[] step, Pointer dst, long size, StError e);
  static native int st_plan_run(Pointer plan, ReadOptions options, StError e);
  static native void st_plan_free(Pointer plan);
  static native int st_convert(int from, Pointer src, int to, float[] dst, long n, StError e);
  static native int st_writer_new(PointerByReference out, StError e);
  static native int st_writer_copy_metadata(Pointer writer, Pointer file, StError e);
  static native int st_writer_add_tensor(Pointer writer, String name, long len, Pointer tensor, StError e);
  static native int st_writer_add(Pointer writer, String name, int dtype, long rank, long[] shape, Pointer data, LongByReference index, StError e);
  static native int st_writer_begin(Pointer writer, String path, Pointer options, StError e);
  static native int st_writer_put(Pointer writer, long index, long at, float[] data, long n, StError e);
  static native int st_writer_finish(Pointer writer, StError e);
  static native void st_writer_free(Pointer writer);

  static {
    String path = System.getenv().getOrDefault("SAFETENSORS_LIBRARY", "safetensors");
    Native.register(Model.class, NativeLibrary.getInstance(path, Map.of(Library.OPTION_STRING_ENCODING, "UTF-8")));
  }

  record Row(String name, int dtype, long[] shape, long bytes, long offset) {
    @Override
    public String toString() { return name + " " + dtype + Arrays.toString(shape) + bytes + " " + offset; }
  }

  static final StError error = new StError();

  static void check(int status) {
    if (status != 0) throw new RuntimeException(st_status_name(status) + ": " + Native.toString(error.message, "UTF-8"));
  }

  static Pointer open(String path) {
    var out = new PointerByReference();
    check(st_open(path, null, out, error));
    return out.getValue();
  }

  static String text(float[] values) {
    var words = new StringBuilder();
    for (float value : values) words.append(' ').append(value == (long) value ? Long.toString((long) value) : Float.toString(value));
    return words.substring(1);
  }

  /** Rows of the columns, which are copied to arrays at once: a Pointer does not keep the list alive. */
  static Row[] byColumns(Pointer file) {
    var out = new PointerByReference();
    check(st_list_tensors(file, 0, out, error));
    Pointer list = out.getValue();
    int n = (int) list.getLong(8);
    long[] ends = list.getPointer(24).getLongArray(0, n + 1);
    byte[] names = list.getPointer(16).getByteArray(0, (int) ends[n]);
    int[] dtypes = list.getPointer(32).getIntArray(0, n);
    long[] dimEnds = list.getPointer(56).getLongArray(0, n + 1);
    long[] dims = list.getPointer(48).getLongArray(0, (int) dimEnds[n]);
    long[] offsets = list.getPointer(64).getLongArray(0, n), sizes = list.getPointer(72).getLongArray(0, n);
    st_tensor_list_free(list);
    var rows = new Row[n];
    for (int i = 0; i < n; ++i) {
      var name = new String(names, (int) ends[i], (int) (ends[i + 1] - ends[i] - 1), StandardCharsets.UTF_8);
      rows[i] = new Row(name, dtypes[i], Arrays.copyOfRange(dims, (int) dimEnds[i], (int) dimEnds[i + 1]), sizes[i], offsets[i]);
    }
    return rows;
  }

  static Row[] byGetters(Pointer file) {
    var rows = new Row[(int) st_count_tensors(file)];
    var length = new LongByReference();
    for (int i = 0; i < rows.length; ++i) {
      Pointer tensor = st_get_tensor_at(file, i);
      byte[] name = st_tensor_name(tensor, length).getByteArray(0, (int) length.getValue());
      int rank = (int) st_tensor_rank(tensor);
      long[] shape = rank == 0 ? new long[0] : st_tensor_shape(tensor).getLongArray(0, rank);
      rows[i] = new Row(new String(name, StandardCharsets.UTF_8), st_tensor_dtype(tensor), shape, st_tensor_bytes(tensor),
                        st_tensor_offset(tensor));
    }
    return rows;
  }

  static Memory read(Pointer file, String name, long bytes) {
    var memory = new Memory(bytes);
    check(st_tensor_read(st_get_tensor(file, name), memory, bytes, error));
    return memory;
  }

  /** weight[1:3, ::-1] */
  static void readSlice(Pointer file) {
    Pointer weight = st_get_tensor(file, "weight");
    long[] begin = {1, Long.MAX_VALUE}, end = {3, Long.MIN_VALUE}, step = {1, -1};
    var bytes = new LongByReference();
    check(st_tensor_slice(weight, begin, end, step, null, bytes, null, error));
    var values = new float[(int) bytes.getValue() / 4];
    check(st_tensor_read_slice(weight, begin, end, step, values, bytes.getValue(), error));
    System.out.println("weight[1:3, ::-1]: " + text(values));
  }

  static void readMany(Pointer file) {
    // Memory of C: JNA gives back an array when the call ends, and the plan keeps the address.
    Memory weight = new Memory(48), bias = new Memory(12);
    long[] last = new long[2];
    var options = new ReadOptions(); // refers to the callback until the run is over
    options.threads = 1;
    options.progress = (ctx, done, total) -> { last[0] = done; last[1] = total; return 0; };
    var out = new PointerByReference();
    check(st_plan_new(file, out, error));
    Pointer plan = out.getValue();
    try {
      check(st_plan_add(plan, st_get_tensor(file, "weight"), null, null, null, weight, 48, error));
      check(st_plan_add(plan, st_get_tensor(file, "bias"), null, null, null, bias, 12, error));
      check(st_plan_run(plan, options, error));
    } finally {
      st_plan_free(plan);
      java.lang.ref.Reference.reachabilityFence(weight); // else their memory may be freed while the plan writes to it
      java.lang.ref.Reference.reachabilityFence(bias);
    }
    System.out.printf("plan: %d of %d bytes, the last weight is %s%n", last[0], last[1], text(weight.getFloatArray(44, 1)));
  }

  static void writeAndReadBack(Pointer file) {
    var out = new PointerByReference();
    var index = new LongByReference();
    check(st_writer_new(out, error));
    Pointer writer = out.getValue();
    try {
      check(st_writer_copy_metadata(writer, file, error));
      check(st_writer_add_tensor(writer, null, 0, st_get_tensor(file, "scale"), error));
      check(st_writer_add(writer, "doubled", F32, 1, new long[] {3}, null, index, error));
      check(st_writer_begin(writer, "written.safetensors", null, error));
      check(st_writer_put(writer, index.getValue(), 0, new float[] {1, -2.5f, 4}, 12, error));
      check(st_writer_finish(writer, error));
    } finally {
      st_writer_free(writer);
    }
    Pointer written = open("written.safetensors");
    System.out.println("written.safetensors, doubled: " + text(read(written, "doubled", 12).getFloatArray(0, 3)));
    st_free(written);
  }

  static void tour() {
    Pointer file = open("model.safetensors");
    Row[] rows = byColumns(file);
    System.out.printf("model.safetensors: %d tensors, format %s%n", rows.length, st_get_metadata(file, "format", null));
    for (Row row : rows)
      System.out.printf("  %s %s %s %d bytes%n", row.name, st_dtype_name(row.dtype), Arrays.toString(row.shape), row.bytes);
    System.out.println("bias: " + text(read(file, "bias", 12).getFloatArray(0, 3)));
    readSlice(file);
    readMany(file);
    var scale = new float[2];
    check(st_convert(BF16, read(file, "scale", 4), F32, scale, 2, error));
    System.out.println("scale as F32: " + text(scale));
    writeAndReadBack(file);
    try {
      open("truncated.safetensors");
    } catch (RuntimeException problem) {
      System.out.println(problem.getMessage());
    }
    st_free(file);
  }

  static void timeListing(String path) {
    Pointer file = open(path);
    long start = System.nanoTime();
    Row[] getters = byGetters(file);
    long middle = System.nanoTime();
    Row[] columns = byColumns(file);
    long end = System.nanoTime();
    if (!Arrays.deepToString(getters).equals(Arrays.deepToString(columns))) throw new AssertionError("the lists differ");
    System.out.printf("getters %.1f ms, columns %.1f ms%n", (middle - start) / 1e6, (end - middle) / 1e6);
    st_free(file);
  }

  /** Reads through a method. With several threads, its call on this thread waits for one on another. */
  static String runOn(String path, int threads) throws Exception {
    byte[] content = Files.readAllBytes(Path.of(path));
    Thread caller = Thread.currentThread();
    var running = new AtomicBoolean();
    var elsewhere = new CountDownLatch(1);
    var source = new Source(); // refers to the callback until the file is freed
    source.size = content.length;
    source.readAt = (ctx, offset, dst, n) -> {
      dst.write(0, content, (int) offset, (int) n);
      if (Thread.currentThread() != caller) elsewhere.countDown();
      else if (running.get() && threads > 1) awaitLatch(elsewhere);
      return 0;
    };
    var out = new PointerByReference();
    check(st_open_source(source, null, out, error));
    Pointer file = out.getValue(), data = st_get_tensor(file, "data");
    var values = new Memory(st_tensor_bytes(data));
    var options = new ReadOptions();
    options.threads = threads;
    options.chunkBytes = 1 << 16;
    check(st_plan_new(file, out, error));
    Pointer plan = out.getValue();
    check(st_plan_add(plan, data, null, null, null, values, values.size(), error));
    running.set(true);
    check(st_plan_run(plan, options, error));
    st_plan_free(plan);
    st_free(file);
    byte[] got = values.getByteArray(0, (int) values.size());
    if (!Arrays.equals(got, Arrays.copyOfRange(content, content.length - got.length, content.length)))
      throw new AssertionError("other bytes were read");
    java.lang.ref.Reference.reachabilityFence(source);
    return elsewhere.getCount() == 0 ? "other threads too" : "the calling thread";
  }

  static void awaitLatch(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException problem) {
      throw new IllegalStateException(problem);
    }
  }

  public static void main(String[] arguments) throws Exception {
    System.setOut(new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8));
    if (arguments.length == 2 && arguments[0].equals("--list")) timeListing(arguments[1]);
    else if (arguments.length == 2 && arguments[0].equals("--threads"))
      for (int threads : new int[] {1, 4}) System.out.println("threads = " + threads + ": calls on " + runOn(arguments[1], threads));
    else tour();
  }
}
