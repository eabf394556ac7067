//! `lifeboat repo mount`: snapshots of kopia and restic as folders.

use super::reading::ground_of;
use super::restic::unpack;
use crate::devices::can_use;
use crate::repository_ground::RepositoryGround;
use crate::support::{eventually, program};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Mounts a snapshot, and waits until its folder shows something.
fn mount(ground: &RepositoryGround, repository: &str, snapshot: &str) -> (Child, PathBuf) {
    mount_with(ground, repository, snapshot, &[])
}

fn mount_with(ground: &RepositoryGround, repository: &str, snapshot: &str, flags: &[&str]) -> (Child, PathBuf) {
    let folder = ground.path("mounted");
    let _ = std::fs::create_dir(&folder);
    let mut command = Command::new(program());
    command.args(["repo", "mount", snapshot]).args(flags).arg(&folder).arg("--repo").arg(ground.path(repository));
    command.arg("--password-file").arg(ground.path("password")).env("HOME", ground.folder.path());
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    eventually("the snapshot is mounted", || names(&folder).is_ok_and(|names| !names.is_empty()));
    (child, folder)
}

/// Sends SIGTERM, and waits for the end.
fn stop(mut child: Child, folder: &Path) {
    let ended = Command::new("kill").arg(child.id().to_string()).status().expect("kill runs");
    assert!(ended.success());
    eventually("the command ends", || child.try_wait().expect("its state").is_some());
    let output = child.wait_with_output().expect("its output");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains(&format!("is mounted on {}; Ctrl-C, or umount", folder.display())), "{text}");
    assert_eq!(names(folder).expect("a folder"), Vec::<String>::new());
}

fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// True where this process may mount; else says that nothing was tested.
fn can_mount() -> bool {
    can_use("/dev/fuse", "fuse")
}

#[test]
fn others_look_into_a_mounted_snapshot_only_where_that_is_asked_for() {
    if !can_mount() {
        return;
    }
    let ground = ground_of("default");
    std::fs::set_permissions(ground.folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    let read_by_nobody = |file: &Path| {
        let output = Command::new("cat").arg(file).uid(65534).gid(65534).output().expect("cat runs");
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for (flags, expected) in [(&[][..], (false, "")), (&["--allow-other"], (true, "1"))] {
        let (child, folder) = mount_with(&ground, "default", "latest:d", flags);
        let (can_read, text) = read_by_nobody(&folder.join("one"));
        stop(child, &folder);
        assert_eq!((can_read, text.as_str()), expected, "{flags:?}");
    }
}

#[test]
fn snapshots_of_kopia_and_restic_are_looked_into_as_folders() {
    if !can_mount() {
        return;
    }
    let ground = ground_of("default");
    let (child, folder) = mount(&ground, "default", "latest:d");
    assert_eq!(names(&folder).expect("a folder"), ["one", "sub"]);
    assert_eq!(std::fs::read_to_string(folder.join("one")).expect("a file"), "1");
    stop(child, &folder);
    let (child, folder) = mount(&ground, "default", "all");
    let all = names(&folder).expect("a folder");
    assert!(all.len() == 1 && all[0].ends_with("_ae02d554dcdfc9389b178ef2f5463a15"), "{all:?}");
    assert_eq!(std::fs::read_to_string(folder.join(&all[0]).join("d/one")).expect("a file"), "1");
    stop(child, &folder);
    // Of one file there is a folder with that file.
    let (child, folder) = mount(&ground, "default", "latest:d/one");
    assert_eq!(names(&folder).expect("a folder"), ["one"]);
    stop(child, &folder);

    unpack("v2", &ground.path("v2"));
    let (child, folder) = mount(&ground, "v2", "latest");
    assert_eq!(std::fs::read_to_string(folder.join("d/one")).expect("a file"), "1\n");
    assert_eq!(std::fs::read_link(folder.join("link")).expect("a link"), Path::new("d/e/deep"));
    stop(child, &folder);
}
