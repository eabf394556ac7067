//! Repositories that kopia writes are read.

use crate::fixture::{failures, options, run};
use crate::ground::{PASSWORD, open, verify};
use crate::source::{change, make};
use crate::tree::rows;
use lifeboat_testbed::{Kopia, OLD_KOPIA_VERSIONS};

/// Two snapshots of kopia, the second incremental, come back as the tree was each time.
async fn reads_what_is_written_by(version: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (bucket, tree) = (folder.path().join("repository"), folder.path().join("tree"));
    let kopia = Kopia::new(version, PASSWORD).unwrap();
    std::fs::create_dir(&bucket).unwrap();
    kopia.create(&bucket, &[]).unwrap();
    make(&tree);
    let mut wanted = Vec::new();
    for n in 0..2 {
        if n == 1 {
            change(&tree);
        }
        kopia.run(&["snapshot", "create", tree.to_str().unwrap()]).unwrap();
        let mut tree = rows(&tree);
        if version == "v0.10.7" {
            // It stores of the mode of an entry nothing but the permissions.
            tree.values_mut().for_each(|row| row.mode &= 0o777);
        }
        wanted.push(tree);
    }
    assert_ne!(wanted[0], wanted[1]);

    let repository = open(&bucket, folder.path()).await;
    let snapshots = repository.snapshots().await.unwrap();
    assert_eq!(snapshots.len(), 2);
    let (report, problems) = verify(&repository).await;
    assert_eq!((problems, report.snapshots, report.damaged_index_entries), (vec![], 2, 0));
    for (n, (snapshot, wanted)) in snapshots.into_iter().zip(wanted).enumerate() {
        let document = snapshot.document.unwrap();
        let source = (document.source.user.as_str(), document.source.host.as_str(), document.source.path.as_str());
        assert_eq!(source, ("user", "host", tree.to_str().unwrap()));
        let target = folder.path().join(format!("target-{n}"));
        let report = run(&repository, &document.root.unwrap(), &options(&target)).await.unwrap();
        assert_eq!(failures(&report), []);
        let restored = rows(&target);
        assert_eq!(restored, wanted, "snapshot {n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kopia_0_23_writes_comes_back() {
    reads_what_is_written_by("v0.23.1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_kopia_0_22_writes_comes_back() {
    reads_what_is_written_by("v0.22.3").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "builds four kopia: make test-long"]
async fn long_what_older_versions_of_kopia_write_comes_back() {
    for version in OLD_KOPIA_VERSIONS {
        reads_what_is_written_by(version).await;
    }
}
