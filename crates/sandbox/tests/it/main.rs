//! The protocol of an API server, held against the sandbox and against a real one.

#![allow(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod client;
mod limits;
mod pieces;
mod printers;
mod suite;
mod tables;

use client::Api;
use lifeboat_sandbox::{MemoryStore, ObjectStore, Sandbox, SandboxOptions};
use std::sync::Arc;

/// A sandbox whose clock is the system's and whose uids count up.
async fn sandbox(store: impl ObjectStore + 'static) -> Sandbox {
    let options = SandboxOptions {
        token: "a \"token\"".to_owned(),
        now: Arc::new(jiff::Timestamp::now),
        ..SandboxOptions::for_tests()
    };
    Sandbox::start_over(options, Arc::new(store)).await.unwrap()
}

/// The real API server that `make test` starts.
async fn control_plane() -> Api {
    let path = std::env::var("LIFEBOAT_TEST_KUBECONFIG")
        .expect("LIFEBOAT_TEST_KUBECONFIG is not set: run the tests with `make test`, which starts a control plane");
    Api::connect(&std::fs::read_to_string(path).unwrap()).await
}

macro_rules! protocol {
    ($($module:ident: [$($name:ident,)*])*) => {
        mod on_sandbox {
            $($(#[tokio::test]
            async fn $name() {
                let sandbox = super::sandbox(super::MemoryStore::default()).await;
                super::$module::$name(&super::Api::connect(&sandbox.kubeconfig()).await).await;
                sandbox.shutdown().await;
            })*)*
        }

        mod on_control_plane {
            $($(#[tokio::test]
            async fn $name() {
                super::$module::$name(&super::control_plane().await).await;
            })*)*
        }
    };
}

protocol! {
    suite: [
        an_object_lives_and_dies,
        writes_conflict,
        names_are_generated,
        a_namespace_must_exist,
        namespaces_are_furnished_and_some_immortal,
        a_terminating_namespace_takes_nothing_and_waits_for_finalizers,
        finalizers_hold_an_object,
        pages_are_of_one_revision,
        lists_have_the_order_of_namespace_slash_name,
        selectors_select,
        forms_of_answers,
        a_watch_tells_what_happens,
        a_watch_begins_with_what_is_there,
        patches_are_applied_or_refused,
        custom_types_come_and_go,
        status_is_a_world_of_its_own,
        a_dry_run_changes_nothing,
        dependents_follow_their_owners,
        orphans_stay,
        deletion_checks_preconditions,
        collections_are_deleted,
        requests_that_make_no_sense_are_refused,
        reviews_are_answered,
        documents_are_served,
        open_api_v2_is_answered_in_both_forms,
    ]
    tables: [
        tables_of_custom_types_have_their_columns,
        rows_hold_what_is_asked_for,
        a_watch_declares_columns_once,
        a_watch_of_rows_alone_tells_where_its_beginning_ends,
        schemas_of_custom_types_are_published,
    ]
}
