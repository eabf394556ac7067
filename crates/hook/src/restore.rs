//! Finds the hooks of a restored pod (velero: internal/hook).

use crate::annotation::Annotations;
use crate::hook::{Hook, HookSource, effective_timeout, fails_pod};
use crate::matcher::PodMatcher;
use crate::pod::HookPod;
use lifeboat_api::{Duration, ExecRestoreHook, RestoreHooks as Spec};
use serde_json::{Value, json};

/// The hooks in the spec of a restore.
#[derive(Clone, Debug, Default)]
pub struct RestoreHooks {
    entries: Vec<RestoreHookEntry>,
    /// The most time that a command of an annotation may ask for; `None` for as much as a spec.
    most: Option<Duration>,
    /// The longest wait for a container that an annotation may ask for; `None` for any.
    most_wait: Option<Duration>,
}

#[derive(Clone, Debug)]
struct RestoreHookEntry {
    pods: PodMatcher,
    name: String,
    commands: Vec<ExecRestoreHook>,
    containers: Vec<Value>,
}

/// A command that runs in a container of a restored pod once the container is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreHook {
    /// The command.
    pub hook: Hook,
    /// The longest wait for the container; `None` for as long as the restore waits for asynchronous operations
    /// (`itemOperationTimeout`).
    pub wait_timeout: Option<Duration>,
    /// True when the container must be ready, not only running.
    pub waits_for_ready: bool,
}

impl RestoreHooks {
    /// Reads the hooks of a spec. `includedResources` and `excludedResources` do not count: hooks are for pods.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once (velero: pkg/controller/restore_controller.go).
    pub fn new(spec: &Spec) -> Result<Self, Vec<String>> {
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        for entry in &spec.resources {
            let namespaces = [&entry.included_namespaces[..], &entry.excluded_namespaces];
            let pods = PodMatcher::new(&entry.name, namespaces, entry.label_selector.as_ref());
            let pods = pods.map_err(|problem| problems.push(problem)).ok();
            let commands: Vec<_> = entry.post_hooks.iter().filter_map(|hook| hook.exec.clone()).collect();
            if commands.iter().any(|exec| exec.command.is_empty()) {
                problems
                    .push(format!("hook {:?}: a hook has no command: name the program and its arguments", entry.name));
            }
            let inits = entry.post_hooks.iter().filter_map(|hook| hook.init.as_ref());
            let containers: Vec<_> = inits.flat_map(|init| init.init_containers.iter().cloned()).collect();
            problems
                .extend(containers.iter().filter_map(container_problem).map(|p| format!("hook {:?}: {p}", entry.name)));
            entries.extend(pods.map(|pods| RestoreHookEntry { pods, name: entry.name.clone(), commands, containers }));
        }
        if problems.is_empty() { Ok(Self { entries, most: None, most_wait: None }) } else { Err(problems) }
    }

    /// The same with this much time at most for commands of annotations.
    #[must_use]
    pub fn with_most(self, most: Option<Duration>) -> Self {
        Self { most, ..self }
    }

    /// The same with this wait for a container at most for commands of annotations; zero for any.
    #[must_use]
    pub fn with_most_wait(self, most_wait: Duration) -> Self {
        Self { most_wait: Some(most_wait).filter(|most| *most > Duration::ZERO), ..self }
    }

    /// The commands for a pod as the API server returned it, in the order in which they run, and messages about
    /// annotations that could not be understood. A command of an annotation replaces all commands of the spec.
    #[must_use]
    pub fn commands(&self, pod: &HookPod) -> (Vec<RestoreHook>, Vec<String>) {
        let Some(mut annotations) = Annotations::of_restore(&pod.annotations) else {
            return (self.of(pod).flat_map(RestoreHookEntry::hooks).collect(), Vec::new());
        };
        let hook = annotations.hook("exec-timeout", self.most);
        let wait_timeout = annotations.wait("wait-timeout", self.most_wait);
        let waits_for_ready = annotations.parsed::<GoBool>("wait-for-ready").is_some_and(|word| word.0);
        (vec![RestoreHook { hook, wait_timeout, waits_for_ready }], annotations.warnings)
    }

    /// The init containers for a pod as it is about to be created. An init container of an annotation replaces all
    /// those of the spec.
    #[must_use]
    pub fn init_containers(&self, pod: &HookPod) -> Vec<Value> {
        let Some(annotations) = Annotations::of_init(&pod.annotations) else {
            return self.of(pod).flat_map(|entry| entry.containers.iter().cloned()).collect();
        };
        // Velero takes a random word. One of the pod's own name is the same in a preview and when the restore goes on.
        let name = match annotations.text("container-name") {
            "" => format!("velero-restore-init-{:08x}", u32::from_be_bytes(first_four(pod.key().digest()))),
            name => name.to_owned(),
        };
        let mut container = json!({"name": name, "image": annotations.text("container-image")});
        let command = annotations.text("command");
        if !command.is_empty() {
            container["command"] = json!(crate::command::command(command));
        }
        vec![container]
    }

    fn of(&self, pod: &HookPod) -> impl Iterator<Item = &RestoreHookEntry> {
        self.entries.iter().filter(|entry| entry.pods.matches(&pod.namespace, &pod.labels))
    }
}

impl RestoreHookEntry {
    fn hooks(&self) -> impl Iterator<Item = RestoreHook> {
        self.commands.iter().enumerate().map(|(index, exec)| RestoreHook {
            hook: Hook {
                name: self.name.clone(),
                source: HookSource::Spec,
                index,
                container: exec.container.clone(),
                command: exec.command.clone(),
                fails_pod: fails_pod(exec.on_error.as_ref()),
                timeout: effective_timeout(exec.exec_timeout),
            },
            wait_timeout: wait_timeout(exec.wait_timeout),
            waits_for_ready: exec.wait_for_ready == Some(true),
        })
    }
}

fn first_four(digest: [u8; 16]) -> [u8; 4] {
    [digest[0], digest[1], digest[2], digest[3]]
}

fn wait_timeout(asked: Duration) -> Option<Duration> {
    (asked > Duration::ZERO).then_some(asked)
}

/// A truth value as Go's `strconv.ParseBool` reads it.
struct GoBool(bool);

impl std::str::FromStr for GoBool {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self(false)),
            _ => Err(()),
        }
    }
}

/// Describes the problem of an init container of a spec; `None` when there is none.
fn container_problem(container: &Value) -> Option<String> {
    let is_text = |name: &str| container[name].as_str().is_some_and(|text| !text.is_empty());
    if !container.is_object() {
        return Some(format!("an init container is {container}, and must be a container as pods have them"));
    }
    let has_command = container["command"].as_array().is_some_and(|words| !words.is_empty());
    (!has_command || !is_text("name") || !is_text("image"))
        .then(|| "invalid InitContainer in restore hook, it doesn't have Command, Name or Image field".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{HookErrorMode, InitRestoreHook, LabelSelector, RestoreResourceHook, RestoreResourceHookSpec};
    use std::collections::BTreeMap;

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn pod(labels: &[(&str, &str)], annotations: &[(&str, &str)]) -> HookPod {
        HookPod {
            namespace: "shop".to_owned(),
            name: "db-0".to_owned(),
            labels: texts(labels),
            annotations: texts(annotations),
            ..HookPod::default()
        }
    }

    fn entry(name: &str, post_hooks: Vec<RestoreResourceHook>) -> RestoreResourceHookSpec {
        RestoreResourceHookSpec { name: name.to_owned(), post_hooks, ..RestoreResourceHookSpec::default() }
    }

    fn exec(word: &str) -> ExecRestoreHook {
        ExecRestoreHook { command: vec![word.to_owned()], ..ExecRestoreHook::default() }
    }

    fn command(exec: ExecRestoreHook) -> RestoreResourceHook {
        RestoreResourceHook { exec: Some(exec), init: None, ..RestoreResourceHook::default() }
    }

    fn init(containers: Vec<Value>) -> RestoreResourceHook {
        let init = InitRestoreHook { init_containers: containers, ..InitRestoreHook::default() };
        RestoreResourceHook { exec: None, init: Some(init), ..RestoreResourceHook::default() }
    }

    fn container(name: &str) -> Value {
        json!({"name": name, "image": "alpine", "command": ["true"]})
    }

    fn hooks(resources: Vec<RestoreResourceHookSpec>) -> Result<RestoreHooks, Vec<String>> {
        RestoreHooks::new(&Spec { resources, ..Spec::default() })
    }

    #[test]
    fn commands_and_containers_of_all_entries_that_match_come_in_their_order() {
        let selector = LabelSelector { match_labels: texts(&[("app", "db")]), ..LabelSelector::default() };
        let full = ExecRestoreHook {
            container: "c".to_owned(),
            on_error: Some(HookErrorMode::Fail),
            exec_timeout: Duration::from_secs(7),
            wait_timeout: Duration::from_secs(60),
            wait_for_ready: Some(true),
            ..exec("load")
        };
        let all = hooks(vec![
            RestoreResourceHookSpec {
                label_selector: Some(selector),
                // compat: lists of types do not count.
                included_resources: vec!["jobs".to_owned()],
                ..entry("db", vec![command(full), init(vec![container("a"), container("b")]), command(exec("tell"))])
            },
            RestoreResourceHookSpec {
                excluded_namespaces: vec!["shop".to_owned()],
                ..entry("other", vec![command(exec("x"))])
            },
            entry("all", vec![init(vec![container("c")])]),
        ])
        .unwrap();
        let hook = |index, command: &str, container: &str, fails_pod, seconds| Hook {
            name: "db".to_owned(),
            source: HookSource::Spec,
            index,
            container: container.to_owned(),
            command: vec![command.to_owned()],
            fails_pod,
            timeout: Duration::from_secs(seconds),
        };
        let expected = vec![
            RestoreHook {
                hook: hook(0, "load", "c", true, 7),
                wait_timeout: Some(Duration::from_secs(60)),
                waits_for_ready: true,
            },
            RestoreHook { hook: hook(1, "tell", "", false, 30), wait_timeout: None, waits_for_ready: false },
        ];
        let matching = pod(&[("app", "db")], &[]);
        assert_eq!(all.commands(&matching), (expected, vec![]));
        assert_eq!(all.init_containers(&matching), [container("a"), container("b"), container("c")]);
        assert_eq!(all.commands(&pod(&[], &[])), (vec![], vec![]));
        assert_eq!(all.init_containers(&pod(&[], &[])), [container("c")]);
    }

    #[test]
    fn annotations_take_the_place_of_hooks_of_the_spec() {
        let all = hooks(vec![entry("all", vec![command(exec("x")), init(vec![container("c")])])]).unwrap();
        let annotated = pod(
            &[],
            &[
                ("post.hook.restore.velero.io/command", r#"["load", "-v"]"#),
                ("post.hook.restore.velero.io/wait-timeout", "5m"),
                ("post.hook.restore.velero.io/wait-for-ready", "T"),
            ],
        );
        let (commands, warnings) = all.commands(&annotated);
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(commands.len(), 1);
        assert_eq!(commands[0].hook.command, ["load", "-v"]);
        assert_eq!((commands[0].wait_timeout, commands[0].waits_for_ready), (Some(Duration::from_secs(300)), true));
        // Each kind for itself.
        assert_eq!(all.init_containers(&annotated), [container("c")]);
        let annotated = pod(
            &[],
            &[
                ("init.hook.restore.velero.io/container-image", "busybox"),
                ("init.hook.restore.velero.io/command", "[broken"),
            ],
        );
        let expected = json!({"name": "velero-restore-init-NAME", "image": "busybox", "command": ["[broken"]});
        let mut found = all.init_containers(&annotated);
        let name = found[0]["name"].take();
        assert_eq!(name.as_str().map(str::len), Some("velero-restore-init-".len() + 8));
        found[0]["name"] = json!("velero-restore-init-NAME");
        assert_eq!(found, [expected]);
        assert_eq!(all.commands(&annotated).0.len(), 1);
    }

    #[test]
    fn an_annotation_that_waits_for_days_holds_no_restore_up() {
        let waits = |asked: &str| {
            let all = hooks(vec![]).unwrap().with_most_wait(Duration::from_secs(4 * 3600));
            let command = ("post.hook.restore.velero.io/command", "load");
            let (commands, warnings) =
                all.commands(&pod(&[], &[command, ("post.hook.restore.velero.io/wait-timeout", asked)]));
            (commands[0].wait_timeout, warnings)
        };
        assert_eq!(waits("4h"), (Some(Duration::from_secs(4 * 3600)), vec![]));
        assert_eq!((waits("0s"), waits("")), ((None, vec![]), (None, vec![])));
        let warning = "annotation post.hook.restore.velero.io/wait-timeout: the command waits 4h0m0s for its container and not 2400h0m0s: \
                       no longer than the restore waits for asynchronous operations (itemOperationTimeout); a hook in the spec of the \
                       restore may wait longer";
        assert_eq!(waits("2400h"), (Some(Duration::from_secs(4 * 3600)), vec![warning.to_owned()]));
    }

    #[test]
    fn an_annotated_init_container_has_a_command_only_if_it_is_annotated() {
        let image = ("init.hook.restore.velero.io/container-image", "busybox");
        let name = ("init.hook.restore.velero.io/container-name", "load");
        let command = ("init.hook.restore.velero.io/command", r#"["load", "-v"]"#);
        let found = |annotations: &[(&str, &str)]| RestoreHooks::default().init_containers(&pod(&[], annotations));
        assert_eq!(found(&[image, name]), [json!({"name": "load", "image": "busybox"})]);
        let expected = json!({"name": "load", "image": "busybox", "command": ["load", "-v"]});
        assert_eq!(found(&[image, name, command]), [expected]);
        // The image alone asks for it.
        assert_eq!(found(&[name, command]), Vec::<Value>::new());
    }

    #[test]
    fn an_entry_is_for_its_included_namespaces_without_the_excluded_ones() {
        let names = |included: &[&str], excluded: &[&str]| {
            let entry = RestoreResourceHookSpec {
                included_namespaces: included.iter().map(|one| (*one).to_owned()).collect(),
                excluded_namespaces: excluded.iter().map(|one| (*one).to_owned()).collect(),
                ..entry("h", vec![command(exec("x")), init(vec![container("c")])])
            };
            let all = hooks(vec![entry]).unwrap();
            let there = pod(&[], &[]);
            (all.commands(&there).0.len(), all.init_containers(&there).len())
        };
        for (included, excluded, expected) in [
            (&[][..], &[][..], 1),
            (&["*"], &[], 1),
            (&["shop"], &[], 1),
            (&["sh*"], &[], 1),
            (&["other"], &[], 0),
            (&["shop"], &["shop"], 0),
            (&["shop"], &["s?op"], 0),
            (&[], &["other"], 1),
        ] {
            assert_eq!(names(included, excluded), (expected, expected), "{included:?} {excluded:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_hooks_is_said_at_once() {
        const INCOMPLETE: &str = "invalid InitContainer in restore hook, it doesn't have Command, Name or Image field";
        let problems = |hook| hooks(vec![entry("h", vec![hook])]).map(drop).unwrap_err();
        for (hook, expected) in [
            (command(ExecRestoreHook::default()), "a hook has no command: name the program and its arguments"),
            (init(vec![json!("a")]), r#"an init container is "a", and must be a container as pods have them"#),
            (init(vec![json!({"name": "a", "image": "b"})]), INCOMPLETE),
            (init(vec![json!({"name": "a", "command": ["c"]})]), INCOMPLETE),
            (init(vec![json!({"image": "b", "command": ["c"]})]), INCOMPLETE),
        ] {
            assert_eq!(problems(hook), [format!("hook \"h\": {expected}")]);
        }
    }
}
