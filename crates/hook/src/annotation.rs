//! Hooks in the annotations of a pod (velero: internal/hook).

use crate::command::command;
use crate::hook::{FROM_ANNOTATION, Hook, HookSource, Moment, effective_timeout, fails_pod};
use lifeboat_api::{Duration, HookErrorMode};
use std::collections::BTreeMap;
use std::str::FromStr;

/// Annotations under one prefix.
pub(crate) struct Annotations<'a> {
    all: &'a BTreeMap<String, String>,
    prefix: &'static str,
    /// Annotations that could not be understood, for the log.
    pub(crate) warnings: Vec<String>,
}

impl<'a> Annotations<'a> {
    /// The annotations of the hook of a backup at this moment; `None` when they ask for none. Before a backup, the
    /// annotations without `pre.` count when there is none with it.
    pub(crate) fn of_backup(all: &'a BTreeMap<String, String>, moment: Moment) -> Option<Self> {
        let prefixes: &[&str] = match moment {
            Moment::Pre => &["pre.hook.backup.velero.io/", "hook.backup.velero.io/"],
            Moment::Post => &["post.hook.backup.velero.io/"],
            Moment::Restored => &[],
        };
        prefixes.iter().find_map(|prefix| Self::activated(all, prefix, "command"))
    }

    /// The annotations of the command after a restore; `None` when they ask for none.
    pub(crate) fn of_restore(all: &'a BTreeMap<String, String>) -> Option<Self> {
        Self::activated(all, "post.hook.restore.velero.io/", "command")
    }

    /// The annotations of the init container of a restore; `None` when they ask for none.
    pub(crate) fn of_init(all: &'a BTreeMap<String, String>) -> Option<Self> {
        Self::activated(all, "init.hook.restore.velero.io/", "container-image")
    }

    fn activated(all: &'a BTreeMap<String, String>, prefix: &'static str, by: &str) -> Option<Self> {
        let annotations = Self { all, prefix, warnings: Vec::new() };
        (!annotations.text(by).is_empty()).then_some(annotations)
    }

    /// The value under a name; empty when there is none.
    pub(crate) fn text(&self, name: &str) -> &'a str {
        self.all.get(&format!("{}{name}", self.prefix)).map_or("", String::as_str)
    }

    /// The value under a name; `None` when there is none, or when it is not of its type, which is a warning.
    pub(crate) fn parsed<T: FromStr>(&mut self, name: &str) -> Option<T> {
        let text = self.text(name);
        if text.is_empty() {
            return None;
        }
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.warnings
                .push(format!("annotation {}{name}: {text:?} cannot be read, so the default is used", self.prefix));
        }
        parsed
    }

    /// The command that they ask for, with no more time than `most`: a user who may annotate a pod must not hold
    /// backups up for hours.
    pub(crate) fn hook(&mut self, timeout_name: &str, most: Option<Duration>) -> Hook {
        let asked = effective_timeout(self.parsed(timeout_name).unwrap_or(Duration::ZERO));
        let timeout = most.map_or(asked, |most| asked.min(most));
        if timeout < asked {
            self.warnings.push(format!(
                "annotation {}{timeout_name}: the command has {timeout} and not {asked}, because annotations of pods are given no more \
                 (--max-hook-timeout); a hook in the spec of the backup or restore may take longer",
                self.prefix
            ));
        }
        // compat: other words than these two count as unset.
        let mode = match self.text("on-error") {
            "Fail" => Some(HookErrorMode::Fail),
            "Continue" => Some(HookErrorMode::Continue),
            _ => None,
        };
        Hook {
            name: FROM_ANNOTATION.to_owned(),
            source: HookSource::Annotation,
            index: 0,
            container: self.text("container").to_owned(),
            command: command(self.text("command")),
            fails_pod: fails_pod(mode.as_ref()),
            timeout,
        }
    }
}

impl Annotations<'_> {
    /// The wait for a container that they ask for, no longer than `most`; `None` when they ask for none.
    pub(crate) fn wait(&mut self, name: &str, most: Option<Duration>) -> Option<Duration> {
        let asked = self.parsed::<Duration>(name).filter(|asked| *asked > Duration::ZERO)?;
        let wait = most.map_or(asked, |most| asked.min(most));
        if wait < asked {
            self.warnings.push(format!(
                "annotation {}{name}: the command waits {wait} for its container and not {asked}: no longer than the restore waits for \
                 asynchronous operations (itemOperationTimeout); a hook in the spec of the restore may wait longer",
                self.prefix
            ));
        }
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn hook(command: &str, container: &str, fails_pod: bool, seconds: i64) -> Hook {
        Hook {
            name: FROM_ANNOTATION.to_owned(),
            source: HookSource::Annotation,
            index: 0,
            container: container.to_owned(),
            command: vec![command.to_owned()],
            fails_pod,
            timeout: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn annotations_of_a_backup_are_read_by_moment() {
        let found = |pairs: &[(&str, &str)], moment| {
            let all = annotations(pairs);
            Annotations::of_backup(&all, moment).map(|mut found| (found.hook("timeout", None), found.warnings))
        };
        let all = [
            ("pre.hook.backup.velero.io/command", "freeze"),
            ("pre.hook.backup.velero.io/container", "db"),
            ("pre.hook.backup.velero.io/on-error", "Fail"),
            ("pre.hook.backup.velero.io/timeout", "2m"),
            ("post.hook.backup.velero.io/command", "thaw"),
            ("post.hook.backup.velero.io/on-error", "fail"),
            ("post.hook.backup.velero.io/timeout", "soon"),
            ("hook.backup.velero.io/command", "never"),
        ];
        assert_eq!(found(&all, Moment::Pre), Some((hook("freeze", "db", true, 120), vec![])));
        let warning = "annotation post.hook.backup.velero.io/timeout: \"soon\" cannot be read, so the default is used";
        assert_eq!(found(&all, Moment::Post), Some((hook("thaw", "", false, 30), vec![warning.to_owned()])));
        // Without a prefix only before the backup, and with all of its annotations.
        let plain = [
            ("hook.backup.velero.io/command", "freeze"),
            ("hook.backup.velero.io/timeout", "-1s"),
            ("pre.hook.backup.velero.io/container", "unused"),
        ];
        assert_eq!(found(&plain, Moment::Pre), Some((hook("freeze", "", false, 30), vec![])));
        assert_eq!(found(&plain, Moment::Post), None);
        assert_eq!(found(&[("pre.hook.backup.velero.io/command", "")], Moment::Pre), None);
    }

    #[test]
    fn an_annotation_that_asks_for_hours_holds_no_backup_up() {
        let most = Some(Duration::from_secs(15 * 60));
        let of = |timeout: &str| {
            let all = annotations(&[
                ("post.hook.backup.velero.io/command", "thaw"),
                ("post.hook.backup.velero.io/timeout", timeout),
            ]);
            let mut found = Annotations::of_backup(&all, Moment::Post).unwrap();
            (found.hook("timeout", most).timeout, found.warnings)
        };
        assert_eq!(of("15m"), (Duration::from_secs(900), vec![]));
        assert_eq!(of(""), (Duration::from_secs(30), vec![]));
        let warning = "annotation post.hook.backup.velero.io/timeout: the command has 15m0s and not 2h0m0s, because annotations \
                       of pods are given no more (--max-hook-timeout); a hook in the spec of the backup or restore may take longer";
        assert_eq!(of("2h"), (Duration::from_secs(900), vec![warning.to_owned()]));
    }

    #[test]
    fn annotations_of_a_restore_are_read() {
        let all = annotations(&[
            ("post.hook.restore.velero.io/command", "load"),
            ("post.hook.restore.velero.io/exec-timeout", "5h"),
            ("post.hook.restore.velero.io/wait-for-ready", "yes"),
            ("init.hook.restore.velero.io/container-image", "alpine"),
        ]);
        let mut found = Annotations::of_restore(&all).unwrap();
        assert_eq!(found.hook("exec-timeout", None), hook("load", "", false, 4 * 3600));
        assert_eq!(found.parsed::<bool>("wait-for-ready"), None);
        assert_eq!(found.warnings.len(), 1);
        let full = [
            ("post.hook.restore.velero.io/command", "load"),
            ("post.hook.restore.velero.io/container", "db"),
            ("post.hook.restore.velero.io/on-error", "Fail"),
            ("post.hook.restore.velero.io/exec-timeout", "90s"),
            ("hook.restore.velero.io/container", "unused"),
        ];
        for (on_error, fails_pod) in [("Fail", true), ("Continue", false), ("fail", false), ("", false)] {
            let mut all = annotations(&full);
            all.insert("post.hook.restore.velero.io/on-error".to_owned(), on_error.to_owned());
            let found = Annotations::of_restore(&all).unwrap().hook("exec-timeout", None);
            assert_eq!(found, hook("load", "db", fails_pod, 90), "{on_error}");
        }
        assert!(Annotations::of_init(&all).is_some());
        assert!(Annotations::of_init(&BTreeMap::new()).is_none());
    }
}
