//! The password of all repositories of a namespace, which a Secret holds (velero: pkg/repository/keys/keys.go).
//!
//! Where there is no Secret, one is made. A password is invented only where no repository is that could have another: each location
//! of the namespace is looked at first. Repositories that open with the password that Velero gives all of its installations keep it.

use super::open::look_options;
use crate::work::Context;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use lifeboat_api::well_known::{KEY_REPOSITORY_PASSWORD, LABEL_COMPONENT, SECRET_REPOSITORY};
use lifeboat_api::{BackupRepository, BackupStorageLocation};
use lifeboat_bucket::{BlobStore, Entry, ListOptions};
use lifeboat_cluster::WriteBody;
use lifeboat_kopia::crypto::{Password, Zeroizing};
use lifeboat_object::{ApiResource, chain};
use lifeboat_repository::{DEFAULT_PASSWORD, RepositoryError, blobs_of, ensure};
use serde_json::{Value, json};
use std::sync::Arc;

/// Random bytes of a password that is made.
const RANDOM: usize = 24;
/// The folder below which the repositories of a location lie, one folder for each namespace.
const REPOSITORIES: &str = "kopia/";

/// The password of repositories, for this location; the Secret is made where there is none.
///
/// # Errors
/// A message for people.
pub(super) async fn password(context: &Context, location: &BackupStorageLocation) -> Result<Password, String> {
    if let Some(known) = read(context).await? {
        return Ok(known);
    }
    let chosen = choose(context, location).await?;
    create(context, &chosen).await?;
    // Another program may have been faster.
    read(context).await?.ok_or_else(|| format!("the Secret {SECRET_REPOSITORY} was made, and is gone again"))
}

/// The password of repositories that are there; no Secret is made.
///
/// # Errors
/// A message for people.
pub(super) async fn known_password(context: &Context) -> Result<Password, String> {
    read(context).await?.ok_or_else(|| {
        format!("there is no Secret {SECRET_REPOSITORY} with their password: {}", make_it(&context.client.namespace))
    })
}

/// The password in the Secret; `None` when there is no Secret.
async fn read(context: &Context) -> Result<Option<Password>, String> {
    let client = &context.client;
    let found = client.cluster.get(&secrets(), Some(&client.namespace), SECRET_REPOSITORY).await;
    let Some(found) = found.map_err(|e| format!("unable to get secret {SECRET_REPOSITORY}: {e}"))? else {
        return Ok(None);
    };
    let mut secret: Value =
        serde_json::from_slice(&found).map_err(|e| format!("secret {SECRET_REPOSITORY} is no JSON: {e}"))?;
    let key = KEY_REPOSITORY_PASSWORD;
    let Some(Value::String(data)) = secret.pointer_mut(&format!("/data/{key}")).map(Value::take) else {
        return Err(format!("secret {SECRET_REPOSITORY} has no key {key}: {}", make_it(&context.client.namespace)));
    };
    let data = Zeroizing::new(data);
    let decoded =
        STANDARD.decode(data.as_bytes()).map_err(|_| format!("secret {SECRET_REPOSITORY}: key {key} is no base64"))?;
    let password =
        Password::from_bytes(decoded).ok_or_else(|| format!("secret {SECRET_REPOSITORY}: key {key} is no text"))?;
    let password = password.trimmed();
    if password.as_bytes().is_empty() {
        return Err(format!("secret {SECRET_REPOSITORY}: key {key} is empty: {}", make_it(&context.client.namespace)));
    }
    Ok(Some(password))
}

/// A password for repositories of which nobody has told the password.
async fn choose(context: &Context, location: &BackupStorageLocation) -> Result<Password, String> {
    let locations: Vec<BackupStorageLocation> =
        context.client.list("").await.map_err(|e| format!("error listing backup storage locations: {e}"))?;
    // That of the repository that is asked for comes first: its failure is the one to tell of.
    let (own, others): (Vec<_>, Vec<_>) =
        locations.into_iter().partition(|other| other.metadata.name == location.metadata.name);
    for location in own.iter().chain(&others) {
        let name = &location.metadata.name;
        let unknown = |why: String| {
            format!(
                "there is no Secret {SECRET_REPOSITORY}, and it is not known whether location {name} has repositories, whose password would \
                 have to be in it: {why}; {}",
                make_it(&context.client.namespace)
            )
        };
        let bucket = context.visited_bucket(location).await.map_err(unknown)?;
        let Some(namespace) = first_repository(&*bucket).await.map_err(unknown)? else { continue };
        return of_velero(context, location, bucket, &namespace).await;
    }
    let mut bytes = Zeroizing::new([0_u8; RANDOM]);
    (context.env.random.0)(&mut *bytes);
    tracing::info!(
        secret = SECRET_REPOSITORY,
        "a random password of repositories is made: keep a copy of the Secret elsewhere"
    );
    Ok(Password::new(URL_SAFE_NO_PAD.encode(bytes.as_slice())))
}

/// Velero's password, when it opens this repository.
async fn of_velero(
    context: &Context,
    location: &BackupStorageLocation,
    bucket: Arc<dyn BlobStore>,
    namespace: &str,
) -> Result<Password, String> {
    let blobs = blobs_of(bucket, namespace);
    let password = Password::new(DEFAULT_PASSWORD.to_owned());
    let opened = ensure(blobs, &password, &look_options(context)).await;
    match opened {
        Ok(()) => {
            tracing::info!(
                secret = SECRET_REPOSITORY,
                location = location.metadata.name,
                "the repositories that are there have Velero's password: the Secret is made with it"
            );
            Ok(password)
        }
        Err(error) => {
            let why = if error.is_wrong_password() {
                "it is not the one that Velero gives".to_owned()
            } else {
                chain(&error)
            };
            Err(format!(
                "location {} has repositories (that of namespace {namespace} is one), and there is no Secret {SECRET_REPOSITORY} with their \
                 password: {why}; {}",
                location.metadata.name,
                make_it(&context.client.namespace)
            ))
        }
    }
}

/// The namespace of the first repository in the bucket of a location.
async fn first_repository(bucket: &dyn BlobStore) -> Result<Option<String>, String> {
    let mut options = ListOptions {
        prefix: REPOSITORIES.to_owned(),
        delimiter: Some("/".to_owned()),
        prefixes_only: true,
        ..ListOptions::default()
    };
    loop {
        let page = bucket.list(options.clone()).await.map_err(|e| e.to_string())?;
        let mut namespaces = page.entries.into_iter().filter_map(|entry| match entry {
            Entry::Prefix(prefix) => Some(prefix.strip_prefix(REPOSITORIES)?.trim_end_matches('/').to_owned()),
            Entry::Object(_) => None,
        });
        // Objects beside the folders, such as the marks that some tools make for folders, say nothing.
        if let Some(namespace) = namespaces.next() {
            return Ok(Some(namespace));
        }
        match page.continuation {
            None => return Ok(None),
            next => options.continuation = next,
        }
    }
}

/// Makes the Secret. One that is there already stays.
async fn create(context: &Context, password: &Password) -> Result<(), String> {
    let client = &context.client;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": SECRET_REPOSITORY, "namespace": client.namespace, "labels": {LABEL_COMPONENT: "velero"}},
        "data": {KEY_REPOSITORY_PASSWORD: STANDARD.encode(password.as_bytes())},
    });
    let body = WriteBody::of(Bytes::from(secret.to_string()));
    match client.cluster.create(&secrets(), Some(&client.namespace), SECRET_REPOSITORY, body).await {
        Err(e) if !e.is_already_exists() => {
            Err(format!("unable to create secret {SECRET_REPOSITORY}: {e}; {}", make_it(&client.namespace)))
        }
        _ => Ok(()),
    }
}

/// The error of a repository, with the next step for somebody whose Secret has another password.
pub(super) fn explained(error: &RepositoryError) -> String {
    match error.is_wrong_password() {
        true => format!("{}: {}", chain(error), BackupRepository::wrong_password_advice(DEFAULT_PASSWORD)),
        false => chain(error),
    }
}

fn make_it(namespace: &str) -> String {
    format!(
        "make it with the password that they were made with: kubectl create secret generic {SECRET_REPOSITORY} -n {namespace} \
         --from-literal={KEY_REPOSITORY_PASSWORD}=…"
    )
}

fn secrets() -> ApiResource {
    ApiResource::new("", "v1", "secrets", "Secret")
}
