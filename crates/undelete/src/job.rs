//! The restore of an undelete: its plan, and its run.

use super::selection::Selection;
use anyhow::{Result, bail};
use lifeboat_action::Actions;
use lifeboat_api::{Duration, ExistingResourcePolicy, Restore, Time};
use lifeboat_cluster::Cluster;
use lifeboat_object::ObjectKey;
use lifeboat_operation::Operation;
use lifeboat_restore::{
    Env, PlanDigest, PlanLine, PlanWord, Planned, PreviewEnd, PreviewItem, Request, RestoreError, Settings,
    owner_of_files, preview,
};
use lifeboat_standalone::local_operation::state::OperationState;
use lifeboat_store::{Archive, Store};
use lifeboat_terminal::flags::globals::Globals;
use lifeboat_terminal::output::progress::watched;
use lifeboat_terminal::process::clock::clock;
use std::collections::BTreeSet;
use std::path::PathBuf;
use tokio::sync::mpsc;

/// Objects of a preview on their way.
const WAITING: usize = 64;

/// From where, to where and how objects are brought back.
pub(super) struct Job<'a> {
    pub(super) globals: &'a Globals,
    pub(super) cluster: Cluster,
    pub(super) store: Store,
    /// The archive of the backup, open.
    pub(super) archive: Archive,
    /// The name of the backup.
    pub(super) backup: String,
    /// Policy for objects that exist.
    pub(super) policy: ExistingResourcePolicy,
    /// Types of objects that may be recreated, whatever is deleted with them.
    pub(super) allow_recreate: Vec<String>,
    /// Set when objects get their owners back.
    pub(super) with_owners: bool,
    /// For copies of the archive.
    pub(super) scratch: PathBuf,
}

/// The plan of an undelete.
pub(super) struct UndeletePlan {
    /// The objects of the selection, and the namespaces that are made for them.
    pub(super) items: Vec<PreviewItem>,
    pub(super) end: PreviewEnd,
    pub(super) selection: Selection,
    /// The object that the user asks for.
    pub(super) asked: ObjectKey,
    /// The digest of the plan, to which the restore is held.
    pub(super) digest: String,
}

/// The results of a preview.
struct Previewed {
    items: Vec<PreviewItem>,
    end: PreviewEnd,
    digest: String,
}

/// The effect of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanEffect {
    /// Something would be written.
    Writes,
    /// Nothing, because all that is wanted is there as in the backup, but for what never comes back.
    IsThere,
    /// Nothing, for other reasons.
    Nothing,
}

impl Job<'_> {
    /// Plans the restore of an object and the objects that it owned, and of the objects that these need.
    pub(super) async fn plan(&self, asked: &ObjectKey, owned: BTreeSet<ObjectKey>) -> Result<UndeletePlan> {
        let mut selection = Selection::of(owned.into_iter().chain([asked.clone()]).collect());
        let content = OperationState::new(clock()());
        let mut previewed = self.preview(&selection, &content).await?;
        // What they need comes along in any case. It is chosen too, so that what becomes of its data is told.
        if selection.add(previewed.items.iter().flat_map(|item| &item.needs)) {
            previewed = self.preview(&selection, &content).await?;
        }
        let Previewed { mut items, mut end, digest } = previewed;
        items.retain(|item| is_told(item, &selection));
        // That all other objects of the backup are left out goes without saying.
        end.left_out.clear();
        Ok(UndeletePlan { items, end, selection, asked: asked.clone(), digest })
    }

    async fn preview(&self, selection: &Selection, content: &OperationState) -> Result<Previewed> {
        let request = self.request(selection, content)?;
        let env = self.env(&request.restore.metadata.name);
        let (sender, mut coming) = mpsc::channel(WAITING);
        let gathering = async {
            // The objects are held in memory: they were chosen one by one.
            let (mut items, mut digest) = (Vec::new(), PlanDigest::default());
            while let Some(item) = coming.recv().await {
                digest.add(&PlanLine::of(&item));
                items.push(item);
            }
            (items, digest.end())
        };
        let operation = async { tokio::join!(preview(&request, &env, sender), gathering) };
        let (end, (items, digest)) =
            Box::pin(watched("dry run", &env.operation.progress, &env.operation.cancel, operation)).await;
        if matches!(end, Err(RestoreError::Cancelled)) {
            bail!("interrupted: nothing was restored");
        }
        let end = end?;
        Ok(Previewed { items, end, digest })
    }

    /// The restore that carries a plan out, and does nothing else.
    pub(super) fn request_of(&self, plan: &UndeletePlan, content: &OperationState) -> Result<Request> {
        let mut request = self.request(&plan.selection, content)?;
        request.restore.spec.plan_digest.clone_from(&plan.digest);
        Ok(request)
    }

    /// The restore of these objects alone.
    fn request(&self, selection: &Selection, content: &OperationState) -> Result<Request> {
        let mut restore = Restore::default();
        let own: String = content.uid.chars().take(8).collect();
        restore.metadata.name = format!("undelete-{}-{own}", content.started.strftime("%Y%m%d%H%M%S"));
        restore.metadata.namespace.clone_from(&self.globals.namespace);
        restore.metadata.uid.clone_from(&content.uid);
        restore.metadata.creation_timestamp = Some(Time::new(content.started));
        restore.spec.backup_name.clone_from(&self.backup);
        selection.apply(&self.policy, &mut restore.spec);
        restore.spec.allow_recreate.clone_from(&self.allow_recreate);
        restore.spec.restore_owner_references = self.with_owners;
        let settings = Settings {
            resource_policies: Some(selection.policies()?),
            features: self.globals.features(),
            // Perhaps much time has passed since a run that was cut off, and these are few objects.
            looks_again: true,
            reads_selected_only: true,
            archive: Some(self.archive.clone()),
            ..Settings::default()
        };
        Ok(Request { restore, settings })
    }

    /// Deletes the files of a restore that was refused.
    pub(super) async fn delete_files(&self, request: &Request) -> Result<()> {
        let now = clock()();
        let kept_no_longer = Settings { keep_replaced: Duration::default(), ..request.settings.clone() };
        let owner = owner_of_files(&request.restore, &kept_no_longer, self.cluster.uid().await?, now);
        self.store.delete_restore(&owner, now).await?;
        Ok(())
    }

    pub(super) fn env(&self, restore: &str) -> Env {
        let subject = format!("restore={}/{restore}", self.globals.namespace);
        let operation = Operation::new(clock(), &subject, self.scratch.clone());
        Env { cluster: self.cluster.clone(), store: self.store.clone(), actions: Actions::default(), operation }
    }
}

/// Returns true if an object is reported. Beside the selected objects, a restore looks at data of volumes that Velero
/// has moved, and passes it over.
fn is_told(item: &PreviewItem, selection: &Selection) -> bool {
    item.key.resource.is_namespaces()
        || item.planned.writes()
        || selection.wants(&item.key)
        || selection.comes_along(&item.key)
}

impl UndeletePlan {
    pub(super) fn outlook(&self) -> PlanEffect {
        // What the object owned may be such as never comes back: jobs that have ended.
        let is_settled = |item: &&PreviewItem| match item.planned {
            Planned::Unchanged => true,
            Planned::Skip(_) => item.key != self.asked,
            _ => false,
        };
        let wanted = self.items.iter().filter(|item| self.selection.wants(&item.key));
        match self.items.iter().any(|item| item.planned.writes()) {
            true => PlanEffect::Writes,
            false if wanted.filter(is_settled).count() == self.selection.count() => PlanEffect::IsThere,
            false => PlanEffect::Nothing,
        }
    }

    /// Returns true if nothing of it is refused.
    pub(super) fn is_well(&self) -> bool {
        self.end.results.errors.is_empty() && !self.items.iter().any(|item| item.planned.word() == PlanWord::Refused)
    }

    /// Objects that others need, and that exist and would be changed, although nobody asked for it: the policy holds
    /// for their type.
    pub(super) fn changed_along(&self, policy: &ExistingResourcePolicy) -> Vec<&ObjectKey> {
        if *policy == ExistingResourcePolicy::None {
            return Vec::new();
        }
        let changed = |item: &&PreviewItem| matches!(item.planned, Planned::Update(_) | Planned::Recreate(_));
        let keys = self.items.iter().filter(changed).map(|item| &item.key);
        keys.filter(|key| self.selection.is_treated_as_wanted(key)).collect()
    }

    /// The reasons why no wanted object would come back, as far as it is not there.
    pub(super) fn reasons(&self) -> Vec<String> {
        let wanted = self.items.iter().filter(|item| self.selection.wants(&item.key));
        let reasons = wanted.filter_map(|item| match &item.planned {
            Planned::Unchanged => None,
            Planned::Skip(why) | Planned::Refused(why) => Some(format!("{}: {why}", item.key)),
            Planned::Conflict(_) => Some(format!(
                "{} is there, differs, and stays as it is; --existing-resource-policy update makes it match the backup",
                item.key
            )),
            other => Some(format!("{}: {}", item.key, other.word())),
        });
        let mut reasons: Vec<String> = reasons.collect();
        if reasons.is_empty() {
            reasons.extend(self.end.results.errors.messages().map(ToString::to_string));
        }
        if reasons.is_empty() {
            reasons.push("the restore would pass it over without a reason".to_owned());
        }
        reasons
    }

    /// Objects that others need.
    pub(super) fn along(&self) -> Vec<&ObjectKey> {
        self.items.iter().map(|item| &item.key).filter(|key| self.selection.comes_along(key)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lifeboat_object::GroupResource;
    use lifeboat_object::{ResultScope, Results};
    use std::collections::BTreeMap;

    fn key(resource: &str, name: &str) -> ObjectKey {
        ObjectKey::new(GroupResource::new("", resource), Some("shop"), name)
    }

    #[test]
    fn a_plan_that_writes_nothing_has_all_or_cannot_have_it() {
        let outlook = |planned: &[Planned]| {
            let names: Vec<String> = (0..planned.len()).map(|n| n.to_string()).collect();
            let wanted = names.iter().map(|name| key("configmaps", name)).collect();
            let items = names.iter().zip(planned);
            let items =
                items.map(|(name, planned)| PreviewItem::of(key("configmaps", name), planned.clone())).collect();
            let end = PreviewEnd { left_out: BTreeMap::new(), volumes: Vec::new(), results: Results::default() };
            UndeletePlan {
                items,
                end,
                selection: Selection::of(wanted),
                asked: key("configmaps", "0"),
                digest: String::new(),
            }
            .outlook()
        };
        assert_eq!(outlook(&[Planned::Create, Planned::Unchanged]), PlanEffect::Writes);
        assert_eq!(outlook(&[Planned::Update(Vec::new())]), PlanEffect::Writes);
        assert_eq!(outlook(&[Planned::Unchanged, Planned::Unchanged]), PlanEffect::IsThere);
        for other in [Planned::Conflict(Vec::new()), Planned::Refused(String::new())] {
            assert_eq!(outlook(&[Planned::Unchanged, other]), PlanEffect::Nothing);
        }
        // Of what it owned some never comes back, and that is known.
        let ended = || Planned::Skip("it has ended".to_owned());
        assert_eq!(outlook(&[Planned::Unchanged, ended()]), PlanEffect::IsThere);
        assert_eq!(outlook(&[ended(), Planned::Unchanged]), PlanEffect::Nothing);
    }

    #[test]
    fn what_is_needed_by_others_and_would_be_changed_is_found() {
        let claim = |name: &str| key("persistentvolumeclaims", name);
        let mut selection = Selection::of([claim("owned")].into());
        let along = ["new", "same", "updated", "recreated"].map(claim);
        selection.add(along.iter().chain([&key("configmaps", "of-another-type")]));
        let update = || Planned::Update(Vec::new());
        let items = [
            (claim("owned"), update()),
            (claim("new"), Planned::Create),
            (claim("same"), Planned::Unchanged),
            (claim("updated"), update()),
            (claim("recreated"), Planned::Recreate(Vec::new())),
            (key("configmaps", "of-another-type"), update()),
        ];
        let items = items.into_iter().map(|(key, planned)| PreviewItem::of(key, planned)).collect();
        let end = PreviewEnd { left_out: BTreeMap::new(), volumes: Vec::new(), results: Results::default() };
        let plan = UndeletePlan { items, end, selection, asked: claim("owned"), digest: String::new() };
        let changed = [&claim("updated"), &claim("recreated")];
        assert_eq!(plan.changed_along(&ExistingResourcePolicy::Update), changed);
        assert!(plan.changed_along(&ExistingResourcePolicy::None).is_empty());
    }

    #[test]
    fn what_does_not_come_back_has_a_reason() {
        let reasons = |items: &[(&str, Planned)], errors: &[&str]| {
            let wanted = ["a", "b"].map(|name| key("configmaps", name)).into();
            let items = items.iter().map(|(name, planned)| PreviewItem::of(key("configmaps", name), planned.clone()));
            let mut results = Results::default();
            errors.iter().for_each(|why| results.errors.add(&ResultScope::Velero, *why));
            let end = PreviewEnd { left_out: BTreeMap::new(), volumes: Vec::new(), results };
            UndeletePlan {
                items: items.collect(),
                end,
                selection: Selection::of(wanted),
                asked: key("configmaps", "a"),
                digest: String::new(),
            }
            .reasons()
        };
        let conflict = "configmaps/shop/a is there, differs, and stays as it is; --existing-resource-policy update makes it match the backup";
        let skip = Planned::Skip("it has ended".to_owned());
        assert_eq!(reasons(&[("a", Planned::Conflict(Vec::new())), ("b", Planned::Unchanged)], &["e"]), [conflict]);
        let refused = Planned::Refused("it is immutable".to_owned());
        let both = ["configmaps/shop/a: it has ended", "configmaps/shop/b: it is immutable"];
        assert_eq!(reasons(&[("a", skip.clone()), ("b", refused), ("along", skip)], &[]), both);
        assert_eq!(reasons(&[], &["the archive is damaged"]), ["the archive is damaged"]);
        assert_eq!(reasons(&[], &[]), ["the restore would pass it over without a reason"]);
    }

    #[test]
    fn what_nobody_asked_for_is_told_only_when_it_is_written() {
        let mut selection = Selection::of([key("pods", "web")].into());
        selection.add([&key("persistentvolumeclaims", "data")]);
        let told = |resource: &str, name: &str, planned: Planned| {
            is_told(&PreviewItem::of(key(resource, name), planned), &selection)
        };
        assert!(told("pods", "web", Planned::Unchanged) && told("persistentvolumeclaims", "data", Planned::Unchanged));
        assert!(told("namespaces", "shop", Planned::Unchanged) && told("secrets", "a", Planned::Create));
        assert!(!told("datauploads", "a", Planned::Skip(String::new())));
    }
}
