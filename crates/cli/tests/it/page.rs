//! A page of docs/ as a person at a shell follows it: its commands run in their order, and what it shows of their output is
//! compared.

use crate::ground::{BUCKET, Server};
use crate::support::{Bed, Run, run, spawn_logged};
use lifeboat_testbed::{Binaries, S3Server};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A block for a shell, without lines that only set variables, and what the page shows of its output.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    commands: String,
    shown: Option<String>,
}

/// The text of a page.
pub(crate) fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The blocks of `sh`; a block of `text` is what the one before it prints.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for block in page.split("```").skip(1).step_by(2) {
        let (language, lines) = block.split_once('\n').expect("lines");
        match language {
            "sh" => {
                let kept = lines.lines().filter(|line| !line.starts_with("export "));
                steps.push(Step { commands: kept.map(|line| format!("{line}\n")).collect(), shown: None });
            }
            "text" => {
                let step = steps.last_mut().expect("commands before what they print");
                assert_eq!(step.shown.replace(lines.to_owned()), None, "two texts of one block:\n{}", step.commands);
            }
            _ => {}
        }
    }
    steps.retain(|step| !step.commands.is_empty());
    steps
}

/// Returns true if a page shows the output as it is. Dots stand for any text, in a line of their own for any lines.
/// Blanks and empty lines do not count.
fn is_shown(shown: &str, printed: &str) -> bool {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.filter(|line| !line.is_empty()).collect()
    };
    are_lines(&lines(shown), &lines(printed))
}

fn are_lines(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line == "…" => (0..=printed.len()).any(|at| are_lines(rest, &printed[at..])),
        Some((line, rest)) => {
            printed.split_first().is_some_and(|(first, others)| is_line(line, first) && are_lines(rest, others))
        }
    }
}

fn is_line(shown: &str, printed: &str) -> bool {
    let Some((before, after)) = shown.split_once('…') else { return shown == printed };
    let Some(rest) = printed.strip_prefix(before) else { return false };
    (0..=rest.len()).any(|at| rest.get(at..).is_some_and(|rest| is_line(after, rest)))
}

/// Does what a page, or a part of one, says, each block by `run`. Each must end well and print what the page shows.
pub(crate) fn follow_alone(page: &str, mut run: impl FnMut(&str) -> Run) {
    let steps = steps(page);
    assert!(!steps.is_empty(), "no commands are found:\n{page}");
    for Step { commands, shown } in steps {
        let done = run(&commands);
        assert_eq!(done.code, 0, "{commands}\n{}\n{}", done.out, done.err);
        if let Some(shown) = shown {
            assert!(is_shown(&shown, &done.out), "{commands}\nthe page shows:\n{shown}\nand this is:\n{}", done.out);
        }
    }
}

/// A command that waits for a pod. These clusters have no nodes, so a process takes its place.
const ROLLOUT: &str = "kubectl -n velero rollout status deployment/velero --timeout=5m\n";

/// The environment of a person at a shell: the programs, a folder, and variables in place of those that a page begins
/// with.
pub(crate) struct Reader {
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
    server: Option<Server>,
}

impl Reader {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = Binaries::ensure().expect("the programs of the test bed").path("kubectl");
        for (name, program) in [("kubectl", kubectl.as_path()), ("lifeboat", Path::new(env!("CARGO_BIN_EXE_lifeboat")))]
        {
            std::os::unix::fs::symlink(program, folder.path().join(name)).expect("a link");
        }
        Self { folder, variables: Vec::new(), server: None }
    }

    /// With a bucket, as the pages call it.
    pub(crate) fn with_bucket(s3: &S3Server, prefix: &str) -> Self {
        let mut reader = Self::new();
        let credentials = reader.folder.path().join("credentials");
        let (key, secret) = (s3.access_key(), s3.secret_key());
        let text = format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n");
        std::fs::write(&credentials, text).expect("write");
        let (region, endpoint) = (s3.region(), s3.endpoint());
        reader.variables = vec![
            ("BUCKET", BUCKET.to_owned()),
            ("PREFIX", prefix.to_owned()),
            ("LOCATION", format!("s3://{BUCKET}/{prefix}?region={region}&endpoint={endpoint}")),
            ("CONFIG", format!("region={region},s3ForcePathStyle=true,s3Url={endpoint}")),
            ("AWS_SHARED_CREDENTIALS_FILE", credentials.display().to_string()),
        ];
        reader
    }

    /// With the backup that a page is about.
    pub(crate) fn of_backup(mut self, name: &str) -> Self {
        self.variables.push(("BACKUP", name.to_owned()));
        self
    }

    /// Does what a page, or a part of one, says. Each block must end well and print what the page shows.
    pub(crate) fn follow(&mut self, bed: &Bed, page: &str) {
        follow_alone(page, |commands| {
            let mut done = self.run(bed, commands);
            done.err += &std::fs::read_to_string(self.log()).unwrap_or_default();
            done
        });
    }

    fn run(&mut self, bed: &Bed, commands: &str) -> Run {
        let Some((before, after)) = commands.split_once(ROLLOUT) else { return self.sh(bed, commands) };
        let done = self.sh(bed, before);
        assert_eq!(done.code, 0, "{before}\n{done:?}");
        self.serve(bed);
        let rest = self.sh(bed, after);
        Run { out: done.out + &rest.out, err: done.err + &rest.err, ..rest }
    }

    /// Runs the server that is installed, with a folder in place of the volume that its pod would have.
    fn serve(&mut self, bed: &Bed) {
        bed.kubectl(&["scale", "deployment", "velero", "-n", "velero", "--replicas=0"]);
        bed.kubectl(&["wait", "pods", "-n", "velero", "-l", "deploy=velero", "--for=delete", "--timeout=30s"]);
        let mounted = self.folder.path().join("mounted");
        std::fs::create_dir_all(&mounted).expect("a folder");
        let path = ["get", "backupstoragelocation", "default", "-n", "velero", "--output=jsonpath={.spec.config.path}"];
        if bed.kubectl(&path) == "/backups" {
            let here = serde_json::json!({"spec": {"config": {"path": mounted.display().to_string()}}}).to_string();
            let patch = ["patch", "backupstoragelocation", "default", "-n", "velero", "--type=merge", "-p", &here];
            bed.kubectl(&patch);
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_lifeboat"));
        let addresses = ["--metrics-address=127.0.0.1:0", "--download-address=127.0.0.1:0"];
        command.arg("server").args(addresses).args(["--features=EnableCSI", "--backup-sync-period=1s"]);
        command.arg("--directory-root").arg(&mounted).env("KUBECONFIG", bed.plane.kubeconfig());
        self.server = Some(Server(spawn_logged(&mut command, &self.log())));
    }

    fn sh(&self, bed: &Bed, lines: &str) -> Run {
        let mut command = Command::new("sh");
        command.args(["-eu", "-c", lines]).current_dir(self.folder.path());
        command.envs(self.variables.iter().cloned()).env("KUBECONFIG", bed.plane.kubeconfig());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.folder.path().display()));
        command.env("HOME", self.folder.path()).env("XDG_STATE_HOME", self.folder.path().join("state"));
        run(&mut command)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }
}

#[test]
fn a_page_has_steps_and_its_dots_stand_for_text_and_lines() {
    let page = "Text.\n```sh\nexport A=b\nrun \"$A\"\n```\nIt says:\n\n```text\na …\n```\n```\nnot run\n```\n```sh\nexport C=d\n```\n";
    assert_eq!(steps(page), [Step { commands: "run \"$A\"\n".to_owned(), shown: Some("a …\n".to_owned()) }]);
    for (shown, printed, expected) in [
        ("a\nb\n", "a  \n\n  b", true),
        ("a b\n", "a\nb\n", false),
        ("a …\n", "a 1\n", true),
        ("a …\n", "a 1\nb 2\n", false),
        ("…: … of 3\n", "x: 2 of 4 of 3\n", true),
        ("…: … of 3\n", "x: 2 of 4\n", false),
        ("…\nb 2\n", "b 2\n", true),
        ("…\nb …\n…\nd\n", "a\nb 1\nc\nc\nd\n", true),
        ("…\nb …\n…\nd\n", "a\nc\nd\n", false),
        ("a\n", "a\nb\n", false),
        ("…\na\n", "b\na\nc\n", false),
    ] {
        assert_eq!(is_shown(shown, printed), expected, "{shown:?} of {printed:?}");
    }
}
