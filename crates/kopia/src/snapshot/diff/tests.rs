use super::*;
use crate::RepositoryWriter;
use crate::format::directory::{Directory, write as write_directory};
use crate::format::time::UnixNanos;
use crate::object::writer::ObjectOptions;
use crate::splitter::SplitterAlgorithm;
use crate::testing::Fixture;

fn entry(name: &str, entry_type: EntryType, object: Option<ObjectId>) -> DirectoryEntry {
    DirectoryEntry {
        name: name.into(),
        entry_type,
        mode: 0o644,
        size: 1,
        modified: UnixNanos(5),
        uid: 0,
        gid: 0,
        object,
        summary: None,
    }
}

/// Writes trees in which documents above 1000 bytes are cut into contents.
struct Trees(RepositoryWriter);

impl Trees {
    async fn begin(fixture: &Fixture) -> Self {
        let repository = fixture.open(fixture.store().await).await.unwrap();
        Self(repository.writer(fixture.write_options(1)).await.unwrap())
    }

    async fn object(&self, prefix: Option<u8>, bytes: &[u8]) -> ObjectId {
        let splitter = Some(SplitterAlgorithm::Fixed(1000));
        let mut object =
            self.0.object(ObjectOptions { prefix, compression: None, metadata_compression: None, splitter });
        object.write(bytes.to_vec().into()).await.unwrap();
        object.finish().await.unwrap()
    }

    async fn file(&self, name: &str, bytes: &str) -> DirectoryEntry {
        let object = self.object(None, bytes.as_bytes()).await;
        DirectoryEntry { size: bytes.len() as u64, ..entry(name, EntryType::File, Some(object)) }
    }

    async fn directory(&self, name: &str, entries: Vec<DirectoryEntry>) -> DirectoryEntry {
        let document = write_directory(&Directory { entries, summary: None });
        let object = self.object(Some(b'k'), &document).await;
        DirectoryEntry { size: 0, ..entry(name, EntryType::Directory, Some(object)) }
    }

    /// The lines of a comparison: `+`, `-` or `~` and the path, with the properties that differ.
    async fn diff(&self, before: &DirectoryEntry, after: &DirectoryEntry) -> Vec<String> {
        self.0.flush().await.unwrap();
        let mut diff = TreeDiff::new(self.0.repository().contents(), before.clone(), after.clone());
        let mut lines = Vec::new();
        while let Some(item) = diff.next().await.unwrap() {
            lines.push(match item {
                DiffItem::Unreadable { path, error } => format!("? {path}: {error}"),
                DiffItem::Change(change) => match *change {
                    EntryChange { path, before: None, .. } => format!("+ {path}"),
                    EntryChange { path, after: None, .. } => format!("- {path}"),
                    change => {
                        let names: Vec<_> = change.properties().into_iter().map(ChangedProperty::name).collect();
                        format!("~ {}: {}", change.path, names.join(" "))
                    }
                },
            });
        }
        lines
    }
}

#[tokio::test]
async fn what_differs_comes_by_name_with_what_of_it() {
    let trees = Trees::begin(&Fixture::usual()).await;
    let same = trees.file("same", "same").await;
    let deep = trees.file("deep", "1").await;
    let (old, new) = (trees.file("b", "old").await, trees.file("b", "other").await);
    let sub = trees.directory("sub", vec![deep.clone(), same.clone()]).await;
    let changed_sub = trees.directory("sub", vec![DirectoryEntry { mode: 0o600, uid: 7, ..deep }, same.clone()]).await;
    let link = entry("link", EntryType::Symlink, same.object);
    let gone = trees.directory("gone", vec![trees.file("x", "x").await]).await;
    let retyped = DirectoryEntry { name: "gone".into(), ..same.clone() };
    let touched = DirectoryEntry { modified: UnixNanos(6), ..same.clone() };
    let before = trees.directory("", vec![gone, sub, old, link.clone(), same]).await;
    let after = trees.directory("", vec![changed_sub, new, retyped, touched, trees.file("z", "").await]).await;
    let expected =
        ["~ b: content", "~ gone: type", "- gone/x", "- link", "~ same: time", "~ sub/deep: mode owner", "+ z"];
    assert_eq!(trees.diff(&before, &after).await, expected);
    assert_eq!(trees.diff(&before, &before).await, [""; 0]);
    let file = trees.file("f", "1").await;
    let bigger = DirectoryEntry { mode: 0o755, ..trees.file("f", "12").await };
    assert_eq!(trees.diff(&file, &bigger).await, ["~ : content mode"]);
}

#[tokio::test]
async fn directories_of_several_contents_are_compared_as_they_arrive() {
    let trees = Trees::begin(&Fixture::usual()).await;
    let same = trees.file("same", "same").await;
    let sub = trees.directory("", vec![same.clone()]).await;
    let named = |number: usize| match number % 3 {
        // Directories come before all others.
        0 => DirectoryEntry { name: format!("n{number:04}").as_str().into(), ..sub.clone() },
        _ => DirectoryEntry { name: format!("n{number:04}").as_str().into(), ..same.clone() },
    };
    let in_order = |numbers: &[usize]| {
        let mut entries: Vec<_> = numbers.iter().map(|number| named(*number)).collect();
        entries.sort_by_key(|entry| entry.entry_type != EntryType::Directory);
        entries
    };
    let all: Vec<usize> = (0..300).collect();
    let but = |left_out: &[usize]| all.iter().copied().filter(|n| !left_out.contains(n)).collect::<Vec<_>>();
    let before = trees.directory("", in_order(&but(&[7, 9]))).await;
    let after = trees.directory("", in_order(&but(&[0, 1, 299]))).await;
    assert!(before.object.unwrap().levels > 0);
    let expected = ["- n0000", "- n0000/same", "- n0001", "+ n0007", "+ n0009", "+ n0009/same", "- n0299"];
    assert_eq!(trees.diff(&before, &after).await, expected);
    // A name that has become a file.
    let mut retyped = in_order(&but(&[9]));
    let at = retyped.iter().position(|entry| &*entry.name == "n0010").unwrap();
    retyped.insert(at, DirectoryEntry { name: "n0009".into(), ..same.clone() });
    let whole = trees.directory("", in_order(&all)).await;
    let retyped = trees.directory("", retyped).await;
    assert_eq!(trees.diff(&whole, &retyped).await, ["~ n0009: type", "- n0009/same"]);
    // An order that kopia does not write.
    let mut entries = in_order(&all);
    entries.reverse();
    let reversed = trees.directory("", entries).await;
    let lines = trees.diff(&whole, &reversed).await;
    assert!(lines.last().unwrap().contains("not in the order of their names"), "{lines:?}");
}

#[tokio::test]
async fn what_cannot_be_read_is_named_and_hides_nothing_else() {
    let trees = Trees::begin(&Fixture::usual()).await;
    let lost = ObjectId {
        content: crate::format::content_id::ContentId::parse(&"ab".repeat(16)).unwrap(),
        ..ObjectId::direct(trees.object(None, b"1").await.content)
    };
    let broken = entry("d", EntryType::Directory, Some(lost));
    let odd = entry("odd", EntryType::Unknown("x".to_owned()), Some(lost));
    let before = trees.directory("", vec![broken, trees.file("f", "1").await, odd.clone()]).await;
    let whole = trees.directory("d", vec![trees.file("g", "1").await]).await;
    let after = trees.directory("", vec![whole, trees.file("f", "2").await, odd]).await;
    let expected = [
        format!("? d: content {} is missing in the repository", "ab".repeat(16)),
        "~ f: content".to_owned(),
        "? odd: the entry is damaged: its type \"x\" is not known".to_owned(),
    ];
    assert_eq!(trees.diff(&before, &after).await, expected);
    // Unsorted, with a name twice: the last counts.
    let twice = |last: DirectoryEntry, first: DirectoryEntry| vec![first, last];
    let (one, two) = (trees.file("f", "1").await, trees.file("f", "2").await);
    let before = trees.directory("", twice(one.clone(), two.clone())).await;
    let after = trees.directory("", vec![one]).await;
    assert_eq!(trees.diff(&before, &after).await, [""; 0]);
}
