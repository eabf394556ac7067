//! Finds the hooks of a pod around its backup (velero: internal/hook).

use crate::annotation::Annotations;
use crate::hook::{Hook, HookSource, Moment, effective_timeout, fails_pod};
use crate::matcher::PodMatcher;
use crate::pod::HookPod;
use lifeboat_api::{BackupHooks as Spec, BackupResourceHook, BackupResourceHookSpec, Duration};
use lifeboat_object::{Catalog, Item};
use lifeboat_select::IncludesExcludes;
use memchr::memmem;

/// The hooks in the spec of a backup, resolved against the types of a cluster.
#[derive(Clone, Debug, Default)]
pub struct BackupHooks {
    entries: Vec<BackupHookEntry>,
    /// The most time that an annotation may ask for; `None` for as much as a spec.
    most: Option<Duration>,
}

/// An entry of the spec that is for pods.
#[derive(Clone, Debug)]
struct BackupHookEntry {
    pods: PodMatcher,
    spec: BackupResourceHookSpec,
}

/// The hooks of one pod, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodHooks {
    /// Hooks that run before the pod is backed up.
    pub pre: Vec<Hook>,
    /// Hooks that run after the pod was backed up.
    pub post: Vec<Hook>,
    /// Annotations that could not be understood, for the log.
    pub warnings: Vec<String>,
}

impl PodHooks {
    /// Returns true if there is no hook.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pre.is_empty() && self.post.is_empty()
    }
}

/// Part of the name of every annotation that is about hooks of a backup.
const ANNOTATION: &[u8] = b"hook.backup.velero.io/";

impl BackupHooks {
    /// Resolves the hooks of a spec. Entries that are not for pods are never asked.
    ///
    /// # Errors
    /// Everything that is wrong with them, at once.
    pub fn new(spec: &Spec, catalog: &Catalog) -> Result<Self, Vec<String>> {
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        for entry in &spec.resources {
            problems.extend(
                commands(entry).filter(|exec| exec.command.is_empty()).map(|_| {
                    format!("hook {:?}: a hook has no command: name the program and its arguments", entry.name)
                }),
            );
            let namespaces = [&entry.included_namespaces[..], &entry.excluded_namespaces];
            match PodMatcher::new(&entry.name, namespaces, entry.label_selector.as_ref()) {
                Ok(pods) if is_for_pods(entry, catalog) => entries.push(BackupHookEntry { pods, spec: entry.clone() }),
                Ok(_) => {}
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(Self { entries, most: None }) } else { Err(problems) }
    }

    /// The same with this much time at most for commands of annotations.
    #[must_use]
    pub fn with_most(self, most: Option<Duration>) -> Self {
        Self { most, ..self }
    }

    /// Returns true if a pod may have hooks; looks at no more than its head and at the bytes of its body. A pod that
    /// has hooks is never passed over.
    #[must_use]
    pub fn may_concern(&self, pod: &Item) -> bool {
        let namespace = pod.head.namespace.as_deref().unwrap_or_default();
        self.entries.iter().any(|entry| entry.pods.matches(namespace, &pod.head.labels))
            || memmem::find(&pod.body, ANNOTATION).is_some()
    }

    /// The hooks of a pod. A hook of an annotation replaces all hooks of the spec at the same moment.
    #[must_use]
    pub fn of(&self, pod: &HookPod) -> PodHooks {
        let mut warnings = Vec::new();
        let mut hooks = |moment| match Annotations::of_backup(&pod.annotations, moment) {
            Some(mut annotations) => {
                let hook = annotations.hook("timeout", self.most);
                warnings.append(&mut annotations.warnings);
                vec![hook]
            }
            None => self.of_spec(pod, moment),
        };
        let (pre, post) = (hooks(Moment::Pre), hooks(Moment::Post));
        PodHooks { pre, post, warnings }
    }

    fn of_spec(&self, pod: &HookPod, moment: Moment) -> Vec<Hook> {
        let entries = self.entries.iter().filter(|entry| entry.pods.matches(&pod.namespace, &pod.labels));
        entries.flat_map(|entry| entry.hooks(moment)).collect()
    }
}

impl BackupHookEntry {
    fn hooks(&self, moment: Moment) -> impl Iterator<Item = Hook> {
        let hooks: &[BackupResourceHook] = match moment {
            Moment::Pre => &self.spec.pre_hooks,
            Moment::Post => &self.spec.post_hooks,
            Moment::Restored => &[],
        };
        hooks.iter().enumerate().map(|(index, hook)| Hook {
            name: self.spec.name.clone(),
            source: HookSource::Spec,
            index,
            container: hook.exec.container.clone(),
            command: hook.exec.command.clone(),
            fails_pod: fails_pod(hook.exec.on_error.as_ref()),
            timeout: effective_timeout(hook.exec.timeout),
        })
    }
}

fn commands(entry: &BackupResourceHookSpec) -> impl Iterator<Item = &lifeboat_api::ExecHook> {
    entry.pre_hooks.iter().chain(&entry.post_hooks).map(|hook| &hook.exec)
}

/// Returns true if the lists of types let pods in. An entry without lists is for all types, pods among them.
fn is_for_pods(entry: &BackupResourceHookSpec, catalog: &Catalog) -> bool {
    let resolved = |list: &[String]| -> Vec<String> {
        let name = |entry: &String| catalog.resolve(entry).map(|found| found.group_resource().to_string());
        list.iter().map(|entry| name(entry).unwrap_or_else(|| entry.clone())).collect()
    };
    IncludesExcludes::new(&resolved(&entry.included_resources), &resolved(&entry.excluded_resources)).includes("pods")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_api::{Duration, ExecHook, HookErrorMode, LabelSelector};
    use lifeboat_object::ApiResource;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn catalog() -> Catalog {
        let pods = ApiResource { short_names: vec!["po".to_owned()], ..ApiResource::new("", "v1", "pods", "Pod") };
        let jobs = ApiResource::new("batch", "v1", "jobs", "Job");
        Catalog::new([pods, jobs].map(Arc::new).to_vec(), vec![])
    }

    fn exec(word: &str, on_error: Option<HookErrorMode>) -> BackupResourceHook {
        let command = vec![word.to_owned()];
        BackupResourceHook {
            exec: ExecHook { command, on_error, ..ExecHook::default() },
            ..BackupResourceHook::default()
        }
    }

    fn list(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn pod(namespace: &str, labelled: &[(&str, &str)]) -> HookPod {
        HookPod {
            namespace: namespace.to_owned(),
            name: "p".to_owned(),
            labels: labels(labelled),
            ..HookPod::default()
        }
    }

    fn words(hooks: &[Hook]) -> String {
        hooks
            .iter()
            .map(|hook| format!("{}/{}:{}", hook.name, hook.index, hook.command.join(" ")))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn entry(name: &str) -> BackupResourceHookSpec {
        BackupResourceHookSpec {
            name: name.to_owned(),
            pre_hooks: vec![exec("freeze", Some(HookErrorMode::Fail)), exec("sync", None)],
            post_hooks: vec![exec("thaw", Some(HookErrorMode::Continue))],
            ..BackupResourceHookSpec::default()
        }
    }

    fn hooks(entries: Vec<BackupResourceHookSpec>) -> BackupHooks {
        BackupHooks::new(&Spec { resources: entries, ..Spec::default() }, &catalog()).unwrap()
    }

    #[test]
    fn all_entries_that_match_a_pod_run_in_their_order() {
        let selector = LabelSelector { match_labels: labels(&[("app", "db")]), ..LabelSelector::default() };
        let all = [
            BackupResourceHookSpec { included_namespaces: list(&["shop", "team-*"]), ..entry("namespaces") },
            BackupResourceHookSpec { excluded_namespaces: list(&["shop"]), ..entry("but") },
            BackupResourceHookSpec { label_selector: Some(selector), ..entry("labels") },
            BackupResourceHookSpec { included_resources: list(&["po"]), ..entry("pods") },
            BackupResourceHookSpec { included_resources: list(&["jobs"]), ..entry("jobs") },
            BackupResourceHookSpec { excluded_resources: list(&["Pod"]), ..entry("no pods") },
        ];
        let hooks = hooks(all.to_vec());
        for (namespace, labelled, expected) in [
            ("shop", &[("app", "db")][..], "namespaces/0:thaw, labels/0:thaw, pods/0:thaw"),
            ("team-a", &[], "namespaces/0:thaw, but/0:thaw, pods/0:thaw"),
            ("other", &[], "but/0:thaw, pods/0:thaw"),
        ] {
            assert_eq!(words(&hooks.of(&pod(namespace, labelled)).post), expected, "{namespace} {labelled:?}");
        }
        let pre = hooks.of(&pod("other", &[])).pre;
        assert_eq!(words(&pre), "but/0:freeze, but/1:sync, pods/0:freeze, pods/1:sync");
        // Velero's documentation says that unset means Fail; it never does.
        assert_eq!(pre.iter().map(|hook| hook.fails_pod).collect::<Vec<_>>(), [true, false, true, false]);
        assert_eq!(pre[0].timeout, Duration::from_secs(30));
    }

    #[test]
    fn an_annotation_replaces_the_hooks_of_the_spec_at_its_moment_only() {
        let hooks = hooks(vec![entry("spec")]);
        let mut pod = pod("shop", &[]);
        pod.annotations = labels(&[("pre.hook.backup.velero.io/command", "own")]);
        let found = hooks.of(&pod);
        assert_eq!((words(&found.pre), words(&found.post)), ("<from-annotation>/0:own".into(), "spec/0:thaw".into()));
    }

    #[test]
    fn what_is_wrong_with_hooks_is_said_at_once() {
        let requirement = lifeboat_api::LabelSelectorRequirement {
            key: "a".into(),
            operator: "Like".into(),
            values: vec![],
            ..lifeboat_api::LabelSelectorRequirement::default()
        };
        let selector = LabelSelector { match_expressions: vec![requirement], ..LabelSelector::default() };
        let no_command = BackupResourceHook::default();
        let wrong = vec![
            BackupResourceHookSpec { label_selector: Some(selector), ..entry("a") },
            BackupResourceHookSpec { post_hooks: vec![no_command], ..entry("b") },
        ];
        assert_eq!(
            BackupHooks::new(&Spec { resources: wrong, ..Spec::default() }, &catalog()).map(drop),
            Err(list(&[
                r#"hook "a": invalid label selector: "Like" is not a valid label selector operator"#,
                r#"hook "b": a hook has no command: name the program and its arguments"#,
            ]))
        );
    }

    #[test]
    fn no_pod_with_hooks_is_passed_over_at_a_glance() {
        let item = |namespace: &str, body: &str| {
            let body = format!(r#"{{"metadata":{{"name":"p","namespace":"{namespace}"{body}}}}}"#);
            Item::parse(Arc::new(ApiResource::new("", "v1", "pods", "Pod")), body.into()).unwrap()
        };
        let of_spec = hooks(vec![BackupResourceHookSpec { included_namespaces: list(&["shop"]), ..entry("a") }]);
        let annotated = r#","annotations":{"hook.backup.velero.io/command":"x"}"#;
        for (namespace, body, expected) in [("shop", "", true), ("other", "", false), ("other", annotated, true)] {
            assert_eq!(of_spec.may_concern(&item(namespace, body)), expected, "{namespace} {body}");
        }
    }
}
