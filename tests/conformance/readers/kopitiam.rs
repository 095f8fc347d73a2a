// The Rust crate kopitiam-loader 0.2.5.
// SPDX-License-Identifier: Apache-2.0
use kopitiam_loader::{ModelLoader, SafeTensorsLoader};

fn main() {
    let path = std::env::args_os().nth(1).expect("a path");
    if let Err(error) = SafeTensorsLoader.load(path.as_ref()) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
