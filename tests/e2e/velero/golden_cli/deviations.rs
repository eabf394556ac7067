//! The deviations of our output from that of Velero.

/// Something that Lifeboat prints in another way, on purpose.
pub(super) struct Deviation {
    /// The golden files that have it.
    pub(super) of: &'static [&'static str],
    pub(super) what: What,
    pub(super) why: Why,
}

pub(super) enum What {
    /// A text that Velero prints once in each of these files, and the text in its place.
    Text(&'static str, &'static str),
    /// Velero prints lines that follow one another and are equal; of those one is left.
    Once,
    /// The flag that the same output takes.
    Flag(&'static str),
}
use What::{Flag, Once, Text};

/// The reason for which an output deviates.
pub(super) enum Why {
    /// As the row of this topic in docs/compatibility/ says.
    Page(&'static str),
    /// No user would call it another output.
    Because(&'static str),
}
use Why::{Because, Page};

const DESCRIPTIONS: &[&str] = &[
    "backup-describe",
    "backup-describe-details",
    "restore-describe",
    "restore-describe-details",
    "schedule-describe",
    "schedule-describe-bad",
];

const WRONG_LINE: Why = Page("commands: a wrong command line");
const WHAT_IS_BUILT_IN: Why = Page("names of what is built in (`plugin get`)");
const NOW: Why = Because("it is the time at which the test made the object");
const VERSION: Why = Because("it is another program");
const SKIPPED: Why = Page("`backup describe`, volumes that are skipped");

pub(super) const DEVIATIONS: &[Deviation] = &[
    Deviation { of: DESCRIPTIONS, what: Flag("--colorized"), why: Page("commands: colours") },
    Deviation {
        of: &["backup-create-dry", "bsl-create-dry", "restore-create-dry", "vsl-create-dry"],
        what: Text("  creationTimestamp: null\n", ""),
        why: Page("`-o yaml` of what is created"),
    },
    Deviation {
        of: &["restore-create-dry", "restore-get-one"],
        what: Text("  - '*'\n", "  - \"*\"\n"),
        why: Because("YAML has both quotes, and they mean the same here"),
    },
    Deviation {
        of: &["backup-bad-selector"],
        what: Text(
            "Error: invalid argument \"a b\" for \"-l, --selector\" flag: couldn't parse the selector string \"a b\": unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt\n",
            "Error: invalid value 'a b' for '--selector <SELECTOR>': unable to parse requirement: found 'b', expected: in, notin, =, ==, !=\n",
        ),
        why: WRONG_LINE,
    },
    Deviation {
        of: &["bsl-create-bad"],
        what: Text(
            "Error: accepts 1 arg(s), received 0\n",
            "Error: the following required arguments were not provided:\n  --provider <NAME>\n  --bucket <NAME>\n  <NAME>\n",
        ),
        why: WRONG_LINE,
    },
    Deviation {
        of: &["schedule-create-dry"],
        what: Text(
            "Error: invalid argument \"-o\" for \"--skip-immediately\" flag: strconv.ParseBool: parsing \"-o\": invalid syntax\n",
            "Error: unexpected argument 'yaml' found\n",
        ),
        why: WRONG_LINE,
    },
    Deviation {
        of: &["restore-logs-missing"],
        what: Text("Restore \"nope\" does not exist.\n", "An error occurred: restore \"nope\" does not exist\n"),
        why: Page("`restore logs` of what does not exist"),
    },
    Deviation {
        of: &["schedule-bad"],
        what: Text(
            "created successfully.\n",
            "created successfully.\nWARNING: the server will refuse it: invalid schedule: end of range (61) above maximum (59): 61\n",
        ),
        why: Page("`schedule create` that the server will refuse"),
    },
    Deviation {
        of: &["delete-noconfirm-stdin-closed"],
        what: Text("Are you sure", "Delete 1 backup in namespace velero of cluster {cluster}: demo1?\nAre you sure"),
        why: Page("`delete`: question"),
    },
    Deviation { of: &["schedule-get"], what: Text("2026-11-21 08:36:35 +0000 UTC", "{now}"), why: NOW },
    Deviation { of: &["schedule-get-bad"], what: Text("2026-11-21 08:36:38 +0000 UTC", "{now}"), why: NOW },
    Deviation { of: &["restore-get"], what: Text("2026-11-21 08:38:34 +0000 UTC", "{now}"), why: NOW },
    Deviation {
        of: &["backup-describe"],
        what: Text(
            "Pod Volume Backups: <none included>\n",
            "Pod Volume Backups: <none included>\n\n  Skipped: 2 (specify --details for more information)\n",
        ),
        why: SKIPPED,
    },
    Deviation {
        of: &["backup-describe-details"],
        what: Text(
            "Pod Volume Backups: <none included>\n",
            "Pod Volume Backups: <none included>\n\n  Skipped:\n    app1/data (pv-data): podvolume: opted out due to annotation in pod \
             web-94dc4fb5d-9vqzb;volumeSnapshot: no applicable volumesnapshotter found;\n    app1/shared (pv-nfs): any: \
             skipped due to resource policy ;podvolume: opted out due to annotation in pod lone;volumeSnapshot: not satisfy \
             the criteria for VolumePolicy or the legacy snapshot way;\n",
        ),
        why: SKIPPED,
    },
    Deviation {
        of: &["version"],
        what: Text("Client:\n\tVersion: v1.18.2\n", "Client:\n\tVersion: {version}\n"),
        why: VERSION,
    },
    Deviation {
        of: &["version"],
        what: Text("Server:\n\tVersion: v1.18.2\n", "Server:\n\tVersion: {version}\n"),
        why: VERSION,
    },
    Deviation { of: &["version"], what: Text("c253c7fe37d78c9b7e55c68544f7c5b2608712d8", "{commit}"), why: VERSION },
    Deviation { of: &["plugin-get"], what: Once, why: WHAT_IS_BUILT_IN },
    Deviation {
        of: &["plugin-get"],
        what: Text("velero.io/crd-remap-version                     BackupItemAction\n", ""),
        why: WHAT_IS_BUILT_IN,
    },
    Deviation {
        of: &["plugin-get"],
        what: Text("velero.io/dataupload-delete                     DeleteItemAction\n", ""),
        why: WHAT_IS_BUILT_IN,
    },
    Deviation {
        of: &["plugin-get"],
        what: Text(
            "velero.io/localdir                              ObjectStore\n",
            "lifeboat.io/directory                           ObjectStore\nvelero.io/aws                                   ObjectStore\n",
        ),
        why: WHAT_IS_BUILT_IN,
    },
    Deviation {
        of: &["plugin-get"],
        what: Text("velero.io/dataupload                            RestoreItemAction\n", ""),
        why: WHAT_IS_BUILT_IN,
    },
    Deviation {
        of: &["plugin-get"],
        what: Text(
            "velero.io/csi-pvc-restorer                      RestoreItemActionV2\n",
            "lifeboat.io/csi-volumegroupsnapshot-restorer    RestoreItemActionV2\nvelero.io/csi-pvc-restorer                      RestoreItemActionV2\n",
        ),
        why: WHAT_IS_BUILT_IN,
    },
    Deviation {
        of: &["plugin-get"],
        what: Text("velero.io/init-restore-hook                     RestoreItemAction\n", ""),
        why: WHAT_IS_BUILT_IN,
    },
];
