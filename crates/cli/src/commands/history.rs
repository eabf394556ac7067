//! `lifeboat history`: changes of one object over the backups of a bucket.

use anyhow::{Context, Result, bail};
use clap::Args;
use lifeboat_browse::{History, HistoryEvent, HistoryEventKind, HistoryOptions, types_of_backups};
use lifeboat_object::{ApiResource, ObjectKey, printable};
use lifeboat_patch::{Difference, hide_secret_values};
use lifeboat_standalone::backup_source::{self, until_interrupted};
use lifeboat_standalone::bucket_url::{self, Purpose};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::flags::object_name::{ObjectArgs, check_namespace};
use lifeboat_terminal::flags::object_type::meant;
use lifeboat_terminal::output::difference::{difference_documents, difference_lines};
use lifeboat_terminal::output::errors;
use lifeboat_terminal::output::exit_code::{CheckOutcome, answered};
use lifeboat_terminal::output::{Output, print_resource};
use lifeboat_terminal::process::scratch::ScratchArgs;
use serde_json::{Value, json};
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// Blanks before a place where the object differs.
const INDENT: usize = 11;

/// `lifeboat history TYPE/NAME [--object-namespace NS] --bucket URL`.
#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    object: ObjectArgs,
    /// The namespace of the object
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) object_namespace: Option<String>,
    /// Where the backups lie: a directory, file:///directory, or s3://bucket/prefix?region=…&endpoint=…
    #[arg(long, value_name = "URL")]
    bucket: String,
    /// Show the values of a Secret
    #[arg(long)]
    show_secrets: bool,
    /// Print one document instead, as JSON or YAML
    #[arg(long, short, value_enum)]
    output: Option<Output>,
    #[command(flatten)]
    scratch: ScratchArgs,
}

impl HistoryArgs {
    /// The exit code answers whether some backup has the object.
    pub(crate) async fn run(self, globals: &Globals) -> Result<ExitCode> {
        let shown = until_interrupted(self.show(globals), "interrupted before all backups were read: nothing is told");
        Ok(answered(Box::pin(shown).await))
    }

    async fn show(&self, globals: &Globals) -> Result<CheckOutcome> {
        let folder = self.scratch.folder()?;
        let options =
            HistoryOptions { open: backup_source::options(folder.path()), cache: globals.program.archives.clone() };
        let store = bucket_url::open(&self.bucket, Purpose::Read, globals.patience()).await?;
        let backups =
            store.usable_backups().await.with_context(|| format!("list the backups in {}", store.describe()))?;
        let types = Box::pin(types_of_backups(&store, &backups, self.object.type_and_name()?.0, &options)).await;
        let key = self.key(&types, globals.program.object_namespace_flag())?;
        let mut history = Box::pin(History::of(&store, &backups, &key, &options)).await;
        if key.resource.is_secrets() && !self.show_secrets {
            hide(&mut history);
        }
        match self.output {
            Some(output) => print_resource(&document(&key, &history), output)?,
            None => write!(std::io::stdout(), "{}", text(&key, &history, globals.colour()))?,
        }
        std::io::stdout().flush()?;
        if !history.has_object() {
            errors::report(&anyhow::anyhow!("no backup in {} that could be read has {key}", store.describe()));
        }
        Ok(match (history.is_incomplete(), history.has_object()) {
            (true, _) => CheckOutcome::Unknown,
            (false, true) => CheckOutcome::Yes,
            (false, false) => CheckOutcome::No,
        })
    }

    /// Returns the key of the object, by the types that its word names. `flag` is the flag for the namespace of an
    /// object.
    fn key(&self, types: &[Arc<ApiResource>], flag: &str) -> Result<ObjectKey> {
        let (word, name) = self.object.type_and_name()?;
        let Some(found) = meant(word, name, types)? else {
            bail!(
                "no type is called {word:?} in the newest backups: write a custom type with its plural and group, such as widgets.example.com; \
                 other names are known only if the newest backup has its definition"
            );
        };
        let (resource, is_namespaced) = (found.group_resource(), found.namespaced);
        let namespace = self.object_namespace.as_deref();
        check_namespace(&resource, is_namespaced, namespace)?;
        if is_namespaced && namespace.is_none() {
            bail!("{resource} are in namespaces: say in which with {flag}");
        }
        Ok(ObjectKey::new(resource, namespace, name))
    }
}

/// Hides the values of a Secret.
fn hide(history: &mut History) {
    for event in &mut history.events {
        if let HistoryEventKind::Changed(differences) | HistoryEventKind::MadeAgain(differences) = &mut event.happening
        {
            hide_secret_values(differences);
        }
    }
}

/// Returns the word for an event, its reason if it has one, and the differences of the object.
fn parts(happening: &HistoryEventKind) -> (&'static str, Option<&str>, &[Difference]) {
    match happening {
        HistoryEventKind::Present => ("present", None, &[]),
        HistoryEventKind::Appeared => ("appeared", None, &[]),
        HistoryEventKind::Changed(differences) => ("changed", None, differences),
        HistoryEventKind::MadeAgain(differences) => ("made again", None, differences),
        HistoryEventKind::NotCompared(why) => ("uncompared", Some(why), &[]),
        HistoryEventKind::Vanished(doubt) => ("vanished", doubt.as_deref(), &[]),
        HistoryEventKind::Same => ("unchanged", None, &[]),
        HistoryEventKind::Absent(doubt) => ("absent", doubt.as_deref(), &[]),
        HistoryEventKind::NotInScope(why) => ("not in scope", Some(why), &[]),
        HistoryEventKind::Unreadable(why) => ("unreadable", Some(why), &[]),
    }
}

/// The object, and below it a line for each event and each place where it differs.
fn text(key: &ObjectKey, history: &History, colours: bool) -> String {
    let width = history.events.iter().map(|event| printable(&event.backup).chars().count()).max().unwrap_or_default();
    let mut text = format!("{}\n", printable(key));
    for event in &history.events {
        let HistoryEvent { backup, time, last, backups, happening } = event;
        let [backup, last] = [backup, last].map(printable);
        let time = time.map_or_else(|| "-".to_owned(), |time| time.to_string());
        let (word, reason, differences) = parts(happening);
        let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
        let count = match backups {
            1 => String::new(),
            more => format!(", also in the next {} up to {last}", more - 1),
        };
        text.push_str(&format!("{time:<20}  {backup:<width$}  {word}{reason}{count}\n"));
        text.push_str(&difference_lines(differences, INDENT, colours));
    }
    if history.left_out > 0 {
        text.push_str(&format!("{} backups that have not ended, or have failed, are left out\n", history.left_out));
    }
    text
}

/// Returns the word for an event in JSON, where no word has a blank.
fn json_word(word: &str) -> &str {
    match word {
        "made again" => "madeAgain",
        "not in scope" => "notInScope",
        word => word,
    }
}

fn document(key: &ObjectKey, history: &History) -> Value {
    let events = history.events.iter().map(|event| {
        let (word, reason, differences) = parts(&event.happening);
        let mut document = json!({"event": json_word(word), "backup": event.backup});
        if let Some(time) = event.time {
            document["time"] = time.to_string().into();
        }
        if event.backups > 1 {
            document["backups"] = event.backups.into();
            document["last"] = event.last.as_str().into();
        }
        if let Some(reason) = reason {
            document["reason"] = reason.into();
        }
        if !differences.is_empty() {
            document["differences"] = difference_documents(differences);
        }
        document
    });
    let mut document = key.to_json();
    document["events"] = events.collect();
    document["leftOut"] = history.left_out.into();
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;

    fn history() -> History {
        let event = |backup: &str, backups: usize, happening: HistoryEventKind| HistoryEvent {
            backup: backup.to_owned(),
            time: Some(lifeboat_api::Time::new("2026-11-24T02:00:00Z".parse().unwrap())),
            last: format!("{backup}-last"),
            backups,
            happening,
        };
        let difference = Difference { path: "/data/a".to_owned(), left: Some(json!("1")), right: None };
        let undated =
            HistoryEvent { time: None, ..event("odd", 1, HistoryEventKind::Unreadable("it is torn".to_owned())) };
        History {
            events: vec![
                event("b1", 2, HistoryEventKind::NotInScope("its namespace is not included")),
                event("b3", 1, HistoryEventKind::Appeared),
                event("b4", 3, HistoryEventKind::Same),
                event("b7", 1, HistoryEventKind::Changed(vec![difference])),
                event("b8", 1, HistoryEventKind::Vanished(Some("the backup is PartiallyFailed".to_owned()))),
                event("b9", 1, HistoryEventKind::Absent(Some("the backup has resource policies".to_owned()))),
                undated,
            ],
            left_out: 1,
        }
    }

    fn key() -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), "settings")
    }

    #[test]
    fn a_line_for_the_object_each_event_and_each_place() {
        let lines = [
            "configmaps/shop/settings",
            "2026-11-24T02:00:00Z  b1   not in scope (its namespace is not included), also in the next 1 up to b1-last",
            "2026-11-24T02:00:00Z  b3   appeared",
            "2026-11-24T02:00:00Z  b4   unchanged, also in the next 2 up to b4-last",
            "2026-11-24T02:00:00Z  b7   changed",
            "           /data/a: \"1\" -> (absent)",
            "2026-11-24T02:00:00Z  b8   vanished (the backup is PartiallyFailed)",
            "2026-11-24T02:00:00Z  b9   absent (the backup has resource policies)",
            "-                     odd  unreadable (it is torn)",
            "1 backups that have not ended, or have failed, are left out",
        ];
        assert_eq!(text(&key(), &history(), false).lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn one_document() {
        let event =
            |backup: &str, event: &str| json!({"event": event, "backup": backup, "time": "2026-11-24T02:00:00Z"});
        let with = |mut event: Value, key: &str, value: Value| {
            event[key] = value;
            event
        };
        let outside = with(event("b1", "notInScope"), "reason", json!("its namespace is not included"));
        let outside = with(with(outside, "backups", json!(2)), "last", json!("b1-last"));
        let same = with(with(event("b4", "unchanged"), "backups", json!(3)), "last", json!("b4-last"));
        let changed = with(event("b7", "changed"), "differences", json!([{"path": "/data/a", "before": "1"}]));
        let vanished = with(event("b8", "vanished"), "reason", json!("the backup is PartiallyFailed"));
        let absent = with(event("b9", "absent"), "reason", json!("the backup has resource policies"));
        let odd = json!({"event": "unreadable", "backup": "odd", "reason": "it is torn"});
        let events = json!([outside, event("b3", "appeared"), same, changed, vanished, absent, odd]);
        assert_eq!(
            document(&key(), &history()),
            json!({"type": "configmaps", "namespace": "shop", "name": "settings", "events": events, "leftOut": 1})
        );
    }
}
