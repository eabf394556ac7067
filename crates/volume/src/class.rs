//! Chooses the VolumeSnapshotClass for a claim (velero: pkg/util/csi). Pure.

use lifeboat_api::well_known::{
    ANNOTATION_DEFAULT_VOLUME_SNAPSHOT_CLASS, ANNOTATION_VOLUME_SNAPSHOT_CLASS_PREFIX, LABEL_VOLUME_SNAPSHOT_CLASS,
};
use serde_json::Value;
use std::collections::BTreeMap;

/// A VolumeSnapshotClass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotClass {
    /// Its name.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// True when it has the label that chooses it.
    pub is_labelled: bool,
    /// True when it has the annotation of default classes.
    pub is_default: bool,
}

impl SnapshotClass {
    /// Reads a class.
    #[must_use]
    pub fn of(class: &Value) -> Self {
        let text = |pointer: &str| class.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let has = |part: &str, key: &str| class["metadata"][part].get(key).is_some();
        Self {
            name: text("/metadata/name"),
            driver: text("/driver"),
            is_labelled: has("labels", LABEL_VOLUME_SNAPSHOT_CLASS),
            // compat: whatever the annotation says.
            is_default: has("annotations", ANNOTATION_DEFAULT_VOLUME_SNAPSHOT_CLASS),
        }
    }
}

/// The class names that people gave for one claim; empty where they gave none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassChoice<'a> {
    /// The annotation of the claim.
    pub of_claim: &'a str,
    /// The parameter of the policy that decides about its volume.
    pub of_policy: &'a str,
}

/// The reason for which no class is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassTrouble {
    /// The reason, as the end of a sentence.
    pub why: String,
    /// The change that would help.
    pub advice: &'static str,
}

const NAME_ONE: &str =
    "name one in the annotation velero.io/csi-volumesnapshot-class of the claim, or put the label of that name on one";
const MAKE_ONE: &str = "make a VolumeSnapshotClass of the driver";

/// The classes of a cluster, and those that a backup's annotations name.
#[derive(Clone, Debug, Default)]
pub struct SnapshotClasses {
    classes: Vec<SnapshotClass>,
    /// Class by driver in lower case.
    of_backup: BTreeMap<String, String>,
}

impl SnapshotClasses {
    /// Creates the set of these classes, for a backup with these annotations. A class that is listed twice, as in a
    /// list that was interrupted, counts once.
    #[must_use]
    pub fn new(mut classes: Vec<SnapshotClass>, annotations: &BTreeMap<String, String>) -> Self {
        classes.sort_by(|a, b| a.name.cmp(&b.name));
        classes.dedup_by(|a, b| a.name == b.name);
        let of_backup = annotations.iter().filter_map(|(key, class)| {
            Some((key.strip_prefix(ANNOTATION_VOLUME_SNAPSHOT_CLASS_PREFIX)?.to_lowercase(), class.clone()))
        });
        Self { classes, of_backup: of_backup.collect() }
    }

    /// The class for a volume of a driver: the one that the claim names, the policy names, or the backup names; else
    /// the first class with the label, the first default one, the only one.
    ///
    /// compat: a name that is not that of a class of the driver does not count.
    ///
    /// # Errors
    /// [`ClassTrouble`] with the reason when none is chosen.
    pub fn choose(&self, driver: &str, choice: ClassChoice<'_>) -> Result<&SnapshotClass, ClassTrouble> {
        let trouble = |why: String, advice| Err(ClassTrouble { why, advice });
        let of_backup = self.of_backup.get(&driver.to_lowercase()).map_or("", String::as_str);
        let named = [choice.of_claim, choice.of_policy, of_backup].into_iter().filter(|name| !name.is_empty());
        let is_it = |class: &&SnapshotClass, name: &str| {
            class.name.eq_ignore_ascii_case(name) && class.driver.eq_ignore_ascii_case(driver)
        };
        let mut unknown = Vec::new();
        for name in named {
            if let Some(class) = self.classes.iter().find(|class| is_it(class, name)) {
                return Ok(class);
            }
            unknown.push(name);
        }
        let of_driver = || self.classes.iter().filter(|class| class.driver == driver);
        let found = of_driver().find(|class| class.is_labelled).or_else(|| of_driver().find(|class| class.is_default));
        let mut all = of_driver();
        match (found, all.next(), all.next()) {
            (Some(class), ..) | (None, Some(class), None) => Ok(class),
            (None, Some(_), Some(_)) => {
                let names: Vec<&str> = of_driver().map(|class| class.name.as_str()).collect();
                let why = format!("the cluster has several, {}, and nothing says which to take", names.join(", "));
                trouble(why, NAME_ONE)
            }
            (None, None, _) if unknown.is_empty() => trouble("the cluster has none".to_owned(), MAKE_ONE),
            (None, None, _) => {
                trouble(format!("the cluster has none, and none of the name {}", unknown.join(", ")), MAKE_ONE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(name: &str, driver: &str) -> SnapshotClass {
        SnapshotClass { name: name.into(), driver: driver.into(), ..SnapshotClass::default() }
    }

    #[test]
    fn a_class_is_read() {
        let read = |labels: Value, annotations: Value| {
            SnapshotClass::of(
                &json!({"metadata": {"name": "a", "labels": labels, "annotations": annotations}, "driver": "d"}),
            )
        };
        assert_eq!(read(json!(null), json!({})), class("a", "d"));
        let labelled = SnapshotClass { is_labelled: true, ..class("a", "d") };
        assert_eq!(read(json!({"velero.io/csi-volumesnapshot-class": ""}), json!(null)), labelled);
        let default = SnapshotClass { is_default: true, ..class("a", "d") };
        assert_eq!(read(json!(1), json!({"snapshot.storage.kubernetes.io/is-default-class": "false"})), default);
    }

    /// Velero's rules in their order, each against those below it.
    #[test]
    fn the_first_row_that_names_a_class_of_the_driver_chooses_it() {
        let annotations =
            BTreeMap::from([("velero.io/csi-volumesnapshot-class_disk.example".to_owned(), "c".to_owned())]);
        let labelled = SnapshotClass { is_labelled: true, ..class("l", "Disk.example") };
        let default = SnapshotClass { is_default: true, ..class("k", "Disk.example") };
        let plain = ["a", "b", "c"].map(|name| class(name, "Disk.example"));
        let other = class("other", "other.example");
        let all = [plain.to_vec(), vec![labelled.clone(), default.clone(), other]].concat();
        let choose =
            |classes: &[SnapshotClass], annotations: &BTreeMap<String, String>, of_claim: &str, of_policy: &str| {
                let classes = SnapshotClasses::new(classes.to_vec(), annotations);
                let choice = ClassChoice { of_claim, of_policy };
                classes.choose("Disk.example", choice).map(|class| class.name.clone())
            };
        let none = BTreeMap::new();
        for (classes, annotations, of_claim, of_policy, expected) in [
            (&all[..], &annotations, "A", "b", Ok("a")),
            (&all, &annotations, "other", "B", Ok("b")),
            (&all, &annotations, "missing", "", Ok("c")),
            (&all, &none, "", "other", Ok("l")),
            (&[plain[0].clone(), default.clone()], &none, "", "", Ok("k")),
            (&plain[..1], &none, "", "", Ok("a")),
            // A list that was interrupted has brought it twice.
            (&[plain[0].clone(), plain[0].clone()], &none, "", "", Ok("a")),
            (
                &plain,
                &none,
                "",
                "",
                Err(("the cluster has several, a, b, c, and nothing says which to take", NAME_ONE)),
            ),
            (&[], &none, "", "", Err(("the cluster has none", MAKE_ONE))),
            (&all[5..], &none, "other", "x", Err(("the cluster has none, and none of the name other, x", MAKE_ONE))),
        ] {
            let chosen = choose(classes, annotations, of_claim, of_policy);
            let chosen = chosen.as_deref().map_err(|trouble| (trouble.why.as_str(), trouble.advice));
            assert_eq!(chosen, expected, "{of_claim} {of_policy}");
        }
    }
}
