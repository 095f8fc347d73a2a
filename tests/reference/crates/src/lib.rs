//! The two originals of bintensors behind C functions: the crate as it is, and as it was before 0.1.
//!
//! Both have the same names, so one macro spells what is asked of either: write a table, digest it, say what a file
//! holds. Answers are bytes that the caller frees.
//! SPDX-License-Identifier: Apache-2.0

use std::collections::{HashMap, HashSet};
use std::panic::{catch_unwind, set_hook};
use std::slice;

#[derive(Default)]
pub struct Table {
    metadata: Option<HashMap<String, String>>,
    tensors: Vec<(String, u32, Vec<usize>, Vec<u8>)>,
}

const READ: u32 = 0;
const REFUSED: u32 = 1;
const PANICS: u32 = 2; // reads it, and panics when a tensor is asked for
const ALIASED: u32 = 3; // reads it, with a tensor of two names and another of none

unsafe fn text(bytes: *const u8, len: usize) -> String {
    String::from_utf8(slice::from_raw_parts(bytes, len).to_vec()).unwrap()
}

unsafe fn give(bytes: Vec<u8>, len: *mut usize) -> *mut u8 {
    *len = bytes.len();
    Box::into_raw(bytes.into_boxed_slice()).cast()
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend(format!("{}:", text.len()).bytes());
    out.extend(text.bytes());
    out.push(b' ');
}

macro_rules! original {
    ($name:ident, $digest:expr) => {
        mod $name {
            use super::*;
            use ::$name::tensor::{serialize, serialize_with_checksum, Dtype, Metadata, TensorView};
            use ::$name::BinTensors;

            const DTYPES: [Dtype; 15] = [
                Dtype::BOOL, Dtype::U8, Dtype::I8, Dtype::F8_E5M2, Dtype::F8_E4M3, Dtype::I16, Dtype::U16,
                Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::U32, Dtype::F32, Dtype::F64, Dtype::I64, Dtype::U64,
            ];

            fn views(table: &Table) -> Vec<(String, TensorView<'_>)> {
                let view = |t: &'_ (String, u32, Vec<usize>, Vec<u8>)| -> TensorView<'static> {
                    // The table outlives every use of a view.
                    let data: &'static [u8] = unsafe { slice::from_raw_parts(t.3.as_ptr(), t.3.len()) };
                    TensorView::new(DTYPES[t.1 as usize], t.2.clone(), data).unwrap()
                };
                table.tensors.iter().map(|t| (t.0.clone(), view(t))).collect()
            }

            pub fn write(table: &Table) -> Vec<u8> {
                serialize(views(table), &table.metadata).unwrap()
            }

            pub fn digest(table: &Table, sha256: bool) -> Vec<u8> {
                use sha1::Digest;
                if sha256 {
                    $digest(serialize_with_checksum(views(table), &table.metadata, sha2::Sha256::new()).unwrap())
                } else {
                    $digest(serialize_with_checksum(views(table), &table.metadata, sha1::Sha1::new()).unwrap())
                }
            }

            fn list(metadata: &Metadata) -> Vec<u8> {
                let mut out = Vec::new();
                for name in metadata.offset_keys() {
                    let info = metadata.info(&name).unwrap();
                    put(&mut out, &name);
                    let (begin, end) = info.data_offsets;
                    out.extend(format!("{:?} {:?} {begin}..{end}\n", info.dtype, info.shape).bytes());
                }
                if let Some(pairs) = metadata.metadata() {
                    let mut sorted: Vec<_> = pairs.iter().collect();
                    sorted.sort();
                    out.extend(b"\nmetadata\n");
                    for (key, value) in sorted {
                        put(&mut out, key);
                        put(&mut out, value);
                    }
                }
                out
            }

            pub fn read(bytes: &[u8]) -> (u32, Vec<u8>) {
                let Ok((_, metadata)) = BinTensors::read_metadata(bytes) else {
                    return (REFUSED, Vec::new());
                };
                catch_unwind(|| {
                    let tensors = metadata.tensors();
                    let different: HashSet<_> = tensors.values().map(|info| std::ptr::from_ref(*info)).collect();
                    if different.len() < tensors.len() {
                        return (ALIASED, Vec::new());
                    }
                    (READ, list(&metadata))
                })
                .unwrap_or((PANICS, Vec::new()))
            }
        }
    };
}

original!(current, |sealed: ::current::tensor::DigestBuffer| sealed.checksum);
original!(older, |sealed: (Vec<u8>, Vec<u8>)| sealed.0);

/// # Safety
/// As below: pointers are valid for the lengths beside them, text is UTF-8.
#[no_mangle]
pub unsafe extern "C" fn table_new(has_metadata: bool) -> *mut Table {
    set_hook(Box::new(|_| {}));
    let metadata = has_metadata.then(HashMap::new);
    Box::into_raw(Box::new(Table { metadata, ..Table::default() }))
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn table_pair(table: *mut Table, key: *const u8, key_len: usize, value: *const u8, len: usize) {
    let pairs = (*table).metadata.get_or_insert_default();
    pairs.insert(text(key, key_len), text(value, len));
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn table_add(
    table: *mut Table, name: *const u8, name_len: usize, code: u32, shape: *const u64, rank: usize, data: *const u8,
    len: usize,
) {
    let shape = (0..rank).map(|i| *shape.add(i) as usize).collect();
    let data = slice::from_raw_parts(data, len).to_vec();
    (*table).tensors.push((text(name, name_len), code, shape, data));
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn table_write(table: *const Table, is_older: bool, len: *mut usize) -> *mut u8 {
    give(if is_older { older::write(&*table) } else { current::write(&*table) }, len)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn table_digest(table: *const Table, is_older: bool, sha256: bool, len: *mut usize) -> *mut u8 {
    let digest = if is_older { older::digest(&*table, sha256) } else { current::digest(&*table, sha256) };
    give(digest, len)
}

/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn table_free(table: *mut Table) {
    drop(Box::from_raw(table));
}

/// READ and what the file holds, or why not.
///
/// # Safety
/// See above.
#[no_mangle]
pub unsafe extern "C" fn file_list(
    bytes: *const u8, size: usize, is_older: bool, verdict: *mut u32, len: *mut usize,
) -> *mut u8 {
    let bytes = slice::from_raw_parts(bytes, size);
    let (answer, listing) = if is_older { older::read(bytes) } else { current::read(bytes) };
    *verdict = answer;
    give(listing, len)
}

/// # Safety
/// What one of the functions above gave.
#[no_mangle]
pub unsafe extern "C" fn bytes_free(bytes: *mut u8, len: usize) {
    drop(Box::from_raw(slice::from_raw_parts_mut(bytes, len)));
}
