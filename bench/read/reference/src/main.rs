//! One load by the reference crate, one line about it, as bench_read's other loaders print it.
//!
//!   bench-read-reference all|tenth|column:TENSOR FILE...
//! SPDX-License-Identifier: Apache-2.0
use memmap2::Mmap;
use safetensors::slice::IndexOp;
use safetensors::SafeTensors;
use std::fs::File;
use std::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

struct Usage {
    cpu: f64,
    faults: i64,
    disk: u64,
    read: u64,
}

fn usage() -> Usage {
    let mut r: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut r) };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let field = |key: &str| {
        io.lines().find_map(|line| line.strip_prefix(key)).and_then(|v| v.trim().parse().ok()).unwrap_or(0)
    };
    Usage {
        cpu: seconds(r.ru_utime) + seconds(r.ru_stime),
        faults: r.ru_minflt + r.ru_majflt,
        disk: field("read_bytes:"),
        read: field("rchar:"),
    }
}

/// Names and bytes, in the order of the data as the other loaders take it.
fn load(what: &str, path: &str, skip: &mut usize) -> Vec<(String, Vec<u8>)> {
    let file = File::open(path).expect(path);
    let map = unsafe { Mmap::map(&file) }.expect("mmap");
    let (_, metadata) = SafeTensors::read_metadata(&map).expect("header");
    let tensors = SafeTensors::deserialize(&map).expect("header");
    let mut loaded = Vec::new();
    for name in metadata.offset_keys() {
        let number = *skip;
        *skip += 1;
        let tensor = || tensors.tensor(&name).expect("tensor");
        if let Some(wanted) = what.strip_prefix("column:") {
            if name == wanted {
                let tensor = tensor();
                let columns = tensor.shape()[1];
                let slice = tensor.slice((.., columns / 4..columns / 2)).expect("slice");
                let mut bytes = Vec::with_capacity(slice.remaining_byte_len());
                slice.for_each(|run| bytes.extend_from_slice(run));
                loaded.push((name, bytes));
            }
        } else if what == "all" || number % 10 == 5 {
            let bytes = tensor().data().to_vec();
            loaded.push((name, bytes));
        }
    }
    loaded
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let before = usage();
    let begin = Instant::now();
    let mut number = 0;
    let loaded: Vec<_> = args[1..].iter().flat_map(|path| load(&args[0], path, &mut number)).collect();
    let seconds = begin.elapsed().as_secs_f64();
    let after = usage();
    let bytes: usize = loaded.iter().map(|(_, data)| data.len()).sum();
    let checksum = loaded
        .iter()
        .fold(0u64, |sum, (name, data)| sum.wrapping_add(xxh3_64(data).wrapping_mul(xxh3_64(name.as_bytes()) | 1)));
    println!(
        "{{\"seconds\": {:.6}, \"cpu\": {:.6}, \"faults\": {}, \"disk\": {}, \"read\": {}, \"bytes\": {}, \"checksum\": \"{:016x}\"}}",
        seconds,
        after.cpu - before.cpu,
        after.faults - before.faults,
        after.disk - before.disk,
        after.read - before.read,
        bytes,
        checksum
    );
}
