//! A restore that is held to a plan which somebody has seen (docs/formats/plan.md): it plans again before it writes anything, and
//! writes only what the plan says.

use crate::end::outcome::RestoreError;
use crate::plan::file::{LARGEST, PackedPlan, read_packed};
use crate::plan::guard::{PlanGuard, found, written};
use crate::plan::line::PlanLine;
use crate::plan::planned::PreviewItem;
use crate::plan::preview::preview;
use crate::plan::word::PlanWord;
use crate::request::settings::Request;
use crate::state::checkpoint::KEY as CHECKPOINT;
use crate::state::env::Env;
use crate::state::lock::lock;
use lifeboat_api::Restore;
use lifeboat_archive::layout::RestoreFile;
use lifeboat_object::{GroupResource, ObjectKey, ResultScope};
use lifeboat_operation::{Journal, Operation, Progress, RecordsError};
use serde_json::Value;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// Items of the plan on their way.
const WAITING: usize = 64;

/// The changes that the plan allows a restore to make, by the digests of keys in the cluster.
#[derive(Debug, Default)]
pub(crate) struct ConfirmedPlan {
    /// Two namespaces may become one, and two objects of the backup one of the cluster.
    objects: HashMap<[u8; 16], Vec<(PlanWord, PlanGuard)>>,
    /// Objects that this run deletes to make them anew.
    deleted: Mutex<HashSet<[u8; 16]>>,
    /// Objects that the backup lacks and that are removed, in the order in which that is done.
    pub(crate) removed: Vec<(ObjectKey, PlanGuard)>,
    /// Set when resuming a restore that was cut off: it may have deleted objects that were to be made anew.
    is_resumed: bool,
}

/// A change that is about to be made to an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PlannedWrite<'a> {
    /// It is made.
    Create,
    /// It is in the cluster like this, and is changed.
    Update(&'a Value),
    /// It is in the cluster like this, and is made anew.
    Recreate(&'a Value),
}

impl ConfirmedPlan {
    /// Holds a restore to the plan of its digest; `None` when it names none. What it would do now is planned and stored beside
    /// the restore. A run that was cut off finds the plan there, and goes on by it, unless everything is looked at again.
    ///
    /// # Errors
    /// [`RestoreError::PlanChanged`] when the plan would be another one now; nothing was written to the cluster.
    pub(crate) async fn begin(request: &Request, restore: &Restore, env: &Env) -> Result<Option<Self>, RestoreError> {
        let digest = &restore.spec.plan_digest;
        if digest.is_empty() {
            return Ok(None);
        }
        let (name, uid) = (&restore.metadata.name, &restore.metadata.uid);
        let place = || RestoreFile::Plan.key(name);
        let has_begun = match request.settings.looks_again {
            true => Ok(false),
            false => has_checkpoint(env).await,
        };
        if has_begun.map_err(|source| RestoreError::Notes { pinned: digest.clone(), source })? {
            let stored = env.store.restore_file_bytes(name, RestoreFile::Plan).await?;
            let Some(pinned) = stored.and_then(|bytes| Self::read(&bytes, uid, digest)) else {
                return Err(RestoreError::PlanLost { pinned: digest.clone(), place: place() });
            };
            env.operation.journal.info("Going on by the plan of the run that was cut off", &[("digest", digest)]);
            return Ok(Some(pinned));
        }
        // Before its checkpoint a run has written nothing, and a plan that it has stored may be an old one.
        let (mut pinned, plan) = plan(request, env).await?;
        let counts = plan.counts();
        // No later run of the same restore may take another plan for its own.
        let (now, packed) = plan.end(|now| if now == digest { uid.clone() } else { String::new() });
        env.store.put_restore_file(name, RestoreFile::Plan, packed).await?;
        if now != *digest {
            return Err(RestoreError::PlanChanged { pinned: digest.clone(), now, counts, place: place() });
        }
        env.operation.journal.info("The plan is the one that the restore is pinned to", &[("digest", digest)]);
        pinned.in_order();
        Ok(Some(pinned))
    }

    /// The stored plan of a run that was cut off; `None` when it is another one, or not whole.
    fn read(packed: &[u8], uid: &str, digest: &str) -> Option<Self> {
        let mut out = Self { is_resumed: true, ..Self::default() };
        read_packed(packed, uid, digest, |line| out.add(line))?;
        out.in_order();
        Some(out)
    }

    fn add(&mut self, line: &PlanLine) {
        let Some((key, word, pin)) = line.read() else { return };
        if word == PlanWord::Remove {
            self.removed.push((key, pin));
            return;
        }
        match self.objects.entry(key.digest()) {
            // Nearly all objects have one line: a vector that grows would hold the room of four.
            Entry::Vacant(place) => drop(place.insert(vec![(word, pin)])),
            Entry::Occupied(mut lines) => lines.get_mut().push((word, pin)),
        }
    }

    /// Reverses the order of removals, once all lines are there: types that are restored last are removed first.
    fn in_order(&mut self) {
        self.removed.reverse();
    }

    /// Returns true if the plan says that an object is created, so that there is none to read first.
    pub(crate) fn makes(&self, key: &ObjectKey) -> bool {
        self.objects.get(&key.digest()).is_none_or(|lines| lines.iter().any(|(word, _)| *word == PlanWord::Create))
    }

    /// Returns true if the plan names an object.
    pub(crate) fn names(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(&key.digest())
    }

    /// Returns true if this plan, which was made for this run and not for one that was cut off, found an object that is
    /// not as in the backup. Somebody has changed such an object since it was made, no matter who made it.
    pub(crate) fn found_changed(&self, key: &ObjectKey) -> bool {
        let is_other = |word: &PlanWord| matches!(word, PlanWord::Update | PlanWord::Recreate | PlanWord::Conflict);
        !self.is_resumed
            && self.objects.get(&key.digest()).is_some_and(|lines| lines.iter().any(|(word, _)| is_other(word)))
    }

    /// Remembers that an object is being deleted, to be made anew: it is to be made also when that takes several attempts.
    pub(crate) fn deletes(&self, key: &ObjectKey) {
        lock(&self.deleted).insert(key.digest());
    }

    /// Counts the objects that the plan writes and that are not among these, by the digests of their keys.
    pub(crate) fn not_written(&self, written: &HashSet<[u8; 16]>) -> usize {
        let writes = |lines: &Vec<(PlanWord, PlanGuard)>| {
            lines.iter().any(|(word, _)| matches!(word, PlanWord::Create | PlanWord::Update | PlanWord::Recreate))
        };
        self.objects.iter().filter(|(key, lines)| writes(lines) && !written.contains(*key)).count()
    }

    /// Checks that the plan has this change for an object, and that the state of the object that it was made for still
    /// holds.
    ///
    /// # Errors
    /// Returns the reason why the change is not allowed, for people.
    pub(crate) fn allows(&self, key: &ObjectKey, change: PlannedWrite<'_>, desired: &Value) -> Result<(), String> {
        let Some(lines) = self.objects.get(&key.digest()) else {
            return Err("the plan that the restore is pinned to does not have it".to_owned());
        };
        let mut why = String::new();
        for line in lines {
            match self.holds(key, line, change, desired) {
                Ok(()) => return Ok(()),
                Err(told) => why = told,
            }
        }
        Err(why)
    }

    fn holds(
        &self,
        key: &ObjectKey,
        line: &(PlanWord, PlanGuard),
        change: PlannedWrite<'_>,
        desired: &Value,
    ) -> Result<(), String> {
        let (word, pin) = line;
        let was_deleted = || self.is_resumed || lock(&self.deleted).contains(&key.digest());
        let in_cluster = match (change, word) {
            (PlannedWrite::Create, PlanWord::Create) => None,
            (PlannedWrite::Create, PlanWord::Recreate) if was_deleted() => None,
            // The controller of service accounts makes one in every namespace, also in one that the restore has just made.
            (PlannedWrite::Update(_), PlanWord::Create)
                if key.resource == GroupResource::new("", "serviceaccounts") =>
            {
                None
            }
            (PlannedWrite::Update(object), PlanWord::Update) | (PlannedWrite::Recreate(object), PlanWord::Recreate) => {
                Some(object)
            }
            (PlannedWrite::Create, _) => {
                return Err("it is gone since the plan that the restore is pinned to".to_owned());
            }
            (PlannedWrite::Update(_) | PlannedWrite::Recreate(_), PlanWord::Create) => {
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

/// Returns true if an earlier run has come so far that it may have written something.
///
/// # Errors
/// That it is not known.
async fn has_checkpoint(env: &Env) -> Result<bool, RecordsError> {
    Ok(env.operation.records.keys().await?.contains(CHECKPOINT))
}

/// Plans a restore as a preview does, with a journal of its own.
async fn plan(request: &Request, env: &Env) -> Result<(ConfirmedPlan, PackedPlan), RestoreError> {
    let (operation, told) = (&env.operation, env.operation.journal.clone());
    let journal = Journal::new(Arc::clone(&operation.clock), "plan", &operation.scratch);
    let operation = Operation { journal, progress: Arc::<Progress>::default(), ..operation.clone() };
    let env = Env { operation, ..env.clone() };
    let (sender, mut items) = mpsc::channel::<PreviewItem>(WAITING);
    let (mut pinned, mut out) = (ConfirmedPlan::default(), PackedPlan::default());
    let gather = async {
        while let Some(item) = items.recv().await {
            let line = PlanLine::of(&item);
            pinned.add(&line);
            out.add(&line);
            if out.is_too_large() {
                // The preview ends when nothing is received any more.
                items.close();
                break;
            }
        }
    };
    let (end, ()) = tokio::join!(preview(request, &env, sender), gather);
    if out.is_too_large() {
        return Err(RestoreError::PlanTooLarge { most: LARGEST });
    }
    let end = end?;
    // What could not be looked at is in no plan.
    for message in end.results.errors.messages() {
        told.error(&ResultScope::Velero, format!("the plan lacks something: {message}"));
    }
    Ok((pinned, out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::planned::Planned;
    use crate::stub::{RestoreFixture, Scripted, config_map, object as object_in};
    use bytes::Bytes;
    use lifeboat_action::RestoreItemOutput;
    use lifeboat_api::ExistingResourcePolicy;
    use lifeboat_operation::Records;
    use serde_json::json;
    use std::collections::{BTreeMap, BTreeSet};

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new(GroupResource::new("", "configmaps"), Some("shop"), name)
    }

    fn object(data: &str) -> Value {
        json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}, "data": {"a": data}})
    }

    fn line(name: &str, planned: Planned, in_cluster: Option<&Value>) -> PlanLine {
        PlanLine::of(&PreviewItem {
            pin: PlanGuard::of(in_cluster, &object("new")),
            ..PreviewItem::of(key(name), planned)
        })
    }

    #[test]
    fn only_what_the_plan_says_is_written_and_only_while_it_holds() {
        let old = object("old");
        let plan = [
            line("new", Planned::Create, None),
            line("old", Planned::Update(Vec::new()), Some(&old)),
            line("immutable", Planned::Recreate(Vec::new()), Some(&old)),
            line("same", Planned::Unchanged, Some(&old)),
        ];
        let pinned_to = |is_resumed: bool| {
            let mut pinned = ConfirmedPlan { is_resumed, ..ConfirmedPlan::default() };
            plan.iter().for_each(|line| pinned.add(line));
            pinned
        };
        let (other, gone) = (object("other"), "it is gone since the plan that the restore is pinned to");
        let changed = "it has changed since the plan that the restore is pinned to";
        let came = "it has come into being since the plan that the restore is pinned to";
        for (name, change, resumed, expected) in [
            ("new", PlannedWrite::Create, false, Ok(())),
            ("new", PlannedWrite::Update(&old), false, Err(came)),
            ("old", PlannedWrite::Update(&old), false, Ok(())),
            ("old", PlannedWrite::Update(&other), false, Err(changed)),
            ("old", PlannedWrite::Recreate(&old), false, Err(changed)),
            ("old", PlannedWrite::Create, true, Err(gone)),
            ("immutable", PlannedWrite::Recreate(&old), false, Ok(())),
            ("immutable", PlannedWrite::Create, false, Err(gone)),
            ("immutable", PlannedWrite::Create, true, Ok(())),
            ("same", PlannedWrite::Update(&old), false, Err(changed)),
            ("else", PlannedWrite::Create, false, Err("the plan that the restore is pinned to does not have it")),
        ] {
            let pinned = pinned_to(resumed);
            assert_eq!(pinned.allows(&key(name), change, &object("new")), expected.map_err(str::to_owned), "{name}");
        }
        let pinned = pinned_to(false);
        pinned.deletes(&key("immutable"));
        assert_eq!(
            pinned.allows(&key("immutable"), PlannedWrite::Create, &object("new")),
            Ok(()),
            "its second attempt"
        );
        let written = |names: &[&str]| names.iter().map(|name| key(name).digest()).collect();
        assert_eq!(pinned.not_written(&written(&["new", "immutable", "same"])), 1);
        assert_eq!(pinned.not_written(&written(&["new", "immutable", "old"])), 0);
        let why = pinned_to(false).allows(&key("new"), PlannedWrite::Create, &object("newer"));
        assert_eq!(
            why,
            Err("it would become something else than in the plan that the restore is pinned to".to_owned())
        );
    }

    /// Notes that cannot be written, or not even read.
    #[derive(Debug)]
    struct Away {
        can_be_read: bool,
    }

    fn away() -> RecordsError {
        RecordsError::Unavailable("the API server is away".to_owned())
    }

    #[async_trait::async_trait]
    impl Records for Away {
        async fn read(&self, _: &str) -> Result<Option<Bytes>, RecordsError> {
            if self.can_be_read { Ok(None) } else { Err(away()) }
        }

        async fn keys(&self) -> Result<BTreeSet<String>, RecordsError> {
            if self.can_be_read { Ok(BTreeSet::new()) } else { Err(away()) }
        }

        async fn write(&self, _: BTreeMap<String, Option<Bytes>>) -> Result<(), RecordsError> {
            Err(away())
        }
    }

    async fn ground() -> RestoreFixture {
        let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let mut ground = RestoreFixture::new(&[namespace, config_map("a"), config_map("b")], &action).await;
        ground.request.restore.spec.plan_digest = format!("sha256:{}", "0".repeat(64));
        ground
    }

    /// The digest of the plan of this restore now.
    async fn planned_now(ground: &RestoreFixture) -> String {
        let Err(RestoreError::PlanChanged { now, .. }) = ground.run().await else { panic!("another plan") };
        now
    }

    #[tokio::test]
    async fn plan_and_pinned_restore_make_an_object_once_its_deletion_has_ended() {
        let waits = "until the one in the cluster is gone, which is being deleted since 2026-01-01T00:00:00Z";
        let waits = || Some(waits.to_owned());
        for (path, expected, made) in [
            (
                "/api/v1/namespaces/shop",
                [("shop", "create", waits()), ("a", "create", None), ("b", "create", None)],
                vec!["a", "b"],
            ),
            (
                "/api/v1/namespaces/shop/configmaps/a",
                [("shop", "unchanged", None), ("a", "create", waits()), ("b", "unchanged", None)],
                vec!["a"],
            ),
        ] {
            let mut ground = ground().await;
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
            for mut object in [namespace, config_map("a"), config_map("b")] {
                if path.ends_with(object["metadata"]["name"].as_str().unwrap()) {
                    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
                }
                ground.put(object);
            }
            ground.let_go(path);
            let (sender, mut items) = mpsc::channel(WAITING);
            preview(&ground.request, &ground.env, sender).await.unwrap();
            let mut planned = Vec::new();
            while let Some(item) = items.recv().await {
                planned.push((item.key.name, item.planned.word().as_str(), item.waits));
            }
            assert_eq!(planned, expected.map(|(name, word, waits)| (name.to_owned(), word, waits)), "{path}");

            ground.renew();
            ground.request.restore.spec.plan_digest = planned_now(&ground).await;
            let outcome = ground.run_again().await.unwrap();
            assert_eq!(outcome.results.errors.messages().collect::<Vec<_>>(), Vec::<&str>::new(), "{path}");
            assert_eq!(ground.made(), made);
        }
    }

    #[tokio::test]
    async fn a_namespace_that_the_plan_does_not_make_is_not_made() {
        let gone = "it is gone since the plan that the restore is pinned to";
        let unknown = "the plan that the restore is pinned to does not have it";
        for (selected, why) in [("*", gone), ("configmaps", unknown)] {
            let mut ground = ground().await;
            ground.request.restore.spec.included_resources = vec![selected.to_owned()];
            ground.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
            for path in ["/api/v1/namespaces/shop/configmaps/a", "/api/v1/namespaces/shop/configmaps/b"] {
                ground.answer("POST", path, (422, "Invalid"));
            }
            ground.request.restore.spec.plan_digest = planned_now(&ground).await;
            ground.run_again().await.unwrap();
            // Now it goes on by that plan.
            ground.remove("/api/v1/namespaces/shop");
            let outcome = ground.run_again().await.unwrap();
            let expected = format!(
                "error creating namespace shop: it was not made, because {why}; 2 objects in it were not restored"
            );
            assert_eq!(outcome.results.errors.messages().collect::<Vec<_>>(), [expected.as_str()]);
            assert_eq!(ground.at("/api/v1/namespaces/shop"), None);
        }
    }

    #[tokio::test]
    async fn needed_objects_outside_the_selection_are_planned_and_made() {
        let (pod, claim) = ("/api/v1/namespaces/shop/pods/web", "/api/v1/namespaces/shop/persistentvolumeclaims/data");
        let mounted = json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}});
        let bound = json!({"spec": {"volumeName": "disk"}, "status": {"phase": "Bound"}});
        let objects = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            object_in("v1", "PersistentVolume", "disk", &json!({"metadata": {"namespace": null}})),
            object_in("v1", "PersistentVolumeClaim", "data", &bound),
            object_in("v1", "PersistentVolumeClaim", "other", &json!({})),
            object_in(
                "v1",
                "Pod",
                "web",
                &json!({"metadata": {"labels": {"app": "web"}}, "spec": {"volumes": [mounted]}}),
            ),
        ];
        let action = Arc::new(Scripted::new(|item, _| Ok(RestoreItemOutput::with(item))));
        let mut ground = RestoreFixture::new(&objects, &action).await;
        let labels = serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap();
        ground.request.restore.spec.label_selector = Some(labels);
        let (sender, mut items) = mpsc::channel(WAITING);
        let end = preview(&ground.request, &ground.env, sender).await.unwrap();
        let mut planned = Vec::new();
        while let Some(item) = items.recv().await {
            planned.push((item.key.to_string(), item.planned.word()));
        }
        let expected =
            ["persistentvolumes/disk", "namespaces/shop", "persistentvolumeclaims/shop/data", "pods/shop/web"];
        assert_eq!(planned, expected.map(|key| (key.to_owned(), PlanWord::Create)));
        // The namespace and the other claim have no such label.
        let left_out: Vec<_> =
            end.left_out.iter().map(|((resource, _), count)| (resource.to_string(), *count)).collect();
        assert_eq!(left_out, [("persistentvolumeclaims".to_owned(), 1)]);

        ground.renew();
        ground.request.restore.spec.plan_digest = format!("sha256:{}", "0".repeat(64));
        ground.request.restore.spec.plan_digest = planned_now(&ground).await;
        let outcome = ground.run_again().await.unwrap();
        assert_eq!(outcome.results.errors.messages().collect::<Vec<_>>(), Vec::<&str>::new());
        let made = [pod, claim, "/api/v1/persistentvolumes/disk"].map(|path| ground.at(path).is_some());
        assert_eq!(made, [true; 3]);
        assert_eq!(ground.at("/api/v1/namespaces/shop/persistentvolumeclaims/other"), None);
    }

    #[tokio::test]
    async fn a_run_again_that_looks_at_everything_is_held_to_the_plan_as_it_is_then() {
        let mut ground = ground().await;
        ground.request.settings.looks_again = true;
        ground.request.restore.spec.plan_digest = planned_now(&ground).await;
        ground.run_again().await.unwrap();
        assert_eq!(ground.made(), ["a", "b"]);
        ground.remove("/api/v1/namespaces/shop/configmaps/b");
        let Err(RestoreError::PlanChanged { now, counts, .. }) = ground.run_again().await else {
            panic!("another plan")
        };
        assert_eq!(counts, "create 1, unchanged 2");
        ground.request.restore.spec.plan_digest = now;
        let outcome = ground.run_again().await.unwrap();
        assert_eq!(outcome.results.errors.messages().collect::<Vec<_>>(), Vec::<&str>::new());
        assert_eq!(ground.made(), ["a", "b", "b"]);
    }

    #[tokio::test]
    async fn objects_of_an_earlier_run_that_were_changed_follow_the_plan() {
        for (policy, plan, then) in [
            (ExistingResourcePolicy::Update, "update 1, unchanged 2", "b"),
            (ExistingResourcePolicy::Recreate, "recreate 1, unchanged 2", "b"),
            (ExistingResourcePolicy::None, "unchanged 2, conflict 1", "changed"),
        ] {
            let mut ground = ground().await;
            ground.request.settings.looks_again = true;
            ground.request.restore.spec.existing_resource_policy = policy.clone();
            ground.request.restore.spec.plan_digest = planned_now(&ground).await;
            ground.run_again().await.unwrap();
            ground.change("b", |object| object["data"]["k"] = json!("changed"));
            let Err(RestoreError::PlanChanged { now, counts, .. }) = ground.run_again().await else {
                panic!("another plan")
            };
            assert_eq!(counts, plan, "{policy:?}");
            ground.request.restore.spec.plan_digest = now;
            let outcome = ground.run_again().await.unwrap();
            assert_eq!(outcome.results.errors.messages().collect::<Vec<_>>(), Vec::<&str>::new());
            assert_eq!(ground.config_map("b").unwrap()["data"]["k"], then, "{policy:?}");
        }
    }

    /// The plan that is stored, as text.
    async fn stored(ground: &RestoreFixture) -> Option<String> {
        let packed = ground.env.store.restore_file_bytes("r", RestoreFile::Plan).await.unwrap()?;
        Some(String::from_utf8(lifeboat_archive::gzip::unpack(&packed, LARGEST).unwrap()).unwrap())
    }

    #[tokio::test]
    async fn a_run_that_was_cut_off_goes_on_by_the_stored_plan_and_by_no_other_one() {
        let mut ground = ground().await;
        let Err(RestoreError::PlanChanged { now, counts, .. }) = ground.run().await else { panic!("another plan") };
        assert_eq!((counts.as_str(), ground.made()), ("create 3", vec![]));
        let plan = stored(&ground).await.unwrap();
        assert!(plan.lines().next().unwrap().ends_with(r#""restoreUID":""}"#), "{plan}");

        ground.request.restore.spec.plan_digest = now;
        ground.run_again().await.unwrap();
        assert_eq!(ground.made(), ["a", "b"]);
        let own = stored(&ground).await.unwrap();
        assert_eq!(own, plan.replace(r#""restoreUID":"""#, r#""restoreUID":"u""#));
        // It has a checkpoint now, and its plan is not made again: nothing is to be created any more.
        let outcome = ground.run_again().await.unwrap();
        assert_eq!(outcome.results.errors.messages().collect::<Vec<_>>(), Vec::<&str>::new());
        ground.env.store.put_restore_file("r", RestoreFile::Plan, b"x".to_vec()).await.unwrap();
        assert!(matches!(ground.run_again().await, Err(RestoreError::PlanLost { .. })));
    }

    #[tokio::test]
    async fn a_run_with_unreadable_notes_plans_nothing_and_keeps_the_stored_plan() {
        let mut ground = ground().await;
        let before = b"the plan of the run before".to_vec();
        ground.env.store.put_restore_file("r", RestoreFile::Plan, before.clone()).await.unwrap();
        ground.env.operation.records = Arc::new(Away { can_be_read: false });
        let error = ground.run().await.unwrap_err();
        assert!(matches!(&error, RestoreError::Notes { source, .. } if *source == away()), "{error}");
        assert!(error.can_pass() && !error.to_string().contains("nothing was changed"));
        let after = ground.env.store.restore_file_bytes("r", RestoreFile::Plan).await.unwrap();
        assert_eq!((after.as_deref(), ground.made()), (Some(&*before), vec![]));
    }

    #[tokio::test]
    async fn a_run_that_cannot_note_that_it_begins_writes_nothing() {
        let mut ground = ground().await;
        ground.request.restore.spec.plan_digest = planned_now(&ground).await;
        ground.renew();
        ground.env.operation.records = Arc::new(Away { can_be_read: true });
        let error = ground.run().await.unwrap_err();
        assert!(matches!(&error, RestoreError::Unnoted { source, .. } if *source == away()), "{error}");
        assert_eq!((error.can_pass(), ground.at("/api/v1/namespaces/shop"), ground.made()), (true, None, vec![]));
    }
}
