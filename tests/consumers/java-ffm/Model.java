// Uses libsafetensors from Java 22 and later with java.lang.foreign, without a library beside it: see ../c/model.c for what
// it does.
//
// SPDX-License-Identifier: Apache-2.0
import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.io.PrintStream;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;

public final class Model {
  static final int BF16 = 11, F32 = 12;
  static final MemorySegment NULL = MemorySegment.NULL;
  static final Linker linker = Linker.nativeLinker();
  static final SymbolLookup library =
      SymbolLookup.libraryLookup(Path.of(System.getenv("SAFETENSORS_LIBRARY")), Arena.global());

  // size_t and uint64_t are long: this program is for machines of 64 bits.
  static MethodHandle function(String name, MemoryLayout result, MemoryLayout... parameters) {
    var type = result == null ? FunctionDescriptor.ofVoid(parameters) : FunctionDescriptor.of(result, parameters);
    return linker.downcallHandle(library.find(name).orElseThrow(), type);
  }

  /** A function whose last parameter is an st_error, which returns a status. */
  static MethodHandle failing(String name, MemoryLayout... parameters) {
    MemoryLayout[] all = Arrays.copyOf(parameters, parameters.length + 1);
    all[parameters.length] = ADDRESS;
    return function(name, JAVA_INT, all);
  }

  static final MethodHandle
      statusName = function("st_status_name", ADDRESS, JAVA_INT), dtypeName = function("st_dtype_name", ADDRESS, JAVA_INT),
      free = function("st_free", null, ADDRESS), count = function("st_count_tensors", JAVA_LONG, ADDRESS),
      tensorAt = function("st_get_tensor_at", ADDRESS, ADDRESS, JAVA_LONG),
      getTensor = function("st_get_tensor", ADDRESS, ADDRESS, ADDRESS),
      getMetadata = function("st_get_metadata", ADDRESS, ADDRESS, ADDRESS, ADDRESS),
      tensorName = function("st_tensor_name", ADDRESS, ADDRESS, ADDRESS), dtype = function("st_tensor_dtype", JAVA_INT, ADDRESS),
      rank = function("st_tensor_rank", JAVA_LONG, ADDRESS), shape = function("st_tensor_shape", ADDRESS, ADDRESS),
      bytes = function("st_tensor_bytes", JAVA_LONG, ADDRESS), offset = function("st_tensor_offset", JAVA_LONG, ADDRESS),
      listFree = function("st_tensor_list_free", null, ADDRESS), planFree = function("st_plan_free", null, ADDRESS),
      writerFree = function("st_writer_free", null, ADDRESS), open = failing("st_open", ADDRESS, ADDRESS, ADDRESS),
      openSource = failing("st_open_source", ADDRESS, ADDRESS, ADDRESS),
      listTensors = failing("st_list_tensors", ADDRESS, JAVA_INT, ADDRESS),
      tensorRead = failing("st_tensor_read", ADDRESS, ADDRESS, JAVA_LONG),
      tensorSlice = failing("st_tensor_slice", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS),
      readSlice = failing("st_tensor_read_slice", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG),
      planNew = failing("st_plan_new", ADDRESS, ADDRESS),
      planAdd = failing("st_plan_add", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG),
      planRun = failing("st_plan_run", ADDRESS, ADDRESS),
      convert = failing("st_convert", JAVA_INT, ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG),
      writerNew = failing("st_writer_new", ADDRESS), writerCopyMetadata = failing("st_writer_copy_metadata", ADDRESS, ADDRESS),
      writerAddTensor = failing("st_writer_add_tensor", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS),
      writerAdd = failing("st_writer_add", ADDRESS, ADDRESS, JAVA_INT, JAVA_LONG, ADDRESS, ADDRESS, ADDRESS),
      writerBegin = failing("st_writer_begin", ADDRESS, ADDRESS, ADDRESS),
      writerPut = failing("st_writer_put", ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS, JAVA_LONG),
      writerFinish = failing("st_writer_finish", ADDRESS);

  static final MethodHandle progressHandle = callback("progress", JAVA_INT, MemorySegment.class, long.class, long.class);
  static final MethodHandle readAtHandle =
      callback("readAt", JAVA_INT, MemorySegment.class, long.class, MemorySegment.class, long.class);

  /** A method of Run that C calls; it is bound to an object later. */
  static MethodHandle callback(String name, MemoryLayout result, Class<?>... parameters) {
    try {
      return MethodHandles.lookup().findVirtual(Run.class, name, MethodType.methodType(int.class, parameters));
    } catch (ReflectiveOperationException problem) {
      throw new AssertionError(problem);
    }
  }

  /** What the callbacks of one run know. An exception that leaves one ends the process. */
  static final class Run {
    final Thread caller = Thread.currentThread();
    final CountDownLatch elsewhere = new CountDownLatch(1);
    byte[] content;
    boolean waits;
    long done, total;

    int progress(MemorySegment ctx, long now, long all) {
      done = now;
      total = all;
      return 0;
    }

    /** With several threads, its call on this thread waits for one on another. */
    int readAt(MemorySegment ctx, long from, MemorySegment dst, long n) {
      MemorySegment.copy(content, (int) from, dst.reinterpret(n), JAVA_BYTE, 0, (int) n);
      if (Thread.currentThread() != caller) elsewhere.countDown();
      try {
        if (waits && Thread.currentThread() == caller) elsewhere.await();
      } catch (InterruptedException problem) {
        return 1;
      }
      return 0;
    }

    MemorySegment progressFor(Arena arena) {
      return linker.upcallStub(progressHandle.bindTo(this), FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, JAVA_LONG), arena);
    }

    MemorySegment readAtFor(Arena arena) {
      var type = FunctionDescriptor.of(JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG);
      return linker.upcallStub(readAtHandle.bindTo(this), type, arena);
    }
  }

  static String text(MemorySegment zeroTerminated) { return zeroTerminated.reinterpret(Long.MAX_VALUE).getString(0); }

  /** Calls a function whose last parameter is an st_error. */
  static void check(MethodHandle function, Object... arguments) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment error = arena.allocate(256, 8);
      error.set(JAVA_INT, 0, 256);
      Object[] all = Arrays.copyOf(arguments, arguments.length + 1);
      all[arguments.length] = error;
      int status = (int) function.invokeWithArguments(all);
      if (status != 0)
        throw new RuntimeException(text((MemorySegment) statusName.invokeExact(status)) + ": " + error.getString(24));
    }
  }

  /** Calls a function that returns an object through its last parameter but one. */
  static MemorySegment make(MethodHandle function, Object... arguments) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment out = arena.allocate(ADDRESS);
      Object[] all = Arrays.copyOf(arguments, arguments.length + 1);
      all[arguments.length] = out;
      check(function, all);
      return out.get(ADDRESS, 0);
    }
  }

  static MemorySegment open(String path) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      return make(open, arena.allocateFrom(path), NULL);
    }
  }

  static MemorySegment find(MemorySegment file, String name) throws Throwable {
    try (Arena arena = Arena.ofConfined()) {
      return (MemorySegment) getTensor.invokeExact(file, arena.allocateFrom(name));
    }
  }

  static String text(float[] values) {
    var words = new StringBuilder();
    for (float value : values) words.append(' ').append(value == (long) value ? Long.toString((long) value) : Float.toString(value));
    return words.substring(1);
  }

  record Row(String name, int dtype, long[] shape, long bytes, long offset) {
    @Override
    public String toString() { return name + " " + dtype + Arrays.toString(shape) + bytes + " " + offset; }
  }

  /** Column k of a list: k counts the pointers that begin at byte 16. The segment ends with the list. */
  static MemorySegment column(MemorySegment list, int k, long bytes) { return list.get(ADDRESS, 16 + 8 * k).reinterpret(bytes); }

  static Row[] byColumns(MemorySegment file) throws Throwable {
    MemorySegment list = make(listTensors, file, 0).reinterpret(112);
    int n = (int) list.get(JAVA_LONG, 8);
    long[] ends = column(list, 1, 8L * (n + 1)).toArray(JAVA_LONG), dimEnds = column(list, 5, 8L * (n + 1)).toArray(JAVA_LONG);
    byte[] names = column(list, 0, ends[n]).toArray(JAVA_BYTE);
    int[] dtypes = column(list, 2, 4L * n).toArray(JAVA_INT);
    long[] dims = column(list, 4, 8 * dimEnds[n]).toArray(JAVA_LONG);
    long[] offsets = column(list, 6, 8L * n).toArray(JAVA_LONG), sizes = column(list, 7, 8L * n).toArray(JAVA_LONG);
    listFree.invokeExact(list);
    var rows = new Row[n];
    for (int i = 0; i < n; ++i) {
      var name = new String(names, (int) ends[i], (int) (ends[i + 1] - ends[i] - 1), StandardCharsets.UTF_8);
      rows[i] = new Row(name, dtypes[i], Arrays.copyOfRange(dims, (int) dimEnds[i], (int) dimEnds[i + 1]), sizes[i], offsets[i]);
    }
    return rows;
  }

  static Row[] byGetters(MemorySegment file) throws Throwable {
    var rows = new Row[(int) (long) count.invokeExact(file)];
    try (Arena arena = Arena.ofConfined()) {
      MemorySegment length = arena.allocate(JAVA_LONG);
      for (int i = 0; i < rows.length; ++i) {
        MemorySegment tensor = (MemorySegment) tensorAt.invokeExact(file, (long) i);
        MemorySegment name = (MemorySegment) tensorName.invokeExact(tensor, length);
        byte[] letters = name.reinterpret(length.get(JAVA_LONG, 0)).toArray(JAVA_BYTE);
        long dimensions = (long) rank.invokeExact(tensor);
        long[] dims = ((MemorySegment) shape.invokeExact(tensor)).reinterpret(8 * dimensions).toArray(JAVA_LONG);
        rows[i] = new Row(new String(letters, StandardCharsets.UTF_8), (int) dtype.invokeExact(tensor), dims,
                          (long) bytes.invokeExact(tensor), (long) offset.invokeExact(tensor));
      }
    }
    return rows;
  }

  static MemorySegment read(Arena arena, MemorySegment file, String name, long size) throws Throwable {
    MemorySegment memory = arena.allocate(size, 8);
    check(tensorRead, find(file, name), memory, size);
    return memory;
  }

  /** weight[1:3, ::-1] */
  static void readSlice(Arena arena, MemorySegment file) throws Throwable {
    MemorySegment weight = find(file, "weight"), size = arena.allocate(JAVA_LONG);
    MemorySegment begin = arena.allocateFrom(JAVA_LONG, 1, Long.MAX_VALUE), end = arena.allocateFrom(JAVA_LONG, 3, Long.MIN_VALUE);
    MemorySegment step = arena.allocateFrom(JAVA_LONG, 1, -1);
    check(tensorSlice, weight, begin, end, step, NULL, size, NULL);
    MemorySegment values = arena.allocate(size.get(JAVA_LONG, 0), 4);
    check(readSlice, weight, begin, end, step, values, values.byteSize());
    System.out.println("weight[1:3, ::-1]: " + text(values.toArray(JAVA_FLOAT)));
  }

  /** Reads whole tensors. The arena of the memory and of the callbacks must be open until the plan has run. */
  static void runPlan(Arena arena, MemorySegment file, int threads, Run run, String[] names, MemorySegment... memory) throws Throwable {
    MemorySegment plan = make(planNew, file), options = arena.allocate(56, 8);
    try {
      for (int i = 0; i < names.length; ++i)
        check(planAdd, plan, find(file, names[i]), NULL, NULL, NULL, memory[i], memory[i].byteSize());
      options.set(JAVA_INT, 0, 56);
      options.set(JAVA_INT, 8, threads);
      options.set(JAVA_LONG, 16, 1 << 16); // chunk_bytes
      options.set(ADDRESS, 40, run.progressFor(arena));
      check(planRun, plan, options);
    } finally {
      planFree.invokeExact(plan);
    }
  }

  static void readMany(Arena arena, MemorySegment file) throws Throwable {
    MemorySegment weight = arena.allocate(48, 4), bias = arena.allocate(12, 4);
    var run = new Run();
    runPlan(arena, file, 1, run, new String[] {"weight", "bias"}, weight, bias);
    float last = weight.getAtIndex(JAVA_FLOAT, 11);
    System.out.printf("plan: %d of %d bytes, the last weight is %s%n", run.done, run.total, text(new float[] {last}));
  }

  static void writeAndReadBack(Arena arena, MemorySegment file) throws Throwable {
    MemorySegment doubled = arena.allocateFrom(JAVA_FLOAT, 1, -2.5f, 4), index = arena.allocate(JAVA_LONG);
    MemorySegment writer = make(writerNew);
    try {
      check(writerCopyMetadata, writer, file);
      check(writerAddTensor, writer, NULL, 0L, find(file, "scale"));
      check(writerAdd, writer, arena.allocateFrom("doubled"), F32, 1L, arena.allocateFrom(JAVA_LONG, 3L), NULL, index);
      check(writerBegin, writer, arena.allocateFrom("written.safetensors"), NULL);
      check(writerPut, writer, index.get(JAVA_LONG, 0), 0L, doubled, doubled.byteSize());
      check(writerFinish, writer);
    } finally {
      writerFree.invokeExact(writer);
    }
    MemorySegment written = open("written.safetensors");
    System.out.println("written.safetensors, doubled: " + text(read(arena, written, "doubled", 12).toArray(JAVA_FLOAT)));
    free.invokeExact(written);
  }

  static void tour() throws Throwable {
    MemorySegment file = open("model.safetensors");
    try (Arena arena = Arena.ofConfined()) {
      Row[] rows = byColumns(file);
      var format = (MemorySegment) getMetadata.invokeExact(file, arena.allocateFrom("format"), NULL);
      System.out.printf("model.safetensors: %d tensors, format %s%n", rows.length, text(format));
      for (Row row : rows)
        System.out.printf("  %s %s %s %d bytes%n", row.name, text((MemorySegment) dtypeName.invokeExact(row.dtype)),
                          Arrays.toString(row.shape), row.bytes);
      System.out.println("bias: " + text(read(arena, file, "bias", 12).toArray(JAVA_FLOAT)));
      readSlice(arena, file);
      readMany(arena, file);
      MemorySegment scale = arena.allocate(8, 4);
      check(convert, BF16, read(arena, file, "scale", 4), F32, scale, 2L);
      System.out.println("scale as F32: " + text(scale.toArray(JAVA_FLOAT)));
      writeAndReadBack(arena, file);
      open("truncated.safetensors");
    } catch (RuntimeException problem) {
      System.out.println(problem.getMessage());
    }
    free.invokeExact(file);
  }

  static void timeListing(String path) throws Throwable {
    MemorySegment file = open(path);
    long start = System.nanoTime();
    Row[] getters = byGetters(file);
    long middle = System.nanoTime();
    Row[] columns = byColumns(file);
    long end = System.nanoTime();
    if (!Arrays.deepToString(getters).equals(Arrays.deepToString(columns))) throw new AssertionError("the lists differ");
    System.out.printf("getters %.1f ms, columns %.1f ms%n", (middle - start) / 1e6, (end - middle) / 1e6);
    free.invokeExact(file);
  }

  static String runOn(String path, int threads) throws Throwable {
    var run = new Run();
    run.content = Files.readAllBytes(Path.of(path));
    try (Arena arena = Arena.ofShared()) { // other threads write to its memory
      MemorySegment source = arena.allocate(40, 8);
      source.set(JAVA_INT, 0, 40);
      source.set(JAVA_LONG, 16, run.content.length);
      source.set(ADDRESS, 24, run.readAtFor(arena));
      MemorySegment file = make(openSource, source, NULL);
      MemorySegment values = arena.allocate((long) bytes.invokeExact(find(file, "data")));
      run.waits = threads > 1;
      runPlan(arena, file, threads, run, new String[] {"data"}, values);
      free.invokeExact(file);
      byte[] got = values.toArray(JAVA_BYTE);
      if (!Arrays.equals(got, Arrays.copyOfRange(run.content, run.content.length - got.length, run.content.length)))
        throw new AssertionError("other bytes were read");
    }
    return run.elsewhere.getCount() == 0 ? "other threads too" : "the calling thread";
  }

  public static void main(String[] arguments) throws Throwable {
    System.setOut(new PrintStream(System.out, true, StandardCharsets.UTF_8));
    if (arguments.length == 2 && arguments[0].equals("--list")) timeListing(arguments[1]);
    else if (arguments.length == 2 && arguments[0].equals("--threads"))
      for (int threads : new int[] {1, 4}) System.out.println("threads = " + threads + ": calls on " + runOn(arguments[1], threads));
    else tour();
  }
}
