//! The details of a status beside its text (velero: pkg/plugin/framework/common/server_errors.go).

use prost::Message;
use prost_types::Any;

/// The type of [`Stack`](crate::generated::Stack) among the details of a status.
pub const STACK_TYPE: &str = "type.googleapis.com/generated.Stack";

/// `google.rpc.Status`, which gRPC sends along as the details of a status.
#[derive(Clone, PartialEq, Message)]
pub struct DetailedStatus {
    /// The code of the status.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The text of the status.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Its details, each with its type.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}
