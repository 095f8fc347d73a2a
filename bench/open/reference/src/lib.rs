//! What bench_open and bench_columns compare with, behind C functions, so that all loaders alternate in one process.
//!
//! Each is called as its users call it: open, map, parse, ask by name. Only a pointer crosses the boundary, so that
//! nothing is measured that a Rust program would not do. A name is asked of the metadata, which costs the crates less
//! than asking for a view. `panic = "abort"` in Cargo.toml: nothing unwinds into C.
//! SPDX-License-Identifier: Apache-2.0

use std::ffi::{c_char, c_void, CStr, OsStr};
use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use memmap2::{Mmap, MmapOptions};
use safetensors::slice::TensorIndexer;
use safetensors::tensor::TensorView;

/// A file that is open: the table, which borrows nothing, and the mapping that its user would take data from.
pub struct Opened<Table> {
    table: Table,
    _map: Mmap,
}

unsafe fn open<Table>(
    path: *const c_char,
    read: impl Fn(&[u8]) -> Option<Table>,
) -> *mut Opened<Table> {
    let path = OsStr::from_bytes(CStr::from_ptr(path).to_bytes());
    let map = File::open(path).and_then(|file| MmapOptions::new().map(&file));
    let opened = map.ok().and_then(|map| {
        Some(Opened {
            table: read(&map)?,
            _map: map,
        })
    });
    opened.map_or(ptr::null_mut(), |opened| Box::into_raw(Box::new(opened)))
}

unsafe fn text<'a>(name: *const c_char, len: usize) -> &'a str {
    std::str::from_utf8_unchecked(std::slice::from_raw_parts(name.cast(), len))
}

fn address<T>(item: Option<&T>) -> *const c_void {
    item.map_or(ptr::null(), |item| ptr::from_ref(item).cast())
}

type Safetensors = Opened<safetensors::tensor::Metadata>;
type Bintensors = Opened<bintensors::tensor::Metadata>;

/// Null where the file does not open or is refused.
///
/// # Safety
/// `path` is a C string.
#[no_mangle]
pub unsafe extern "C" fn safetensors_crate_open(path: *const c_char) -> *mut Safetensors {
    open(path, |bytes| {
        Some(safetensors::SafeTensors::read_metadata(bytes).ok()?.1)
    })
}

/// # Safety
/// `file` is open; `name` has `len` bytes of UTF-8.
#[no_mangle]
pub unsafe extern "C" fn safetensors_crate_find(
    file: *const Safetensors,
    name: *const c_char,
    len: usize,
) -> *const c_void {
    address((*file).table.info(text(name, len)))
}

/// # Safety
/// `file` is open, and is not used again.
#[no_mangle]
pub unsafe extern "C" fn safetensors_crate_free(file: *mut Safetensors) {
    drop(Box::from_raw(file));
}

/// Copies the columns [begin, end) of the matrix, and returns the bytes; 0 if there is none of that name.
///
/// # Safety
/// `file` is open; `name` has `len` bytes of UTF-8; `dst` has room.
#[no_mangle]
pub unsafe extern "C" fn safetensors_crate_columns(
    file: *const Safetensors,
    name: *const c_char,
    len: usize,
    begin: usize,
    end: usize,
    dst: *mut u8,
) -> usize {
    let map = &(*file)._map;
    let Some(info) = (*file).table.info(text(name, len)) else {
        return 0;
    };
    let header = u64::from_le_bytes(map[..8].try_into().unwrap()) as usize;
    let data = &map[8 + header..][info.data_offsets.0..info.data_offsets.1];
    let view = TensorView::new(info.dtype, info.shape.clone(), data).unwrap();
    let columns = [
        TensorIndexer::Narrow(Bound::Unbounded, Bound::Unbounded, NonZeroUsize::MIN),
        TensorIndexer::Narrow(
            Bound::Included(begin),
            Bound::Excluded(end),
            NonZeroUsize::MIN,
        ),
    ];
    let mut copied = 0;
    for run in view.sliced_data(&columns).unwrap() {
        ptr::copy_nonoverlapping(run.as_ptr(), dst.add(copied), run.len());
        copied += run.len();
    }
    copied
}

/// Null where the file does not open or is refused.
///
/// # Safety
/// `path` is a C string.
#[no_mangle]
pub unsafe extern "C" fn bintensors_crate_open(path: *const c_char) -> *mut Bintensors {
    open(path, |bytes| {
        Some(bintensors::BinTensors::read_metadata(bytes).ok()?.1)
    })
}

/// # Safety
/// `file` is open; `name` has `len` bytes of UTF-8.
#[no_mangle]
pub unsafe extern "C" fn bintensors_crate_find(
    file: *const Bintensors,
    name: *const c_char,
    len: usize,
) -> *const c_void {
    address((*file).table.info(text(name, len)))
}

/// # Safety
/// `file` is open, and is not used again.
#[no_mangle]
pub unsafe extern "C" fn bintensors_crate_free(file: *mut Bintensors) {
    drop(Box::from_raw(file));
}
