//! Decides about one volume (velero: pkg/backup/item_backupper.go, internal/volumehelper). Pure and total.

use crate::facts::{BLOCK, Claim, PersistentVolume, Pod, PodVolume};
use crate::verdict::{Blocker, FilePod, Flags, Group, Method, MethodReason, NoPod, NoSnapshot, Verdict};
use lifeboat_select::{ResourcePolicies, SnapshotBy, VolumeAction, VolumeFacts, VolumeRule};

/// The rules of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The policies of the backup, followed by the policies of all backups.
    pub policies: Option<&'a ResourcePolicies>,
    /// Settings of the backup and the server for all volumes.
    pub flags: &'a Flags,
}

/// A volume, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub enum Volume<'a> {
    /// A claim with its PersistentVolume.
    Claimed {
        /// The claim.
        claim: &'a Claim,
        /// Its volume; `None` when it is not bound, or its volume could not be read.
        volume: Option<&'a PersistentVolume>,
        /// The pods that mount it, in the order of their names, each with its name for it.
        mounts: &'a [(&'a Pod, &'a PodVolume)],
    },
    /// A PersistentVolume whose claim is not known, or that has none.
    Unclaimed {
        /// The volume.
        volume: &'a PersistentVolume,
        /// The pods that mount its claim, in the order of their names, each with its name for it.
        mounts: &'a [(&'a Pod, &'a PodVolume)],
    },
    /// A volume of a pod that has no claim, such as an emptyDir, or whose claim is not part of the backup and is ephemeral.
    OfPod(&'a Pod, &'a PodVolume),
}

/// Decides about a volume, and gives the reason. The first rule that applies decides: a policy whose conditions it
/// meets, a pod that asks for its files by annotation, the default for files, the default for snapshots.
///
/// It is not decided here if the claims of a group can be snapshotted together, but by
/// [`crate::Verdicts::settle_groups`].
///
/// Unlike Velero, which asks a policy without its claim about a PersistentVolume, and with it about the claim, a volume
/// with its claim is one thing here.
#[must_use]
pub fn decide(volume: Volume<'_>, rules: Rules<'_>) -> Verdict {
    let subject = Subject::of(volume);
    let rule = rules.policies.and_then(|policies| policies.volume_rule(&subject.facts));
    if let Volume::Claimed { claim, volume: None, .. } = volume {
        return without_volume(claim, rule);
    }
    match rule {
        Some(rule) => subject.by_rule(rule, rules.flags),
        None => subject.by_default(rules.flags),
    }
}

/// A claim without a volume has no data, whatever policies and annotations ask for.
fn without_volume(claim: &Claim, rule: Option<VolumeRule<'_>>) -> Verdict {
    let why = match (&claim.volume, rule) {
        (_, Some(rule)) if *rule.action == VolumeAction::Skip => policy(rule, None),
        (Some(volume), _) => MethodReason::VolumeUnread { volume: volume.clone() },
        (None, _) => MethodReason::NotBound {
            phase: if claim.phase.is_empty() { "Pending".to_owned() } else { claim.phase.clone() },
        },
    };
    Verdict { method: Method::Skip, why }
}

fn policy(rule: VolumeRule<'_>, blocker: Option<Blocker>) -> MethodReason {
    let action = rule.action.name();
    MethodReason::Policy { number: rule.number, source: rule.source.to_owned(), action, blocker }
}

/// The facts about a volume that the decision needs, whatever its kind.
struct Subject<'a> {
    facts: VolumeFacts,
    persistent: Option<&'a PersistentVolume>,
    has_claim: bool,
    mounts: Vec<(&'a Pod, &'a PodVolume)>,
}

impl<'a> Subject<'a> {
    fn of(volume: Volume<'a>) -> Self {
        let has_ephemeral = |mounts: &[(&Pod, &PodVolume)]| mounts.iter().any(|(_, volume)| volume.is_ephemeral);
        match volume {
            Volume::Claimed { claim, volume, mounts } => {
                let mut facts = volume.map(|volume| volume.facts.clone()).unwrap_or_default();
                facts.claim_labels.clone_from(&claim.labels);
                facts.claim_phase.clone_from(&claim.phase);
                facts.claim_volume_mode.clone_from(&claim.volume_mode);
                facts.claim_access_modes.clone_from(&claim.access_modes);
                facts.is_ephemeral = has_ephemeral(mounts);
                Self { facts, persistent: volume, has_claim: true, mounts: mounts.to_vec() }
            }
            Volume::Unclaimed { volume, mounts } => {
                let facts = VolumeFacts { is_ephemeral: has_ephemeral(mounts), ..volume.facts.clone() };
                Self { facts, persistent: Some(volume), has_claim: false, mounts: mounts.to_vec() }
            }
            Volume::OfPod(pod, volume) => {
                let facts = volume.facts.as_deref().cloned().unwrap_or_default();
                Self { facts, persistent: None, has_claim: false, mounts: vec![(pod, volume)] }
            }
        }
    }

    fn by_rule(&self, rule: VolumeRule<'_>, flags: &Flags) -> Verdict {
        let done = |method| Verdict { method, why: policy(rule, None) };
        let hindered = |blocker| Verdict { method: Method::Skip, why: policy(rule, Some(blocker)) };
        match rule.action {
            // A snapshot is of a PersistentVolume: a rule for all volumes does not ask for one of an emptyDir.
            VolumeAction::Snapshot { .. } if self.persistent.is_none() => {
                Verdict { method: Method::Skip, why: MethodReason::NotAskedFor }
            }
            // Files are found by their claim, as those that a pod asks for.
            VolumeAction::FsBackup if self.persistent.is_some() && !flags.saves_claims => {
                hindered(Blocker::ClaimsLeftOut)
            }
            VolumeAction::Skip => done(Method::Skip),
            VolumeAction::Custom(_) => hindered(Blocker::Custom),
            VolumeAction::FsBackup => self.way_by_files(None).map_or_else(hindered, done),
            VolumeAction::Snapshot { by, data_mover, snapshot_class } => {
                self.way_by_snapshot(*by, data_mover, snapshot_class, flags).map_or_else(hindered, done)
            }
        }
    }

    fn by_default(&self, flags: &Flags) -> Verdict {
        if let Some((pod, volume)) = self.pod_asking_for_files(flags) {
            let blocker = self.way_by_files(Some((pod, volume)));
            let (method, blocker) = match blocker {
                Ok(method) => (method, None),
                Err(blocker) => (Method::Skip, Some(blocker)),
            };
            let pod = pod.name.clone();
            let why = match volume.is_opted_in && !flags.fs_backup_by_default {
                true => MethodReason::Annotation { pod, blocker },
                false => MethodReason::FsBackupByDefault { pod, blocker },
            };
            return Verdict { method, why };
        }
        if self.persistent.is_none() {
            return Verdict { method: Method::Skip, why: MethodReason::NotAskedFor };
        }
        if !flags.snapshots {
            let none = || Verdict { method: Method::Skip, why: MethodReason::NoSnapshots };
            return self.files_of_unmounted(NoSnapshot::NotWanted, flags).unwrap_or_else(none);
        }
        match self.way_by_snapshot(SnapshotBy::Any, "", "", flags) {
            Ok(method) => Verdict { method, why: MethodReason::SnapshotByDefault { blocker: None } },
            Err(blocker) => {
                let why = || MethodReason::SnapshotByDefault { blocker: Some(blocker) };
                let none = || Verdict { method: Method::Skip, why: why() };
                self.files_of_unmounted(NoSnapshot::Blocked(blocker), flags).unwrap_or_else(none)
            }
        }
    }

    /// The files of a claim that no pod mounts, where files are saved by default and no snapshot is taken. Velero takes
    /// snapshots of such claims, and leaves those out of which it can take none.
    fn files_of_unmounted(&self, no_snapshot: NoSnapshot, flags: &Flags) -> Option<Verdict> {
        if !flags.saves_unmounted_files() || !self.mounts.is_empty() {
            return None;
        }
        let method = self.way_by_files(None).ok()?;
        Some(Verdict { method, why: MethodReason::FsBackupOfUnmounted { no_snapshot } })
    }

    /// The pod that asks for the files: one from within which they can be saved, if there is any.
    fn pod_asking_for_files(&self, flags: &Flags) -> Option<(&'a Pod, &'a PodVolume)> {
        if self.persistent.is_some() && !flags.saves_claims {
            return None;
        }
        let asks = |volume: &PodVolume| match flags.fs_backup_by_default {
            true => !volume.is_opted_out,
            false => volume.is_opted_in,
        };
        let mut asking = self.mounts.iter().copied().filter(|(_, volume)| asks(volume));
        let first = asking.clone().next();
        asking.find(|(pod, volume)| pod.is_running && volume.is_mounted).or(first)
    }

    /// Saves the files from within a pod that runs and mounts them: the one that asks, else any other. Where there is none, a
    /// reader pod mounts the claim.
    fn way_by_files(&self, asks: Option<(&'a Pod, &'a PodVolume)>) -> Result<Method, Blocker> {
        if self.facts.volume_type == "hostPath" {
            return Err(Blocker::HostPath);
        }
        let running = || asks.iter().chain(&self.mounts).filter(|(pod, _)| pod.is_running);
        if let Some((pod, volume)) = running().find(|(_, volume)| volume.is_mounted) {
            let through = FilePod::Mounting { pod: pod.name.clone(), volume: volume.name.clone() };
            return Ok(Method::FsBackup { through });
        }
        let is_device = self.facts.claim_volume_mode == BLOCK || running().any(|(_, volume)| volume.is_device);
        let (no_pod, blocker) = match self.mounts.is_empty() || running().next().is_some() {
            true => (NoPod::NotMounted, Blocker::NotMounted),
            false => (NoPod::NoneRuns, Blocker::NoPodRuns),
        };
        match self.has_claim && self.persistent.is_some() {
            _ if is_device => Err(Blocker::Device),
            true => Ok(Method::FsBackup { through: FilePod::Reader(no_pod) }),
            false => Err(blocker),
        }
    }

    /// The claims that it is snapshotted with, if its claim has the label of any.
    fn group_of_claim(&self, flags: &Flags) -> Option<Group> {
        let value = self.facts.claim_labels.get(&flags.group_label)?;
        (!value.is_empty()).then(|| Group { value: value.clone(), class: String::new() })
    }

    fn way_by_snapshot(&self, by: SnapshotBy, mover: &str, class: &str, flags: &Flags) -> Result<Method, Blocker> {
        let is_csi = self.persistent.is_some_and(|volume| volume.driver().is_some());
        let native = || if flags.native { Ok(Method::NativeSnapshot) } else { Err(Blocker::NoSnapshotter) };
        if by == SnapshotBy::Native || by == SnapshotBy::Any && !is_csi && self.persistent.is_some() {
            return native();
        }
        match (is_csi, flags.csi) {
            (false, _) => return Err(Blocker::NotCsi),
            (true, false) if by == SnapshotBy::Any && flags.native => return native(),
            (true, false) if by == SnapshotBy::Any => return Err(Blocker::NeitherCsiNorSnapshotter),
            (true, false) => return Err(Blocker::CsiIsOff),
            (true, true) if !flags.serves_snapshots => return Err(Blocker::NoSnapshotApi),
            (true, true) if !self.has_claim => return Err(Blocker::NoClaim),
            (true, true) => {}
        }
        let class = class.to_owned();
        let is_moved = by == SnapshotBy::DataMover || by == SnapshotBy::Any && flags.moves_data;
        let data_mover = if mover.is_empty() { flags.data_mover.as_str() } else { mover };
        let group = self.group_of_claim(flags);
        Ok(match is_moved {
            true => Method::MovedCsiSnapshot { class, data_mover: data_mover.to_owned(), group },
            false => Method::CsiSnapshot { class, group },
        })
    }
}

#[cfg(test)]
mod tests;
