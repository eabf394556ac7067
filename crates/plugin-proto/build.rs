//! Makes the Rust of the messages and services from the files in `proto/`.

use std::error::Error;

/// A file for each package of the protocol.
const FILES: [&str; 4] = ["proto/go_plugin.proto", "proto/generated.proto", "proto/v1.proto", "proto/v2.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(FILES, ["proto"])?;
    // The pieces of objects are passed on without being copied.
    let pieces = tonic_prost_build::configure().bytes(".generated.Bytes").bytes(".generated.PutObjectRequest");
    pieces.compile_fds(files)?;
    Ok(())
}
