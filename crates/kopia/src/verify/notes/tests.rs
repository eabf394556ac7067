use super::*;
use crate::crypto::HashAlgorithm;
use crate::format::content_id::{ContentHash, ContentId};
use crate::testing::Fixture;
use std::io::Write;
use std::sync::atomic::{AtomicI64, Ordering};

const NOW: UnixNanos = UnixNanos(1_795_900_000_000_000_000);

fn clock(now: i64) -> Clock {
    Arc::new(move || UnixNanos(now))
}

fn at(path: &Path, now: i64) -> VerifyNotes {
    VerifyNotes::open_at(path, clock(now), false).unwrap()
}

#[test]
fn notes_are_there_again_until_the_verification_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/a.verification");
    let first = at(&path, NOW.0);
    assert_eq!((first.goes_on_from(), first.has(7)), (None, false));
    [7, u64::MAX, 3].iter().for_each(|note| first.add(*note));
    drop(first);
    // What a killed process has left of a note counts for nothing, and is written over.
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"cut").unwrap();
    let second = at(&path, NOW.0 + KEPT);
    assert_eq!(second.goes_on_from(), Some(NOW));
    assert_eq!([3, 7, u64::MAX, 4].map(|note| second.has(note)), [true, true, true, false]);
    second.add(4);
    drop(second);
    let third = at(&path, NOW.0 + KEPT + 1);
    assert_eq!((third.goes_on_from(), third.has(4), third.has(3)), (Some(NOW), true, true));
    third.remove();
    assert!(!path.exists());
    drop(third);
    assert_eq!(at(&path, NOW.0 + 1).goes_on_from(), None);
}

#[test]
fn notes_that_are_old_or_of_the_future_or_no_notes_begin_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.verification");
    for (now, from_start) in [(NOW.0 + KEPT + 1, false), (NOW.0 - 1, false), (NOW.0, true)] {
        let _ = std::fs::remove_file(&path);
        at(&path, NOW.0).add(1);
        let notes = VerifyNotes::open_at(&path, clock(now), from_start).unwrap();
        assert_eq!((notes.goes_on_from(), notes.has(1)), (None, false), "{now} {from_start}");
        notes.add(2);
        drop(notes);
        assert_eq!(at(&path, now).goes_on_from(), Some(UnixNanos(now)));
    }
    std::fs::write(&path, b"something else that is longer than a header").unwrap();
    at(&path, NOW.0).add(5);
    assert!(at(&path, NOW.0).has(5));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 32);
}

/// A verification that is cut off again and again, for longer than notes without a later one count.
#[test]
fn a_verification_that_takes_longer_than_a_week_keeps_its_first_notes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.verification");
    let now = Arc::new(AtomicI64::new(NOW.0));
    for day in 0..20 {
        let clock = Arc::clone(&now);
        let notes = VerifyNotes::open_at(&path, Arc::new(move || UnixNanos(clock.load(Ordering::Relaxed))), false);
        let notes = notes.unwrap();
        assert!((0..day).all(|note| notes.has(note)), "{day}");
        now.fetch_add(DAY, Ordering::Relaxed);
        notes.add(day);
    }
    assert_eq!(at(&path, NOW.0 + 20 * DAY).goes_on_from(), Some(NOW));
}

#[test]
fn notes_that_another_process_uses_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.verification");
    let first = at(&path, NOW.0);
    first.add(1);
    let other = VerifyNotes::open_at(&path, clock(NOW.0), true).unwrap_err().to_string();
    assert!(other.contains("the same verification runs already") && other.contains("a.verification"), "{other}");
    // Neither does one that would remove them.
    at(&folder.path().join("b.verification"), NOW.0 + KEPT + 1).remove();
    first.add(2);
    drop(first);
    let later = at(&path, NOW.0);
    assert!(later.has(1) && later.has(2));
}

#[test]
fn notes_that_have_no_room_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.verification");
    let notes = at(&path, NOW.0);
    notes.log().left = 1;
    notes.add(1);
    assert_eq!(notes.failure(), None);
    notes.add(2);
    let why = format!("{} has notes of 4194304 contents, and takes no more", path.display());
    assert_eq!(notes.failure(), Some(why));
}

#[test]
fn old_notes_of_others_go_and_other_files_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    at(&path("old.verification"), NOW.0).add(1);
    std::fs::copy(path("old.verification"), path("old.txt")).unwrap();
    std::fs::write(path("b.verification"), b"of somebody else, and longer").unwrap();
    at(&path("young.verification"), NOW.0 + DAY).add(1);
    at(&path("new.verification"), NOW.0 + KEPT + 1).add(1);
    let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["b.verification", "new.verification", "old.txt", "young.verification"]);
}

/// Contents that maintenance has moved are read again, those that an index tells otherwise, and those of another pack.
#[test]
fn a_content_at_another_place_has_another_note() {
    let crypto = Fixture::usual().crypto(HashAlgorithm::Blake2b256_128);
    let id = |byte| ContentId::new(None, ContentHash::new(&[byte; 16]).unwrap()).unwrap();
    let entry = Entry {
        id: id(1),
        timestamp: 1,
        is_deleted: false,
        pack: "p1".to_owned(),
        offset: 5,
        packed_length: 9,
        original_length: 7,
        compression: 0,
        format_version: 3,
        key: 0,
    };
    let extent = Extent { start: 0, length: 7, is_compressed: false, content: id(1) };
    let pack = ListedPack { length: 40, modified: Some(NOW) };
    let noted = |entry: Entry, extent: &Extent| note(&crypto, &entry, pack, extent).unwrap();
    let of_pack = |pack| note(&crypto, &entry, pack, &extent);
    let known = noted(entry.clone(), &extent);
    assert_eq!(noted(Entry { timestamp: 2, ..entry.clone() }, &Extent { start: 9, ..extent }), known);
    assert_eq!(of_pack(ListedPack { modified: None, ..pack }), None);
    let others = [
        noted(Entry { pack: "p2".to_owned(), ..entry.clone() }, &extent),
        noted(Entry { id: id(2), ..entry.clone() }, &extent),
        noted(Entry { offset: 6, ..entry.clone() }, &extent),
        noted(Entry { packed_length: 8, ..entry.clone() }, &extent),
        noted(Entry { original_length: 8, ..entry.clone() }, &extent),
        noted(Entry { compression: 1, ..entry.clone() }, &extent),
        noted(entry.clone(), &Extent { length: 6, ..extent }),
        noted(entry.clone(), &Extent { is_compressed: true, ..extent }),
        of_pack(ListedPack { length: 41, ..pack }).unwrap(),
        of_pack(ListedPack { modified: Some(UnixNanos(NOW.0 + 1)), ..pack }).unwrap(),
    ];
    assert!(others.iter().all(|other| *other != known), "{known} {others:?}");
}
