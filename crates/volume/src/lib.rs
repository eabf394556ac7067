//! What happens to each volume of a backup, and what is recorded of it (design: one verdict with one reason for each volume).
//!
//! A [`Survey`] takes in what is read of pods, claims and volumes ([`facts`]); [`decide()`] says of each volume what is done with
//! it, and why: a pure function, the same for a backup, its dry run and `volume explain`. Of claims that are to be snapshotted
//! together, [`Verdicts::settle_groups`] says then whether they can be. What came of it is a [`Report`], and
//! [`records`] makes the volume information of a backup from verdicts and reports, never from guesses.
//!
//! A restore has its own decision, [`plan_retained`]: how a volume comes back whose data lies on its own storage.
//!
//! Start reading at [`decide()`].

mod class;
pub mod csi;
mod decide;
pub mod facts;
mod group;
mod line;
pub mod native;
mod reason;
mod record;
mod restore_plan;
mod survey;
mod verdict;

pub use class::{ClassChoice, ClassTrouble, SnapshotClass, SnapshotClasses};
pub use decide::{Rules, Volume, decide};
pub use group::{GroupClass, GroupRules};
pub use line::Line;
pub use record::{Report, Reports, Saved, records, unprotected, unprotected_warning};
pub use restore_plan::{
    Allowed, BackupOrigin, ClaimOfVolume, Refusal, RetainedFacts, RetainedPlan, RetainedVolume, VolumeHere,
    plan_retained,
};
pub use survey::{Decided, GroupNote, Survey, Verdicts};
pub use verdict::{Flags, Group, GroupTrouble, Hindrance, Verdict, Way, Why};
