//! A look for contents of an object that are lost. The bytes of the object are not read, its listings are.

use super::extents::parts;
use crate::KopiaError;
use crate::content::writer::ContentWriter;
use crate::format::content_id::ContentId;
use crate::format::object_id::ObjectId;
use futures::TryStreamExt;
use std::collections::HashSet;

/// The most objects with listings that belong to one object. A part of a file has one, and kopia cuts files into parts of
/// 2 GiB.
const MOST_LISTINGS: usize = 100_000;

/// Finds a content of an object that is missing or marked deleted, as indexes and the writer know it, and says which. Those of
/// its listings are among them. `None` where the object is whole.
///
/// # Errors
/// Errors of the bucket and of the scratch space.
pub async fn find_loss(contents: &ContentWriter, object: &ObjectId) -> Result<Option<String>, KopiaError> {
    match look_through(contents, object).await {
        // A listing that nobody can read, or the pack of it, is lost as well.
        Err(error) if error.concerns_one() => Ok(Some(error.to_string())),
        result => result,
    }
}

async fn look_through(contents: &ContentWriter, object: &ObjectId) -> Result<Option<String>, KopiaError> {
    let mut open = vec![*object];
    let mut walked = HashSet::new();
    while let Some(object) = open.pop() {
        let loss = loss_of(contents, &object.content)?;
        if loss.is_some() {
            return Ok(loss);
        }
        let Some(listing) = object.listing() else { continue };
        if !walked.insert(object) {
            continue;
        }
        if walked.len() > MOST_LISTINGS || open.len() > MOST_LISTINGS {
            return Err(KopiaError::Unsupported { what: format!("an object with more than {MOST_LISTINGS} listings") });
        }
        open.push(listing);
        let mut parts = parts(contents.stored_contents(), &object)?;
        while let Some(part) = parts.try_next().await? {
            if part.object.levels > 0 {
                open.push(part.object);
                continue;
            }
            // A file of terabytes has a million of them: none is kept.
            let loss = loss_of(contents, &part.object.content)?;
            if loss.is_some() {
                return Ok(loss);
            }
        }
    }
    Ok(None)
}

fn loss_of(contents: &ContentWriter, id: &ContentId) -> Result<Option<String>, KopiaError> {
    Ok(match contents.find(id)? {
        None => Some(format!("content {id} is missing")),
        Some(entry) if entry.is_deleted => Some(format!("content {id} is marked deleted")),
        Some(_) => None,
    })
}
