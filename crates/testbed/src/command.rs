//! Commands that end within a time: a test that waits for ever says nothing.

use anyhow::{Context, Result, bail};
use std::io::Read;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

/// Runs a command and gives what it printed. One that has not ended after this time is killed.
///
/// # Errors
/// When it cannot be run, or had to be killed.
pub fn output_within(limit: Duration, command: &mut Command) -> Result<Output> {
    let program = command.get_program().display().to_string();
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().with_context(|| format!("run {program}"))?;
    rest_of_output_within(limit, child).with_context(|| format!("run {program}"))
}

/// The same for a command that runs already, with its output in pipes.
///
/// # Errors
/// When it had to be killed.
pub fn rest_of_output_within(limit: Duration, mut child: Child) -> Result<Output> {
    let end = Instant::now() + limit;
    drop(child.stdin.take());
    // Both streams end when the process does, or when it has nothing more to say.
    let (sender, ended) = sync_channel(2);
    let out = child.stdout.take().map(|pipe| read(pipe, sender.clone()));
    let err = child.stderr.take().map(|pipe| read(pipe, sender));
    for _ in out.iter().chain(&err) {
        if ended.recv_timeout(end.saturating_duration_since(Instant::now())).is_err() {
            break;
        }
    }
    let ended = status_within(end.saturating_duration_since(Instant::now()), &mut child);
    if ended.is_err() {
        // A child of the command may hold the pipes for longer: they are not read to their end.
        bail!("it did not end within {limit:?} and was killed");
    }
    let text = |reader: Option<JoinHandle<Vec<u8>>>| reader.map_or(Ok(Vec::new()), JoinHandle::join);
    let (Ok(stdout), Ok(stderr)) = (text(out), text(err)) else { bail!("its output could not be read") };
    Ok(Output { status: ended?, stdout, stderr })
}

/// Waits for the end of a process. One that has not ended after this time is killed.
///
/// # Errors
/// When it had to be killed.
pub fn status_within(limit: Duration, child: &mut Child) -> Result<ExitStatus> {
    let end = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().context("wait for a process")? {
            return Ok(status);
        }
        if Instant::now() >= end {
            let _ = child.kill();
            let _ = child.wait();
            bail!("process {} did not end within {limit:?} and was killed", child.id());
        }
        std::thread::park_timeout(pause);
        pause = (2 * pause).min(Duration::from_millis(20));
    }
}

fn read(mut pipe: impl Read + Send + 'static, ended: SyncSender<()>) -> JoinHandle<Vec<u8>> {
    spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = ended.send(());
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    #[test]
    fn a_command_that_ends_gives_its_status_and_both_streams() {
        let limit = Duration::from_secs(60);
        let output = output_within(limit, &mut shell("echo out; echo err >&2; exit 3")).expect("it ends");
        let streams = (output.stdout.as_slice(), output.stderr.as_slice());
        assert_eq!((output.status.code(), streams), (Some(3), (&b"out\n"[..], &b"err\n"[..])));
    }

    #[test]
    fn a_command_that_does_not_end_is_killed_and_named() {
        for script in ["echo begun; exec sleep 600", "exec sleep 600 >&- 2>&-"] {
            let error = output_within(Duration::from_millis(50), &mut shell(script)).expect_err("it was killed");
            assert_eq!(format!("{error:#}"), "run sh: it did not end within 50ms and was killed", "{script}");
        }
    }
}
