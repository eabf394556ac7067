//! Several clusters that share one bucket.

mod one_bucket;
mod two_clusters;
