//! A restore that is held to a plan which somebody has seen (docs/formats/plan.md): it plans again before it writes anything, and
//! writes only what the plan says.

use crate::checkpoint::KEY as CHECKPOINT;
use crate::env::Env;
use crate::lock::lock;
use crate::outcome::RestoreError;
use crate::pin::{Pin, found, written};
use crate::plan_line::{PlanDigest, PlanLine, Word};
use crate::planned::PreviewItem;
use crate::preview::preview;
use crate::request::Request;
use lifeboat_api::Restore;
use lifeboat_archive::layout::RestoreFile;
use lifeboat_object::{GroupResource, ObjectKey, Place};
use lifeboat_operation::{Journal, Operation, Progress};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// Bytes of a stored plan that are read: some two million objects.
const LARGEST: u64 = 512 << 20;
/// Items of the plan on their way.
const WAITING: usize = 64;

/// What a restore may do, by the digests of keys in the cluster.
#[derive(Debug, Default)]
pub(crate) struct Pinned {
    /// Two namespaces may become one, and two objects of the backup one of the cluster.
    objects: HashMap<[u8; 16], Vec<(Word, Pin)>>,
    /// Objects that this run deletes to make them anew.
    deleted: Mutex<HashSet<[u8; 16]>>,
    /// Objects that the backup lacks and that are removed, in the order in which that is done.
    pub(crate) removed: Vec<(ObjectKey, Pin)>,
    /// Whether an earlier run of the same restore was cut off: it may have deleted what was to be made anew.
    is_resumed: bool,
}

/// What is about to be done with an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'a> {
    /// It is made.
    Create,
    /// It is in the cluster like this, and is changed.
    Update(&'a Value),
    /// It is in the cluster like this, and is made anew.
    Recreate(&'a Value),
}

impl Pinned {
    /// Holds a restore to the plan of its digest; `None` when it names none. What it would do now is planned and stored beside
    /// the restore. A run that was cut off finds the plan there, and goes on by it.
    ///
    /// # Errors
    /// [`RestoreError::PlanChanged`] when the plan would be another one now; nothing was written to the cluster.
    pub(crate) async fn begin(request: &Request, restore: &Restore, env: &Env) -> Result<Option<Self>, RestoreError> {
        let digest = &restore.spec.plan_digest;
        if digest.is_empty() {
            return Ok(None);
        }
        let (name, uid) = (&restore.metadata.name, &restore.metadata.uid);
        // Before its checkpoint a run has written nothing, so that its plan may be an old one.
        let has_begun = has_checkpoint(env).await;
        let stored = env.store.restore_file_bytes(name, RestoreFile::Plan).await?;
        let stored = stored.and_then(|bytes| lifeboat_archive::gzip::unpack(&bytes, LARGEST).ok());
        if let Some(plan) = stored.and_then(|bytes| PlanFile::parse(&String::from_utf8_lossy(&bytes)))
            && plan.restore_uid == *uid
            && plan.digest == *digest
            && has_begun
        {
            env.operation.journal.info("Going on by the plan of the run that was cut off", &[("digest", digest)]);
            return Ok(Some(Self::of(&plan, true)));
        }
        if has_begun {
            return Err(RestoreError::PlanLost { pinned: digest.clone(), place: RestoreFile::Plan.key(name) });
        }
        let mut plan = plan(request, restore, env).await?;
        if plan.digest != *digest {
            // No later run of the same restore may take it for its own.
            plan.restore_uid.clear();
        }
        let bytes = lifeboat_archive::gzip::pack(plan.text().as_bytes());
        env.store.put_restore_file(name, RestoreFile::Plan, bytes).await?;
        if plan.digest != *digest {
            let (now, counts) = (plan.digest.clone(), plan.counts());
            let place = RestoreFile::Plan.key(name);
            return Err(RestoreError::PlanChanged { pinned: digest.clone(), now, counts, place });
        }
        env.operation.journal.info("The plan is the one that the restore is pinned to", &[("digest", digest)]);
        Ok(Some(Self::of(&plan, false)))
    }

    fn of(plan: &PlanFile, is_resumed: bool) -> Self {
        let mut out = Self { is_resumed, ..Self::default() };
        for (key, word, pin) in plan.lines.iter().filter_map(PlanLine::read) {
            if word == Word::Remove {
                out.removed.push((key, pin));
            } else {
                out.objects.entry(key.digest()).or_default().push((word, pin));
            }
        }
        // What comes last in a restore goes first.
        out.removed.reverse();
        out
    }

    /// Whether the plan says that an object is made, so that there is none to look at before.
    pub(crate) fn makes(&self, key: &ObjectKey) -> bool {
        self.objects.get(&key.digest()).is_none_or(|lines| lines.iter().any(|(word, _)| *word == Word::Create))
    }

    /// Remembers that an object is being deleted, to be made anew: it is to be made also when that takes several attempts.
    pub(crate) fn deletes(&self, key: &ObjectKey) {
        lock(&self.deleted).insert(key.digest());
    }

    /// How many objects the plan writes that are not among these, by the digests of their keys.
    pub(crate) fn not_written(&self, written: &HashSet<[u8; 16]>) -> usize {
        let writes = |lines: &Vec<(Word, Pin)>| {
            lines.iter().any(|(word, _)| matches!(word, Word::Create | Word::Update | Word::Recreate))
        };
        self.objects.iter().filter(|(key, lines)| writes(lines) && !written.contains(*key)).count()
    }

    /// Whether the plan says that this is done with an object, and what it says of the object still holds.
    ///
    /// # Errors
    /// Why not, for people.
    pub(crate) fn allows(&self, key: &ObjectKey, change: Change<'_>, desired: &Value) -> Result<(), String> {
        let Some(lines) = self.objects.get(&key.digest()) else {
            return Err("the plan that the restore is pinned to does not have it".to_owned());
        };
        let mut why = String::new();
        for line in lines {
            match self.holds(key, *line, change, desired) {
                Ok(()) => return Ok(()),
                Err(told) => why = told,
            }
        }
        Err(why)
    }

    fn holds(
        &self,
        key: &ObjectKey,
        (word, pin): (Word, Pin),
        change: Change<'_>,
        desired: &Value,
    ) -> Result<(), String> {
        let was_deleted = || self.is_resumed || lock(&self.deleted).contains(&key.digest());
        let in_cluster = match (change, word) {
            (Change::Create, Word::Create) => None,
            (Change::Create, Word::Recreate) if was_deleted() => None,
            // The controller of service accounts makes one in every namespace, also in one that the restore has just made.
            (Change::Update(_), Word::Create) if key.resource == GroupResource::new("", "serviceaccounts") => None,
            (Change::Update(object), Word::Update) | (Change::Recreate(object), Word::Recreate) => Some(object),
            (Change::Create, _) => return Err("it is gone since the plan that the restore is pinned to".to_owned()),
            (Change::Update(_) | Change::Recreate(_), Word::Create) => {
                return Err("it has come into being since the plan that the restore is pinned to".to_owned());
            }
            _ => return Err("it has changed since the plan that the restore is pinned to".to_owned()),
        };
        if in_cluster.is_some_and(|object| pin.found != Some(found(object))) {
            return Err("it has changed since the plan that the restore is pinned to".to_owned());
        }
        if pin.written.is_some_and(|planned| planned != written(desired)) {
            return Err("it would become something else than in the plan that the restore is pinned to".to_owned());
        }
        Ok(())
    }
}

/// Whether a run before has come so far that it may have written something.
async fn has_checkpoint(env: &Env) -> bool {
    let keys = env.operation.records.keys().await;
    // Notes that cannot be read are an error of their own later; the plan is then made anew, and is another one.
    keys.is_ok_and(|keys| keys.iter().any(|key| key == CHECKPOINT))
}

/// Plans a restore as a preview does, with a journal of its own.
async fn plan(request: &Request, restore: &Restore, env: &Env) -> Result<PlanFile, RestoreError> {
    let (operation, told) = (&env.operation, env.operation.journal.clone());
    let journal = Journal::new(Arc::clone(&operation.clock), "plan", &operation.scratch);
    let operation = Operation { journal, progress: Arc::<Progress>::default(), ..operation.clone() };
    let env = Env { operation, ..env.clone() };
    let (sender, mut items) = mpsc::channel::<PreviewItem>(WAITING);
    let mut out = PlanFile { restore_uid: restore.metadata.uid.clone(), ..PlanFile::default() };
    let mut digest = PlanDigest::default();
    let gather = async {
        while let Some(item) = items.recv().await {
            let line = PlanLine::of(&item);
            digest.add(&line);
            out.lines.push(line);
        }
    };
    let (end, ()) = tokio::join!(preview(request, &env, sender), gather);
    let end = end?;
    // What could not be looked at is in no plan.
    for message in end.results.errors.messages() {
        told.error(&Place::Velero, format!("the plan lacks something: {message}"));
    }
    if env.operation.cancel.is_cancelled() {
        return Err(RestoreError::Cancelled);
    }
    out.digest = digest.end();
    Ok(out)
}

/// A stored plan (docs/formats/plan.md): a line that says which, and a line for each object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanFile {
    /// The digest of its lines.
    pub digest: String,
    /// The restore that stored it; empty for one that a user saved.
    pub restore_uid: String,
    /// Its lines, in the order of the restore.
    pub lines: Vec<PlanLine>,
}

impl PlanFile {
    /// Reads one; `None` when it is none, or its lines are not those of its digest.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let first: Value = serde_json::from_str(lines.next()?).ok()?;
        let field = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
        let lines: Vec<PlanLine> = lines.map(PlanLine::parse).collect::<Option<_>>()?;
        let mut digest = PlanDigest::default();
        lines.iter().for_each(|line| digest.add(line));
        let out = Self { digest: field("planDigest"), restore_uid: field("restoreUID"), lines };
        (digest.end() == out.digest).then_some(out)
    }

    /// Its text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = Self::first_line(&self.digest, &self.restore_uid);
        for line in &self.lines {
            out.push_str(line.text());
            out.push('\n');
        }
        out
    }

    /// The first line of a plan, with its end.
    #[must_use]
    pub fn first_line(digest: &str, restore_uid: &str) -> String {
        format!("{}\n", json!({"planDigest": digest, "restoreUID": restore_uid}))
    }

    /// What was of another kind in the plan before, or of this one now, in the order of the objects' names: the object, what was
    /// to be done with it, and what is; `None` where a plan lacks it.
    #[must_use]
    pub fn changes(&self, now: &Self) -> Vec<PlanChange> {
        let by_key = |plan: &Self| -> BTreeMap<String, (String, PlanLine)> {
            let read = |line: &PlanLine| {
                let word = serde_json::from_str::<Value>(line.text()).ok()?["action"].as_str()?.to_owned();
                Some((line.read()?.0.to_string(), (word, line.clone())))
            };
            plan.lines.iter().filter_map(read).collect()
        };
        let (before, mut after) = (by_key(self), by_key(now));
        let mut out = Vec::new();
        for (object, (word, line)) in before {
            match after.remove(&object) {
                Some((_, same)) if same == line => {}
                other => out.push(PlanChange { object, before: Some(word), now: other.map(|(word, _)| word) }),
            }
        }
        out.extend(after.into_iter().map(|(object, (word, _))| PlanChange { object, before: None, now: Some(word) }));
        out.sort_by(|a, b| a.object.cmp(&b.object));
        out
    }

    fn counts(&self) -> String {
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        for (_, word, _) in self.lines.iter().filter_map(PlanLine::read) {
            let word = match word {
                Word::Create => "create",
                Word::Update => "update",
                Word::Recreate => "recreate",
                Word::Remove => "remove",
                Word::Nothing => "leave",
            };
            *counts.entry(word).or_default() += 1;
        }
        counts.into_iter().map(|(word, count)| format!("{word} {count}")).collect::<Vec<_>>().join(", ")
    }
}

/// An object of which two plans differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanChange {
    /// Type, namespace and name.
    pub object: String,
    /// What was to be done with it; `None` when the plan before lacks it.
    pub before: Option<String>,
    /// What is to be done with it; `None` when the plan lacks it.
    pub now: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planned::Planned;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name)
    }

    fn object(data: &str) -> Value {
        json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}, "data": {"a": data}})
    }

    fn line(name: &str, planned: Planned, in_cluster: Option<&Value>) -> PlanLine {
        PlanLine::of(&PreviewItem { pin: Pin::of(in_cluster, &object("new")), ..PreviewItem::of(key(name), planned) })
    }

    fn file(lines: Vec<PlanLine>) -> PlanFile {
        let mut digest = PlanDigest::default();
        lines.iter().for_each(|line| digest.add(line));
        PlanFile { digest: digest.end(), restore_uid: "r".to_owned(), lines }
    }

    #[test]
    fn only_what_the_plan_says_is_written_and_only_while_it_holds() {
        let old = object("old");
        let plan = file(vec![
            line("new", Planned::Create, None),
            line("old", Planned::Update(Vec::new()), Some(&old)),
            line("immutable", Planned::Recreate(Vec::new()), Some(&old)),
            line("same", Planned::Unchanged, Some(&old)),
        ]);
        let (other, gone) = (object("other"), "it is gone since the plan that the restore is pinned to");
        let changed = "it has changed since the plan that the restore is pinned to";
        let came = "it has come into being since the plan that the restore is pinned to";
        for (name, change, resumed, expected) in [
            ("new", Change::Create, false, Ok(())),
            ("new", Change::Update(&old), false, Err(came)),
            ("old", Change::Update(&old), false, Ok(())),
            ("old", Change::Update(&other), false, Err(changed)),
            ("old", Change::Recreate(&old), false, Err(changed)),
            ("old", Change::Create, true, Err(gone)),
            ("immutable", Change::Recreate(&old), false, Ok(())),
            ("immutable", Change::Create, false, Err(gone)),
            ("immutable", Change::Create, true, Ok(())),
            ("same", Change::Update(&old), false, Err(changed)),
            ("else", Change::Create, false, Err("the plan that the restore is pinned to does not have it")),
        ] {
            let pinned = Pinned::of(&plan, resumed);
            assert_eq!(pinned.allows(&key(name), change, &object("new")), expected.map_err(str::to_owned), "{name}");
        }
        let pinned = Pinned::of(&plan, false);
        pinned.deletes(&key("immutable"));
        assert_eq!(pinned.allows(&key("immutable"), Change::Create, &object("new")), Ok(()), "its second attempt");
        let written = |names: &[&str]| names.iter().map(|name| key(name).digest()).collect();
        assert_eq!(pinned.not_written(&written(&["new", "immutable", "same"])), 1);
        assert_eq!(pinned.not_written(&written(&["new", "immutable", "old"])), 0);
        let why = Pinned::of(&plan, false).allows(&key("new"), Change::Create, &object("newer"));
        assert_eq!(
            why,
            Err("it would become something else than in the plan that the restore is pinned to".to_owned())
        );
    }

    #[test]
    fn a_stored_plan_is_read_as_it_was_written_and_not_when_somebody_changed_it() {
        let plan = file(vec![line("a", Planned::Create, None), line("b", Planned::Unchanged, None)]);
        let text = plan.text();
        assert_eq!(PlanFile::parse(&text), Some(plan));
        assert_eq!(PlanFile::parse(&text.replace("create", "update")), None);
        assert_eq!((PlanFile::parse(""), PlanFile::parse("{}")), (None, None));
    }

    #[test]
    fn two_plans_differ_by_objects() {
        let old = object("old");
        let before = file(vec![line("a", Planned::Create, None), line("b", Planned::Unchanged, None)]);
        let now = file(vec![line("a", Planned::Update(Vec::new()), Some(&old)), line("c", Planned::Create, None)]);
        let change = |object: &str, before: Option<&str>, now: Option<&str>| PlanChange {
            object: format!("configmaps/shop/{object}"),
            before: before.map(str::to_owned),
            now: now.map(str::to_owned),
        };
        let expected = [
            change("a", Some("create"), Some("update")),
            change("b", Some("unchanged"), None),
            change("c", None, Some("create")),
        ];
        assert_eq!(before.changes(&now), expected);
        assert_eq!(before.changes(&before), []);
    }
}
