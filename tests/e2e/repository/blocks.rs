//! `lifeboat repo snapshot --device-form blocks`: an image of a device in the form of Velero's uploader of blocks.

use crate::devices::Loop;
use crate::repository_ground::RepositoryGround;
use lifeboat_testbed::Kopia;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::SystemTime;

const PASSWORD: &str = "written-passw0rd";
/// The length of the image: three blocks and a part of one.
const LENGTH: usize = (3 << 20) + 512;
const SOURCE: [&str; 6] = ["--user", "default", "--host", "default", "--source", "mover/velero-block/shop/data"];

#[test]
fn an_image_in_blocks_comes_back_with_its_length_and_changes_are_enough() {
    let ground = RepositoryGround::new("repository", PASSWORD);
    ground.ok(&["create"]);
    let (image, back) = (ground.path("image"), ground.path("back"));
    let (given, into) = (image.display().to_string(), back.display().to_string());
    let mut bytes: Vec<u8> = (0..LENGTH).map(|at| ((at * at) >> 5) as u8).collect();
    bytes[1 << 20..2 << 20].fill(0);
    fs::write(&image, &bytes).expect("write");
    let take = |more: &[&str]| {
        let flags = [&["snapshot", &given, "--device-form", "blocks"], &SOURCE[..], more].concat();
        ground.json(&flags)
    };
    let first = take(&[]);
    assert_eq!((&first["bytes"], &first["bytesRead"]), (&(4 << 20).into(), &LENGTH.into()), "{first}");
    let tags = serde_json::json!({"bdev-source-size": LENGTH.to_string(), "snapshot-uploader": "velero-block"});
    assert_eq!(first["tags"], tags, "{first}");
    ground.ok(&["restore", "latest", &into]);
    assert!(fs::read(&back).expect("a file") == bytes);
    let made = back.metadata().expect("a file");
    assert_eq!(made.mode() & 0o7777, 0o600);
    assert!(made.modified().expect("a time") > SystemTime::UNIX_EPOCH);
    // The path of the device in the snapshot names it as well.
    let by_path = ground.path("by-path");
    ground.ok(&["restore", "latest:shop-data", &by_path.display().to_string()]);
    assert!(fs::read(&by_path).expect("a file") == bytes);
    let printed = ground.command(&["cat", "latest:shop-data"]).output().expect("it runs").stdout;
    assert!(printed == bytes);

    // Only the block that has changed is read, and the last one, which is not full.
    bytes[(1 << 20) + 7] = 9;
    File::options().write(true).open(&image).and_then(|file| file.write_all_at(&[9], (1 << 20) + 7)).expect("write");
    let changed = ground.path("changed");
    fs::write(&changed, r#"[{"offset":1048583,"length":1,"exists":"true"}]"#).expect("write");
    let changed = changed.display().to_string();
    let second = take(&["--since", "latest", "--changed", &changed]);
    assert_eq!((&second["bytesRead"], &second["parents"]), (&((1 << 20) + 512).into(), &1.into()), "{second}");
    assert_eq!(second["root"], take(&[])["root"]);
    let id = second["id"].as_str().expect("an ID");
    ground.ok(&["restore", id, &into]);
    assert!(fs::read(&back).expect("a file") == bytes);

    let kopia = Kopia::new("v0.23.1", PASSWORD).expect("kopia");
    kopia.connect(&ground.path("repository")).expect("it connects");
    kopia.run(&["snapshot", "verify", "--verify-files-percent=100"]).expect("it verifies");
    let by_kopia = ground.path("by-kopia");
    kopia.run(&["snapshot", "restore", id, &by_kopia.display().to_string()]).expect("it restores");
    bytes.resize(4 << 20, 0);
    assert!(fs::read(by_kopia.join("shop-data")).expect("the image") == bytes);
}

#[test]
fn the_image_of_a_device_that_was_saved_as_a_stream_is_for_its_user() {
    let ground = RepositoryGround::new("repository", PASSWORD);
    ground.ok(&["create"]);
    let bytes: Vec<u8> = (0..1 << 20).map(|at: usize| ((at * at) >> 5) as u8).collect();
    let (backing, back) = (ground.path("backing"), ground.path("back"));
    fs::write(&backing, &bytes).expect("write");
    let Some(device) = Loop::over(&backing) else { return };
    ground.ok(&["snapshot", &device.0.display().to_string()]);
    ground.ok(&["restore", "latest", &back.display().to_string()]);
    assert!(fs::read(&back).expect("a file") == bytes);
    assert_eq!(back.metadata().expect("a file").mode() & 0o7777, 0o600);
}

#[test]
fn changes_that_fit_no_device_or_no_snapshot_are_refused() {
    let ground = RepositoryGround::new("repository", PASSWORD);
    ground.ok(&["create"]);
    let (image, changed) = (ground.path("image"), ground.path("changed"));
    fs::write(&image, [7; 4096]).expect("write");
    fs::write(&changed, r#"[{"offset":4096,"length":1}]"#).expect("write");
    let (image, changed) = (image.display().to_string(), changed.display().to_string());
    let take = |more: &[&str]| {
        let flags = [&["snapshot", &image], &SOURCE[..], more].concat();
        ground.repo(&flags)
    };
    let blocks = ["--device-form", "blocks"];
    let by_changes = [&blocks[..], &["--since", "latest", "--changed", &changed]].concat();
    let refused = take(&by_changes);
    let why = "--since latest: look for it among the snapshots of default@default:mover/velero-block/shop/data";
    assert!(refused.code == 1 && refused.err.contains(why), "{refused:?}");
    assert_eq!(take(&blocks).code, 0);
    let refused = take(&by_changes);
    let why = "the changed bytes from 4096 to 4097 are not inside of its 4096 bytes";
    assert!(refused.code == 1 && refused.err.contains(why), "{refused:?}");
    let folder = ground.folder.path().display().to_string();
    let refused = ground.repo(&[&["snapshot", &folder], &blocks[..]].concat());
    assert!(refused.code == 1 && refused.err.contains("it is no file or block device"), "{refused:?}");
    assert_eq!(ground.json(&["snapshots"]).as_array().map(Vec::len), Some(1));
}
