//! Notes of a restore about the pods in which commands were begun or have ended, with their failures, so that a resumed
//! restore neither repeats the commands nor forgets the failures.

use crate::state::lock::lock;
use lifeboat_hook::HookPod;
use lifeboat_object::ObjectKey;
use lifeboat_operation::{Operation, Records, RecordsError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// Prefix of the keys of these notes; a number follows.
const NOTE: &str = "hooks.";
/// Pods of one note.
const PODS_OF_NOTE: usize = 512;
/// Most characters of the message about one failure, and most failures of one pod: all notes of a restore have 1 MiB.
const LONGEST: usize = 300;
const MOST_FAILURES: usize = 8;

/// Progress of the commands of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CommandProgress {
    /// The first of them may have run.
    Begun,
    /// There is nothing more to run, and this went wrong.
    Ended(Vec<CommandFailure>),
}

/// A command that failed, or did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommandFailure {
    /// The name of the hook, and its number among those of the name.
    pub(crate) name: String,
    pub(crate) index: usize,
    /// The message in the results.
    pub(crate) text: String,
}

/// The notes of one restore.
pub(crate) struct Noted {
    records: Arc<dyn Records>,
    /// By digest of the pod.
    known: Mutex<HashMap<String, CommandProgress>>,
    /// The lines of the notes. Only a writer holds it, for as long as it writes.
    notes: tokio::sync::Mutex<PodNoteLines>,
}

#[derive(Default)]
struct PodNoteLines {
    lines: BTreeMap<usize, Vec<String>>,
    /// By digest, note and line.
    places: HashMap<String, (usize, usize)>,
}

impl Noted {
    pub(crate) fn new(operation: &Operation) -> Self {
        Self { records: Arc::clone(&operation.records), known: Mutex::default(), notes: tokio::sync::Mutex::default() }
    }

    /// Loads the notes of an earlier run.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub(crate) async fn load(&self) -> Result<(), RecordsError> {
        let mut notes = self.notes.lock().await;
        for key in self.records.keys().await? {
            let Some(number) = key.strip_prefix(NOTE).and_then(|number| number.parse::<usize>().ok()) else { continue };
            let Some(note) = self.records.read(&key).await? else { continue };
            for line in String::from_utf8_lossy(&note).lines() {
                // What cannot be read is as if it had not been noted: the commands of the pod run again.
                let Some((digest, past)) = line.split_once(' ') else { continue };
                let Ok(past) = serde_json::from_str::<CommandProgress>(past) else { continue };
                lock(&self.known).insert(digest.to_owned(), past);
                let lines = notes.lines.entry(number).or_default();
                lines.push(line.to_owned());
                let place = (number, lines.len() - 1);
                notes.places.insert(digest.to_owned(), place);
            }
        }
        Ok(())
    }

    /// Returns the note about a pod.
    pub(crate) fn of(&self, pod: &HookPod) -> Option<CommandProgress> {
        lock(&self.known).get(&digest(pod)).cloned()
    }

    /// Notes how far the commands of a pod are.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub(crate) async fn note(&self, pod: &HookPod, past: &CommandProgress) -> Result<(), RecordsError> {
        let (digest, past) = (digest(pod), shortened(past));
        lock(&self.known).insert(digest.clone(), past.clone());
        let line = format!("{digest} {}", serde_json::to_string(&past).unwrap_or_default());
        let mut notes = self.notes.lock().await;
        let (number, at) = match notes.places.get(&digest) {
            Some(place) => *place,
            None => {
                let last = notes.lines.last_key_value().map(|(number, lines)| (*number, lines.len()));
                let place = match last {
                    Some((number, count)) if count < PODS_OF_NOTE => (number, count),
                    Some((number, _)) => (number + 1, 0),
                    None => (0, 0),
                };
                notes.places.insert(digest, place);
                place
            }
        };
        let lines = notes.lines.entry(number).or_default();
        match lines.get_mut(at) {
            Some(before) => *before = line,
            None => lines.push(line),
        }
        let note = lines.join("\n");
        self.records.write(BTreeMap::from([(format!("{NOTE}{number}"), Some(note.into()))])).await
    }
}

fn shortened(past: &CommandProgress) -> CommandProgress {
    let CommandProgress::Ended(failures) = past else { return past.clone() };
    let short = |failure: &CommandFailure| CommandFailure {
        text: failure.text.chars().take(LONGEST).collect(),
        ..failure.clone()
    };
    CommandProgress::Ended(failures.iter().take(MOST_FAILURES).map(short).collect())
}

/// The pod of this key and UID, in 32 letters.
fn digest(pod: &HookPod) -> String {
    let key = ObjectKey { name: format!("{} {}", pod.name, pod.uid), ..pod.key() };
    hex::encode(key.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> HookPod {
        HookPod { namespace: "n".into(), name: name.into(), uid: format!("uid-{name}"), ..HookPod::default() }
    }

    #[tokio::test]
    async fn a_later_run_knows_what_an_earlier_one_has_noted() {
        let operation = Operation::new(Arc::new(|| jiff::Timestamp::UNIX_EPOCH), "restore=r", std::env::temp_dir());
        let failure = |text: String| CommandFailure { name: "h".into(), index: 2, text };
        let noted = Noted::new(&operation);
        for number in 0..=PODS_OF_NOTE {
            noted.note(&pod(&number.to_string()), &CommandProgress::Begun).await.unwrap();
        }
        noted
            .note(&pod("0"), &CommandProgress::Ended(vec![failure("two\nlines".into()), failure("x".repeat(900))]))
            .await
            .unwrap();
        let keys = operation.records.keys().await.unwrap();
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["hooks.0", "hooks.1"]);
        let again = Noted::new(&operation);
        again.load().await.unwrap();
        let ended = CommandProgress::Ended(vec![failure("two\nlines".into()), failure("x".repeat(LONGEST))]);
        let found = ["0", "1", "512", "513"].map(|name| again.of(&pod(name)));
        assert_eq!(found, [Some(ended), Some(CommandProgress::Begun), Some(CommandProgress::Begun), None]);
        // It goes on in the notes that are there.
        again.note(&pod("1"), &CommandProgress::Ended(Vec::new())).await.unwrap();
        again.note(&pod("513"), &CommandProgress::Begun).await.unwrap();
        assert_eq!(operation.records.keys().await.unwrap().len(), 2);
        let note = operation.records.read("hooks.1").await.unwrap().unwrap();
        assert_eq!(String::from_utf8_lossy(&note).lines().count(), 2);
    }
}
