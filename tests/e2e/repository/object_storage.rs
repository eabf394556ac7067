//! `lifeboat repo` on repositories in a bucket of S3, with the credentials of the environment.

use crate::support::{Run, program, run};
use lifeboat_testbed::S3Server;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const BUCKET: &str = "volumes";
const NAMESPACE: &str = "shop";

/// A server with an empty bucket, and a folder with a tree.
struct BucketGround {
    server: S3Server,
    folder: TempDir,
}

impl BucketGround {
    fn new() -> Self {
        let server = S3Server::start().expect("an S3 server");
        server.make_bucket(BUCKET).expect("a bucket");
        let ground = Self { server, folder: tempfile::tempdir().expect("a folder") };
        fs::create_dir_all(ground.path("tree/d")).expect("folders");
        fs::write(ground.path("tree/d/one"), "1").expect("write");
        // Longer than the pieces in which it is uploaded and read.
        let large: Vec<u8> =
            (0..3_000_000_u64).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()).collect();
        fs::write(ground.path("tree/large"), large).expect("write");
        for name in ["tree/d/one", "tree/large"] {
            // Whoever finds files that were written just now reads them again.
            let file = fs::File::options().write(true).open(ground.path(name)).expect("a file");
            file.set_modified(SystemTime::now() - Duration::from_secs(3600)).expect("set");
        }
        ground
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn url(&self, prefix: &str) -> String {
        format!("s3://{BUCKET}/{prefix}?region={}&endpoint={}", self.server.region(), self.server.endpoint())
    }

    /// `lifeboat repo ARGS`, with this secret key.
    fn run(&self, args: &[&str], secret: &str) -> Run {
        let mut command = Command::new(program());
        command.arg("repo").args(args).arg("--password-file").arg(self.path("password"));
        command.env("KUBECONFIG", self.path("none")).env("HOME", self.folder.path()).env_remove("XDG_STATE_HOME");
        command.env("AWS_ACCESS_KEY_ID", self.server.access_key()).env("AWS_SECRET_ACCESS_KEY", secret);
        run(&mut command)
    }

    /// The output of a command on the repository that these flags name, which has to succeed.
    fn ok(&self, args: &[&str], repository: &[&str]) -> String {
        let run = self.run(&[args, repository].concat(), self.server.secret_key());
        assert_eq!(run.code, 0, "{args:?}: {run:?}");
        run.out
    }

    fn json(&self, args: &[&str], repository: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[args, &["-o", "json"]].concat(), repository)).expect("JSON")
    }

    /// Saves, lists, reads, proves and maintains a repository that is there.
    fn use_repository(&self, repository: &[&str]) {
        let id = self.ok(&["snapshot", &self.text("tree"), "--source", "/data"], repository);
        let second = self.json(&["snapshot", &self.text("tree"), "--source", "/data"], repository);
        assert_eq!((&second["files"], &second["filesRead"]), (&2.into(), &0.into()), "{second}");
        let listed = self.json(&["snapshots"], repository);
        assert_eq!((listed[0]["id"].as_str(), listed.as_array().map(Vec::len)), (Some(id.trim_end()), Some(2)));
        assert_eq!(self.ok(&["ls", "latest", "--recursive"], repository), "d/\nlarge\nd/one\n");
        assert_eq!(self.ok(&["cat", "latest:d/one"], repository), "1");
        let back = self.path("back");
        let report = self.json(&["restore", "latest", &self.text("back"), "--no-owners"], repository);
        assert_eq!((&report["files"], &report["failed"]), (&2.into(), &0.into()), "{report}");
        for name in ["d/one", "large"] {
            let saved = fs::read(self.path("tree").join(name)).expect("a file");
            assert!(fs::read(back.join(name)).expect("a file") == saved, "{name}");
        }
        fs::remove_dir_all(back).expect("remove");
        let verified = self.json(&["verify"], repository);
        assert_eq!((&verified["problemCount"], &verified["snapshots"]), (&0.into(), &2.into()), "{verified}");
        let statistics = self.json(&["stats"], repository);
        assert_eq!((&statistics["snapshotCount"], &statistics["problems"]), (&2.into(), &Value::Array(vec![])));
        let diff = self.json(&["diff", id.trim_end(), "latest"], repository);
        let none = serde_json::json!({"added": 0, "removed": 0, "changed": 0, "notCompared": 0});
        assert_eq!(diff["counts"], none, "{diff}");
        self.ok(&["maintenance", "set", "--owner", "me"], repository);
        let maintained = self.json(&["maintenance", "run", "--full"], repository);
        let steps = maintained["steps"].as_array().expect("steps");
        assert!(steps.iter().all(|step| step["error"].is_null()), "{maintained}");
        assert_eq!(self.json(&["verify"], repository)["problemCount"], 0);
    }
}

#[test]
fn a_repository_in_a_bucket_of_s3_is_made_used_and_given_another_password() {
    let ground = BucketGround::new();
    let url = ground.url("deep/er");
    let repository = ["--repo", url.as_str()];
    let made = ground.ok(&["create"], &repository);
    assert!(made.contains("Made a random password in the file "), "{made}");
    // Names are whole keys there, without folders.
    assert!(ground.server.file(BUCKET, "deep/er/kopia.repository").is_file());
    let again = ground.run(&["create", "--repo", &url], ground.server.secret_key());
    assert!(again.code == 1 && again.err.contains("holds a kopia repository already"), "{again:?}");
    ground.use_repository(&repository);
    fs::write(ground.path("new"), "second-passw0rd").expect("write");
    ground.ok(&["password", "change", "--new-password-file", &ground.text("new")], &repository);
    let refused = ground.run(&["snapshots", "--repo", &url], ground.server.secret_key());
    assert!(refused.code == 1 && refused.err.contains("the password does not open the repository"), "{refused:?}");
    fs::copy(ground.path("new"), ground.path("password")).expect("copy");
    assert_eq!(ground.json(&["verify"], &repository)["problemCount"], 0);
    let denied = ground.run(&["snapshots", "--repo", &url], "a-wrong-secret");
    assert!(denied.code == 1 && !denied.err.contains("a-wrong-secret"), "{denied:?}");
    let missing = ground.url("nothing");
    let missing = ground.run(&["snapshots", "--repo", &missing], ground.server.secret_key());
    assert!(missing.code == 1 && missing.err.contains("holds no kopia repository"), "{missing:?}");
}

#[test]
fn the_repository_of_a_namespace_is_found_in_the_bucket_of_a_location() {
    let ground = BucketGround::new();
    let url = ground.url("backups");
    let repository = ["--velero", NAMESPACE, "--bucket", url.as_str()];
    let refused = ground.run(&[&["create"], &repository[..]].concat(), ground.server.secret_key());
    assert!(refused.code == 1 && refused.err.contains("velero-repo-credentials"), "{refused:?}");
    fs::write(ground.path("password"), "static-passw0rd").expect("write");
    ground.ok(&["create"], &repository);
    assert!(ground.server.file(BUCKET, "backups/kopia/shop/kopia.repository").is_file());
    ground.use_repository(&repository);
    // Velero's clients are all of one name, and tags are theirs as they are.
    let tagged = ground.json(&["snapshot", &ground.text("tree/d"), "--tag", "backup=nightly"], &repository);
    assert_eq!(tagged["tags"], serde_json::json!({"backup": "nightly"}), "{tagged}");
    let listed = ground.json(&["snapshots"], &repository);
    let source = |at: usize| (listed[at]["source"]["user"].as_str(), listed[at]["source"]["host"].as_str());
    assert_eq!([source(0), source(2)], [(Some("default"), Some("default")); 2], "{listed}");
    assert_eq!(ground.json(&["maintenance", "info"], &repository)["owner"], "default@default");
}
