//! Conformance suite that all [`Records`] pass. Panics at the first deviation; there must be no notes before.

use crate::{Records, RecordsError};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Runs the suite on notes that are empty.
///
/// # Panics
/// When they deviate.
pub async fn run(records: Arc<dyn Records>) {
    let records = &*records;
    assert_eq!(records.read("a").await, Ok(None));
    assert_eq!(keys(records).await, set(&[]));

    write(records, &[("a", Some(b"one")), ("b", Some(b"")), ("c.d-e_F", Some(&[0, 255]))]).await;
    assert_eq!(keys(records).await, set(&["a", "b", "c.d-e_F"]));
    assert_eq!(records.read("a").await, Ok(Some(Bytes::from_static(b"one"))));
    assert_eq!(records.read("b").await, Ok(Some(Bytes::new())), "an empty note is a note");
    assert_eq!(records.read("c.d-e_F").await, Ok(Some(Bytes::from_static(&[0, 255]))), "bytes, not text");
    let found = [("c.d-e_F".to_owned(), Bytes::from_static(&[0, 255]))].into();
    assert_eq!((records.read_all("c").await, records.read_all("d").await), (Ok(found), Ok(BTreeMap::new())));
    assert_eq!(records.read_all("").await.map(|all| all.len()), Ok(3));

    // Replaced, removed, and what is not named stays; what is not there can be removed.
    write(records, &[("a", Some(b"two")), ("b", None), ("none", None)]).await;
    assert_eq!(keys(records).await, set(&["a", "c.d-e_F"]));
    assert_eq!(records.read("a").await, Ok(Some(Bytes::from_static(b"two"))));
    assert_eq!(records.read("b").await, Ok(None));
    write(records, &[]).await;

    // One that is no key keeps the others from being written.
    for key in ["", "..", "a/b", "a b"] {
        let notes = BTreeMap::from([("a".to_owned(), Some(Bytes::from_static(b"3"))), (key.to_owned(), None)]);
        assert_eq!(records.write(notes).await, Err(RecordsError::Key(key.to_owned())));
    }
    assert_eq!(records.read("a").await, Ok(Some(Bytes::from_static(b"two"))));

    at_the_same_time(records).await;
    given_up(records).await;
}

/// Of two writes at the same time none loses the notes of the other.
async fn at_the_same_time(records: &dyn Records) {
    let one = write(records, &[("x", Some(b"1")), ("both", Some(b"x"))]);
    let other = write(records, &[("y", Some(b"2")), ("both", Some(b"y"))]);
    // One task takes turns at each wait; that is enough to tell read-change-write apart from a change.
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    let (mut one_ended, mut other_ended) = (false, false);
    std::future::poll_fn(|context| {
        one_ended = one_ended || one.as_mut().poll(context).is_ready();
        other_ended = other_ended || other.as_mut().poll(context).is_ready();
        if one_ended && other_ended { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert!(keys(records).await.is_superset(&set(&["x", "y", "both"])));
    let both = records.read("both").await.expect("it was written");
    assert!([Some(Bytes::from_static(b"x")), Some(Bytes::from_static(b"y"))].contains(&both), "{both:?}");
}

/// A write that is given up under way has had its effect or none, before the next one has its own.
async fn given_up(records: &dyn Records) {
    {
        let mut older = std::pin::pin!(write(records, &[("a", Some(b"older"))]));
        std::future::poll_fn(|context| {
            let _ = older.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
    }
    write(records, &[("a", Some(b"newer"))]).await;
    assert_eq!(records.read("a").await, Ok(Some(Bytes::from_static(b"newer"))));
}

async fn write(records: &dyn Records, notes: &[(&str, Option<&'static [u8]>)]) {
    let notes = notes.iter().map(|(key, note)| ((*key).to_owned(), note.map(Bytes::from_static)));
    records.write(notes.collect()).await.expect("they are written");
}

async fn keys(records: &dyn Records) -> BTreeSet<String> {
    records.keys().await.expect("the keys")
}

fn set(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}
