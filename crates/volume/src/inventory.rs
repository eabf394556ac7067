//! Collects facts about pods, claims and volumes, and decides about all of them when all are known.

use crate::class::{ClassChoice, SnapshotClasses};
use crate::decide::{Rules, Volume, decide};
use crate::facts::{BLOCK, Claim, PersistentVolume, Pod, PodVolume, PodVolumeName};
use crate::group::{
    GroupKey, GroupRules, Label, Labelled, beside_note, class_of, fallback_note, members_of, settle_claim,
};
use crate::verdict::{
    BackupMovers, DriverSnapshot, FilePod, Flags, Method, MethodReason, MissingMover, NoPod, NoSnapshot, Verdict,
};
use lifeboat_api::NamespacedName;
use lifeboat_api::well_known::LABEL_READER_OF_BACKUP;
use lifeboat_object::Item;
use lifeboat_select::ResourcePolicies;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Facts that were read. About 600 bytes for a claim with its volume; of pods only those with volumes that count.
#[derive(Clone, Debug, Default)]
pub struct VolumeInventory {
    /// True when volumes of pods count that have no claim, and for which no annotation asks.
    counts_all_of_pods: bool,
    pods: Vec<Pod>,
    claims: BTreeMap<NamespacedName, Claim>,
    volumes: BTreeMap<String, PersistentVolume>,
}

/// A volume about which was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedVolume {
    /// Its claim.
    pub claim: Option<NamespacedName>,
    /// The name of its PersistentVolume.
    pub volume: Option<String>,
    /// Its name in its pod, for a volume without a claim.
    pub of_pod: Option<PodVolumeName>,
    /// The decision about it, with the reason.
    pub verdict: Verdict,
}

impl DecidedVolume {
    /// Its name for people: its claim, else its volume, else its pod and its name there.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.claim, &self.volume, &self.of_pod) {
            (Some(claim), ..) => claim.to_string(),
            (None, Some(volume), _) => volume.clone(),
            (None, None, Some(of_pod)) => of_pod.to_string(),
            (None, None, None) => String::new(),
        }
    }

    /// The namespace of its claim, else of its pod; `None` for a PersistentVolume without a claim.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        let of_claim = self.claim.as_ref().map(|claim| claim.namespace.as_str());
        of_claim.or_else(|| self.of_pod.as_ref().map(|of_pod| of_pod.pod.namespace.as_str()))
    }
}

/// The verdicts on all volumes, in the order of their claims; then on volumes without a claim by name, then on volumes
/// of pods.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    inventory: VolumeInventory,
    all: Vec<DecidedVolume>,
    of_claims: HashMap<NamespacedName, usize>,
    of_volumes: HashMap<String, usize>,
    /// The pods that have volumes without a claim about which was decided.
    pods: BTreeSet<NamespacedName>,
    /// The names of claims that are snapshotted with a group and are not wanted.
    beside_groups: BTreeMap<GroupKey, Vec<String>>,
    /// The movers that were there when it was decided.
    movers: BackupMovers,
    /// Claims that no pod mounts and whose files are saved where no snapshot can be taken.
    files_instead: BTreeSet<NamespacedName>,
}

/// Something about a group that people must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupNote {
    /// Its namespace.
    pub namespace: String,
    /// The message.
    pub text: String,
}

impl VolumeInventory {
    /// An empty one, for these rules.
    #[must_use]
    pub fn new(rules: Rules<'_>) -> Self {
        let has_policies = rules.policies.is_some_and(ResourcePolicies::has_volume_policies);
        Self { counts_all_of_pods: rules.flags.fs_backup_by_default || has_policies, ..Self::default() }
    }

    /// Takes in an object. Objects of other types say nothing of volumes, and neither do the reader pods of backups.
    pub fn take(&mut self, item: &Item) {
        if !item.resource.group.is_empty() {
            return;
        }
        match item.resource.resource.as_str() {
            "pods" if item.head.labels.contains_key(LABEL_READER_OF_BACKUP) => {}
            "pods" => self.pod(Pod::of(item)),
            "persistentvolumeclaims" => {
                let claim = Claim::of(item);
                self.claims.insert(claim.key.clone(), claim);
            }
            "persistentvolumes" => drop(self.volumes.insert(item.head.name.clone(), PersistentVolume::of(item))),
            _ => {}
        }
    }

    /// Takes in a pod that is left out of the backup. It asks for nothing, and mounts its claims all the same.
    pub fn take_left_out(&mut self, item: &Item) {
        let is_pod = item.resource.group.is_empty() && item.resource.resource == "pods";
        if !is_pod || item.head.labels.contains_key(LABEL_READER_OF_BACKUP) {
            return;
        }
        let mut pod = Pod::of(item);
        pod.volumes.retain(|volume| volume.claim.is_some());
        for volume in &mut pod.volumes {
            (volume.is_opted_in, volume.is_opted_out) = (false, true);
            // Nobody decides about it as a volume of this pod.
            volume.facts = None;
        }
        self.pod(pod);
    }

    fn pod(&mut self, mut pod: Pod) {
        let all = self.counts_all_of_pods;
        pod.volumes.retain(|volume| all || volume.claim.is_some() || volume.is_opted_in);
        if !pod.volumes.is_empty() {
            self.pods.push(pod);
        }
    }

    /// The namespaces of the claims that have a volume.
    #[must_use]
    pub fn namespaces(&self) -> Vec<&str> {
        let mut out: Vec<&str> =
            self.claims.values().filter(|claim| claim.volume.is_some()).map(|c| c.key.namespace.as_str()).collect();
        out.dedup();
        out
    }

    /// Adds what another one has taken in.
    pub fn add(&mut self, other: Self) {
        self.pods.extend(other.pods);
        self.claims.extend(other.claims);
        self.volumes.extend(other.volumes);
    }

    /// Decides about every claim, every volume without one of these claims, and those volumes of pods that somebody asks for:
    /// a pod by annotation, a policy, or the default for files.
    #[must_use]
    pub fn decide(mut self, rules: Rules<'_>) -> Verdicts {
        self.pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        self.pods.dedup_by(|a, b| a.namespace == b.namespace && a.name == b.name);
        let mut all = Vec::with_capacity(self.claims.len());
        let mut of_claims = HashMap::with_capacity(self.claims.len());
        let mut of_volumes = HashMap::with_capacity(self.claims.len());
        let mounts = mounts(&self.pods);
        let mounts = |claim: &NamespacedName| mounts.get(claim).map(Vec::as_slice).unwrap_or_default();
        let mut files_instead = BTreeSet::new();
        for (key, claim) in &self.claims {
            let volume = claim.volume.as_ref().and_then(|name| self.volumes.get(name));
            let verdict = decide(Volume::Claimed { claim, volume, mounts: mounts(key) }, rules);
            let is_unmounted = mounts(key).is_empty() && claim.volume_mode != BLOCK;
            let is_by_default = verdict.why == MethodReason::SnapshotByDefault { blocker: None };
            if is_by_default && is_unmounted && rules.flags.saves_unmounted_files() {
                files_instead.insert(key.clone());
            }
            of_claims.insert(key.clone(), all.len());
            if let Some(volume) = &claim.volume {
                of_volumes.insert(volume.clone(), all.len());
            }
            all.push(DecidedVolume { claim: Some(key.clone()), volume: claim.volume.clone(), of_pod: None, verdict });
        }
        // The claims that are left out and whose volumes are decided about.
        let mut by_volume: HashSet<&NamespacedName> = HashSet::new();
        for (name, volume) in &self.volumes {
            if of_volumes.contains_key(name) {
                continue;
            }
            let mounts = volume.claim.as_ref().map(mounts).unwrap_or_default();
            let verdict = decide(Volume::Unclaimed { volume, mounts }, rules);
            if verdict.method != Method::Skip || matches!(verdict.why, MethodReason::Policy { .. }) {
                by_volume.extend(&volume.claim);
            }
            of_volumes.insert(name.clone(), all.len());
            all.push(DecidedVolume { claim: None, volume: Some(name.clone()), of_pod: None, verdict });
        }
        // compat: Velero saves the files of an ephemeral volume also where the backup leaves its claim out. With the pod comes a new claim.
        let is_alone = |pod: &Pod, volume: &PodVolume| match &volume.claim {
            None => true,
            Some(_) if !volume.is_ephemeral || volume.facts.is_none() => false,
            Some(claim) => {
                let key = NamespacedName::new(&pod.namespace, claim);
                !self.claims.contains_key(&key) && !by_volume.contains(&key)
            }
        };
        let mut pods = BTreeSet::new();
        for pod in &self.pods {
            for volume in pod.volumes.iter().filter(|volume| is_alone(pod, volume)) {
                let verdict = decide(Volume::OfPod(pod, volume), rules);
                if verdict.why != MethodReason::NotAskedFor {
                    let name = NamespacedName::new(&pod.namespace, &pod.name);
                    pods.insert(name.clone());
                    let of_pod = Some(PodVolumeName { pod: name, volume: volume.name.clone() });
                    all.push(DecidedVolume { claim: None, volume: None, of_pod, verdict });
                }
            }
        }
        self.pods = Vec::new();
        let (beside_groups, movers) = (BTreeMap::new(), rules.flags.movers);
        Verdicts { inventory: self, all, of_claims, of_volumes, pods, beside_groups, movers, files_instead }
    }
}

type Mounts<'a> = HashMap<NamespacedName, Vec<(&'a Pod, &'a PodVolume)>>;

fn mounts(pods: &[Pod]) -> Mounts<'_> {
    let mut out = Mounts::new();
    for pod in pods {
        for volume in &pod.volumes {
            if let Some(name) = &volume.claim {
                let key = NamespacedName::new(&pod.namespace, name);
                out.entry(key).or_default().push((pod, volume));
            }
        }
    }
    out
}

impl Verdicts {
    /// All volumes about which was decided.
    pub fn iter(&self) -> impl Iterator<Item = &DecidedVolume> {
        self.all.iter()
    }

    /// The decision about the volume of a claim.
    #[must_use]
    pub fn of_claim(&self, claim: &NamespacedName) -> Option<&DecidedVolume> {
        self.all.get(*self.of_claims.get(claim)?)
    }

    /// The decision about a PersistentVolume.
    #[must_use]
    pub fn of_volume(&self, name: &str) -> Option<&DecidedVolume> {
        self.all.get(*self.of_volumes.get(name)?)
    }

    /// Returns true if volumes of a pod that have no claim were decided about.
    #[must_use]
    pub fn has_volumes_of_pod(&self, pod: &NamespacedName) -> bool {
        self.pods.contains(pod)
    }

    /// The namespaces in which claims are to be snapshotted together.
    #[must_use]
    pub fn namespaces_of_groups(&self) -> BTreeSet<String> {
        self.groups().into_keys().map(|group| group.namespace).collect()
    }

    /// The claims that are to be snapshotted together, by their groups.
    #[must_use]
    pub fn groups(&self) -> BTreeMap<GroupKey, Vec<NamespacedName>> {
        let mut out: BTreeMap<GroupKey, Vec<NamespacedName>> = BTreeMap::new();
        for decided in &self.all {
            let group = self.driver_snapshot(decided).and_then(|snapshot| snapshot.group);
            if let (Some(group), Some(claim)) = (group, &decided.claim) {
                let key = GroupKey { namespace: claim.namespace.clone(), value: group.value.clone() };
                out.entry(key).or_default().push(claim.clone());
            }
        }
        out
    }

    /// The names of claims that the driver snapshots with a group though nobody wants them.
    #[must_use]
    pub fn beside_group(&self, group: &GroupKey) -> &[String] {
        self.beside_groups.get(group).map(Vec::as_slice).unwrap_or_default()
    }

    /// Decides which groups can be snapshotted, and with which class. The claims of a group that cannot be are not
    /// snapshotted, or by themselves where the backup allows that. Gives messages for people about groups.
    pub fn settle_groups(&mut self, flags: &Flags, rules: &GroupRules) -> Vec<GroupNote> {
        let mut notes = Vec::new();
        for (group, due) in self.groups() {
            let GroupKey { namespace, value } = &group;
            let known = self.inventory.claims.values();
            let outside = rules.outside.iter().filter(|claim| !self.inventory.claims.contains_key(&claim.key));
            let label = Label { namespace, key: &flags.group_label, value };
            let Labelled { members, others } = members_of(known.chain(outside), &self.inventory.volumes, label, &due);
            let settled = class_of(&members, &others, flags.serves_groups, rules);
            let mut beside: Vec<String> = others.iter().map(|other| other.claim.key.name.clone()).collect();
            beside.sort();
            let text = match &settled {
                Ok(_) => (!beside.is_empty()).then(|| beside_note(value, &flags.group_label, &beside)),
                Err(trouble) => flags.falls_back.then(|| {
                    let names: Vec<String> = due.iter().map(|claim| claim.name.clone()).collect();
                    fallback_note(&names, &format!("the group {value} cannot be snapshotted: {}", trouble.why))
                }),
            };
            notes.extend(text.map(|text| GroupNote { namespace: namespace.clone(), text }));
            if settled.is_ok() {
                self.beside_groups.insert(group.clone(), beside);
            }
            for claim in &due {
                if let Some(decided) = self.of_claims.get(claim).and_then(|at| self.all.get_mut(*at)) {
                    settle_claim(&mut decided.verdict, value, &settled, flags.falls_back);
                }
            }
        }
        notes
    }

    /// The snapshot that a CSI driver takes for a volume; `None` when none does, also because nothing would move its data.
    #[must_use]
    pub fn driver_snapshot<'a>(&self, decided: &'a DecidedVolume) -> Option<DriverSnapshot<'a>> {
        let method = &decided.verdict.method;
        method.driver_snapshot().filter(|_| self.movers.lack_of(method).is_none())
    }

    /// The mover that a volume needs and that is missing.
    #[must_use]
    pub fn missing_mover(&self, decided: &DecidedVolume) -> Option<MissingMover> {
        self.movers.lack_of(&decided.verdict.method)
    }

    /// Returns true if single claims are to be snapshotted by CSI drivers.
    #[must_use]
    pub fn has_single_snapshots(&self) -> bool {
        let mut all = self.all.iter().filter_map(|decided| self.driver_snapshot(decided));
        all.any(|snapshot| snapshot.group.is_none())
    }

    /// Chooses the class for each claim that is to be snapshotted by itself; where none can be chosen it is not snapshotted. The
    /// files of one that no pod mounts are saved then, where files are saved by default. To be called after [`Self::settle_groups`].
    pub fn settle_classes(&mut self, classes: &SnapshotClasses) {
        for decided in &mut self.all {
            let Verdict { method, why } = &mut decided.verdict;
            if self.movers.lack_of(method).is_some() {
                continue;
            }
            let (Method::CsiSnapshot { class, group: None } | Method::MovedCsiSnapshot { class, group: None, .. }) =
                method
            else {
                continue;
            };
            let claim = decided.claim.as_ref().and_then(|key| self.inventory.claims.get(key));
            let volume = decided.volume.as_ref().and_then(|name| self.inventory.volumes.get(name));
            let (Some(claim), Some(driver)) = (claim, volume.and_then(PersistentVolume::driver)) else { continue };
            let chosen = classes.choose(driver, ClassChoice { of_claim: &claim.snapshot_class, of_policy: class });
            match chosen.map(|chosen| chosen.name.clone()) {
                Ok(name) => *class = name,
                Err(trouble) if self.files_instead.contains(&claim.key) => {
                    let no_snapshot = NoSnapshot::NoClass { driver: driver.to_owned(), trouble };
                    *why = MethodReason::FsBackupOfUnmounted { no_snapshot };
                    *method = Method::FsBackup { through: FilePod::Reader(NoPod::NotMounted) };
                }
                Err(trouble) => {
                    let because = Box::new(std::mem::replace(why, MethodReason::NotAskedFor));
                    *why = MethodReason::NoClass { because, driver: driver.to_owned(), trouble };
                    *method = Method::Skip;
                }
            }
        }
    }

    /// Adds claims and volumes that were not read in time for the decision: nothing is saved of their data.
    pub fn came_late(&mut self, late: VolumeInventory) {
        for (key, claim) in late.claims {
            if self.of_claims.contains_key(&key) {
                continue;
            }
            let why = match &claim.volume {
                Some(_) => MethodReason::CameLate,
                None => MethodReason::NotBound { phase: claim.phase.clone() },
            };
            self.of_claims.insert(key.clone(), self.all.len());
            if let Some(volume) = &claim.volume {
                self.of_volumes.insert(volume.clone(), self.all.len());
            }
            let (volume, verdict) = (claim.volume.clone(), Verdict { method: Method::Skip, why });
            self.inventory.claims.insert(key.clone(), claim);
            self.all.push(DecidedVolume { claim: Some(key), volume, of_pod: None, verdict });
        }
        for (name, volume) in late.volumes {
            if !self.of_volumes.contains_key(&name) {
                self.of_volumes.insert(name.clone(), self.all.len());
                let verdict = Verdict { method: Method::Skip, why: MethodReason::CameLate };
                self.all.push(DecidedVolume { claim: None, volume: Some(name.clone()), of_pod: None, verdict });
            }
            self.inventory.volumes.entry(name).or_insert(volume);
        }
    }

    /// The facts about a claim.
    #[must_use]
    pub fn claim(&self, key: &NamespacedName) -> Option<&Claim> {
        self.inventory.claims.get(key)
    }

    /// The facts about a PersistentVolume.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.inventory.volumes.get(name)
    }
}

#[cfg(test)]
mod tests;
