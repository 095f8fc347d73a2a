//! Reads a file with the reference's crate, behind a C function. `panic = "abort"` in Cargo.toml: nothing unwinds
//! into C++.
//! SPDX-License-Identifier: Apache-2.0

use std::fmt::Write;

use safetensors::tensor::Metadata;
use safetensors::SafeTensorError as E;
use safetensors::SafeTensors;

/// The same text as `listing()` in reference.cpp.
fn listing(metadata: &Metadata) -> String {
    let mut out = String::new();
    let tensors = metadata.tensors();
    let mut names: Vec<_> = tensors.keys().collect();
    names.sort();
    for name in names {
        let tensor = tensors[name];
        let (begin, end) = tensor.data_offsets;
        write!(out, "{}:{name} {:?} {begin}..{end}", name.len(), tensor.dtype).unwrap();
        for dimension in &tensor.shape {
            write!(out, ",{dimension}").unwrap();
        }
        out.push('\n');
    }
    if let Some(pairs) = metadata.metadata() {
        let mut pairs: Vec<_> = pairs.iter().collect();
        pairs.sort();
        out.push_str("metadata\n");
        for (key, value) in pairs {
            writeln!(out, "{}:{key}{}:{value}", key.len(), value.len()).unwrap();
        }
    }
    out
}

/// Returns 0 and the listing, or the number of the error (`Refusal` in reference.cpp). For an error of UTF-8, `at` is its
/// place in the file.
///
/// # Safety
/// The file has this many bytes, and `text` has room for `room`.
#[no_mangle]
pub unsafe extern "C" fn reference_read(
    file: *const u8,
    bytes: usize,
    text: *mut u8,
    room: usize,
    written: *mut usize,
    at: *mut u64,
) -> i32 {
    let refusal = match SafeTensors::read_metadata(std::slice::from_raw_parts(file, bytes)) {
        Ok((_, metadata)) => {
            let listing = listing(&metadata);
            assert!(listing.len() <= room);
            std::ptr::copy_nonoverlapping(listing.as_ptr(), text, listing.len());
            *written = listing.len();
            return 0;
        }
        Err(refusal) => refusal,
    };
    match refusal {
        E::HeaderTooSmall => 1,
        E::HeaderTooLarge => 2,
        E::InvalidHeaderLength => 3,
        E::InvalidHeader(error) => {
            *at = 8 + error.valid_up_to() as u64;
            4
        }
        E::InvalidHeaderDeserialization(_) => 5,
        E::InvalidOffset(_) => 6,
        E::ValidationOverflow => 7,
        E::MisalignedSlice => 8,
        E::TensorInvalidInfo => 9,
        E::MetadataIncompleteBuffer => 10,
        _ => 11,
    }
}
