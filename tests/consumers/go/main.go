// Uses libsafetensors through cgo: see ../c/model.c for what it does.
//
// SPDX-License-Identifier: Apache-2.0
package main

/*
#include <safetensors/safetensors.h>
#include <stdlib.h>

int32_t goProgress(void *ctx, uint64_t done, uint64_t total);
int32_t goReadAt(void *ctx, uint64_t offset, void *dst, size_t n);

// A struct of Go must not hold a Go pointer when C gets it, so that C makes the options.
static st_status run_plan(st_plan *plan, uintptr_t handle, uint32_t threads, st_error *error) {
  st_read_options options = ST_INIT(st_read_options);
  options.threads = threads;
  options.chunk_bytes = 1 << 16;
  options.ctx = (void *)handle;
  options.progress = goProgress;
  return st_plan_run(plan, &options, error);
}

static st_status open_source(uintptr_t handle, uint64_t size, st_file **out, st_error *error) {
  st_source source = ST_INIT(st_source);
  source.ctx = (void *)handle;
  source.size = size;
  source.read_at = goReadAt;
  return st_open_source(&source, NULL, out, error);
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/cgo"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

type row struct {
	name          string
	dtype         C.st_dtype
	shape         []uint64
	bytes, offset uint64
}

func newError() *C.st_error { return &C.st_error{struct_size: C.uint32_t(unsafe.Sizeof(C.st_error{}))} }

func failure(status C.st_status, e *C.st_error) error {
	if status == C.ST_OK {
		return nil
	}
	return fmt.Errorf("%s: %s", C.GoString(C.st_status_name(status)), C.GoString(&e.message[0]))
}

func check(status C.st_status, e *C.st_error) {
	if err := failure(status, e); err != nil {
		panic(err)
	}
}

func open(path string) (*C.st_file, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	var file *C.st_file
	e := newError()
	status := C.st_open(text, nil, &file, e)
	return file, failure(status, e)
}

func mustOpen(path string) *C.st_file {
	file, err := open(path)
	if err != nil {
		panic(err)
	}
	return file
}

// find uses the function with a length, which takes the bytes of a Go string as they are.
func find(file *C.st_file, name string) *C.st_tensor {
	return C.st_get_tensor_n(file, (*C.char)(unsafe.Pointer(unsafe.StringData(name))), C.size_t(len(name)))
}

func address[T any](values []T) (unsafe.Pointer, C.size_t) {
	return unsafe.Pointer(&values[0]), C.size_t(len(values)) * C.size_t(unsafe.Sizeof(values[0]))
}

func text[T any](values []T) string { return strings.Trim(fmt.Sprint(values), "[]") }

// byColumns copies all that it returns, so that nothing refers to the list that it frees.
func byColumns(file *C.st_file) []row {
	var list *C.st_tensor_list
	e := newError()
	check(C.st_list_tensors(file, 0, &list, e), e)
	defer C.st_tensor_list_free(list)
	n := int(list.count)
	ends := unsafe.Slice(list.name_offsets, n+1)
	names := string(unsafe.Slice((*byte)(unsafe.Pointer(list.names)), ends[n]))
	dimEnds := unsafe.Slice(list.dim_offsets, n+1)
	dims := append([]uint64{}, unsafe.Slice((*uint64)(unsafe.Pointer(list.dims)), dimEnds[n])...)
	dtypes, sizes, offsets := unsafe.Slice(list.dtypes, n), unsafe.Slice(list.sizes, n), unsafe.Slice(list.offsets, n)
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{names[ends[i] : ends[i+1]-1], dtypes[i], dims[dimEnds[i]:dimEnds[i+1]], uint64(sizes[i]), uint64(offsets[i])}
	}
	return rows
}

func byGetters(file *C.st_file) []row {
	rows := make([]row, C.st_count_tensors(file))
	for i := range rows {
		tensor := C.st_get_tensor_at(file, C.size_t(i))
		var length C.size_t
		name := C.st_tensor_name(tensor, &length)
		shape := unsafe.Slice((*uint64)(unsafe.Pointer(C.st_tensor_shape(tensor))), C.st_tensor_rank(tensor))
		rows[i] = row{C.GoStringN(name, C.int(length)), C.st_tensor_dtype(tensor), append([]uint64{}, shape...),
			uint64(C.st_tensor_bytes(tensor)), uint64(C.st_tensor_offset(tensor))}
	}
	return rows
}

func read[T any](file *C.st_file, name string, n int) []T {
	values, e := make([]T, n), newError()
	at, size := address(values)
	check(C.st_tensor_read(find(file, name), at, size, e), e)
	return values
}

// weight[1:3, ::-1]
func readSlice(file *C.st_file) {
	weight, e := find(file, "weight"), newError()
	begin, end, step := [2]C.int64_t{1, C.INT64_MAX}, [2]C.int64_t{3, C.INT64_MIN}, [2]C.int64_t{1, -1}
	var bytes C.uint64_t
	check(C.st_tensor_slice(weight, &begin[0], &end[0], &step[0], nil, &bytes, nil, e), e)
	values := make([]float32, bytes/4)
	at, size := address(values)
	check(C.st_tensor_read_slice(weight, &begin[0], &end[0], &step[0], at, size, e), e)
	fmt.Println("weight[1:3, ::-1]:", text(values))
}

type progress struct{ done, total uint64 }

//export goProgress
func goProgress(ctx unsafe.Pointer, done, total C.uint64_t) C.int32_t {
	*cgo.Handle(uintptr(ctx)).Value().(*progress) = progress{uint64(done), uint64(total)}
	return 0
}

func readMany(file *C.st_file) {
	weight, bias, e := make([]float32, 12), make([]float32, 3), newError()
	var pinner runtime.Pinner // the plan keeps the addresses after st_plan_add has returned
	defer pinner.Unpin()
	pinner.Pin(&weight[0])
	pinner.Pin(&bias[0])
	var plan *C.st_plan
	check(C.st_plan_new(file, &plan, e), e)
	defer C.st_plan_free(plan)
	for name, values := range map[string][]float32{"weight": weight, "bias": bias} {
		at, size := address(values)
		check(C.st_plan_add(plan, find(file, name), nil, nil, nil, at, size, e), e)
	}
	var last progress
	handle := cgo.NewHandle(&last)
	defer handle.Delete()
	check(C.run_plan(plan, C.uintptr_t(handle), 1, e), e)
	fmt.Printf("plan: %d of %d bytes, the last weight is %g\n", last.done, last.total, weight[11])
}

func convert(file *C.st_file) {
	halves, values, e := read[uint16](file, "scale", 2), make([]float32, 2), newError()
	check(C.st_convert(C.ST_BF16, unsafe.Pointer(&halves[0]), C.ST_F32, unsafe.Pointer(&values[0]), 2, e), e)
	fmt.Println("scale as F32:", text(values))
}

func writeAndReadBack(file *C.st_file) {
	doubled, shape, e := []float32{1, -2.5, 4}, C.uint64_t(3), newError()
	name, path := C.CString("doubled"), C.CString("written.safetensors")
	defer C.free(unsafe.Pointer(name))
	defer C.free(unsafe.Pointer(path))
	var writer *C.st_writer
	var index C.size_t
	check(C.st_writer_new(&writer, e), e)
	defer C.st_writer_free(writer)
	check(C.st_writer_copy_metadata(writer, file, e), e)
	check(C.st_writer_add_tensor(writer, nil, 0, find(file, "scale"), e), e)
	check(C.st_writer_add(writer, name, C.ST_F32, 1, &shape, nil, &index, e), e)
	check(C.st_writer_begin(writer, path, nil, e), e)
	at, size := address(doubled)
	check(C.st_writer_put(writer, index, 0, at, size, e), e)
	check(C.st_writer_finish(writer, e), e)

	written := mustOpen("written.safetensors")
	defer C.st_free(written)
	fmt.Println("written.safetensors, doubled:", text(read[float32](written, "doubled", 3)))
}

func tour() {
	file := mustOpen("model.safetensors")
	defer C.st_free(file)
	rows := byColumns(file)
	key := C.CString("format")
	defer C.free(unsafe.Pointer(key))
	fmt.Printf("model.safetensors: %d tensors, format %s\n", len(rows), C.GoString(C.st_get_metadata(file, key, nil)))
	for _, r := range rows {
		shape := strings.ReplaceAll(fmt.Sprint(r.shape), " ", ", ")
		fmt.Printf("  %s %s %s %d bytes\n", r.name, C.GoString(C.st_dtype_name(r.dtype)), shape, r.bytes)
	}
	fmt.Println("bias:", text(read[float32](file, "bias", 3)))
	readSlice(file)
	readMany(file)
	convert(file)
	writeAndReadBack(file)
	_, err := open("truncated.safetensors")
	fmt.Println(err)
}

func timeListing(path string) {
	file := mustOpen(path)
	defer C.st_free(file)
	start := time.Now()
	getters := byGetters(file)
	middle := time.Now()
	columns := byColumns(file)
	end := time.Now()
	if !reflect.DeepEqual(getters, columns) {
		panic("the lists differ")
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	fmt.Printf("getters %.1f ms, columns %.1f ms\n", ms(middle.Sub(start)), ms(end.Sub(middle)))
}

// source is read by goReadAt, on whichever thread the library calls it.
type source struct {
	progress
	content   []byte
	caller    int
	waits     bool // the calling thread waits for a call on another
	strangers atomic.Int32
	once      sync.Once
	elsewhere chan struct{}
}

//export goReadAt
func goReadAt(ctx unsafe.Pointer, offset C.uint64_t, dst unsafe.Pointer, n C.size_t) C.int32_t {
	s := cgo.Handle(uintptr(ctx)).Value().(*source)
	copy(unsafe.Slice((*byte)(dst), n), s.content[offset:])
	if syscall.Gettid() != s.caller {
		s.strangers.Add(1)
		s.once.Do(func() { close(s.elsewhere) })
	} else if s.waits {
		<-s.elsewhere
	}
	return 0
}

func runOn(path string, threads uint32) string {
	runtime.LockOSThread() // so that the thread has one number
	defer runtime.UnlockOSThread()
	content, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	s := &source{content: content, caller: syscall.Gettid(), elsewhere: make(chan struct{})}
	handle, last := cgo.NewHandle(s), cgo.NewHandle(&s.progress)
	defer handle.Delete()
	defer last.Delete()
	var file *C.st_file
	var plan *C.st_plan
	e := newError()
	check(C.open_source(C.uintptr_t(handle), C.uint64_t(len(content)), &file, e), e)
	defer C.st_free(file)
	check(C.st_plan_new(file, &plan, e), e)
	defer C.st_plan_free(plan)
	values := make([]byte, C.st_tensor_bytes(find(file, "data")))
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&values[0])
	at, size := address(values)
	check(C.st_plan_add(plan, find(file, "data"), nil, nil, nil, at, size, e), e)
	s.waits = threads > 1
	check(C.run_plan(plan, C.uintptr_t(last), C.uint32_t(threads), e), e)
	if !bytes.HasSuffix(content, values) || s.done != uint64(size) {
		panic("other bytes were read")
	}
	if s.strangers.Load() > 0 {
		return "other threads too"
	}
	return "the calling thread"
}

func main() {
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
