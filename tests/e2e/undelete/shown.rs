//! The plan that an undelete shows before it begins, and the question on a terminal.

use crate::support::{Run, ended, program};
use crate::tea::Tea;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The items of a plan, without the digests that hold it to what it was made of.
fn items(plan: &Value) -> Value {
    let mut items = plan["items"].clone();
    for item in items.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        item.retain(|key, _| key != "found" && key != "written");
    }
    items
}

/// The ConfigMap as the one item of a plan, with where it differs, if it does.
fn menu(action: &str, differences: Option<Value>) -> Value {
    let mut item = json!({"type": "configmaps", "namespace": "tea", "name": "menu", "action": action});
    if let Some(differences) = differences {
        item["differences"] = differences;
    }
    json!([item])
}

/// Where the ConfigMap differs from its backup, when somebody has changed it.
fn changed() -> Option<Value> {
    Some(json!([{"path": "/data/of", "inCluster": "never", "inBackup": "today"}]))
}

#[test]
fn nothing_is_done_before_somebody_has_seen_what() {
    let tea = Tea::saved();
    for (object, patch) in [("cm/menu", r#"{"data":{"of":"never"}}"#), ("secret/key", r#"{"data":{"k":"b3RoZXI="}}"#)] {
        tea.kubectl(&["patch", object, "-n", "tea", "--type=merge", "-p", patch]);
    }
    let line = "cm/menu --object-namespace tea";
    let seen = "update    configmaps/tea/menu\n            /data/of: \"never\" -> \"today\"\n";
    let dry = tea.undelete(&format!("{line} --dry-run"));
    assert!(dry.code == 0 && dry.out.ends_with(seen), "{dry:?}");
    // There is no terminal to ask on.
    let unasked = tea.undelete(line);
    assert!(unasked.code == 1 && unasked.out.ends_with(seen) && unasked.err.contains("--confirm"), "{unasked:?}");
    let plan = tea.undelete(&format!("{line} --dry-run -o json"));
    let mut plan: Value = serde_json::from_str(&plan.out).expect("JSON");
    plan["items"] = items(&plan);
    let expected = json!({
        "backup": "first",
        "object": {"type": "configmaps", "namespace": "tea", "name": "menu"},
        "items": menu("update", changed()),
        "needed": [],
        "volumes": [],
        "results": {"errors": {}, "warnings": {}},
    });
    assert_eq!(plan, expected);
    let stays = tea.undelete(&format!("{line} --existing-resource-policy none --confirm"));
    let left = "conflict  configmaps/tea/menu: it is there, differs, and stays as it is\n            /data/of: \"never\" -> \"today\"\n";
    assert!(stays.code == 1 && stays.out.ends_with(left), "{stays:?}");
    let would_stay = tea.undelete(&format!("{line} --existing-resource-policy none --dry-run"));
    assert!(would_stay.code == 3 && would_stay.out == stays.out, "{would_stay:?}");
    assert_eq!(tea.get("cm/menu")["data"]["of"], "never");
    tea.restored(line);
    assert_eq!(tea.get("cm/menu")["data"]["of"], "today");

    let hidden = tea.undelete("secret/key --object-namespace tea --dry-run");
    assert!(hidden.out.contains("(hidden)") && !hidden.out.contains("c2VjcmV0"), "{hidden:?}");
    let shown = tea.undelete("secret/key --object-namespace tea --dry-run --show-secrets");
    assert!(shown.out.contains("c2VjcmV0"), "{shown:?}");
}

#[test]
fn with_an_output_format_one_document_is_printed() {
    let tea = Tea::saved();
    let document = |flags: &str, code: i32| {
        let run = tea.undelete(&format!("cm/menu --object-namespace tea -o json{flags}"));
        assert_eq!(run.code, code, "{flags}: {run:?}");
        let document: Value = serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{flags}: {e}: {run:?}"));
        (document, run.err)
    };
    let (there, told) = document(" --confirm", 0);
    assert_eq!(items(&there), menu("unchanged", None));
    assert!(told.contains("it is there as in the backup"), "{told}");
    tea.kubectl(&["patch", "cm/menu", "-n", "tea", "--type=merge", "-p", r#"{"data":{"of":"never"}}"#]);
    let (unasked, told) = document("", 1);
    assert_eq!(items(&unasked), menu("update", changed()));
    assert!(told.contains("-o prints the plan and does not ask"), "{told}");
    let (stays, told) = document(" --confirm --existing-resource-policy none", 1);
    assert_eq!(items(&stays), menu("conflict", changed()));
    let why =
        "nothing would come back of configmaps/tea/menu: configmaps/tea/menu is there, differs, and stays as it is";
    assert!(told.contains(why), "{told}");
    let (restore, _) = document(" --confirm", 0);
    assert_eq!((&restore["kind"], &restore["status"]["phase"]), (&json!("Restore"), &json!("Completed")), "{restore}");
}

/// The command on a terminal.
fn terminal(tea: &Tea, line: &str) -> Command {
    let bucket = tea.folder.path().join("bucket");
    let line = format!("exec {} {line} --bucket {}", program(), bucket.display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    command.env("KUBECONFIG", tea.sandbox.kubeconfig()).env("XDG_STATE_HOME", tea.folder.path().join("state"));
    command
}

/// Runs the command on a terminal, where the user types this.
fn on_a_terminal(tea: &Tea, typed: &str) -> Run {
    let answer = tea.folder.path().join("answer");
    std::fs::write(&answer, typed).expect("write");
    let mut command = terminal(tea, "undelete cm/menu --object-namespace tea");
    let output = command.stdin(File::open(answer).expect("a file")).output().expect("the command");
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Run { code: output.status.code().unwrap_or(-1), out, err }
}

#[test]
fn on_a_terminal_the_user_is_asked() {
    let tea = Tea::saved();
    tea.lose("cm/menu");
    for typed in ["n\n", "what?\nn\n"] {
        let no = on_a_terminal(&tea, typed);
        assert!(no.code == 0 && no.out.contains("Nothing was restored."), "{no:?}");
        assert!(tea.get("cm/menu").is_null());
    }
    let yes = on_a_terminal(&tea, "y\n");
    assert!(yes.code == 0 && yes.out.contains("create    configmaps/tea/menu"), "{yes:?}");
    assert!(tea.get("cm/menu").is_object());
}

/// The command that has asked whether to go on, what it still prints, and what it has printed.
fn asking(tea: &Tea) -> (Child, ChildStdout, String) {
    let mut command = terminal(tea, "undelete cm/menu --object-namespace tea");
    let mut asking = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the command");
    let (mut out, mut read) = (asking.stdout.take().expect("its output"), Vec::new());
    while !String::from_utf8_lossy(&read).contains("(Y/N)?") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).expect("read"), 1, "it asks: {}", String::from_utf8_lossy(&read));
        read.extend(byte);
    }
    (asking, out, String::from_utf8_lossy(&read).into_owned())
}

#[test]
fn what_somebody_makes_while_the_question_stands_is_not_overwritten() {
    let tea = Tea::saved();
    tea.lose("cm/menu");
    let (mut asking, mut out, shown) = asking(&tea);
    assert!(shown.contains("create    configmaps/tea/menu"), "{shown}");
    tea.kubectl(&["create", "configmap", "menu", "--namespace=tea", "--from-literal=of=never"]);
    asking.stdin.take().expect("its input").write_all(b"y\n").expect("answer");
    let mut told = String::new();
    out.read_to_string(&mut told).expect("read");
    assert_eq!(ended(&mut asking).code(), Some(1), "{told}");
    assert!(told.contains("nothing was restored, because the cluster has changed since the plan was made"), "{told}");
    assert_eq!(tea.get("cm/menu")["data"]["of"], "never");
    // Neither the bucket nor this machine remembers it.
    let left = |folder: &str| std::fs::read_dir(tea.folder.path().join(folder)).into_iter().flatten().count();
    assert_eq!((left("bucket/restores"), left("state/lifeboat/undelete")), (0, 0));
}

#[test]
fn a_signal_ends_the_question() {
    let tea = Tea::saved();
    tea.lose("cm/menu");
    let (mut asking, _out, _) = asking(&tea);
    // An input that ends would be an answer too.
    let _input = asking.stdin.take();
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", asking.id())).expect("its children");
    let sent = Command::new("kill").args(["-TERM", children.trim()]).status().expect("kill");
    assert!(sent.success(), "{children}");
    assert_eq!(ended(&mut asking).code(), Some(130));
    assert!(tea.get("cm/menu").is_null());
}

#[test]
fn where_the_bucket_takes_no_files_nothing_is_restored() {
    let tea = Tea::saved();
    tea.lose("cm/menu");
    let restores = tea.folder.path().join("bucket/restores");
    std::fs::write(&restores, "no folder").expect("write");
    let line = "cm/menu --object-namespace tea --confirm";
    let refused = tea.undelete(line);
    assert!(refused.code == 1 && refused.err.contains("restores/undelete-"), "{refused:?}");
    assert!(tea.get("cm/menu").is_null());
    std::fs::remove_file(&restores).expect("remove");
    let again = tea.undelete(line);
    assert!(again.code == 0 && !again.err.contains("cut off"), "{again:?}");
    assert!(tea.get("cm/menu").is_object());
}
