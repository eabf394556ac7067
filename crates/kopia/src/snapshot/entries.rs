//! Entries of a directory, as they arrive.

use crate::KopiaError;
use crate::content::Contents;
use crate::format::FormatError;
use crate::format::directory::{self, DirectoryEntry, EntryType};
use crate::format::object_id::ObjectId;
use crate::object;
use crate::tasks::{blocking, join};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use std::io::Read;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The deepest nesting of directories that is saved, restored, listed or compared: no path that a program can name reaches
/// deeper, as it has at most 4,096 bytes.
pub const MAX_DEPTH: usize = 2048;

/// The names of entries that a checkpoint has cut short begin with this.
const CHECKPOINTED: &str = ".checkpointed.";
/// The text length of the UUID at their end.
const UUID: usize = 36;
/// Pieces of bytes and batches of entries that wait.
const WAITING: usize = 4;
/// Entries of a batch.
const BATCH: usize = 256;

/// An entry of a directory, and what may be done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// The entry as the repository has it.
    pub entry: DirectoryEntry,
    /// Its state.
    pub state: EntryState,
}

/// The state of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryState {
    /// It can be restored.
    Whole,
    /// A checkpoint was taken while the file was read: the object holds only the beginning of it, while the size is that
    /// of the whole file.
    CutShort {
        /// The name of the file.
        name: String,
    },
    /// It cannot be restored, for this reason.
    Unreadable {
        /// The reason.
        why: String,
    },
}

impl TreeEntry {
    /// Tells the state of an entry.
    pub fn new(entry: DirectoryEntry) -> Self {
        let state = match (&entry.entry_type, entry.object) {
            (EntryType::Unknown(word), _) => EntryState::Unreadable { why: format!("its type {word:?} is not known") },
            (_, None) => EntryState::Unreadable { why: "it refers to no object that can be read".to_owned() },
            (EntryType::File, Some(_)) => {
                let name = cut_short(&entry.name).map(str::to_owned);
                name.map_or(EntryState::Whole, |name| EntryState::CutShort { name })
            }
            _ => EntryState::Whole,
        };
        Self { entry, state }
    }
}

/// The name of the file in `.checkpointed.<name>.<uuid>`.
fn cut_short(name: &str) -> Option<&str> {
    let (name, uuid) = name.strip_prefix(CHECKPOINTED)?.rsplit_once('.')?;
    let is_uuid = uuid.len() == UUID && uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    (is_uuid && !name.is_empty()).then_some(name)
}

/// Gives the entries of a directory in the order of the document. One of a million files takes no more memory than one of
/// a thousand.
///
/// # Errors
/// Of the stream: a content or listing that is missing or damaged, an object that is no directory. An entry that cannot be
/// restored is none of them.
pub fn entries(contents: &Contents, object: &ObjectId) -> BoxStream<'static, Result<TreeEntry, KopiaError>> {
    let name = format!("directory {object}");
    if object.levels > 0 {
        return streamed(name, object::bytes(contents, object));
    }
    let (contents, object) = (contents.clone(), *object);
    let all = async move {
        let bytes: Vec<Bytes> = object::bytes(&contents, &object).try_collect().await?;
        blocking(move || {
            let mut entries = Vec::new();
            let source = bytes.first().map(Bytes::as_ref).unwrap_or_default();
            directory::read(source, |entry| {
                entries.push(TreeEntry::new(entry));
                Ok::<_, FormatError>(())
            })
            .map_err(|e| KopiaError::damaged(name, e))?;
            Ok(futures::stream::iter(entries.into_iter().map(Ok)))
        })
        .await
    };
    futures::stream::once(all).try_flatten().boxed()
}

/// The end of the parsing before its end of input.
enum Stopped {
    Format(FormatError),
    NobodyListens,
}

impl From<FormatError> for Stopped {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

/// A directory that is parsed on a thread while its bytes arrive.
struct Streaming {
    /// Feeds the thread; gone when all bytes are there.
    feeding: Option<BoxFuture<'static, Result<(), KopiaError>>>,
    entries: mpsc::Receiver<Vec<TreeEntry>>,
    parsing: Option<JoinHandle<Result<(), KopiaError>>>,
    ready: std::vec::IntoIter<TreeEntry>,
}

fn streamed(
    name: String,
    mut bytes: BoxStream<'static, Result<Bytes, KopiaError>>,
) -> BoxStream<'static, Result<TreeEntry, KopiaError>> {
    let (to_parser, input) = mpsc::channel(WAITING);
    let (to_caller, entries) = mpsc::channel(WAITING);
    let feeding = async move {
        while let Some(bytes) = bytes.try_next().await? {
            // Where the parser is gone its error says why.
            if to_parser.send(bytes).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let parsing = tokio::task::spawn_blocking(move || {
        let mut batch = Vec::with_capacity(BATCH);
        let send = |batch: &mut Vec<TreeEntry>| {
            to_caller.blocking_send(std::mem::take(batch)).map_err(|_| Stopped::NobodyListens)
        };
        let read = directory::read(Input { input, piece: Bytes::new() }, |entry| {
            batch.push(TreeEntry::new(entry));
            if batch.len() >= BATCH { send(&mut batch) } else { Ok(()) }
        });
        match read.and_then(|_| send(&mut batch)) {
            Ok(()) | Err(Stopped::NobodyListens) => Ok(()),
            Err(Stopped::Format(e)) => {
                // What was read before the error is there; the caller may use it.
                let _ = send(&mut batch);
                Err(KopiaError::damaged(name, e))
            }
        }
    });
    let streaming =
        Streaming { feeding: Some(feeding.boxed()), entries, parsing: Some(parsing), ready: Vec::new().into_iter() };
    futures::stream::try_unfold(streaming, |mut streaming| async move {
        Ok(streaming.next().await?.map(|entry| (entry, streaming)))
    })
    .boxed()
}

impl Streaming {
    async fn next(&mut self) -> Result<Option<TreeEntry>, KopiaError> {
        loop {
            if let Some(entry) = self.ready.next() {
                return Ok(Some(entry));
            }
            tokio::select! {
                biased;
                batch = self.entries.recv() => match batch {
                    Some(batch) => self.ready = batch.into_iter(),
                    // The thread has ended.
                    None => {
                        return match self.parsing.take() {
                            Some(parsing) => join(parsing.await)?.map(|()| None),
                            None => Ok(None),
                        };
                    }
                },
                fed = poll_some(&mut self.feeding) => {
                    self.feeding = None;
                    fed?;
                }
            }
        }
    }
}

/// Waits for a future that is there, and for ever where none is.
async fn poll_some<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// The bytes as the parser reads them.
struct Input {
    input: mpsc::Receiver<Bytes>,
    piece: Bytes,
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.piece.is_empty() {
            match self.input.blocking_recv() {
                Some(piece) => self.piece = piece,
                None => return Ok(0),
            }
        }
        let length = self.piece.len().min(into.len());
        let now = self.piece.split_to(length);
        into.get_mut(..length).unwrap_or_default().copy_from_slice(&now);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::content_id::{ContentHash, ContentId};
    use crate::format::directory::Directory;
    use crate::format::time::UnixNanos;

    fn entry(name: &str, entry_type: EntryType) -> DirectoryEntry {
        let content = ContentId::new(None, ContentHash::new(&[1; 16]).unwrap()).unwrap();
        DirectoryEntry {
            name: name.into(),
            entry_type,
            mode: 0o644,
            size: 1,
            modified: UnixNanos(1),
            uid: 0,
            gid: 0,
            object: Some(ObjectId { levels: 0, is_compressed: false, content }),
            summary: None,
        }
    }

    #[test]
    fn files_that_a_checkpoint_cut_short_and_unknown_types_are_told_apart() {
        let uuid = "c2ae2362-3219-4918-a585-8b3ae258816b";
        let cut = |name: &str| EntryState::CutShort { name: name.to_owned() };
        let state = |name: &str, entry_type| TreeEntry::new(entry(name, entry_type)).state;
        assert_eq!(state(&format!(".checkpointed.a.b.{uuid}"), EntryType::File), cut("a.b"));
        for name in ["a", ".checkpointed.a", ".checkpointed.", &format!(".checkpointed..{uuid}"), ".checkpointed.a.b-c"]
        {
            assert_eq!(state(name, EntryType::File), EntryState::Whole, "{name}");
        }
        assert_eq!(state(&format!(".checkpointed.a.{uuid}"), EntryType::Directory), EntryState::Whole);
        let why = "its type \"x\" is not known".to_owned();
        assert_eq!(state("a", EntryType::Unknown("x".to_owned())), EntryState::Unreadable { why });
        let none = DirectoryEntry { object: None, ..entry("a", EntryType::File) };
        let why = "it refers to no object that can be read".to_owned();
        assert_eq!(TreeEntry::new(none).state, EntryState::Unreadable { why });
    }

    async fn read(bytes: Vec<Result<Bytes, KopiaError>>) -> (Vec<TreeEntry>, Option<String>) {
        let mut stream = streamed("directory x".to_owned(), futures::stream::iter(bytes).boxed());
        let mut entries = Vec::new();
        loop {
            match stream.try_next().await {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => return (entries, None),
                Err(e) => return (entries, Some(e.to_string())),
            }
        }
    }

    #[tokio::test]
    async fn a_directory_of_many_pieces_gives_its_entries_and_then_its_error() {
        let entries: Vec<_> = (0..3000).map(|n| entry(&format!("file-{n:04}"), EntryType::File)).collect();
        let whole = directory::write(&Directory { entries: entries.clone(), summary: None });
        let expected: Vec<_> = entries.into_iter().map(TreeEntry::new).collect();
        let pieces =
            |bytes: &[u8]| bytes.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect::<Vec<_>>();
        assert_eq!(read(pieces(&whole)).await, (expected.clone(), None));
        // It ends too early.
        let (found, error) = read(pieces(&whole[..whole.len() / 2])).await;
        assert!(found.len() > 1400 && expected.starts_with(&found), "{}", found.len());
        assert!(error.unwrap().starts_with("directory x is damaged: "));
        // The reading fails.
        let mut failing = pieces(&whole[..whole.len() / 2]);
        failing.push(Err(KopiaError::Cancelled));
        assert_eq!(read(failing).await.1, Some(KopiaError::Cancelled.to_string()));
    }

    #[tokio::test]
    async fn what_nobody_listens_to_ends() {
        let endless = futures::stream::repeat_with(|| Ok(Bytes::from_static(b" "))).boxed();
        drop(streamed("directory x".to_owned(), endless));
        let entries: Vec<_> = (0..3000).map(|n| entry(&format!("file-{n:04}"), EntryType::File)).collect();
        let whole = directory::write(&Directory { entries, summary: None });
        let mut stream = streamed("directory x".to_owned(), futures::stream::iter([Ok(whole.into())]).boxed());
        assert_eq!(&*stream.try_next().await.unwrap().unwrap().entry.name, "file-0000");
    }
}
