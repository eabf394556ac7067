//! Features that are switched on by name.

/// The features that change what is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// `EnableCSI`: volumes are saved by snapshots of their CSI drivers.
    pub csi: bool,
    /// `EnableAPIGroupVersions`: objects are saved in all versions that the cluster serves, and restored in the one that suits
    /// best.
    pub api_group_versions: bool,
}

impl Features {
    /// Reads names that are separated by commas; blanks around them do not count.
    ///
    /// compat: names that nobody knows are accepted, because scripts carry those of older releases.
    #[must_use]
    pub fn parse(names: &str) -> Self {
        let mut out = Self::default();
        for name in names.split(',') {
            match name.trim() {
                "EnableCSI" => out.csi = true,
                "EnableAPIGroupVersions" => out.api_group_versions = true,
                _ => {}
            }
        }
        out
    }
}

/// Returns true if one of these names, separated by commas, changes nothing in this version: an unknown name, or that
/// of a feature that is not implemented yet.
#[must_use]
pub fn has_feature_without_effect(names: &str) -> bool {
    names.split(',').map(str::trim).any(|name| !matches!(name, "" | "EnableAPIGroupVersions" | "EnableCSI"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_known_by_their_names() {
        let found = |names: &str| {
            let Features { csi, api_group_versions } = Features::parse(names);
            (csi, api_group_versions)
        };
        assert_eq!(found(""), (false, false));
        assert_eq!(found("EnableCSI, EnableAPIGroupVersions"), (true, true));
        assert_eq!(found("EnableRestic,enablecsi"), (false, false));
        let names = ["", "EnableAPIGroupVersions", "EnableAPIGroupVersions, EnableCSI", "x"];
        assert_eq!(names.map(has_feature_without_effect), [false, false, false, true]);
    }
}
