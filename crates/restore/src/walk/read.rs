//! Reads the whole archive once before anything is changed: every object is checked, and what planning needs is kept.

use crate::object::job_pods::{JobPods, SeenJobs, has_ended};
use crate::object::orphaned_claims::{OrphanedClaims, SeenEphemeral};
use crate::object::owner_references::has_owners;
use crate::state::env::Env;
use crate::volumes::mounting_pods::MountingPods;
use crate::volumes::report::VolumeTreatments;
use lifeboat_archive::index::Row;
use lifeboat_archive::native_snapshot::NativeSnapshot;
use lifeboat_object::{GroupResource, Head, ObjectKey};
use lifeboat_select::{RestoreFilter, RestoredFacts};
use lifeboat_store::{Archive, StoreError};
use lifeboat_volume::facts::name_of_object;
use lifeboat_volume::{
    FilesOfPods, MovedSnapshot, Movers, PodFiles, RecordedVolumes, RestoreMeans, RestoreMethod, RetainedVolume,
    SavedVolume, plan_volume,
};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Contents of the archive for this restore.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// Objects to restore.
    pub(crate) facts: Vec<Facts>,
    /// Native snapshots of which volumes are made anew, by volume.
    pub(crate) native: BTreeMap<String, NativeSnapshot>,
    /// Volumes that are made again as they are, whether the restore selects them or not.
    pub(crate) retained: BTreeMap<String, RetainedVolume>,
    /// Volumes that are provisioned anew, whether the restore selects their objects or not: a claim must not wait for a
    /// volume that never comes.
    pub(crate) provisioned: BTreeSet<String>,
    /// Number of objects of each type that are left out, by reason.
    pub(crate) left_out: BTreeMap<(GroupResource, &'static str), u64>,
    /// The kinds of the objects.
    pub(crate) kinds: Kinds,
    /// Treatment of each volume and claim to restore.
    pub(crate) volumes: VolumeTreatments,
    /// Rows of the objects whose owners a restore can bring back, in ascending order.
    pub(crate) with_owners: Vec<usize>,
    /// Pods that their Jobs make anew.
    pub(crate) job_pods: JobPods,
    /// Claims of ephemeral volumes whose pods are not restored.
    pub(crate) orphaned_claims: OrphanedClaims,
    /// The files of the volumes of pods.
    pub(crate) files: Arc<FilesOfPods>,
    /// The pods that mount claims; empty where the restore starts no movers itself.
    pub(crate) mounting: MountingPods,
}

/// Facts about one object for planning and checking; the object is read again when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its number among the archive's rows.
    pub(crate) row: usize,
    /// True when it asks for an address or port that another object could be given first.
    pub(crate) early: bool,
    /// True when it is a pod or job that has ended: those are not started again.
    pub(crate) ended: bool,
    /// Its identity and revision when it was saved.
    pub(crate) state: StateDigest,
}

/// Rules of a scan.
#[derive(Clone, Copy)]
pub(crate) struct ScanRules<'a> {
    pub(crate) filter: &'a RestoreFilter,
    pub(crate) recorded: &'a RecordedVolumes,
    /// The wishes of the user, and the movers.
    pub(crate) means: RestoreMeans,
}

/// Reads these rows. A damaged or hostile archive is refused here.
pub(crate) async fn scan(
    archive: &Archive,
    rows: Vec<usize>,
    rules: ScanRules<'_>,
    env: &Env,
) -> Result<Contents, StoreError> {
    let ScanRules { filter, recorded, means } = rules;
    let mut tasks = JoinSet::new();
    let mut items = archive.read(rows, &mut tasks);
    let (mut out, mut jobs, mut ephemeral) = (Contents::default(), SeenJobs::default(), SeenEphemeral::default());
    out.volumes.records(recorded, means.movers);
    let (mut pods, mut uploads) = (BTreeMap::new(), BTreeMap::new());
    while let Some(item) = items.next().await? {
        if env.operation.cancel.is_cancelled() {
            break;
        }
        let Some(row) = archive.row(item.row) else { continue };
        let key = row.key();
        out.kinds.add(row, &item.head);
        if has_owners(row, &item.head) {
            out.with_owners.push(item.row);
        }
        let selected = filter.includes_item(RestoredFacts {
            resource: &key.resource,
            kind: item.head.kind.as_deref(),
            namespace: filter_namespace(&key),
            name: &key.name,
            labels: Some(&item.head.labels),
        });
        let included = selected.is_ok();
        if let Err(reason) = selected {
            *out.left_out.entry((key.resource.clone(), reason)).or_default() += 1;
        }
        let object: Value = match (key.resource.group.as_str(), key.resource.resource.as_str()) {
            (lifeboat_api::GROUP, "datauploads")
            | ("", "persistentvolumes" | "persistentvolumeclaims" | "services" | "pods")
            | ("batch", "jobs") => serde_json::from_slice(&item.body).unwrap_or_default(),
            // Nothing is asked of the others.
            _ => Value::Null,
        };
        match key.resource.resource.as_str() {
            "persistentvolumes" => {
                let saved = SavedVolume { name: &key.name, object: &object };
                let method = plan_volume(saved, recorded, means);
                let snapshot = recorded.native.get(&key.name).filter(|_| method == RestoreMethod::NativeSnapshot);
                out.volumes.volume(&key.name, method, snapshot, included);
                if let Some(why) = recorded.failures.get(&key.name) {
                    out.volumes.failed(&key.name, why);
                }
                if method == RestoreMethod::AsIs {
                    out.retained.insert(key.name.clone(), RetainedVolume::of(&key.name, &object));
                }
                out.native.extend(snapshot.map(|snapshot| (key.name.clone(), snapshot.clone())));
                if method.is_provisioned_anew() {
                    out.provisioned.insert(key.name.clone());
                }
            }
            "persistentvolumeclaims" if included => {
                ephemeral.note_claim(&key, &object);
                out.volumes.claim(&key, &object, recorded);
            }
            "datauploads" => {
                let upload = MovedSnapshot::of_upload(&object);
                uploads.extend(upload.map(|upload| (upload_key(&key), upload)));
            }
            "pods" if included && !is_completed(&key.resource, &object) => {
                ephemeral.note_pod(&key, &object);
                if means.movers == Movers::Pods {
                    out.mounting.note(&key, item.row, &object);
                }
                pods.extend(PodFiles::of(&object, recorded, means.movers).map(|files| (name_of_object(&key), files)));
            }
            _ => {}
        }
        if included {
            jobs.note(&key, &object, recorded);
            let early = key.resource.resource == "services" && has_fixed_port(&object);
            let ended = is_completed(&key.resource, &object);
            out.facts.push(Facts { row: item.row, early, ended, state: StateDigest::of(&item.head) });
        }
    }
    out.job_pods = jobs.pods();
    out.orphaned_claims = ephemeral.orphans(&out.job_pods);
    out.files = Arc::new(FilesOfPods::plan(pods));
    let anew = out.volumes.settle(Arc::clone(&out.files), &uploads);
    anew.iter().for_each(|volume| drop(out.retained.remove(volume)));
    out.provisioned.extend(anew);
    // They come in the order of the archive.
    out.with_owners.sort_unstable();
    Ok(out)
}

/// `namespace/name` of an object, as an annotation names a DataUpload.
fn upload_key(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name)
}

/// `apiVersion` and `kind` by type and version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds(HashMap<Arc<GroupResource>, Versions>);

/// `apiVersion` and `kind` of one type, by version.
type Versions = BTreeMap<Arc<str>, (String, String)>;

impl Kinds {
    fn add(&mut self, row: &Row, head: &Head) {
        let versions = match self.0.get_mut(&row.resource) {
            Some(versions) => versions,
            None => self.0.entry(Arc::clone(&row.resource)).or_default(),
        };
        if !versions.contains_key(&row.version) {
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            versions.insert(Arc::clone(&row.version), (text(&head.api_version), text(&head.kind)));
        }
    }

    /// Returns the `apiVersion` and `kind` of an object; `None` when no object of its type and version was read.
    pub(crate) fn of(&self, row: &Row) -> Option<(&str, &str)> {
        let (api_version, kind) = self.0.get(&row.resource)?.get(&row.version)?;
        Some((api_version, kind))
    }
}

/// Identity and revision of an object as a digest: the same pair is the same state of the same object of the same
/// cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateDigest([u8; 8]);

impl StateDigest {
    pub(crate) fn of(head: &Head) -> Self {
        let mut out = [0; 8];
        out.copy_from_slice(&Sha256::digest(format!("{}\0{}", head.uid, head.resource_version))[..8]);
        Self(out)
    }
}

/// Pods and jobs that have ended are not started again.
pub(crate) fn is_completed(resource: &GroupResource, object: &Value) -> bool {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "pods") => matches!(object["status"]["phase"].as_str(), Some("Failed" | "Succeeded")),
        ("batch", "jobs") => has_ended(object),
        _ => false,
    }
}

fn has_fixed_port(service: &Value) -> bool {
    let node_port = |p: &Value| p["nodePort"].as_u64().is_some_and(|n| n > 0);
    service["spec"]["ports"].as_array().is_some_and(|ports| ports.iter().any(node_port))
}

/// The namespace that filters test: a Namespace object belongs to the namespace it names.
pub(crate) fn filter_namespace(key: &ObjectKey) -> Option<&str> {
    if key.resource.is_namespaces() { Some(&key.name) } else { key.namespace.as_deref() }
}

/// Namespaces that hold objects in the archive.
pub(crate) fn namespaces_in(archive: &Archive) -> BTreeSet<String> {
    // A name is copied once, not once for each of its objects.
    let names: BTreeSet<&str> = archive.rows().filter_map(|row| row.namespace()).collect();
    names.into_iter().map(str::to_owned).collect()
}
