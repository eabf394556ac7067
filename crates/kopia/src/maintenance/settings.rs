//! Parameters and schedule of maintenance, as the repository has them.

use super::report::{StepReport, split_fatal};
use crate::blobs::Blobs;
use crate::format::blob_name::MAINTENANCE;
use crate::format::maintenance::{MaintenanceParameters, Schedule};
use crate::format::repository::RepositoryFormat;
use crate::options::{Random, random_bytes};
use crate::{KopiaError, Repository, RepositoryWriter};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The type of the manifest with the parameters.
const TYPE: &str = "maintenance";
/// The most bytes of a schedule.
const MAX_SCHEDULE: u64 = 16 << 20;

impl Repository {
    /// The parameters of maintenance; the defaults, which have no owner, where none were set.
    ///
    /// # Errors
    /// Manifests that cannot be read.
    pub async fn maintenance_parameters(&self) -> Result<MaintenanceParameters, KopiaError> {
        let manifests = self.manifests().await?;
        let Some(latest) = manifests.of_type(TYPE).pop() else { return Ok(MaintenanceParameters::default()) };
        let damaged = |e| KopiaError::damaged(format!("manifest {} with the parameters of maintenance", latest.id), e);
        MaintenanceParameters::parse(latest.data.get()).map_err(damaged)
    }

    /// The schedule of maintenance; an empty one where it never ran.
    ///
    /// # Errors
    /// A schedule that cannot be read; those of the bucket.
    pub async fn maintenance_schedule(&self) -> Result<Schedule, KopiaError> {
        Ok(StoredSchedule::load(self.blobs(), &self.format()).await?.schedule)
    }
}

/// Sets the parameters of maintenance, in place of those before.
///
/// # Errors
/// Errors of the writer.
pub async fn set_parameters(writer: &RepositoryWriter, parameters: &MaintenanceParameters) -> Result<(), KopiaError> {
    let before: Vec<String> =
        writer.repository().manifests().await?.of_type(TYPE).into_iter().map(|entry| entry.id.clone()).collect();
    let text = String::from_utf8_lossy(&parameters.write()).into_owned();
    let data =
        RawValue::from_string(text).map_err(|e| KopiaError::refused("write the parameters of maintenance", e))?;
    writer.put_manifest(BTreeMap::from([("type".to_owned(), TYPE.to_owned())]), data)?;
    for id in before {
        writer.delete_manifest(&id)?;
    }
    writer.flush().await.map(drop)
}

/// The schedule, and the bytes in which it is stored.
#[derive(Debug)]
pub(super) struct StoredSchedule {
    pub(super) schedule: Schedule,
    stored: Option<Bytes>,
    format: Arc<RepositoryFormat>,
    blobs: Blobs,
    /// The error of the last save, where that failed.
    unsaved: Option<String>,
}

impl StoredSchedule {
    pub(super) async fn load(blobs: &Blobs, format: &Arc<RepositoryFormat>) -> Result<Self, KopiaError> {
        let stored = read(blobs).await?;
        let schedule = match &stored {
            None => Schedule::default(),
            Some(stored) => Schedule::open(format, stored)
                .map_err(|e| KopiaError::damaged(format!("blob {MAINTENANCE} with the schedule of maintenance"), e))?,
        };
        Ok(Self { schedule, stored, format: format.clone(), blobs: blobs.clone(), unsaved: None })
    }

    /// Fails where another program has written the schedule since it was read or written here: kopia does so when it
    /// maintains the repository, and looks at no claim.
    pub(super) async fn check(&self) -> Result<(), KopiaError> {
        if read(&self.blobs).await? == self.stored {
            return Ok(());
        }
        let why = "another program has changed the schedule meanwhile, which kopia does when it maintains the repository: let \
                   only one of them do that, and run this again";
        Err(KopiaError::NotMaintained { why: why.to_owned() })
    }

    /// Saves the schedule. That the storage takes none ends nothing: only what was recorded counts later.
    ///
    /// # Errors
    /// Errors after which nothing may go on.
    pub(super) async fn try_save(&mut self, random: &Random) -> Result<(), KopiaError> {
        self.unsaved = split_fatal(self.save(random).await)?;
        Ok(())
    }

    /// The failed step of a schedule that could not be saved.
    pub(super) fn failed_save(&self) -> Option<StepReport> {
        let error = self.unsaved.clone()?;
        let (action, reason) =
            ("record this run in the schedule", "what was marked is dropped only after runs that are");
        Some(StepReport { action: action.to_owned(), reason: reason.to_owned(), error: Some(error) })
    }

    pub(super) async fn save(&mut self, random: &Random) -> Result<(), KopiaError> {
        self.check().await?;
        let stored = self.schedule.seal(&self.format, random_bytes(random));
        let stored: Bytes = stored.map_err(|e| KopiaError::damaged(format!("blob {MAINTENANCE}"), e))?.into();
        let put = self.blobs.put(MAINTENANCE, stored.clone()).await;
        // A put that failed may have had its effect.
        if put.is_ok() || matches!(read(&self.blobs).await, Ok(now) if now.as_ref() == Some(&stored)) {
            self.stored = Some(stored);
        }
        put
    }
}

async fn read(blobs: &Blobs) -> Result<Option<Bytes>, KopiaError> {
    blobs.read_if_there(MAINTENANCE, MAX_SCHEDULE).await
}
