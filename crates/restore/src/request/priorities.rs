//! Order in which types are restored (velero: pkg/cmd/server/config/config.go, pkg/restore/restore.go).

use std::str::FromStr;

/// An order of types: the high ones in this order, then all others, then the low ones in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// First, in this order.
    pub high: Vec<String>,
    /// Last, in this order.
    pub low: Vec<String>,
    /// True when a user wrote the list: then no other types are moved to the end.
    pub custom: bool,
}

impl Default for Priorities {
    fn default() -> Self {
        let high = [
            "customresourcedefinitions",
            "namespaces",
            "storageclasses",
            "volumesnapshotclass.snapshot.storage.k8s.io",
            "volumesnapshotcontents.snapshot.storage.k8s.io",
            "volumesnapshots.snapshot.storage.k8s.io",
            "datauploads.velero.io",
            "persistentvolumes",
            "persistentvolumeclaims",
            "clusterroles",
            "roles",
            "serviceaccounts",
            "clusterrolebindings",
            "rolebindings",
            "secrets",
            "configmaps",
            "limitranges",
            "priorityclasses",
            "pods",
            "replicasets.apps",
            "clusterclasses.cluster.x-k8s.io",
            "endpoints",
            "services",
        ];
        let low = [
            "clusterbootstraps.run.tanzu.vmware.com",
            "clusters.cluster.x-k8s.io",
            "clusterresourcesets.addons.cluster.x-k8s.io",
            "apps.kappctrl.k14s.io",
            "packageinstalls.packaging.carvel.dev",
        ];
        Self { high: high.map(str::to_owned).into(), low: low.map(str::to_owned).into(), custom: false }
    }
}

/// The list has two separators.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("multiple priority separator \"-\" found")]
pub struct ParsePrioritiesError;

/// `a,b,-,x`: a and b first, x last. Only the parts that are given replace the defaults.
impl FromStr for Priorities {
    type Err = ParsePrioritiesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(',').map(str::trim).filter(|p| !p.is_empty()).collect::<Vec<_>>();
        if parts.iter().filter(|p| **p == "-").count() > 1 {
            return Err(ParsePrioritiesError);
        }
        let low = match parts.iter().position(|p| *p == "-") {
            Some(at) => {
                let low = parts.split_off(at + 1);
                parts.pop();
                low
            }
            None => Vec::new(),
        };
        let mut out = Self::default();
        for (given, list) in [(parts, &mut out.high), (low, &mut out.low)] {
            if !given.is_empty() {
                *list = given.into_iter().map(str::to_owned).collect();
                out.custom = true;
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_veleros() {
        let high = "customresourcedefinitions, namespaces, storageclasses, volumesnapshotclass.snapshot.storage.k8s.io, \
                    volumesnapshotcontents.snapshot.storage.k8s.io, volumesnapshots.snapshot.storage.k8s.io, \
                    datauploads.velero.io, persistentvolumes, persistentvolumeclaims, clusterroles, roles, serviceaccounts, \
                    clusterrolebindings, rolebindings, secrets, configmaps, limitranges, priorityclasses, pods, replicasets.apps, \
                    clusterclasses.cluster.x-k8s.io, endpoints, services";
        let low = "clusterbootstraps.run.tanzu.vmware.com, clusters.cluster.x-k8s.io, \
                   clusterresourcesets.addons.cluster.x-k8s.io, apps.kappctrl.k14s.io, packageinstalls.packaging.carvel.dev";
        let found = Priorities::default();
        assert_eq!((found.high.len(), found.low.len(), found.custom), (23, 5, false));
        assert_eq!((found.high.join(", "), found.low.join(", ")), (high.to_owned(), low.to_owned()));
    }

    #[test]
    fn only_the_parts_that_are_given_replace_the_defaults() {
        let default = Priorities::default();
        let list = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        for (text, high, low) in [
            ("", default.high.clone(), default.low.clone()),
            ("-", default.high.clone(), default.low.clone()),
            ("a,b", list(&["a", "b"]), default.low.clone()),
            ("a, b,-", list(&["a", "b"]), default.low.clone()),
            ("-,x", default.high.clone(), list(&["x"])),
            ("a,-,x", list(&["a"]), list(&["x"])),
        ] {
            let got: Priorities = text.parse().unwrap();
            assert_eq!((got.high, got.low), (high, low), "{text}");
        }
        assert_eq!("a,-,b,-".parse::<Priorities>(), Err(ParsePrioritiesError));
    }
}
