//! Processes that end with us.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A background process. It is killed when this value is dropped, and also when our process dies in any way: a shell
/// between us holds a pipe to us and kills the process when the pipe closes.
#[derive(Debug)]
pub struct Daemon {
    shell: Child,
    log: PathBuf,
}

/// Announces the process id, then waits for our end of the pipe to close.
const SUPERVISE: &str = r#""$@" & child=$!; trap '' INT TERM; cat >/dev/null; kill -9 $child; wait $child 2>/dev/null; [ -z "$REMOVE_AFTERWARDS" ] || rm -rf "$REMOVE_AFTERWARDS""#;

impl Daemon {
    /// Starts a program; its output goes to `log`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, args: &[String], log: &Path) -> Result<Self> {
        Self::start_in(program, args, log, None)
    }

    /// The same; when the program is gone, however our process ends, this folder is removed.
    pub(crate) fn start_in(program: &Path, args: &[String], log: &Path, remove: Option<&Path>) -> Result<Self> {
        let out = File::create(log).with_context(|| format!("make {}", log.display()))?;
        let shell = Command::new("sh")
            .args(["-c", SUPERVISE, "supervise"])
            .arg(program)
            .args(args)
            .env("REMOVE_AFTERWARDS", remove.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        Ok(Self { shell, log: log.to_owned() })
    }

    /// The last lines of its output.
    #[must_use]
    pub fn tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// The time within which a program is ready on a machine that has much else to do.
pub const START_TIMEOUT: Duration = Duration::from_secs(240);

/// Waits until these programs are ready, for [`START_TIMEOUT`] at most; the failure holds the ends of their logs.
pub(crate) fn until_ready(what: &str, programs: &[&Daemon], is_ready: impl Fn() -> bool) -> Result<()> {
    let end = Instant::now() + START_TIMEOUT;
    while !is_ready() {
        if Instant::now() > end {
            let logs: Vec<String> = programs.iter().map(|program| program.tail()).collect();
            bail!("{what} is not ready after {START_TIMEOUT:?}:\n{}", logs.join("\n--\n"));
        }
        crate::pause::pause();
    }
    Ok(())
}

/// Ports below those that the system gives to connections that go out: one of those could be taken between this look and
/// the start of the program that shall listen.
const PORTS: std::ops::Range<u32> = 15_000..32_000;

/// A port on which no program listens right now, and that no other call of this process has given.
///
/// # Errors
/// When all are taken.
pub fn free_port() -> Result<u16> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let count = PORTS.end - PORTS.start;
    // Processes begin far from each other.
    let first = std::process::id().wrapping_mul(977);
    for _ in 0..count {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(PORTS.start + first.wrapping_add(call) % count)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("every port from {} to {} is taken", PORTS.start, PORTS.end)
}

/// Time limit for a server until it listens.
const START: Duration = Duration::from_secs(60);

/// Waits until a server listens.
pub(crate) fn wait_for_port(what: &str, address: (Ipv4Addr, u16), daemon: &Daemon) -> Result<()> {
    let end = Instant::now() + START;
    while TcpStream::connect(address).is_err() {
        if Instant::now() > end {
            bail!("the {what} server is not ready after {} s:\n{}", START.as_secs(), daemon.tail());
        }
        pause();
    }
    Ok(())
}

/// Between two looks at something that another process does.
#[allow(clippy::disallowed_methods, reason = "there is nothing to wait on but time")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}
