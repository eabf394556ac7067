//! `lifeboat repo password change`.

use crate::repository_ground::RepositoryGround;
use std::fs;

const OLD: &str = "first-passw0rd";

/// A repository in this folder with its password.
fn ground_at(folder: &str, password: &str) -> RepositoryGround {
    let ground = RepositoryGround::new(folder, password);
    ground.ok(&["create"]);
    ground
}

/// `lifeboat repo password change` to the password in the file `new`.
fn change<'a>(new: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["password", "change", "--new-password-file", new][..], more].concat()
}

#[test]
fn after_a_change_the_new_password_alone_opens_the_repository() {
    let ground = ground_at("repository", OLD);
    let new = ground.path("new").display().to_string();
    fs::write(&new, "second-passw0rd\n").expect("write");
    let changed = ground.ok(&change(&new, &[]));
    assert!(changed.starts_with("The password is changed: "), "{changed}");
    assert!(!changed.contains("second-passw0rd") && !changed.contains(OLD), "{changed}");
    let refused = ground.repo(&["snapshots"]);
    assert!(refused.err.contains("the password does not open the repository"), "{refused:?}");
    // Once more it finds nothing to do.
    let again = ground.ok(&change(&new, &[]));
    assert!(again.starts_with("Nothing was left to do"), "{again}");
    fs::copy(&new, ground.path("password")).expect("copy");
    ground.ok(&["snapshots"]);
    let same = ground.repo(&change(&new, &[]));
    assert!(same.code == 1 && same.err.contains("nothing was changed: the new password is the one"), "{same:?}");
    fs::write(ground.path("password"), "wrong").expect("write");
    fs::write(&new, "third").expect("write");
    let wrong = ground.repo(&change(&new, &[]));
    assert!(wrong.code == 1 && wrong.err.contains("nothing was changed: look at "), "{wrong:?}");
    fs::write(&new, "\n").expect("write");
    assert!(ground.repo(&change(&new, &[])).err.contains("is empty"));
}

#[test]
fn a_repository_that_velero_opens_keeps_its_password_without_force() {
    for (folder, password) in [("bucket/kopia/shop", OLD), ("repository", "static-passw0rd")] {
        let ground = ground_at(folder, password);
        let new = ground.path("new").display().to_string();
        fs::write(&new, "second-passw0rd").expect("write");
        let refused = ground.repo(&change(&new, &[]));
        assert!(refused.code == 1 && refused.err.contains("velero-repo-credentials"), "{refused:?}");
        ground.ok(&["snapshots"]);
        ground.ok(&change(&new, &["--force"]));
        fs::copy(&new, ground.path("password")).expect("copy");
        ground.ok(&["snapshots"]);
    }
}

#[test]
fn a_change_that_was_cut_off_is_finished_by_the_same_command() {
    let ground = ground_at("repository", OLD);
    let format = ground.path("repository/kopia.repository.f");
    let before = fs::read(&format).expect("a blob");
    let new = ground.path("new").display().to_string();
    fs::write(&new, "second-passw0rd").expect("write");
    ground.ok(&change(&new, &[]));
    // As kopia leaves it between its two puts: neither password opens it for writing.
    fs::write(&format, before).expect("write");
    assert_eq!(ground.repo(&["snapshot", &ground.path("password").display().to_string()]).code, 1);
    ground.ok(&change(&new, &[]));
    fs::copy(&new, ground.path("password")).expect("copy");
    ground.ok(&["snapshot", &ground.path("password").display().to_string()]);
}
