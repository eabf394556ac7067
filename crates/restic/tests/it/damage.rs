//! Damaged repositories.

use crate::fixture::{PASSWORD, bucket, contents, files, open};

/// Numbers that look like random ones, the same each time.
fn numbers() -> impl FnMut(usize) -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).unwrap()).unwrap()
    }
}

/// A bit of a file is another, or the file ends early, or is gone: what cannot be read is told, and the rest is right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_never_gives_a_wrong_byte() {
    let scratch = tempfile::tempdir().unwrap();
    let mut next = numbers();
    for version in ["v1", "v2"] {
        let whole = files(version);
        let right = contents(&open(bucket(&whole).await, PASSWORD, scratch.path()).await.unwrap()).await.unwrap();
        assert!(right.values().all(Result::is_ok), "{right:?}");
        let mut told = 0;
        let keys: Vec<&String> = whole.keys().collect();
        let mut histories = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            histories.push((*key, number % 3));
        }
        for (key, how) in histories {
            let mut damaged = whole.clone();
            let bytes = damaged.get_mut(key).unwrap();
            match how {
                0 => {
                    let at = next(bytes.len());
                    bytes[at] ^= 1 << next(8);
                }
                1 => bytes.truncate(next(bytes.len())),
                _ => drop(damaged.remove(key)),
            }
            let Ok(repository) = open(bucket(&damaged).await, PASSWORD, scratch.path()).await else {
                told += 1;
                continue;
            };
            let Ok(read) = contents(&repository).await else {
                told += 1;
                continue;
            };
            let wrong = read.iter().filter(|(_, bytes)| bytes.is_err()).count();
            told += usize::from(wrong > 0);
            for (path, bytes) in read {
                // A folder that cannot be read stands under its own path.
                if let (Ok(bytes), right) = (&bytes, right.get(&path)) {
                    assert_eq!(Some(Ok(bytes.clone())), right.cloned(), "{version} {key}");
                }
            }
        }
        assert!(told > 3, "{version}: {told} of {} told", keys.len());
    }
}
