// Uses libsafetensors through purego, which loads it without cgo and so without a compiler of C: see ../c/model.c for what
// it does.
//
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

type (
	file   uintptr
	tensor uintptr
	plan   uintptr
	writer uintptr
)

type stError struct {
	structSize, status, osError, reserved uint32
	offset                                uint64
	message                               [232]byte
}

type readOptions struct {
	structSize, flags, threads, cache uint32
	chunkBytes, gapBytes              uint64
	ctx, progress, parallelFor        uintptr
}

type source struct {
	structSize, flags uint32
	ctx               uintptr
	size              uint64
	readAt, close     uintptr
}

type tensorList struct {
	structSize, flags uint32
	count             uint64
	names             *byte
	nameOffsets       *uint64
	dtypes            *int32
	ranks             *uint32
	dims, dimOffsets  *uint64
	offsets, sizes    *uint64
	shards            *uint32
	data, tensors     uintptr
	reserved          uintptr
}

const bf16, f32 = 11, 12

var st struct {
	statusName, dtypeName func(int32) string
	open                  func(path string, options uintptr, out *file, e *stError) int32
	openSource            func(source *source, options uintptr, out *file, e *stError) int32
	free                  func(file)
	count                 func(file) uintptr
	at                    func(file, uintptr) tensor
	get                   func(file, string) tensor
	metadata              func(file, string, uintptr) string
	name                  func(tensor, *uintptr) *byte
	dtype                 func(tensor) int32
	rank                  func(tensor) uintptr
	shape                 func(tensor) *uint64
	bytes, offset         func(tensor) uint64
	list                  func(file, uint32, **tensorList, *stError) int32
	listFree              func(*tensorList)
	read                  func(t tensor, dst unsafe.Pointer, size uintptr, e *stError) int32
	slice                 func(t tensor, begin, end, step *int64, shape uintptr, bytes *uint64, contiguous uintptr, e *stError) int32
	readSlice             func(t tensor, begin, end, step *int64, dst unsafe.Pointer, size uintptr, e *stError) int32
	planNew               func(file, *plan, *stError) int32
	planAdd               func(p plan, t tensor, begin, end, step uintptr, dst unsafe.Pointer, size uintptr, e *stError) int32
	planRun               func(plan, *readOptions, *stError) int32
	planFree              func(plan)
	convert               func(from int32, src unsafe.Pointer, to int32, dst unsafe.Pointer, n uintptr, e *stError) int32
	writerNew             func(*writer, *stError) int32
	writerCopyMetadata    func(writer, file, *stError) int32
	writerAddTensor       func(w writer, name uintptr, length uintptr, t tensor, e *stError) int32
	writerAdd             func(w writer, name string, dtype int32, rank uintptr, shape *uint64, data uintptr, index *uintptr, e *stError) int32
	writerBegin           func(w writer, path string, options uintptr, e *stError) int32
	writerPut             func(w writer, index uintptr, at uint64, data unsafe.Pointer, n uintptr, e *stError) int32
	writerFinish          func(writer, *stError) int32
	writerFree            func(writer)
}

func load() {
	path := os.Getenv("SAFETENSORS_LIBRARY")
	if path == "" {
		path = "libsafetensors.so.0"
	}
	library, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		panic(err)
	}
	for name, function := range map[string]any{
		"st_status_name": &st.statusName, "st_dtype_name": &st.dtypeName, "st_open": &st.open,
		"st_open_source": &st.openSource, "st_free": &st.free, "st_count_tensors": &st.count, "st_get_tensor_at": &st.at,
		"st_get_tensor": &st.get, "st_get_metadata": &st.metadata, "st_tensor_name": &st.name, "st_tensor_dtype": &st.dtype,
		"st_tensor_rank": &st.rank, "st_tensor_shape": &st.shape, "st_tensor_bytes": &st.bytes,
		"st_tensor_offset": &st.offset, "st_list_tensors": &st.list, "st_tensor_list_free": &st.listFree,
		"st_tensor_read": &st.read, "st_tensor_slice": &st.slice, "st_tensor_read_slice": &st.readSlice,
		"st_plan_new": &st.planNew, "st_plan_add": &st.planAdd, "st_plan_run": &st.planRun, "st_plan_free": &st.planFree,
		"st_convert": &st.convert, "st_writer_new": &st.writerNew, "st_writer_copy_metadata": &st.writerCopyMetadata,
		"st_writer_add_tensor": &st.writerAddTensor, "st_writer_add": &st.writerAdd, "st_writer_begin": &st.writerBegin,
		"st_writer_put": &st.writerPut, "st_writer_finish": &st.writerFinish, "st_writer_free": &st.writerFree,
	} {
		purego.RegisterLibFunc(function, library, name)
	}
}

type row struct {
	name          string
	dtype         int32
	shape         []uint64
	bytes, offset uint64
}

func newError() *stError { return &stError{structSize: uint32(unsafe.Sizeof(stError{}))} }

func failure(status int32, e *stError) error {
	if status == 0 {
		return nil
	}
	message, _, _ := bytes.Cut(e.message[:], []byte{0})
	return errors.New(st.statusName(status) + ": " + string(message))
}

func check(status int32, e *stError) {
	if err := failure(status, e); err != nil {
		panic(err)
	}
}

func open(path string) (file, error) {
	var f file
	e := newError()
	status := st.open(path, 0, &f, e)
	return f, failure(status, e)
}

func mustOpen(path string) file {
	f, err := open(path)
	if err != nil {
		panic(err)
	}
	return f
}

func address[T any](values []T) (unsafe.Pointer, uintptr) {
	return unsafe.Pointer(&values[0]), uintptr(len(values)) * unsafe.Sizeof(values[0])
}

func text[T any](values []T) string { return strings.Trim(fmt.Sprint(values), "[]") }

// byColumns copies all that it returns, so that nothing refers to the list that it frees.
func byColumns(f file) []row {
	var list *tensorList
	e := newError()
	check(st.list(f, 0, &list, e), e)
	defer st.listFree(list)
	n := int(list.count)
	ends, dimEnds := unsafe.Slice(list.nameOffsets, n+1), unsafe.Slice(list.dimOffsets, n+1)
	names := string(unsafe.Slice(list.names, ends[n]))
	dims := append([]uint64{}, unsafe.Slice(list.dims, dimEnds[n])...)
	dtypes, sizes, offsets := unsafe.Slice(list.dtypes, n), unsafe.Slice(list.sizes, n), unsafe.Slice(list.offsets, n)
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{names[ends[i] : ends[i+1]-1], dtypes[i], dims[dimEnds[i]:dimEnds[i+1]], sizes[i], offsets[i]}
	}
	return rows
}

func byGetters(f file) []row {
	rows := make([]row, st.count(f))
	for i := range rows {
		t := st.at(f, uintptr(i))
		var length uintptr
		name := st.name(t, &length)
		shape := unsafe.Slice(st.shape(t), st.rank(t))
		rows[i] = row{string(unsafe.Slice(name, length)), st.dtype(t), append([]uint64{}, shape...), st.bytes(t), st.offset(t)}
	}
	return rows
}

func read[T any](f file, name string, n int) []T {
	values, e := make([]T, n), newError()
	at, size := address(values)
	check(st.read(st.get(f, name), at, size, e), e)
	return values
}

// weight[1:3, ::-1]
func readSlice(f file) {
	weight, e := st.get(f, "weight"), newError()
	begin, end, step := [2]int64{1, math.MaxInt64}, [2]int64{3, math.MinInt64}, [2]int64{1, -1}
	var bytes uint64
	check(st.slice(weight, &begin[0], &end[0], &step[0], 0, &bytes, 0, e), e)
	values := make([]float32, bytes/4)
	at, size := address(values)
	check(st.readSlice(weight, &begin[0], &end[0], &step[0], at, size, e), e)
	fmt.Println("weight[1:3, ::-1]:", text(values))
}

// A callback of purego is never freed, so there is one of each kind, which finds its state by a number in ctx.
var (
	states   sync.Map
	progress = purego.NewCallback(func(ctx uintptr, done, total uint64) uintptr {
		state, _ := states.Load(ctx)
		state.(*run).done, state.(*run).total = done, total
		return 0
	})
	readAt = purego.NewCallback(func(ctx uintptr, offset uint64, dst unsafe.Pointer, n uintptr) uintptr {
		state, _ := states.Load(ctx)
		state.(*run).readAt(offset, unsafe.Slice((*byte)(dst), n))
		return 0
	})
)

// run is what the callbacks of one run know.
type run struct {
	done, total uint64
	content     []byte
	caller      int
	waits       bool // the calling thread waits for a call on another
	strangers   atomic.Int32
	once        sync.Once
	elsewhere   chan struct{}
}

func (r *run) readAt(offset uint64, dst []byte) {
	copy(dst, r.content[offset:])
	if syscall.Gettid() != r.caller {
		r.strangers.Add(1)
		r.once.Do(func() { close(r.elsewhere) })
	} else if r.waits {
		<-r.elsewhere
	}
}

// runPlan reads whole tensors, whose destinations stay pinned until the plan has run.
func runPlan(f file, names []string, destinations []unsafe.Pointer, sizes []uintptr, options readOptions) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var p plan
	e := newError()
	check(st.planNew(f, &p, e), e)
	defer st.planFree(p)
	for i, name := range names {
		pinner.Pin(destinations[i])
		check(st.planAdd(p, st.get(f, name), 0, 0, 0, destinations[i], sizes[i], e), e)
	}
	options.structSize, options.progress = uint32(unsafe.Sizeof(options)), progress
	check(st.planRun(p, &options, e), e)
}

func readMany(f file) {
	weight, bias, state := make([]float32, 12), make([]float32, 3), &run{}
	states.Store(uintptr(1), state)
	defer states.Delete(uintptr(1))
	atWeight, weightSize := address(weight)
	atBias, biasSize := address(bias)
	runPlan(f, []string{"weight", "bias"}, []unsafe.Pointer{atWeight, atBias}, []uintptr{weightSize, biasSize},
		readOptions{threads: 1, ctx: 1})
	fmt.Printf("plan: %d of %d bytes, the last weight is %g\n", state.done, state.total, weight[11])
}

func convert(f file) {
	halves, values, e := read[uint16](f, "scale", 2), make([]float32, 2), newError()
	check(st.convert(bf16, unsafe.Pointer(&halves[0]), f32, unsafe.Pointer(&values[0]), 2, e), e)
	fmt.Println("scale as F32:", text(values))
}

func writeAndReadBack(f file) {
	doubled, shape, e := []float32{1, -2.5, 4}, uint64(3), newError()
	var w writer
	var index uintptr
	check(st.writerNew(&w, e), e)
	defer st.writerFree(w)
	check(st.writerCopyMetadata(w, f, e), e)
	check(st.writerAddTensor(w, 0, 0, st.get(f, "scale"), e), e)
	check(st.writerAdd(w, "doubled", f32, 1, &shape, 0, &index, e), e)
	check(st.writerBegin(w, "written.safetensors", 0, e), e)
	at, size := address(doubled)
	check(st.writerPut(w, index, 0, at, size, e), e)
	check(st.writerFinish(w, e), e)

	written := mustOpen("written.safetensors")
	defer st.free(written)
	fmt.Println("written.safetensors, doubled:", text(read[float32](written, "doubled", 3)))
}

func tour() {
	f := mustOpen("model.safetensors")
	defer st.free(f)
	rows := byColumns(f)
	fmt.Printf("model.safetensors: %d tensors, format %s\n", len(rows), st.metadata(f, "format", 0))
	for _, r := range rows {
		shape := strings.ReplaceAll(fmt.Sprint(r.shape), " ", ", ")
		fmt.Printf("  %s %s %s %d bytes\n", r.name, st.dtypeName(r.dtype), shape, r.bytes)
	}
	fmt.Println("bias:", text(read[float32](f, "bias", 3)))
	readSlice(f)
	readMany(f)
	convert(f)
	writeAndReadBack(f)
	_, err := open("truncated.safetensors")
	fmt.Println(err)
}

func timeListing(path string) {
	f := mustOpen(path)
	defer st.free(f)
	start := time.Now()
	getters := byGetters(f)
	middle := time.Now()
	columns := byColumns(f)
	end := time.Now()
	if !reflect.DeepEqual(getters, columns) {
		panic("the lists differ")
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	fmt.Printf("getters %.1f ms, columns %.1f ms\n", ms(middle.Sub(start)), ms(end.Sub(middle)))
}

func runOn(path string, threads uint32) string {
	runtime.LockOSThread() // so that the thread has one number
	defer runtime.UnlockOSThread()
	content, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	state := &run{content: content, caller: syscall.Gettid(), elsewhere: make(chan struct{})}
	states.Store(uintptr(2), state)
	defer states.Delete(uintptr(2))
	var f file
	e := newError()
	from := source{size: uint64(len(content)), ctx: 2, readAt: readAt}
	from.structSize = uint32(unsafe.Sizeof(from))
	check(st.openSource(&from, 0, &f, e), e)
	defer st.free(f)
	values := make([]byte, st.bytes(st.get(f, "data")))
	at, size := address(values)
	state.waits = threads > 1
	runPlan(f, []string{"data"}, []unsafe.Pointer{at}, []uintptr{size}, readOptions{threads: threads, chunkBytes: 1 << 16, ctx: 2})
	if !bytes.HasSuffix(content, values) || state.done != uint64(size) {
		panic("other bytes were read")
	}
	if state.strangers.Load() > 0 {
		return "other threads too"
	}
	return "the calling thread"
}

func main() {
	load()
	switch {
	case len(os.Args) == 3 && os.Args[1] == "--list":
		timeListing(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "--threads":
		fmt.Println("threads = 1: calls on", runOn(os.Args[2], 1))
		fmt.Println("threads = 4: calls on", runOn(os.Args[2], 4))
	default:
		tour()
	}
}
