//! Uses libsafetensors from Rust, bound by hand and without crates: see ../c/model.c for what it does.
//!
//! Rust 1.63, which Debian 12 has, is enough.
//! SPDX-License-Identifier: Apache-2.0
use std::ffi::{c_void, CStr, CString};
use std::os::raw::c_char;
use std::ptr::addr_of_mut;
use std::ptr::{null, null_mut};

#[repr(C)]
struct StError {
    struct_size: u32,
    status: i32,
    os_error: i32,
    reserved: u32,
    offset: u64,
    message: [u8; 232],
}

#[repr(C)]
struct ReadOptions {
    struct_size: u32,
    flags: u32,
    threads: u32,
    cache: i32,
    chunk_bytes: u64,
    gap_bytes: u64,
    ctx: *mut c_void,
    progress: Option<extern "C" fn(*mut c_void, u64, u64) -> i32>,
    parallel_for: *const c_void,
}

#[repr(C)]
struct TensorList {
    struct_size: u32,
    flags: u32,
    count: u64,
    names: *const u8,
    name_offsets: *const u64,
    dtypes: *const i32,
    ranks: *const u32,
    dims: *const u64,
    dim_offsets: *const u64,
    offsets: *const u64,
    sizes: *const u64,
    shards: *const u32,
    data: *const *const c_void,
    tensors: *const *const StTensor,
    reserved: *const c_void,
}

macro_rules! opaque { ($($name:ident)*) => { $(#[repr(C)] struct $name { _private: [u8; 0] })* } }
opaque!(StFile StTensor StPlan StWriter);

extern "C" {
    fn st_status_name(status: i32) -> *const c_char;
    fn st_dtype_name(dtype: i32) -> *const c_char;
    fn st_open(path: *const c_char, options: *const c_void, out: *mut *mut StFile, err: *mut StError) -> i32;
    fn st_free(file: *mut StFile);
    fn st_count_tensors(file: *const StFile) -> usize;
    fn st_get_tensor_at(file: *const StFile, i: usize) -> *const StTensor;
    fn st_get_tensor_n(file: *const StFile, name: *const u8, len: usize) -> *const StTensor;
    fn st_get_metadata_n(file: *const StFile, key: *const u8, len: usize, value_len: *mut usize) -> *const u8;
    fn st_tensor_name(tensor: *const StTensor, len: *mut usize) -> *const u8;
    fn st_tensor_dtype(tensor: *const StTensor) -> i32;
    fn st_tensor_rank(tensor: *const StTensor) -> usize;
    fn st_tensor_shape(tensor: *const StTensor) -> *const u64;
    fn st_tensor_bytes(tensor: *const StTensor) -> u64;
    fn st_tensor_offset(tensor: *const StTensor) -> u64;
    fn st_list_tensors(file: *const StFile, flags: u32, out: *mut *mut TensorList, err: *mut StError) -> i32;
    fn st_tensor_list_free(list: *mut TensorList);
    fn st_tensor_read(tensor: *const StTensor, dst: *mut c_void, size: usize, err: *mut StError) -> i32;
    fn st_tensor_slice(tensor: *const StTensor, begin: *const i64, end: *const i64, step: *const i64, shape: *mut u64,
                       bytes: *mut u64, contiguous: *mut *const c_void, err: *mut StError) -> i32;
    fn st_tensor_read_slice(tensor: *const StTensor, begin: *const i64, end: *const i64, step: *const i64,
                            dst: *mut c_void, size: usize, err: *mut StError) -> i32;
    fn st_plan_new(file: *const StFile, out: *mut *mut StPlan, err: *mut StError) -> i32;
    fn st_plan_add(plan: *mut StPlan, tensor: *const StTensor, begin: *const i64, end: *const i64, step: *const i64,
                   dst: *mut c_void, size: usize, err: *mut StError) -> i32;
    fn st_plan_run(plan: *mut StPlan, options: *const ReadOptions, err: *mut StError) -> i32;
    fn st_plan_free(plan: *mut StPlan);
    fn st_convert(from: i32, src: *const c_void, to: i32, dst: *mut c_void, n: usize, err: *mut StError) -> i32;
    fn st_writer_new(out: *mut *mut StWriter, err: *mut StError) -> i32;
    fn st_writer_copy_metadata(writer: *mut StWriter, file: *const StFile, err: *mut StError) -> i32;
    fn st_writer_add_tensor(writer: *mut StWriter, name: *const u8, len: usize, tensor: *const StTensor,
                            err: *mut StError) -> i32;
    fn st_writer_add_n(writer: *mut StWriter, name: *const u8, len: usize, dtype: i32, rank: usize, shape: *const u64,
                       data: *const c_void, index: *mut usize, err: *mut StError) -> i32;
    fn st_writer_begin(writer: *mut StWriter, path: *const c_char, options: *const c_void, err: *mut StError) -> i32;
    fn st_writer_put(writer: *const StWriter, index: usize, at: u64, data: *const c_void, n: usize,
                     err: *mut StError) -> i32;
    fn st_writer_finish(writer: *mut StWriter, err: *mut StError) -> i32;
    fn st_writer_free(writer: *mut StWriter);
}

const BF16: i32 = 11;
const F32: i32 = 12;

unsafe fn string(text: *const c_char) -> String { CStr::from_ptr(text).to_string_lossy().into_owned() }

/// Calls a function whose last parameter is an st_error.
fn check(call: impl FnOnce(*mut StError) -> i32) -> Result<(), String> {
    let mut error = StError { struct_size: std::mem::size_of::<StError>() as u32, status: 0, os_error: 0, reserved: 0,
                              offset: 0, message: [0; 232] };
    if call(&mut error) == 0 { return Ok(()); }
    // The library ends every message with a NUL.
    Err(unsafe { format!("{}: {}", string(st_status_name(error.status)), string(error.message.as_ptr().cast())) })
}

struct Model(*mut StFile);

/// Borrowed from a Model: the compiler lets none of them outlive it.
#[derive(Clone, Copy)]
struct Tensor<'a>(*const StTensor, std::marker::PhantomData<&'a Model>);

impl Drop for Model {
    fn drop(&mut self) { unsafe { st_free(self.0) } }
}

#[derive(PartialEq)]
struct Row { name: String, dtype: i32, shape: Vec<u64>, bytes: u64, offset: u64 }

impl Model {
    fn open(path: &str) -> Result<Model, String> {
        let (path, mut file) = (CString::new(path).unwrap(), null_mut());
        check(|e| unsafe { st_open(path.as_ptr(), null(), &mut file, e) })?;
        Ok(Model(file))
    }

    fn find(&self, name: &str) -> Tensor<'_> {
        let tensor = unsafe { st_get_tensor_n(self.0, name.as_ptr(), name.len()) };
        assert!(!tensor.is_null(), "no tensor {name}");
        Tensor(tensor, std::marker::PhantomData)
    }

    fn by_columns(&self) -> Result<Vec<Row>, String> {
        let mut list = null_mut();
        check(|e| unsafe { st_list_tensors(self.0, 0, &mut list, e) })?;
        unsafe {
            let l = &*list;
            let rows = (0..l.count as usize).map(|i| {
                let (from, to) = (*l.name_offsets.add(i) as usize, *l.name_offsets.add(i + 1) as usize - 1);
                let (first, last) = (*l.dim_offsets.add(i) as usize, *l.dim_offsets.add(i + 1) as usize);
                let name = std::slice::from_raw_parts(l.names.add(from), to - from);
                let shape = (first..last).map(|d| *l.dims.add(d)).collect();
                Row { name: String::from_utf8_lossy(name).into(), dtype: *l.dtypes.add(i), shape,
                      bytes: *l.sizes.add(i), offset: *l.offsets.add(i) }
            }).collect();
            st_tensor_list_free(list);
            Ok(rows)
        }
    }

    fn by_getters(&self) -> Vec<Row> {
        unsafe {
            (0..st_count_tensors(self.0)).map(|i| {
                let (tensor, mut len) = (st_get_tensor_at(self.0, i), 0);
                let name = st_tensor_name(tensor, &mut len);
                let dims = st_tensor_shape(tensor);
                Row { name: String::from_utf8_lossy(std::slice::from_raw_parts(name, len)).into(),
                      dtype: st_tensor_dtype(tensor), shape: (0..st_tensor_rank(tensor)).map(|d| *dims.add(d)).collect(),
                      bytes: st_tensor_bytes(tensor), offset: st_tensor_offset(tensor) }
            }).collect()
        }
    }
}

impl Tensor<'_> {
    fn read<T: Copy + Default>(&self, count: usize) -> Result<Vec<T>, String> {
        let mut values = vec![T::default(); count];
        check(|e| unsafe { st_tensor_read(self.0, values.as_mut_ptr().cast(), std::mem::size_of_val(&values[..]), e) })?;
        Ok(values)
    }
}

fn text(values: &[f32]) -> String { values.iter().map(f32::to_string).collect::<Vec<_>>().join(" ") }

/// weight[1:3, ::-1]
fn read_slice(model: &Model) -> Result<(), String> {
    let (weight, mut bytes) = (model.find("weight").0, 0u64);
    let (begin, end, step) = ([1, i64::MAX], [3, i64::MIN], [1i64, -1]);
    let (b, n, s) = (begin.as_ptr(), end.as_ptr(), step.as_ptr());
    check(|e| unsafe { st_tensor_slice(weight, b, n, s, null_mut(), &mut bytes, null_mut(), e) })?;
    let mut values = vec![0f32; bytes as usize / 4];
    check(|e| unsafe { st_tensor_read_slice(weight, b, n, s, values.as_mut_ptr().cast(), bytes as usize, e) })?;
    println!("weight[1:3, ::-1]: {}", text(&values));
    Ok(())
}

extern "C" fn progress(ctx: *mut c_void, done: u64, total: u64) -> i32 {
    unsafe { *ctx.cast::<(u64, u64)>() = (done, total) }; // a panic here would abort the process
    0
}

fn read_many(model: &Model) -> Result<(), String> {
    // The plan keeps the addresses: neither array moves, grows or is dropped before it has run.
    let (mut weight, mut bias, mut last, mut plan) = ([0f32; 12], [0f32; 3], (0u64, 0u64), null_mut());
    check(|e| unsafe { st_plan_new(model.0, &mut plan, e) })?;
    let options = ReadOptions { struct_size: std::mem::size_of::<ReadOptions>() as u32, flags: 0, threads: 1, cache: 0,
                                chunk_bytes: 0, gap_bytes: 0, ctx: addr_of_mut!(last).cast(), progress: Some(progress),
                                parallel_for: null() };
    let done = unsafe {
        let whole = null();
        check(|e| st_plan_add(plan, model.find("weight").0, whole, whole, whole, addr_of_mut!(weight).cast(), 48, e))
            .and_then(|_| check(|e| st_plan_add(plan, model.find("bias").0, whole, whole, whole, addr_of_mut!(bias).cast(), 12, e)))
            .and_then(|_| check(|e| st_plan_run(plan, &options, e)))
    };
    unsafe { st_plan_free(plan) };
    done?;
    println!("plan: {} of {} bytes, the last weight is {}", last.0, last.1, weight[11]);
    Ok(())
}

fn write_and_read_back(model: &Model) -> Result<(), String> {
    let (doubled, shape, name, path) = ([1f32, -2.5, 4.0], [3u64], "doubled", CString::new("written.safetensors").unwrap());
    let (mut writer, mut index) = (null_mut(), 0);
    check(|e| unsafe { st_writer_new(&mut writer, e) })?;
    let written = (|| unsafe {
        check(|e| st_writer_copy_metadata(writer, model.0, e))?;
        check(|e| st_writer_add_tensor(writer, null(), 0, model.find("scale").0, e))?;
        check(|e| st_writer_add_n(writer, name.as_ptr(), name.len(), F32, 1, shape.as_ptr(), null(), &mut index, e))?;
        check(|e| st_writer_begin(writer, path.as_ptr(), null(), e))?;
        check(|e| st_writer_put(writer, index, 0, doubled.as_ptr().cast(), 12, e))?;
        check(|e| st_writer_finish(writer, e))
    })();
    unsafe { st_writer_free(writer) };
    written?;
    let values = Model::open("written.safetensors")?.find("doubled").read::<f32>(3)?;
    println!("written.safetensors, doubled: {}", text(&values));
    Ok(())
}

fn tour() -> Result<(), String> {
    let model = Model::open("model.safetensors")?;
    let rows = model.by_columns()?;
    let mut len = 0;
    let format = unsafe {
        let value = st_get_metadata_n(model.0, "format".as_ptr(), 6, &mut len);
        String::from_utf8_lossy(std::slice::from_raw_parts(value, len)).into_owned()
    };
    println!("model.safetensors: {} tensors, format {format}", rows.len());
    for row in &rows {
        println!("  {} {} {:?} {} bytes", row.name, unsafe { string(st_dtype_name(row.dtype)) }, row.shape, row.bytes);
    }
    println!("bias: {}", text(&model.find("bias").read(3)?));
    read_slice(&model)?;
    read_many(&model)?;
    let (halves, mut scale) = (model.find("scale").read::<u16>(2)?, [0f32; 2]);
    check(|e| unsafe { st_convert(BF16, halves.as_ptr().cast(), F32, scale.as_mut_ptr().cast(), 2, e) })?;
    println!("scale as F32: {}", text(&scale));
    write_and_read_back(&model)?;
    if let Err(message) = Model::open("truncated.safetensors") { println!("{message}") }
    Ok(())
}

fn time_listing(path: &str) -> Result<(), String> {
    let model = Model::open(path)?;
    let start = std::time::Instant::now();
    let getters = model.by_getters();
    let middle = std::time::Instant::now();
    let columns = model.by_columns()?;
    let end = middle.elapsed();
    assert!(getters == columns);
    println!("getters {:.1} ms, columns {:.1} ms", (middle - start).as_secs_f64() * 1e3, end.as_secs_f64() * 1e3);
    Ok(())
}

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() == 3 && arguments[1] == "--list" { time_listing(&arguments[2]) } else { tour() }
}
