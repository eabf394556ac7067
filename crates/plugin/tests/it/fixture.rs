//! A plugin for tests: this very test program, started by a script that [`crate::bed::Bed`] writes.
//!
//! It serves what a plugin written in Go serves, and misbehaves as it is told: by words in its environment, from its start on, or
//! by the annotation `fixture` of an object, in the call that has it. What it is asked goes into a file, its diary.

#![allow(clippy::disallowed_methods, reason = "the process of a plugin owns whatever runs in it")]
#![allow(clippy::print_stderr, reason = "a plugin logs to it")]

mod actions;
mod mux;
mod services;
mod storage;

use mux::Mux;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::{Mutex, mpsc};
use tonic::transport::Server;

/// The state of the fixture.
pub(crate) struct Fixture {
    /// Its kinds of misbehaviour.
    switches: Vec<String>,
    /// The plugins that it reports, as `Kind=name`.
    plugins: Vec<String>,
    mux: Mux,
    /// Text for those who listen to what it prints after its start, and the one stream of it.
    stdio: mpsc::Sender<Vec<u8>>,
    stdio_stream: Mutex<Option<mpsc::Receiver<Vec<u8>>>>,
    socket: PathBuf,
    /// The folder in the configuration of its storage.
    root: std::sync::Mutex<Option<PathBuf>>,
}

/// No test: where a script has started this program as a plugin, it is one from here on.
#[test]
fn plays_a_plugin() {
    if std::env::var_os("FIXTURE_COMMAND").is_none() {
        return;
    }
    if std::env::var("VELERO_PLUGIN").as_deref() != Ok("hello") {
        eprintln!("This is a plugin, and is not meant to be started by hand.");
        std::process::exit(1);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(serve());
    std::process::exit(0);
}

fn words(variable: &str) -> Vec<String> {
    std::env::var(variable).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Writes a line into the diary.
pub(crate) fn note(line: &str) {
    if let Some(path) = std::env::var_os("FIXTURE_DIARY") {
        let mut diary = OpenOptions::new().append(true).create(true).open(path).unwrap();
        diary.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}

/// Logs as the library for plugins does.
pub(crate) fn log(level: &str, message: &str) {
    let line = serde_json::json!({
        "@level": level, "@message": message, "level": level, "@logSourceSetBy": "plugin", "logSource": "fixture.go:7",
    });
    eprintln!("{line}");
}

/// The output that the host reads: the harness of tests prints to the usual one.
pub(crate) fn stdout() -> File {
    OpenOptions::new().write(true).open("/proc/self/fd/3").unwrap()
}

impl Fixture {
    fn has(&self, switch: &str) -> bool {
        self.switches.iter().any(|word| word == switch)
    }
}

/// A number of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

async fn serve() {
    let (stdio, stream) = mpsc::channel(64);
    let folder = std::env::var_os("TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let socket = folder.join(format!("plugin{}-{number}", std::process::id()));
    let fixture = Fixture {
        switches: words("FIXTURE_SWITCHES"),
        plugins: words("FIXTURE_PLUGINS"),
        mux: Mux::default(),
        stdio,
        stdio_stream: Mutex::new(Some(stream)),
        socket: socket.clone(),
        root: std::sync::Mutex::default(),
    };
    note(&format!("start {}", std::process::id()));
    for variable in words("FIXTURE_SHOWN") {
        note(&format!("{variable}={}", std::env::var(&variable).unwrap_or_else(|_| "(unset)".to_owned())));
    }
    start_badly(&fixture);
    let listener = UnixListener::bind(&socket).unwrap();
    let path = socket.display();
    let line = match () {
        () if fixture.has("5-fields") => format!("1|2|unix|{path}|grpc\n"),
        () if fixture.has("extra-fields") => format!("1|2|unix|{path}|grpc||false|more\n"),
        () => format!("1|2|unix|{path}|grpc|\n"),
    };
    stdout().write_all(line.as_bytes()).unwrap();

    let fixture = Arc::new(fixture);
    let incoming = futures::stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let router = services::add_all(Server::builder(), &fixture);
    router.serve_with_incoming(incoming).await.unwrap();
}

/// Fails before the plugin listens, when a switch asks for it.
fn start_badly(fixture: &Fixture) {
    if let Some(marker) = fixture.switches.iter().find_map(|word| word.strip_prefix("fails-after-first-start=")) {
        if std::path::Path::new(marker).exists() {
            eprintln!("it does not start again");
            std::process::exit(1);
        }
        File::create(marker).unwrap();
    }
}

/// Ends this process a moment after it has answered.
fn exit_soon(status: i32) {
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        std::process::exit(status);
    });
}
