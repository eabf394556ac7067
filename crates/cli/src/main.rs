//! The `lifeboat` binary.
//!
//! Parses the command line, connects the other crates and prints; decisions and effects are in those crates. Start
//! reading at [`command`].

mod command;
mod commands;
mod helper;
mod resource;

use commands::completion;
use commands::completion::kubectl::answer_kubectl;
use lifeboat_terminal::output::errors;

use lifeboat_terminal::process::program::{self, Program};
use lifeboat_terminal::process::traces::Traces;
use std::process::ExitCode;
use std::time::Duration;

/// The allocator, everywhere the same: that of the image's C library maps and unmaps each buffer of a content, and has one lock
/// for all threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes of stack of each thread. The work of a server is many calls deep, and without optimisation each takes a lot.
const STACK: usize = 16 << 20;
/// Longest time for threads to end after the command has ended.
const LEAVING: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    if let Some(code) = helper::run() {
        return code;
    }
    // One TLS provider is in the graph; saying so makes an accidental second one fail here and not in the field.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    if program::completes_for_kubectl() {
        answer_kubectl(std::env::args_os().skip(1), command::Lifeboat::grammar);
        return ExitCode::SUCCESS;
    }
    completion::answer(command::Lifeboat::grammar);
    let (program, warning) = Program::here();
    errors::warn(warning.as_deref());
    let name = program.name.clone();
    let command = match command::Lifeboat::of(program) {
        Ok(command) => command,
        Err(e) => return errors::usage(&e, &name),
    };
    let threads = &mut tokio::runtime::Builder::new_multi_thread();
    let runtime = match threads.thread_stack_size(STACK).enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return errors::report(&anyhow::Error::new(e).context("start the runtime")),
    };
    let mut traces = None;
    if !command.logs_itself() {
        let within = runtime.enter();
        let (prepared, warning) = Traces::prepare(&command.globals.program.traces, None, false);
        drop(within);
        errors::warn(warning.as_deref());
        if let Err(e) = command.globals.log.start(&prepared) {
            return errors::report(&e);
        }
        traces = Some(prepared);
    }
    let ended = runtime.block_on(command.run());
    if let Some(traces) = traces {
        traces.end();
    }
    // What a thread still waits for must not keep a command that has ended, least of all a server that leads no more.
    runtime.shutdown_timeout(LEAVING);
    match ended {
        Ok(code) => code,
        Err(e) => errors::report(&e),
    }
}
