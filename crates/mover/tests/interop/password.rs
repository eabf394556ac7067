//! A change of the password: kopia opens what ours has changed, and ours what kopia has.

use crate::ground::{PASSWORD, clock, create, open, random, take};
use crate::source::make_small;
use lifeboat_bucket::Directory;
use lifeboat_kopia::content::IndexSource;
use lifeboat_kopia::crypto::Password;
use lifeboat_kopia::format::repository::NewRepository;
use lifeboat_kopia::{KopiaError, OpenOptions, PasswordChanged, PasswordRequest, Repository};
use lifeboat_testbed::Kopia;
use std::path::Path;
use std::sync::Arc;

const SECOND: &str = "second-passw0rd";
const THIRD: &str = "third-passw0rd";

fn password(text: &str) -> Password {
    Password::new(text.to_owned())
}

fn store(path: &Path) -> Arc<Directory> {
    Arc::new(Directory::open(path).unwrap())
}

async fn change(path: &Path, old: &str, new: &str) -> Result<PasswordChanged, KopiaError> {
    let request = PasswordRequest { old: password(old), new: password(new), random: random(), clock: clock() };
    Repository::change_password(store(path), &request).await
}

/// Opens the repository for writing, which reads `kopia.blobcfg`, too.
async fn opens(path: &Path, scratch: &Path, with: &str) -> Result<usize, KopiaError> {
    let options = OpenOptions {
        scratch: scratch.to_owned(),
        clock: clock(),
        memory: 64 << 20,
        threads: 2,
        indexes: IndexSource::IndexBlobs,
    };
    let repository = Repository::open(store(path), password(with), options).await?;
    crate::ground::writer(&repository).await;
    Ok(repository.snapshots().await?.len())
}

/// Kopia with this password, which connects and verifies.
fn kopia(bucket: &Path, with: &str) -> Kopia {
    let kopia = Kopia::new("v0.23.1", with).unwrap();
    kopia.connect(bucket).unwrap();
    kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).unwrap();
    kopia
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kopia_opens_a_repository_whose_password_we_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
    make_small(&tree);
    create(&bucket, &NewRepository::default()).await;
    take(&*open(&bucket, folder.path()).await, &tree).await;
    assert_eq!(change(&bucket, PASSWORD, SECOND).await.unwrap(), PasswordChanged::Now);
    assert_eq!(change(&bucket, PASSWORD, SECOND).await.unwrap(), PasswordChanged::Before);
    let wrong = change(&bucket, PASSWORD, THIRD).await.unwrap_err();
    assert!(matches!(wrong, KopiaError::WrongPassword { .. }), "{wrong}");
    assert!(Kopia::new("v0.23.1", PASSWORD).unwrap().connect(&bucket).is_err());
    let second = kopia(&bucket, SECOND);
    second.run(&["snapshot", "create", tree.to_str().unwrap()]).unwrap();
    assert_eq!(opens(&bucket, folder.path(), SECOND).await.unwrap(), 2);
    // As it is between two steps of a change.
    std::fs::remove_file(bucket.join("kopia.blobcfg.f")).unwrap();
    kopia(&bucket, SECOND);
    assert_eq!(change(&bucket, SECOND, THIRD).await.unwrap(), PasswordChanged::Now);
    kopia(&bucket, THIRD);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_kopia_has_changed_opens_and_can_be_changed_here() {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
    make_small(&tree);
    let first = Kopia::new("v0.23.1", PASSWORD).unwrap();
    first.create(&bucket, &[]).unwrap();
    first.run(&["snapshot", "create", tree.to_str().unwrap()]).unwrap();
    let before = std::fs::read(bucket.join("kopia.repository.f")).unwrap();
    first.run(&["repository", "change-password", &format!("--new-password={SECOND}")]).unwrap();
    assert_eq!(opens(&bucket, folder.path(), SECOND).await.unwrap(), 1);
    // A change of kopia that was cut off after its first put: no password opens it.
    std::fs::write(bucket.join("kopia.repository.f"), before).unwrap();
    assert!(Kopia::new("v0.23.1", PASSWORD).unwrap().connect(&bucket).is_err());
    change(&bucket, PASSWORD, SECOND).await.unwrap();
    kopia(&bucket, SECOND);
    assert_eq!(opens(&bucket, folder.path(), SECOND).await.unwrap(), 1);
}
