//! API servers and buckets that refuse, are silent, or break off.

mod api_server;
mod bucket;
mod bucket_away;
