//! The pipe through which a plugin logs.

use crate::audience::Audience;
use crate::lines::LineBuffer;
use crate::stderr::{StderrLine, StderrReader};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::unix::pipe;
use tokio::process::ChildStderr;

/// The number of bytes read at once.
const PIECE: usize = 16 << 10;
/// The most pieces that one call of [`LogPipe::drain`] reads, so that a process that floods its log does not hold up
/// its caller.
const PIECES: usize = 16;
/// Lines that are kept for the message of a process that does not start.
const LAST: usize = 6;
/// Letters of each that a message shows.
const SHOWN: usize = 300;

/// The pipe through which a plugin logs.
///
/// All that a plugin has logged before it answers a call is in the pipe when the answer comes. So a caller that has an
/// answer calls [`Self::drain`] before the call counts as ended: the lines reach the journal of its operation, and
/// before anything that the engine logs about the answer.
#[derive(Debug)]
pub(crate) struct LogPipe {
    pipe: pipe::Receiver,
    audience: Arc<Audience>,
    reading: Mutex<Reading>,
}

#[derive(Debug)]
struct Reading {
    lines: LineBuffer,
    reader: StderrReader,
    buffer: Vec<u8>,
    /// The last lines, until the process has started.
    last: Option<VecDeque<String>>,
    has_ended: bool,
}

impl LogPipe {
    /// The pipe of a process that is starting.
    pub(crate) fn new(stderr: ChildStderr, audience: Arc<Audience>) -> io::Result<Self> {
        let fd: OwnedFd = stderr.into_owned_fd()?;
        let pipe = pipe::Receiver::from_owned_fd(fd)?;
        let reading = Reading {
            lines: LineBuffer::default(),
            reader: StderrReader::default(),
            buffer: vec![0; PIECE],
            last: Some(VecDeque::new()),
            has_ended: false,
        };
        Ok(Self { pipe, audience, reading: Mutex::new(reading) })
    }

    /// Reads until the process, and all that it has started, have closed the pipe.
    pub(crate) async fn pump(&self) {
        while !self.lock().has_ended {
            if self.pipe.readable().await.is_err() {
                return;
            }
            self.drain();
            tokio::task::yield_now().await;
        }
    }

    /// Reads what is in the pipe.
    pub(crate) fn drain(&self) {
        let mut reading = self.lock();
        for _ in 0..PIECES {
            if reading.has_ended {
                return;
            }
            let Reading { lines, reader, buffer, last, has_ended } = &mut *reading;
            let hear = |piece: crate::lines::LinePiece<'_>| {
                let line = reader.read(piece);
                if let Some(last) = last {
                    keep(last, &line);
                }
                self.audience.hear(line);
            };
            match self.pipe.try_read(buffer) {
                Ok(0) => {
                    lines.end(hear);
                    *has_ended = true;
                }
                Ok(length) => lines.feed(&buffer[..length], hear),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => *has_ended = true,
            }
        }
    }

    /// Keeps no last lines any more.
    pub(crate) fn has_started(&self) {
        self.lock().last = None;
    }

    /// The last lines of a process that has not started; empty when there are none.
    pub(crate) fn last_words(&self) -> String {
        let reading = self.lock();
        let last = reading.last.iter().flatten().map(String::as_str).collect::<Vec<_>>();
        if last.is_empty() { String::new() } else { format!("; it printed: {:?}", last.join("\n")) }
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(last: &mut VecDeque<String>, line: &StderrLine) {
    if line.message.trim().is_empty() {
        return;
    }
    if last.len() == LAST {
        last.pop_front();
    }
    last.push_back(line.message.chars().take(SHOWN).collect());
}
