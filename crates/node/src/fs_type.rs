//! The type of the file system of a volume that is made of one that was filled as a device. Pure.

use crate::kube::text;
use serde_json::Value;

/// The parameters of a storage class that name a type, as the provisioner of CSI drivers reads them, in any case. The
/// second one is deprecated.
const CLASS_PARAMETERS: [&str; 2] = ["csi.storage.k8s.io/fstype", "fstype"];

/// The places that tell the type, in the order in which they count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownTypes<'a> {
    /// Found on the device by the mover; empty where it knows none, or does not look, as Velero's.
    pub(crate) found: &'a str,
    /// Asked for by the download, as the backup has it; always empty with definitions of Velero 1.18, which drop it.
    pub(crate) asked: &'a str,
    /// The storage class of the target.
    pub(crate) class: Option<&'a Value>,
}

impl<'a> KnownTypes<'a> {
    /// The type that the volume gets; empty where nobody tells it.
    pub(crate) fn chosen(&self) -> &'a str {
        let all = [self.found, self.asked, self.of_class()];
        all.into_iter().find(|fs_type| !fs_type.is_empty()).unwrap_or_default()
    }

    fn of_class(&self) -> &'a str {
        self.class.map_or("", type_of_class)
    }

    /// The text about a volume whose type is another one than that of the class; empty where it is the same, or where
    /// the class says none.
    pub(crate) fn difference(&self, volume: &Value) -> String {
        let (chosen, of_class) = (self.chosen(), self.of_class());
        if of_class.is_empty() || chosen.eq_ignore_ascii_case(of_class) {
            return String::new();
        }
        let class = self.class.map_or("", |class| text(class, &["metadata", "name"]));
        let told = format!(
            "the restored volume has the file system {chosen}, as it was saved, and is mounted as {chosen}, although its storage class {class} says \
             {of_class}"
        );
        let options = volume["spec"]["mountOptions"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let options: Vec<&str> = options.collect();
        if options.is_empty() {
            return told;
        }
        format!(
            "{told}; its mount options ({}) are those of the class: if its pods do not start, remove from spec.mountOptions of the PersistentVolume \
             those that {chosen} does not have",
            options.join(", ")
        )
    }
}

fn type_of_class(class: &Value) -> &str {
    let parameters = class["parameters"].as_object();
    let value = |name: &&str| {
        let (_, value) = parameters.into_iter().flatten().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        value.as_str().filter(|fs_type| !fs_type.is_empty())
    };
    CLASS_PARAMETERS.iter().find_map(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn class(parameters: Value) -> Value {
        json!({"metadata": {"name": "fast"}, "parameters": parameters})
    }

    #[test]
    fn a_device_is_mounted_as_what_it_has_before_what_anybody_says() {
        let both = class(json!({"fstype": "ext3", "csi.storage.k8s.io/fstype": "ext4"}));
        let deprecated = class(json!({"fsType": "ext3", "csi.storage.k8s.io/fstype": ""}));
        let silent = class(json!({"type": "ssd"}));
        let chosen = |found, asked, class| KnownTypes { found, asked, class }.chosen().to_owned();
        for (found, asked, class, expected) in [
            ("xfs", "btrfs", Some(&both), "xfs"),
            ("", "btrfs", Some(&both), "btrfs"),
            ("", "", Some(&both), "ext4"),
            ("", "", Some(&deprecated), "ext3"),
            ("", "", Some(&silent), ""),
            ("", "", None, ""),
        ] {
            assert_eq!(chosen(found, asked, class), expected, "{found:?} {asked:?} {class:?}");
        }
    }

    #[test]
    fn a_class_of_another_file_system_is_told_with_its_mount_options() {
        let class = class(json!({"fstype": "ext4"}));
        let difference = |found, asked, class, options: Value| {
            KnownTypes { found, asked, class }.difference(&json!({"spec": {"mountOptions": options}}))
        };
        let other = "the restored volume has the file system xfs, as it was saved, and is mounted as xfs, although its storage class fast says ext4";
        let with_options = format!(
            "{other}; its mount options (noatime, data=ordered) are those of the class: if its pods do not start, remove from spec.mountOptions of the PersistentVolume those that xfs does not have"
        );
        let options = json!(["noatime", "data=ordered"]);
        assert_eq!(difference("xfs", "ext4", Some(&class), Value::Null), other);
        assert_eq!(difference("", "xfs", Some(&class), json!([])), other);
        assert_eq!(difference("xfs", "", Some(&class), options.clone()), with_options);
        for (found, asked, class) in [("ext4", "xfs", Some(&class)), ("", "", Some(&class)), ("xfs", "", None)] {
            assert_eq!(difference(found, asked, class, options.clone()), "", "{found:?} {asked:?}");
        }
    }
}
