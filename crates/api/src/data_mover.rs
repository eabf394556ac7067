//! The data movers by their names in policies, Backups, DataUploads and DataDownloads.

/// The program that moves the data of a snapshot into a repository and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataMover {
    /// The node agent's own, which reads and writes files, or a device as one stream.
    Files,
    /// The node agent's own for volumes as block devices, also those with a file system.
    Blocks,
    /// A program of a third party, which takes up its DataUploads and DataDownloads itself.
    ThirdParty,
}

impl DataMover {
    /// The names of Velero's own; the empty one is the default.
    pub const OF_VELERO: [&str; 4] = ["", "velero", "velero-fs", "velero-block"];

    /// Reads a name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "" | "velero" | "velero-fs" => Self::Files,
            "velero-block" => Self::Blocks,
            _ => Self::ThirdParty,
        }
    }

    /// Returns true for one that writes into the repositories of Velero's storage locations.
    #[must_use]
    pub fn is_of_velero(self) -> bool {
        self != Self::ThirdParty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_mover_is_veleros_by_its_name_alone() {
        use DataMover::{Blocks, Files, ThirdParty};
        assert_eq!(DataMover::OF_VELERO.map(DataMover::of), [Files, Files, Files, Blocks]);
        assert_eq!(["kubevirt", "Velero", "velero-"].map(DataMover::of), [ThirdParty; 3]);
        assert_eq!([Files, Blocks, ThirdParty].map(DataMover::is_of_velero), [true, true, false]);
    }
}
