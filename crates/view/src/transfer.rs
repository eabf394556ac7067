//! Transfers of volumes for people: how far each is, how fast, and how long it takes yet.
//!
//! The bytes stand in the status of the resource, the files in an annotation. Rates come from the times at which the node agent has
//! written both, and so need no clock that agrees with that of the cluster.

pub mod rates;
mod resource;
#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};
use lifeboat_api::{DataMoveProgress, DataPathPhase, MovedFiles};
use lifeboat_object::printable;
use lifeboat_terminal::output::progress::duration_text;
use lifeboat_terminal::output::size_text;
use serde_json::{Value, json};

/// The backup or restore that a transfer is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferOwner {
    /// `Backup` or `Restore`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

/// The transfer of the data of one volume.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeTransfer {
    /// The kind of its resource.
    pub kind: &'static str,
    /// The name of its resource.
    pub name: String,
    /// The UID of its resource.
    pub uid: String,
    /// The claim as `namespace/name`, or the volume of a pod as `namespace/pod:volume`.
    pub volume: String,
    /// The backup or restore that it is of; `None` where nothing says it.
    pub owner: Option<TransferOwner>,
    /// Its phase.
    pub phase: DataPathPhase,
    /// The message of its status: what it waits for, or why it failed.
    pub message: String,
    /// Bytes that are done and in all.
    pub bytes: DataMoveProgress,
    /// Files that are done and in all, where they are known.
    pub files: Option<MovedFiles>,
    /// The time at which it began.
    pub started: Option<Timestamp>,
    /// The time at which bytes or files were last moved.
    pub moved_at: Option<Timestamp>,
    /// Bytes in a second, where that is known.
    pub rate: Option<f64>,
    /// The time for which nothing was moved, where that is long.
    pub idle: Option<SignedDuration>,
}

impl VolumeTransfer {
    /// Returns true if it goes on no more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, DataPathPhase::Completed | DataPathPhase::Failed | DataPathPhase::Canceled)
    }

    /// Returns true if its mover works.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        matches!(self.phase, DataPathPhase::InProgress | DataPathPhase::Canceling)
    }

    /// The seconds that it takes yet, where the total and the rate are known.
    fn seconds_left(&self) -> Option<f64> {
        let rest = self.bytes.total_bytes.saturating_sub(self.bytes.bytes_done);
        let left = rest as f64 / self.rate?;
        (rest > 0 && left.is_finite() && left >= 1.0).then_some(left)
    }

    /// The bytes, such as `4.0 GiB of 10.0 GiB (40 %)`. A total that is not known grows with what is done, and is left out.
    fn bytes_text(&self) -> String {
        let DataMoveProgress { total_bytes, bytes_done, .. } = &self.bytes;
        let [total, done] = [*total_bytes, *bytes_done].map(|bytes| u64::try_from(bytes).unwrap_or_default());
        match total > done {
            true => {
                let percent = u128::from(done) * 100 / u128::from(total);
                format!("{} of {} ({percent} %)", size_text(done), size_text(total))
            }
            false => size_text(done),
        }
    }

    /// The files, such as `1204 of 5000 files`; `None` where they are not known.
    pub(crate) fn files_text(&self) -> Option<String> {
        let MovedFiles { done, total } = self.files?;
        Some(if total > done { format!("{done} of {total} files") } else { format!("{done} files") })
    }

    fn rate_text(&self) -> Option<String> {
        self.rate.map(|rate| format!("{}/s", size_text(rate.round() as u64)))
    }

    fn left_text(&self) -> Option<String> {
        self.seconds_left().map(duration_text)
    }

    /// Files, rate and the time that is left, each after a comma; empty where nothing is known.
    pub(crate) fn more_than_bytes(&self) -> String {
        let idle = self.idle.map(|idle| format!("nothing moved for {}", duration_text(idle.as_secs_f64())));
        let left = self.left_text().map(|left| format!("{left} left"));
        [self.files_text(), self.rate_text(), left, idle]
            .into_iter()
            .flatten()
            .map(|text| format!(", {text}"))
            .collect()
    }

    /// Bytes, files, rate and the time that is left.
    pub(crate) fn moved_text(&self) -> String {
        format!("{}{}", self.bytes_text(), self.more_than_bytes())
    }

    /// The line of a list: the volume, its phase, and how far it is or what it waits for.
    #[must_use]
    pub fn line(&self) -> String {
        let (volume, phase) = (&self.volume, self.phase.as_str());
        let rest = match (self.is_moving(), self.message.is_empty()) {
            (true, _) => format!(": {}", self.moved_text()),
            (false, false) => format!(": {}", self.message),
            (false, true) => String::new(),
        };
        printable(format!("{volume} {phase}{rest}"))
    }

    /// The columns of a table.
    pub(crate) fn cells(&self) -> Vec<String> {
        let moved = if self.is_moving() { self.bytes_text() } else { String::new() };
        let files = self.files.filter(|_| self.is_moving());
        let files = files.map_or_else(String::new, |MovedFiles { done, total }| format!("{done}/{total}"));
        let left = match (self.idle, self.left_text()) {
            (Some(idle), _) => format!("idle {}", duration_text(idle.as_secs_f64())),
            (None, left) => left.unwrap_or_default(),
        };
        let phase = self.phase.as_str().to_owned();
        let owner = |owner: &TransferOwner| format!("{} {}", owner.kind.to_lowercase(), owner.name);
        let owner = self.owner.as_ref().map_or_else(String::new, owner);
        vec![self.volume.clone(), owner, phase, moved, files, self.rate_text().unwrap_or_default(), left]
    }

    /// The transfer for programs.
    pub(crate) fn value(&self) -> Value {
        let owner = self.owner.as_ref().map(|owner| json!({"kind": owner.kind, "name": owner.name}));
        json!({
            "kind": self.kind, "name": self.name, "volume": self.volume, "owner": owner, "phase": self.phase,
            "message": self.message, "bytesDone": self.bytes.bytes_done, "totalBytes": self.bytes.total_bytes,
            "filesDone": self.files.map(|files| files.done), "totalFiles": self.files.map(|files| files.total),
            "bytesPerSecond": self.rate.map(|rate| rate.round() as u64),
            "secondsLeft": self.seconds_left().map(|seconds| seconds.round() as u64),
            "idleSeconds": self.idle.map(|idle| idle.as_secs()),
        })
    }
}

/// Names of the columns of [`VolumeTransfer::cells`].
pub(crate) const COLUMNS: [&str; 7] = ["VOLUME", "FOR", "PHASE", "MOVED", "FILES", "RATE", "LEFT"];

/// Puts transfers in the order in which they are shown: those that move first, then those that wait, by volume.
pub fn sort_transfers(transfers: &mut [VolumeTransfer]) {
    let place = |phase: DataPathPhase| match phase {
        DataPathPhase::InProgress => 0,
        DataPathPhase::Canceling => 1,
        DataPathPhase::Prepared => 2,
        DataPathPhase::Accepted => 3,
        DataPathPhase::New => 4,
        DataPathPhase::Completed | DataPathPhase::Failed | DataPathPhase::Canceled => 5,
    };
    transfers.sort_by(|a, b| (place(a.phase), &a.volume, &a.name).cmp(&(place(b.phase), &b.volume, &b.name)));
}

/// The lines of transfers while some go on, `most` of them at the most beside their number; none when all have ended.
#[must_use]
pub fn lines_of(transfers: &[VolumeTransfer], most: usize) -> Vec<String> {
    let going: Vec<&VolumeTransfer> = transfers.iter().filter(|transfer| !transfer.has_ended()).collect();
    if going.is_empty() {
        return Vec::new();
    }
    let ended = transfers.len() - going.len();
    let moving = going.iter().filter(|transfer| transfer.is_moving()).count();
    let waiting = going.len() - moving;
    let mut lines = vec![format!("volumes: {moving} being moved, {waiting} waiting, {ended} ended")];
    lines.extend(going.iter().take(most).map(|transfer| format!("  {}", transfer.line())));
    if going.len() > most {
        lines.push(format!("  and {} more", going.len() - most));
    }
    lines
}
