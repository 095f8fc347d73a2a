//! The crate's `serialize_to_file` on tensors that lie in the caller's memory.
//!
//! The list of views is made once and outside of what is timed: a program that writes a checkpoint has its tensors in
//! such a list, and the call consumes only references to them.
//! SPDX-License-Identifier: Apache-2.0

use std::ffi::{c_char, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

use safetensors::tensor::TensorView;
use safetensors::Dtype;

type Tensors = Vec<(String, TensorView<'static>)>;

#[no_mangle]
pub extern "C" fn crate_tensors_new() -> *mut Tensors {
    Box::into_raw(Box::default())
}

/// One dimension of F32 elements.
///
/// # Safety
/// `name` is a C string; `data` has `bytes` bytes and stays until the list is freed.
#[no_mangle]
pub unsafe extern "C" fn crate_tensors_add(list: *mut Tensors, name: *const c_char, data: *const u8, bytes: usize) {
    let name = CStr::from_ptr(name).to_str().unwrap().to_owned();
    let view = TensorView::new(Dtype::F32, vec![bytes / 4], slice::from_raw_parts(data, bytes)).unwrap();
    (*list).push((name, view));
}

/// 0 on success.
///
/// # Safety
/// `list` comes from `crate_tensors_new`; `path` is a C string.
#[no_mangle]
pub unsafe extern "C" fn crate_serialize_to_file(list: *const Tensors, path: *const c_char) -> i32 {
    let path = Path::new(OsStr::from_bytes(CStr::from_ptr(path).to_bytes()));
    let tensors = (*list).iter().map(|(name, view)| (name, view));
    i32::from(safetensors::serialize_to_file(tensors, None, path).is_err())
}

/// # Safety
/// `list` comes from `crate_tensors_new` and is used no more.
#[no_mangle]
pub unsafe extern "C" fn crate_tensors_free(list: *mut Tensors) {
    drop(Box::from_raw(list));
}
